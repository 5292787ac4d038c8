"""Pictures show what was measured, and nothing else."""

import itertools
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualsweep import LinearSVC, LinearSVCCV
from dualsweep.estimators import MulticlassComparison
from dualsweep.io import load_model, save_model
from dualsweep.plotting import ComparisonDisplay, ConvergenceDisplay, PathDisplay

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")


@pytest.fixture(scope="module")
def data():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model(data):
    return LinearSVC(tol=1e-5, solver="sweep", random_state=0).fit(*data)


@pytest.fixture(scope="module")
def binary(data):
    X, y = data
    return LinearSVC(tol=1e-5, solver="sweep", random_state=0).fit(X[50:], y[50:])


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def expected_curve(model, problem, x="epoch"):
    """Points and whether they are certified, of one problem, from the model's attributes."""
    history = model.history_[model.history_["problem"] == problem]
    estimates = model.estimates_[model.estimates_["problem"] == problem]
    certified = {e["epoch"]: (e[x], e["gap"] / e["primal"]) for e in history}
    seen = {e["epoch"]: (e[x], e["relative_gap"]) for e in estimates}
    epochs = sorted(certified | seen)
    points = np.array([(seen | certified)[epoch] for epoch in epochs])
    points[:, 1] = np.minimum(points[:, 1], 1.0)  # 1 proves nothing, and neither does more
    return points, [epoch in certified for epoch in epochs]


@pytest.mark.parametrize(
    ("x", "label"), [("epoch", "Epochs (sweeps and Newton steps)"), ("time", "Training time (s)")]
)
def test_the_curve_is_every_epoch_and_certificates_are_marked(binary, ax, x, label):
    display = ConvergenceDisplay.from_estimator(binary, ax=ax, x=x)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.get_yscale() == "log"
    points, certified = expected_curve(binary, 0, x)
    assert len(points) == binary.n_iter_ + 1  # every sweep and Newton step, and the start
    assert sum(certified) < len(points)  # there is more to see than certificates
    np.testing.assert_array_equal(display.line_.get_xydata(), points)
    assert display.line_.get_markevery() == certified
    assert display.line_.get_ydata()[-1] == pytest.approx(binary.relative_gap_, rel=1e-9)
    assert display.band_ is None
    assert ax.get_title() == "Gap after each epoch; marks are certificates"
    assert ax.get_xlabel() == label
    assert ax.get_ylabel() == "Relative duality gap"


@pytest.mark.parametrize("x", ["epoch", "time"])
def test_of_several_classes_the_worst_is_the_curve_and_all_are_the_band(model, ax, x):
    display = ConvergenceDisplay.from_estimator(model, ax=ax, x=x)
    curves = [expected_curve(model, problem, x)[0] for problem in range(3)]
    worst = max(curves, key=lambda points: points[-1, 0])  # all have reached tol: the last
    np.testing.assert_array_equal(display.line_.get_xydata(), worst)

    def known(points, moment):
        return points[max(np.flatnonzero(points[:, 0] <= moment), default=0), 1]

    edges = band(display.band_)
    moments = np.unique(np.concatenate([points[:, 0] for points in curves]))
    assert set(moments) <= set(edges)
    for moment, following in itertools.pairwise(moments):  # steps: both levels at each moment
        now = [known(points, moment) for points in curves]
        assert edges[following][0] <= max(min(now), worst[:, 1].min())
        assert edges[following][1] >= max(now)
    last = [points[-1, 1] for points in curves]
    level = display.band_.get_paths()[0].vertices
    assert max(last) in level[level[:, 0] == moments[-1], 1]
    assert level[:, 1].min() == worst[:, 1].min()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[:2] == [
        "LinearSVC, worst of 3 classes",
        "all classes" if x == "epoch" else "all classes, each with its own clock",
    ]


def test_what_cannot_be_drawn_against(model):
    with pytest.raises(ValueError, match="x must be 'epoch' or 'time', but is 'visits'"):
        ConvergenceDisplay.from_estimator(model, x="visits")


def test_a_class_that_did_not_reach_tol_is_the_worst(data, ax):
    model = LinearSVC(tol=1e-9, max_iter=30, solver="sweep", random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(*data)
    display = ConvergenceDisplay.from_estimator(model, ax=ax)
    assert display.line_.get_ydata()[-1] == pytest.approx(model.relative_gap_, rel=1e-9)


def test_without_estimates_certificates_are_drawn(model, ax, tmp_path):
    save_model(model, tmp_path / "m.npz")
    display = ConvergenceDisplay.from_estimator(load_model(tmp_path / "m.npz"), ax=ax)
    last = model.history_[np.flatnonzero(np.diff(model.history_["problem"], append=-1))]
    worst = np.argmax(last["epoch"])
    history = model.history_[model.history_["problem"] == worst]
    epochs = dict(zip(history["epoch"], history["gap"] / history["primal"], strict=True))
    np.testing.assert_array_equal(display.line_.get_ydata(), list(epochs.values()))
    assert all(display.line_.get_markevery())


def test_tol_is_a_dashed_line(model, ax):
    display = ConvergenceDisplay.from_estimator(model, ax=ax)
    assert display.tol_line_.get_linestyle() == "--"
    np.testing.assert_array_equal(display.tol_line_.get_ydata(), [1e-5, 1e-5])


def test_several_fits_share_an_axis_and_differ_without_colours(model, binary, ax):
    first = ConvergenceDisplay.from_estimator(model, ax=ax, name="three classes")
    second = ConvergenceDisplay.from_estimator(binary, ax=ax, name="two classes")
    for look in ("get_color", "get_linestyle", "get_marker"):
        assert getattr(first.line_, look)() != getattr(second.line_, look)()
    assert second.tol_line_ is first.tol_line_
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[0] == "three classes, worst of 3 classes"
    assert texts[2:] == ["tol = 1e-05", "two classes"]


def test_several_fits_in_one_call(data, model):
    X, y = data
    other = LinearSVC(tol=1e-3, random_state=0).fit(X[:100], y[:100])
    displays = ConvergenceDisplay.from_estimators({"three": model, "two": other}, marker="x")
    try:
        first, second = displays
        assert first.ax_ is second.ax_
        assert second.line_.get_color() != first.line_.get_color()
        np.testing.assert_array_equal(second.line_.get_xydata(), expected_curve(other, 0)[0])
        assert first.line_.get_marker() == second.line_.get_marker() == "x"
        texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
        assert texts[3:] == ["two", "tol = 0.001"]
    finally:
        plt.close(displays[0].figure_)
    with pytest.raises(TypeError, match="a dict of names and fitted estimators, but got a list"):
        ConvergenceDisplay.from_estimators([model])


def test_a_new_figure_and_the_users_style(binary):
    display = ConvergenceDisplay.from_estimator(binary, color="red", marker="x")
    try:
        assert display.line_.get_color() == "red"
        assert display.line_.get_marker() == "x"
        assert display.ax_.get_legend().get_texts()[0].get_text() == "LinearSVC"
        display.figure_.canvas.draw()
    finally:
        plt.close(display.figure_)


def test_plot_again_under_another_name(binary, ax):
    display = ConvergenceDisplay(binary.history_)
    assert display.plot(ax, name="again") is display
    assert display.tol_line_ is None
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["again"]


def test_rounding_errors_do_not_set_the_scale(binary, ax):
    history = binary.history_.copy()
    history["gap"][-1] = 1e-30
    ConvergenceDisplay(history).plot(ax)
    assert ax.get_ylim()[0] == 1e-16
    history["gap"][0] = 100 * history["primal"][0]
    ConvergenceDisplay(history).plot(ax)  # what comes later is seen
    assert ax.get_ylim()[0] == 1e-16
    assert ax.get_ylim()[1] > 100


def test_an_unfitted_estimator_is_refused():
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(LinearSVC())


def test_a_pipeline_is_told_what_to_do(data):
    pipeline = make_pipeline(StandardScaler(), LinearSVC(random_state=0)).fit(*data)
    with pytest.raises(TypeError, match=r"pass the last step: pipeline\[-1\]"):
        ConvergenceDisplay.from_estimator(pipeline)


def test_without_matplotlib_the_error_says_how_to_get_it(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "dualsweep\[plot\]"'):
        ConvergenceDisplay.from_estimator(model)
    with pytest.raises(ImportError, match=r"PathDisplay.*dualsweep\[plot\]"):
        PathDisplay([1.0], [[1.0]], [[1]], [[1.0]]).plot()


# ------------------------------------------------------------------------------------- the path


@pytest.fixture(scope="module")
def search(data):
    return LinearSVCCV(Cs=4, cv=3, patience=None, random_state=0).fit(*data)


def band(collection):
    """Lower and upper edge of what `fill_between` drew, at each C."""
    vertices = collection.get_paths()[0].vertices
    return {
        C: (vertices[vertices[:, 0] == C, 1].min(), vertices[vertices[:, 0] == C, 1].max())
        for C in np.unique(vertices[:, 0])
    }


def test_path_shows_means_and_spreads(search):
    display = PathDisplay.from_estimator(search, name="iris")
    try:
        score, support, seconds = display.lines_
        for line, values in (
            (score, search.scores_),
            (support, search.n_support_),
            (seconds, search.fit_time_),
        ):
            np.testing.assert_array_equal(line.get_xdata(), search.Cs_)
            np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
        edges = band(display.spreads_[0])
        for j, C in enumerate(search.Cs_):
            spread = search.scores_[:, j].std(ddof=1) / np.sqrt(3)
            middle = search.scores_[:, j].mean()
            np.testing.assert_allclose(edges[C], [middle - spread, middle + spread])
            support_edges = band(display.spreads_[1])[C]
            assert support_edges == (search.n_support_[:, j].min(), search.n_support_[:, j].max())
        for line in display.C_lines_:
            np.testing.assert_array_equal(line.get_xdata(), [search.C_, search.C_])
        assert len(display.axes_) == len(display.C_lines_) == 3
        assert all(ax.get_xscale() == "log" for ax in display.axes_)
        assert display.axes_[0].get_ylabel() == "Mean accuracy"
        assert display.axes_[2].get_xlabel() == "C"
        assert display.axes_[0].get_title() == "The search for C, 3 folds"
        for ax in display.axes_:  # the values of C that were tried, and nothing else
            np.testing.assert_array_equal(ax.get_xticks(), search.Cs_)
            assert len(ax.get_xticks(minor=True)) == 0
        labels = [tick.get_text() for tick in display.axes_[2].get_xticklabels()]
        assert labels == [f"{C:.3g}" for C in search.Cs_]
        explained = [[text.get_text() for text in ax.get_legend().get_texts()]
                     for ax in display.axes_]  # fmt: skip
        assert explained == [
            ["iris", "± one standard error", f"chosen: C = {search.C_:.3g}"],
            ["smallest to largest of the folds"],
            ["smallest to largest of the folds"],
        ]
        display.figure_.canvas.draw()
    finally:
        plt.close(display.figure_)


def test_path_on_one_axes_is_the_score(search, ax):
    display = PathDisplay.from_estimator(search, ax=ax, color="red")
    assert display.axes_ == [ax]
    assert [line.get_color() for line in display.lines_] == ["red"]
    again = display.plot(ax, name="again")
    assert again is display
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[::3] == ["mean of the folds", "again"]
    assert len({line.get_marker() for line in ax.lines if line.get_marker() != "None"}) == 2


def test_paths_of_other_values_share_ticks(search, data, ax):
    other = LinearSVCCV(Cs=[0.5, 2.0, 100.0], cv=3, patience=None, random_state=0).fit(*data)
    PathDisplay.from_estimator(search, ax=ax)
    PathDisplay.from_estimator(other, ax=ax)
    np.testing.assert_array_equal(ax.get_xticks(), np.union1d(search.Cs_, other.Cs_))


@pytest.mark.parametrize("n", [1, 2])
def test_path_of_few_values(n, ax):
    Cs, ones = np.array([0.1, 10.0])[:n], np.ones((2, n))
    PathDisplay(Cs, ones, ones, ones, C=0.1).plot(ax, marker="")
    np.testing.assert_array_equal(ax.get_xticks(), Cs)


def test_path_of_many_values_labels_some(ax):
    Cs = np.geomspace(1e-3, 1e3, 31)
    PathDisplay(Cs, np.ones((2, 31)), np.ones((2, 31)), np.ones((2, 31))).plot(ax)
    labels = [tick.get_text() for tick in ax.get_xticklabels()]
    assert len(labels) == 31
    assert [label for label in labels if label] == [f"{C:.3g}" for C in Cs[::4]]


def test_path_of_one_fold_has_no_spread(data, ax):
    X, y = data
    fold = np.arange(len(y)) % 3 > 0
    search = LinearSVCCV(Cs=3, cv=[(fold, ~fold)], random_state=0).fit(X, y)
    display = PathDisplay.from_estimator(search, ax=ax)
    assert all(low == high for low, high in band(display.spreads_[0]).values())
    assert ax.get_title() == "The search for C, 1 fold"
    assert "± one standard error" not in [text.get_text() for text in ax.get_legend().get_texts()]


def test_path_refuses_what_it_cannot_draw(data, model, search):
    with pytest.raises(NotFittedError):
        PathDisplay.from_estimator(LinearSVCCV())
    with pytest.raises(TypeError, match="LinearSVC has no scores_"):
        PathDisplay.from_estimator(model)
    figure, axes = plt.subplots(2)
    with pytest.raises(ValueError, match="or three, but is 2"):
        PathDisplay.from_estimator(search, ax=axes)
    plt.close(figure)


def test_convergence_of_the_chosen_model(search, ax):
    display = ConvergenceDisplay.from_estimator(search, ax=ax)
    last = search.history_[np.flatnonzero(np.diff(search.history_["problem"], append=-1))]
    slowest = last[np.argmax(last["epoch"])]
    assert display.line_.get_ydata()[-1] == slowest["gap"] / slowest["primal"]


# ------------------------------------------------------------------------------- the comparison


def test_comparison_shows_accuracies_p_values_and_what_was_chosen(ax):
    accuracy = 0.9 + 0.01 * np.random.default_rng(0).normal(size=(5, 3))
    accuracy[:, 2] = accuracy.max() + 0.01 * np.arange(1, 6)  # wins each time
    C = np.array([[1.0, 0.1, 3.0]] * 4 + [[1.0, 0.3, 3.0]])
    methods = ("ovr", "crammer_singer", "weston_watkins")
    comparison = MulticlassComparison(methods, accuracy, C, np.zeros((5, 3)))
    display = ComparisonDisplay(comparison).plot(ax)
    assert display.ax_ is ax
    for line, row in zip(display.lines_, accuracy, strict=True):
        np.testing.assert_allclose(line.get_ydata(), 100 * row)
    means, caps, _ = display.means_
    np.testing.assert_allclose(means.get_ydata(), 100 * accuracy.mean(axis=0))
    lower = means.get_ydata() - 100 * accuracy.std(axis=0, ddof=1)
    np.testing.assert_allclose(caps[0].get_ydata(), lower)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [
        "one versus rest\nC = 1",
        "Crammer-Singer\nC = 0.1 to 0.3",
        "Weston-Watkins\nC = 3",
    ]
    texts = [text.get_text() for text in display.p_values_]
    assert texts == [f"p = {p:.2g}" for p in comparison.p_values.values()]
    assert texts[1:] == ["p = 0.062"] * 2  # the smallest of five partitions
    assert ax.get_title().endswith("5 partitions can show p = 0.062 at best")
    # Brackets are above what they compare, and inside the axes.
    heights = [text.xy[1] for text in display.p_values_]
    assert 100 * accuracy.max() < min(heights)
    assert max(heights) < ax.get_ylim()[1]

"""The curves are the history, and nothing else."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualsweep import LinearSVC, LinearSVCCV
from dualsweep.plotting import ConvergenceDisplay, PathDisplay

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")


@pytest.fixture(scope="module")
def data():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model(data):
    return LinearSVC(tol=1e-5, random_state=0).fit(*data)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_lines_are_the_history(model, ax):
    display = ConvergenceDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.get_yscale() == "log"
    assert len(display.lines_) == 3  # one-versus-rest
    for problem, line in enumerate(display.lines_):
        history = model.history_[model.history_["problem"] == problem]
        np.testing.assert_array_equal(line.get_xdata(), history["time"])
        np.testing.assert_array_equal(line.get_ydata(), history["gap"] / history["primal"])
    assert max(line.get_ydata()[-1] for line in display.lines_) == model.relative_gap_


def test_tol_is_a_dashed_line(model, ax):
    display = ConvergenceDisplay.from_estimator(model, ax=ax)
    assert display.tol_line_.get_linestyle() == "--"
    np.testing.assert_array_equal(display.tol_line_.get_ydata(), [1e-5, 1e-5])


def test_several_fits_share_an_axis(data, model, ax):
    X, y = data
    binary = LinearSVC(tol=1e-5, random_state=0).fit(X[:100], y[:100])
    first = ConvergenceDisplay.from_estimator(model, ax=ax, name="three classes")
    second = ConvergenceDisplay.from_estimator(binary, ax=ax, name="two classes")
    assert len({line.get_color() for line in first.lines_}) == 1
    assert second.lines_[0].get_color() != first.lines_[0].get_color()
    assert second.tol_line_ is first.tol_line_
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["three classes", "tol = 1e-05", "two classes"]


def test_several_fits_in_one_call(data, model):
    X, y = data
    binary = LinearSVC(tol=1e-3, random_state=0).fit(X[:100], y[:100])
    displays = ConvergenceDisplay.from_estimators({"three": model, "two": binary}, marker="x")
    try:
        first, second = displays
        assert first.ax_ is second.ax_
        assert [len(display.lines_) for display in displays] == [3, 1]
        assert second.lines_[0].get_color() != first.lines_[0].get_color()
        np.testing.assert_array_equal(second.lines_[0].get_xdata(), binary.history_["time"])
        assert {line.get_marker() for line in first.lines_ + second.lines_} == {"x"}
        texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
        assert texts == ["three", "tol = 1e-05", "two", "tol = 0.001"]
    finally:
        plt.close(displays[0].figure_)
    with pytest.raises(TypeError, match="a dict of names and fitted estimators, but got a list"):
        ConvergenceDisplay.from_estimators([model])


def test_a_new_figure_and_the_users_style(model):
    display = ConvergenceDisplay.from_estimator(model, color="red", marker="x")
    try:
        assert {line.get_color() for line in display.lines_} == {"red"}
        assert {line.get_marker() for line in display.lines_} == {"x"}
        assert display.ax_.get_legend().get_texts()[0].get_text() == "LinearSVC"
        display.figure_.canvas.draw()
    finally:
        plt.close(display.figure_)


def test_plot_again_under_another_name(model, ax):
    display = ConvergenceDisplay(model.history_)
    assert display.plot(ax, name="again") is display
    assert display.tol_line_ is None
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["again"]


def test_rounding_errors_do_not_set_the_scale(model, ax):
    history = model.history_.copy()
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
        assert [text.get_text() for text in display.axes_[0].get_legend().get_texts()] == ["iris"]
        display.figure_.canvas.draw()
    finally:
        plt.close(display.figure_)


def test_path_on_one_axes_is_the_score(search, ax):
    display = PathDisplay.from_estimator(search, ax=ax, color="red")
    assert display.axes_ == [ax]
    assert [line.get_color() for line in display.lines_] == ["red"]
    again = display.plot(ax, name="again")
    assert again is display
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["again"]


def test_path_of_one_fold_has_no_spread(data, ax):
    X, y = data
    fold = np.arange(len(y)) % 3 > 0
    search = LinearSVCCV(Cs=3, cv=[(fold, ~fold)], random_state=0).fit(X, y)
    display = PathDisplay.from_estimator(search, ax=ax)
    assert all(low == high for low, high in band(display.spreads_[0]).values())


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
    assert max(line.get_ydata()[-1] for line in display.lines_) == search.relative_gap_

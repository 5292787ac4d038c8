"""The curves are the history, and nothing else."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualsweep import LinearSVC
from dualsweep.plotting import ConvergenceDisplay

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

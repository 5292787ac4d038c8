"""Checkpoints of runs, and what the pages of the papers make of them."""

import sys
from itertools import pairwise
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from scipy.sparse import csr_matrix

pd = pytest.importorskip("pandas")
pytest.importorskip("benchopt")

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def papers():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        from papers import pages, tracing

        yield pages, tracing


class Fake:
    """A system whose weights are the number of the point, and whose violation falls."""

    tol = 0.0

    def points(self, X, y):
        point = sys.modules["benchmark_utils"].Point
        for number in range(1, 10_000):
            spend(0.002)
            yield point(np.full(2, float(number)), number, 10 * number, 1.0 / number)

    def split(self, w):
        return w[None, :-1], w[-1:]


def spend(seconds):
    end = process_time() + seconds
    while process_time() < end:
        pass


def test_the_clock_stands_still_while_a_checkpoint_is_looked_at(papers):
    _, tracing = papers
    figures = []
    for _, figure in tracing.checkpoints(Fake(), None, None, cap=0.1):
        spend(0.02)
        figures.append(figure)
    seconds = [figure["seconds"] for figure in figures]
    assert seconds[-1] > 0.1
    assert 30 <= figures[-1]["passes"] <= 51  # of 0.002 s each
    assert all(b >= 1.1 * a for a, b in pairwise(seconds[:-1]))


def test_a_run_is_over_when_its_own_rule_says_so(papers):
    _, tracing = papers
    system = Fake()
    system.tol = 0.1
    (coef, intercept), figures = list(tracing.checkpoints(system, None, None, cap=10.0))[-1]
    assert (coef.item(), intercept.item(), figures["steps"]) == (10.0, 10.0, 100)


@pytest.fixture
def data(monkeypatch, tmp_path, papers):
    rng = np.random.default_rng(0)
    for name, n in (("a9a", 200), ("a9a.t", 60)):
        X = csr_matrix(rng.normal(size=(n, 6)), dtype=np.float32)
        y = np.where(X @ np.arange(6) + rng.normal(size=n) > 2.0, 1, -1)
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
        np.savez(tmp_path / f"{name}.npz", **parts, shape=X.shape, y=y)
    monkeypatch.setenv("DUALSWEEP_DATA", str(tmp_path))
    _, tracing = papers
    caches = sys.modules["benchmark_utils"].load_data, tracing.load_split
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_runs_are_measured_once_from_start_to_floor(papers, data, tmp_path):
    pages, tracing = papers
    out = tmp_path / "runs.csv"
    task = tracing.Task("a9a", "hinge", 0.5, fit_intercept=False)
    systems = {"DCD": ("sweeps", {"schedule": "permuted"}), "ladder": ("sklearn", {})}
    tracing.measure(out, [task], systems, cap=20.0, floor=1e-3)
    text = out.read_text()
    tracing.measure(out, [task], systems, cap=20.0, floor=1e-3)
    assert out.read_text() == text
    assert text.startswith("# Begun on ")

    frame = pages.read(out)
    assert set(frame["system"]) == set(systems)
    assert (frame["unsure"] <= 1e-7).all()
    for _, run in frame.groupby("system"):
        assert (run["error"].iloc[:-1] > 1e-3).all()
        assert 0.0 <= run["error"].iloc[-1] <= 1e-3
    split = tracing.load_split("a9a", binary=True)
    assert split.X.shape == (200, 6)
    assert split.X_test.shape == (60, 6)


@pytest.mark.parametrize("schedule", ["permuted", "shrinking", "adaptive"])
def test_sweeps_stop_by_the_papers_rules(papers, data, schedule):
    _, tracing = papers
    task = tracing.Task("a9a", "hinge", 0.5, fit_intercept=False)
    loose, tight = (
        tracing.trace("sweeps", {"schedule": schedule, "tol": tol}, task, cap=20.0)[-1]
        for tol in (0.1, 0.001)
    )
    assert 0.001 < loose["violation"] <= 0.1
    assert tight["violation"] <= 0.001
    assert loose["steps"] < tight["steps"]


def test_times_are_the_first_to_get_there_and_medians_of_repeats(papers):
    pages, _ = papers
    task = {"data": "a", "loss": "hinge", "C": 1.0, "intercept": True}
    rows = [
        ("fast", 0, 1.0, 0.5), ("fast", 0, 2.0, 0.01), ("fast", 0, 3.0, 0.001),
        ("fast", 1, 4.0, 0.01),
        ("slow", 0, 9.0, 0.02),
    ]  # fmt: skip
    frame = pd.DataFrame(
        [{**task, "system": s, "rep": rep, "seconds": t, "error": e} for s, rep, t, e in rows]
    )
    table = pages.times(frame, 0.01).iloc[0]
    assert table["fast"] == 3.0
    assert np.isnan(table["slow"])
    shown = pages.show_times(frame, 0.01).iloc[0]
    assert (shown["fast"], shown["slow"]) == ("3", "(2e-02)")


def test_a_page_keeps_what_is_not_between_its_marks(papers, tmp_path):
    pages, _ = papers
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n")
    pages.fill(page, "a", "new \\1\n")
    assert page.read_text() == "before\n<!-- a -->\nnew \\1\n<!-- /a -->\nafter\n"
    with pytest.raises(ValueError, match="0 places for b"):
        pages.fill(page, "b", "new")


def test_a_sweep_over_free_rows_is_gauss_seidel(papers):
    from papers import order

    rng = np.random.default_rng(0)
    Z = rng.normal(size=(7, 3))
    Q = Z @ Z.T + np.eye(7)
    error = rng.normal(size=7)
    visited = error.copy()
    for i in range(7):  # the gradient of 1/2 e'Qe, divided by its curvature
        visited[i] -= Q[i] @ visited / Q[i, i]
    np.testing.assert_allclose(order.gauss_seidel(Q, error), visited, rtol=1e-10)

    value, mode = order.slowest_mode(Q)
    np.testing.assert_allclose(order.gauss_seidel(Q, mode), value * mode, atol=1e-8)
    for _ in range(200):
        error = order.gauss_seidel(Q, error)
        error /= np.linalg.norm(error)
    assert np.linalg.norm(order.gauss_seidel(Q, error)) <= 1.5 * abs(value)
    assert 0.0 < order.permuted_rate(Q) < 1.0

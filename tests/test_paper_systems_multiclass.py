"""The systems of the papers on many classes minimise the benchmark's objective."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_benchmarks import BENCHMARKS, load_script

from dualsweep import LinearSVC

pytest.importorskip("benchopt")
pytest.importorskip("piqp")

C = 0.05
# Name, parameters, loss, tolerance and how far above the optimum that leaves it.
SYSTEMS = [
    ("exponentiated_gradient", {}, "crammer_singer", 1e-10, 1e-4),
    ("bundle", {}, "crammer_singer", 1e-6, 1e-6),
    ("most_violating", {}, "crammer_singer", 1e-5, 1e-5),
    *(
        ("sweeps", {"schedule": schedule}, loss, 1e-6, 1e-6)
        for schedule in ("permuted", "alternating")
        for loss in ("crammer_singer", "weston_watkins")
    ),
]
FORGOTTEN = 2e-3  # how far above the optimum a system is that forgets something, at least


@pytest.fixture(scope="module")
def solvers():
    from benchopt.benchmark import Benchmark

    return {s.name: s for s in Benchmark(BENCHMARKS, seed=0, no_cache=True).get_solvers()}


@pytest.fixture(scope="module")
def primal():
    return load_script("objective").primal


def make_data():
    """Four classes of different sizes that overlap, and a row of zeros."""
    rng = np.random.default_rng(0)
    y = rng.choice(4, size=80, p=[0.5, 0.25, 0.15, 0.1])
    X = rng.normal(size=(80, 6)) * (rng.random((80, 6)) < 0.6) + rng.normal(size=(4, 6))[y]
    X[5] = 0.0
    return csr_matrix(X, dtype=np.float32), y


def certified(loss, **changes):
    settings = {"multi_class": loss, "C": C, "tol": 1e-8, "max_iter": 100_000, "random_state": 0}
    return LinearSVC(**settings | changes).fit(*make_data())


def fitted(solvers, name, parameters, loss, tol, fit_intercept=True):
    X, y = make_data()
    system = solvers[name].get_instance(**parameters)
    system.fit_intercept = fit_intercept
    assert not system.skip(X, y, loss, C)[0]
    system.set_objective(X, y, loss, C)
    system.max_iter = 10**6
    system.run(tol)
    assert system.converged
    return system.coef, system.intercept


@pytest.mark.parametrize("loss", ["crammer_singer", "weston_watkins"])
def test_who_forgets_a_parameter_is_far_from_the_optimum(primal, loss):
    best = certified(loss).primal_objective_
    other = {"crammer_singer": "weston_watkins", "weston_watkins": "crammer_singer"}[loss]
    for changes in ({"C": 1.0}, {"fit_intercept": False}, {"multi_class": other}):
        model = certified(loss, **changes)
        intercept = np.broadcast_to(model.intercept_, 4)
        assert primal(*make_data(), loss, C, model.coef_, intercept) > best * (1 + FORGOTTEN)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("name", "parameters", "loss", "tol", "above"), SYSTEMS)
def test_system_reaches_the_optimum(
    solvers, primal, name, parameters, loss, tol, above, fit_intercept
):
    model = fitted(solvers, name, parameters, loss, tol, fit_intercept)
    best = certified(loss, fit_intercept=fit_intercept)
    value = primal(*make_data(), loss, C, *model)
    assert best.dual_objective_ * (1 - 1e-9) <= value <= best.primal_objective_ * (1 + above)
    assert 2 * above <= FORGOTTEN


@pytest.mark.parametrize("name", ["exponentiated_gradient", "bundle", "most_violating"])
def test_systems_of_crammer_singer_skip_the_other(solvers, name):
    assert solvers[name].get_instance().skip(*make_data(), "weston_watkins", C)[0]


def test_the_most_violating_row_is_the_one_that_is_moved(solvers):
    """As a naive search over eq. 6 of Keerthi et al. finds it, after each of the first steps."""
    X, y = make_data()
    system = solvers["most_violating"].get_instance()
    system.set_objective(X, y, "crammer_singer", C)
    rows = np.hstack([X.toarray().astype(float), np.ones((80, 1))])
    alpha, before = np.zeros((80, 4)), np.zeros((4, 7))
    points = system.points(X, y)
    next(points)
    for _ in range(30):
        grad = rows @ before.T + (np.arange(4) != y[:, None])
        below = alpha < C * (np.arange(4) == y[:, None]) - 1e-12
        violation = grad.max(axis=1) - np.where(below, grad, np.inf).min(axis=1)
        i = violation.argmax()
        after = next(points).w.copy()
        change = (after - before) @ np.linalg.pinv(rows[[i]])
        np.testing.assert_allclose(after - before, np.outer(change, rows[i]), atol=1e-12)
        alpha[i] += change[:, 0]
        before = after

"""The systems of the papers on two classes minimise the benchmark's objective."""

import importlib.util
from pathlib import Path

import generic
import numpy as np
import pytest
from scipy.sparse import csr_matrix

pytest.importorskip("benchopt")
pytest.importorskip("piqp")

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
C = 0.3
# Name, parameters, loss, tolerance and how far above the optimum that leaves it.
SWEEPS = [
    ("sweeps", {"schedule": schedule}, loss, 1e-8, 1e-7)
    for schedule in ("cyclic", "permuted", "shrinking", "adaptive")
    for loss in ("hinge", "squared_hinge")
]
SYSTEMS = [
    *SWEEPS,
    ("sweeps", {"schedule": "online"}, "squared_hinge", 1e-8, 1e-7),
    ("pegasos", {}, "hinge", 5e-5, 1e-3),
    ("cutting_planes", {}, "hinge", 1e-8, 1e-6),
    ("primal_coordinates", {}, "squared_hinge", 1e-9, 1e-9),
    ("trust_region", {}, "squared_hinge", 1e-9, 1e-9),
]


@pytest.fixture(scope="module")
def solvers():
    from benchopt.benchmark import Benchmark

    return {s.name: s for s in Benchmark(BENCHMARKS, seed=0, no_cache=True).get_solvers()}


@pytest.fixture(scope="module")
def primal():
    spec = importlib.util.spec_from_file_location("objective", BENCHMARKS / "objective.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        spec.loader.exec_module(module)
    return module.primal


def make_data():
    """Classes of different sizes that overlap: the intercept is not 0, nor is any loss."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 8)) * (rng.random((90, 8)) < 0.6)
    y = np.where(X @ rng.normal(size=8) + rng.normal(size=90) > 1.0, 1, -1)
    return csr_matrix(X, dtype=np.float32), y


def fitted(solvers, name, parameters, X, y, loss, tol, fit_intercept=True):
    system = solvers[name].get_instance(**parameters)
    system.fit_intercept = fit_intercept
    assert not system.skip(X, y, loss, C)[0]
    system.set_objective(X, y, loss, C)
    system.max_iter = 10**6
    system.run(tol)
    assert system.converged
    return system.coef, system.intercept


@pytest.mark.parametrize(("name", "parameters", "loss", "tol", "above"), SYSTEMS)
def test_system_reaches_the_optimum(solvers, primal, name, parameters, loss, tol, above):
    X, y = make_data()
    dense = X.toarray().astype(float)
    w, b, best = generic.optimum(dense, y, C, loss)
    value = primal(X, y, loss, C, *fitted(solvers, name, parameters, X, y, loss, tol))
    assert best * (1 - 1e-9) <= value <= best * (1 + above)
    # What solves the problem with another C, loss or intercept is further off than that.
    other = "hinge" if loss == "squared_hinge" else "squared_hinge"
    for wrong in (
        generic.optimum(dense, y, 1.0, loss)[:2],
        generic.optimum(dense, y, C, other)[:2],
        generic.optimum(dense, y, C, loss, intercept="free")[:2],
        (w, 0.0),
    ):
        coef, intercept = np.atleast_2d(wrong[0]), np.atleast_1d(wrong[1])
        assert primal(X, y, loss, C, coef, intercept) > best * (1 + 2 * above)
    assert abs(b) > 0.1


@pytest.mark.parametrize(("name", "parameters", "loss", "tol", "above"), SYSTEMS)
def test_without_intercept_too(solvers, primal, name, parameters, loss, tol, above):
    X, y = make_data()
    coef, intercept = fitted(solvers, name, parameters, X, y, loss, tol, fit_intercept=False)
    dual = fitted(solvers, "reference", {}, X, y, loss, 1e-9, fit_intercept=False)
    best = primal(X, y, loss, C, *dual)
    assert intercept == [0.0]
    assert best * (1 - 1e-8) <= primal(X, y, loss, C, coef, intercept) <= best * (1 + above)


@pytest.mark.parametrize("cost", [0.3, 1e5])
def test_pegasos_is_the_naive_loop(solvers, cost):
    X, y = make_data()
    rows, n = X.toarray().astype(float), len(y)
    system = solvers["pegasos"].get_instance()
    system.fit_intercept = False
    system.set_objective(X, y, "hinge", cost)
    points = system.points(X, y)
    for _ in range(3):
        point = next(points)

    rng, w, t, lam = np.random.default_rng(0), np.zeros(8), 0, 1.0 / (cost * n)
    for _ in range(3):
        for i in rng.integers(n, size=n):
            t += 1
            loses = y[i] * (rows[i] @ w) < 1.0
            w = (1.0 - 1.0 / t) * w + loses * y[i] * rows[i] / (lam * t)
            w *= min(1.0, 1.0 / (np.sqrt(lam) * max(np.linalg.norm(w), 1e-300)))
    np.testing.assert_allclose(point.w, w, rtol=1e-8)


@pytest.mark.parametrize("name", ["pegasos", "cutting_planes"])
def test_systems_of_the_hinge_loss_skip_the_other(solvers, name):
    X, y = make_data()
    assert solvers[name].get_instance().skip(X, y, "squared_hinge", C)[0]


@pytest.mark.parametrize("name", ["primal_coordinates", "trust_region"])
def test_systems_of_the_squared_hinge_loss_skip_the_other(solvers, name):
    X, y = make_data()
    assert solvers[name].get_instance().skip(X, y, "hinge", C)[0]

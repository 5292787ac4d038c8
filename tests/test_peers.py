"""Today's peers, as contenders, minimise the very objective that we do."""

import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_benchmarks import BENCHMARKS, load_script

from dualsweep import LinearSVC

pytest.importorskip("benchopt")

# How near a peer comes on this problem, when run long: the package, the tolerance it is given, and
# how far above the optimum it may be.
PEERS = {
    "sgd": ("sklearn", 1e-4, 1e-3),
    "snapml": ("snapml", 1e-7, 1e-5),
    "skglm": ("skglm", 1e-8, 1e-5),
    "vowpal_wabbit": ("vowpalwabbit", 1e-3, 1e-3),
}
LOSSES = {"skglm": ["hinge"], "vowpal_wabbit": ["hinge"]}
CASES = [(name, loss) for name in PEERS for loss in LOSSES.get(name, ["hinge", "squared_hinge"])]
C = 0.02
FORGOTTEN = 5e-3  # how far above the optimum an adapter is that forgets something, at least


def problem():
    """Rows of two classes, more of one, that overlap and are away from the origin."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(120) < 0.3, 1, -1)
    X = rng.normal(size=(120, 6)) + 0.4 * y[:, None]
    X[rng.random(X.shape) < 0.3] = 0.0
    return csr_matrix(X, dtype=np.float32), y


def objective(coef, intercept, loss):
    X, y = problem()
    slack = np.maximum(0.0, 1.0 - y * (X.toarray().astype(float) @ coef[0] + intercept[0]))
    losses = slack if loss == "hinge" else slack**2
    return 0.5 * (np.sum(coef**2) + np.sum(intercept**2)) + C * losses.sum()


def optimum(**changes):
    """Return a model that is proven to be within 1e-8 of the best."""
    settings = {"C": C, "tol": 1e-8, "max_iter": 100_000, "random_state": 0}
    return LinearSVC(**settings | changes).fit(*problem())


@pytest.mark.parametrize(
    ("loss", "changes"),
    [
        ("hinge", {"C": 1.0}),
        ("hinge", {"fit_intercept": False}),
        ("hinge", {"intercept": "free"}),
        ("hinge", {"loss": "squared_hinge"}),
        ("squared_hinge", {"C": 1.0}),
        ("squared_hinge", {"fit_intercept": False}),
        ("squared_hinge", {"intercept": "free"}),
        ("squared_hinge", {"loss": "hinge"}),
    ],
)
def test_who_forgets_a_parameter_is_far_from_the_optimum(loss, changes):
    other = optimum(**{"loss": loss} | changes)
    value = objective(other.coef_, np.atleast_1d(other.intercept_), loss)
    assert value > optimum(loss=loss).primal_objective_ * (1 + FORGOTTEN)


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_peer_reaches_the_certified_optimum(name, loss):
    from benchopt.benchmark import Benchmark

    package, tol, within = PEERS[name]
    pytest.importorskip(package)
    solvers = {solver.name: solver for solver in Benchmark(BENCHMARKS, no_cache=True).get_solvers()}
    solver = solvers[name].get_instance()
    X, y = problem()
    assert not solver.skip(X, y, loss, C)[0]
    assert solver.skip(X, y, "crammer_singer", C)[0]
    solver.set_objective(X, y, loss, C)
    solver.warm_up()
    solver.max_iter = 100_000
    solver.run(tol)
    assert solver.converged
    result = solver.get_result()
    best = optimum(loss=loss)
    value = objective(result["coef"], result["intercept"], loss)
    assert best.dual_objective_ * (1 - 1e-9) <= value <= best.primal_objective_ * (1 + within)
    assert within < FORGOTTEN
    assert np.nextafter(0.0, 1.0) * np.ones(1) > 0  # subnormal numbers are what they were


def test_a_peer_that_is_not_installed_is_skipped_with_the_reason(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "skglm", None)
    monkeypatch.delitem(sys.modules, "benchopt_benchmarks.benchmarks.solvers.skglm", raising=False)
    ratios = load_script("ratios")
    data = "simulated[n_samples=80,n_features=20]"
    rows = ratios.run(["skglm", "sgd"], data, "hinge", 1.0, stop_at=None, cap=0.0)
    assert set(rows["solver"]) == {"sgd"}
    assert "import of skglm halted" in "".join(capsys.readouterr())

"""Data whose Newton systems are singular on a device: a model and a warning, as on the host.

Features that repeat each other, huge costs and scales, rows of zeros, and a row that all others
repeat. Every certificate is recomputed in exact rational numbers.
"""

import warnings
from itertools import pairwise
from types import SimpleNamespace

import exact
import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from dualsweep import LinearSVC
from dualsweep._host import to_host
from dualsweep.estimators._device import _compat
from dualsweep.placements import OnDevice, training_data
from dualsweep.placements.device.arrays import Space
from dualsweep.placements.device.newton import DeviceBackend
from dualsweep.training import Context, Settings, train

ON_HOST = Space(_compat().array_namespace(np.empty(1)), "cpu")
FORMULATIONS = [
    *({"loss": loss} for loss in ("hinge", "squared_hinge", "squared")),
    *({"multi_class": name} for name in ("crammer_singer", "weston_watkins")),
]
SEEDS = 24  # per formulation


def hostile(seed):
    """Return rows of some hostile kind, their classes, and parameters."""
    rng = np.random.default_rng(seed)
    k = int(rng.choice([2, 2, 3]))
    n, d = int(rng.choice([k, 5, 12])), int(rng.choice([1, 2, 3]))
    X = rng.normal(size=(n, d))
    if rng.random() < 0.6:
        X = np.column_stack([X] * int(rng.integers(2, 4)))
    if rng.random() < 0.3:
        X = np.round(X)
    if rng.random() < 0.3:
        X[rng.random(n) < 0.5] = 0.0
    if rng.random() < 0.3:
        X *= 10.0 ** rng.integers(-6, 7, X.shape[1])
    if rng.random() < 0.3:
        X *= 10.0 ** rng.integers(-6, 7, (n, 1))
    if rng.random() < 0.2:
        X[:] = X[0]
    narrow = rng.random() < 0.5
    powers = [-12, -3, 0, 3, 8, 12] if narrow else [-30, -8, 0, 4, 8, 12, 30, 100]
    X = (X * 10.0 ** rng.choice(powers)).astype(np.float32 if narrow else np.float64)
    bias = float(rng.choice([0.0, 1.0, 1.0, 1e6, 1e12]))
    params = {
        "C": 10.0 ** float(rng.choice([-10, -3, 0, 3, 6, 10, 12, 20])),
        "tol": float(rng.choice([1e-3, 1e-6, 1e-9])),
        "max_iter": int(rng.choice([3, 30])),
        "fit_intercept": bias > 0.0,
        "intercept_scaling": bias or 1.0,
    }
    return X, rng.permutation(np.arange(n) % k), params


def fit_in_numpy(X, y, params):
    settings = Settings(**params)
    with Context() as context:
        data = training_data(OnDevice(X, ON_HOST, True), y, None, settings, context)
        fitted = train(data, settings, context)
    model = LinearSVC(**params)
    model.__dict__.update(fitted.attributes())
    return model, not fitted.converged


def fit_in_another(library):
    def fit(X, y, params):
        there = pytest.importorskip(library, reason=f"{library} is not installed")
        with warnings.catch_warnings(record=True) as seen, config_context(array_api_dispatch=True):
            warnings.simplefilter("error")
            warnings.simplefilter("always", ConvergenceWarning)
            model = LinearSVC(**params).fit(there.asarray(X), there.asarray(y))
        for name, value in list(vars(model).items()):
            setattr(model, name, to_host(value))
        return model, len(seen) == 1

    return fit


FITS = {
    "numpy": fit_in_numpy,
    "strict": fit_in_another("array_api_strict"),
    "torch": fit_in_another("torch"),
}
in_libraries = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


@pytest.fixture(autouse=True)
def dispatch(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


def check(model, X, y):
    """Exact numbers do not refute what the model says of itself."""
    values = exact.certificates(model, X, y)
    assert all(primal >= dual for primal, dual in values)
    assert sum(primal - dual for primal, dual in values) <= model.dual_gap_ * (1 + 1e-9)
    assert sum(primal for primal, _ in values) <= exact.Fraction(model.primal_objective_)
    assert sum(dual for _, dual in values) >= exact.Fraction(model.dual_objective_)


@in_libraries
@pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda one: "-".join(one.values()))
def test_a_singular_system_ends_in_a_model_and_a_warning(fit, formulation):
    for seed in range(SEEDS):
        X, y, params = hostile(seed)
        model, warned = fit(X, y, {**formulation, **params})
        assert warned == (not model.converged_)
        check(model, X, y)


@in_libraries
def test_features_that_repeat_each_other_are_solved_for_all_the_same(fit):
    """The identity drowns in a Hessian of 2.4e22 everywhere, but the solution does not."""
    X = np.repeat([[1e10], [-1e10]], 6, axis=0) @ np.ones((1, 2))
    y = np.repeat([1, 0], 6)
    y[0] = 0  # no weights are right about all rows
    params = {"loss": "squared", "C": 10.0, "tol": 1e-6, "fit_intercept": False}
    model, _ = fit(X, y, params)
    check(model, X, y)
    assert model.converged_


class SingularLinAlgError(RuntimeError):
    """As torch's: no subclass of NumPy's."""


def singular(*matrices):
    raise SingularLinAlgError("the input matrix is singular")


def not_finite(matrix, right):
    return np.full_like(right, np.nan)


def upwards(matrix, right):
    return -right


def iterate_with(solve):
    """Return as much of an iterate as `_solved` needs, in a library that solves so."""
    names = "eye", "float64", "asarray", "sum", "all", "isfinite"
    xp = SimpleNamespace(**{name: getattr(np, name) for name in names})
    xp.linalg = SimpleNamespace(solve=solve, diagonal=np.linalg.diagonal)
    return SimpleNamespace(xp=xp, space=SimpleNamespace(device="cpu"))


@pytest.mark.parametrize("failure", [singular, not_finite, upwards])
@pytest.mark.parametrize("failures", [1, 3, 4])
def test_systems_are_solved_again_with_more_on_the_diagonal(failure, failures):
    calls = []

    def solve(matrix, right):
        calls.append(matrix.copy())
        return (failure if len(calls) <= failures else np.linalg.solve)(matrix, right)

    it = iterate_with(solve)
    hessian, gradient = np.array([[2.0, 1.0], [1.0, 1e8]]), np.array([3.0, -1.0])
    direction = DeviceBackend._solved(it, hessian.copy(), gradient)
    assert len(calls) == min(failures, 3) + 1
    added = [call - np.eye(2) - hessian for call in calls]
    np.testing.assert_array_equal(added[0], 0.0)
    assert all(np.trace(one) < np.trace(other) for one, other in pairwise(added))
    exact_one = -np.linalg.solve(np.eye(2) + hessian, gradient)
    np.testing.assert_allclose(direction, -gradient if failures == 4 else exact_one, rtol=1e-6)


def test_other_errors_are_not_taken_for_a_singular_system():
    def solve(*matrices):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        DeviceBackend._solved(iterate_with(solve), np.eye(2), np.ones(2))

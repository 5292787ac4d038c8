"""Losses that somebody adds, as docs/how/extending.md describes, wherever rows can be.

Each is checked against its formula in NumPy and against a generic solver of the dual, which is a
piecewise quadratic function over a box.
"""

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from dualsweep import LinearSVC, LinearSVCCV, certify, svc_path
from dualsweep._host import to_host
from dualsweep.estimators._device import _compat
from dualsweep.io import load_model, save_model, write_store
from dualsweep.kernels.binary import BinaryData
from dualsweep.kernels.certificate import settle_rows
from dualsweep.losses import LOSSES, Box
from dualsweep.placements import OnDevice, training_data
from dualsweep.placements.device.arrays import Space
from dualsweep.placements.device.newton import best_start
from dualsweep.placements.device.rows import DenseDeviceRows
from dualsweep.placements.device.terms import BinaryTerms
from dualsweep.rows.layouts import as_rows
from dualsweep.solvers.momentum import Momentum
from dualsweep.solvers.schedules import SCHEDULES
from dualsweep.training import Context, Settings, train

# Their numbers, and their formulas of the slack 1 - z. The first is that of the page.
OWN = {
    "smooth_hinge": Box(lower=0.0, upper=1.0, diag=1.0),
    "huber": Box(lower=-1.0, upper=1.0, diag=1.0),
    "steep_hinge": Box(lower=0.0, upper=2.0, diag=0.0),
    "absolute": Box(lower=-1.0, upper=0.5, diag=0.0),
    "tube": Box(lower=-1.0, upper=2.0, diag=0.5, kink=0.25),
}
FORMULAS = {
    "smooth_hinge": lambda s: np.where(s <= 0, 0, np.where(s >= 1, s - 1 / 2, s**2 / 2)),
    "huber": lambda s: np.where(np.abs(s) <= 1, s**2 / 2, np.abs(s) - 1 / 2),
    "steep_hinge": lambda s: 2 * np.maximum(s, 0),
    "absolute": lambda s: np.where(s > 0, s / 2, -s),
    "tube": lambda s: tube(s, np.maximum(np.abs(s) - 0.25, 0.0)),
}


def tube(s, beyond):
    """Flat within 0.25 of the target, then a parabola that ends as a line of slope 2 or -1."""
    above = np.where(beyond <= 1.0, beyond**2, 2.0 * beyond - 1.0)
    below = np.where(beyond <= 0.5, beyond**2, beyond - 0.25)
    return np.where(s > 0, above, below)


# Relative gaps to prove; sweeps take long to small ones where a loss has no diagonal.
TOL = {name: 1e-6 if numbers.diag else 1e-3 for name, numbers in OWN.items()}
TO_THE_END = {"ftol": 1e-16, "gtol": 1e-11, "maxiter": 100_000, "maxfun": 10**6}

own_losses = pytest.mark.parametrize("loss", OWN)
class_counts = pytest.mark.parametrize("n_classes", [2, 3])
ON_HOST = Space(_compat().array_namespace(np.empty(1)), "cpu")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for name, numbers in OWN.items():
        monkeypatch.setitem(LOSSES, name, numbers)


@cache
def data(n_classes, n=90, d=5):
    """Rows of classes that overlap, so that there are slacks of every size; and weights."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 0.8 * rng.normal(size=(n_classes, d))[y]
    X[::9] *= 4.0
    X[::13] = 0.0
    return X, y, rng.choice([0.0, 0.5, 1.0, 2.0], n)


def signs(y, n_classes):
    """The labels of each binary problem."""
    positives = [1] if n_classes == 2 else range(n_classes)
    return [np.where(y == p, 1.0, -1.0) for p in positives]


def primal_of(model, X, y, weight, penalty=1.0):
    """The objective of a model by the formula of its loss."""
    value = 0.0
    coef, intercept = to_host(model.coef_), to_host(model.intercept_)
    for sign, w, b in zip(signs(y, len(to_host(model.classes_))), coef, intercept, strict=True):
        slack = 1 - sign * (X @ w + b)
        value += (w @ w + penalty * b * b) / 2
        value += model.C * weight @ FORMULAS[model.loss](slack)
    return value


@cache
def optimum(loss, n_classes, C=1.0, weighted=False):
    """An interval with the optimum in it, of a generic solver."""
    X, y, weight = data(n_classes)
    rows, numbers = np.column_stack([X, np.ones(len(X))]), OWN[loss]
    used = weight > 0 if weighted else np.ones(len(y), bool)
    rows, cost = rows[used], C * (weight if weighted else np.ones(len(y)))[used]
    low = high = 0.0
    for sign in signs(y, n_classes):
        Z = sign[used, None] * rows

        def dual(parts, Z=Z):
            a = parts[: len(cost)] - parts[len(cost) :]
            w = Z.T @ a
            curved, kink = numbers.diag / cost * a, numbers.kink
            value = (w @ w + curved @ a) / 2 - a.sum() + kink * parts.sum()
            slope = Z @ w + curved - 1
            return value, np.concatenate([slope + kink, kink - slope])

        # The dual variables as differences of two parts that are not negative: there is no kink.
        box = [(0.0, most) for most in [*(cost * numbers.upper), *(-cost * numbers.lower)]]
        start = np.zeros(2 * len(cost))
        found = minimize(dual, start, jac=True, method="L-BFGS-B", bounds=box, options=TO_THE_END)
        w = Z.T @ (found.x[: len(cost)] - found.x[len(cost) :])
        low -= found.fun
        high += w @ w / 2 + cost @ FORMULAS[loss](1 - Z @ w)
    assert low <= high * (1 + 1e-12)
    return low, high


def check(model, n_classes, weighted=False):
    """The objective is that of the formula, the duals are feasible, and the optimum is proven."""
    X, y, weight = data(n_classes)
    weight = weight if weighted else np.ones(len(y))
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(primal_of(model, X, y, weight), rel=1e-9)
    low, high = optimum(model.loss, n_classes, model.C, weighted)
    assert model.dual_objective_ <= high * (1 + 1e-12)
    assert low <= model.primal_objective_ * (1 + 1e-12)
    assert model.primal_objective_ <= high * (1 + 2 * model.tol)
    duals = model.dual_coef_
    duals = duals.compute() if hasattr(duals, "compute") else to_host(duals)
    duals = duals.toarray() if sp.issparse(duals) else np.asarray(duals)
    cost, numbers = model.C * weight, OWN[model.loss]
    for sign, signed in zip(signs(y, n_classes), duals, strict=True):
        assert (sign * signed >= cost * numbers.lower).all()
        assert (sign * signed <= cost * numbers.upper).all()


@own_losses
@class_counts
@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
@pytest.mark.parametrize("how", [{"solver": "sweep"}, {"solver": "newton"}, {}])
def test_in_memory(loss, n_classes, layout, how):
    X, y, weight = data(n_classes)
    for weighted in (False, True):
        model = LinearSVC(loss=loss, tol=TOL[loss], max_iter=20_000, random_state=0, **how)
        model.fit(layout(X), y, weight if weighted else None)
        check(model, n_classes, weighted)


@own_losses
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule(loss, schedule):
    X, y, _ = data(2)
    how = {"solver": "sweep", "schedule": schedule, "max_iter": 20_000, "random_state": 0}
    check(LinearSVC(loss=loss, tol=TOL[loss], **how).fit(X, y), 2)


@pytest.mark.parametrize("loss", ["smooth_hinge", "huber", "steep_hinge"])
def test_momentum(monkeypatch, loss):
    rounds, advance = [], Momentum.advance

    def counted(self, w):
        rounds.append(1)
        advance(self, w)

    monkeypatch.setattr(Momentum, "advance", counted)
    X, y, _ = data(2)
    model = LinearSVC(
        loss=loss, C=100.0, tol=TOL[loss], solver="sweep", max_iter=50_000, random_state=0
    )
    check(model.fit(X, y), 2)
    assert rounds


@own_losses
def test_a_free_intercept(loss):
    """There is none in the generic solver: sweeps and Newton steps prove each other's optimum."""
    X, y, weight = data(2)
    found = []
    for solver in ("sweep", "newton"):
        how = {"solver": solver, "max_iter": 50_000, "random_state": 0}
        model = LinearSVC(loss=loss, intercept="free", tol=1e-3, **how).fit(X, y, weight)
        assert model.converged_
        primal = primal_of(model, X, y, weight, penalty=0.0)
        assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
        found.append(model)
    assert found[0].dual_objective_ <= found[1].primal_objective_
    assert found[1].dual_objective_ <= found[0].primal_objective_


@own_losses
@class_counts
def test_stores(tmp_path, loss, n_classes):
    X, y, weight = data(n_classes)
    store = write_store(tmp_path / "store", sp.csr_array(X), y, block_bytes=2_000)
    assert len(store) > 2
    more = {"loss": loss, "tol": 1e-2, "max_iter": 5_000, "random_state": 0}
    more["memory_limit"] = 20_000
    for weighted in (False, True):
        model = LinearSVC(**more).fit(store, sample_weight=weight if weighted else None)
        check(model, n_classes, weighted)
    for model in svc_path(store, None, [0.1, 1.0], **more).models:
        check(model, n_classes)


@own_losses
@class_counts
def test_clusters(loss, n_classes):
    pytest.importorskip("distributed", reason="needs dualsweep[dask]")
    import dask.array as da
    from distributed import Client

    from dualsweep.distributed import LinearSVC as OnCluster

    X, y, _ = data(n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Client(processes=False, n_workers=1, dashboard_address=":0"):
            model = OnCluster(loss=loss, tol=TOL[loss], max_iter=5_000, random_state=0)
            check(model.fit(da.from_array(X, (30, X.shape[1])), y), n_classes)


def in_numpy(X, y, weight, params, duals=None):
    settings = Settings(**params)
    with Context() as context:
        there = training_data(OnDevice(X, ON_HOST, True), y, weight, settings, context)
        fitted = train(there, settings, context, duals=duals)
    model = LinearSVC(**params)
    model.__dict__.update(fitted.attributes())
    return model


def in_another(library):
    def fit(X, y, weight, params):
        there = pytest.importorskip(library, reason=f"{library} is not installed")
        given = None if weight is None else there.asarray(weight)
        with config_context(array_api_dispatch=True):
            return LinearSVC(**params).fit(there.asarray(X), there.asarray(y), given)

    return fit


FITS = {
    "numpy": in_numpy,
    "strict": in_another("array_api_strict"),
    "torch": in_another("torch"),
}
in_libraries = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


@in_libraries
@own_losses
@class_counts
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_devices(monkeypatch, fit, loss, n_classes, dtype):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X, y, weight = data(n_classes)
    for weighted in (False, True):
        given = weight if weighted else None
        if dtype == np.float64:
            check(fit(X, y, given, {"loss": loss, "tol": TOL[loss]}), n_classes, weighted)
            continue
        narrow = X.astype(dtype)
        model = fit(narrow, y, given, {"loss": loss, "tol": 1e-3})
        cost = weight if weighted else np.ones(len(y))
        primal = primal_of(model, narrow.astype(float), y, cost)
        assert model.converged_
        assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
        reference = LinearSVC(loss=loss, tol=TOL[loss], max_iter=20_000, random_state=0)
        reference.fit(narrow.astype(float), y, given)
        assert model.dual_objective_ <= reference.primal_objective_
        assert reference.dual_objective_ <= model.primal_objective_


@own_losses
@class_counts
def test_warm_starts_on_devices(loss, n_classes):
    """From the dual variables of a larger C: to the best multiple of them within the box."""
    X, y, _ = data(n_classes)
    duals = in_numpy(X, y, None, {"loss": loss, "C": 2.0, "tol": TOL[loss]}).dual_coef_
    params = {"loss": loss, "tol": TOL[loss]}
    check(in_numpy(X, y, None, params, duals), n_classes)


@own_losses
def test_the_best_multiple_of_dual_variables_on_a_device(loss):
    X, y, weight = data(2)
    rows, numbers = DenseDeviceRows(ON_HOST, X, 1.0), OWN[loss]
    terms = BinaryTerms(ON_HOST, y, weight, np.array([1]), numbers)
    given = np.random.default_rng(0).normal(size=(len(y), 1))
    boxed = terms.clipped(slice(0, len(y)), given)
    used = weight > 0
    lower, upper = weight * numbers.lower, weight * numbers.upper
    np.testing.assert_array_equal(boxed[:, 0], np.clip(given[:, 0], lower, upper))
    found = best_start(rows, terms, given.copy())[:, 0]
    assert ((found >= lower) & (found <= upper)).all()
    Z = np.where(y == 1, 1.0, -1.0)[:, None] * np.column_stack([X, np.ones(len(X))])

    def dual(a):
        w = Z.T @ a
        curved = numbers.diag / weight[used] * a[used]
        return a.sum() - numbers.kink * np.abs(a).sum() - (w @ w + curved @ a[used]) / 2

    multiples = [s * boxed[:, 0] for s in np.linspace(0, 3, 301)]
    inside = [a for a in multiples if ((a >= lower) & (a <= upper)).all()]
    assert dual(found) >= max(dual(a) for a in inside) - 1e-12


@own_losses
@class_counts
def test_paths_and_searches(loss, n_classes):
    X, y, _ = data(n_classes)
    more = {"loss": loss, "tol": TOL[loss], "max_iter": 50_000, "random_state": 0}
    for model in svc_path(X, y, [0.03, 1.0, 30.0], **more).models:
        check(model, n_classes)
    found = LinearSVCCV(Cs=[0.1, 1.0], cv=3, **more).fit(X, y)
    best = LinearSVC(C=found.C_, **more).fit(X, y)
    assert found.primal_objective_ == pytest.approx(best.primal_objective_, rel=2 * TOL[loss])
    warm = LinearSVC(C=3.0, warm_start=True, **more).fit(X, y)
    check(warm.set_params(C=1.0).fit(X, y), n_classes)


@own_losses
@class_counts
def test_certify(tmp_path, loss, n_classes):
    X, y, _ = data(n_classes)
    model = LinearSVC(loss=loss, tol=TOL[loss], max_iter=20_000, random_state=0).fit(X, y)
    save_model(model, tmp_path / "model.npz")
    for judged in (model, load_model(tmp_path / "model.npz")):
        certificate = certify(judged, X, y)
        assert certificate.primal == pytest.approx(model.primal_objective_, rel=1e-9)
        assert certificate.relative_gap <= TOL[loss]
    low, high = optimum(loss, n_classes)
    other = LinearSVC(loss="hinge", random_state=0).fit(X, y)
    certificate = certify(other, X, y, loss=loss, tol=1e-2)
    other.loss = loss
    assert certificate.primal == pytest.approx(primal_of(other, X, y, np.ones(len(y))), rel=1e-9)
    assert certificate.dual <= high
    assert low <= certificate.primal


@own_losses
@class_counts
@pytest.mark.parametrize("where", ["memory", "store", "device"])
def test_a_model_of_no_steps_knows_what_it_loses(tmp_path, loss, n_classes, where):
    X, y, weight = data(n_classes)
    if where == "device":
        model = in_numpy(X, y, weight, {"loss": loss, "max_iter": 0})
    else:
        given, more = (X, y), {}
        if where == "store":
            store = write_store(tmp_path / "store", sp.csr_array(X), y, block_bytes=1_000)
            given, more = (store, None), {"memory_limit": 10_000}
        model = LinearSVC(loss=loss, max_iter=0, **more)
        with pytest.warns(ConvergenceWarning):
            model.fit(*given, sample_weight=weight)
    expected = primal_of(model, X, y, weight)
    assert model.primal_objective_ == pytest.approx(expected, rel=1e-12)
    assert model.dual_objective_ == 0.0
    if n_classes == 2:  # of more, those that were not begun get an intercept
        assert expected == weight.sum() * FORMULAS[loss](np.float64(1.0))


def test_a_row_settles_at_a_bound_only_where_its_slack_keeps_it_there():
    """With a diagonal of 1, the dual variable is at its upper bound from a slack of 1 on."""
    slack = np.array([-1.5, -0.5, 0.5, 1.05, 1.5])
    members, ones, cost = np.arange(5), np.ones(5), np.full(5, 2.0)
    rows = as_rows(np.eye(5), 0.0)
    for loss, at_lower in ((OWN["huber"], [True] + 4 * [False]), (OWN["smooth_hinge"], None)):
        problem = BinaryData(rows, ones, ones, ones, cost, loss)
        settled = np.empty(5, bool)
        settle_rows(problem, members, cost, slack, 0.1, settled)
        np.testing.assert_array_equal(settled, [False, False, False, False, True])
        settle_rows(problem, members, cost * loss.lower, slack, 0.1, settled)
        expected = at_lower or [True, True, False, False, False]
        np.testing.assert_array_equal(settled, expected)

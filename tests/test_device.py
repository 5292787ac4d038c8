"""Training where the rows are: the same models as on the CPU, by the same certificates.

NumPy, torch and array-api-strict on the CPU run the code that a GPU runs; tests marked `gpu` repeat
what matters there.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from naive import Naive, NaiveMulticlass
from scipy.optimize import check_grad
from scipy.special import logsumexp
from sklearn import config_context
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

import dualsweep.placements.device.rows as rows_module
from dualsweep import (
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegression,
    certify,
    compare_multiclass,
    svc_path,
)
from dualsweep._host import to_host
from dualsweep.estimators._device import _compat, space_of
from dualsweep.io import load_model, save_liblinear, save_model
from dualsweep.losses import LOSSES
from dualsweep.losses.protocol import rounded_down
from dualsweep.newton.core import Iterate, conjugate_gradients
from dualsweep.placements import OnDevice, training_data
from dualsweep.placements.device.arrays import OnHost, Space
from dualsweep.placements.device.newton import DeviceBackend, DeviceHessian, DeviceSolver
from dualsweep.placements.device.rows import DenseDeviceRows, SparseDeviceRows
from dualsweep.placements.device.terms import BinaryTerms, MulticlassTerms, MultinomialTerms
from dualsweep.problems.run import Run
from dualsweep.training import Context, Settings, train

xnp = _compat().array_namespace(np.empty(1))
ON_HOST = Space(xnp, "cpu")
FORMULATIONS = [
    {"loss": "hinge"},
    {"loss": "squared_hinge"},
    {"loss": "squared"},
    {"multi_class": "crammer_singer"},
    {"multi_class": "weston_watkins"},
]
NAMES = ["hinge", "squared_hinge", "squared", "crammer_singer", "weston_watkins"]
KINDS = [*NAMES, "multinomial"]


def some_digits(n_classes=4, n=240):
    X, y = load_digits(return_X_y=True)
    chosen = np.flatnonzero(y < n_classes)[:n]
    X = np.where(X[chosen] > 8, X[chosen] / 16, 0.0)  # half of the entries are 0
    return X, y[chosen]


def weights_of(n):
    """Some rows weigh nothing, some more than others."""
    return np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], n)


def train_in_namespace(X, y, weight=None, duals=None, **params):
    """Train with NumPy's arrays by the code for devices; return what `train` does."""
    settings = Settings(**params)
    with Context() as context:
        data = training_data(OnDevice(X, ON_HOST, True), y, weight, settings, context)
        return train(data, settings, context, duals=duals)


def as_strict(array):
    return pytest.importorskip("array_api_strict").asarray(array)


def as_torch(array):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.set_num_threads(1)  # more are slower on so little
    return torch.asarray(array)


def as_cuda(array):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    return torch.asarray(array, device="cuda")


def as_cupy(array):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if not cupy.cuda.is_available():
        pytest.skip("there is no CUDA device")
    if sp.issparse(array):
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(array)
    return cupy.asarray(array)


LIBRARIES = {
    "strict": as_strict,
    "torch": as_torch,
    "cuda": pytest.param(as_cuda, marks=pytest.mark.gpu),
    "cupy": pytest.param(as_cupy, marks=pytest.mark.gpu),
}
everywhere = pytest.mark.parametrize("convert", LIBRARIES.values(), ids=LIBRARIES)
on_gpu = pytest.mark.parametrize(
    "convert", [LIBRARIES["cuda"], LIBRARIES["cupy"]], ids=["cuda", "cupy"]
)


@pytest.fixture
def dispatch(monkeypatch):
    """Let arrays of other libraries stay what they are, as scikit-learn's users ask for it."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        yield


def check_certificate(X, y, model, cost, params, tol):
    """Compare the certificate with one recomputed in plain NumPy, and what it promises."""
    coef, duals = to_host(model.coef_), to_host(model.dual_coef_)
    duals = duals.toarray() if sp.issparse(duals) else duals
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    W = np.column_stack([coef, to_host(model.intercept_)])
    k = len(to_host(model.classes_))
    rows = np.column_stack([X, np.ones(len(X))]).astype(np.float64)
    away = np.linalg.norm(W - duals.astype(np.float64) @ rows)
    assert away <= np.sqrt(2 * model.dual_gap_) * (1 + 1e-9)
    used = cost > 0
    rows, y, cost, duals = X[used], y[used], cost[used], duals[:, used].astype(np.float64)
    if "multi_class" in params:
        oracle = NaiveMulticlass(rows, y, cost, params["multi_class"], 1.0, n_classes=k)
        beta = np.where(np.arange(k) == y[:, None], 0.0, -duals.T)
        assert (beta >= 0).all()
        assert ((beta.sum(axis=1) if oracle.joint else beta.max(axis=1)) <= cost).all()
        primal, dual = oracle.primal(W.T), oracle.dual(beta)
    else:
        primal = dual = 0.0
        for c in range(k if k > 2 else 1):
            sign = np.where(y == (c if k > 2 else 1), 1.0, -1.0)
            oracle = Naive(rows, sign, cost, params["loss"], 1.0)
            alpha = duals[c] * sign
            assert (alpha >= oracle.lower).all()
            assert (alpha <= oracle.upper).all()
            each = oracle.primal(W[c]), oracle.dual(alpha)
            assert each[0] - each[1] <= tol * each[0] * (1 + 1e-9)
            primal, dual = primal + each[0], dual + each[1]
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9, abs=1e-12)
    assert primal - dual <= model.dual_gap_ * (1 + 1e-6) + 1e-12 * primal


def check_agreement(one, other):
    """Two models of a problem differ by no more than their certificates allow."""
    gaps = one.dual_gap_ + other.dual_gap_ + 1e-12 * one.primal_objective_
    assert abs(one.primal_objective_ - other.primal_objective_) <= gaps
    difference = to_host(one.coef_) - to_host(other.coef_)
    allowed = np.sqrt(2 * one.dual_gap_) + np.sqrt(2 * other.dual_gap_) + 1e-9
    assert np.linalg.norm(difference) <= allowed  # P is strongly convex


@pytest.mark.parametrize("params", FORMULATIONS, ids=NAMES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_models_agree_with_those_of_the_cpu(params, weighted, layout, dtype, n_classes):
    if params.get("multi_class") and n_classes == 2:
        pytest.skip("tested below")
    X, y = some_digits(n_classes)
    X = X.astype(dtype)
    X = sp.csr_array(X) if layout == "csr" else X
    weight = weights_of(len(y)) if weighted else None
    class_weight = {c: 1.0 + c for c in range(n_classes)} if weighted else None
    tol = 1e-4
    more = {"C": 0.3, "tol": tol, "class_weight": class_weight, **params}
    fitted = train_in_namespace(X, y, weight, **more)
    model = LinearSVC(**more)
    model.__dict__.update(fitted.attributes())
    assert model.converged_
    cost = 0.3 * (np.ones(len(y)) if weight is None else weight)
    cost = cost * (1.0 + y if weighted else 1.0)
    check_certificate(X, y, model, cost, params, tol)
    check_agreement(model, LinearSVC(**more, random_state=0).fit(X, y, weight))


@everywhere
@pytest.mark.parametrize("params", FORMULATIONS, ids=NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_libraries_train_the_same_model(dispatch, convert, params, dtype):
    X, y = some_digits()
    X = X.astype(dtype)
    tol = 1e-3 if dtype == np.float32 else 1e-6
    more = {"C": 0.3, "tol": tol, **params}
    model = LinearSVC(**more).fit(convert(X), convert(y))
    assert model.converged_
    assert type(model.coef_) is type(model.intercept_) is type(model.classes_) is type(convert(y))
    check_certificate(X, y, model, np.full(len(y), 0.3), params, tol)
    reference = LinearSVC(**more, random_state=0).fit(X, y)
    check_agreement(model, reference)
    scores = model.decision_function(convert(X))
    assert type(scores) is type(convert(X))
    np.testing.assert_allclose(
        to_host(scores),
        X @ to_host(model.coef_).T + to_host(model.intercept_),
        rtol=1e-4,
        atol=1e-5,
    )
    predicted = to_host(model.predict(convert(X)))
    np.testing.assert_array_equal(predicted, to_host(scores).argmax(axis=1))
    assert model.score(convert(X), convert(y)) == np.mean(predicted == y)


@pytest.mark.gpu
@pytest.mark.parametrize("params", FORMULATIONS, ids=NAMES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_csr_matrices_of_cupy(params, n_classes):
    X, y = some_digits(n_classes)
    X = sp.csr_matrix(X.astype(np.float32))
    more = {"C": 0.3, "tol": 1e-6, **params}
    model = LinearSVC(**more).fit(as_cupy(X), as_cupy(y))
    assert model.converged_
    if n_classes == 4:
        check_certificate(X, y, model, np.full(len(y), 0.3), params, 1e-6)
    check_agreement(model, LinearSVC(**more, random_state=0).fit(X, y))
    predicted = to_host(model.predict(as_cupy(X)))
    reference = LinearSVC(**more, random_state=0).fit(X, y)
    assert np.mean(predicted == reference.predict(X)) > 0.99


@pytest.mark.parametrize("multi_class", ["crammer_singer", "weston_watkins"])
def test_two_classes_at_once_are_the_binary_problem(multi_class):
    X, y = some_digits(2)
    fitted = train_in_namespace(X, y, C=0.3, multi_class=multi_class, tol=1e-8)
    binary = train_in_namespace(X, y, C=0.6, loss="hinge", tol=1e-8)
    np.testing.assert_allclose(fitted.coef, binary.coef, atol=1e-3)
    assert 2 * fitted.primal_objective == pytest.approx(binary.primal_objective, rel=1e-7)
    away = np.linalg.norm(fitted.dual_coef @ X - fitted.coef)
    assert away <= np.sqrt(2 * binary.dual_gap + 1e-20)


def new_terms(kind, codes, cost, n_classes=4):
    if kind in LOSSES:
        return BinaryTerms(ON_HOST, codes, cost, np.arange(n_classes), LOSSES[kind])
    if kind == "multinomial":
        return MultinomialTerms(ON_HOST, codes, cost, n_classes, True)
    return MulticlassTerms(ON_HOST, codes, cost, n_classes, kind == "crammer_singer")


def new_backend(kind, rho=0.3, seed=0, layout=DenseDeviceRows, parts=3):
    """Return a backend at some point of a small problem, cut into several parts."""
    rng = np.random.default_rng(seed)
    X, codes = rng.normal(size=(15, 3)), rng.integers(0, 4, 15)
    cost = rng.choice([0.0, 0.5, 2.0], 15)
    terms = new_terms(kind, codes, cost)
    anchor = rng.uniform(0, 0.3, (15, 4)) * cost[:, None]
    if kind not in LOSSES:
        anchor[np.arange(15), codes] = 0.0
    rows = layout(ON_HOST, sp.csr_array(X) if layout is SparseDeviceRows else X, 1.5)
    n = terms.n_problems
    runs = [Run(n_rows=15, primal_at_zero=1.0) for _ in range(n)]
    solver = DeviceSolver(rows, terms, rows.sqnorms(), runs, None)
    solver.w, solver.alpha = rng.normal(size=(4, 4)), anchor
    for run in runs:
        run.rho = rho
    step = 15 // parts
    solver.parts = [slice(i, min(i + step, 15)) for i in range(0, 15, step)]
    backend = DeviceBackend(solver, np.arange(n), np.float64)
    backend.w, backend.rho = backend.begin()
    return backend


def measured(backend):
    """Return what a backend measures where no step was taken."""
    nothing = np.zeros(len(backend.runs))
    return backend.measure(backend.w, backend.rho, nothing, nothing > 0)


def phi(backend, w):
    """Return the value of the inner problem at w, by its definition."""
    whole = slice(0, backend.rows.n_rows)
    slack = backend.terms.slack(whole, backend.rows.responses(whole, w))
    b, _ = backend.terms.implied(whole, slack, backend.anchor, backend.rho)
    value = 0.5 * (w**2).sum() + (b * slack).sum()
    if isinstance(backend.terms, MultinomialTerms):
        return 0.5 * (w**2).sum() + backend.terms.cost @ logsumexp(slack, axis=1)
    if backend.terms.smooth:
        cost = np.where(backend.terms.cost > 0, backend.terms.cost, 1.0)[:, None]
        return value - (backend.terms.loss.diag / cost * b**2).sum() / 2
    return value - (backend.rho * (b - backend.anchor) ** 2).sum() / 2


@pytest.mark.parametrize("layout", [DenseDeviceRows, SparseDeviceRows])
def test_columns_are_summed_up(tuned, layout):
    """In several parts, each row as often as it weighs, zeros not counted, nor the bias."""
    tuned(HOST_SLICE=12)
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(15, 3)) * (rng.random((15, 3)) < 0.6), rng.uniform(0, 2, 15)
    rows = layout(ON_HOST, sp.csr_array(X) if layout is SparseDeviceRows else X, 1.5)
    assert len(rows.parts(1)) > 2
    np.testing.assert_allclose(rows.columns(weight), [weight @ X**2, weight @ (X != 0)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", [DenseDeviceRows, SparseDeviceRows])
def test_the_gradient_and_hessian_are_those_of_the_inner_problem(kind, layout):
    backend = new_backend(kind, layout=layout)
    gradient = measured(backend).gradient.copy()

    def value(w):
        return phi(backend, w.reshape(backend.w.shape))

    def slope(w):
        backend.w = w.reshape(backend.w.shape)
        whole = slice(0, backend.rows.n_rows)
        backend.slack = backend.terms.slack(whole, backend.rows.responses(whole, backend.w))
        return measured(backend).gradient.ravel()

    start = backend.w.copy().ravel()
    np.testing.assert_allclose(slope(start).reshape(gradient.shape), gradient, atol=1e-12)
    assert check_grad(value, slope, start) < 1e-4
    slope(start)
    operator = backend.hessian(backend.rho)
    hessian = np.empty((len(start), len(start)))
    for j in range(len(start)):
        v = np.zeros_like(start)
        v[j] = 1.0
        hessian[j] = operator.product(v.reshape(backend.w.shape)).ravel()
    np.testing.assert_allclose(operator.diagonal.ravel(), hessian.diagonal(), atol=1e-10)
    ahead, behind = np.empty_like(hessian), np.empty_like(hessian)
    for j in range(len(start)):
        step = np.zeros_like(start)
        step[j] = 1e-6
        ahead[j], behind[j] = slope(start + step), slope(start - step)
    np.testing.assert_allclose(hessian, (ahead - behind) / 2e-6, atol=1e-5)


def solve_iteratively(backend, gradient, wanted, most, **tuning):
    """Return directions by conjugate gradients, and which ended before they were exact."""
    left, constants = np.full(len(backend.runs), 1e-12), replace(backend.tuning, **tuning)
    return conjugate_gradients(
        backend.hessian(backend.rho), gradient, wanted, left, most, constants, lambda: False
    )


@pytest.mark.parametrize("kind", KINDS)
def test_conjugate_gradients_and_factorisations_find_the_same_direction(kind):
    backend = new_backend(kind)
    gradient = measured(backend).gradient
    wanted = np.ones(len(backend.runs), bool)
    found, short = solve_iteratively(backend, gradient, wanted, 1000)
    assert not short.any()
    exact = backend.direct(gradient, backend.rho, wanted)
    np.testing.assert_allclose(found, exact, atol=1e-8)
    np.testing.assert_allclose(backend.hessian(backend.rho).product(exact), -gradient, atol=1e-9)


def test_classes_leave_conjugate_gradients_one_by_one():
    backend = new_backend("hinge", seed=3)
    gradient = measured(backend).gradient
    wanted = np.array([True, False, True, True])
    found, _ = solve_iteratively(backend, gradient, wanted, 1000, cg_leave=1.0)
    exact = backend.direct(gradient, backend.rho, wanted)
    np.testing.assert_allclose(found, exact, atol=1e-8)
    assert not found[:, 1].any()
    few, short = solve_iteratively(backend, gradient, wanted, 1, cg_leave=1.0)
    assert short.any()
    assert not short[1]
    assert np.isfinite(few).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_line_search_ends_near_the_minimum(monkeypatch, kind, scale):
    backend = new_backend(kind, seed=1)
    iterate = Iterate(backend)
    iterate.measure()
    first, w, terms = iterate.gradient.copy(), iterate.w.copy(), backend.terms
    p = -scale * first
    monkeypatch.setattr(iterate, "direction", lambda going: p)
    assert iterate.move(np.ones(len(backend.runs), bool)).all()
    np.testing.assert_allclose(iterate.w, w + iterate.step * p)
    iterate.measure()
    whole = slice(0, backend.rows.n_rows)
    np.testing.assert_allclose(
        backend.slack, terms.slack(whole, backend.rows.responses(whole, iterate.w)), atol=1e-9
    )
    left, before = terms.dots(iterate.gradient, p), terms.dots(first, p)
    assert (np.abs(left) <= 0.05 * np.abs(before) + 1e-12).all()


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_projections_are_the_nearest_feasible_points(scale):
    """Sort-based, as in Keerthi et al. 2008; ties, zero costs and negative rows included."""
    rng = np.random.default_rng(0)
    u = scale * rng.normal(size=(200, 6))
    u[:50] = scale * rng.integers(-1, 3, (50, 6))
    codes = rng.integers(0, 6, 200)
    u[np.arange(200), codes] = 0.0
    cost = rng.choice([0.0, 0.3, 1.0, 5.0], 200)
    terms = new_terms("crammer_singer", codes, cost, 6)
    terms._levels[:] = scale * rng.normal(size=(200, 1))  # wherever it starts from
    b, bound = terms._projected(slice(0, 200), u, cost[:, None])
    for i in range(200):
        best = np.maximum(u[i], 0.0)
        if best.sum() > cost[i]:
            ordered = np.sort(u[i])[::-1]
            levels = (np.cumsum(ordered) - cost[i]) / np.arange(1, 7)
            level = levels[np.flatnonzero(ordered >= levels)[-1]]
            best = np.maximum(u[i] - level, 0.0)
            assert bound[i, 0]
        np.testing.assert_allclose(b[i], best, atol=1e-12 * max(scale, 1.0))


def test_rounding_keeps_dual_variables_feasible():
    cost = np.random.default_rng(0).uniform(0, 1, 1000)
    down = rounded_down(xnp, cost, np.float32)
    assert down.dtype == np.float32
    assert (down.astype(float) <= cost).all()
    assert (down.astype(float) >= cost * (1 - 2e-7)).all()
    codes = np.zeros(1000, np.int64)
    whole = slice(0, 1000)
    b = np.random.default_rng(1).dirichlet(np.ones(7), 1000) * cost[:, None]
    joint = new_terms("crammer_singer", codes, cost, 7).feasible(whole, b, np.float32)
    assert (joint.astype(float).sum(axis=1) <= cost).all()
    np.testing.assert_allclose(joint, b, rtol=1e-6)
    for kind in ("hinge", "weston_watkins"):
        each = new_terms(kind, codes, cost, 7).feasible(whole, cost[:, None] + 0 * b, np.float32)
        assert (each.astype(float) <= cost[:, None]).all()


@pytest.mark.parametrize("params", FORMULATIONS, ids=NAMES)
def test_slices_of_rows_change_nothing(tuned, params):
    X, y = some_digits()
    whole = train_in_namespace(X, y, tol=1e-6, **params)
    tuned(HOST_SLICE=1000)
    sliced = train_in_namespace(X, y, tol=1e-6, **params)
    assert len(DenseDeviceRows(ON_HOST, X, 1.0).parts(4)) > 10
    np.testing.assert_allclose(sliced.coef, whole.coef, atol=1e-4)


def test_groups_of_classes_when_memory_is_short():
    X, y = some_digits()
    whole = train_in_namespace(X, y, loss="hinge", tol=1e-6)
    grouped = train_in_namespace(X, y, loss="hinge", tol=1e-6, memory_limit=2 * 60 * len(y))
    assert sp.issparse(grouped.dual_coef)
    assert grouped.dual_coef.shape == (4, len(y))
    np.testing.assert_allclose(grouped.coef, whole.coef, atol=1e-4)
    away = np.linalg.norm(grouped.dual_coef @ X - grouped.coef)
    assert away <= np.sqrt(2 * grouped.dual_gap)
    assert sorted(set(grouped.history["problem"])) == [0, 1, 2, 3]


@pytest.mark.parametrize("params", FORMULATIONS, ids=NAMES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_tables_on_the_host_when_memory_is_short(monkeypatch, tuned, params, n_classes):
    """Numbers per row and class are kept there, a slice of rows is trained on at a time."""
    tables = []

    class Spied(OnHost):
        def __getitem__(self, place):
            tables.append(self.values[place].shape)
            return super().__getitem__(place)

    monkeypatch.setattr(rows_module, "OnHost", Spied)
    tuned(SLICE_BYTES=1)
    X, y = some_digits(n_classes)
    whole = train_in_namespace(X, y, tol=1e-6, **params)
    assert not tables
    for start in (None, whole.dual_coef):
        spilled = train_in_namespace(X, y, tol=1e-6, memory_limit=5000, duals=start, **params)
        apart = np.linalg.norm(spilled.coef - whole.coef)  # by strong convexity, at most
        assert apart <= 2 * (np.sqrt(spilled.dual_gap) + np.sqrt(whole.dual_gap))
        assert sp.issparse(spilled.dual_coef)
        away = np.linalg.norm(spilled.dual_coef @ X - spilled.coef)
        assert away <= np.sqrt(2 * spilled.dual_gap)
    assert max(tables)[0] < len(y) / 2
    with pytest.raises(MemoryError, match="raise memory_limit"):
        train_in_namespace(X, y, memory_limit=10, **params)


@pytest.mark.parametrize("params", FORMULATIONS, ids=NAMES)
@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_a_model_that_is_not_done_has_a_true_certificate(dispatch, params, max_iter):
    X, y = some_digits()
    with pytest.warns(ConvergenceWarning, match="stopped at relative duality gap"):
        model = LinearSVC(max_iter=max_iter, tol=1e-40, **params).fit(as_strict(X), as_strict(y))
    assert not model.converged_
    assert model.n_iter_ == max_iter or model.relative_gap_ < 1e-15  # nothing less can be proven
    check_certificate(X, y, model, np.ones(len(y)), params, np.inf)


def test_ctrl_c_and_time_leave_a_model():
    X, y = some_digits()
    settings = Settings(loss="hinge", tol=1e-9)
    calls = []

    def stop():
        calls.append(1)
        return len(calls) > 20

    with Context(stop=stop) as context:
        data = training_data(OnDevice(X, ON_HOST, True), y, None, settings, context)
        stopped = train(data, settings, context)
    late = train_in_namespace(X, y, loss="hinge", tol=1e-9, max_time=1e-3)
    for fitted in (stopped, late):
        assert not fitted.converged
        model = LinearSVC(loss="hinge")
        model.__dict__.update(fitted.attributes())
        check_certificate(X, y, model, np.ones(len(y)), {"loss": "hinge"}, np.inf)


@everywhere
@pytest.mark.parametrize("params", FORMULATIONS, ids=NAMES)
def test_warm_starts(dispatch, convert, params):
    X, y = some_digits()
    X, y = convert(X), convert(y)
    model = LinearSVC(warm_start=True, tol=1e-6, **params).fit(X, y)
    cold = model.n_iter_
    before = to_host(model.coef_)
    model.fit(X, y)
    assert model.n_iter_ == 0 < cold
    np.testing.assert_allclose(to_host(model.coef_), before, atol=1e-5)
    model.set_params(C=0.5).fit(X, y)
    check_agreement(model, LinearSVC(C=0.5, tol=1e-6, **params).fit(X, y))


@everywhere
@pytest.mark.filterwarnings("ignore:.* found the best score at C")
def test_paths_and_searches(dispatch, convert):
    X, y = some_digits()
    Cs = [0.01, 0.1, 1.0]
    path = svc_path(convert(X), convert(y), Cs, loss="hinge", tol=1e-5)
    for C, model in zip(Cs, path.models, strict=True):
        check_agreement(model, LinearSVC(C=C, loss="hinge", tol=1e-5, random_state=0).fit(X, y))
    assert path.coefs.shape == (3, 4, 64)
    options = {"Cs": Cs, "cv": 3, "tol": 1e-5, "random_state": 0}
    found = LinearSVCCV(**options).fit(convert(X), convert(y))
    reference = LinearSVCCV(**options).fit(X, y)
    assert found.C_ == reference.C_
    np.testing.assert_allclose(found.scores_, reference.scores_, atol=0.02)
    check_agreement(found, reference)
    predicted = found.predict(convert(X))
    assert type(predicted) is type(convert(y))
    np.testing.assert_array_equal(to_host(predicted), reference.predict(X))
    assert found.score(convert(X), convert(y)) == reference.score(X, y)
    default = LinearSVCCV(Cs=2, cv=3, random_state=0)
    largest = default.fit(X, y).Cs_[-1]
    np.testing.assert_allclose(default.fit(convert(X), convert(y)).Cs_[-1], largest)
    weighted = LinearSVCCV(**options, scoring="balanced_accuracy").fit(
        convert(X), convert(y), sample_weight=convert(np.ones(len(y)))
    )
    assert np.isfinite(weighted.scores_).all()


def test_labels_of_text_stay_on_the_host(dispatch):
    X, y = some_digits()
    names = np.array(["zero", "one", "two", "three"])[y]
    model = LinearSVC().fit(as_strict(X), names)
    assert isinstance(model.classes_, np.ndarray)
    predicted = model.predict(as_strict(X))
    assert isinstance(predicted, np.ndarray)
    assert model.score(as_strict(X), names) == np.mean(predicted == names) > 0.95


def test_what_cannot_be_trained_on_a_device(dispatch):
    xp = pytest.importorskip("array_api_strict")
    X, y = some_digits()
    there, labels = xp.asarray(X), xp.asarray(y)
    elsewhere = xp.asarray(y, device=xp.Device("device1"))
    for bad, error, message in [
        ((xp.asarray(X.astype(int)), labels), TypeError, "int64 .*float32"),
        ((xp.asarray(X[0]), labels), ValueError, "two dimensions"),
        ((there, labels[:-1]), ValueError, "240 rows, but y has 239"),
        ((there, None), ValueError, "no labels"),
        ((there, elsewhere), ValueError, "device1.* one place"),
        ((xp.asarray(X[:, :0]), labels), ValueError, "no features"),
        ((xp.asarray(X[:0]), labels[:0]), ValueError, "no rows"),
        ((there, xp.asarray(0 * y)), ValueError, "at least 2 classes"),
        ((there, labels, xp.asarray(np.full(len(y), -1.0))), ValueError, "negative"),
        ((there, labels, np.ones(3)), ValueError, "sample_weight"),
    ]:
        with pytest.raises(error, match=message):
            LinearSVC().fit(*bad)
    X = X.copy()
    X[7, 3] = np.nan
    with pytest.raises(ValueError, match="Row 7"):
        LinearSVC().fit(xp.asarray(X), labels)
    model = LinearSVC().fit(there, labels)
    with pytest.raises(ValueError, match=r"coef_ is .*but X is an array of NumPy"):
        model.predict(np.nan_to_num(X))
    with pytest.raises(ValueError, match="features"):
        model.predict(there[:, :5])
    with pytest.raises(TypeError, match="certify takes no arrays on a device"):
        certify(model, there, labels)
    with pytest.raises(TypeError, match="compare_multiclass"):
        compare_multiclass(there, labels)


def test_half_precision_is_refused(dispatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, y = some_digits()
    for dtype in ("float16", "bfloat16"):
        X_half = torch.asarray(X).to(getattr(torch, dtype))
        with pytest.raises(TypeError, match=f"{dtype} on the device.*float32"):
            LinearSVC().fit(X_half, torch.asarray(y))
    with pytest.raises(TypeError, match="Sparse torch"):
        LinearSVC().fit(torch.asarray(X).to_sparse(), torch.asarray(y))


def test_tensors_that_want_gradients_can_be_trained_on(dispatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, y = some_digits()
    rows = torch.tensor(X, requires_grad=True)
    model = LinearSVC().fit(rows, torch.asarray(y))
    assert not model.coef_.requires_grad
    assert rows.grad is None


def test_without_dispatch_host_arrays_become_numpys():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, y = some_digits()
    assert space_of(torch.asarray(X)) is None
    assert space_of(X) is None
    model = LinearSVC(random_state=0).fit(torch.asarray(X), torch.asarray(y))
    assert isinstance(model.coef_, np.ndarray)


def test_out_of_memory_is_a_clear_error(dispatch, monkeypatch):
    class OutOfMemoryError(RuntimeError):
        pass

    def product(*arguments):
        raise OutOfMemoryError("cannot allocate 17 bytes.")

    X, y = some_digits()
    monkeypatch.setattr(DeviceHessian, "product", product)
    with pytest.raises(MemoryError, match=r"17 bytes.*memory_limit") as caught:
        LinearSVC().fit(as_strict(X), as_strict(y))
    assert caught.value.__context__ is None  # which would keep what was allocated


@pytest.mark.gpu
@on_gpu
def test_memory_of_a_device_is_given_back(convert):
    X, y = some_digits()
    X, y = convert(np.repeat(X, 200, axis=0).astype(np.float32)), convert(np.repeat(y, 200))
    space = space_of(X)

    def free():
        space.release()
        return space.free_bytes()

    LinearSVC(tol=0.1).fit(X[:1000], y[:1000])
    before = free()
    model = LinearSVC(loss="hinge").fit(X, y)
    assert model.converged_
    del model
    assert before - free() < 2**24
    ballast = space.empty((int(space.free_bytes()) - 2**31,), space.xp.uint8)
    with pytest.raises(MemoryError, match="ran out of memory"):
        LinearSVC(multi_class="crammer_singer", memory_limit=2**62).fit(
            X, np.arange(len(y)) % 20_000
        )
    del ballast
    assert before - free() < 2**24


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("params", FORMULATIONS, ids=NAMES)
def test_tables_of_a_device_on_the_host(tuned, convert, params):
    tuned(SLICE_BYTES=1)
    X, y = some_digits()
    X, y = convert(np.repeat(X, 20, axis=0).astype(np.float32)), convert(np.repeat(y, 20))
    whole = LinearSVC(**params).fit(X, y)
    model = LinearSVC(memory_limit=100_000, **params).fit(X, y)
    assert model.converged_
    assert sp.issparse(model.dual_coef_)
    check_agreement(model, whole)


@pytest.mark.gpu
@on_gpu
def test_the_same_device_gives_the_same_model(convert):
    X, y = some_digits()
    X, y = convert(np.repeat(X, 50, axis=0).astype(np.float32)), convert(np.repeat(y, 50))
    for params in FORMULATIONS:
        one, other = (LinearSVC(**params).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(to_host(one.coef_), to_host(other.coef_))


@pytest.mark.gpu
def test_devices_are_not_mixed():
    X, y = some_digits()
    with pytest.raises(ValueError, match="one place"):
        LinearSVC().fit(as_cuda(X), as_torch(y))
    model = LinearSVC().fit(as_cuda(X), y)
    assert isinstance(model.classes_, np.ndarray)
    with pytest.raises(ValueError, match="coef_ is"):
        model.predict(X)


@everywhere
@pytest.mark.parametrize("params", [{"loss": "hinge"}, {"multi_class": "weston_watkins"}])
def test_models_move_to_the_host(dispatch, convert, params, tmp_path):
    """And there, they are certified, saved, and trained on."""
    array_api = pytest.importorskip("sklearn.utils._array_api")
    if not hasattr(array_api, "move_estimator_to"):
        pytest.skip("this scikit-learn moves no estimators")
    X, y = some_digits()
    model = LinearSVC(C=0.3, tol=1e-5, warm_start=True, **params).fit(convert(X), convert(y))
    moved = array_api.move_estimator_to(model, xnp, "cpu")
    assert type(moved.coef_) is type(moved.dual_coef_) is np.ndarray
    np.testing.assert_array_equal(moved.predict(X), to_host(model.predict(convert(X))))
    certificate = certify(moved, X, y)
    assert certificate.primal == pytest.approx(model.primal_objective_, rel=1e-9)
    assert certificate.n_iter == 0  # its own dual variables prove it
    save_model(model, tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.coef_, moved.coef_)
    np.testing.assert_array_equal(again.dual_coef_.toarray(), moved.dual_coef_)
    save_liblinear(model, tmp_path / "model.txt")
    np.testing.assert_array_equal(load_model(tmp_path / "model.txt").coef_, moved.coef_)
    for each in (model, moved):
        each.fit(X, y)  # from the dual variables it has
        assert isinstance(each.coef_, np.ndarray)
        check_agreement(each, moved)


@everywhere
def test_callbacks_see_models_where_they_are(dispatch, convert):
    pytest.importorskip("sklearn.callback")
    X, y = some_digits()
    X, y = convert(X), convert(y)

    class Recorder:
        def __init__(self, stop_after):
            self.objectives, self.names, self.stop_after = [], [], stop_after

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            self.names.append(context.task_name)
            if fitted_estimator is not None:
                assert type(fitted_estimator.coef_) is type(X)
                W = np.column_stack(
                    [to_host(fitted_estimator.coef_), to_host(fitted_estimator.intercept_)]
                )
                naive = NaiveMulticlass(
                    to_host(X), to_host(y), np.ones(X.shape[0]), "weston_watkins", 1.0, n_classes=4
                )
                self.objectives.append(naive.primal(W.T))
            return len(self.names) >= self.stop_after

    recorder = Recorder(np.inf)
    model = LinearSVC(multi_class="weston_watkins", tol=1e-5).set_callbacks(recorder).fit(X, y)
    assert len(recorder.objectives) == model.n_iter_
    assert recorder.objectives[-1] == pytest.approx(model.primal_objective_, rel=1e-9)
    model.set_callbacks(Recorder(3))
    with pytest.warns(ConvergenceWarning):
        assert model.fit(X, y).n_iter_ == 3
    recorder = Recorder(np.inf)
    LinearSVC().set_callbacks(recorder).fit(X, y)
    assert recorder.names.count("class") == 4


def test_a_linear_probe_from_tensors_to_predictions(monkeypatch, capsys):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    import linear_probe

    options = ["--rows", "1500", "--columns", "24", "--classes", "5", "--device", "cpu"]
    model, accuracy = linear_probe.main(options)
    assert isinstance(model.coef_, torch.Tensor)
    X, y = linear_probe.embeddings(1500, 24, 5, "cpu")
    reference = LinearSVC(C=model.C_, tol=1e-3, random_state=0).fit(X[:1200].numpy(), y[:1200])
    check_agreement(model, reference)
    assert accuracy == pytest.approx(reference.score(X[1200:].numpy(), y[1200:]), abs=0.03)
    assert f"{accuracy:.3f}" in capsys.readouterr().out
    model, accuracy = linear_probe.main([*options, "--probabilities"])
    reference = LogisticRegression(C=model.C_, tol=1e-3, intercept="penalized", random_state=0)
    reference.fit(X[:1200].numpy(), y[:1200])
    check_agreement(model, reference)
    loss = log_loss(y[1200:], reference.predict_proba(X[1200:].numpy()))
    said = float(capsys.readouterr().out.rpartition(" ")[2])
    assert said == pytest.approx(loss, abs=0.02)


def test_the_precision_of_torch_is_restored_whatever_threads_do():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    settings = torch.backends.cuda.matmul
    if not hasattr(settings, "fp32_precision"):
        pytest.skip("this torch names its precisions otherwise")
    space = Space(_compat().array_namespace(torch.empty(1)), SimpleNamespace(type="cuda"))
    before, seen = settings.fp32_precision, []

    def train():
        for _ in range(200):
            with space.products():
                with space.products(rough=True):
                    seen.append(settings.fp32_precision == "tf32")
                seen.append(settings.fp32_precision == "ieee")

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(train) for _ in range(4)]:
            each.result()
    assert len(seen) == 1600
    assert all(seen)
    assert settings.fp32_precision == before


@pytest.mark.gpu
def test_products_are_rough_only_for_directions():
    X, _ = some_digits()
    torch = pytest.importorskip("torch", reason="torch is not installed")
    space = space_of(as_cuda(X.astype(np.float32)))
    A = torch.randn((512, 512), device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    exact = A.double() @ A.double()

    def error():
        return float((A @ A - exact).abs().max())

    before = torch.backends.cuda.matmul.fp32_precision
    with space.products():
        careful = error()
        with space.products(rough=True):
            assert error() > 20 * careful
        assert error() == careful
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_what_is_not_trained_on_a_device_is_refused(dispatch):
    X, y = some_digits()
    with pytest.raises(TypeError, match="LinearSVR takes no arrays on a device"):
        LinearSVR().fit(as_strict(X), y)
    with pytest.raises(ValueError, match="intercept='free' is not available"):
        LinearSVC(intercept="free").fit(as_strict(X), y)

"""`LogisticRegression` against a trust-region method of SciPy, wherever rows are."""

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn import config_context

from dualsweep import LogisticRegression
from dualsweep._host import to_host
from dualsweep.io import write_store

FORMULATIONS = ["binary", "ovr", "multinomial"]
CLASS_WEIGHT = {0: 0.5, 1: 4.0, 2: 1.0}
n_rows, n_features = 160, 4


@cache
def data(formulation):
    """Rows of 2 or 3 classes that overlap, and weights of which some are 0."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2 if formulation == "binary" else 3, n_rows)
    X = rng.normal(size=(n_rows, n_features)) + rng.normal(size=(3, n_features))[y] + 1.0
    X[np.abs(X) < 0.4] = 0.0
    return X, y, rng.choice([0.0, 0.5, 1.0, 3.0], n_rows)


def costs(formulation, C, weighted):
    _, y, weight = data(formulation)
    return C * weight * np.array([CLASS_WEIGHT[label] for label in y]) if weighted else C + 0.0 * y


def objective(W, X, Y, cost, ridge):
    """Objective, gradient and Hessian of a problem with scores X W and indicators Y of classes."""
    d, k = W.shape
    scores = X @ W
    p = softmax(scores, axis=1)
    value = (ridge * (W * W).sum(axis=1)).sum() / 2 - cost @ (Y * log_softmax(scores, 1)).sum(1)
    gradient = ridge[:, None] * W + X.T @ (cost[:, None] * (p - Y))
    curved = np.einsum("i,ia,ab->iab", cost, p, np.eye(k)) - np.einsum("i,ia,ib->iab", cost, p, p)
    hessian = np.einsum("ij,iab,il->jalb", X, curved, X).reshape(d * k, d * k)
    return value, gradient.ravel(), hessian + np.diag(np.repeat(ridge, k))


def problems(formulation, C, weighted, intercept):
    """Yield rows, indicators, costs and the penalties of weights; two classes have halves of w."""
    X, y, _ = data(formulation)
    ridge = np.ones(n_features + 1)
    ridge[-1] = {"penalized": 1.0, "free": 0.0, "none": 1.0}[intercept]
    Z = np.column_stack([X, np.full(n_rows, float(intercept != "none"))])
    cost = costs(formulation, C, weighted)
    if formulation == "multinomial":
        yield Z, np.eye(3)[y], cost, ridge
        return
    for positive in [1] if formulation == "binary" else [0, 1, 2]:
        # w is the difference of two vectors: 1/2 |w|^2 = |w/2|^2 + |-w/2|^2.
        yield Z, np.eye(2)[(y == positive).astype(int)], cost, 2.0 * ridge


@cache
def optimum(formulation, C, weighted, intercept):
    """The minimum, and the weights: a row for each problem of two classes, else for each class."""
    total, rows = 0.0, []
    for Z, Y, cost, ridge in problems(formulation, C, weighted, intercept):
        shape = Z.shape[1], Y.shape[1]

        def part(w, which, given=(Z, Y, cost, ridge), shape=shape):
            return objective(w.reshape(shape), *given)[which]

        found = minimize(
            part,
            np.zeros(np.prod(shape)),
            (0,),
            "trust-exact",
            jac=lambda w, _, part=part: part(w, 1),
            hess=lambda w, _, part=part: part(w, 2),
            options={"gtol": 1e-10, "maxiter": 1000},
        )
        w = found.x
        for _ in range(3):  # Newton's last digits, which values are too rough to accept
            w = w - np.linalg.lstsq(part(w, 2), part(w, 1))[0]
        assert np.abs(part(w, 1)).max() <= 1e-10 * max(C, 1.0)
        total += part(w, 0)
        W = w.reshape(shape).T
        rows.extend(W if formulation == "multinomial" else [W[1] - W[0]])
    return total, np.array(rows)


def check(model, formulation, weighted, intercept):
    W = np.column_stack([to_host(model.coef_), to_host(model.intercept_)]).astype(float)
    if formulation == "multinomial":
        [(Z, Y, cost, ridge)] = problems(formulation, model.C, weighted, intercept)
        primal = objective(W.T, Z, Y, cost, ridge)[0]
    else:
        given = problems(formulation, model.C, weighted, intercept)
        pairs = zip(W, given, strict=True)
        primal = sum(objective(np.array([-w / 2, w / 2]).T, *each)[0] for w, each in pairs)
    best, weights = optimum(formulation, model.C, weighted, intercept)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-11)
    assert model.dual_objective_ <= best * (1 + 1e-13)
    assert best * (1 - 1e-13) <= model.primal_objective_
    assert model.dual_gap_ <= model.tol * model.primal_objective_ * len(W)
    # P is strongly convex in the weights that are penalised.
    near = np.sqrt(2 * model.dual_gap_) + 1e-7
    assert np.linalg.norm(W[:, :-1] - weights[:, :-1]) <= near
    if intercept == "penalized":
        assert np.linalg.norm(W - weights) <= near
    if intercept == "none":
        assert not W[:, -1].any()


def params_of(formulation, weighted, intercept, **more):
    params = {"random_state": 0, "max_iter": 20_000, **more}
    params["multi_class"] = "ovr" if formulation == "ovr" else "multinomial"
    params |= {"fit_intercept": False} if intercept == "none" else {"intercept": intercept}
    X, y, weight = data(formulation)
    if weighted:
        params["class_weight"] = {label: CLASS_WEIGHT[label] for label in np.unique(y).tolist()}
    return params, X, y, weight if weighted else None


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("intercept", ["free", "penalized", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", ["auto", "sweep", "newton"])
def test_in_memory(formulation, intercept, weighted, solver):
    for layout in (np.asarray, sp.csr_array):
        for C in (0.01, 1.0, 30.0):
            tol = 1e-7 if solver == "sweep" else 1e-10
            how = {"C": C, "tol": tol, "solver": solver}
            params, X, y, weight = params_of(formulation, weighted, intercept, **how)
            model = LogisticRegression(**params).fit(layout(X), y, weight)
            check(model, formulation, weighted, intercept)


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("intercept", ["penalized", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_in_blocks_on_disk(tmp_path, formulation, intercept, weighted):
    how = {"tol": 1e-5, "memory_limit": 22_000}
    params, X, y, weight = params_of(formulation, weighted, intercept, **how)
    store = write_store(tmp_path / "store", sp.csr_array(X), y, block_bytes=2_000)
    assert len(store) > 3
    model = LogisticRegression(**params).fit(store, sample_weight=weight)
    check(model, formulation, weighted, intercept)


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("intercept", ["penalized", "none"])
def test_on_a_cluster(intercept):
    pytest.importorskip("distributed", reason="needs dualsweep[dask]")
    import dask.array as da
    from distributed import Client

    from dualsweep.distributed import LogisticRegression as OnCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Client(processes=False, n_workers=1, dashboard_address=":0"):
            for formulation in FORMULATIONS:
                for weighted in (False, True):
                    params, X, y, weight = params_of(formulation, weighted, intercept, tol=1e-6)
                    params.pop("intercept", None)  # is always penalised there
                    model = OnCluster(**params)
                    model.fit(da.from_array(X, (60, n_features)), y, weight)
                    check(model, formulation, weighted, intercept)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("intercept", ["penalized", "none"])
def test_on_a_device(monkeypatch, library, formulation, intercept):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    there = pytest.importorskip(library, reason=f"{library} is not installed")
    for weighted in (False, True):
        for C in (0.01, 1.0, 30.0):
            params, X, y, weight = params_of(formulation, weighted, intercept, C=C, tol=1e-9)
            with config_context(array_api_dispatch=True):
                given = [None if a is None else there.asarray(a) for a in (X, y, weight)]
                model = LogisticRegression(**params).fit(*given)
            check(model, formulation, weighted, intercept)

"""Multinomial logistic regression: sweeps, certificates and Newton steps against plain NumPy."""

from dataclasses import replace
from decimal import Decimal, getcontext
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from local_partitions import LocalPartitions
from naive import NaiveMultinomial, augment, certified, library_multinomial, passes_of
from scipy.optimize import check_grad, minimize
from scipy.special import entr, logsumexp, softmax
from sklearn import config_context
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression

from dualsweep import LinearSVC
from dualsweep._host import to_host
from dualsweep.datasets import make_text_like
from dualsweep.estimators._device import _compat, space_of
from dualsweep.estimators._proof import prove
from dualsweep.io import write_store
from dualsweep.kernels.multinomial import block_step, entropies, intercept_sums
from dualsweep.kernels.newton_multinomial import SoftRows
from dualsweep.newton.multiclass import BlockHessian
from dualsweep.newton.slacks import slacks_of
from dualsweep.newton.tuning import BLOCKS
from dualsweep.placements import training_data
from dualsweep.placements.cluster.partitions import PartitionedProblem
from dualsweep.placements.device.arrays import Space
from dualsweep.placements.device.data import OnDevice
from dualsweep.problems.multinomial import FreeMultinomialProblem
from dualsweep.problems.run import PointRun
from dualsweep.solvers.schedules import SCHEDULES
from dualsweep.solvers.solve import Start, solve, start_from
from dualsweep.training import Context, Settings, train

BIAS = 1.5
SOLVERS = ["sweep", "newton"]


def setup(layout="csr", cost=1.0, n=18, d=5, k=4, bias=BIAS, dtype=np.float64, scale=1.0):
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    X = (scale * (rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(k, d))[y])).astype(dtype)
    X[np.abs(X) < 0.3] = 0.0
    X[5], X[7] = 0.0, X[6]
    oracle = NaiveMultinomial(X, y, cost, bias, k)
    problem = library_multinomial(sp.csr_array(X) if layout == "csr" else X, oracle, bias)
    return oracle, problem


def random_duals(oracle, rng):
    """Probabilities of all sizes, 0 and 1 among them."""
    n, k = len(oracle.y), oracle.k
    p = softmax(rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-1, 2.5, (n, 1)), axis=1)
    p[::5] = np.eye(k)[rng.integers(0, k, len(p[::5]))]
    p[oracle.places] = 0.0
    beta = oracle.cost[:, None] * p
    return beta * np.minimum(oracle.cost / np.maximum(beta.sum(axis=1), oracle.cost), 1.0)[:, None]


def test_kernels_of_block_steps():
    """All probabilities fulfil their equation, with one level, and add up to 1."""
    rng = np.random.default_rng(0)
    for q in (0.0, 1e-12, 1e-3, 1.0, 30.0, 1e4, 1e9):
        for k in (2, 3, 40):
            for spread in (0.0, 1e-6, 1.0, 50.0, 1e4):
                old = softmax(rng.normal(size=k) * rng.choice([0.0, 1.0, 100.0]))
                t = spread * rng.normal(size=k)
                p, u = np.full(k, np.nan), t + q * old
                lead = np.where(old > 0, t - np.log(np.where(old > 0, old, 1.0)), 1e300)
                block_step(t, old, lead, q, rng.choice([0.0, t.max(), -1e300]), p)
                assert p.sum() == pytest.approx(1.0, rel=1e-14)
                seen = p > 1e-290
                level = u[seen] - np.log(p[seen]) - q * p[seen]
                top = p[seen].argmax()
                allowed = 1e-5 * (1.0 + q * p[seen]) + 1e-15 * np.abs(u).max()
                assert (np.abs(level - level[top]) <= allowed + allowed[top]).all()
                if not seen.all():
                    assert u[~seen].max() - level[top] <= -660.0


@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("bias", [0.0, BIAS])
def test_a_visit_solves_the_problem_of_a_row(layout, bias):
    cost = 10.0 ** np.random.default_rng(3).uniform(-2, 2, 18)
    oracle, problem = setup(layout, cost, bias=bias)
    beta, W = problem.zero_alpha(), np.zeros(problem.weights_shape)
    for i in np.tile(np.arange(18), 3):
        before, share = oracle.dual(beta), oracle.shares(beta, W)[i]
        (grads, gains), shares = np.empty((2, 1)), np.empty(18)
        apart = np.abs(oracle.probabilities(beta)[i] - softmax(oracle.Z[i] @ W)).sum()
        total, _ = problem.sweep(False, np.array([i]), beta, W, grads, gains, shares)
        assert problem.is_feasible(beta)
        assert shares[i] == pytest.approx(share, rel=1e-9, abs=1e-12 * cost[i])
        assert total == gains[0]
        assert gains[0] == pytest.approx(oracle.dual(beta) - before, rel=1e-5, abs=1e-9)
        assert grads[0] == pytest.approx(apart, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(W, oracle.weights(beta), rtol=1e-9, atol=1e-9)
        # The gradient of the dual objective in p is the same for all classes.
        p, scores = oracle.probabilities(beta)[i], oracle.Z[i] @ W
        seen = p > 1e-9
        level = (scores - np.log(np.where(seen, p, 1.0)))[seen]
        np.testing.assert_allclose(level, level[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("bias", [0.0, BIAS])
def test_certificate_equals_the_naive_one(layout, bias):
    cost = 10.0 ** np.random.default_rng(3).uniform(-2, 2, 18)
    oracle, problem = setup(layout, cost, bias=bias)
    for seed in range(3):
        beta = random_duals(oracle, np.random.default_rng(seed))
        W, primal, gap, firm = certified(problem, problem.alpha_of(beta))
        np.testing.assert_allclose(W, oracle.weights(beta), rtol=1e-12, atol=1e-12)
        assert primal == pytest.approx(oracle.primal(W), rel=1e-12)
        assert gap == pytest.approx(oracle.primal(W) - oracle.dual(beta), rel=1e-11)
        assert gap == pytest.approx(oracle.shares(beta, W).sum(), rel=1e-11)
        assert not firm.any()
        p = oracle.probabilities(beta)
        found = entropies(beta, np.arange(18), oracle.y, problem.cost, 1.0)
        assert found == pytest.approx(cost @ entr(p).sum(axis=1), rel=1e-12)


def exact(oracle, beta, W):
    """Primal and dual with fifty digits; a row that adds up to more than its cost is scaled."""
    getcontext().prec = 50
    number = np.vectorize(lambda x: Decimal(float(x)), otypes=[object])
    Z, V, b, cost = map(number, (oracle.Z, W, beta, oracle.cost))
    zero = Decimal(0)
    primal, dual, sums = (V * V).sum() / 2, zero, np.full(V.shape, zero)
    for z, own, row, c in zip(Z, oracle.y, b, cost, strict=True):
        if c == 0:
            assert not any(row)
            continue
        assert row[own] == 0
        assert min(row) >= 0
        if sum(row) > c:  # by rounding
            assert sum(row) < c * (1 + Decimal("1e-14"))
            row = row * (c / sum(row))
        scores = z @ V
        top = max(scores)
        primal += c * (top - scores[own] + sum((s - top).exp() for s in scores).ln())
        p = [x / c for x in row]
        p[own] = max(1 - sum(p), zero)
        dual -= c * sum(x * x.ln() for x in p if x > Decimal("1e-45"))
        signed = [-x for x in row]
        signed[own] = sum(row)
        sums = sums + np.outer(z, signed)
    return primal, dual - (sums * sums).sum() / 2


def check_bounds(oracle, problem, alpha, w, found, slack=1e-9):
    primal, dual = exact(oracle, alpha, w)
    assert primal <= Decimal(found.primal)
    assert dual >= Decimal(found.dual)
    assert primal - dual <= Decimal(found.gap)
    assert found.gap <= float(primal - dual) + slack * float(primal)
    assert found.primal <= float(primal) * (1 + slack)


@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("C", [1e-8, 1.0, 1e8])
def test_certificates_are_bounds_in_exact_arithmetic(layout, C):
    cost = C * 10.0 ** np.random.default_rng(3).uniform(-2, 2, 18)
    for scale in (1.0, 300.0):
        oracle, problem = setup(layout, cost, scale=scale)
        for seed in range(2):
            beta = random_duals(oracle, np.random.default_rng(seed))
            run = PointRun(problem, alpha=beta)
            check_bounds(oracle, problem, beta, run.w, run)
        result = solve(problem, tol=1e-13, max_iter=300, solver="newton")
        check_bounds(oracle, problem, result.alpha, result.w, result)


def test_a_row_that_its_class_explains_by_nothing():
    """One row far on the wrong side, whose own class has a probability of 1e-300."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) + 3.0 * np.eye(3)[np.arange(30) % 3]
    y = np.arange(30) % 3
    X[0], y[0] = [0.0, 4000.0, 0.0], 0
    cost = np.ones(30)
    cost[0] = 1e-9
    oracle = NaiveMultinomial(X, y, cost, 0.0)
    for solver in SOLVERS:
        problem = library_multinomial(X, oracle)
        result = solve(problem, tol=1e-10, solver=solver, max_iter=20_000)
        assert result.converged
        assert 250.0 < oracle.losses(result.w)[0] / np.log(10.0) < 5000.0
        check_bounds(oracle, problem, result.alpha, result.w, result)


def optimum(oracle):
    """The smallest objective, by a generic solver."""

    def value(w):
        W = w.reshape(oracle.Z.shape[1], oracle.k)
        p = softmax(oracle.Z @ W, axis=1)
        p[oracle.places] -= 1.0
        return oracle.primal(W), (W + oracle.Z.T @ (oracle.cost[:, None] * p)).ravel()

    start = np.zeros(oracle.Z.shape[1] * oracle.k)
    found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 10_000})
    return found.fun


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_optimum_of_a_generic_solver(solver, layout, dtype, C):
    cost = C * np.random.default_rng(3).choice([0.0, 0.5, 1.0, 3.0], 60)
    oracle, problem = setup(layout, cost, n=60, k=5, dtype=dtype)
    result = solve(problem, tol=1e-8, solver=solver, max_iter=20_000)
    assert result.converged
    best = optimum(oracle)
    assert result.dual <= best
    assert best * (1 - 1e-7) <= result.primal <= best * (1 + 2e-8) + 1e-12
    used = oracle.cost > 0
    only = NaiveMultinomial(oracle.Z[used, :-1], oracle.y[used], cost[used], BIAS, 5)
    assert not result.alpha[~used].any()
    assert result.primal == pytest.approx(only.primal(result.w), rel=1e-12)
    assert result.dual == pytest.approx(only.dual(result.alpha[used]), rel=1e-11)
    np.testing.assert_allclose(result.w, only.weights(result.alpha[used]), atol=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_finds_the_optimum(schedule):
    oracle, problem = setup(cost=0.3, n=80, k=6)
    result = solve(problem, tol=1e-6, solver="sweep", schedule=schedule, max_iter=5000)
    assert result.converged
    check_bounds(oracle, problem, result.alpha, result.w, result)


def fit(X, y, weight=None, before=None, duals=None, threads=1, **params):
    """Train by the one way that there is; return what `train` does."""
    settings = Settings(multi_class="multinomial", **params)
    with Context(n_jobs=threads, tol=settings.tol) as context:
        data = training_data(X, y, weight, settings, context, None)
        return train(data, settings, context, before=before, duals=duals)


def objective(model, X, y, C=1.0, bias=1.0, weight=None):
    """The primal of a model, in NumPy."""
    weight = np.ones(len(y)) if weight is None else weight
    scores = X @ model.coef.T + model.intercept
    own = np.take_along_axis(scores, np.searchsorted(model.classes, y)[:, None], axis=1)[:, 0]
    size = (model.coef**2).sum() + (model.intercept**2).sum() / (bias**2 if bias else 1.0)
    return size / 2 + C * weight @ (logsumexp(scores, axis=1) - own)


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_models_agree_with_those_of_scikit_learn(solver, load, C):
    X, y = load(return_X_y=True)
    X = X / np.abs(X).max(axis=0).clip(1e-3)
    y = np.array([f"class {label}" for label in y])
    model = fit(X, y, C=C, tol=1e-9, solver=solver, max_iter=20_000)
    assert model.converged
    assert model.primal_objective == pytest.approx(objective(model, X, y, C), rel=1e-11)
    peer = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, fit_intercept=False)
    peer.fit(augment(X, 1.0), y)
    assert model.classes.tolist() == peer.classes_.tolist()
    theirs = replace(model, coef=peer.coef_[:, :-1], intercept=peer.coef_[:, -1])
    value = objective(theirs, X, y, C)
    assert model.dual_objective <= value * (1 + 1e-14)
    assert value <= model.primal_objective * (1 + 1e-9)
    away = np.linalg.norm(np.column_stack([model.coef, model.intercept]) - peer.coef_)
    assert away <= np.sqrt(2 * model.dual_gap) + np.sqrt(2e-9 * value)


@pytest.mark.parametrize("solver", SOLVERS)
def test_two_classes_are_binary_logistic_regression(solver):
    """One vector of weights, as in scikit-learn."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 2] / 16, np.array(["no", "yes"])[y[y < 2]]
    model = fit(X, y, C=0.3, tol=1e-9, solver=solver, fit_intercept=False, max_iter=20_000)
    assert model.coef.shape == (1, 64)
    peer = LogisticRegression(C=0.3, solver="newton-cholesky", tol=1e-10, fit_intercept=False)
    peer.fit(X, y)
    np.testing.assert_allclose(model.coef, peer.coef_, atol=1e-4)
    sign = np.where(y == "yes", 1.0, -1.0)
    value = (model.coef**2).sum() / 2 + 0.3 * np.log1p(np.exp(-sign * (X @ model.coef[0]))).sum()
    assert model.primal_objective == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(model.dual_coef @ X, model.coef, atol=1e-12)


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_weights_count_as_repetitions(layout):
    X, y = load_wine(return_X_y=True)
    X = X / X.max(axis=0)
    given = sp.csr_array(X) if layout == "csr" else X
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = fit(given, y, weight, tol=1e-10, max_iter=20_000, class_weight={0: 2.0})
    total = weight * np.where(y == 0, 2, 1)
    again = np.repeat(np.arange(len(y)), total.astype(int))
    twin = fit(given[again], y[again], tol=1e-10, max_iter=20_000)
    assert model.converged
    assert twin.converged
    np.testing.assert_allclose(model.coef, twin.coef, atol=1e-3)
    assert model.primal_objective == pytest.approx(twin.primal_objective, rel=1e-9)
    assert model.primal_objective == pytest.approx(objective(model, X, y, weight=total))


@pytest.mark.parametrize("k", [2, 3, 20])
def test_rows_that_can_be_separated(k):
    """At a large C all probabilities of own classes are near 1, and the gap is still precise."""
    rng = np.random.default_rng(0)
    y = np.arange(10 * k) % k
    X = 5.0 * np.eye(k)[y] + 0.3 * rng.normal(size=(len(y), k))
    for C in (1.0, 1e4, 1e8):
        for solver in SOLVERS if C < 1e6 else ["newton"]:
            oracle = NaiveMultinomial(X, y, C, 0.0)
            problem = library_multinomial(X, oracle)
            result = solve(problem, tol=1e-5, solver=solver, max_iter=20_000)
            assert result.converged, (C, solver, result.relative_gap)
            check_bounds(oracle, problem, result.alpha, result.w, result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_class_weights_over_many_orders(solver):
    X, y = load_iris(return_X_y=True)
    X = X / X.max(axis=0)
    cost = np.array([1e-6, 1.0, 1e4])[y]
    oracle = NaiveMultinomial(X, y, cost, 1.0)
    problem = library_multinomial(X, oracle, 1.0)
    result = solve(problem, tol=1e-8, solver=solver, max_iter=100_000)
    assert result.converged
    check_bounds(oracle, problem, result.alpha, result.w, result)


def new_slacks(layout="csr", k=4, seed=0):
    cost = np.random.default_rng(3).choice([0.0, 0.5, 1.0, 3.0], 18)
    oracle, problem = setup(layout, cost, k=k)
    w = np.random.default_rng(seed).normal(size=problem.weights_shape)
    w = np.asarray(w, order=problem.passes.order)
    return oracle, problem, w, slacks_of(problem, w, problem.zero_alpha(), lambda: False)


@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("k", [2, 4])
def test_what_newton_steps_compute(tuned, layout, k):
    tuned(CURVED_ROWS=5, LIGHT_ROWS=4, PART_ROWS=4)
    oracle, problem, w, slacks = new_slacks(layout, k)

    def value(v):
        return oracle.primal(v.reshape(w.shape))

    def gradient(v):
        point = np.asarray(v.reshape(w.shape), order=problem.passes.order)
        weights, _ = slacks_of(problem, point, problem.zero_alpha(), bool).measure(0.0, 0.0, False)
        return (v.reshape(w.shape) - weights).ravel()

    weights, (losses, excess) = slacks.measure(0.0, 0.0, False)
    assert losses == pytest.approx(oracle.cost @ oracle.losses(w))
    assert excess == 0.0
    assert check_grad(value, gradient, w.ravel()) < 1e-5
    np.testing.assert_allclose(weights.ravel(), (w.ravel() - gradient(w.ravel())), atol=1e-12)
    p = np.asarray(np.random.default_rng(1).normal(size=w.shape), order=problem.passes.order)
    slope, curvature = slacks.aim(p, 0.0, 0.7)
    for t in (0.7, 0.3):
        slope, curvature = slacks.slope(0.0, t)
        ahead, behind = (gradient((w + (t + e) * p).ravel()) @ p.ravel() for e in (1e-6, -1e-6))
        at = gradient((w + t * p).ravel()) @ p.ravel()
        assert slope == pytest.approx(at - np.vdot(w + t * p, p), rel=1e-9)
        assert curvature + (p**2).sum() == pytest.approx((ahead - behind) / 2e-6, rel=1e-5)
    ahead, behind = (gradient((w + e * p).ravel()) for e in (1e-6, -1e-6))
    product = slacks.product(p, 0.0)
    np.testing.assert_allclose(product.ravel() + p.ravel(), (ahead - behind) / 2e-6, atol=1e-6)
    matrix, factor = slacks.hessian(0.0, True)
    np.testing.assert_allclose(factor * matrix @ p.ravel(), product.ravel(), atol=1e-10)
    one = np.zeros_like(p)
    for m in range(k):
        diagonal = slacks.diagonal(0.0)[:, m]
        one[:] = 0.0
        one[0, m] = 1.0
        members = problem.candidates
        expected = diagonal @ oracle.Z[members, 0] ** 2
        assert slacks.product(one, 0.0)[0, m] == pytest.approx(expected, abs=1e-12)
    # A step, and the dual point there.
    weights, (losses, _) = slacks.measure(0.0, 0.3, False)
    assert losses == pytest.approx(oracle.cost @ oracle.losses(w + 0.3 * p))
    duals = slacks.duals()
    assert problem.is_feasible(duals)
    np.testing.assert_allclose(oracle.weights(duals), weights, atol=1e-12)


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_blocks_of_classes_are_a_preconditioner(tuned, layout):
    tuned(DIRECT_WEIGHTS=10, CURVED_ROWS=5)
    _, _, w, slacks = new_slacks(layout)
    slacks.measure(0.0, 0.0, False)
    assert slacks.tuning is BLOCKS
    assert isinstance(slacks.curved_rows(), SoftRows)
    hessian = slacks.preconditioned(0.0)
    assert isinstance(hessian, BlockHessian)
    v = np.asfortranarray(np.random.default_rng(1).normal(size=w.shape))
    v -= v.mean(axis=1, keepdims=True)
    with hessian.in_use():
        np.testing.assert_allclose(hessian.product(v), v + slacks.product(v, 0.0), atol=1e-9)
        scaled = hessian.precondition(v)
    np.testing.assert_allclose(scaled.sum(axis=1), 0.0, atol=1e-6)
    assert (scaled * v).sum() > 0


@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("direct", [True, False])
def test_newton_steps_by_factors_and_by_conjugate_gradients(tuned, layout, direct):
    if not direct:
        tuned(DIRECT_WEIGHTS=10)
    oracle, problem = setup(layout, 10.0, n=200, k=5)
    result = solve(problem, solver="newton", tol=1e-9)
    assert result.converged
    assert result.n_newton == result.n_iter
    assert result.n_newton <= 15
    check_bounds(oracle, problem, result.alpha, result.w, result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_model_does_not_depend_on_its_threads(tuned, solver):
    tuned(PART_ROWS=50, GRAM_ROWS=50, LIGHT_ROWS=50)
    X, y = load_digits(return_X_y=True)
    X = sp.csr_array(X[:400] / 16)
    one, two = (fit(X, y[:400], solver=solver, threads=n, tol=1e-6) for n in (1, 2))
    assert np.array_equal(one.coef, two.coef)
    assert (one.dual_coef != two.dual_coef).nnz == 0


@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_starts(solver):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    params = {"solver": solver, "tol": 1e-4, "max_iter": 5000}
    cold = fit(X, y, C=0.5, **params)
    again = fit(X, y, C=0.5, duals=cold.dual_coef, **params)
    assert again.n_iter == 0
    assert again.relative_gap <= 1.01 * cold.relative_gap
    for C in (5.0, 0.05):
        there, near = fit(X, y, C=C, **params), fit(X, y, C=C, before=cold, **params)
        assert near.converged
        assert near.history["gap"][0] < there.history["gap"][0]
        assert near.dual_objective <= there.primal_objective
        assert there.dual_objective <= near.primal_objective
        duals = near.dual_coef.toarray()
        np.testing.assert_allclose(duals @ X, near.coef, atol=1e-9)


def test_a_start_for_other_costs_is_the_best_of_some_multiples():
    oracle, problem = setup(cost=1.0, n=60)
    result = solve(problem, tol=1e-9, solver="newton")
    for ratio in (0.1, 1.0, 10.0):
        other = problem.with_costs(ratio * problem.cost)
        start = start_from(other, problem.candidates, result)
        assert isinstance(start, Start)
        assert other.is_feasible(start.alpha)
        there = at_cost(oracle, ratio)
        room = (there.cost / result.alpha.sum(axis=1)).min()
        for factor in room * np.linspace(0.0, 1.0, 20):
            assert there.dual(start.alpha) >= 0.9 * there.dual(factor * result.alpha)


def at_cost(oracle, ratio):
    return NaiveMultinomial(oracle.Z[:, :-1], oracle.y, ratio * oracle.cost, BIAS, oracle.k)


def test_blocks_on_disk_have_the_certificate_of_rows_in_memory(tmp_path):
    X, y = make_text_like(600, 100, mean_length=12, n_classes=5, random_state=1, dtype=np.float64)
    store = write_store(tmp_path / "store", X, y, block_bytes=6_000)
    params = {"C": 3.0, "tol": 1e-5, "max_iter": 3000}
    limit = 3 * 8 * 101 * 5 + 600 * 5 * 16 + 200_000
    model = fit(store, None, memory_limit=limit, **params)
    whole = fit(X, y, **params)
    assert model.converged
    assert model.dual_objective <= whole.primal_objective
    assert whole.dual_objective <= model.primal_objective
    assert model.primal_objective == pytest.approx(objective(model, X, y, 3.0), rel=1e-10)
    np.testing.assert_allclose(model.coef, (model.dual_coef @ X).toarray(), atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_partitions_prove_the_same_optimum(solver):
    oracle, problem = setup(cost=2.0, n=90, k=5)
    order = np.random.default_rng(0).permutation(90)
    parts = []
    for some in np.array_split(order, 3):
        few = NaiveMultinomial(oracle.Z[some, :-1], oracle.y[some], 2.0, BIAS, 5)
        parts.append(library_multinomial(sp.csr_array(few.Z[:, :-1]), few, BIAS))
    whole = PartitionedProblem(LocalPartitions(parts), parts[0], problem.primal_at_zero)
    result = solve(whole, tol=1e-5, solver=solver, max_iter=3000)
    assert result.converged
    there = solve(problem, tol=1e-9, solver="newton")
    assert result.dual <= there.primal
    assert there.dual <= result.primal <= there.primal * (1 + 1.1e-5)


def on_device(X, space):
    return OnDevice(X if sp.issparse(X) else space.xp.asarray(X), space, False)


@pytest.fixture(params=["numpy", "strict"])
def space(request, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    if request.param == "numpy":
        return Space(_compat().array_namespace(np.empty(1)), "cpu")
    strict = pytest.importorskip("array_api_strict")
    with config_context(array_api_dispatch=True):
        return space_of(strict.asarray([[1.0]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_devices_train_the_same_model(tuned, space, dtype, k, C):
    """Several classes in several parts, rows of weight 0 among them."""
    tuned(HOST_SLICE=2000)
    X, y = load_digits(return_X_y=True)
    X, y = (X[y < k][:300] / 16).astype(dtype), y[y < k][:300]
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], len(y))
    tol = 1e-3 if dtype == np.float32 else 1e-8
    params = {"C": C, "tol": tol, "solver": "newton"}
    model, host = fit(on_device(X, space), y, weight, **params), fit(X, y, weight, **params)
    assert model.converged
    assert model.relative_gap <= tol
    coef, intercept, duals = (to_host(a) for a in (model.coef, model.intercept, model.dual_coef))
    if k == 2:
        coef, intercept = (np.concatenate([-0.5 * a, 0.5 * a]) for a in (coef, intercept))
        duals = np.concatenate([-0.5 * duals, 0.5 * duals])
    used, W = weight > 0, np.column_stack([coef, intercept]).T
    assert not duals[:, ~used].any()
    oracle = NaiveMultinomial(X[used], y[used], C * weight[used], 1.0, k)
    beta = -duals.T[used].astype(np.float64)
    beta[oracle.places] = 0.0
    assert (beta >= 0).all()
    assert (beta.sum(axis=1) <= oracle.cost * (1 + 1e-14)).all()
    assert model.primal_objective == pytest.approx(oracle.primal(W), rel=1e-9)
    assert model.dual_objective == pytest.approx(oracle.dual(beta), rel=1e-9)
    primal, dual = exact(oracle, beta, W)
    assert primal <= Decimal(model.primal_objective)
    assert dual >= Decimal(model.dual_objective)
    assert primal - dual <= Decimal(model.dual_gap)
    assert model.dual_objective <= host.primal_objective
    assert host.dual_objective <= model.primal_objective


@pytest.mark.parametrize("sparse", [False, True])
def test_devices_take_sparse_rows_starts_and_limits_of_memory(tuned, sparse):
    tuned(HOST_SLICE=2000)
    space = Space(_compat().array_namespace(np.empty(1)), "cpu")
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    given = on_device(sp.csr_array(X) if sparse else X, space)
    for memory_limit in (None, 20_000):
        params = {"solver": "newton", "memory_limit": memory_limit}
        cold = fit(given, y, tol=1e-9, **params)
        assert cold.converged
        assert cold.primal_objective == pytest.approx(
            fit(X, y, tol=1e-9, solver="newton").primal_objective, rel=2e-9
        )
        again = fit(given, y, tol=1e-6, duals=cold.dual_coef, **params)
        assert again.n_iter == 0
        for C in (2.0, 0.5):
            near = fit(given, y, C=C, tol=1e-6, duals=cold.dual_coef, **params)
            assert near.converged
            assert near.n_iter <= fit(given, y, C=C, tol=1e-6, **params).n_iter + (C < 1.0)
            assert near.history["gap"][0] < (0.1 if C > 1 else 0.8) * C * 400 * np.log(10)


def new_free(X, y, cost):
    passes, codes = passes_of(X, 1.0), np.asarray(y, np.int64)
    given = passes, passes.sqnorms(), codes, np.broadcast_to(cost, len(y)).astype(float)
    return FreeMultinomialProblem(*given, True, int(codes.max()) + 1)


def exact_free(X, y, cost, beta, W):
    """Primal and dual with fifty digits; dual points are mixed until their sums are 0 exactly."""
    getcontext().prec = 50
    number = np.vectorize(lambda x: Decimal(float(x)), otypes=[object])
    Z, V, b, C = map(number, (augment(X, 1.0), W, beta, cost))
    k, n, zero = b.shape[1], len(b), Decimal(0)
    own = np.array([[Decimal(int(y[i] == m)) for m in range(k)] for i in range(n)])
    p = b / C[:, None]
    for i in range(n):
        p[i, y[i]] = zero
        assert sum(p[i]) <= 1 + Decimal("1e-14")
        p[i] = p[i] / max(sum(p[i]), Decimal(1))
        p[i, y[i]] = max(1 - sum(p[i]), zero)
    sums, mass = (C[:, None] * (own - p)).sum(axis=0), (C[:, None] * own).sum(axis=0)
    ratio = max(*(-s / m for s, m in zip(sums, mass, strict=True)), zero)
    theta = ratio / (1 + ratio)
    assert theta < Decimal("1e-13")
    if theta > 0:
        p = (1 - theta) * p + theta * (mass + (1 - theta) / theta * sums) / mass.sum()
    signed = C[:, None] * (own - p)
    assert max(abs(x) for x in signed.sum(axis=0)) < Decimal("1e-35") * max(C)
    assert p.min() > Decimal("-1e-40")
    w, losses = V[:-1], zero
    for z, label, c in zip(Z, y, C, strict=True):
        scores = z @ V
        top = max(scores)
        losses += c * (top - scores[label] + sum((s - top).exp() for s in scores).ln())
    entropy = sum(
        -c * sum(x * x.ln() for x in row if x > Decimal("1e-45"))
        for c, row in zip(C, p, strict=True)
    )
    of_p = Z[:, :-1].T @ signed
    return (w * w).sum() / 2 + losses, entropy - (of_p * of_p).sum() / 2


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_free_intercepts_agree_with_those_of_scikit_learn(solver, load, C):
    X, y = load(return_X_y=True)
    X = X / np.abs(X).max(axis=0).clip(1e-3)
    tol = 1e-6 if solver == "sweep" else 1e-10
    model = fit(X, y, C=C, tol=tol, solver=solver, intercept="free", max_iter=20_000)
    assert model.converged
    peer = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(X, y)
    scores = X @ model.coef.T + model.intercept
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]
    value = (model.coef**2).sum() / 2 + C * losses.sum()
    assert model.primal_objective == pytest.approx(value, rel=1e-11)
    scores = X @ peer.coef_.T + peer.intercept_
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]
    theirs = (peer.coef_**2).sum() / 2 + C * losses.sum()
    assert model.dual_objective <= theirs * (1 + 1e-13)
    assert theirs <= model.primal_objective * (1 + 1e-9)
    assert np.linalg.norm(model.coef - peer.coef_) <= np.sqrt(2 * model.dual_gap) + 1e-3
    if solver != "sweep":
        away = peer.intercept_ - peer.intercept_.mean()
        np.testing.assert_allclose(model.intercept, away, atol=1e-4 * max(C, 1.0))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_certificates_of_free_intercepts_are_bounds_in_exact_arithmetic(solver, C):
    """Classes of very different size and weight, features far from 0."""
    rng = np.random.default_rng(0)
    y = rng.choice(4, 60, p=[0.6, 0.3, 0.05, 0.05])
    y[:4] = np.arange(4)
    X = 3.0 + rng.normal(size=(60, 3)) + rng.normal(size=(4, 3))[y]
    cost = C * np.array([1.0, 1e-3, 10.0, 1.0])[y] * rng.choice([1.0, 2.0], 60)
    problem = new_free(X, y, cost)
    tol = 1e-5 if solver == "sweep" else 1e-9
    result = solve(problem, tol=tol, solver=solver, max_iter=30_000)
    assert result.converged
    primal, dual = exact_free(X, y, cost, result.alpha, result.w)
    assert primal <= Decimal(result.primal)
    assert dual >= Decimal(result.dual)
    assert primal - dual <= Decimal(result.gap)
    assert result.gap <= float(primal - dual) + 1e-10 * result.primal
    rough = PointRun(problem, alpha=random_duals(NaiveMultinomial(X, y, cost, 1.0), rng))
    primal, dual = exact_free(X, y, cost, rough.alpha, rough.w)
    assert primal <= Decimal(rough.primal)
    assert primal - dual <= Decimal(rough.gap)
    assert rough.gap <= float(primal - dual) * (1 + 1e-9)


@pytest.mark.parametrize("rare", [1e-4, 1e-7])
def test_free_intercepts_of_classes_that_weigh_little(rare):
    """Their allowances are as small as these classes, and bounds in exact arithmetic."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = np.append(np.arange(3), rng.integers(0, 3, 40))
        X = 20.0 * rng.normal(size=(len(y), 2)) + 10.0 * rng.normal(size=(3, 2))[y]
        cost = np.array([1e3, rare, rare])[y]
        result = solve(new_free(X, y, cost), tol=1e-12, solver="newton", max_iter=200)
        primal, dual = exact_free(X, y, cost, result.alpha, result.w)
        assert primal <= Decimal(result.primal)
        assert dual >= Decimal(result.dual)
        assert primal - dual <= Decimal(result.gap)
        assert result.relative_gap <= 1e-11


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 1e4])
def test_the_best_intercepts(tuned, spread):
    rng = np.random.default_rng(0)
    y = rng.choice(5, 200, p=[0.6, 0.3, 0.05, 0.04, 0.01])
    y[:5] = np.arange(5)
    problem = new_free(rng.normal(size=(200, 2)), y, rng.uniform(0.1, 10.0, 200))
    scores = spread * rng.normal(size=(200, 5)) + spread * rng.normal(size=5)
    for start in (np.zeros(5), np.array([np.nan, 0, 0, 0, 0]), 30.0 * rng.normal(size=5)):
        b = problem.best_intercepts(scores, start)
        assert abs(b.sum()) <= 1e-9 * np.abs(b).max()
        descent, q = np.zeros(5), np.empty((200, 5))
        losses = intercept_sums(scores, b, y, problem.cost, q, descent)
        p = softmax(scores + b, axis=1)
        np.testing.assert_allclose(q, p, atol=1e-9)
        own = logsumexp(scores + b, axis=1) - (scores + b)[np.arange(200), y]
        assert losses == pytest.approx(problem.cost @ own, rel=1e-9)
        expected = problem.cost @ (np.eye(5)[y] - p)
        np.testing.assert_allclose(descent, expected, atol=1e-6 * problem.cost.sum())
        if spread < 100.0:
            assert np.abs(descent).max() <= 1e-5 * problem.cost.sum()


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_newton_steps_of_free_intercepts_do_not_penalise_them(tuned, layout):
    """By factors, by conjugate gradients, and by these with blocks of classes."""
    X, y = load_digits(return_X_y=True)
    X = X[:600] / 16
    given = sp.csr_array(X) if layout == "csr" else X
    found = []
    for constants in ({}, {"DIRECT_WEIGHTS": 10}, {"DIRECT_WEIGHTS": 100}):
        tuned(**constants)
        model = fit(given, y[:600], C=1.0, tol=1e-9, solver="newton", intercept="free")
        assert model.converged
        assert model.n_iter <= 12
        found.append(np.column_stack([model.coef, model.intercept]))
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], atol=2e-3)


def test_free_intercepts_of_two_classes_and_weights():
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 2] / 16, y[y < 2]
    weight = np.random.default_rng(0).choice([0.0, 1.0, 3.0], len(y))
    model = fit(X, y, weight, C=0.3, tol=1e-9, intercept="free", class_weight="balanced")
    peer = LogisticRegression(C=0.3, solver="newton-cholesky", tol=1e-10, class_weight="balanced")
    peer.fit(X, y, weight)
    assert model.converged
    np.testing.assert_allclose(model.coef, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(model.intercept, peer.intercept_, atol=1e-3)
    np.testing.assert_allclose(model.dual_coef.sum(axis=1), 0.0, atol=1e-12)


def test_warm_starts_of_free_intercepts():
    X, y = make_text_like(600, 3000, mean_length=12, n_classes=5, random_state=1, dtype=np.float64)
    params = {"intercept": "free", "tol": 1e-4, "max_iter": 5000}
    cold = fit(X, y, C=0.5, **params)
    again = fit(X, y, C=0.5, duals=cold.dual_coef, **params)
    assert again.n_iter == 0
    for C in (5.0, 0.05):
        there, near = fit(X, y, C=C, **params), fit(X, y, C=C, before=cold, **params)
        assert near.converged
        assert near.dual_objective <= there.primal_objective
        assert there.dual_objective <= near.primal_objective
    for solver in ("sweep", "newton"):
        moved = fit(X, y, C=0.5, solver=solver, **params)
        assert moved.dual_objective <= cold.primal_objective
        assert cold.dual_objective <= moved.primal_objective


def test_products_leave_out_the_smallest_curvatures_and_fewer_later(tuned):
    tuned(DIRECT_WEIGHTS=10)
    oracle, problem = setup(cost=3.0, n=200, k=6)
    w = 2.0 * np.random.default_rng(0).normal(size=problem.weights_shape)
    slacks = slacks_of(problem, w, problem.zero_alpha(), lambda: False)
    p = softmax(oracle.Z @ w, axis=1)
    all_of = 3.0 * p * (1.0 - p) * problem.sqnorm[:, None]
    sizes = []
    for _ in range(25):
        slacks.measure(0.0, 0.0, False)
        members, b, total = slacks.curved_rows()
        sizes.append(np.count_nonzero(b))
        kept = b > 0
        np.testing.assert_allclose(b[kept], 3.0 * p[members][kept], rtol=1e-9)
        np.testing.assert_allclose(total, b.sum(axis=1))
        assert (kept.sum(axis=1) >= 2).all()
        left_out = all_of.copy()
        left_out[members] *= ~kept
        assert left_out.sum() <= 0.02 * all_of.sum()
        diagonal = slacks.diagonal(0.0)
        assert (diagonal[kept] > 0).all()
        vectors = np.random.default_rng(1).normal(size=(5, *w.shape))
        assert all(np.vdot(v, slacks.product(v, 0.0)) >= 0.0 for v in vectors)
        one = np.repeat(vectors[0][:, :1], 6, axis=1)  # the same for all classes
        np.testing.assert_allclose(slacks.product(one, 0.0), 0.0, atol=1e-9)
    assert sizes[0] < sizes[10] < sizes[-1] == p.size
    product, scores = slacks.product(vectors[0], 0.0), oracle.Z @ vectors[0]
    moved = 3.0 * p * (scores - (p * scores).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(product, oracle.Z.T @ moved, atol=1e-9)


def test_proofs_are_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = fit(X, y)
    named = SimpleNamespace(classes_=model.classes, coef_=model.coef, intercept_=model.intercept)
    settings = Settings(multi_class="multinomial")
    with pytest.raises(ValueError, match="not the multinomial one"):
        prove(tmp_path / "proof", named, settings, X, y, None, model.dual_coef, force=False)


def test_formulations_of_support_vector_machines_refuse_it():
    with pytest.raises(ValueError, match="multi_class"):
        LinearSVC(multi_class="multinomial").fit(np.eye(2), [0, 1])


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("how", ["any point", *SOLVERS])
def test_certificates_of_small_problems_of_all_scales(free, how):
    """Features and costs over many orders; points of no merit, and where solvers end."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        (n, d), k = rng.integers((3, 1), (12, 5)), rng.integers(2, 4)
        y = np.append(np.arange(k), rng.integers(0, k, n))
        n = len(y)
        X = 10.0 ** rng.uniform(-3, 4) * rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, d)
        X = X + rng.choice([0.0, 10.0])
        cost = 10.0 ** rng.uniform(-6, 6) * 10.0 ** rng.uniform(-3, 3, n)
        oracle = NaiveMultinomial(X, y, cost, 1.0, k)
        given = sp.csr_array(X) if seed % 2 else X
        problem = new_free(X, y, cost) if free else library_multinomial(given, oracle, 1.0)
        if how == "any point":
            found = PointRun(problem, alpha=random_duals(oracle, rng))
        else:
            tol, steps = 10.0 ** -rng.integers(2, 14), rng.integers(1, 60)
            found = solve(problem, tol=tol, solver=how, max_iter=steps)
        bounds = exact_free(X, y, cost, found.alpha, found.w) if free else None
        primal, dual = bounds or exact(oracle, found.alpha, found.w)
        assert primal <= Decimal(found.primal)
        assert dual >= Decimal(found.dual)
        assert primal - dual <= Decimal(found.gap)
        assert found.gap - float(primal - dual) <= 1e-5 * found.primal

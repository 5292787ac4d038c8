"""Crammer-Singer and Weston-Watkins: sweeps, certificates and models against plain NumPy."""

from collections import Counter
from copy import copy
from dataclasses import replace
from fractions import Fraction

import naive
import numba
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.svm import LinearSVC as SklearnLinearSVC

from dualsweep import LinearSVC
from dualsweep._threads import Workers
from dualsweep.kernels import duals
from dualsweep.kernels.certificate import (
    CALLS,
    DRIFT,
    LENGTHS,
    LOSSES,
    SEEN,
    SHARES,
    SPREAD,
)
from dualsweep.kernels.multiclass import (
    _count_active,
    _firmness,
    _losses,
    _violation,
    block_step,
)
from dualsweep.kernels.newton_multiclass import (
    ClassSlacks,
    CurvedRows,
    add_curvature,
    curvature_diagonal,
    curvature_factors,
    implied_dual_multiclass,
    slope_multiclass,
)
from dualsweep.newton.core import conjugate_gradients
from dualsweep.newton.host import PlainHessian
from dualsweep.newton.multiclass import BlockHessian
from dualsweep.newton.slacks import slacks_of
from dualsweep.newton.tuning import BLOCKS, BLOCKS_WORTH
from dualsweep.problems.run import PointRun
from dualsweep.solvers.schedules import SCHEDULES
from dualsweep.solvers.solve import Start, solve
from dualsweep.training import Settings
from dualsweep.training.formulations import LabelledRows, formulation_of

DIRECT = ["crammer_singer", "weston_watkins"]
BIAS = 1.5


def setup(formulation, layout="csr", cost=1.0, n=18, d=5, k=4, bias=BIAS, dtype=np.float64):
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    X = (rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(k, d))[y]).astype(dtype)
    X[np.abs(X) < 0.3] = 0.0
    X[5], X[7] = 0.0, X[6]
    oracle = naive.NaiveMulticlass(X, y, cost, formulation, bias)
    problem = naive.library_multiclass(sp.csr_array(X) if layout == "csr" else X, oracle, bias)
    return oracle, problem


def dense(problem, alpha):
    rows, classes, values = problem.nonzero(alpha)
    beta = np.zeros((len(problem.y), problem.n_classes))
    beta[rows, classes] = values
    return beta


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("bias", [0.0, BIAS])
def test_a_sweep_equals_the_naive_loop(formulation, layout, bias):
    cost = 10.0 ** np.random.default_rng(3).uniform(-2, 2, 18)
    oracle, problem = setup(formulation, layout, cost, bias=bias)
    n = 18
    beta, W = problem.zero_alpha(), np.zeros(problem.weights_shape)
    naive_beta, naive_W = dense(problem, beta), W.copy()
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(n)
        grads, gains, shares = np.empty(n), np.empty(n), np.empty(n)
        total, seen = problem.sweep(False, order, beta, W, grads, gains, shares)
        assert seen == pytest.approx(shares.sum(), rel=1e-12, abs=1e-300)
        for visit, i in enumerate(order):
            before, old = oracle.dual(naive_beta), naive_beta[i].copy()
            np.testing.assert_allclose(
                shares[i], oracle.share(i, naive_beta, naive_W), rtol=1e-9, atol=1e-9
            )
            oracle.visit(i, naive_beta, naive_W)
            gain = oracle.dual(naive_beta) - before
            np.testing.assert_allclose(gains[visit], gain, rtol=1e-7, atol=1e-9)
            if not np.allclose(old, naive_beta[i], rtol=1e-9, atol=0):
                assert gains[visit] > 0
        np.testing.assert_allclose(dense(problem, beta), naive_beta, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(W, naive_W, rtol=1e-9, atol=1e-9)
        assert total == pytest.approx(gains.sum())


@pytest.mark.parametrize("formulation", DIRECT)
def test_a_gain_is_zero_if_and_only_if_a_sweep_left_a_row_as_it_was(formulation):
    """And what it saw of the row is how it violates its optimality conditions, or fulfils them."""
    oracle, problem = setup(formulation, cost=0.2, k=6)
    beta, W = problem.zero_alpha(), np.zeros(problem.weights_shape)
    stayed = moved = 0
    for i in np.tile(np.arange(18), 15):
        (grads, gains), shares = np.empty((2, 1)), np.empty(18)
        old, t = dense(problem, beta)[i], oracle.violations(W, [i])[0]
        problem.sweep(False, np.array([i]), beta, W, grads, gains, shares)
        new, others = dense(problem, beta)[i], np.arange(6) != problem.y[i]
        assert gains[0] >= 0.0
        assert (gains[0] == 0.0) == (new == old).all()
        at_bound = abs(old.sum() - 0.2) < 1e-12  # whether the sum is below is a matter of rounding
        if not problem.joint or not at_bound or old.max() == 0.2:
            expected = oracle.violation if gains[0] > 0 else oracle.firmness
            assert grads[0] == pytest.approx(expected(t[others], old[others], 0.2), abs=1e-12)
        stayed, moved = stayed + (gains[0] == 0.0), moved + (gains[0] > 0.0)
    assert stayed > 0
    assert moved > 0


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_kernels_of_optimality_conditions(formulation, k):
    """On numbers without rounding: many ties, many at a bound."""
    oracle, _ = setup(formulation)
    rng = np.random.default_rng(k)
    for upper in (0.5, 1.0, 2.0):
        for _ in range(200):
            label = rng.integers(k)
            t, b = rng.integers(-4, 5, k) / 2, upper * rng.integers(-4, 5, k).clip(0, 4) / 4
            b[label] = t[label] = 0.0
            if oracle.joint and b.sum() > upper:
                b = np.where(np.arange(k) == b.argmax(), upper, 0.0)
            others = np.arange(k) != label
            row = t[others], b[others]
            firmness = _firmness(t, b, label, upper, oracle.joint)
            assert firmness == oracle.firmness(*row, upper)
            violation = _violation(*row, k - 1, upper, oracle.joint)
            assert violation == oracle.violation(*row, upper)
            assert firmness == 0.0 or violation == 0.0
            loss = oracle.losses(t[None])[0]
            assert _losses(t, b, oracle.joint) == (loss, b @ t, b.sum())
            active = np.count_nonzero(((t > -1.25) | (b > 0)) & others)
            counted = min(active, 1) if oracle.joint else active
            assert _count_active(t, b, 1.25, oracle.joint) == counted


@numba.njit
def run_block_step(beta, t, b, k, upper, q, new, scratch):
    return block_step(beta, t, b, k, upper, q, new, scratch)


def step_of_block(problem, t, b, upper, q):
    new, scratch = np.full(len(t), np.nan), np.full(len(t), np.nan)
    beta = problem.zero_alpha()
    beta = beta.slots if problem.joint else beta
    return new, run_block_step(beta, t, b, len(t), upper, q, new, scratch)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("q", [1e-8, 0.1, 1.0, 30.0])
def test_kernels_of_block_steps(formulation, q):
    """The step is the exact one, and others at 0 would move if their t were above the level."""
    _, problem = setup(formulation)
    exact = naive.exact_crammer_singer if problem.joint else naive.exact_weston_watkins
    rng = np.random.default_rng(0)
    for k in (1, 2, 4) * 12:
        upper, t = rng.uniform(0.1, 2.0), np.round(rng.normal(0.3, 1.0, k), 2)
        b = upper / (k if problem.joint else 1) * rng.choice([0.0, 0.5, 1.0], k)
        new, level = step_of_block(problem, t, b, upper, q)
        expected = exact([Fraction(x) / Fraction(q) + Fraction(b.sum()) for x in t] + b, upper)
        np.testing.assert_allclose(new, expected, rtol=1e-9, atol=1e-9 * upper)
        for nudge in (-1e-5, 1e-5):
            more = np.append(t, level + nudge), np.append(b, 0.0)
            other, _ = step_of_block(problem, *more, upper, q)
            if nudge < 0 or new.any() or not problem.joint:  # it may be lower if all are 0
                assert (other[-1] > 0) == (nudge > 0)


def test_kernels_of_block_steps_on_nothing():
    _, problem = setup("crammer_singer")
    for t in (np.ones(0), np.ones(4)):  # no class, and a row of norm 0
        new, level = step_of_block(problem, t, 0 * t, 2.0, float(len(t) == 0))
        np.testing.assert_array_equal(new, [0.5] * len(t))
        assert level == 1.0
    _, problem = setup("weston_watkins")
    new, level = step_of_block(problem, np.ones(4), np.zeros(4), 2.0, 0.0)
    np.testing.assert_array_equal(new, [2.0] * 4)
    assert level == 1.0


def test_kernels_of_block_steps_do_not_exceed_the_bound_by_rounding():
    _, problem = setup("crammer_singer")
    rng = np.random.default_rng(0)
    for _ in range(50):
        t, b, upper = rng.uniform(0.9, 1.0, 400), np.zeros(400), rng.uniform(0.1, 0.3)
        new, _ = step_of_block(problem, t, b, upper, 1e-1)
        assert np.cumsum(new)[-1] == pytest.approx(upper, rel=1e-12)
        assert np.cumsum(new)[-1] <= upper * (1 + np.finfo(float).eps)


def random_duals(oracle, rng):
    """Rows at a vertex of what is feasible, and inside."""
    n, k = len(oracle.y), oracle.k
    beta = np.zeros((n, k))
    for i, upper in enumerate(oracle.cost):
        others = np.flatnonzero(np.arange(k) != oracle.y[i])
        if i % 3 == 0 and oracle.joint:
            beta[i, rng.choice(others)] = upper
        elif i % 3 == 0:
            beta[i, others] = upper * rng.integers(0, 2, k - 1)
        elif i % 3 == 1:
            beta[i, others] = upper * rng.uniform(0, 1 / k, k - 1) * rng.integers(0, 2, k - 1)
    return beta


def certified(problem, beta, members=None):
    members = np.arange(len(beta)) if members is None else members
    rows, classes = np.nonzero(beta)
    alpha = problem.alpha_from(rows, classes, beta[rows, classes])
    return naive.certified(problem, alpha, members)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("bias", [0.0, BIAS])
def test_certificate_equals_the_naive_one(formulation, layout, bias):
    cost = 10.0 ** np.random.default_rng(3).uniform(-2, 2, 18)
    oracle, problem = setup(formulation, layout, cost, bias=bias)
    for seed in range(3):
        beta = random_duals(oracle, np.random.default_rng(seed))
        W, primal, gap, firm = certified(problem, beta)
        np.testing.assert_allclose(W, oracle.weights(beta), rtol=1e-12, atol=1e-12)
        assert primal == pytest.approx(oracle.primal(W), rel=1e-13)
        assert gap == pytest.approx(oracle.primal(W) - oracle.dual(beta), rel=1e-11)
        for i, t in enumerate(oracle.violations(W)):
            others = np.arange(oracle.k) != oracle.y[i]
            expected = oracle.firmness(t[others], beta[i, others], cost[i])
            assert firm[i] == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("chunk", [1, 20, 1000])
def test_certificate_totals_add_up_over_chunks_of_rows(tuned, formulation, chunk):
    tuned(CHUNK=chunk)
    oracle, problem = setup(formulation, cost=10.0 ** np.random.default_rng(3).uniform(-1, 1, 18))
    rows = np.arange(18)
    beta = random_duals(oracle, np.random.default_rng(4))
    W, firm = oracle.weights(beta), np.full(18, np.nan)
    totals = problem.totals(problem.alpha_of(beta), W, 1.0, firm)
    losses = oracle.cost @ oracle.losses(oracle.violations(W))
    shares = sum(oracle.share(i, beta, W) for i in rows)
    lengths = np.sqrt(2) * beta.sum(axis=1) @ np.sqrt((oracle.Z**2).sum(axis=1))
    places = [LOSSES, SHARES, SEEN, LENGTHS]
    np.testing.assert_allclose(totals[places], [losses, shares, shares, lengths], rtol=1e-11)
    assert totals[CALLS] == len(range(0, 18, max(chunk // oracle.k, 1)))
    assert 0.0 <= totals[DRIFT] < 1e-14 * lengths
    assert 0.0 < totals[SPREAD] < 1e-13 * losses
    for i in rows:
        others = np.arange(oracle.k) != oracle.y[i]
        row = oracle.violations(W, [i])[0, others], beta[i, others]
        assert firm[i] == pytest.approx(oracle.firmness(*row, oracle.cost[i]), abs=1e-12)


@pytest.mark.parametrize("formulation", DIRECT)
def test_certificate_leaves_out_rows_that_are_no_candidates(formulation):
    cost = np.where(np.arange(18) % 3 == 2, 0.0, 0.5)
    oracle, problem = setup(formulation, cost=cost)
    members = np.flatnonzero(cost)[::-1]
    beta = random_duals(oracle, np.random.default_rng(0))
    W, primal, gap, firm = certified(problem, beta, members)
    assert primal == pytest.approx(oracle.primal(W), rel=1e-13)
    assert gap == pytest.approx(oracle.primal(W) - oracle.dual(beta), rel=1e-11)
    np.testing.assert_allclose(firm, certified(problem, beta)[3][members], atol=1e-12)


def exact_gap(oracle, beta, W):
    """Primal of W minus dual of beta in exact fractions."""
    twin = copy(oracle)
    twin.Z, twin.cost = naive.to_fractions(oracle.Z), naive.to_fractions(oracle.cost)
    return twin.primal(naive.to_fractions(W)) - twin.dual(naive.to_fractions(beta))


def every_row_with_every_label(part, cost, formulation, k=3):
    """A problem whose optimum is W = 0, at which all losses are 1, and its dual variables."""
    n = len(part)
    X, y, cost = np.tile(part, (k, 1)), np.repeat(np.arange(k), n), np.tile(cost, k)
    oracle = naive.NaiveMulticlass(X, y, cost, formulation)
    problem = naive.library_multiclass(X, oracle)
    beta = np.tile(cost[:, None], k) * (np.arange(k) != y[:, None])
    if oracle.joint:
        beta *= np.arange(k) == (y[:, None] + 1) % k
    return oracle, problem, beta


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_certificate_allows_for_rounding(formulation, scale):
    """The optimum, but for the rounding of weights."""
    rng = np.random.default_rng(0)
    part, cost = scale * rng.normal(size=(5, 4)), rng.uniform(size=5)
    oracle, problem, beta = every_row_with_every_label(part, cost, formulation)
    W, _, gap, _ = certified(problem, beta)
    assert exact_gap(oracle, beta, W) <= Fraction(gap) < Fraction(1e-13 * max(scale**2, 1.0))


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize(("scale", "factor"), [(2.0**-10, 1.0), (2.0**40, 1.0), (1.0, 2.0**-90)])
def test_certificate_of_weights_that_might_be_rounded(formulation, scale, factor):
    """The optimum, without any rounding."""
    part, cost = scale * np.array([[1.0, -2.0], [3.0, 4.0]]), factor * np.array([0.5, 2.0])
    oracle, problem, beta = every_row_with_every_label(part, cost, formulation)
    W, _, gap, _ = certified(problem, beta)
    assert not W.any()
    assert gap == pytest.approx(oracle.gap_with_rounding(beta, W), rel=1e-9, abs=0.0)


@pytest.mark.parametrize("formulation", DIRECT)
def test_certificate_of_violations_that_might_be_rounded(formulation):
    """The optimum, without any rounding: the first row is at its bound, others have room."""
    X, y = np.array([[1.0, 0.0], [8.0, 3.0], [6.0, 8.0]]), np.zeros(3, int)
    cost = np.array([0.125, 4.0, 2.0])
    oracle = naive.NaiveMulticlass(X, y, cost, formulation, n_classes=3)
    problem = naive.library_multiclass(X, oracle)
    beta = np.zeros((3, 3))
    beta[0, 1:] = 0.0625 if oracle.joint else 0.125
    W, _, gap, _ = certified(problem, beta)
    assert W.any()
    assert gap == pytest.approx(oracle.gap_with_rounding(beta, W), rel=1e-9, abs=0.0)
    assert gap < 1e-12


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_a_shrunk_sweep_moves_what_is_inside_the_bounds(formulation, layout):
    oracle, problem = setup(formulation, layout, cost=0.2, k=6)
    beta, W = problem.zero_alpha(), np.zeros(problem.weights_shape)
    order, (grads, gains), shares = np.arange(18), np.empty((2, 18)), np.zeros(18)
    problem.sweep(False, order, beta, W, grads, gains, shares)
    before = shares.copy()
    naive_beta, naive_W = dense(problem, beta), W.copy()
    problem.sweep(True, order, beta, W, grads, gains, shares)
    np.testing.assert_array_equal(shares, before)
    assert not grads[gains == 0].any()
    moved = 0
    for i in order:
        if not oracle.Z[i].any():
            continue
        dual = oracle.dual(naive_beta)
        inside = naive_beta[i] > 0
        if formulation == "weston_watkins":
            inside &= naive_beta[i] < problem.cost[i]
        if inside.any():
            oracle.visit(i, naive_beta, naive_W, inside)
        gain = oracle.dual(naive_beta) - dual
        np.testing.assert_allclose(gains[i], gain, rtol=1e-7, atol=1e-9)
        moved += gain > 1e-9
    assert moved > 5
    np.testing.assert_allclose(dense(problem, beta), naive_beta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(W, naive_W, rtol=1e-9, atol=1e-9)


def zeros_with_room(problem):
    """Dual variables that never have to be widened."""
    alpha = problem.zero_alpha()
    while alpha.slots.values.shape[1] < problem.n_classes:
        alpha.widen()
    return alpha


def test_a_sweep_does_the_same_if_slots_have_to_be_widened_on_the_way():
    _, problem = setup("crammer_singer", k=15, cost=0.2)
    found = []
    for beta in (zeros_with_room(problem), problem.zero_alpha()):
        first, W = beta.slots.values.shape[1], np.zeros(problem.weights_shape)
        for _ in range(2):
            grads, gains, shares = np.full((3, 18), np.nan)
            total, _ = problem.sweep(False, np.arange(18)[::-1], beta, W, grads, gains, shares)
        assert first < 15 or found == []
        assert beta.slots.values.shape[1] == 15
        found.append([total, dense(problem, beta), W, grads, gains, shares])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_gap_is_proven(formulation, layout, schedule, tol):
    oracle, problem = setup(formulation, layout)
    result = solve(problem, schedule=schedule, tol=tol, max_iter=200_000)
    assert result.converged
    beta = dense(problem, result.alpha)
    np.testing.assert_allclose(result.w, oracle.weights(beta), atol=1e-12)
    primal, dual = oracle.primal(result.w), oracle.dual(beta)
    assert result.primal == pytest.approx(primal, rel=1e-12)
    assert primal - dual <= tol * primal * (1 + 1e-9) + 1e-12
    assert beta.min() >= 0
    assert not beta[np.arange(18), problem.y].any()
    used = beta.sum(axis=1) if problem.joint else beta.max(axis=1)
    assert (used <= problem.cost * (1 + 1e-12)).all()


@pytest.mark.parametrize("formulation", DIRECT)
def test_reaches_the_optimum_of_a_general_solver(formulation):
    """SLSQP on the primal as a quadratic program with slacks."""
    oracle, problem = setup(formulation, n=8, d=2, k=3)
    result = solve(problem, tol=1e-9, max_iter=200_000)
    shape = problem.weights_shape
    n, d = 8, shape[0] * shape[1]
    others = [[m for m in range(3) if m != oracle.y[i]] for i in range(n)]

    def slacks(x):
        t = oracle.violations(x[:d].reshape(shape))
        t = np.array([t[i, others[i]] for i in range(n)])
        xi = x[d:].reshape(n, -1)
        return (xi - t).ravel()

    width = 1 if problem.joint else 2
    start = np.concatenate([np.zeros(d), np.ones(n * width)])
    found = minimize(
        lambda x: (x[:d] ** 2).sum() / 2 + np.repeat(oracle.cost, width) @ x[d:],
        start,
        constraints=[{"type": "ineq", "fun": slacks}],
        bounds=[(None, None)] * d + [(0, None)] * (n * width),
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert result.primal == pytest.approx(found.fun, rel=1e-6)


@pytest.mark.parametrize("formulation", DIRECT)
def test_proven_rows_are_where_the_optimum_has_them(formulation):
    _, problem = setup(formulation, n=60, cost=0.3)
    best = solve(problem, tol=1e-13, max_iter=100_000)
    rough = solve(problem, tol=1e-4, max_iter=100_000)
    run = PointRun(problem, tol=1e-4, max_iter=0, alpha=copy(rough.alpha))
    radius = np.sqrt(2 * run.gap)
    settled = problem.settled(run.alpha, run.slack, radius)
    assert 0 < settled.sum() < 60
    optimum, found = dense(problem, best.alpha), dense(problem, rough.alpha)
    np.testing.assert_allclose(found[settled], optimum[settled], atol=1e-5)


@pytest.mark.parametrize("formulation", DIRECT)
def test_scores_move_by_the_root_of_two_at_most(formulation):
    """W at a distance of r changes the difference of two scores by up to sqrt(2) r |x|."""
    _, problem = setup(formulation, bias=0.0)
    i, radius = 2, 0.3
    x = naive.dense(sp.csr_array(problem.passes.rows[:3]))[i]
    change = np.zeros((len(x), problem.n_classes))
    change[:, 0], change[:, 1] = x, -x
    change *= radius / np.linalg.norm(change)
    reach = x @ change[:, 0] - x @ change[:, 1]
    assert reach == pytest.approx(np.sqrt(2) * radius * np.linalg.norm(x))
    alone = replace(problem, candidates=np.array([i]))
    for factor in (0.999, 1.001):
        settled = alone.settled(None, np.array([factor * reach]), radius)
        assert settled.tolist() == [factor > 1]


@pytest.mark.parametrize("formulation", DIRECT)
def test_two_classes_are_the_binary_hinge_loss_with_twice_the_cost(formulation):
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], np.array(["a", "b"])[y[50:] - 1]
    direct = LinearSVC(multi_class=formulation, C=0.5, tol=1e-7, max_iter=200_000, random_state=0)
    direct.fit(X, y)
    binary = LinearSVC(loss="hinge", C=1.0, tol=1e-9, max_iter=200_000, random_state=0).fit(X, y)
    assert 2 * direct.primal_objective_ == pytest.approx(binary.primal_objective_, rel=1e-6)
    assert direct.coef_.shape == binary.coef_.shape == (1, 4)
    np.testing.assert_allclose(direct.coef_, binary.coef_, atol=1e-2)
    np.testing.assert_allclose(direct.coef_, direct.dual_coef_ @ X, atol=1e-9)
    np.testing.assert_array_equal(direct.predict(X), binary.predict(X))


def assert_certified(model, X, y, weight=None):
    """Recompute the certificate from coef_, intercept_ and dual_coef_ alone."""
    X = X.toarray() if sp.issparse(X) else X
    codes = np.searchsorted(model.classes_, y)
    signed = model.dual_coef_.toarray()
    np.testing.assert_allclose(model.coef_, signed @ X, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, signed.sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(signed.sum(axis=0), 0, atol=1e-9)
    beta = np.maximum(-signed.T, 0)
    cost = model.C * (np.ones(len(y)) if weight is None else weight)
    oracle = naive.NaiveMulticlass(X, codes, cost, model.multi_class, 1.0)
    W = np.vstack([model.coef_.T, model.intercept_])
    primal, dual = oracle.primal(W), oracle.dual(beta)
    assert primal - dual <= model.tol * primal * (1 + 1e-6)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(beta.sum(axis=1)))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, np.array(list("zyxwvutsrq"))[y]


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_models_are_certified(digits, formulation, dtype):
    X, y = digits[0].astype(dtype), digits[1]
    model = LinearSVC(multi_class=formulation, C=0.1, random_state=0).fit(X, y)
    assert_certified(model, X, y)
    sparse = clone(model).fit(sp.csr_matrix(X), y)
    assert_certified(sparse, X, y)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(model.to_sklearn().predict(X), model.predict(X))


@pytest.mark.parametrize("formulation", DIRECT)
def test_weights_are_repetitions(formulation):
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    model = LinearSVC(multi_class=formulation, C=0.1, tol=1e-6, max_iter=100_000, random_state=0)
    weighted = clone(model).fit(X, y, weight)
    assert_certified(weighted, X, y, weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.primal_objective_ == pytest.approx(repeated.primal_objective_, rel=3e-6)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-2)


@pytest.mark.parametrize("formulation", DIRECT)
def test_warm_start(digits, formulation):
    X, y = digits
    model = LinearSVC(multi_class=formulation, C=0.1, tol=1e-4, warm_start=True, random_state=0)
    cold = model.fit(X, y).n_iter_
    assert model.fit(X, y).n_iter_ == 0
    assert model.set_params(C=0.12).fit(X, y).n_iter_ < cold
    assert_certified(model, X, y)
    model.set_params(C=0.01).fit(X, y)
    assert_certified(model, X, y)


# scikit-learn 1.6 compares `max_iter` with a number of iterations that it has not filled in.
@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
def test_crammer_singer_agrees_with_liblinear(digits):
    X, y = digits
    ours = LinearSVC(multi_class="crammer_singer", C=0.1, tol=1e-5, random_state=0).fit(X, y)
    peer = SklearnLinearSVC(
        multi_class="crammer_singer", C=0.1, tol=1e-6, max_iter=100_000, random_state=0
    ).fit(X, y)
    codes = np.searchsorted(ours.classes_, y)
    oracle = naive.NaiveMulticlass(X, codes, 0.1, "crammer_singer", 1.0)
    objective = oracle.primal(np.vstack([peer.coef_.T, peer.intercept_]))
    assert ours.dual_objective_ <= objective * (1 + 1e-12)
    assert ours.primal_objective_ == pytest.approx(objective, rel=1e-4)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=5e-3)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("cost", [0.02, 1.0, 1e4])
def test_newton_steps_prove_the_gap_at_any_cost(formulation, layout, cost):
    weights = np.random.default_rng(5).uniform(0.5, 2.0, 18)
    weights[3] = 0.0
    oracle, problem = setup(formulation, layout, cost * weights)
    result = solve(problem, solver="newton", tol=1e-10, max_iter=200)
    assert result.converged
    assert result.n_newton == result.n_iter < 200
    beta = dense(problem, result.alpha)
    assert not beta[3].any()
    used = beta.sum(axis=1) if problem.joint else beta.max(axis=1)
    assert (used <= problem.cost * (1 + 1e-12)).all()
    np.testing.assert_allclose(result.w, oracle.weights(beta), rtol=1e-9, atol=1e-9)
    primal, dual = oracle.primal(result.w), oracle.dual(beta)
    assert -1e-12 * primal <= primal - dual <= 1.01e-10 * primal
    if cost < 1e4:
        sweeps = solve(problem, solver="sweep", tol=1e-7, max_iter=100_000)
        assert sweeps.converged
        assert sweeps.primal == pytest.approx(result.primal, rel=1.1e-7)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("rho", [0.4, 5.0])
def test_newton_passes(formulation, layout, rho):
    """The gradient and the Hessian of the inner problem, by differences of its value."""
    oracle, problem = setup(formulation, layout, cost=0.7)
    rng = np.random.default_rng(6)
    joint, (d, k) = problem.joint, problem.weights_shape
    y, cost, members = problem.y, problem.cost, np.arange(18)
    anchor = rng.uniform(0, 0.7 / k, (18, k)) * (np.arange(k) != y[:, None])
    W, P = rng.normal(size=(2, d, k))
    free, bound = np.empty((18, k), bool), np.empty(18, bool)

    def inner(W):
        slack = oracle.violations(W)
        u, b, signed = np.full((3, 18, k), np.nan)
        along = rng.normal(size=(18, k))
        moved = slack - 0.5 * along
        rows = ClassSlacks(y, cost, moved, along, anchor, u, b, free, bound)
        found = implied_dual_multiclass(rows, joint, rho, 0.5, signed)
        np.testing.assert_allclose(moved, slack, rtol=1e-10, atol=1e-12)
        expected = -b
        expected[np.arange(18), y] = b.sum(axis=1)
        np.testing.assert_allclose(signed, expected, rtol=1e-12)
        before, nowhere = moved.copy(), rows._replace(along=np.full((18, k), np.inf))
        again = implied_dual_multiclass(nowhere, joint, rho, 0.0, signed)
        assert again == found
        np.testing.assert_array_equal(moved, before)
        losses, excess = found
        value = (W**2).sum() / 2 + (b * slack - rho * (b - anchor) ** 2 / 2).sum()
        return value, W - oracle.weights(b), u, b, losses, excess

    value, gradient, u, b, losses, excess = inner(W)
    assert losses + (W**2).sum() / 2 == pytest.approx(oracle.primal(W))
    gap = oracle.primal(W) - oracle.dual(b)
    assert excess + (gradient**2).sum() / 2 == pytest.approx(gap)
    for i in range(18):  # b is feasible, and no feasible b is better
        upper = cost[i]
        other = rng.dirichlet(np.ones(k), 50) * upper if joint else rng.uniform(0, upper, (50, k))
        other[:, y[i]] = 0.0
        t = oracle.violations(W, [i])[0]

        def score(b, t=t, a=anchor[i]):
            return b @ t - rho / 2 * ((b - a) ** 2).sum(axis=-1)

        assert (b[i].sum() if joint else b[i].max()) <= upper * (1 + 1e-12)
        assert (score(other) <= score(b[i]) + 1e-12).all()
    eps = 1e-6
    slope = (gradient * P).sum()
    assert slope == pytest.approx((inner(W + eps * P)[0] - value) / eps, rel=1e-4)

    q, scratch = np.full((18, k), np.nan), np.full(k, np.nan)
    slacks = slacks_of(problem, W, problem.alpha_of(anchor), lambda: False)
    slacks.measure(rho, 0.0, False)
    aimed = slacks.aim(P, rho, 0.3)
    np.testing.assert_array_equal(aimed, slacks.slope(rho, 0.3))
    q[:] = slacks.along
    np.testing.assert_allclose(oracle.violations(W + P) - oracle.violations(W), q, atol=1e-12)
    rows = ClassSlacks(y, cost, q, q, anchor, u, b, free, bound)
    total, curvature = slope_multiclass(rows, joint, rho, 0.0, scratch)
    assert (W * P).sum() + total == pytest.approx(slope)
    total, _ = slope_multiclass(rows, joint, rho, 0.3, np.full(k, np.nan))
    assert total == pytest.approx((inner(W + 0.3 * P)[3] * q).sum())
    change = (inner(W + eps * P)[1] - gradient) / eps - P
    assert curvature == pytest.approx((change * P).sum(), rel=1e-4)

    counts, classes, M = np.empty(18, int), np.empty((18, k), int), np.empty((18, k, k))
    inner(W)  # free and bound, at W again
    np.testing.assert_array_equal(free, (b > 0) & (joint | (b < cost[:, None])))
    np.testing.assert_array_equal(bound, joint & (b.sum(axis=1) > cost * (1 - 1e-12)))
    curvature_factors(CurvedRows(members, y, free, bound), rho, counts, classes, M)
    number = free.sum(axis=1)
    np.testing.assert_array_equal(counts, number + ((number > 0) & ~bound))  # the label's, too
    for n, factor in zip(counts, M, strict=True):
        np.testing.assert_array_equal(factor[:n, :n], factor[:n, :n].T)

    def factors(some):
        return counts[some], classes[some], M[some]

    hessian = problem.passes.gram_many(members, factors, k, lambda: False)
    product = (hessian @ P.ravel()).reshape(d, k)
    np.testing.assert_allclose(product, change, atol=1e-4)

    out, scratch = np.ones((d, k)), np.full((2, k), np.nan)
    curved = np.flatnonzero(number)
    some = CurvedRows(curved, y[curved], free[curved], bound[curved])
    add_curvature(problem.passes.rows, some, rho, P, out, np.full(k, -1), scratch)
    np.testing.assert_allclose(out, 1.0 + product, atol=1e-10)

    diagonal = curvature_diagonal(CurvedRows(members, y, free, bound), rho)
    for m in range(k):
        block = np.zeros((d, d))
        assert problem.passes.add_gram(members, diagonal[:, m], block, lambda: False)
        np.testing.assert_allclose(np.tril(block), np.tril(hessian[m::k, m::k]), atol=1e-10)


def exact_projection(u, cost, joint):
    """The nearest feasible dual variables, in fractions."""
    u, cost = [Fraction(x) for x in u], Fraction(cost)
    if not joint:
        return np.array([float(min(max(x, 0), cost)) for x in u])
    level, descending = Fraction(0), sorted(u, reverse=True)
    if sum(max(x, 0) for x in u) > cost:
        levels = [(sum(descending[: n + 1]) - cost) / (n + 1) for n in range(len(u))]
        level = max(level for level, x in zip(levels, descending, strict=True) if x > level)
    return np.array([float(max(x - level, 0)) for x in u])


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (2.0**-70, 0.0), (1.0, 2.0**40)])
@pytest.mark.parametrize("k", [2, 5, 60])
def test_newton_passes_begin_with_a_projection(joint, scale, shift, k):
    rng = np.random.default_rng(k)
    y, cost = rng.integers(0, k, 20), scale * rng.uniform(0.2, 3.0, 20)
    u = shift + scale * np.round(rng.uniform(-1, 1, (20, k)) + rng.uniform(-1, 1, (20, 1)), 3)
    found, b = np.full((20, k), np.nan), np.full((20, k), np.nan)
    slack, rho = scale * rng.integers(-8, 9, (20, k)) / 8, 0.5
    anchor = u - slack / rho
    free, bound = np.empty((20, k), bool), np.empty(20, bool)
    rows = ClassSlacks(y, cost, slack, slack, anchor, found, b, free, bound)
    losses, excess = implied_dual_multiclass(rows, joint, rho, 0.0, np.empty((20, k)))
    np.testing.assert_array_equal(found, slack / rho + anchor)
    others = np.arange(k) != y[:, None]
    for i in range(20):
        expected = exact_projection(found[i, others[i]], cost[i], joint)
        np.testing.assert_allclose(b[i, others[i]], expected, rtol=1e-12, atol=1e-14 * scale)
        assert b[i, y[i]] == 0.0
        # rounding may not add up
        assert not joint or np.cumsum(b[i])[-1] <= cost[i] * (1 + 2 * np.finfo(float).eps)
    positive = np.where(others, slack, 0.0).clip(0)
    lost = cost * (positive.max(axis=1) if joint else positive.sum(axis=1))
    assert losses == pytest.approx(lost.sum(), rel=1e-12, abs=0.0)
    proven = (b * np.where(others, slack, 0.0)).sum()
    assert excess == pytest.approx(lost.sum() - proven, rel=1e-9, abs=1e-14 * scale**2)


@pytest.fixture
def products(monkeypatch):
    """How many products conjugate gradients take, by the kind of Hessian."""
    counts = Counter()
    for kind in (PlainHessian, BlockHessian):

        def counted(hessian, p, product=kind.product):
            counts[type(hessian)] += 1
            return product(hessian, p)

        monkeypatch.setattr(kind, "product", counted)
    return counts


def use_blocks(tuned, problem, blocks=True):
    """Let steps take conjugate gradients, preconditioned by the blocks of single classes or not."""
    tuned(DIRECT_WEIGHTS=problem.passes.n_weights if blocks else 0)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("blocks", [False, True])
def test_conjugate_gradients_reach_the_same(tuned, products, formulation, layout, blocks):
    """Whether the classes' own blocks of the Hessian precondition them or not."""
    _, problem = setup(formulation, layout, cost=3.0)
    direct = solve(problem, solver="newton", tol=1e-8)
    assert not products
    use_blocks(tuned, problem, blocks)
    iterative = solve(problem, solver="newton", tol=1e-8)
    assert list(products) == [BlockHessian if blocks else PlainHessian]
    assert iterative.converged
    assert iterative.n_newton == iterative.n_iter
    assert iterative.primal == pytest.approx(direct.primal, rel=1e-8)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("sample", [100, 1])
def test_blocks_of_classes_precondition(tuned, products, formulation, sample):
    """Conjugate gradients take fewer steps with them, made of all rows or of some."""
    X, y = load_digits(return_X_y=True)
    oracle = naive.NaiveMulticlass(X, y, 0.01, formulation, 1.0)
    problem = naive.library_multiclass(X.astype(np.float32), oracle, 1.0)
    tuned(SAMPLE=sample)
    use_blocks(tuned, problem)
    found = solve(problem, solver="newton", tol=1e-4, max_iter=200)
    primal, dual = oracle.primal(found.w), oracle.dual(dense(problem, found.alpha))
    assert 0.0 <= primal - dual <= 1.01e-4 * primal
    use_blocks(tuned, problem, blocks=False)
    solve(problem, solver="newton", tol=1e-4, max_iter=50)
    assert 0 < 5 * products[BlockHessian] < products[PlainHessian]


RHO = 0.5


def newton_system(tuned, formulation, layout, n_threads=1):
    """Slacks of a random problem, its Hessian, and a right side that adds up to 0 over classes."""
    _, problem = setup(formulation, layout, n=60, d=11, k=4, cost=0.7)
    problem = replace(problem, passes=problem.passes.shared(Workers(n_threads)))
    use_blocks(tuned, problem)
    rng = np.random.default_rng(1)
    d, k = problem.weights_shape
    slacks = slacks_of(problem, rng.normal(size=(d, k)), problem.zero_alpha(), lambda: False)
    slacks.measure(RHO, step=0.0, settled=False)
    right = rng.normal(size=(k, d)).T
    hessian = np.eye(d * k) + slacks.hessian(RHO, exact=True)[0]
    return slacks, hessian, right - right.mean(axis=1)[:, None]


def solve_system(slacks, right, left, most, stop=lambda: False):
    """The solution by conjugate gradients with the factors as they are, and after how many steps.

    And whether it is less accurate than it was to be.
    """
    hessian, before = BlockHessian(slacks, RHO), slacks.cg_steps
    with hessian.in_use():
        found, [short] = conjugate_gradients(
            hessian, -right, np.array([True]), np.array([left]), most, BLOCKS, stop
        )
    return found, slacks.cg_steps - before, short


def assert_factors_are_those_of_blocks(slacks, hessian):
    k = slacks.n_classes
    for m in range(k):
        exact = np.linalg.cholesky(hessian[m::k, m::k])
        np.testing.assert_allclose(np.tril(slacks.factors[m]), exact, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("curved_rows", [500, 4])
def test_a_system_is_solved_in_blocks(tuned, formulation, layout, curved_rows):
    """By conjugate gradients with the factors of its blocks, of the identity, and by NumPy."""
    tuned(CURVED_ROWS=curved_rows, ENTRIES_PER_WEIGHT=0.1)
    slacks, hessian, right = newton_system(tuned, formulation, layout)
    d, k = right.shape
    expected = np.linalg.solve(hessian, right.ravel()).reshape(d, k)
    assert isinstance(slacks.preconditioned(RHO), BlockHessian)
    assert_factors_are_those_of_blocks(slacks, hessian)
    identity = np.broadcast_to(np.eye(d, dtype=np.float32), (k, d, d)).copy()
    for factors in (slacks.factors, identity):
        slacks.factors = factors
        for most in range(5):
            found, *end = solve_system(slacks, right, 0.0, most)
            assert end == [most, True]
            np.testing.assert_allclose(
                found, naive_steps(hessian, factors, right, most), rtol=1e-8, atol=1e-9
            )
        before = right.copy()
        found, all_steps, short = solve_system(slacks, right, 1e-9, 200)
        assert not short
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(right, before)
        assert 0 < solve_system(slacks, right, 0.3, 200)[1] < all_steps


def naive_steps(hessian, factors, right, n_steps):
    """Conjugate gradients, with a preconditioner whose solutions add up to 0 over classes."""
    lower = np.tril(factors.astype(np.float64))

    def scaled(r):
        z = np.array(
            [np.linalg.solve(L @ L.T, column) for L, column in zip(lower, r.T, strict=True)]
        )
        return (z - z.mean(axis=0)).T

    x, r = np.zeros_like(right), right.copy()
    p = z = scaled(r)
    for _ in range(n_steps):
        product = (hessian @ p.ravel()).reshape(p.shape)
        size = (r * z).sum()
        length = size / (p * product).sum()
        x, r = x + length * p, r - length * product
        z = scaled(r)
        p = z + (r * z).sum() / size * p
    return x


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_a_system_has_the_same_solution_with_any_threads(monkeypatch, tuned, layout):
    tuned(CURVED_ROWS=3, ENTRIES_PER_WEIGHT=0.1)
    monkeypatch.setattr("dualsweep._team.count_cores", lambda: 5)
    solutions = []
    for n_threads in (1, 2, 5):
        slacks, _, right = newton_system(tuned, "crammer_singer", layout, n_threads)
        with slacks.passes.workers:
            slacks.preconditioned(RHO)
            solutions.append(solve_system(slacks, right, 1e-6, 200))
    for solution, *end in solutions[1:]:
        np.testing.assert_array_equal(solution, solutions[0][0])
        assert end == [solutions[0][1], False]


def test_factors_are_made_anew_when_they_have_become_too_old(tuned):
    """That is when a direction has taken many steps with them."""
    slacks, hessian, _ = newton_system(tuned, "crammer_singer", "csr")
    slacks.preconditioned(RHO)
    slacks.factors[:] = np.eye(12)
    slacks.cg_steps = BLOCKS_WORTH - 1
    slacks.preconditioned(RHO)
    np.testing.assert_array_equal(slacks.factors, [np.eye(12)] * 4)
    assert slacks.cg_steps == 0
    slacks.cg_steps = BLOCKS_WORTH
    slacks.preconditioned(RHO)
    assert_factors_are_those_of_blocks(slacks, hessian)
    assert slacks.cg_steps == 0


def test_a_system_is_left_when_told_to_stop(tuned):
    slacks, _, right = newton_system(tuned, "crammer_singer", "csr")
    slacks.preconditioned(RHO)
    polls = iter([False, False, True])
    found, *end = solve_system(slacks, right, 0.0, 200, lambda: next(polls))
    assert end == [2, True]
    np.testing.assert_array_equal(found, solve_system(slacks, right, 0.0, 2)[0])


def test_a_right_side_that_is_not_finite_ends_the_steps(tuned):
    slacks, _, right = newton_system(tuned, "crammer_singer", "csr")
    slacks.preconditioned(RHO)
    right[1, 2] = np.nan
    found, steps, _ = solve_system(slacks, right, 0.3, 200)
    assert steps == 1
    assert not np.isfinite(found).all()  # no direction, which ends the method


@pytest.mark.parametrize("formulation", DIRECT)
def test_unscaled_features_are_no_obstacle(formulation):
    """Sweeps alone are at a gap of more than 0.1 after as many epochs, hundreds of times over."""
    X, y = load_wine(return_X_y=True)
    model = LinearSVC(multi_class=formulation, C=1.0, tol=1e-6, random_state=0).fit(X, y)
    assert_certified(model, X, y)


def test_slots_are_widened_on_the_way():
    _, problem = setup("crammer_singer", n=40, k=15, cost=0.05)
    wide, narrow = (
        solve(problem, solver="sweep", tol=1e-8, max_iter=10_000, start=Start(alpha))
        for alpha in (zeros_with_room(problem), problem.zero_alpha())
    )
    first = problem.zero_alpha().slots.values.shape[1]
    assert first < narrow.alpha.slots.values.shape[1]
    np.testing.assert_array_equal(narrow.w, wide.w)
    rows, classes, values = problem.nonzero(narrow.alpha)
    again = problem.alpha_from(rows[::-1], classes[::-1], values[::-1])
    assert solve(problem, tol=1e-8, start=Start(again)).n_iter == 0


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
@pytest.mark.parametrize("k", [110, 300])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("kind", ["unit", "near_unit", "sparse"])
def test_a_row_of_each_of_many_classes(kind, k, C):
    """Rows far from each other need dual variables of all classes, and soon have them."""
    rng = np.random.default_rng(k)
    X = np.eye(k)
    if kind == "near_unit":
        X += 0.02 * rng.normal(size=(k, k))
    if kind == "sparse":
        X = sp.csr_array(sp.random(k, 20 * k, 0.5 / k, random_state=rng))
    for multi_class in ("crammer_singer", "weston_watkins"):
        model = LinearSVC(C=C, multi_class=multi_class, random_state=0).fit(X, np.arange(k))
        assert model.converged_
        assert model.n_iter_ <= 50


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_very_many_violating_classes(layout):
    """At W = 0 all 149 classes violate alike; a step takes a few of them, and the gap closes."""
    oracle, problem = setup("crammer_singer", layout, n=300, d=6, k=150, cost=0.05)
    order, (grads, gains), shares = np.arange(300), np.empty((2, 300)), np.empty(300)
    alpha = problem.zero_alpha()
    problem.sweep(False, order, alpha, np.zeros(problem.weights_shape), grads, gains, shares)
    assert 32 < alpha.slots.counts.max() <= duals.MOST_SLOTS
    result = solve(problem, tol=1e-6, max_iter=20_000)
    assert result.converged
    beta = dense(problem, result.alpha)
    primal, dual = oracle.primal(oracle.weights(beta)), oracle.dual(beta)
    assert primal - dual <= 1e-6 * primal * (1 + 1e-9)


def test_fifty_classes(digits):
    X, _ = digits
    y = np.arange(len(X)) % 50
    model = LinearSVC(multi_class="crammer_singer", C=0.01, warm_start=True, random_state=0)
    assert_certified(model.fit(X, y), X, y)
    assert model.fit(X, y).n_iter_ == 0
    model.set_params(C=0.005).fit(X, y)
    assert_certified(model, X, y)


@pytest.mark.filterwarnings("ignore:LinearSVC stopped at")
@pytest.mark.parametrize("formulation", DIRECT)
@pytest.mark.parametrize("scale", [1e-7, 1e-3, 1e3])
def test_dual_variables_are_feasible_at_any_scale(formulation, scale):
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(multi_class=formulation, fit_intercept=False, max_iter=300, random_state=0)
    model.set_params(C=1e-3 / scale).fit(scale * X, y)
    beta = np.maximum(-model.dual_coef_.toarray().T, 0)
    used = beta.sum(axis=1) if formulation == "crammer_singer" else beta.max(axis=1)
    assert (used <= model.C * (1 + 1e-12)).all()
    oracle = naive.NaiveMulticlass(scale * X, y, model.C, formulation)
    W = np.vstack([model.coef_.T, np.zeros(3)])
    primal, dual = oracle.primal(W), oracle.dual(beta)
    assert -1e-12 * primal <= primal - dual <= model.relative_gap_ * primal + 1e-12 * primal


def test_steps_never_lose():
    """Rows that are classified with room to spare must be left alone; the dual never falls."""
    _, problem = setup("crammer_singer", n=120, d=20, k=12, cost=2.0)
    result = solve(problem, tol=1e-6, max_iter=5000)
    assert result.converged
    assert (np.diff(result.history["dual"]) >= -1e-9).all()
    rows, _, _ = problem.nonzero(result.alpha)
    assert len(np.unique(rows)) < 120


def test_a_warm_start_from_other_labels_has_no_dual_variable_of_the_own_class():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    model = LinearSVC(multi_class="crammer_singer", warm_start=True, random_state=0).fit(X, y)
    other = np.roll(y, 1)
    formulation = formulation_of(Settings(multi_class="crammer_singer"), np.arange(3))
    rows = LabelledRows(None, None, other, np.ones(60))
    places, columns, values = formulation.near(0, rows, model.dual_coef_).nonzero()
    assert len(values)
    assert (values > 0).all()
    assert (columns != other[places]).all()
    again = model.fit(X, other)
    assert again.converged_

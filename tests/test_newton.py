"""Newton steps: their passes against NumPy, their detours, and when sweeps hand over to them."""

from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import check_grad
from sklearn.datasets import load_breast_cancer

import dualsweep.newton as newton_module
from dualsweep import LinearSVC
from dualsweep.kernels.newton import (
    add_rows,
    gram,
    hessian_product,
    implied_dual,
    margins,
    slope,
)
from dualsweep.losses import LOSSES
from dualsweep.newton import newton, newton_cost
from dualsweep.rows import as_rows
from dualsweep.run import Run
from dualsweep.solve import HandOver, solve

BIAS = 1.5


@pytest.fixture(params=["dense", "csr"])
def rows_and_dense(request):
    X, _ = naive.random_data(20, 6)
    rows = as_rows(sp.csr_array(X) if request.param == "csr" else X, BIAS)
    return rows, naive.augment(X, BIAS)


def test_passes(rows_and_dense):
    rows, Z = rows_and_dense
    rng = np.random.default_rng(0)
    members = rng.permutation(20)[:13]
    scale, v, y = rng.uniform(0.1, 2, 13), rng.normal(size=7), rng.choice([-1.0, 1.0], 20)

    out = np.empty(13)
    margins(rows, y, members, v, out)
    np.testing.assert_allclose(out, y[members] * (Z[members] @ v))

    half = np.zeros((7, 7))
    gram(rows, members, scale, half)
    hessian = Z[members].T @ np.diag(scale) @ Z[members]
    np.testing.assert_allclose(half + half.T, hessian, atol=1e-12)

    out = np.ones(7)
    hessian_product(rows, members, scale, v, out)
    np.testing.assert_allclose(out, 1 + hessian @ v)

    scale[:5] = -1.0, 0.0, 1.0, -0.5, 2.0
    out = np.ones(7)
    add_rows(rows, y, members, scale, out)
    np.testing.assert_allclose(out, 1 + (scale * y[members]) @ Z[members])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rho", [0.0, 0.3])
def test_the_inner_problem_is_what_it_says(loss, rho):
    """b maximises, its losses and excess are right, and phi has the gradient that is used."""
    if loss == "hinge" and rho == 0.0:
        pytest.skip("hinge needs rho > 0")
    X, y = naive.random_data(15, 4)
    cost = np.random.default_rng(1).uniform(0.5, 2.0, 15)
    oracle = naive.Naive(X, y, cost, loss, BIAS)
    box = naive.LOWER[loss], np.asarray(oracle.upper)
    anchor = np.clip(np.random.default_rng(2).normal(size=15), *box)
    w = np.random.default_rng(3).normal(size=5)

    def inner(w):
        slack = 1 - oracle.Z @ w
        u, b = np.empty(15), np.empty(15)
        losses, excess = implied_dual(slack, anchor, cost, LOSSES[loss], rho, u, b)
        return slack, u, b, losses, excess

    def phi(w):
        slack, _, b, *_ = inner(w)
        return w @ w / 2 + (b * slack - oracle.diag * b**2 / 2 - rho * (b - anchor) ** 2 / 2).sum()

    slack, u, b, losses, excess = inner(w)
    np.testing.assert_array_equal(b, np.clip(u, *box))
    for nudge in (-1e-3, 1e-3):  # no other feasible b is better, row by row
        other = np.clip(b + nudge, *box)
        value = [
            a * slack - oracle.diag * a**2 / 2 - rho * (a - anchor) ** 2 / 2 for a in (b, other)
        ]
        assert (value[0] >= value[1] - 1e-12).all()
    assert losses + w @ w / 2 == pytest.approx(oracle.primal(w))
    gradient = w - oracle.weights(b)
    assert excess + gradient @ gradient / 2 == pytest.approx(oracle.primal(w) - oracle.dual(b))
    assert check_grad(phi, lambda w: w - oracle.weights(inner(w)[2]), w) < 1e-5

    p = np.random.default_rng(4).normal(size=5)
    q = -oracle.Z @ p
    total, curvature = slope(u, q, cost, LOSSES[loss], rho, 0.7)
    moved = inner(w + 0.7 * p)[2]
    assert total == pytest.approx(moved @ q)
    ahead, _ = slope(u, q, cost, LOSSES[loss], rho, 0.7 + 1e-7)
    assert curvature == pytest.approx((ahead - total) / 1e-7, rel=1e-4, abs=1e-5)


def new_run(problem, **options):
    options = {"tol": 1e-8, "max_iter": 1000, "max_time": np.inf, "alpha": None, **options}
    return Run(problem, stop=lambda: False, watch=lambda progress: False, **options)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cost", [0.01, 1.0, 1e4])
def test_conjugate_gradients_reach_the_same(monkeypatch, loss, cost):
    problem = naive.library_problem(*naive.random_data(30, 8), cost, loss, BIAS)
    direct = new_run(problem)
    newton(direct)
    monkeypatch.setattr(newton_module, "DIRECT_WEIGHTS", 0)
    iterative = new_run(problem)
    newton(iterative)
    assert direct.converged
    assert iterative.converged
    assert iterative.primal == pytest.approx(direct.primal, rel=1e-7)


def test_a_hessian_that_drowns_the_identity():
    """Rank-deficient features of size 1e6: the Hessian has a condition number of some 1e13."""
    rng = np.random.default_rng(0)
    X = 1e6 * rng.normal(size=(40, 3)) @ rng.normal(size=(3, 10))
    y = np.sign(X[:, 0] + 1e6 * rng.normal(size=40))
    problem = naive.library_problem(X, y, 1.0, "squared_hinge")
    result = solve(problem, solver="newton", tol=1e-3)
    oracle = naive.Naive(X, y, 1.0, "squared_hinge")
    assert result.converged
    assert oracle.gap(result.w, result.alpha) <= 1.01e-3 * result.primal


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sweeps_go_on_where_newton_gets_stuck(monkeypatch, loss):
    problem = naive.library_problem(*naive.random_data(30, 8), 1.0, loss, BIAS)
    monkeypatch.setattr(newton_module, "MAX_STEPS", 2)
    result = solve(problem, solver="newton", tol=1e-6, max_iter=100_000)
    assert result.converged
    assert result.n_iter > 2


def test_a_worse_point_is_not_adopted():
    """Newton's first points have a worse certificate than what sweeps hand over."""
    problem = naive.library_problem(*naive.random_data(30, 8), 10.0, "hinge", BIAS)
    start = solve(problem, solver="sweep", tol=1e-2, max_iter=10_000).alpha
    run = new_run(problem, alpha=start.copy(), max_iter=1)
    gap = run.gap
    newton(run)
    assert run.gap <= gap


def test_what_newton_reached_is_kept_when_it_is_stopped():
    problem = naive.library_problem(*naive.random_data(300, 8), 1.0, "squared_hinge", BIAS)
    whole = solve(problem, solver="newton", tol=1e-12)
    steps = []
    part = solve(
        problem,
        solver="newton",
        tol=1e-300,
        watch=lambda progress: steps.append(progress.epoch),
        stop=lambda: len(steps) == whole.n_newton,
    )
    assert part.n_newton == whole.n_newton
    assert part.relative_gap <= 1e-12


def test_hand_over_follows_the_rate_of_the_gap():
    problem = naive.library_problem(*naive.random_data(3000, 8), 1.0, "squared_hinge", BIAS)
    rule = HandOver(problem, tol=1e-6, solver="auto")
    assert rule.allowed
    rule.sweeps_worth = 48.0
    fast = [rule(0.1**k) for k in range(6)]
    assert not any(fast)  # one more decade: one sweep
    slow = HandOver(problem, tol=1e-6, solver="auto")
    slow.sweeps_worth = 48.0
    assert [slow(0.9**k) for k in range(6)] == [False] * 5 + [True]
    never = HandOver(problem, tol=1e-6, solver="sweep")
    assert not any(never(0.99**k) for k in range(50))


def test_many_features_stay_with_sweeps():
    X, y = sp.random(50, 5000, density=0.01, format="csr", random_state=0), np.ones(50)
    y[::2] = -1.0
    problem = naive.library_problem(X, y, 1.0, "hinge")
    assert newton_cost(problem) == np.inf
    assert not HandOver(problem, 1e-3, "auto").allowed
    assert HandOver(problem, 1e-3, "newton").at_once


@pytest.mark.parametrize("loss", naive.LOWER)
def test_threads_do_not_change_the_result(monkeypatch, loss):
    monkeypatch.setattr("dualsweep.newton.PARTS_FROM", 0)
    X, y = naive.random_data(301, 8)
    oracle = naive.Naive(X, y, 1.0, loss, BIAS)
    problem = naive.library_problem(X, y, 1.0, loss, BIAS)
    one, *more = (
        solve(problem, solver="newton", tol=1e-10, n_threads=n_threads) for n_threads in (1, 2, 3)
    )
    assert one.n_newton >= 1
    assert oracle.gap(one.w, one.alpha) <= 1e-10 * oracle.primal(one.w)
    for other in more:
        np.testing.assert_array_equal(one.alpha, other.alpha)
        np.testing.assert_array_equal(one.w, other.w)


def test_a_model_of_two_classes_does_not_depend_on_its_threads(monkeypatch):
    monkeypatch.setattr("dualsweep.newton.PARTS_FROM", 0)
    pool = Mock(wraps=ThreadPoolExecutor)
    monkeypatch.setattr("dualsweep.newton.ThreadPoolExecutor", pool)
    X, y = load_breast_cancer(return_X_y=True)
    one, two = (LinearSVC(n_jobs=n_jobs, random_state=0).fit(X, y) for n_jobs in (1, 2))
    pool.assert_called_once_with(2)
    np.testing.assert_array_equal(one.coef_, two.coef_)

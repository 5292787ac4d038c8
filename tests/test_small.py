"""Newton steps inside one kernel: the same as outside, however many are taken in a call."""

import signal

import naive
import numpy as np
import pytest
from moments import Interrupt
from sklearn.datasets import load_digits

from dualsweep import LinearSVC
from dualsweep.kernels import small as kernel
from dualsweep.solvers import solve as solve_module
from dualsweep.solvers.costs import SMALL_WEIGHTS, costs_of
from dualsweep.solvers.solve import Start, solve

BIAS = 1.5
every_loss = pytest.mark.parametrize("loss", naive.LOWER)
every_layout = pytest.mark.parametrize("layout", naive.LAYOUTS)
NEWTON = {"solver": "newton", "tol": 1e-9}


def setup(loss, layout="dense", dtype=np.float64):
    """Some rows with costs of 0, 1 and 2, and as many targets as rows."""
    X, y = naive.random_data(120, 6)
    rng = np.random.default_rng(0)
    cost, target = rng.integers(0, 3, 120).astype(float), rng.normal(size=120)
    rows = naive.LAYOUTS[layout](X.astype(dtype))
    return naive.library_problem(rows, y, cost, loss, BIAS, target)


def some_alpha(problem):
    """Feasible dual variables near 0."""
    lower, upper = problem.loss.on_arrays(np).bounds(problem.cost)
    alpha = np.clip(0.05 * np.random.default_rng(1).normal(size=120), lower, upper)
    return np.where(problem.cost > 0, alpha, 0.0)


def assert_same(one, other):
    np.testing.assert_array_equal(one.w, other.w)
    np.testing.assert_array_equal(one.alpha, other.alpha)
    np.testing.assert_array_equal(one.slack, other.slack)
    assert (one.primal, one.gap, one.n_iter) == (other.primal, other.gap, other.n_iter)


@every_loss
@every_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("warm", [False, True])
def test_steps_are_those_of_the_general_method(monkeypatch, tuned, loss, layout, dtype, warm):
    problem, seen = setup(loss, layout, dtype), []
    start = some_alpha(problem) if warm else None

    def watch(progress):
        seen[-1].append([progress.relative_gap, *progress.w])

    def run(small):
        assert costs_of(problem).small == small
        seen.append([])
        return solve(problem, **NEWTON, start=Start(start), watch=watch)

    with monkeypatch.context() as patch:
        patch.delattr(solve_module, "newton_on_host")  # which takes over what the kernel leaves
        small = run(True)
    tuned(SMALL_NEWTON=0)
    general = run(False)
    assert small.converged
    assert (small.n_iter, small.n_newton) == (general.n_iter, general.n_newton)
    np.testing.assert_allclose(*seen, rtol=1e-4, atol=1e-7)  # gaps and weights after each step
    assert small.primal == pytest.approx(general.primal, rel=2e-9)


@every_loss
def test_the_certificate_is_that_of_the_result(loss):
    problem = setup(loss)
    result, used = solve(problem, **NEWTON), problem.cost > 0
    assert not result.alpha[~used].any()
    Z = problem.y[:, None] * naive.augment(naive.dense(problem.passes.rows.data), BIAS)
    np.testing.assert_allclose(result.w, Z.T @ result.alpha, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(result.slack, (problem.target - Z @ result.w)[used], atol=1e-12)
    last = result.history[-1]
    assert (last["primal"], last["gap"], last["epoch"]) == (
        result.primal,
        result.gap,
        result.n_iter,
    )


@every_loss
def test_steps_in_one_call_are_bitwise_those_in_many(loss):
    problem, seen = setup(loss), []
    one = solve(problem, **NEWTON, stepwise=False)
    many = solve(problem, **NEWTON, watch=lambda progress: seen.append(progress.w.copy()))
    assert_same(one, many)
    assert len(seen) == one.n_iter
    assert len(np.unique(seen, axis=0)) == one.n_iter  # each step has weights of its own


@every_loss
def test_a_start_from_the_solution_needs_no_step(loss):
    problem = setup(loss)
    first = solve(problem, **NEWTON)
    again = solve(problem, **NEWTON | {"tol": 1e-8}, start=Start(first.alpha))
    assert (again.n_iter, again.converged) == (0, True)


@every_loss
def test_a_start_from_elsewhere_leads_to_the_same_optimum(loss):
    problem = setup(loss)
    found = solve(problem, **NEWTON, start=Start(some_alpha(problem)))
    assert found.converged
    assert found.primal == pytest.approx(solve(problem, **NEWTON).primal, rel=2e-9)


@every_loss
def test_a_limit_on_steps_leaves_a_certified_point(loss):
    problem = setup(loss)
    result = solve(problem, **NEWTON, max_iter=2, stepwise=False)
    assert result.n_iter == 2 or result.converged
    assert result.gap >= result.primal - solve(problem, **NEWTON).primal - 1e-12
    assert problem.is_feasible(result.alpha)


def test_a_flag_ends_it_between_two_calls():
    answers = iter([False, False, False, True])
    result = solve(setup("hinge"), **NEWTON, stop=lambda: next(answers))
    assert not result.converged
    assert 0 < result.n_iter <= 3


def test_ctrl_c_leaves_a_model(monkeypatch):
    X, y = load_digits(return_X_y=True)
    model = LinearSVC(C=1e6, tol=1e-13, max_iter=10**9, random_state=0)
    handler = signal.getsignal(signal.SIGINT)
    interrupt = Interrupt(monkeypatch, epoch=5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X / 16, y)
    assert interrupt.epochs_after < 100
    assert signal.getsignal(signal.SIGINT) is handler
    assert model.coef_.shape == (10, 64)
    assert not model.converged_


def test_what_is_not_small():
    X, y = naive.random_data(20, SMALL_WEIGHTS)
    assert not costs_of(naive.library_problem(X, y, 1.0, "hinge", BIAS)).small  # one for the bias
    assert costs_of(naive.library_problem(X[:, 1:], y, 1.0, "hinge", BIAS)).small


@pytest.mark.parametrize("d", [1, 2, 9, 20])
def test_systems_are_solved(d):
    rng = np.random.default_rng(d)
    Z, x, factor = rng.normal(size=(d, d + 3)), rng.normal(size=d), np.full((d, d), np.nan)
    half = np.tril(Z @ Z.T, -1) + np.diag(0.5 * (Z**2).sum(axis=1))
    solution = x.copy()
    assert kernel.solve(half, 0.3, factor, solution)
    np.testing.assert_allclose((np.eye(d) + 0.3 * Z @ Z.T) @ solution, x, rtol=1e-9, atol=1e-11)
    half[-1, -1] = -1.0  # so the last diagonal entry of A is -1
    assert not kernel.solve(half, 1.0, factor, x)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_factor(bad):
    assert not kernel.solve(np.diag([1.0, bad]), 1.0, np.empty((2, 2)), np.ones(2))

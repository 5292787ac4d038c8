"""Newton steps: their passes against NumPy, their detours, and when sweeps hand over to them."""

from dataclasses import replace

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import check_grad
from sklearn.datasets import load_digits, load_iris

from dualsweep import LinearSVC
from dualsweep._threads import Workers
from dualsweep.kernels.newton_binary import find_changed, imply_dual, slope
from dualsweep.newton import multiclass
from dualsweep.newton.binary import BinarySlacks
from dualsweep.newton.host import (
    HostBackend,
    aim_together,
    measure_together,
    newton_on_host,
)
from dualsweep.newton.slacks import slacks_of
from dualsweep.newton.tuning import DIRECT
from dualsweep.problems.binary import BinaryProblem
from dualsweep.problems.run import PointRun
from dualsweep.rows.passes import SMALL_SUMS
from dualsweep.solvers.costs import costs_of
from dualsweep.solvers.policy import Policy
from dualsweep.solvers.solve import solve, start_run

BIAS = 1.5


@pytest.fixture(autouse=True)
def general(tuned):
    """Take no steps inside the kernel of small problems, which tests/test_small.py is about."""
    tuned(SMALL_NEWTON=0)


@pytest.mark.parametrize("loss", naive.LOWER)
@pytest.mark.parametrize("rho", [0.0, 0.3])
def test_the_inner_problem_is_what_it_says(loss, rho):
    """b maximises, its losses and excess are right, and phi has the gradient that is used."""
    if not naive.HAS_DIAGONAL[loss] and rho == 0.0:
        pytest.skip("without a diagonal, rho > 0")
    X, y = naive.random_data(15, 4)
    cost = np.random.default_rng(1).uniform(0.5, 2.0, 15)
    oracle = naive.Naive(X, y, cost, loss, BIAS)
    box = oracle.lower, oracle.upper
    anchor = np.clip(np.random.default_rng(2).normal(size=15), *box)
    w = np.random.default_rng(3).normal(size=5)

    def inner(w):
        slack = 1 - oracle.Z @ w
        b, scale = out = np.full((2, 15), np.nan)
        moved, along, kept = slack + 0.25 * y, -0.5 * y, anchor.copy()
        rest = False, cost, naive.numbers(loss), rho, *out, np.empty(0)
        *found, _, _ = imply_dual(
            moved, along, 0.5, kept, *rest
        )  # half a step leads to the slacks of w
        np.testing.assert_allclose(moved, slack, rtol=1e-12)
        before = moved.copy()
        *again, _, _ = imply_dual(moved, np.full(15, np.inf), 0.0, kept, *rest)
        assert again == found  # without a step, the direction does not matter
        np.testing.assert_array_equal(moved, before)
        np.testing.assert_array_equal(kept, anchor)
        losses, excess = found
        u = (slack + rho * anchor) / (oracle.diag + rho)
        threshold = oracle.kink / (oracle.diag + rho)
        inner = np.sign(u) * np.maximum(np.abs(u) - threshold, 0.0)
        np.testing.assert_allclose(b, np.clip(inner, *box), rtol=1e-12, atol=1e-12)
        free = (inner > box[0]) & (inner < box[1]) & (np.abs(u) > threshold)
        np.testing.assert_allclose(scale, np.where(free, 1 / (oracle.diag + rho), 0.0))
        return slack, b, losses, excess

    def phi(w):
        slack, b, *_ = inner(w)
        return w @ w / 2 + value(b, slack).sum()

    def value(b, slack):
        own = b * slack - oracle.kink * np.abs(b) - oracle.diag * b**2 / 2
        return own - rho * (b - anchor) ** 2 / 2

    slack, b, losses, excess = inner(w)
    for nudge in (-1e-3, 1e-3):  # no other feasible b is better, row by row
        other = np.clip(b + nudge, *box)
        assert (value(b, slack) >= value(other, slack) - 1e-12).all()
    assert losses + w @ w / 2 == pytest.approx(oracle.primal(w))
    gradient = w - oracle.weights(b)
    assert excess + gradient @ gradient / 2 == pytest.approx(oracle.primal(w) - oracle.dual(b))
    assert check_grad(phi, lambda w: w - oracle.weights(inner(w)[1]), w) < 1e-5

    p = np.random.default_rng(4).normal(size=5)
    q = -oracle.Z @ p
    rest = anchor, cost, naive.numbers(loss), rho
    total, curvature = slope(slack, q, *rest, 0.7)
    moved = inner(w + 0.7 * p)[1]
    assert total == pytest.approx(moved @ q)
    ahead, _ = slope(slack, q, *rest, 0.7 + 1e-7)
    assert curvature == pytest.approx((ahead - total) / 1e-7, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("loss", naive.LOWER)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("part_rows", [10_000, 40])
def test_inner_problems_one_after_the_other(tuned, loss, layout, part_rows):
    """Steps, anchors, slopes and Hessians of the slacks, against NumPy."""
    tuned(PART_ROWS=part_rows, ENTRIES_PER_WEIGHT=1, PICKED_ROWS=5)
    rng = np.random.default_rng(0)
    X, y = naive.random_data(60, 6)
    cost = rng.integers(0, 3, 60).astype(float)
    used = cost > 0
    problem = naive.library_problem(naive.LAYOUTS[layout](X), y, cost, loss, BIAS)
    oracle = naive.Naive(X[used], y[used], cost[used], loss, BIAS)
    diag = oracle.diag * np.ones(used.sum())
    w = rng.normal(size=7)
    anchor = np.clip(rng.normal(size=60), -0.2, 0.5) * (problem.loss.lower < 0)
    slacks = slacks_of(problem, w, np.where(used, anchor, 0.0), lambda: False)
    anchor, step, b = anchor[used], 0.0, None
    rho = 0.0 if naive.HAS_DIAGONAL[loss] else 0.4

    def dual_at(w):
        u = (1.0 - oracle.Z @ w + rho * anchor) / (diag + rho)
        shrunk = np.sign(u) * np.maximum(np.abs(u) - oracle.kink / (diag + rho), 0.0)
        free = (oracle.lower < shrunk) & (shrunk < oracle.upper)
        return np.clip(shrunk, oracle.lower, oracle.upper), free & (not oracle.kink or shrunk != 0)

    for settled in (False, True, False, True, True):
        if settled:
            anchor = b
            rho /= 2.0
        weights, sums = slacks.measure(rho, step, settled)
        b, free = dual_at(w)
        np.testing.assert_allclose(slacks.slack, 1.0 - oracle.Z @ w, atol=1e-12)
        np.testing.assert_allclose(slacks.b, b, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(weights, oracle.weights(b), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(sums[0] + w @ w / 2, oracle.primal(w))
        gradient = w - oracle.weights(b)
        np.testing.assert_allclose(
            sums[1] + gradient @ gradient / 2, oracle.primal(w) - oracle.dual(b), rtol=1e-9
        )
        matrix, scale = slacks.hessian(rho, exact=True)
        expected = oracle.Z.T @ np.diag(free / (diag + rho)) @ oracle.Z
        np.testing.assert_allclose(scale * np.tril(matrix), np.tril(expected), atol=1e-9)
        p, q = rng.normal(size=7), None
        for t in (0.5, 0.2):
            found = slacks.slope(rho, t) if q is not None else slacks.aim(p, rho, t)
            q = -oracle.Z @ p
            moved, free = dual_at(w + t * p)
            expected = moved @ q, (q**2 * free / (diag + rho)).sum()
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        step = 0.2
        w = w + step * p


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_rows_that_enter_or_leave_the_free_set(common, whole):
    rng = np.random.default_rng(0)
    before = rng.integers(0, 3, 50) / (1.0 if common else 2.0)
    before = np.minimum(before, 1.0) if common else before
    scale = rng.integers(0, 3, 50) / 2.0
    weight, picked, change = before.copy(), np.full(50, 7), np.full(50, np.nan)
    n, weighted = find_changed(scale, common, whole, weight, 100, picked, change)
    before = np.zeros(50) if whole else before
    np.testing.assert_array_equal(weight, scale != 0 if common else scale)
    assert weighted == np.count_nonzero(scale)
    changed = np.flatnonzero(weight != before)
    assert 10 < len(changed) == n < 45
    np.testing.assert_array_equal(picked[:n], 100 + changed)
    np.testing.assert_array_equal(change[changed], (weight - before)[changed])
    assert (picked[n:] == 7).all()
    assert np.isnan(change).sum() == 50 - n


def new_run(problem, **options):
    return PointRun(problem, **{"tol": 1e-8, **options})


@pytest.mark.parametrize("loss", naive.LOWER)
@pytest.mark.parametrize("cost", [0.01, 1.0, 1e4])
def test_conjugate_gradients_reach_the_same(tuned, loss, cost):
    problem = naive.library_problem(*naive.random_data(30, 8), cost, loss, BIAS)
    direct = new_run(problem)
    newton_on_host(direct)
    tuned(DIRECT_WEIGHTS=0)
    iterative = new_run(problem)
    assert HostBackend(iterative).direct_worth == np.inf
    newton_on_host(iterative)
    assert direct.converged
    assert iterative.converged
    assert iterative.primal == pytest.approx(direct.primal, rel=1e-7)


@pytest.mark.parametrize("loss", naive.LOWER)
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("small", [True, False])
def test_hessians_are_those_of_the_free_rows(monkeypatch, tuned, loss, layout, weighted, small):
    """Whether summed up from scratch or from the step before, in one kernel or in a pass."""
    tuned(PART_ROWS=90, PICKED_ROWS=7, PAIRS_PER_CALL=200, GRAM_PARTS=4 if small else SMALL_SUMS)
    X, y = naive.random_data(200, 6)
    cost = np.random.default_rng(0).integers(0, 3, 200) if weighted else 1.0
    oracle_Z = naive.augment(X, BIAS)
    problem = naive.library_problem(naive.LAYOUTS[layout](X), y, 3.0 * cost, loss, BIAS)
    hessian, rows = BinarySlacks.hessian, []

    def checked(step, rho, exact):
        matrix, scale = hessian(step, rho, exact)
        Z = oracle_Z[step.members]
        expected = np.tril(Z.T @ np.diag(step.scale) @ Z)
        np.testing.assert_allclose(scale * np.tril(matrix), expected, rtol=1e-9, atol=1e-9)
        return matrix, scale

    def counted(step, n_picked, gram):
        rows.append(n_picked)
        return add(step, n_picked, gram)

    how = "_add_picked" if small and layout == "csr" else "_pass_picked"
    add = getattr(BinarySlacks, how)
    monkeypatch.setattr(BinarySlacks, "hessian", checked)
    monkeypatch.setattr(BinarySlacks, how, counted)
    result = solve(problem, solver="newton", tol=1e-9)
    assert result.converged
    if not loss.startswith("squared") or loss == "squared_hinge":  # else nearly all rows are free
        assert min(rows) < 50 < max(rows)
        assert len(rows) > 2


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
def test_a_hessian_that_float32_is_too_rough_for(loss):
    """Far from the origin, what tells the classes apart is below the rounding of products."""
    rng = np.random.default_rng(0)
    X = 30.0 + rng.normal(size=(1000, 6)) @ rng.normal(size=(6, 20))
    y = np.sign((X - 30.0) @ rng.normal(size=20) + rng.normal(size=1000))
    X = X.astype(np.float32)
    problem = naive.library_problem(X, y, 100.0, loss)
    result = solve(problem, solver="newton", tol=1e-6)
    assert result.converged
    assert result.n_newton == result.n_iter < 60
    oracle = naive.Naive(X.astype(np.float64), y, 100.0, loss)
    assert oracle.gap(result.w, result.alpha) <= 1.01e-6 * result.primal


class Hard(BinaryProblem):
    """A problem whose Newton steps get stuck."""


class HardSlacks(BinarySlacks):
    tuning = replace(DIRECT, max_steps=2)


slacks_of.register(Hard, HardSlacks)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sweeps_go_on_where_newton_gets_stuck(loss):
    problem = naive.library_problem(*naive.random_data(30, 8), 1.0, loss, BIAS)
    result = solve(Hard(**vars(problem)), solver="newton", tol=1e-6, max_iter=100_000)
    assert result.converged
    assert result.n_iter > 2


def test_a_worse_point_is_not_adopted():
    """Newton's first points have a worse certificate than what sweeps hand over."""
    problem = naive.library_problem(*naive.random_data(30, 8), 10.0, "hinge", BIAS)
    start = solve(problem, solver="sweep", tol=1e-2, max_iter=10_000).alpha
    run = new_run(problem, alpha=start.copy(), max_iter=1)
    gap = run.gap
    newton_on_host(run)
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


def observed(policy, gaps):
    """What a policy says after each sweep."""
    answers = []
    for gap in gaps:
        policy.observe(gap)
        answers.append(policy.wants_newton())
    return answers


def policy_of(problem, solver="auto", tol=1e-6):
    return Policy(costs_of(problem), solver, tol, max_iter=1000, momentum=True)


def test_hand_over_follows_the_rate_of_the_gap():
    problem = naive.library_problem(*naive.random_data(3000, 8), 1.0, "squared_hinge", BIAS)
    fast, slow = policy_of(problem), policy_of(problem)
    assert fast.newton_allowed
    fast.newton_in_sweeps = slow.newton_in_sweeps = 48.0
    fast.least_sweeps = slow.least_sweeps = 6
    assert not any(observed(fast, 0.1 ** np.arange(6)))  # one more decade: one sweep
    assert observed(slow, 0.9 ** np.arange(6)) == [False] * 5 + [True]
    assert not any(observed(policy_of(problem, "sweep"), 0.99 ** np.arange(50)))


def test_a_gap_that_sweeps_no_longer_see_is_no_reason_to_hand_over():
    """Sweeps see 0 where no row moves; a certificate may still prove less than tol."""
    problem = naive.library_problem(*naive.random_data(3000, 8), 1.0, "squared_hinge", BIAS)
    policy = policy_of(problem)
    policy.newton_in_sweeps, policy.least_sweeps = 48.0, 6
    assert not any(observed(policy, [1.0, 0.5, 0.2, 0.1, 0.1, 0.0, 0.0]))


def test_many_features_stay_with_sweeps():
    X, y = sp.random(50, 5000, density=0.01, format="csr", random_state=0), np.ones(50)
    y[::2] = -1.0
    problem = naive.library_problem(X, y, 1.0, "hinge")
    assert costs_of(problem).newton == np.inf
    assert not policy_of(problem).newton_allowed
    assert policy_of(problem, "newton").newton_first


def cost_of(n, d, loss, layout=sp.csr_array):
    return costs_of(naive.library_problem(layout(np.ones((n, d))), np.ones(n), 1.0, loss)).newton


@pytest.mark.parametrize("loss", naive.LOWER)
def test_the_cost_of_newton_grows_as_its_passes_and_factorisations_do(loss):
    """Twice the rows cost twice; a Hessian of few rows costs the cube of its length."""
    assert cost_of(40_000, 50, loss) == pytest.approx(2 * cost_of(20_000, 50, loss), rel=0.02)
    assert cost_of(1, 1600, loss) == pytest.approx(8 * cost_of(1, 800, loss), rel=0.02)
    # between the two: pairs of entries, twice as many features make four times as many
    wide, narrow = cost_of(10_000, 800, loss), cost_of(10_000, 400, loss)
    assert 2.5 < wide / narrow < 4.5
    # which matrix products add up faster
    assert cost_of(10_000, 800, loss, np.asarray) < 0.7 * wide


def test_newton_steps_come_at_once_where_they_cost_next_to_nothing():
    few = naive.library_problem(*naive.random_data(40, 7), 1.0, "hinge", BIAS)
    assert costs_of(few).newton < 5e6
    assert policy_of(few).newton_first
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.normal(size=(2000, 900)))
    many = naive.library_problem(X, rng.choice([-1.0, 1.0], 2000), 1.0, "hinge")
    assert policy_of(many).newton_allowed
    assert not policy_of(many).newton_first
    assert policy_of(many).newton_in_sweeps == pytest.approx(
        costs_of(many).newton / 3.8e6, rel=0.02
    )


def test_newton_steps_come_at_once_where_sweeps_are_slow():
    """Rows of 12 ones, worth some 20 sweeps, if there are enough: the mean of C |x|^2 decides."""
    X = sp.csr_array(np.ones((30_000, 12)))
    y, cost = np.where(np.arange(30_000) % 2, 1.0, -1.0), np.full(30_000, 2.01 / 12)
    problem = naive.library_problem(X, y, cost, "hinge")
    assert 10.0 < policy_of(problem).newton_in_sweeps < 25.0
    assert policy_of(problem).newton_first
    assert not policy_of(problem.with_costs(1.99 / 2.01 * cost)).newton_first
    cost[::3] = 0.0  # not part of the mean
    assert policy_of(problem.with_costs(cost)).newton_first
    fewer = naive.library_problem(X[:12_000], y[:12_000], cost[:12_000], "hinge")
    assert 10.0 < policy_of(fewer).newton_in_sweeps < 25.0
    assert not policy_of(fewer).newton_first


def test_sweeps_that_must_be_slow_are_given_up_sooner():
    """As many sweeps as an eighth of what Newton steps are worth, or three if C |x|^2 is large."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.choice([-1.0, 1.0], (2000, 900)))
    problem = naive.library_problem(X, rng.choice([-1.0, 1.0], 2000), 299.0 / 900, "hinge")
    worth = policy_of(problem).newton_in_sweeps
    assert worth > 80.0
    assert policy_of(problem).least_sweeps == pytest.approx(worth / 8)
    stiff = policy_of(problem.with_costs(np.full(2000, 301.0 / 900)))
    assert not stiff.newton_first
    assert observed(stiff, 0.99 ** np.arange(4)) == [False, False, True, True]


def threaded(problem, n_threads):
    workers = Workers(n_threads)
    return replace(problem, passes=problem.passes.shared(workers)), workers


@pytest.mark.parametrize("loss", naive.LOWER)
@pytest.mark.parametrize("solver", ["sweep", "newton"])
@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_threads_do_not_change_the_result(monkeypatch, tuned, loss, solver, layout):
    monkeypatch.setattr("dualsweep._team.count_cores", lambda: 3)
    tuned(PART_ROWS=1, PICKED_ROWS=7)
    X, y = naive.random_data(301, 8)
    oracle = naive.Naive(X, y, 1.0, loss, BIAS)
    results = []
    rows = naive.LAYOUTS[layout](X)
    for n_threads in (1, 2, 3):
        problem, workers = threaded(naive.library_problem(rows, y, 1.0, loss, BIAS), n_threads)
        with workers:
            results.append(solve(problem, solver=solver, tol=1e-8, max_iter=10_000))
    one, *more = results
    assert (one.n_newton >= 1) == (solver == "newton")
    assert oracle.gap(one.w, one.alpha) <= 1e-8 * oracle.primal(one.w)
    for other in more:
        np.testing.assert_array_equal(one.alpha, other.alpha)
        np.testing.assert_array_equal(one.w, other.w)
        assert (one.primal, one.gap) == (other.primal, other.gap)


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer", "weston_watkins"])
@pytest.mark.parametrize("solver", ["sweep", "newton"])
def test_a_model_does_not_depend_on_its_threads(tuned, multi_class, solver):
    tuned(PART_ROWS=1, LIGHT_ROWS=1)
    X, y = load_iris(return_X_y=True)
    params = {"multi_class": multi_class, "solver": solver, "tol": 1e-4, "random_state": 0}
    one, *more = (LinearSVC(n_jobs=n_jobs, **params).fit(X, y) for n_jobs in (1, 2, 5))
    for other in more:
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert one.dual_gap_ == other.dual_gap_


@pytest.mark.parametrize("loss", naive.LOWER)
def test_newton_steps_of_several_problems_are_taken_together(tuned, loss):
    """In one pass over the rows, each problem getting where it gets alone."""
    tuned(PART_ROWS=40)
    X, y = naive.random_data(150, 6)
    labels = [np.where(np.roll(y, shift) * X[:, shift] > 0.0, 1.0, -1.0) for shift in range(5)]
    first = naive.library_problem(X, labels[0], 2.0, loss, BIAS)
    problems = [replace(first, y=each) for each in labels]
    options = {"solver": "newton", "tol": 1e-9}
    started = [start_run(problem, **options) for problem in problems]
    assert all(one.wants_newton for one in started)
    newton_on_host(*[one.run for one in started])
    for problem, label, one in zip(problems, labels, started, strict=True):
        oracle, result = naive.Naive(X, label, 2.0, loss, BIAS), one.finish()
        assert result.converged
        assert result.n_newton == result.n_iter
        assert oracle.gap(result.w, result.alpha) <= 1.01e-9 * oracle.primal(result.w)
        np.testing.assert_allclose(result.w, oracle.weights(result.alpha), rtol=1e-12, atol=1e-12)
        assert result.primal == pytest.approx(solve(problem, **options).primal, rel=1e-9)


@pytest.mark.parametrize("loss", naive.LOWER)
@pytest.mark.parametrize("n_problems", [2, 7, 8, 9])
def test_slacks_of_several_problems_are_those_of_each(loss, n_problems):
    X, y = naive.random_data(150, 6)
    rng = np.random.default_rng(0)
    first = naive.library_problem(X, y, 2.0, loss, BIAS)
    labels = rng.choice([-1.0, 1.0], (n_problems, 150))
    W, P = rng.normal(size=(2, n_problems, 7))
    both = [
        [
            slacks_of(replace(first, y=label), w, np.zeros(150), lambda: False)
            for label, w in zip(labels, W, strict=True)
        ]
        for _ in range(2)
    ]
    rho = 0.0 if naive.HAS_DIAGONAL[loss] else 0.3
    for done, step in ((0.0, 0.0), (0.7, 0.7)):
        how = rho, step, False
        measured, all_sums = measure_together(both[0], n_problems * [how])
        slopes = aim_together(both[0], P.T, np.full(n_problems, rho))
        for j, (found, alone) in enumerate(zip(*both, strict=True)):
            weights, sums = alone.measure(*how)
            np.testing.assert_allclose(measured[:, j], weights, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(all_sums[:, j], sums, rtol=1e-12)
            np.testing.assert_allclose(slopes[:, j], alone.aim(P[j], rho, 1.0), rtol=1e-12)
            Z = naive.Naive(X, labels[j], 2.0, loss, BIAS).Z
            np.testing.assert_allclose(found.slack, 1.0 - Z @ (W[j] + done * P[j]), atol=1e-12)
            np.testing.assert_allclose(found.along, -Z @ P[j], atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_models_of_dense_rows_do_not_depend_on_their_threads(monkeypatch, tuned, loss):
    tuned(PART_ROWS=100)
    together = []

    def counted(*runs):
        together.append(len(runs))
        return newton_on_host(*runs)

    monkeypatch.setattr("dualsweep.training.fitting.newton_on_host", counted)
    X, y = load_digits(return_X_y=True)
    params = {"loss": loss, "C": 10.0, "solver": "newton", "random_state": 0}
    one, *more = (LinearSVC(n_jobs=n_jobs, **params).fit(X, y) for n_jobs in (1, 2, 5))
    assert max(together) > 1
    assert one.converged_
    for other in more:
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert one.dual_gap_ == other.dual_gap_
    alone = LinearSVC(max_time=1e9, **params).fit(X, y)  # each class in its share of the time
    assert alone.primal_objective_ == pytest.approx(one.primal_objective_, rel=1e-3)
    together.clear()
    tuned(MOST_WAITING=4)
    some = LinearSVC(**params).fit(X, y)
    assert together == [4, 4, 2]
    np.testing.assert_allclose(some.coef_, one.coef_, atol=1e-6)


@pytest.mark.parametrize(("rows_per_weight", "foreseen"), [(49, False), (51, True)])
def test_blocks_of_classes_are_for_many_rows(tuned, rows_per_weight, foreseen):
    """Few rows can be separated, and then take hundreds of Newton steps."""
    tuned(DIRECT_WEIGHTS=10)
    n = rows_per_weight * 6  # weights of five features and the bias
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 5)), np.arange(n) % 3
    oracle = naive.NaiveMulticlass(X, y, 1.0, "crammer_singer", BIAS)
    assert np.isfinite(costs_of(naive.library_multiclass(X, oracle, BIAS)).newton) == foreseen


def many_classes(n, k):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 30)), np.arange(n) % k
    oracle = naive.NaiveMulticlass(X, y, 1.0, "crammer_singer", BIAS)
    return naive.library_multiclass(X, oracle, BIAS)


def test_newton_steps_of_many_classes_take_no_more_memory_than_the_rows(tuned):
    tuned(DIRECT_WEIGHTS=31)
    assert np.isfinite(costs_of(many_classes(1600, 40)).newton)
    tuned(SMALL_TABLES=0)
    assert np.isfinite(costs_of(many_classes(1600, 5)).newton)  # 6 * 5 <= 30
    assert not np.isfinite(costs_of(many_classes(1600, 6)).newton)
    tuned(SMALL_TABLES=6 * 6 * 1600)
    assert np.isfinite(costs_of(many_classes(1600, 6)).newton)


def test_factors_of_all_classes_take_no_more_memory_than_the_rows(tuned):
    assert multiclass.has_blocks(many_classes(1000, 40))
    tuned(SMALL_TABLES=0)
    assert multiclass.has_blocks(many_classes(1600, 40))  # 40 * 31**2 <= 1600 * 30
    assert not multiclass.has_blocks(many_classes(1000, 40))
    for most, small_enough in ((30, False), (31, True)):
        tuned(DIRECT_WEIGHTS=most)
        assert multiclass.has_blocks(many_classes(1600, 40)) == small_enough

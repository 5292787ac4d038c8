"""The loop: every certificate is recomputed from w and alpha by the naive oracle."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualsweep.problems.run import PointRun, gap_left
from dualsweep.solvers.policy import SOLVERS
from dualsweep.solvers.schedules import SCHEDULES
from dualsweep.solvers.solve import Start, solve
from dualsweep.solvers.sweeps import FLOAT32_TOL, proven_rows

BIAS = 1.0
EXAMPLES = settings(deadline=None, derandomize=True, max_examples=150)
every_loss = pytest.mark.parametrize("loss", naive.LOWER)
every_layout = pytest.mark.parametrize("layout", naive.LAYOUTS)
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES)
every_solver = pytest.mark.parametrize("solver", SOLVERS)
METHODS = [
    *({"solver": "sweep", "schedule": schedule} for schedule in SCHEDULES),
    {"solver": "newton"},
    {"solver": "auto"},
]
GENERAL = pytest.param({"solver": "newton"}, id="newton-general")
every_method = pytest.mark.parametrize(
    "method", [*METHODS, GENERAL], ids=lambda method: "-".join(method.values())
)
SWEEPS = {"solver": "sweep"}
FOR_EVER = {"tol": 1e-300, "max_iter": 10_000}


@pytest.fixture(autouse=True)
def general(request, tuned):
    """Newton steps outside the kernel of small problems, where a test's name says so."""
    if "newton-general" in request.node.name:
        tuned(SMALL_NEWTON=0)


def setup(loss, layout="csr", cost=1.0, dtype=np.float64):
    X, y = naive.random_data()
    X = X.astype(dtype)
    oracle = naive.Naive(X, y, cost, loss, BIAS)
    return oracle, naive.library_problem(naive.LAYOUTS[layout](X), y, cost, loss, BIAS)


@cache
def optimal_alpha(loss):
    """Dual optimum of `setup(loss)`, with a gap of rounding errors only."""
    oracle = setup(loss)[0]
    alpha = oracle.optimum()
    w = oracle.weights(alpha)
    assert abs(oracle.gap(w, alpha)) < 1e-13 * oracle.primal(w)
    return alpha


def assert_honest(result, oracle, tol):
    """Recompute what the result claims."""
    alpha, w = result.alpha, result.w
    assert ((alpha >= oracle.lower) & (alpha <= oracle.upper)).all()
    scale = np.abs(oracle.Z).T @ np.abs(alpha)  # what w is summed from
    assert (np.abs(w - oracle.weights(alpha)) <= 1e-13 * scale).all()
    assert w.dtype == alpha.dtype == np.float64
    primal, dual = oracle.primal(w), oracle.dual(alpha)
    # a slack is a difference of numbers of size 1 and |x||w|, and costs multiply its rounding
    rounding = 1e-14 * (oracle.cost @ (1 + np.abs(oracle.Z) @ np.abs(w)) + np.abs(alpha).sum())
    assert result.primal == pytest.approx(primal, rel=1e-12, abs=rounding)
    assert result.gap == pytest.approx(primal - dual, rel=1e-9, abs=rounding)
    assert result.dual == pytest.approx(dual, rel=1e-9, abs=rounding)
    excess = result.relative_gap - result.gap / result.primal if result.gap else 0.0
    assert 0.0 <= excess <= result.relative_gap * rounding / result.primal + 1e-14
    assert result.converged == (result.relative_gap <= tol)


def same(one, other):
    return (
        np.array_equal(one.w, other.w)
        and np.array_equal(one.alpha, other.alpha)
        and (one.primal, one.gap, one.n_iter) == (other.primal, other.gap, other.n_iter)
    )


@every_loss
@every_method
@every_layout
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_every_method_reaches_the_optimum(loss, method, layout, tol):
    oracle, problem = setup(loss, layout)
    result = solve(problem, **method, tol=tol, max_iter=5000)
    assert result.converged
    assert_honest(result, oracle, tol)
    best = optimal_alpha(loss)
    optimum = oracle.dual(best)
    assert optimum * (1 - 1e-13) <= result.primal <= optimum * (1 + 1.01 * tol)
    # strong convexity: 1/2 |w - w*|^2 <= P(w) - P(w*) <= gap
    distance = np.linalg.norm(result.w - oracle.weights(best))
    assert distance <= np.sqrt(2 * (result.gap + 1e-13 * optimum))


@every_loss
@every_method
def test_every_certificate_on_the_way_brackets_the_optimum(loss, method):
    oracle, problem = setup(loss)
    history = solve(problem, **method, tol=1e-8, max_iter=5000).history
    optimum = oracle.dual(optimal_alpha(loss))
    assert (history["dual"] <= optimum * (1 + 1e-13)).all()
    assert (history["primal"] >= optimum * (1 - 1e-13)).all()
    np.testing.assert_allclose(
        history["gap"], history["primal"] - history["dual"], atol=1e-13 * history["primal"].max()
    )
    assert (np.diff(history["epoch"]) >= 0).all()
    assert (np.diff(history["time"]) > 0).all()
    assert (np.diff(history["active"]) <= 0).all()
    if method.get("schedule", "auto") != "auto":  # coordinate descent descends; momentum need not
        assert (np.diff(history["dual"]) >= -1e-13 * optimum).all()


@every_loss
@every_solver
def test_the_last_certificate_is_the_result(loss, solver):
    result = solve(setup(loss)[1], solver=solver, tol=1e-6)
    last = result.history[-1]
    assert (last["primal"], last["gap"]) == (result.primal, result.gap)
    assert (last["dual"], last["epoch"]) == (result.dual, result.n_iter)


@every_method
def test_the_same_seed_gives_bitwise_the_same(method):
    problem = setup("hinge")[1]
    one, other, third = (
        solve(problem, **method, tol=1e-6, max_iter=5000, seed=seed)
        for seed in ((3, 1), (3, 1), (3, 2))
    )
    assert same(one, other)
    random = method["solver"] == "sweep" and method["schedule"] != "cyclic"
    assert not (random and same(one, third))


@every_solver
def test_threads_do_not_disturb_each_other(solver):
    problem = setup("hinge")[1]

    def run(seed):
        return solve(problem, solver=solver, tol=1e-6, seed=(seed,))

    alone = [run(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, range(8)))
    assert all(same(*pair) for pair in zip(alone, together, strict=True))


@every_loss
@every_solver
def test_warm_start_from_the_solution_needs_no_sweep(loss, solver):
    oracle, problem = setup(loss)
    cold = solve(problem, solver=solver, tol=1e-6)
    warm = solve(problem, solver=solver, tol=1e-6, start=Start(cold.alpha.copy()))
    assert (warm.n_iter, len(warm.history)) == (0, 1)
    assert_honest(warm, oracle, 1e-6)
    assert np.array_equal(warm.w, cold.w)
    assert warm.gap == cold.gap


@every_loss
@every_solver
def test_warm_start_from_elsewhere_reaches_the_same_optimum(loss, solver):
    oracle, problem = setup(loss)
    lower = np.maximum(oracle.lower, -10.0)
    alpha = np.random.default_rng(0).uniform(lower, np.minimum(oracle.upper, 10.0))
    result = solve(problem, solver=solver, tol=1e-8, max_iter=5000, start=Start(alpha))
    assert result.n_iter > 0
    assert_honest(result, oracle, 1e-8)
    assert result.primal == pytest.approx(oracle.dual(optimal_alpha(loss)), rel=1.01e-8)


@every_loss
@every_method
@every_layout
def test_rows_without_cost_do_not_matter(loss, method, layout):
    X, y = naive.random_data()
    cost = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 0.0, 1.0)
    kept = cost > 0
    make = naive.LAYOUTS[layout]
    whole = naive.library_problem(make(X), y, cost, loss, BIAS)
    part = naive.library_problem(make(X[kept]), y[kept], 1.0, loss, BIAS)
    one, other = (solve(p, **method, tol=1e-6, max_iter=5000) for p in (whole, part))
    assert 0 < kept.sum() < len(y)
    assert (one.alpha[~kept] == 0.0).all()
    one.alpha = one.alpha[kept]
    assert same(one, other)


@every_loss
@every_solver
def test_cost_2_equals_the_row_twice(loss, solver):
    X, y = naive.random_data()
    twice = np.random.default_rng(0).random(len(y)) < 0.5
    weighted = naive.library_problem(X, y, np.where(twice, 2.0, 1.0), loss, BIAS)
    X_twice, y_twice = np.vstack([X, X[twice]]), np.concatenate([y, y[twice]])
    repeated = naive.library_problem(X_twice, y_twice, 1.0, loss, BIAS)
    one, other = (solve(p, solver=solver, tol=1e-10, max_iter=5000) for p in (weighted, repeated))
    assert one.converged
    assert other.converged
    assert one.primal == pytest.approx(other.primal, rel=1e-9)
    # each w is within sqrt(2 gap) of the common optimum
    atol = np.sqrt(2 * one.gap) + np.sqrt(2 * other.gap) + 1e-9
    np.testing.assert_allclose(one.w, other.w, atol=atol, rtol=0)


# Early ends


@every_loss
@every_solver
def test_no_sweep_at_all(loss, solver):
    oracle, problem = setup(loss)
    result = solve(problem, solver=solver, max_iter=0)
    assert (result.n_iter, result.converged, len(result.history)) == (0, False, 1)
    assert_honest(result, oracle, 1e-3)
    assert result.relative_gap == pytest.approx(1.0, rel=1e-14)


def at_floor(result):
    """Whether rounding leaves nothing to do: one Newton step solves the squared loss."""
    return result.gap <= 2 * np.finfo(float).eps * result.primal


@every_loss
@every_method
@pytest.mark.parametrize("max_iter", [1, 3])
def test_max_iter_ends_early(loss, method, max_iter):
    oracle, problem = setup(loss)
    result = solve(problem, **method, tol=1e-300, max_iter=max_iter)
    assert result.n_iter == max_iter or (result.n_iter < max_iter and at_floor(result))
    assert not result.converged
    assert_honest(result, oracle, 1e-300)


@every_loss
@every_solver
def test_watch_ends_early(loss, solver):
    oracle, problem = setup(loss)
    seen = []

    def watch(progress):
        seen.append(progress)
        assert progress.w.shape == problem.weights_shape
        return progress.epoch == 3

    result = solve(problem, solver=solver, watch=watch, **FOR_EVER)
    assert [progress.epoch for progress in seen] == list(range(1, result.n_iter + 1))
    assert all(0.0 < progress.relative_gap < np.inf for progress in seen)
    assert result.n_iter == 3 or (result.n_iter < 3 and at_floor(result))
    assert not result.converged
    assert_honest(result, oracle, 1e-300)


@every_schedule
@pytest.mark.parametrize("how", ["stop", "max_time"])
def test_a_run_can_end_inside_a_sweep(schedule, how, tuned):
    oracle, problem = setup("hinge")
    tuned(ENTRIES_PER_CALL=50)
    answers = iter([False, True])
    options = {"stop": {"stop": lambda: next(answers)}, "max_time": {"max_time": 1e-9}}[how]
    result = solve(problem, **SWEEPS, schedule=schedule, **options, **FOR_EVER)
    assert (result.n_iter, result.converged) == (1, False)
    assert 0 < np.count_nonzero(result.alpha) <= 12  # about 4.3 entries and 1 bias a row
    assert_honest(result, oracle, 1e-300)


@every_loss
@every_solver
def test_stop_is_asked_until_it_says_so(loss, solver):
    oracle, problem = setup(loss)
    answers = iter([False, False, False, True])
    result = solve(problem, solver=solver, stop=lambda: next(answers), **FOR_EVER)
    assert not result.converged
    assert result.n_iter == 3 if solver == "sweep" else result.n_iter <= 3
    assert next(answers, None) is None
    assert_honest(result, oracle, 1e-300)


def test_cutting_sweeps_changes_nothing(tuned):
    problem = setup("squared_hinge")[1]
    whole = solve(problem, **SWEEPS, tol=1e-6)
    tuned(ENTRIES_PER_CALL=1)
    assert same(whole, solve(problem, **SWEEPS, tol=1e-6))


# The gap-safe rule


def run_at(problem, alpha):
    """A run whose latest certificate is that of alpha."""
    nothing = dict.fromkeys(["stop", "watch"], lambda *_: False)
    return PointRun(problem, tol=1e-3, max_iter=1, max_time=np.inf, alpha=alpha, **nothing)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_proven_rows_are_where_the_optimum_has_them(loss):
    oracle, problem = setup(loss)
    best = optimal_alpha(loss)
    best_slack = 1 - oracle.Z @ oracle.weights(best)
    n_lower, n_upper = [], []
    for epochs in range(1, 60, 4):
        alpha = solve(problem, **SWEEPS, tol=1e-300, max_iter=epochs).alpha
        proven = proven_rows(run_at(problem, alpha), problem)
        np.testing.assert_allclose(best[proven], alpha[proven], atol=1e-9)
        lower, upper = proven & (alpha == 0.0), proven & (alpha > 0.0)
        assert (best_slack[lower] < 0).all()
        assert (best_slack[upper] > 0).all()
        n_lower.append(lower.sum())
        n_upper.append(upper.sum())
    # the rule is exercised at loose gaps, and proves more and more
    assert n_lower[-1] > n_lower[0]
    assert n_lower[len(n_lower) // 2] > 0
    assert (n_upper[-1] > 0) == (loss == "hinge")


@pytest.mark.parametrize("loss", naive.REGRESSION)
def test_proven_rows_are_inside_or_outside_the_tube_for_sure(loss):
    X, _ = naive.random_data()
    target = X @ np.arange(X.shape[1]) + np.random.default_rng(0).normal(size=len(X))
    oracle = naive.Naive(X, np.ones(len(X)), 1.0, loss, BIAS, target=target)
    problem = naive.library_problem(X, np.ones(len(X)), 1.0, loss, BIAS, target)
    best = oracle.optimum()
    best_slack = target - oracle.Z @ oracle.weights(best)
    assert oracle.gap(oracle.weights(best), best) < 1e-12 * oracle.primal(oracle.weights(best))
    found = []
    for epochs in range(1, 200, 20):
        alpha = solve(problem, **SWEEPS, tol=1e-300, max_iter=epochs).alpha
        proven = proven_rows(run_at(problem, alpha), problem)
        np.testing.assert_allclose(best[proven], alpha[proven], atol=1e-9)
        places = [proven & (np.sign(alpha) == sign) for sign in (-1, 0, 1)]
        for sign, rows in zip((-1, 0, 1), places, strict=True):
            within = np.abs(best_slack[rows]) < naive.EPSILON
            assert within.all() if sign == 0 else not within.any()
            assert (np.sign(best_slack[rows]) == sign).all() or sign == 0
        found.append([rows.sum() for rows in places])
    below, inside, above = found[-1]
    assert inside > found[0][1]
    assert (below > 0) == (above > 0) == (loss == "epsilon_insensitive")


def test_the_rule_allows_for_the_radius():
    """A row of norm 2 and slack 0.5 is at its bound for sure if the slack can not reach 0.

    |w - w*| <= sqrt(2 gap), so the slack moves by at most sqrt(2 gap) |x| = sqrt(2 gap) * 2.
    """
    problem = naive.library_problem(np.array([[2.0]]), np.ones(1), 3.0, "hinge")

    def proven(alpha, slack, gap):
        run = run_at(problem, np.array([alpha]))
        run.slack, run.primal, run.gap = np.array([slack]), 1.0, gap
        return proven_rows(run, problem).tolist() == [True]

    for alpha, slack in ((3.0, 0.5), (0.0, -0.5)):
        for factor in (0.99, 1.01):
            gap = 0.5 * (factor * 0.5 / 2.0) ** 2
            assert proven(alpha, slack, gap) == (factor < 1)
        assert not proven(alpha, -slack, 0.0)  # at the wrong bound
        assert not proven(1.5, slack, 0.0)  # at none


def test_unbounded_rows_are_never_proven():
    problem = setup("squared")[1]
    run = run_at(problem, optimal_alpha("squared").copy())
    assert run.gap < 1e-12 * run.primal
    assert not proven_rows(run, problem).any()


@every_schedule
def test_proven_rows_are_left_alone(schedule):
    problem = setup("hinge")[1]
    result = solve(problem, **SWEEPS, schedule=schedule, tol=1e-8, max_iter=5000)
    assert result.history["active"][0] == 40
    assert result.history["active"][-1] < 20


# float32


@every_loss
@every_layout
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_float32_rows_are_certified_in_float64(loss, layout, tol):
    oracle, problem = setup(loss, layout, dtype=np.float32)
    dtypes = []

    def watch(progress):
        dtypes.append(progress.w.dtype)
        return False

    result = solve(problem, **SWEEPS, tol=tol, watch=watch)
    assert dtypes[0] == (np.float32 if tol >= FLOAT32_TOL else np.float64)
    assert result.converged
    assert_honest(result, oracle, tol)


@every_loss
@every_layout
@every_solver
@pytest.mark.parametrize("cost", [1e4, 1e8])
def test_float32_certificates_are_true_at_huge_costs(loss, layout, solver, cost):
    """Converged or not, and after few sweeps or many: the numbers are true."""
    oracle, problem = setup(loss, layout, cost, np.float32)
    for max_iter in (1, 10, 100):
        assert_honest(solve(problem, solver=solver, max_iter=max_iter), oracle, 1e-3)


def test_float32_weights_give_way_where_they_do_not_suffice():
    """Where rows are long and costs huge, a margin loses more to float32 than the gap allows."""
    rng = np.random.default_rng(0)
    X = (100 * rng.normal(size=(50, 200))).astype(np.float32)
    y = rng.choice([-1.0, 1.0], 50)
    wide, narrow = (
        solve(naive.library_problem(X.astype(dtype), y, 1e6, "squared", BIAS), **SWEEPS)
        for dtype in (np.float64, np.float32)
    )
    assert wide.converged
    assert narrow.converged
    assert narrow.n_iter <= 4 * wide.n_iter  # 2.5 to 3.7 times as many, with other seeds


# Odd problems


def one_row_problems(cost, loss):
    """Problems that are solved but for rounding: the library's result and the exact oracle."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        X, y = rng.normal(size=(1, 3)), np.ones(1)
        problem = naive.library_problem(X, y, cost, loss)
        oracle = naive.Naive(X, y, cost, loss, exact=True)
        yield solve(problem, **SWEEPS, tol=1e-6, max_iter=50), oracle


@every_loss
def test_no_gap_is_negative(loss):
    for result, _ in one_row_problems(1.0, loss):
        assert result.converged
        assert 0.0 < result.gap < 1e-12 * result.primal


def test_rounding_times_a_huge_cost_is_not_hidden():
    for result, oracle in one_row_problems(1e12, "hinge"):
        gap = float(oracle.gap(result.w, result.alpha))
        assert not (result.converged and gap > 2e-6 * result.primal)


def test_nothing_to_do():
    X, y = naive.random_data()
    result = solve(naive.library_problem(X, y, 0.0, "hinge"))
    assert (result.primal, result.gap, result.converged) == (0.0, 0.0, True)
    assert result.relative_gap == 0.0


@st.composite
def tiny_problems(draw):
    """Few rows of few values: ties, duplicates, zero rows and columns, wild scales and costs."""
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    entries = st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0]), min_size=d, max_size=d)
    X = np.array(draw(st.lists(entries, min_size=n, max_size=n)))
    X *= 10.0 ** draw(st.integers(-3, 3))
    signs = st.lists(st.sampled_from([1.0, -1.0]), min_size=n, max_size=n)
    costs = st.lists(st.sampled_from([1e-3, 1.0, 1e3]), min_size=n, max_size=n)
    return X, np.array(draw(signs)), np.array(draw(costs))


@EXAMPLES
@given(
    tiny_problems(),
    st.sampled_from(sorted(naive.LOWER)),
    st.sampled_from(METHODS),
    st.sampled_from(sorted(naive.LAYOUTS)),
    st.sampled_from([0.0, 1.0]),
)
def test_certificates_of_odd_problems_are_true(data, loss, method, layout, bias):
    X, y, cost = data
    oracle = naive.Naive(X, y, cost, loss, bias)
    problem = naive.library_problem(naive.LAYOUTS[layout](X), y, cost, loss, bias)
    result = solve(problem, **method, tol=1e-6, max_iter=100)
    assert_honest(result, oracle, 1e-6)


def test_a_run_that_is_told_to_stop_before_it_starts():
    oracle, problem = setup("hinge")
    for options in ({"stop": lambda: True}, {"max_time": 0.0}):
        result = solve(problem, **options)
        assert result.n_iter == 0
        assert result.primal == pytest.approx(oracle.primal(result.w), rel=1e-13)
        assert result.gap == pytest.approx(oracle.gap(result.w, result.alpha), rel=1e-13)
        assert not result.w.any()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_best_certified_point_is_returned(loss):
    """Badly scaled data: the gap of sweeps goes up and down by orders of magnitude."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * 10.0 ** np.arange(6) + 100.0
    y = np.sign(rng.normal(size=60))
    problem = naive.library_problem(X, y, 1.0, loss, BIAS)
    result = solve(problem, solver="sweep", tol=1e-6, max_iter=200)
    assert not result.converged
    assert result.gap <= result.history["gap"].min() * (1 + 1e-9)
    assert result.gap <= problem.primal_at_zero * (1 + 1e-12)
    oracle = naive.Naive(X, y, 1.0, loss, BIAS)
    assert oracle.gap(result.w, result.alpha) == pytest.approx(result.gap, rel=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_run_that_stops_early_has_weights_of_the_right_length(loss):
    """Sweeps overshoot on data far from the origin; scaled down, the point is worth having."""
    rng = np.random.default_rng(0)
    X, y = 5.0 + rng.normal(size=(200, 5)), np.sign(rng.normal(size=200))
    X[:, 0] += y
    problem = naive.library_problem(X, y, 1.0, loss, BIAS)
    oracle = naive.Naive(X, y, 1.0, loss, BIAS)
    result = solve(problem, solver="sweep", max_iter=2)
    assert not result.converged
    assert result.w.any()
    assert result.gap <= problem.primal_at_zero
    assert result.gap <= 1.01 * result.history["gap"].min()
    for scale in (0.5, 0.9, 1.1):  # no other length is much better
        alpha = np.clip(scale * result.alpha, oracle.lower, oracle.upper)
        assert oracle.gap(oracle.weights(alpha), alpha) >= 0.98 * result.gap
    assert_honest(result, oracle, 1e-300)


def test_no_more_than_float64_can_prove_is_tried():
    _, problem = setup("squared_hinge")
    result = solve(problem, solver="newton", tol=1e-40, max_iter=1000)
    assert not result.converged
    assert 0.0 < result.relative_gap < 1e-18
    assert result.n_iter < 50


def test_a_gap_that_rounds_to_less_than_nothing_is_none():
    assert gap_left(-1e-33, 0.03) == 0.0
    assert gap_left(0.02, 0.04) == pytest.approx(0.02 * np.sqrt(0.5))

"""Every schedule alone, on arrays made by hand, and against the papers' algorithms."""

from collections import Counter

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualsweep._random import random_state, uniform
from dualsweep.solvers.schedules import (
    SCHEDULES,
    Adaptive,
    Alternating,
    Auto,
    Cyclic,
    Online,
    Permuted,
    Shrinking,
)

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=50)
ROWS = np.array([2, 3, 5, 7, 11, 13])
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES.keys())


def observe(plan, grads, gains):
    """Take the next order, in which row i sees ``grads[i]`` and makes ``gains[i]``."""
    order = plan.next_order().copy()
    plan.observe(order.copy(), grads[order], gains[order])
    return order


def fed(rows, values):
    """An array over all rows of X from the values of `rows`."""
    out = np.full(max(rows) + 1, np.nan)
    out[rows] = values
    return out


def test_cyclic_repeats_the_given_order():
    plan = Cyclic(ROWS[::-1], random_state(0))
    for _ in range(3):
        np.testing.assert_array_equal(plan.next_order(), ROWS[::-1])


def test_permuted_gives_a_new_permutation_each_sweep():
    plan = Permuted(np.arange(100), random_state(0))
    orders = [plan.next_order().copy() for _ in range(5)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert len({tuple(order) for order in orders}) == 5


def test_online_draws_with_replacement():
    plan = Online(ROWS, random_state(0))
    orders = [plan.next_order().copy() for _ in range(2000)]
    assert all(len(order) == len(ROWS) for order in orders)
    assert any(len(set(order)) < len(ROWS) for order in orders)
    counts = Counter(np.concatenate(orders).tolist())
    assert set(counts) == set(ROWS)
    # each of 12000 draws hits a row with probability 1/6: five standard deviations are 204
    assert all(abs(count - 2000) < 204 for count in counts.values())


@every_schedule
def test_the_same_state_gives_the_same_orders(schedule):
    gains = fed(ROWS, [0.0, 1.0, 0.5, 2.0, 0.0, 0.1])
    plans = [schedule(ROWS, random_state(3)) for _ in range(2)]
    for _ in range(4):
        one, other = (observe(plan, -gains, gains) for plan in plans)
        np.testing.assert_array_equal(one, other)


@every_schedule
def test_orders_hold_rows_only_and_the_given_rows_stay(schedule):
    rows = ROWS.copy()
    plan = schedule(rows, random_state(0))
    for _ in range(5):
        assert set(observe(plan, fed(ROWS, 0.5), fed(ROWS, 1.0))) <= set(ROWS)
    np.testing.assert_array_equal(rows, ROWS)


@every_schedule
def test_proven_rows_never_come_back(schedule):
    plan = schedule(ROWS, random_state(0))
    gains = fed(ROWS, 1.0)
    observe(plan, gains, gains)
    proven = np.zeros(14, dtype=bool)
    left = set(ROWS)
    for row in (5, 13):
        proven[row] = True
        left.remove(row)
        plan.restrict(proven)
        assert set(plan.rows) == left
        for again in range(3):
            order = observe(plan, gains, gains)
            assert set(order) <= left
            assert len(order) == len(left)
            if again:
                plan.expand()


@every_schedule
def test_nothing_left_is_an_empty_sweep(schedule):
    plan = schedule(ROWS, random_state(0))
    gains = fed(ROWS, 1.0)
    observe(plan, gains, gains)
    plan.restrict(np.ones(14, dtype=bool))
    for _ in range(2):
        assert len(observe(plan, gains, gains)) == 0
        plan.expand()
    assert len(plan.rows) == 0


@every_schedule
def test_no_rows_at_all(schedule):
    assert len(schedule(np.array([], dtype=np.int64), random_state(0)).next_order()) == 0


# Shrinking


def shrinking(grads, gains, sweeps=1):
    plan = Shrinking(ROWS, random_state(0))
    for _ in range(sweeps):
        observe(plan, fed(ROWS, grads), fed(ROWS, gains))
    return plan


def test_the_first_sweep_shrinks_nothing():
    plan = shrinking([9.0, -9.0, 0.3, -0.2, 0.1, 0.0], [0, 0, 1, 1, 1, 0])
    assert set(plan.order) == set(ROWS)
    assert (plan.high, plan.low) == (0.3, -0.2)  # of the rows that moved


def test_rows_pressing_harder_than_the_last_violations_leave():
    plan = shrinking([9.0, -9.0, 0.3, -0.2, 0.25, -0.1], [0, 0, 1, 1, 0, 0], sweeps=2)
    assert set(plan.order) == {5, 7, 11, 13}  # 9 > 0.3 and -9 < -0.2; 0.25 and -0.1 stay
    plan.expand()
    assert set(plan.order) == set(ROWS)
    observe(plan, fed(ROWS, [9.0, -9.0, 0.3, -0.2, 0.25, -0.1]), fed(ROWS, [0, 0, 1, 1, 0, 0]))
    assert set(plan.order) == set(ROWS)  # as in the first sweep


def test_rows_pressing_as_hard_as_the_last_violations_stay():
    plan = shrinking([9.0, -9.0, 0.3, -0.2, 0.3, -0.2], [0, 0, 1, 1, 0, 0], sweeps=2)
    assert set(plan.order) == {5, 7, 11, 13}


def test_one_sided_violations_shrink_on_one_side():
    grads = [9.0, -9.0, 0.3, 0.2, 0.1, 0.1]
    assert set(shrinking(grads, [0, 0, 1, 1, 1, 1], sweeps=2).order) == set(ROWS) - {2}
    assert set(shrinking(np.negative(grads), [0, 0, 1, 1, 1, 1], 2).order) == set(ROWS) - {2}


def test_violations_are_measured_from_none():
    """All of 0.3 are not small, and those of the tolerance are not below it."""
    for grad in (0.3, 0.1):
        plan = shrinking([9.0, -9.0, grad, grad, grad, grad], [0, 0, 1, 1, 1, 1], sweeps=2)
        assert set(plan.order) == set(ROWS) - {2}
        assert plan.tolerance == 0.1
        plan = shrinking([9.0, -9.0, *[-grad] * 4], [0, 0, 1, 1, 1, 1], sweeps=2)
        assert set(plan.order) == set(ROWS) - {3}


def test_small_violations_bring_all_rows_back():
    plan = shrinking([9.0, -9.0, 0.3, -0.2, 0.25, -0.1], [0, 0, 1, 1, 0, 0], sweeps=2)
    small = fed(ROWS, [9.0, -9.0, 0.04, -0.05, 0.0, 0.0])
    moved = fed(ROWS, [0, 0, 1, 1, 0, 0])
    observe(plan, small, moved)
    assert set(plan.order) == set(ROWS)
    assert plan.tolerance == pytest.approx(0.01)
    assert (plan.high, plan.low) == (np.inf, -np.inf)
    observe(plan, small, moved)
    observe(plan, small, moved)
    assert set(plan.order) == set(ROWS) - {2, 3}  # 0.09 is above the new tolerance


def test_restrict_keeps_rows_shrunk():
    plan = shrinking([9.0, -9.0, 0.3, -0.2, 0.25, -0.1], [0, 0, 1, 1, 0, 0], sweeps=2)
    plan.restrict(np.isin(np.arange(14), [2, 5]))
    assert set(plan.order) == {7, 11, 13}
    plan.expand()
    assert set(plan.order) == {3, 7, 11, 13}


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared"])
@pytest.mark.parametrize("seed", range(4))
def test_shrinking_equals_shrinking_inside_the_sweep(loss, seed):
    X, y = naive.random_data(n=60, d=9, seed=seed)
    oracle = naive.Naive(X, y, 1.0, loss, bias=1.0)
    problem = naive.library_problem(X, y, 1.0, loss, bias=1.0)
    plan = Shrinking(np.arange(60), random_state(seed))
    alpha, w = np.zeros(60), np.zeros(10)
    naive_alpha, naive_w = np.zeros(60), np.zeros(10)
    high, low, tolerance = np.inf, -np.inf, 0.1
    active = np.arange(60)
    sizes = []
    for _ in range(60):
        order = plan.next_order()
        assert set(order) == set(active)
        active, largest, smallest = oracle.shrinking_sweep(order, naive_alpha, naive_w, high, low)
        high = largest if largest > 0 else np.inf
        low = smallest if smallest < 0 else -np.inf
        if largest - smallest < tolerance:
            active, high, low, tolerance = np.arange(60), np.inf, -np.inf, 0.1 * tolerance

        grads, gains = np.empty(len(order)), np.empty(len(order))
        problem.sweep(False, order, alpha, w, grads, gains, np.empty(len(alpha)))
        plan.observe(order, grads, gains)
        np.testing.assert_allclose(alpha, naive_alpha, rtol=1e-9, atol=1e-9)
        sizes.append(len(active))
    shrinks = np.diff([60, *sizes])
    if loss != "squared":  # without bounds there is nothing to leave out
        assert shrinks.min() < 0 < shrinks.max()
    else:
        assert min(sizes) == 60


# Adaptive and Auto


def test_shrunk_sweeps_visit_the_rows_that_moved_until_they_are_done():
    plan = Alternating(ROWS, random_state(0))
    moving = fed(ROWS, [1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    assert not plan.shrunk
    assert set(observe(plan, 2.0 * moving, moving)) == set(ROWS)
    assert plan.shrunk
    assert plan.tolerance == 1.0  # violated by 2
    moving[2] = 0.0
    assert set(observe(plan, 2.0 * moving, moving)) == {2, 5, 13}
    assert set(observe(plan, 0.5 * moving, moving)) == {5, 13}
    assert not plan.shrunk  # 0.5 < 1: done
    assert plan.tolerance == 1.0
    assert set(observe(plan, 0.5 * moving, moving)) == set(ROWS)
    assert plan.tolerance == pytest.approx(0.1)  # cooled by a sweep over all rows
    assert plan.shrunk


def test_shrunk_sweeps_end_after_five_effective_sweeps():
    plan = Alternating(ROWS, random_state(0))
    gains = fed(ROWS, np.ones(6))
    lengths = [(plan.shrunk, len(observe(plan, gains, gains))) for _ in range(8)]
    assert lengths == [(False, 6), *[(True, 6)] * 6, (False, 6)]
    assert plan.tolerance == 1.0  # violations of 1 are not below it


def test_shrunk_sweeps_are_counted_anew_after_each_full_one():
    plan = Alternating(ROWS[:1], random_state(0))
    gains = fed(ROWS, np.ones(6))
    shrunk = []
    for _ in range(15):
        shrunk.append(plan.shrunk)
        observe(plan, gains, gains)
    assert shrunk == [*[False, *[True] * 6] * 2, False]


def test_a_shrunk_sweep_in_which_nothing_moves_is_the_last():
    plan = Alternating(ROWS, random_state(0))
    gains = fed(ROWS, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    observe(plan, gains, gains)
    assert observe(plan, 0 * gains, 0 * gains).tolist() == [5]
    assert not plan.shrunk
    assert set(plan.next_order()) == set(ROWS)


@EXAMPLES
@given(
    st.lists(st.floats(1 / 20, 20.0), min_size=1, max_size=30),
    st.integers(0, 2**64 - 1),
)
def test_orders_are_those_of_algorithm_4(preferences, seed):
    state = np.array([seed], dtype=np.uint64)
    rows = 3 * np.arange(len(preferences)) + 1
    plan = Adaptive(rows, state.copy())
    plan.preference[rows] = preferences
    expected = naive.compose(plan.preference, rows, lambda: uniform(state))
    assert sorted(plan.next_order()) == expected


def test_frequencies_are_proportional_to_preferences():
    plan = Adaptive(ROWS, random_state(0))
    preference = np.array([1 / 20, 0.5, 1.0, 3.0, 0.2, 2.0])
    plan.preference[ROWS] = preference
    n_sweeps = 4000
    counts = Counter(np.concatenate([plan.next_order().copy() for _ in range(n_sweeps)]).tolist())
    expected = preference / preference.sum() * len(ROWS)
    # the number of visits to a row in a sweep has a variance below 1
    found = np.array([counts[row] for row in ROWS]) / n_sweeps
    np.testing.assert_allclose(found, expected, atol=5 / np.sqrt(n_sweeps))


def test_visits_come_in_random_order():
    plan = Adaptive(np.arange(200), random_state(0))
    one, other = (plan.next_order().copy() for _ in range(2))
    np.testing.assert_array_equal(np.sort(one), np.sort(other))
    assert (one != other).mean() > 0.9


@pytest.mark.parametrize(("schedule", "c"), [(Adaptive, 1 / 5), (Auto, 1 / 10)])
def test_preferences_are_those_of_algorithm_5(schedule, c):
    rng = np.random.default_rng(0)
    plan = schedule(ROWS, random_state(0))
    first = fed(ROWS, rng.exponential(size=6))
    observe(plan, first, first)
    order = plan.next_order()  # learns from what was observed
    np.testing.assert_array_equal(plan.preference, 1.0)
    reference = first[ROWS].mean()
    for _ in range(10):
        gains = fed(ROWS, rng.exponential(size=6) * [1, 1, 0.1, 10, 1, 1])
        expected, reference = naive.adapt(plan.preference, reference, order, gains[order], c)
        plan.observe(order, gains[order], gains[order])
        order = plan.next_order()
        np.testing.assert_allclose(plan.preference, expected, rtol=1e-12)
        assert plan.reference == pytest.approx(reference, rel=1e-12)


def test_idle_visits_cost_preference():
    """Adaptive: the factor exp(-c) of Algorithm 5 for gain 0; Auto: one half."""
    gains = fed(ROWS, [0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    for schedule, factor in ((Adaptive, np.exp(-1 / 5)), (Auto, 1 / 2)):
        plan = schedule(ROWS, random_state(0))
        plan.reference = 1.0
        order = np.array([2, 3, 2])
        plan.observe(order, gains[order], gains[order])
        plan.next_order()
        assert plan.preference[2] == pytest.approx(factor**2)
        assert plan.preference[3] > 1.0  # a gain above the reference, which the idle visit lowered


@pytest.mark.parametrize("schedule", [Adaptive, Auto])
def test_preferences_stay_within_bounds(schedule):
    plan = schedule(ROWS, random_state(0))
    gains = np.array([0.0, 1e-300, 1e-3, 1.0, 1e3, 1e300])
    for _ in range(100):
        plan.observe(ROWS, gains, gains)
        plan.next_order()
        assert plan.preference.min() >= 1 / 20
        assert plan.preference.max() <= 20.0
    np.testing.assert_array_equal(plan.preference[ROWS[[0, -1]]], [1 / 20, 20.0])
    assert np.isfinite(plan.reference)


@pytest.mark.parametrize("schedule", [Adaptive, Auto])
def test_sweeps_without_any_gain_are_harmless(schedule):
    plan = schedule(ROWS, random_state(0))
    zero, one = fed(ROWS, 0.0), fed(ROWS, 1.0)
    for gains in (zero, zero, one, zero, zero, one, one):
        observe(plan, gains, gains)
        assert np.isfinite(plan.preference).all()
        assert np.isfinite(plan.reference)
    assert len(plan.next_order()) == len(ROWS)


@pytest.mark.parametrize("schedule", [Adaptive, Auto])
def test_preferences_survive_restrict(schedule):
    plan = schedule(ROWS, random_state(0))
    gains = fed(ROWS, [0.0, 1.0, 1.0, 1.0, 1.0, 5.0])
    for _ in range(5):
        observe(plan, gains, gains)
    before = plan.preference.copy()
    plan.restrict(np.arange(14) == 5)
    np.testing.assert_array_equal(plan.preference, before)
    assert before[13] > before[3] > before[2]


def test_only_auto_may_be_given_momentum():
    assert [name for name, schedule in SCHEDULES.items() if schedule.momentum] == ["auto"]


def test_auto_is_the_default_that_leaves_idle_rows_sooner():
    gains = fed(ROWS, [0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    visits = {}
    for schedule in (Adaptive, Auto):
        plan = schedule(ROWS, random_state(0))
        visits[schedule] = sum((observe(plan, gains, gains) == 2).sum() for _ in range(60))
    assert visits[Auto] < visits[Adaptive] < 60

"""Loops in kernels that end on comparisons of floats: they end, and with the right answer."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dualsweep._jit import jit
from dualsweep.kernels import block_steps
from dualsweep.kernels.duals import Picked, SlottedDuals, movable_duals
from dualsweep.kernels.newton_multiclass import ClassSlacks, _level, implied_dual_multiclass

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=300)

# Numbers of one size whose differences are rounding errors, numbers of all sizes, and none.
near = st.builds(
    lambda size, steps: [size * (1 + step * 2.0**-52) for step in steps],
    st.sampled_from([1e-300, 1e-3, 1.0, 50499285.56577, 1e12, 1e150]),
    st.lists(st.integers(-3, 3), min_size=1, max_size=9),
)
wide = st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9)
numbers = st.one_of(near, wide)
anything = st.lists(st.floats(), min_size=1, max_size=9)  # NaN and infinity too
costs = st.floats(1e-12, 1e12)

CYCLE = [
    *(50499328.38750421, 50499285.56577404, 50499285.56577362, 50499285.56578439),
    *(-34801405.64790746, 50499285.56577698, 50499285.56577346, 50499285.62748967),
    *(0.0, 50499290.193968855),
]


def exact_projection(u, cost):
    """The point nearest to u among those with b >= 0 and sum b <= cost, in fractions."""
    u = [Fraction(value) for value in u]
    cost = Fraction(cost)
    if sum(max(value, 0) for value in u) <= cost:
        return [max(value, Fraction(0)) for value in u]
    ordered = sorted(u, reverse=True)
    level = total = Fraction(0)
    for number, value in enumerate(ordered, 1):
        total += value
        if number == len(ordered) or (total - cost) / number >= ordered[number]:
            level = (total - cost) / number
            break
    return [max(value - level, Fraction(0)) for value in u]


@EXAMPLES
@given(u=numbers, cost=costs)
@example(u=[*CYCLE[:8], CYCLE[9]], cost=47.511657517742776)
@example(u=[5e7, 5e7 - 1e-3], cost=1e-12)
def test_the_projection_of_a_newton_step_is_exact_to_rounding(u, cost):
    n, label = len(u), 0
    slack = np.array([[0.0, *u]])
    out, b = np.empty_like(slack), np.empty_like(slack)
    zeros = np.zeros_like(slack)
    free, bound = np.empty(b.shape, bool), np.empty(1, bool)
    tables = slack, zeros, zeros, out, b, free, bound
    rows = ClassSlacks(np.array([label]), np.array([cost]), *tables)
    implied_dual_multiclass(rows, True, 1.0, 0.0, np.empty_like(b))
    exact = exact_projection(u, cost)
    assert b[0, label] == 0.0
    assert (b >= 0.0).all()
    assert b.sum() <= cost * (1 + 1e-15)
    # Differences of u are rounded once, to half a unit of what is at most the largest u.
    rounding = 1e-15 * n * (cost + max(float(max(exact)), 0.0))
    for got, wanted in zip(b[0, 1:], exact, strict=True):
        assert abs(Fraction(got) - wanted) <= rounding


def test_the_projection_that_used_to_cycle():
    top, level, bound = _level(np.array(CYCLE), 8, 47.511657517742776, True)
    assert bound
    above = np.maximum((np.delete(CYCLE, 8) - top) - level, 0.0)
    assert above.sum() == pytest.approx(47.511657517742776, rel=1e-12)


@EXAMPLES
@given(u=anything, cost=costs)
def test_projections_of_anything_end(u, cost):
    _level(np.array([0.0, *u]), 0, cost, True)


@EXAMPLES
@given(v=anything, upper=costs, guess=st.floats(0, 1e12))
def test_weston_watkins_steps_of_anything_end(v, upper, guess):
    v = np.array(v)
    levels = [
        block_steps.weston_watkins_level(v, len(v), upper, guess, np.empty(len(v))),
        block_steps._weston_watkins_walk(v, len(v), upper, np.empty(len(v))),
    ]
    if not np.isnan(v).any():  # infinite ones count as large
        finite = [Fraction(min(value, (len(v) + 1) * upper)) for value in v.clip(-1e300).tolist()]
        for level in levels:
            b = [min(max(value - Fraction(level), 0), Fraction(upper)) for value in finite]
            assert float(sum(b)) == pytest.approx(level, rel=1e-12, abs=1e-12 * upper)


@EXAMPLES
@given(v=anything, top=st.floats(), upper=costs)
def test_crammer_singer_steps_of_anything_end(v, top, upper):
    v = np.array(v)
    block_steps.crammer_singer_level(v, len(v), top, upper, np.empty(len(v)))
    block_steps._crammer_singer_walk(v, len(v), top, upper, np.empty(len(v)))


@jit
def _movable(slots, violations, above, classes, t, b):
    return movable_duals(slots, 0, 1.0, 0, violations, above, Picked(classes, t, b))


@EXAMPLES
@given(violations=anything, above=st.floats())
def test_the_search_for_violating_classes_ends(violations, above):
    violations = np.array([0.0, *violations])
    k = len(violations)
    slots = SlottedDuals(1, k).slots
    few, *_ = _movable(slots, violations, above, np.empty(k, np.int64), np.empty(k), np.empty(k))
    assert 0 <= few < k

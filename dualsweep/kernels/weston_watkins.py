"""The Weston-Watkins block step: Walrus (Wang and Scott 2021, Algorithm 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit, jit_inline, jit_sums
from .sorting import sort_descending

GUESSES = 6  # from a good start, two or three suffice


@jit_inline
def weston_watkins_level(v: Any, k: int, upper: float, guess: float, scratch: Any) -> float:
    """Return the gamma of the solution ``b = clip(v - gamma, 0, upper)`` of a block.

    The problem is

        min_b  1/2 (|b|^2 + (sum b)^2) - v.b,    0 <= b <= upper.

    The optimum has ``gamma = sum b``. As gamma falls from the largest v, entries leave 0 where
    gamma = v_i and reach `upper` where gamma = v_i - upper; between two such events the equation
    is linear. Entries of `v` that are not positive stay at 0. Of `v`, the first k
    entries count, and `scratch` holds as many. O(k log k).

    Most rows hardly move from one visit to the next, so Newton steps from the old gamma, `guess`,
    are tried first: which entries are at a bound there gives a linear equation, whose solution is
    the answer if the same entries are at a bound. That needs no sorting.
    """
    gamma, between, full = guess, -1, -1
    for _ in range(GUESSES):
        total, now_between, now_full = _between(v, k, gamma, upper)
        gamma = (upper * now_full + total) / (now_between + 1)
        if now_between == between and now_full == full:
            return gamma
        between, full = now_between, now_full
    return _walk(v, k, upper, scratch)


@jit_sums
def _between(v: Any, k: int, gamma: float, upper: float) -> tuple[float, int, int]:
    """Return sum and number of the entries strictly between the bounds, and the number above."""
    total, between, full = 0.0, 0, 0
    for i in range(k):
        above = v[i] - gamma
        inside = 0.0 < above < upper
        total += v[i] if inside else 0.0
        between += 1 if inside else 0
        full += 1 if above >= upper else 0
    return total, between, full


@jit
def _walk(v: Any, k: int, upper: float, scratch: Any) -> float:
    """Return gamma by the walk over all events, from the largest down.

    Entries above ``(k + 1) upper``, which gamma <= k upper leaves at `upper`, count as that: rows
    of tiny norm have infinite ones. The walk has at most 2 n events, whatever the comparisons say.
    """
    n = np.int64(0)  # a literal 0 would have the sort compiled twice
    for i in range(k):
        if v[i] > 0.0:
            scratch[n] = min(v[i], (k + 1) * upper)
            n += 1
    sort_descending(scratch, n)
    entered = 0  # entries above 0
    full = 0  # entries at upper
    # The sum over entries strictly between the bounds, with its rounding error carried along: a
    # large entry that has come and gone must not leave a trace.
    total, error = 0.0, 0.0
    while full < n:
        gamma = (upper * full + (total + error)) / (entered - full + 1)
        enter = scratch[entered] if entered < n else 0.0
        fill = scratch[full] - upper if full < entered else 0.0
        if gamma >= enter and gamma >= fill:
            return gamma
        # Subroutine 4: the entry that has just moved to the upper bound leaves.
        if entered == n or fill >= enter:
            change = -scratch[full]
            full += 1
        else:
            change = scratch[entered]
            entered += 1
        before = total
        total = before + change
        part = total - before
        error += (before - (total - part)) + (change - part)
    return upper * n

"""The block steps of Crammer-Singer and Weston-Watkins: all dual variables of a row at once.

A block step maximises

    v.b - 1/2 (|b|^2 + (sum b)^2),    v_m = t_m / |x_i|^2 + beta_im + sum_l beta_il

over the row's feasible b, t being its violations (see `dualsweep.kernels.multiclass`; Keerthi et
al. 2008, eqs. 10 and 21, without the equality constraint; Wang and Scott 2021, Proposition 3.5).
The solution subtracts a level from all entries of v, then clips them. Level functions look at the
first k entries of `v`, and need as many in `scratch`.
"""

from __future__ import annotations

import numpy as np

from .._jit import generic, implements, jit, jit_inline, jit_sums
from .._typing import Array, Int
from .duals import Duals, Slots

# Guesses at a level before entries are sorted; from a good start, two or three suffice.
GUESSES_CRAMMER_SINGER, GUESSES_WESTON_WATKINS = 8, 6

GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)  # of the sort (Ciura 2001)


@generic
def block_step(
    beta: Duals, t: Array, b: Array, k: int, upper: float, q: float, new: Array, scratch: Array
) -> float:
    """Fill `new` with the optimal dual variables of k of a row's classes, all others being fixed.

    The storage of `beta` tells the formulation: compiling one step takes half as long as both.
    Returns the level of t at which a dual variable would move: the others stay if they are 0 with t
    below it or, with Weston-Watkins, `upper` with t above it.
    """


@implements(block_step, np.ndarray)
def _weston_watkins_step(
    beta: Array, t: Array, b: Array, k: int, upper: float, q: float, new: Array, scratch: Array
) -> float:
    if q == 0.0:  # a zero row loses 1 per class, whatever W is
        new[:k] = upper
        return 1.0
    total = 0.0
    for m in range(k):
        total += b[m]
    for m in range(k):
        new[m] = t[m] / q + b[m] + total
    level = weston_watkins_level(new, k, upper, total, scratch)
    for m in range(k):
        new[m] = min(max(new[m] - level, 0.0), upper)
    return q * (level - total)


@implements(block_step, Slots)
def _crammer_singer_step(
    beta: Slots, t: Array, b: Array, k: int, upper: float, q: float, new: Array, scratch: Array
) -> float:
    if q == 0.0 or k == 0:
        for m in range(k):
            new[m] = upper / k
        return 1.0
    top, total = 0, b[0]
    for m in range(1, k):
        total += b[m]
        if (t[m] - t[top]) / q + (b[m] - b[top]) > 0.0:
            top = m
    for m in range(k):
        new[m] = (t[m] - t[top]) / q + (b[m] - b[top])
    level = crammer_singer_level(new, k, t[top] / q + b[top] + total, upper, scratch)
    new_total = 0.0
    for m in range(k):
        new[m] = max(new[m] - level, 0.0)
        new_total += new[m]
    if new_total > upper:  # by rounding
        for m in range(k):
            new[m] *= upper / new_total
    return t[top] + q * (level + b[top])


@jit_inline
def crammer_singer_level(v: Array, k: int, top: float, upper: float, scratch: Array) -> float:
    """Return the gamma with which ``b = max(v - gamma, 0)`` solves the problem of a block.

        min_b  1/2 (|b|^2 + (sum b)^2) - (v + top).b,    b >= 0,  sum b <= upper.

    The largest entry of `v` is 0: rows of tiny norm have huge entries, of which only the
    differences count. ``top + gamma`` is ``sum b`` where that is below `upper`; otherwise b is the
    projection of v onto a simplex.

    Guess which entries are above gamma, beginning with all; compute gamma from these; drop those
    that are below it, and repeat (Michelot 1986). gamma only grows, so that no entry comes back.
    """
    if top <= 0.0:
        return 0.0  # nothing is above 0: b = 0
    if k == 1:  # as for many rows: the search below would find it too
        return max(-0.5 * top, -upper)
    gamma, above = -top, -1
    for _ in range(GUESSES_CRAMMER_SINGER):
        total, now = _above(v, k, gamma)
        if now == above:
            return gamma
        gamma = max((total - top) / (now + 1), (total - upper) / now)
        above = now
    return _crammer_singer_walk(v, k, top, upper, scratch)


@jit_sums
def _above(v: Array, k: int, gamma: float) -> tuple[float, int]:
    """Return sum and number of the entries above gamma."""
    total, number = 0.0, 0
    for i in range(k):
        inside = v[i] > gamma
        total += v[i] if inside else 0.0
        number += 1 if inside else 0
    return total, number


@jit
def _crammer_singer_walk(v: Array, k: int, top: float, upper: float, scratch: Array) -> float:
    """Return gamma by a walk over the sorted entries, from the largest down."""
    n = np.int64(0)  # a literal 0 would have the sort compiled twice
    for i in range(k):
        if v[i] > -top:
            scratch[n] = v[i]
            n += 1
    sort_descending(scratch, n)
    total, gamma = 0.0, 0.0
    for m in range(1, n + 1):
        total += scratch[m - 1]
        gamma = max((total - top) / (m + 1), (total - upper) / m)
        if m == n or gamma >= scratch[m]:
            break
    return gamma


@jit_inline
def weston_watkins_level(v: Array, k: int, upper: float, guess: float, scratch: Array) -> float:
    """Return the gamma with which ``b = clip(v - gamma, 0, upper)`` solves that of a block.

        min_b  1/2 (|b|^2 + (sum b)^2) - v.b,    0 <= b <= upper.

    The optimum has ``gamma = sum b``. Most rows hardly move between visits, so try Newton steps
    from the old gamma, `guess`, first: the entries at a bound there give a linear equation, and its
    solution is the answer if the same entries are at a bound. That needs no sorting.
    """
    gamma, between, full = guess, -1, -1
    for _ in range(GUESSES_WESTON_WATKINS):
        total, now_between, now_full = _between(v, k, gamma, upper)
        gamma = (upper * now_full + total) / (now_between + 1)
        if now_between == between and now_full == full:
            return gamma
        between, full = now_between, now_full
    return _weston_watkins_walk(v, k, upper, scratch)


@jit_sums
def _between(v: Array, k: int, gamma: float, upper: float) -> tuple[float, int, int]:
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
def _weston_watkins_walk(v: Array, k: int, upper: float, scratch: Array) -> float:
    """Return gamma by a walk from the largest v down (Wang and Scott 2021, Algorithm 2: Walrus).

    As gamma falls, entries leave 0 where gamma = v_i and reach `upper` where gamma = v_i - upper;
    between two of these at most 2 n events the equation is linear. Entries that are not positive
    stay at 0. Rows of tiny norm have infinite entries, which are lowered to ``(k + 1) upper``:
    gamma is at most k upper and leaves them at `upper`.
    """
    n = np.int64(0)  # a literal 0 would have the sort compiled twice
    for i in range(k):
        if v[i] > 0.0:
            scratch[n] = min(v[i], (k + 1) * upper)
            n += 1
    sort_descending(scratch, n)
    entered = 0  # entries above 0
    full = 0  # entries at upper
    # The sum over entries strictly between the bounds, compensated: a large entry that has come
    # and gone must not leave a trace.
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


@jit
def sort_descending(values: Array, n: Int) -> None:
    """Sort ``values[:n]`` in place by Shell's method: largest first, without allocation."""
    for gap in GAPS:
        for i in range(gap, n):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] < value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value

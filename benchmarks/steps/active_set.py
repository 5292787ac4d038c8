"""Block steps by the active-set method (Keerthi et al. 2008, sections 2 and 3), to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualsweep._jit import jit

__all__ = ["active_set_step"]

ITERATIONS_PER_CLASS = 10
ROUNDING = 1e-13  # of multipliers, relative to the numbers they are differences of


@jit
def active_set_step(v: Any, upper: float, joint: bool, b: Any) -> int:
    """Move `b`, which is feasible, to the solution of a block; return the number of iterations.

    The problem is

        min_b  1/2 (|b|^2 + (sum b)^2) - v.b,

    with ``b >= 0`` and ``sum b <= upper`` if `joint` (Crammer-Singer), else ``0 <= b <= upper``
    (Weston-Watkins). Each iteration minimises over the entries that are not at a bound, which has
    a closed form, and goes there as far as the bounds allow. Where nothing is in the way, the bound
    with the most negative multiplier is left. An iteration takes O(k), and a row visited before
    needs few of them, but from b = 0 there can be as many as entries.
    """
    k = v.shape[0]
    limit = np.inf if joint else upper
    total = 0.0
    for m in range(k):
        total += b[m]
    full = joint and total >= upper  # the sum is at its bound
    released = -1  # the entry at a bound that may leave it
    for iteration in range(ITERATIONS_PER_CLASS * (k + 1)):
        # The minimum over the free entries is at b = v - level.
        free, free_v, total, fixed = 0, 0.0, 0.0, 0.0
        for m in range(k):
            total += b[m]
            if m == released or 0.0 < b[m] < limit:
                free += 1
                free_v += v[m]
            else:
                fixed += b[m]
        level = (free_v - upper) / free if full else (free_v + fixed) / (free + 1)

        length, blocking = 1.0, -1
        for m in range(k):
            if m == released or 0.0 < b[m] < limit:
                target = v[m] - level
                if target < 0.0:
                    reach = b[m] / (b[m] - target)
                elif target > limit:
                    reach = (limit - b[m]) / (target - b[m])
                else:
                    continue
                if reach < length:
                    length, blocking = reach, m
        if joint and not full and level > upper:  # the sum would become `level`
            reach = max(upper - total, 0.0) / (level - total)
            if reach < length:
                length, blocking = reach, -1
                full = True

        for m in range(k):
            if m == released or 0.0 < b[m] < limit:
                target = v[m] - level
                moved = target if length == 1.0 else b[m] + length * (target - b[m])
                if m == blocking:
                    moved = 0.0 if target < 0.0 else limit
                b[m] = min(max(moved, 0.0), limit)
        if length < 1.0:
            if blocking == released:
                released = -1
            continue

        released, worst = -1, 0.0
        for m in range(k):
            slope = v[m] - b[m] - level
            violation = slope if b[m] == 0.0 else -slope
            noise = ROUNDING * (abs(v[m]) + b[m] + abs(level))
            if (b[m] == 0.0 or b[m] == limit) and violation > max(worst, noise):
                released, worst = m, violation
        if full and upper - level > max(worst, ROUNDING * upper):
            full = False
            released = -1
        elif released < 0:
            return iteration + 1
    return ITERATIONS_PER_CLASS * (k + 1)

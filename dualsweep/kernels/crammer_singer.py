"""The Crammer-Singer block step: a projection (Keerthi et al. 2008, eq. 10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit, jit_inline, jit_sums
from .sorting import sort_descending

GUESSES = 8


@jit_inline
def crammer_singer_level(v: Any, k: int, top: float, upper: float, scratch: Any) -> float:
    """Return the gamma of the solution ``b = max(v - gamma, 0)`` of a block.

    The problem is

        min_b  1/2 (|b|^2 + (sum b)^2) - (v + top).b,    b >= 0,  sum b <= upper,

    with the largest entry of `v` being 0: rows of tiny norm have huge entries that differ by
    little, and only the differences count. ``top + gamma`` is ``sum b`` where that does not exceed
    `upper`, and otherwise the level at which the sum is `upper`: b is then the projection of v onto
    a simplex. Of `v`, the first k entries count, and `scratch` holds as many. O(k log k).

    Most often the entries above gamma are found sooner by taking all of them, computing gamma as
    if they stayed above it, dropping those that do not, and so on (Michelot 1986); gamma only grows
    on the way, so that none comes back.
    """
    if top <= 0.0:
        return 0.0  # nothing is above 0: b = 0
    if k == 1:  # as for many rows: the search below would find it too
        return max(-0.5 * top, -upper)
    gamma, above = -top, -1
    for _ in range(GUESSES):
        total, now = _above(v, k, gamma)
        if now == above:
            return gamma
        gamma = max((total - top) / (now + 1), (total - upper) / now)
        above = now
    return _walk(v, k, top, upper, scratch)


@jit_sums
def _above(v: Any, k: int, gamma: float) -> tuple[float, int]:
    """Return sum and number of the entries above gamma."""
    total, number = 0.0, 0
    for i in range(k):
        inside = v[i] > gamma
        total += v[i] if inside else 0.0
        number += 1 if inside else 0
    return total, number


@jit
def _walk(v: Any, k: int, top: float, upper: float, scratch: Any) -> float:
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

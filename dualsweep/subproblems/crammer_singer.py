"""The Crammer-Singer block step: a projection (Keerthi et al. 2008, eq. 10)."""

from __future__ import annotations

from typing import Any

from .._jit import jit, jit_sums
from ._sorting import sort_descending

__all__ = ["crammer_singer_level"]

GUESSES = 8


@jit
def crammer_singer_level(v: Any, upper: float, scratch: Any) -> float:
    """Return the gamma of the solution ``b = max(v - gamma, 0)`` of a block.

    The problem is

        min_b  1/2 (|b|^2 + (sum b)^2) - v.b,    b >= 0,  sum b <= upper.

    gamma is ``sum b`` where that does not exceed `upper`, and otherwise the level at which the sum
    is `upper`: b is then the projection of v onto a simplex. O(k log k); `scratch` holds as many
    numbers as `v`.

    Most often the entries above gamma are found sooner by taking all positive ones, computing
    gamma as if they stayed above it, dropping those that do not, and so on (Michelot 1986); gamma
    only grows on the way, so that none comes back.
    """
    gamma, above = 0.0, -1
    for _ in range(GUESSES):
        total, now = _above(v, gamma)
        if now == above or now == 0:
            return gamma
        gamma = max(total / (now + 1), (total - upper) / now)
        above = now
    return _walk(v, upper, scratch)


@jit_sums
def _above(v: Any, gamma: float) -> tuple[float, int]:
    """Return sum and number of the entries above gamma."""
    total, number = 0.0, 0
    for i in range(v.shape[0]):
        inside = v[i] > gamma
        total += v[i] if inside else 0.0
        number += 1 if inside else 0
    return total, number


@jit
def _walk(v: Any, upper: float, scratch: Any) -> float:
    """Return gamma by a walk over the sorted entries, from the largest down."""
    n = 0
    for i in range(v.shape[0]):
        if v[i] > 0.0:
            scratch[n] = v[i]
            n += 1
    if n == 0:
        return 0.0
    sort_descending(scratch, n)
    # The differences to the largest entry are summed, so that nothing is lost where all are huge.
    top = scratch[0]
    total = 0.0  # sum of (v_i - top) over the entries above gamma
    for m in range(1, n + 1):
        total += scratch[m - 1] - top
        free = top + (total - top) / (m + 1)  # (sum v) / (m + 1)
        capped = top + (total - upper) / m  # (sum v - upper) / m
        gamma = max(free, capped)
        if m == n or gamma >= scratch[m]:
            return gamma
    return 0.0

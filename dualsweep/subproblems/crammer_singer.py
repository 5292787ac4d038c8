"""The Crammer-Singer block step: a projection (Keerthi et al. 2008, eq. 10)."""

from __future__ import annotations

from typing import Any

from .._jit import jit
from ._sorting import sort_descending

__all__ = ["crammer_singer_level"]


@jit
def crammer_singer_level(v: Any, upper: float, scratch: Any) -> float:
    """Return the gamma of the solution ``b = max(v - gamma, 0)`` of a block.

    The problem is

        min_b  1/2 (|b|^2 + (sum b)^2) - v.b,    b >= 0,  sum b <= upper.

    gamma is ``sum b`` where that does not exceed `upper`, and otherwise the level at which the sum
    is `upper`: b is then the projection of v onto a simplex. O(k log k); `scratch` holds as many
    numbers as `v`.
    """
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

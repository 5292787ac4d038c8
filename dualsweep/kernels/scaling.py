"""The best multiple of a dual point for other costs than its own."""

from __future__ import annotations

import numpy as np

from .._jit import jit, jit_inline
from .._typing import Array
from ..losses.protocol import conjugate_parts, dual_bounds, row_loss
from .binary import BinaryData, target_of
from .certificate import long_square

# Dual variables within rounding of a bound, from this part of it on, are set to it: visits leave
# those alone.
AT_BOUND = 1.0 - 4 * float(np.finfo(np.float64).eps)


@jit_inline
def best_multiple(total: float, curvature: float, room: float) -> float:
    """Return the s in [0, room] that maximises ``s total - s^2/2 curvature``; 0 if undefined."""
    s = max(total / curvature, 0.0) if curvature > 0.0 else 0.0
    return min(s if np.isfinite(s) else 0.0, room)


@jit
def rescale(
    data: BinaryData,
    members: Array,
    before: Array,
    w_before: Array,
    seen: Array,
    slack: Array,
    alpha: Array,
    w: Array,
) -> tuple[float, float]:
    """Fill in the multiple ``alpha = s * before`` with the largest dual objective, and its w.

    With targets t and the sums p and q of `conjugate_parts`, the objective of s * alpha is
    ``s (t.alpha - p) - s^2/2 (|w|^2 + q)``, and slacks become ``t - s (t - slack)``.

    `w_before` are the weights of `before`, and `slack` the slacks of the rows `seen`. Returns the
    primal and the dual objective; NaN as the primal if the rows seen are not the members.
    """
    cost, loss = data.cost, data.loss
    total = square = losses = 0.0
    room = np.inf
    for i in members:
        a = before[i]
        if a != 0.0:
            lower, upper = dual_bounds(loss, cost[i])
            linear, quadratic = conjugate_parts(loss, cost[i], a)
            total += target_of(data.target, i) * a - linear
            square += quadratic
            room = min(room, (upper if a > 0.0 else lower) / a)
    size = long_square(w_before)
    s = best_multiple(total, size + square, room)

    alpha[:] = 0.0
    known = seen.shape[0] == members.shape[0]
    for t in range(members.shape[0]):
        i = members[t]
        lower, upper = dual_bounds(loss, cost[i])
        value = s * before[i]
        if value >= AT_BOUND * upper:
            value = upper
        if value <= AT_BOUND * lower:
            value = lower
        alpha[i] = value
        known = known and seen[t] == i
        if known:
            goal = target_of(data.target, i)
            losses += row_loss(loss, cost[i], goal - s * (goal - slack[t]))
    for j in range(w.shape[0]):
        w[j] = s * w_before[j]
    primal = 0.5 * s * s * size + losses if known else np.nan
    return primal, s * total - 0.5 * s * s * (size + square)

"""Multiples of the dual point of a binary problem, for other costs than its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit, jit_inline
from .certificate import squared_length
from .loss import Loss, box, row_loss, target_of

# A dual variable this close to its bound, relative to it, is there but for rounding.
AT_BOUND = 1.0 - 4 * float(np.finfo(np.float64).eps)


@jit_inline
def multiple_within(total: float, curvature: float, room: float) -> float:
    """Return the s in [0, room] with the largest ``s total - s^2/2 curvature``; 0 if undefined."""
    s = max(total / curvature, 0.0) if curvature > 0.0 else 0.0
    return min(s if np.isfinite(s) else 0.0, room)


@jit
def rescale(
    members: Any,
    before: Any,
    w_before: Any,
    seen: Any,
    slack: Any,
    target: Any,
    cost: Any,
    loss: Loss,
    alpha: Any,
    w: Any,
) -> tuple[float, float]:
    """Fill in the multiple ``alpha = s * before`` with the largest dual objective, and its w.

    With s * alpha, the objective is ``s (t.alpha - kink |alpha|_1) - s^2/2 (|w|^2 + sum_i D_i
    alpha_i^2)``, t the targets, and slacks become ``t - s (t - slack)``. What is at a bound but for
    rounding is put there, so that visits leave it alone.

    `w_before` are the weights of `before`, and `slack` what they leave of the rows `seen`. Returns
    the primal and the dual objective; NaN as the primal if the rows seen are not the members.
    """
    total = diagonal = losses = 0.0
    room = np.inf
    for i in members:
        a = before[i]
        if a != 0.0:
            lower, upper, diag = box(loss, cost[i])
            total += target_of(target, i) * a - loss.kink * abs(a)
            diagonal += diag * a * a
            room = min(room, (upper if a > 0.0 else lower) / a)
    size = squared_length(w_before)
    s = multiple_within(total, size + diagonal, room)

    alpha[:] = 0.0
    known = seen.shape[0] == members.shape[0]
    for t in range(members.shape[0]):
        i = members[t]
        lower, upper, diag = box(loss, cost[i])
        value = s * before[i]
        if value >= AT_BOUND * upper:
            value = upper
        if value <= AT_BOUND * lower:
            value = lower
        alpha[i] = value
        known = known and seen[t] == i
        if known:
            goal = target_of(target, i)
            losses += row_loss(goal - s * (goal - slack[t]), lower, upper, diag, loss.kink)
    for j in range(w.shape[0]):
        w[j] = s * w_before[j]
    primal = 0.5 * s * s * size + losses if known else np.nan
    return primal, s * total - 0.5 * s * s * (size + diagonal)

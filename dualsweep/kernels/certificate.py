"""Primal, dual and gap of a dual point, recomputed from the dual variables alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit, jit_inline
from ..losses import Loss
from ..rows import Rows, row_axpy, row_dot
from .binary import gap_share, maximiser

__all__ = ["certify", "drift_share", "weights"]

# Relative error of a slack computed in float64, with some room.
SLACK_ROUNDING = 4 * np.finfo(np.float64).eps

# Relative error of a sum of n numbers over sqrt(n), which random errors exceed with a probability
# of 3e-14 (Higham and Mary 2019, with lambda = 8).
SUM_ROUNDING = 4 * np.finfo(np.float64).eps


@jit
def weights(rows: Rows, y: Any, alpha: Any, w: Any) -> None:
    """Overwrite `w` with ``sum_i alpha_i y_i x_i``."""
    w[:] = 0.0
    for i in range(alpha.shape[0]):
        if alpha[i] != 0.0:
            row_axpy(rows, i, alpha[i] * y[i], w)


@jit
def certify(
    rows: Rows,
    sqnorm: Any,
    y: Any,
    cost: Any,
    loss: Loss,
    candidates: Any,
    alpha: Any,
    w: Any,
    slack: Any,
) -> tuple[float, float]:
    """Return ``primal(w)`` and the duality gap; fill ``slack[t] = 1 - y_i w.x_i``, i the t-th row.

    `w` must be the weights of `alpha`. The gap is summed from shares that are not negative, so
    that it keeps its relative precision when it is a tiny difference of large objectives. Each
    share is the largest over the slacks that round to the one computed (it is convex in the slack,
    so the ends suffice): at a cost of 1e12 a slack of 1e-16 matters. So does that w is rounded: see
    `drift_share`.
    """
    regulariser = 0.0
    for j in range(w.shape[0]):
        regulariser += w[j] * w[j]
    length = np.sqrt(regulariser)
    losses = 0.0
    gap = 0.0
    summed = 0.0
    for t in range(candidates.shape[0]):
        i = candidates[t]
        upper = cost[i] * loss.upper
        diag = loss.diag / cost[i]
        s = 1.0 - y[i] * row_dot(rows, i, w)
        slack[t] = s
        best = maximiser(s, loss.lower, upper, diag)
        losses += best * s - 0.5 * diag * best * best
        norm = np.sqrt(sqnorm[i])
        summed += abs(alpha[i]) * norm
        error = SLACK_ROUNDING * (1.0 + length * norm)
        gap += max(
            gap_share(alpha[i], s - error, loss.lower, upper, diag),
            gap_share(alpha[i], s + error, loss.lower, upper, diag),
            0.0,
        )
    return 0.5 * regulariser + losses, gap + drift_share(summed, candidates.shape[0])


@jit_inline
def drift_share(summed: float, n: int) -> float:
    """Return what the rounding of w adds to the gap, w being a sum over n rows.

    Shares make up ``P(w) - D(alpha)`` but for ``1/2 |w - w(alpha)|^2``, w(alpha) the exact weights.
    `summed` is the sum of the lengths of what w is summed from.
    """
    drift = SUM_ROUNDING * np.sqrt(n) * summed
    return 0.5 * drift * drift

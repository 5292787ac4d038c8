"""Primal, dual and gap of a dual point, recomputed from the dual variables alone."""

from __future__ import annotations

from typing import Any

from .._jit import jit
from ..losses import Loss
from ..rows import Rows, row_axpy, row_dot
from .binary import gap_share, maximiser

__all__ = ["certify", "weights"]


@jit
def weights(rows: Rows, y: Any, alpha: Any, w: Any) -> None:
    """Overwrite `w` with ``sum_i alpha_i y_i x_i``."""
    w[:] = 0.0
    for i in range(alpha.shape[0]):
        if alpha[i] != 0.0:
            row_axpy(rows, i, alpha[i] * y[i], w)


@jit
def certify(
    rows: Rows, y: Any, cost: Any, loss: Loss, candidates: Any, alpha: Any, w: Any, slack: Any
) -> tuple[float, float]:
    """Return ``primal(w)`` and the duality gap; fill ``slack[t] = 1 - y_i w.x_i``, i the t-th row.

    `w` must be the weights of `alpha`. The gap is summed from shares that are never negative, so
    that it keeps its relative precision when it is a tiny difference of large objectives.
    """
    regulariser = 0.0
    for j in range(w.shape[0]):
        regulariser += w[j] * w[j]
    losses = 0.0
    gap = 0.0
    for t in range(candidates.shape[0]):
        i = candidates[t]
        upper = cost[i] * loss.upper
        diag = loss.diag / cost[i]
        s = 1.0 - y[i] * row_dot(rows, i, w)
        slack[t] = s
        best = maximiser(s, loss.lower, upper, diag)
        losses += best * s - 0.5 * diag * best * best
        gap += gap_share(alpha[i], s, loss.lower, upper, diag)
    return 0.5 * regulariser + losses, gap

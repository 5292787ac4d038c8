"""What a certificate adds up over the rows, from the weights of a dual point.

Totals are the sum of the losses, the sum of the rows' shares of the duality gap, and the sum of the
lengths of what the weights are summed from. `primal_and_gap` makes a certificate of them.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from .._jit import jit
from ..rows.functions import row_dot
from ..rows.layouts import Rows
from .loss import Loss, box, gap_share, row_loss, target_of

__all__ = [
    "N_TOTALS",
    "SLACK_ROUNDING",
    "SUM_ROUNDING",
    "certify_rows",
    "primal_and_gap",
    "settle_rows",
    "squared_length",
]

N_TOTALS = 3

# Relative error of a slack computed in float64, with some room.
SLACK_ROUNDING = 4 * float(np.finfo(np.float64).eps)

# Relative error of a sum of n numbers over sqrt(n), which random errors exceed with a probability
# of 3e-14 (Higham and Mary 2019, with lambda = 8).
SUM_ROUNDING = 4 * float(np.finfo(np.float64).eps)


@jit
def certify_rows(
    rows: Rows,
    members: Any,
    w: Any,
    y: Any,
    target: Any,
    cost: Any,
    sqnorm: Any,
    alpha: Any,
    loss: Loss,
    length: float,
    slack: Any,
    totals: Any,
) -> None:
    """Add to the totals of a binary problem, and fill in the slacks ``t_i - y_i w.x_i`` of members.

    w are the weights of `alpha`, of this length. The gap is summed from shares that are not
    negative, so that it keeps its relative precision when it is a tiny difference of large
    objectives. Each share is the largest over the slacks that round to the one computed (it is
    convex in the slack, so the ends suffice): at a cost of 1e12 a slack of 1e-16 matters.
    """
    losses, gap, summed = totals[0], totals[1], totals[2]
    kink = loss.kink
    for t in range(members.shape[0]):
        i = members[t]
        lower, upper, diag = box(loss, cost[i])
        goal = target_of(target, i)
        s = goal - y[i] * row_dot(rows, i, w)
        slack[t] = s
        losses += row_loss(s, lower, upper, diag, kink)
        norm = np.sqrt(sqnorm[i])
        summed += abs(alpha[i]) * norm
        error = SLACK_ROUNDING * (abs(goal) + kink + length * norm)
        gap += max(
            gap_share(alpha[i], s - error, lower, upper, diag, kink),
            gap_share(alpha[i], s + error, lower, upper, diag, kink),
            0.0,
        )
    totals[0], totals[1], totals[2] = losses, gap, summed


@jit
def settle_rows(
    members: Any,
    cost: Any,
    sqnorm: Any,
    alpha: Any,
    slack: Any,
    loss: Loss,
    radius: float,
    out: Any,
) -> None:
    """Fill in which of the members are at a bound, or at the kink, where the optimum has them.

    The optimum is at most `radius` from w, so its slack differs by at most that times ``|x_i|``.
    Where the loss has a diagonal, dual variables are at a bound from ``D_i`` times it on, which is
    the same for all rows.
    """
    kink = loss.kink
    below, above = loss.diag * loss.lower - kink, loss.diag * loss.upper + kink
    for t in range(members.shape[0]):
        i = members[t]
        lower, upper, _ = box(loss, cost[i])
        a, s, reach = alpha[i], slack[t], radius * np.sqrt(sqnorm[i])
        at_lower = s < below - reach and a == lower
        at_upper = s > above + reach and a == upper
        out[t] = at_lower or at_upper or (abs(s) < kink - reach and a == 0.0)


def primal_and_gap(size: float, totals: Any, n: int, distance: float = 0.0) -> tuple[float, float]:
    """Return primal and gap of n rows with these totals, the weights being of this squared length.

    Shares make up ``P(w) - D(alpha)`` but for ``1/2 |w - w(alpha)|^2``, w(alpha) the exact weights:
    w is a sum over n rows, and rounded; or, of other weights, `distance` away from that sum.
    """
    losses, gap, summed = totals.tolist()
    away = distance + SUM_ROUNDING * sqrt(n) * summed
    return 0.5 * size + losses, gap + 0.5 * away * away


@jit
def squared_length(w: Any) -> float:
    """Return ``w.w``, w in one dimension."""
    total = 0.0
    for j in range(w.shape[0]):
        total += w[j] * w[j]
    return total

"""The arithmetic of one row of a binary problem: its box, its loss, its share of the duality gap.

Row i with cost ``C_i``, target ``t_i`` (1 for classes) and ``z_i = y_i w.x_i`` has the slack
``s = t_i - z_i`` and loses

    C_i * loss(z_i) = max over lower_i <= b <= upper_i of  b s - kink |b| - D_i b^2 / 2

with ``lower_i = C_i * lower``, ``upper_i = C_i * upper`` and ``D_i = diag / C_i``. The maximiser is
the dual variable, so the four numbers of a loss are all that sweeps, Newton steps and certificates
need.

Losses of classes have no kink. That of regression is its epsilon, with a box around 0: slacks of
up to epsilon either way cost nothing, and leave the dual variable at 0. (Two variables per row, one
for each side, are the same problem with twice the visits. With one, a step is exact, and a row that
is known to be inside the tube is settled by that alone.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import generic, implements, jit, jit_inline
from ..rows.functions import SMALLEST


class Loss(NamedTuple):
    """The box ``[C_i * lower, C_i * upper]`` of a dual variable, diagonal ``diag / C_i``, and kink.

    0 is in the box.
    """

    lower: float
    upper: float
    diag: float
    kink: float = 0.0


@generic
def target_of(target: Any, i: int) -> Any:
    """Return the target of row i: a number that all rows have, or an array's."""


@implements(target_of)
def _target_of(target: Any, i: Any) -> Any:
    def common(target, i):  # type: ignore[no-untyped-def]
        return target

    def own(target, i):  # type: ignore[no-untyped-def]
        return target[i]

    return own if hasattr(target, "dtype") else common


def bounds(loss: Loss, cost: Any) -> tuple[Any, Any, Any]:
    """Return the bounds of a row's dual variable and its diagonal; of an array, arrays."""
    return cost * loss.lower, cost * loss.upper, loss.diag / cost


box = jit_inline(bounds)  # for kernels


@jit_inline
def beyond(value: float, kink: float) -> float:
    """Return by how much a value is beyond ``[-kink, kink]``; without a kink, the value."""
    return value - min(max(value, -kink), kink)


@jit_inline
def best_dual(slack: float, lower: float, upper: float, diag: float, kink: float) -> float:
    """Return the b in the box at which ``b slack - kink |b| - diag b^2 / 2`` is largest."""
    excess = beyond(slack, kink)
    if diag > 0.0:
        return min(max(excess / diag, lower), upper)
    if excess == 0.0:
        return 0.0
    return upper if excess > 0.0 else lower


@jit_inline
def row_loss(slack: float, lower: float, upper: float, diag: float, kink: float) -> float:
    """Return the loss of a row, times its cost."""
    best = best_dual(slack, lower, upper, diag, kink)
    return best * beyond(slack, kink) - 0.5 * diag * best * best


@jit_inline
def gap_share(
    a: float, slack: float, lower: float, upper: float, diag: float, kink: float
) -> float:
    """Return a row's share of the duality gap: its loss minus its Fenchel-Young lower bound.

    The loss is ``max_b b slack - kink |b| - D b^2/2`` over the box; the share is that maximum minus
    the same expression at ``b = a``, hence never negative.
    """
    best = best_dual(slack, lower, upper, diag, kink)
    # best*slack - kink |best| - D best^2/2 - (a*slack - kink |a| - D a^2/2), without cancellation
    side = np.copysign(kink, best if best != 0.0 else a)
    share = (best - a) * (slack - side - 0.5 * diag * (best + a))
    return share + 2.0 * kink * abs(a) if a * side < 0.0 else share


@jit
def sum_losses(slack: Any, cost: Any, loss: Loss) -> float:
    """Return the sum of the losses of rows with these slacks and costs; 0 only of no loss."""
    total = 0.0
    for t in range(slack.shape[0]):
        lower, upper, diag = box(loss, cost[t])
        excess = beyond(slack[t], loss.kink)
        if (excess > 0.0 and upper > 0.0) or (excess < 0.0 and lower < 0.0):
            # A square may underflow.
            total += max(row_loss(slack[t], lower, upper, diag, loss.kink), SMALLEST)
    return total

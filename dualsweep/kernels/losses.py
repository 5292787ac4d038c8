"""Sums of losses."""

from __future__ import annotations

from .._jit import jit
from .._typing import Array
from ..losses.protocol import Loss, row_loss


@jit
def sum_losses(slack: Array, cost: Array, loss: Loss) -> float:
    """Return the sum of the losses of rows; 0 only if nothing is lost."""
    total = 0.0
    for t in range(slack.shape[0]):
        total += row_loss(loss, cost[t], slack[t])
    return total

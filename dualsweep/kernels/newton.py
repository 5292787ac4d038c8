"""What a Newton step of a binary problem computes from the slacks of its rows."""

from __future__ import annotations

from typing import Any

from .._jit import jit
from .loss import Loss, beyond, box, gap_share, row_loss

__all__ = ["implied_dual", "slope"]


@jit
def implied_dual(
    slack: Any, anchor: Any, cost: Any, loss: Loss, rho: float, u: Any, b: Any, scale: Any
) -> tuple[float, float]:
    """Fill ``u = (slack + rho anchor) / (D + rho)`` and ``b = clip(u)``, less what is in the kink.

    And `scale`, by how much b changes with its slack: ``1 / (D + rho)`` where b is between its
    bounds and not in the kink, elsewhere 0. Returns the sum of the losses, and that of their excess
    over what b proves.
    """
    kink = loss.kink
    losses = 0.0
    excess = 0.0
    for t in range(slack.shape[0]):
        lower, upper, diag = box(loss, cost[t])
        s = slack[t]
        u[t] = (s + rho * anchor[t]) / (diag + rho)
        free = beyond(u[t], kink / (diag + rho))
        b[t] = min(max(free, lower), upper)
        moves = lower < free < upper and (kink == 0.0 or free != 0.0)
        scale[t] = 1.0 / (diag + rho) if moves else 0.0
        losses += row_loss(s, lower, upper, diag, kink)
        excess += gap_share(b[t], s, lower, upper, diag, kink)
    return losses, excess


@jit
def slope(u: Any, q: Any, cost: Any, loss: Loss, rho: float, t: float) -> tuple[float, float]:
    """Return ``sum_i b_i q_i``, b that of ``u_i + t q_i / (D_i + rho)``, and its derivative."""
    kink = loss.kink
    total = 0.0
    curvature = 0.0
    for i in range(u.shape[0]):
        lower, upper, diag = box(loss, cost[i])
        scaled = q[i] / (diag + rho)
        v = beyond(u[i] + t * scaled, kink / (diag + rho))
        total += min(max(v, lower), upper) * q[i]
        if lower < v < upper and (kink == 0.0 or v != 0.0):
            curvature += scaled * q[i]
    return total, curvature

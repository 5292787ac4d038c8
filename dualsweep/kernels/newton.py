"""What a Newton step of a binary problem computes from the slacks of its rows."""

from __future__ import annotations

from typing import Any

from .._jit import jit
from ..rows.functions import row_dot
from ..rows.layouts import Rows
from ..rows.passes import add_rows
from .loss import Loss, beyond, box, gap_share, row_loss

__all__ = [
    "aim",
    "find_changed",
    "implied_dual",
    "implied_weights",
    "respond_and_aim",
    "slope",
]


@jit
def implied_dual(
    slack: Any,
    along: Any,
    step: float,
    anchor: Any,
    y: Any,
    cost: Any,
    loss: Loss,
    rho: float,
    u: Any,
    b: Any,
    scale: Any,
    signed: Any,
) -> tuple[float, float]:
    """Take a step, ``slack += step along``, then fill in the dual point that slacks imply.

    That is ``u = (slack + rho anchor) / (D + rho)`` and ``b = clip(u)``, less what is in the kink;
    `scale`, by how much b changes with its slack: ``1 / (D + rho)`` where b is between its bounds
    and not in the kink, elsewhere 0; and ``signed = y b``, of which its weights are made up.
    Returns the sum of the losses, and that of their excess over what b proves.
    """
    kink = loss.kink
    losses = 0.0
    excess = 0.0
    for t in range(slack.shape[0]):
        lower, upper, diag = box(loss, cost[t])
        if step != 0.0:
            slack[t] += step * along[t]
        s = slack[t]
        u[t] = (s + rho * anchor[t]) / (diag + rho)
        free = beyond(u[t], kink / (diag + rho))
        b[t] = min(max(free, lower), upper)
        moves = lower < free < upper and (kink == 0.0 or free != 0.0)
        scale[t] = 1.0 / (diag + rho) if moves else 0.0
        signed[t] = b[t] * y[t]
        losses += row_loss(s, lower, upper, diag, kink)
        excess += gap_share(b[t], s, lower, upper, diag, kink)
    return losses, excess


@jit
def implied_weights(
    rows: Rows,
    members: Any,
    w: Any,
    slack: Any,
    along: Any,
    step: float,
    anchor: Any,
    y: Any,
    cost: Any,
    loss: Loss,
    rho: float,
    u: Any,
    b: Any,
    scale: Any,
    signed: Any,
) -> tuple[float, float]:
    """Do what `implied_dual` does, and add the weights of b to w."""
    sums = implied_dual(slack, along, step, anchor, y, cost, loss, rho, u, b, scale, signed)
    add_rows(rows, members, signed, w)
    return sums


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


@jit
def aim(
    scores: Any, y: Any, u: Any, cost: Any, loss: Loss, rho: float, t: float, q: Any
) -> tuple[float, float]:
    """Fill in ``q = -y scores``, by how much slacks change in a whole step; return `slope`."""
    for i in range(q.shape[0]):
        q[i] = -y[i] * scores[i]
    return slope(u, q, cost, loss, rho, t)


@jit
def respond_and_aim(
    rows: Rows,
    members: Any,
    p: Any,
    y: Any,
    u: Any,
    cost: Any,
    loss: Loss,
    rho: float,
    t: float,
    q: Any,
) -> tuple[float, float]:
    """Do what `aim` does, from the direction p."""
    for i in range(q.shape[0]):
        q[i] = -y[i] * row_dot(rows, members[i], p)
    return slope(u, q, cost, loss, rho, t)


@jit
def find_changed(scale: Any, summed: Any, first: int, came: Any, went: Any) -> tuple[int, int]:
    """Fill in which rows have become free, counted from `first`, and which are no more.

    Returns how many these are. `summed` are those that were, and becomes those that are.
    """
    n_came, n_went = 0, 0
    for t in range(scale.shape[0]):
        free = scale[t] != 0.0
        if free and not summed[t]:
            came[n_came] = first + t
            n_came += 1
        elif summed[t] and not free:
            went[n_went] = first + t
            n_went += 1
        summed[t] = free
    return n_came, n_went

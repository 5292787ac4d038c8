"""Passes over the rows that a Newton step needs."""

from __future__ import annotations

from typing import Any

from .._jit import jit
from ..losses import Loss
from ..rows import Rows, row_axpy, row_dot, row_outer
from .binary import gap_share, maximiser

__all__ = ["add_rows", "gram", "hessian_product", "implied_dual", "margins", "slope"]


@jit
def implied_dual(
    slack: Any, anchor: Any, cost: Any, loss: Loss, rho: float, u: Any, b: Any
) -> tuple[float, float]:
    """Fill ``u = (slack + rho anchor) / (D + rho)`` and ``b = clip(u)``.

    Returns the sum of the losses, and that of their excess over what b proves.
    """
    losses = 0.0
    excess = 0.0
    for t in range(slack.shape[0]):
        upper = cost[t] * loss.upper
        diag = loss.diag / cost[t]
        s = slack[t]
        u[t] = (s + rho * anchor[t]) / (diag + rho)
        b[t] = min(max(u[t], loss.lower), upper)
        best = maximiser(s, loss.lower, upper, diag)
        losses += best * s - 0.5 * diag * best * best
        excess += gap_share(b[t], s, loss.lower, upper, diag)
    return losses, excess


@jit
def slope(u: Any, q: Any, cost: Any, loss: Loss, rho: float, t: float) -> tuple[float, float]:
    """Return ``sum_i clip(u_i + t q_i / (D_i + rho)) q_i`` and its derivative in t."""
    total = 0.0
    curvature = 0.0
    for i in range(u.shape[0]):
        upper = cost[i] * loss.upper
        scaled = q[i] / (loss.diag / cost[i] + rho)
        v = u[i] + t * scaled
        total += min(max(v, loss.lower), upper) * q[i]
        if loss.lower < v < upper:
            curvature += scaled * q[i]
    return total, curvature


@jit
def margins(rows: Rows, y: Any, members: Any, v: Any, out: Any) -> None:
    """Fill ``out[t] = y_i v.x_i``, i the t-th of `members`."""
    for t in range(members.shape[0]):
        i = members[t]
        out[t] = y[i] * row_dot(rows, i, v)


@jit
def add_rows(rows: Rows, y: Any, members: Any, b: Any, w: Any) -> None:
    """Add ``sum_t b[t] y_i x_i`` to w, i the t-th of `members`."""
    for t in range(members.shape[0]):
        if b[t] != 0.0:
            i = members[t]
            row_axpy(rows, i, b[t] * y[i], w)


@jit
def gram(rows: Rows, members: Any, scale: Any, out: Any) -> None:
    """Add half of ``sum_t scale[t] x_i x_i'`` to `out`: the sum is ``out + out'``."""
    for t in range(members.shape[0]):
        row_outer(rows, members[t], scale[t], out)


@jit
def hessian_product(rows: Rows, members: Any, scale: Any, v: Any, out: Any) -> None:
    """Add ``sum_t scale[t] (x_i.v) x_i`` to `out`."""
    for t in range(members.shape[0]):
        i = members[t]
        row_axpy(rows, i, scale[t] * row_dot(rows, i, v), out)

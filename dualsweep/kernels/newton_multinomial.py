"""What a Newton step of multinomial logistic regression computes from the scores of its rows.

Tables have a row per member and a column per class. A slack is the difference t of a score to that
of the own class, which has 0. The dual variables b of a row are C_i times its probabilities, the
own class included. The loss is smooth: there is no anchor, and the penalty rho is 0.

Where scores change by z, those of a row change by ``b * z - b (b.z) / C_i``.
"""

from __future__ import annotations

from typing import NamedTuple

from .._jit import implements, jit
from .._typing import Array
from ..rows.functions import row_prefetch
from ..rows.layouts import Rows
from ..rows.many_classes import row_add_few, row_scores_few
from .binary import ROW_AHEAD
from .multinomial import softmax
from .newton_multiclass import add_products, some_rows


class SoftSlacks(NamedTuple):
    """The slacks of some rows, and what belongs to them."""

    y: Array
    cost: Array
    slack: Array
    along: Array  # how slacks change in a whole step
    b: Array


class SoftRows(NamedTuple):
    """Rows and those of their dual variables that curve the objective most; see `keep_large`."""

    members: Array
    b: Array  # 0 of classes that are left out
    total: Array  # the sum of each row


@jit
def implied_dual_multinomial(rows: SoftSlacks, step: float, signed: Array) -> tuple[float, float]:
    """Take a step, ``slack += step along``, then fill in b.

    Fills `signed` with the coefficients of the rows in the weights of each class. Returns the sums
    of losses and of what b fails to prove, which is 0.
    """
    y, cost, slack, along, b = rows
    losses = 0.0
    for r in range(slack.shape[0]):
        if step != 0.0:
            for m in range(slack.shape[1]):
                slack[r, m] += step * along[r, m]
        losses += cost[r] * softmax(slack[r], y[r], b[r])
        total = 0.0
        for m in range(slack.shape[1]):
            b[r, m] *= cost[r]
            signed[r, m] = -b[r, m]
            total += b[r, m] if m != y[r] else 0.0
        signed[r, y[r]] = total
    return losses, 0.0


@jit
def slope_multinomial(rows: SoftSlacks, t: float, v: Array, q: Array) -> tuple[float, float]:
    """Return ``sum_i b_i.z_i`` where slacks have changed by t z, and its derivative in t.

    z is `along`, 0 for the own class. `v` and `q` are scratch for a number per class.
    """
    total, curvature = 0.0, 0.0
    for r in range(rows.slack.shape[0]):
        z = rows.along[r]
        for m in range(z.shape[0]):
            v[m] = rows.slack[r, m] + t * z[m]
        softmax(v, rows.y[r], q)
        mean, square = 0.0, 0.0
        for m in range(z.shape[0]):
            mean += q[m] * z[m]
            square += q[m] * z[m] * z[m]
        total += rows.cost[r] * mean
        curvature += rows.cost[r] * max(square - mean * mean, 0.0)
    return total, curvature


@jit
def curvatures(b: Array, cost: Array, sqnorm: Array, out: Array) -> None:
    """Fill in how much each dual variable adds to the trace of the Hessian."""
    for r in range(b.shape[0]):
        for m in range(b.shape[1]):
            out[r, m] = b[r, m] * (1.0 - b[r, m] / cost[r]) * sqnorm[r]


@jit
def keep_large(b: Array, cost: Array, sqnorm: Array, least: float, out: Array) -> None:
    """Copy the dual variables that add at least so much to the trace of the Hessian, or 0.

    A row needs two of them: with n of these and their sum B, its part of the Hessian is made of
    ``diag(b) - b b' / B`` instead of ``diag(b) - b b' / C_i``.
    """
    for r in range(b.shape[0]):
        n = 0
        for m in range(b.shape[1]):
            kept = b[r, m] * (1.0 - b[r, m] / cost[r]) * sqnorm[r] >= least
            out[r, m] = b[r, m] if kept else 0.0
            n += 1 if kept else 0
        if n < 2:
            out[r] = 0.0


@implements(some_rows, SoftRows)
def _some_rows(curved: SoftRows, some: slice) -> SoftRows:
    members, b, total = curved
    return SoftRows(members[some], b[some], total[some])


@implements(add_products, SoftRows)
def _add_products(
    curved: SoftRows,
    rows: Rows,
    rho: float,
    V: Array,
    out: Array,
    classes: Array,
    scratch: Array,
) -> None:
    members, b, total = curved
    z, more = scratch[0], scratch[1]
    for r in range(members.shape[0]):
        if r + ROW_AHEAD < members.shape[0]:
            row_prefetch(rows, members[r + ROW_AHEAD])
        n = 0
        for m in range(b.shape[1]):
            if b[r, m] > 0.0:
                classes[n] = m
                n += 1
        row_scores_few(rows, members[r], V, classes, n, z)
        mean = 0.0
        for c in range(n):
            mean += b[r, classes[c]] * z[c]
        mean /= total[r]
        for c in range(n):
            z[c] = b[r, classes[c]] * (z[c] - mean)
        row_add_few(rows, members[r], classes, z, n, out, more)

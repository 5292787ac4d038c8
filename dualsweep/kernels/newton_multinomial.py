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
from ..rows.many_classes import row_add_few, row_scores
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
    """Rows whose dual variables all move with their scores; as in `SoftSlacks`."""

    members: Array
    cost: Array
    b: Array


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


@implements(some_rows, SoftRows)
def _some_rows(curved: SoftRows, some: slice) -> SoftRows:
    members, cost, b = curved
    return SoftRows(members[some], cost[some], b[some])


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
    members, cost, b = curved
    z, more = scratch[0], scratch[1]
    k = z.shape[0]
    for m in range(k):
        classes[m] = m
    for r in range(members.shape[0]):
        if r + ROW_AHEAD < members.shape[0]:
            row_prefetch(rows, members[r + ROW_AHEAD])
        row_scores(rows, members[r], V, z)
        mean = 0.0
        for m in range(k):
            mean += b[r, m] * z[m]
        mean /= cost[r]
        for m in range(k):
            z[m] = b[r, m] * (z[m] - mean)
        row_add_few(rows, members[r], classes, z, k, out, more)

"""What a Newton step of a binary problem computes from the slacks of its rows.

With many threads its passes take a millisecond or less, so they are phases of one kernel that all
threads stay in: see `dualsweep._team`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .._jit import generic, implements, jit
from .._team import is_last_part, next_part
from ..rows.functions import is_csr, row_axpy, row_dot, row_outer
from ..rows.layouts import Rows
from .loss import Loss, beyond, box, gap_share, row_loss

# Phases, by kind: the first are in parts of all rows, the last in parts of those that were picked.
MEASURE, AIM, SLOPE, CHANGED, GRAM = 0, 1, 2, 3, 4

# Places of the numbers that the threads have in common.
RHO, STEP, T, SWAPPED = 0, 1, 2, 3


class Table(NamedTuple):
    """What the rows of a binary problem have, and what their parts add up."""

    rows: Rows
    members: Any
    y: Any
    cost: Any
    loss: Loss
    slack: Any
    along: Any  # by how much slacks change in a whole step
    u: Any
    b: Any  # the dual point and its anchor, or the other way round if they are swapped
    anchor: Any
    scale: Any  # by how much the dual point changes with its slack
    summed: Any  # which rows are in the Gram matrix
    picked: Any  # rows to be added to it, or -1 - t where row t is to be taken out
    span: Any  # which of these
    numbers: Any
    direction: Any
    weights: Any  # what parts add up: the weights of the dual point, and room after them,
    sums: Any  # two numbers,
    found: Any  # how many rows they picked,
    halves: Any  # half of a Gram matrix


@jit
def newton_parts(table: Table, team: Any, looks: int) -> int:
    """Do parts of phases with other threads, until so many looks for another were in vain.

    MEASURE is `implied_weights`, AIM `respond_and_aim`, SLOPE `slope`, CHANGED `find_changed`; GRAM
    adds the picked rows up.
    """
    numbers = table.numbers
    n = table.slack.shape[0]
    while True:
        kind, part, count = next_part(team, looks)
        if kind < 0:
            return kind
        start, stop = n * part // count, n * (part + 1) // count
        rho = numbers[RHO]
        if kind == MEASURE:
            b, anchor = table.b, table.anchor
            if numbers[SWAPPED] != 0.0:
                b, anchor = anchor, b
            w = table.weights[part, : table.direction.shape[0]]
            w[:] = 0.0
            table.sums[part, 0], table.sums[part, 1] = implied_weights(
                table.rows,
                table.members[start:stop],
                w,
                table.slack[start:stop],
                table.along[start:stop],
                numbers[STEP],
                anchor[start:stop],
                table.y[start:stop],
                table.cost[start:stop],
                table.loss,
                rho,
                table.u[start:stop],
                b[start:stop],
                table.scale[start:stop],
            )
        elif kind == AIM:
            table.sums[part, 0], table.sums[part, 1] = respond_and_aim(
                table.rows,
                table.members[start:stop],
                table.direction,
                table.y[start:stop],
                table.u[start:stop],
                table.cost[start:stop],
                table.loss,
                rho,
                numbers[T],
                table.along[start:stop],
            )
        elif kind == SLOPE:
            table.sums[part, 0], table.sums[part, 1] = slope(
                table.u[start:stop],
                table.along[start:stop],
                table.cost[start:stop],
                table.loss,
                rho,
                numbers[T],
            )
        elif kind == CHANGED:
            table.found[part] = find_changed(
                table.scale[start:stop], table.summed[start:stop], start, table.picked[start:stop]
            )
        else:
            _add_picked(table.rows, table, part, count)
        is_last_part(team, count)


@generic
def _add_picked(rows: Rows, table: Table, part: int, count: int) -> Any:
    """Add a part of the picked rows to half of a Gram matrix, or take them out."""


@implements(_add_picked)
def _add_picked_rows(rows: Any, table: Any, part: Any, count: Any) -> Any:
    def add_csr(rows, table, part, count):  # type: ignore[no-untyped-def]
        first, n = table.span[0], table.span[1] - table.span[0]
        half = table.halves[part]
        if first == 0:
            half[:, :] = 0.0
        for place in range(first + n * part // count, first + n * (part + 1) // count):
            t, scale = table.picked[place], 1.0
            if t < 0:
                t, scale = -1 - t, -1.0
            if table.loss.diag > 0.0:
                _, _, diag = box(table.loss, table.cost[t])
                scale /= diag
            row_outer(rows, table.members[t], scale, half)

    def leave_dense(rows, table, part, count):  # type: ignore[no-untyped-def]
        pass  # they are matrix products

    return add_csr if is_csr(rows) else leave_dense


@jit
def implied_dual(
    slack: Any,
    along: Any,
    step: float,
    anchor: Any,
    cost: Any,
    loss: Loss,
    rho: float,
    u: Any,
    b: Any,
    scale: Any,
) -> tuple[float, float]:
    """Take a step, ``slack += step along``, then fill in the dual point that slacks imply.

    That is ``u = (slack + rho anchor) / (D + rho)`` and ``b = clip(u)``, less what is in the kink;
    and `scale`, by how much b changes with its slack: ``1 / (D + rho)`` where b is between its
    bounds and not in the kink, elsewhere 0. Returns the sum of the losses, and that of their excess
    over what b proves.
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
) -> tuple[float, float]:
    """Do what `implied_dual` does, and add the weights of b to w."""
    sums = implied_dual(slack, along, step, anchor, cost, loss, rho, u, b, scale)
    for t in range(members.shape[0]):
        if b[t] != 0.0:
            row_axpy(rows, members[t], b[t] * y[t], w)
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
def find_changed(scale: Any, summed: Any, first: int, picked: Any) -> int:
    """Fill in which rows have become free, and which are no more: t or -1 - t, t from `first` on.

    Returns how many these are. `summed` are those that were, and becomes those that are.
    """
    n = 0
    for t in range(scale.shape[0]):
        free = scale[t] != 0.0
        if free != summed[t]:
            picked[n] = first + t if free else -1 - (first + t)
            n += 1
        summed[t] = free
    return n

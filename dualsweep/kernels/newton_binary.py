"""What a Newton step of a binary problem computes from the slacks of its rows.

With many threads its passes take a millisecond or less, so they are phases of one kernel that all
threads stay in; see `dualsweep._team`.
"""

from __future__ import annotations

from typing import NamedTuple

from .._jit import generic, implements, jit, jit_sums
from .._team import finish_part, next_part
from .._typing import Array
from ..losses.protocol import Loss, dual_bounds, gap_share, proximal_dual, row_loss
from ..rows.functions import row_axpy, row_dot, row_outer
from ..rows.layouts import CSRRows, DenseRows, Rows

# The phases: all but the last are in parts of all rows, that in parts of the picked rows.
MEASURE, IMPLY, AIM, SLOPE, CHANGED, GRAM = range(6)

# Places in `Phases.numbers`: the penalty, how far to go along, and whether b becomes the anchor, or
# whether the whole Gram matrix is to be added up.
RHO, STEP, SETTLED_OR_WHOLE = range(3)


class Phases(NamedTuple):
    """What the phases of a binary problem read and write."""

    rows: Rows
    members: Array
    y: Array
    cost: Array
    loss: Loss
    slack: Array
    along: Array  # how slacks change in a whole step
    anchor: Array
    b: Array  # the dual point that slacks and anchor imply
    scale: Array  # the derivative of b in the slack: 0 for rows that are not free
    ahead: Array  # what the direction promised of b; without entries if nobody wants it
    weight: Array  # the weight of each row in the Gram matrix as it is
    picked: Array  # rows whose weight has changed
    change: Array  # per row: by how much, if it was picked
    span: Array  # the range of `picked` to add
    numbers: Array
    direction: Array
    weights: Array  # per part: the weights of its b, padded
    sums: Array  # per part: four sums
    found: Array  # per part: how many rows it picked, and how many have a weight
    halves: Array  # per part: half of a Gram matrix


@jit
def newton_phases(data: Phases, team: Array, polls: int) -> int:
    """Do parts of phases with other threads; return after `polls` polls that find no part.

    IMPLY is `imply_dual`, MEASURE that and the weights of b, AIM the responses to the direction
    and then `slope`, CHANGED `find_changed`; GRAM adds up the picked rows.
    """
    n = data.slack.shape[0]
    while True:
        phase, part, count = next_part(team, polls)
        if phase < 0:
            return phase
        rho, step = data.numbers[RHO], data.numbers[STEP]
        rows = slice(n * part // count, n * (part + 1) // count)
        slack, along, anchor = data.slack[rows], data.along[rows], data.anchor[rows]
        members, y, cost, b = data.members[rows], data.y[rows], data.cost[rows], data.b[rows]
        if phase in (MEASURE, IMPLY):
            settled = data.numbers[SETTLED_OR_WHOLE] != 0.0
            state = slack, along, step, anchor, settled, cost, data.loss, rho, b
            losses, excess, beyond, cut = imply_dual(*state, data.scale[rows], data.ahead[rows])
            data.sums[part, 0], data.sums[part, 1] = losses, excess
            data.sums[part, 2], data.sums[part, 3] = beyond, cut
            if phase == MEASURE:
                w = data.weights[part, : data.direction.shape[0]]
                w[:] = 0.0
                for i in range(members.shape[0]):
                    if b[i] != 0.0:
                        row_axpy(data.rows, members[i], b[i] * y[i], w)
        elif phase in (AIM, SLOPE):
            if phase == AIM:
                for i in range(members.shape[0]):
                    along[i] = -y[i] * row_dot(data.rows, members[i], data.direction)
            data.sums[part, 0], data.sums[part, 1] = slope(
                slack, along, anchor, cost, data.loss, rho, step
            )
        elif phase == CHANGED:
            data.found[part, 0], data.found[part, 1] = find_changed(
                data.scale[rows],
                rho > 0.0,
                data.numbers[SETTLED_OR_WHOLE] != 0.0,
                data.weight[rows],
                n * part // count,
                data.picked[rows],
                data.change[rows],
            )
        else:
            _add_picked(data.rows, data, part, count)
        finish_part(team)


@generic
def _add_picked(rows: Rows, data: Phases, part: int, count: int) -> None:
    """Add a part of the picked rows to half of a Gram matrix."""


@implements(_add_picked, CSRRows)
def _add_picked_csr(rows: CSRRows, data: Phases, part: int, count: int) -> None:
    first, n = data.span[0], data.span[1] - data.span[0]
    half = data.halves[part]
    if first == 0:
        half[:, :] = 0.0
    for place in range(first + n * part // count, first + n * (part + 1) // count):
        i = data.picked[place]
        row_outer(rows, data.members[i], data.change[i], half)


@implements(_add_picked, DenseRows)
def _leave_dense(rows: DenseRows, data: Phases, part: int, count: int) -> None:
    pass  # they are matrix products


@jit_sums
def imply_dual(
    slack: Array,
    along: Array,
    step: float,
    anchor: Array,
    settled: bool,
    cost: Array,
    loss: Loss,
    rho: float,
    b: Array,
    scale: Array,
    ahead: Array,
) -> tuple[float, float, float, float]:
    """Take a step, ``slack += step along``, then fill in the dual point that slacks imply.

    That is b (`proximal_dual`), and `scale`, its derivative in the slack. If the inner problem is
    `settled`, the old b becomes the anchor first. Unless it has no entries, `ahead` becomes what
    the old b and its derivative promise of a whole step, within its bounds. Returns the losses,
    their excess over what b proves, that of a whole step over `ahead`, and what bounds have cut off
    from that, summed over the rows.
    """
    losses, excess, beyond, cut = 0.0, 0.0, 0.0, 0.0
    looks = ahead.shape[0] > 0
    for t in range(slack.shape[0]):
        if settled:
            anchor[t] = b[t]
        if step != 0.0:
            if looks:
                lower, upper = dual_bounds(loss, cost[t])
                promised = b[t] + scale[t] * along[t]
                ahead[t] = min(max(promised, lower), upper)
                cut += abs(promised - ahead[t])
                beyond += gap_share(loss, cost[t], ahead[t], slack[t] + along[t])
            slack[t] += step * along[t]
        b[t], scale[t] = proximal_dual(loss, cost[t], slack[t] + rho * anchor[t], rho)
        losses += row_loss(loss, cost[t], slack[t])
        excess += gap_share(loss, cost[t], b[t], slack[t])
    return losses, excess, beyond, cut


@jit_sums
def slope(
    slack: Array, along: Array, anchor: Array, cost: Array, loss: Loss, rho: float, t: float
) -> tuple[float, float]:
    """Return ``sum_i b_i q_i`` at ``slack + t q``, and its derivative in t; q is `along`."""
    total, curvature = 0.0, 0.0
    for i in range(slack.shape[0]):
        q = along[i]
        b, scale = proximal_dual(loss, cost[i], (slack[i] + t * q) + rho * anchor[i], rho)
        total += b * q
        curvature += scale * q * q
    return total, curvature


@jit
def find_changed(
    scale: Array, common: bool, whole: bool, weight: Array, first: int, picked: Array, change: Array
) -> tuple[int, int]:
    """Fill in the rows whose weight in the Gram matrix changes, and by how much.

    The weight of a free row is its `scale`, or 1 if all have a `common` one, by which the matrix is
    multiplied. Weights change from those in `weight`, or from 0 if the `whole` matrix is added up.
    Rows are counted from `first`. Returns their number, and that of the rows with a weight.
    """
    n, weighted = 0, 0
    for t in range(scale.shape[0]):
        now = scale[t]
        if common and now != 0.0:
            now = 1.0
        weighted += now != 0.0
        before = 0.0 if whole else weight[t]
        weight[t] = now
        if now != before:
            picked[n] = first + t
            change[t] = now - before
            n += 1
    return n, weighted

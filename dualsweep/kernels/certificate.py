"""The sums of a certificate over the rows, and what they prove.

All results are bounds on the exact P(w) and D(alpha) of the floats w and alpha, for all data. With
``w(alpha) = sum_i a_i y_i x_i`` summed exactly,

    P(w) - D(alpha) = sum_i share_i + 1/2 |w - w(alpha)|^2

where share_i is what row i loses beyond its lower bound; see `dualsweep.losses`. Shares are not
negative: a gap that is a tiny difference of large objectives keeps its relative precision. Three
things are rounded, and each has its allowance:

- A slack. With the intercept b, a sum of n products is off by at most ``n EPS (|x_i| |w| + |b|)``
  in any order (`row_rounding`). A share is convex in the slack: it is at most the larger of those
  at both ends.
- The weights. A sum of n rows is off by at most ``n EPS sum_i |a_i| |x_i|``.
- The arithmetic of a share or a loss. The error of the slack is widened by a few EPS of the slack,
  which changes the share by more.

If rows are long or many, the first two can be too wide to prove a tolerance. Then sums are
compensated (`dualsweep.rows.compensated`), and n EPS becomes (n EPS)^2.
"""

from __future__ import annotations

from math import fsum, inf, sqrt
from typing import NamedTuple

import numpy as np

from .._jit import jit, jit_inline
from .._typing import Array
from ..losses.protocol import Loss, certified_share, is_settled, row_loss
from ..rows.compensated import two_sum
from ..rows.functions import EPS, SMALLEST, row_count, row_rounding, row_slack
from ..rows.layouts import AnyRows
from .binary import BinaryData, target_of

# The totals: losses at most, and by how much they may be less; shares of the gap at most, and as
# computed; the lengths of what weights are summed from, and their error besides the rounding of
# that sum; how many calls of kernels added to the totals.
LOSSES, SPREAD, SHARES, SEEN, LENGTHS, DRIFT, CALLS = range(7)
N_TOTALS = 7

# Errors of an objective in EPS, besides those of rows: products, sums, the square of w. Sums are
# compensated; over n rows, an error below ``(n EPS)^2`` is left.
OF_OBJECTIVE = 8

# Error by underflow: of an objective or a gap of any number of rows, and of one square.
UNDERFLOW, DENORMAL = 1e-300, 5e-324


# Up to this many weights Python sums the squares: no kernel has to be compiled or loaded.
FEW_WEIGHTS = 128


class Certified(NamedTuple):
    """What is proven of weights and a dual point."""

    primal: float  # P(w) at most
    dual: float  # D(alpha) at least
    gap: float  # P(w) - D(alpha) at most
    relative_gap: float  # the same relative to P(w), at most
    seen: float  # the relative gap as computed, without allowances: not proven


@jit
def certify_rows(
    data: BinaryData,
    members: Array,
    w: Array,
    alpha: Array,
    length: float,
    level: float,
    slack: Array,
    totals: Array,
) -> None:
    """Add to the totals of a binary problem, and fill in the slacks ``t_i - y_i w.x_i`` of members.

    `length` is an upper bound on the length of w without the intercept, `level` on the intercept.
    """
    rows, y, cost = data.rows, data.y, data.cost
    losses, low, spread, shares, seen, lengths = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(members.shape[0]):
        i = members[t]
        goal, a = target_of(data.target, i), alpha[i]
        s = row_slack(rows, i, w, goal, y[i])
        slack[t] = s
        norm = row_norm(rows, i, data.sqnorm)
        error = row_rounding(rows, i, goal, length * norm + level) + EPS * abs(s)
        lost, wobble, share, most = certified_share(data.loss, cost[i], a, s, error)
        losses, rest = two_sum(losses, lost + wobble)
        low += rest
        spread += wobble
        seen += share
        shares += most
        lengths += abs(a) * norm
    add_totals((losses + low, spread, shares, seen, lengths, 0.0, 1.0), totals)


@jit_inline
def add_totals(found: tuple[float, ...], totals: Array) -> None:
    """Add what a call found to the totals, in their order."""
    for place in range(N_TOTALS):
        totals[place] += found[place]


@jit
def settle_rows(
    data: BinaryData, members: Array, alpha: Array, slack: Array, radius: float, out: Array
) -> None:
    """Fill in which of the members have their optimal dual variable.

    The optimum is at most `radius` from w, so slacks differ by at most ``radius |x_i|``.
    """
    for t in range(members.shape[0]):
        i = members[t]
        reach = radius * np.sqrt(data.sqnorm[i])
        out[t] = is_settled(data.loss, data.cost[i], alpha[i], slack[t], reach)


def certified(
    size: float, totals: Array, n: int, *, compensated: bool = False, distance: float = 0.0
) -> Certified:
    """Return what the totals of n rows prove; `size` is the squared length of penalised weights.

    `distance` is that of w from the weights of alpha as they were summed. `compensated` sums are
    rounded once per call, not once per row.
    """
    losses, spread, shares, seen, lengths, drift, calls = totals.tolist()
    primal = 0.5 * size + losses
    blur = (2.0 * calls + OF_OBJECTIVE + n * (n * EPS)) * EPS * primal
    blur += UNDERFLOW if primal > 0.0 else 0.0
    most = primal + blur
    least = primal - blur - 2.0 * (1.0 + n * EPS) * spread
    # Losses are not negative. `size` exceeds the square of w by no more than `primal` may be off.
    least = max(least, (0.5 - (2.0 * calls + OF_OBJECTIVE) * EPS) * size)
    terms = calls + 2.0 + n * (n * EPS) if compensated else n
    away = distance + drift + (1.0 + n * EPS) * terms * EPS * lengths
    gap = (1.0 + (n + 16) * EPS) * (shares + 0.5 * away * away)
    gap += UNDERFLOW if primal > 0.0 else 0.0
    return Certified(most, least - gap, gap, relative(gap, least), relative(seen, primal))


def relative(gap: float, primal: float) -> float:
    """Return the gap relative to the primal: 0 without a gap, else infinity without a primal."""
    if gap <= 0.0:
        return 0.0
    return gap / primal if primal > 0.0 else np.inf


def squared_length(w: Array) -> float:
    """Return ``w.w``, rounded up by at most 6 EPS + (n EPS)^2; it is 0 only if all of w is."""
    if len(w) > FEW_WEIGHTS:
        return long_square(w)
    values = w.tolist()
    try:
        total = fsum([value * value for value in values])
    except OverflowError:
        return inf
    return (1.0 + 3.0 * EPS) * total + len(w) * DENORMAL if any(values) else 0.0


@jit
def long_square(w: Array) -> float:
    """Return `squared_length`, of any number of weights."""
    total, low = 0.0, 0.0
    d = w.shape[0]
    whole = d - d % 8
    for j in range(0, whole, 8):  # compensating every eighth sum takes a third of the time
        left = (_square(w[j]) + _square(w[j + 1])) + (_square(w[j + 2]) + _square(w[j + 3]))
        right = (_square(w[j + 4]) + _square(w[j + 5])) + (_square(w[j + 6]) + _square(w[j + 7]))
        total, lost = two_sum(total, left + right)
        low += lost
    for j in range(whole, d):
        total, lost = two_sum(total, _square(w[j]))
        low += lost
    total, n = total + low, np.float64(d)
    used = total != 0.0
    if not used:  # squares may have underflowed
        for j in range(d):
            used |= w[j] != 0.0
    return (1.0 + 3.0 * EPS + (n * EPS) ** 2) * total + n * DENORMAL if used else 0.0


@jit
def sum_losses(slack: Array, cost: Array, loss: Loss) -> float:
    """Return the sum of the losses of rows; 0 only if nothing is lost."""
    total = 0.0
    for t in range(slack.shape[0]):
        total += row_loss(loss, cost[t], slack[t])
    return total


def feature_length(w: Array) -> float:
    """Return the length of weights without the intercepts, or slightly more."""
    return sqrt(squared_length(w[:-1].ravel("K")))


@jit_inline
def _square(value: float) -> float:
    return np.float64(value) * np.float64(value)


@jit_inline
def row_norm(rows: AnyRows, i: int, sqnorm: Array) -> float:
    """Return the length of a row, with what its squared norm may have lost by underflow."""
    return np.sqrt(sqnorm[i] + row_count(rows, i) * SMALLEST)

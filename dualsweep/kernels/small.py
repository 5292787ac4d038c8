"""Newton steps of a small binary problem, many in one call.

These are the steps of `dualsweep.newton.core`, for problems where the Python between the steps
takes longer than the steps. One thread does all of a step, and the Hessian is factorised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._jit import jit, jit_sums
from .._typing import Array
from ..rows.functions import row_axpy, row_dot, rows_outer
from .binary import BinaryData, target_of
from .certificate import LOSSES, SHARES, certify_rows, squared_length
from .newton_binary import find_changed, imply_dual, slope

if TYPE_CHECKING:
    from ..newton.tuning import Tuning

# How a call ends: after as many steps as were asked for, without a step that helps, or with a dual
# point that proves the tolerance but for the allowances of a certificate.
GOING, STUCK, CLOSE = range(3)

# Places in `SmallNewton.state`: the penalty, the step that slacks have not taken yet, and the gap
# at the last attempt at a certificate.
RHO, STEP, TRIED = range(3)


class SmallNewton(NamedTuple):
    """A problem, and the state of its iterate between calls."""

    data: BinaryData
    bias: float
    members: Array
    tol: float
    tuning: Tuning
    y: Array  # of the members, as all arrays up to `picked`
    cost: Array
    slack: Array
    along: Array  # how slacks change in a whole step
    anchor: Array
    b: Array  # the dual point that slacks and anchor imply
    scale: Array  # the derivative of b in the slack: 0 for rows that are not free
    weight: Array  # the weight of each row in the Gram matrix as it is
    change: Array  # of these weights, first of each row, then of those picked
    picked: Array  # rows whose weight has changed
    w: Array
    direction: Array
    gradient: Array
    gram: Array  # half of it: the whole is ``gram + gram'``
    factor: Array
    state: Array
    gaps: Array  # relative, after each step
    # What is left at the end; the last two only if b is close.
    alpha: Array  # b, of all rows; before, their dual variables at the start
    weights: Array  # of b
    slacks: Array  # at these weights
    totals: Array  # of their certificate


@jit
def newton_small(work: SmallNewton, begin: bool, n_steps: int) -> tuple[int, int]:
    """Take up to `n_steps` steps; return how the call ends, and the number of steps.

    The first call is to `begin`, at `w`, with `alpha` as the anchor and a penalty in `state`.
    """
    tuning, state, tol = work.tuning, work.state, work.tol
    if begin:
        _begin(work)
    ends = GOING
    for taken in range(n_steps + 1):
        primal, inner_gap, excess = _measure(work, False)
        gap = inner_gap + max(excess, 0.0)
        if gap <= tuning.try_at * tol * primal and inner_gap < tuning.retry * state[TRIED]:
            state[TRIED] = inner_gap
            if _is_close(work):
                return CLOSE, taken
        if taken == n_steps:
            break
        at_last_anchor = gap - inner_gap <= tuning.last_anchor * tol * primal
        if state[RHO] > 0.0 and inner_gap <= tuning.inner_gap * gap and not at_last_anchor:
            state[RHO] /= tuning.rho_factor
            _measure(work, True)
        state[STEP] = _line_search(work) if _aim(work) else 0.0
        if state[STEP] == 0.0:
            ends = STUCK
            break
        for j in range(work.w.shape[0]):
            work.w[j] += state[STEP] * work.direction[j]
        work.gaps[taken] = gap / primal if gap > 0.0 else 0.0
    _fill_duals(work)
    return ends, taken


@jit
def _begin(work: SmallNewton) -> None:
    """Fill in what the members have, and the slacks of w."""
    data = work.data
    work.state[STEP], work.state[TRIED] = 0.0, np.inf
    work.gram[:, :] = 0.0
    for t in range(work.members.shape[0]):
        i = work.members[t]
        work.y[t], work.cost[t], work.anchor[t] = data.y[i], data.cost[i], work.alpha[i]
        work.along[t], work.weight[t] = 0.0, 0.0
        work.slack[t] = target_of(data.target, i) - data.y[i] * row_dot(data.rows, i, work.w)


@jit
def _measure(work: SmallNewton, settled: bool) -> tuple[float, float, float]:
    """Let slacks take the step; compute b, its weights and the gradient.

    If the inner problem was `settled`, b becomes the anchor first. Returns the objective of w, the
    gap of the inner problem, and the excess of the losses over what b proves.
    """
    b, weights, state = work.b, work.weights, work.state
    losses, excess = imply_dual(
        work.slack,
        work.along,
        state[STEP],
        work.anchor,
        settled,
        work.cost,
        work.data.loss,
        state[RHO],
        b,
        work.scale,
    )
    state[STEP] = 0.0
    weights[:] = 0.0
    for t in range(b.shape[0]):
        if b[t] != 0.0:
            row_axpy(work.data.rows, work.members[t], b[t] * work.y[t], weights)
    size, inner_gap = 0.0, 0.0
    for j in range(weights.shape[0]):
        gradient = work.w[j] - weights[j]
        work.gradient[j] = gradient
        inner_gap += 0.5 * gradient * gradient
        size += work.w[j] * work.w[j]
    return 0.5 * size + losses, inner_gap, excess


@jit
def _fill_duals(work: SmallNewton) -> None:
    for t in range(work.b.shape[0]):
        work.alpha[work.members[t]] = work.b[t]


@jit
def _is_close(work: SmallNewton) -> bool:
    """Compute the certificate of b; return whether it proves the tolerance, allowances aside."""
    data, weights, totals = work.data, work.weights, work.totals
    _fill_duals(work)
    last = weights.shape[0] - 1
    length, level = np.sqrt(squared_length(weights[:last])), abs(work.bias * weights[last])
    totals[:] = 0.0
    certify_rows(data, work.members, weights, work.alpha, length, level, work.slacks, totals)
    primal = 0.5 * squared_length(weights) + totals[LOSSES]
    return totals[SHARES] <= work.tol * primal


@jit
def _aim(work: SmallNewton) -> bool:
    """Compute ``-Hessian^-1 gradient``, and how slacks change with it; return whether it exists."""
    _update_gram(work)
    d, rho = work.w.shape[0], work.state[RHO]
    if not _factorise(work.gram, 1.0 / rho if rho > 0.0 else 1.0, work.factor):
        return False
    for j in range(d):
        work.direction[j] = -work.gradient[j]
    _solve(work.factor, work.direction)
    for t in range(work.along.shape[0]):
        dot = row_dot(work.data.rows, work.members[t], work.direction)
        work.along[t] = -work.y[t] * dot
    return True


@jit
def _update_gram(work: SmallNewton) -> None:
    """Add the rows whose weight in the Gram matrix has changed, or all if most have."""
    picked, change, members = work.picked, work.change, work.members
    common = work.state[RHO] > 0.0
    n, n_weighted = find_changed(work.scale, common, False, work.weight, 0, picked, change)
    if n > n_weighted:
        work.gram[:, :] = 0.0
        n, _ = find_changed(work.scale, common, True, work.weight, 0, picked, change)
    for k in range(n):
        t = picked[k]  # k at least: nothing is overwritten before it is read
        picked[k], change[k] = members[t], change[t]
    rows_outer(work.data.rows, picked[:n], change[:n], work.gram)


@jit
def _line_search(work: SmallNewton) -> float:
    """Return t > 0 where the slope along the direction is near 0, or 0.

    The slope increases with t and is piecewise linear.
    """
    wp, pp, first = 0.0, 0.0, 0.0
    for j in range(work.w.shape[0]):
        p = work.direction[j]
        wp += work.w[j] * p
        pp += p * p
        first += work.gradient[j] * p
    if not (pp < np.inf and first < 0.0):
        return 0.0
    rho, tuning = work.state[RHO], work.tuning
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(tuning.line_steps):
        total, curvature = slope(
            work.slack, work.along, work.anchor, work.cost, work.data.loss, rho, t
        )
        value, curvature = wp + t * pp + total, pp + curvature
        if abs(value) <= tuning.line_search * abs(first):
            return t
        if value < 0.0:
            low = t
        else:
            high = t
        middle = 0.5 * (low + high) if high < np.inf else 2.0 * low
        t = t - value / curvature if curvature > 0.0 else middle
        if not low < t < high:
            t = middle
    return low


@jit
def _factorise(half: Array, scale: float, factor: Array) -> bool:
    """Fill in the lower Cholesky factor of ``1 + scale (half + half')``, if there is one."""
    for j in range(half.shape[0]):
        for k in range(j + 1):
            entry = scale * (half[j, k] + half[k, j])
            entry -= _dot(factor[j], factor[k], k)
            if k < j:
                factor[j, k] = entry / factor[k, k]
        entry += 1.0
        if not 0.0 < entry < np.inf:
            return False
        factor[j, j] = np.sqrt(entry)
    return True


@jit
def _solve(factor: Array, x: Array) -> None:
    """Overwrite x with the solution of ``factor factor' z = x``."""
    d = x.shape[0]
    for j in range(d):
        x[j] = (x[j] - _dot(factor[j], x, j)) / factor[j, j]
    for j in range(d - 1, -1, -1):
        x[j] /= factor[j, j]
        for k in range(j):
            x[k] -= factor[j, k] * x[j]


@jit_sums
def _dot(a: Array, b: Array, n: int) -> float:
    """Return the dot product of the first n entries."""
    total = 0.0
    for j in range(n):
        total += a[j] * b[j]
    return total

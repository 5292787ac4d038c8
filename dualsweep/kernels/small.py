"""Newton steps of a small binary problem, many in one call.

These are the steps of `dualsweep.newton.core`, for problems where the Python between the steps
takes longer than the steps. One thread does all of a step, and the Hessian is factorised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import jit, jit_sums
from .._typing import Array
from ..losses.protocol import gap_share, row_loss
from ..rows.functions import row_axpy, row_dot, rows_outer
from .binary import BinaryData, target_of
from .newton_binary import find_changed, imply_dual, slope

# How a call ends: after as many steps as were asked for, without a step that helps, or where a
# certificate is to be tried.
GOING, STUCK, READY = range(3)

# Places in `SmallNewton.state`: the penalty, the step that slacks have not taken yet, and the gap
# at the last attempt at a certificate.
RHO, STEP, TRIED = range(3)
N_STATE = 3

# Places in `SmallNewton.numbers`, for each member: sign, cost, slack, how the slack changes in a
# whole step, anchor, b, the derivative of b in the slack, weight in the Gram matrix, its change.
Y, COST, SLACK, ALONG, ANCHOR, B, SCALE, WEIGHT, CHANGE = range(9)
N_NUMBERS = 9

# Places in `SmallNewton.vectors`: w, the direction, the gradient, and the weights of b.
W, DIRECTION, GRADIENT, WEIGHTS = range(4)
N_VECTORS = 4


class Limits(NamedTuple):
    """The tolerance, and what a step takes of `dualsweep.newton.tuning.Tuning`."""

    tol: float
    try_at: float
    retry: float
    last_anchor: float
    inner_gap: float
    rho_factor: float
    line_search: float
    line_steps: int


class SmallNewton(NamedTuple):
    """A problem, and the state of its iterate between calls.

    There are few arrays, since each takes time to compile and to pass.
    """

    data: BinaryData
    members: Array
    limits: Limits
    numbers: Array  # a row for each of several numbers per member
    picked: Array  # members whose weight in the Gram matrix changes
    vectors: Array
    matrices: Array  # half the Gram matrix, ``whole = half + half'``, and a factor
    state: Array
    gaps: Array  # relative, after each step of a call
    alpha: Array  # b at the end, of all rows; before, their dual variables at the start


@jit
def newton_small(work: SmallNewton, begin: bool, n_steps: int) -> tuple[int, int]:
    """Take up to `n_steps` steps; return how the call ends, and the number of steps.

    The first call is to `begin`, at weights with the dual variables `alpha`, which become the
    anchor.
    """
    data, members, limits, state = work.data, work.members, work.limits, work.state
    rows, loss, numbers, vectors = data.rows, data.loss, work.numbers, work.vectors
    y, cost, slack, along = numbers[Y], numbers[COST], numbers[SLACK], numbers[ALONG]
    anchor, b, scale, weight = numbers[ANCHOR], numbers[B], numbers[SCALE], numbers[WEIGHT]
    w, direction, gradient, weights = (
        vectors[W],
        vectors[DIRECTION],
        vectors[GRADIENT],
        vectors[WEIGHTS],
    )
    half, factor, picked, change = work.matrices[0], work.matrices[1], work.picked, numbers[CHANGE]
    n, d = members.shape[0], w.shape[0]
    if begin:
        state[STEP], state[TRIED] = 0.0, np.inf
        half[:, :] = 0.0
        for t in range(n):
            i = members[t]
            y[t], cost[t], anchor[t] = data.y[i], data.cost[i], work.alpha[i]
            along[t], weight[t] = 0.0, 0.0
            slack[t] = target_of(data.target, i) - y[t] * row_dot(rows, i, w)

    ends, taken, settled = GOING, 0, False
    while True:
        # The step of the slacks, then b, its weights, and what they prove.
        rho, step = state[RHO], state[STEP]
        state[STEP] = 0.0
        losses, excess, _, _ = imply_dual(
            slack, along, step, anchor, settled, cost, loss, rho, b, scale, b[:0]
        )
        weights[:] = 0.0
        for t in range(n):
            if b[t] != 0.0:
                row_axpy(rows, members[t], b[t] * y[t], weights)
        size, inner_gap = 0.0, 0.0
        for j in range(d):
            gradient[j] = w[j] - weights[j]
            inner_gap += 0.5 * gradient[j] * gradient[j]
            size += w[j] * w[j]
        primal, gap = 0.5 * size + losses, inner_gap + max(excess, 0.0)
        if not settled:
            enough = limits.tol * primal
            if gap <= limits.try_at * enough and inner_gap < limits.retry * state[TRIED]:
                state[TRIED] = inner_gap
                # The gap of the model that b stands for, without allowances for rounding.
                shares, losses, size = 0.0, 0.0, 0.0
                for t in range(n):
                    i = members[t]
                    s = target_of(data.target, i) - y[t] * row_dot(rows, i, weights)
                    shares += gap_share(loss, cost[t], b[t], s)
                    losses += row_loss(loss, cost[t], s)
                for j in range(d):
                    size += weights[j] * weights[j]
                if shares <= limits.tol * (0.5 * size + losses):
                    ends = READY
                    break
            if taken == n_steps:
                break
            at_last_anchor = gap - inner_gap <= limits.last_anchor * enough
            if rho > 0.0 and inner_gap <= limits.inner_gap * gap and not at_last_anchor:
                state[RHO] = rho / limits.rho_factor
                settled = True  # b becomes the anchor
                continue
        settled = False

        # direction = -Hessian^-1 gradient, by the Gram matrix of the step before.
        n_picked, n_weighted = find_changed(scale, rho > 0.0, False, weight, 0, picked, change)
        if n_picked > n_weighted:
            half[:, :] = 0.0
            weight[:] = 0.0
            n_picked, _ = find_changed(scale, rho > 0.0, False, weight, 0, picked, change)
        for k in range(n_picked):
            t = picked[k]  # k at least: nothing is overwritten before it is read
            picked[k], change[k] = members[t], change[t]
        rows_outer(rows, picked[:n_picked], change[:n_picked], half)
        wp, pp, first = 0.0, 0.0, 0.0
        for j in range(d):
            direction[j] = -gradient[j]
        if not solve(half, 1.0 / rho if rho > 0.0 else 1.0, factor, direction):
            ends = STUCK
            break
        for j in range(d):
            wp += w[j] * direction[j]
            pp += direction[j] * direction[j]
            first += gradient[j] * direction[j]
        if not (pp < np.inf and first < 0.0):
            ends = STUCK
            break

        # The slope along the direction increases with t, and is piecewise linear.
        for t in range(n):
            along[t] = -y[t] * row_dot(rows, members[t], direction)
        step, low, high = 1.0, 0.0, np.inf
        for _ in range(limits.line_steps):
            total, curvature = slope(slack, along, anchor, cost, loss, rho, step)
            value, curvature = wp + step * pp + total, pp + curvature
            if abs(value) <= limits.line_search * abs(first):
                low = step
                break
            if value < 0.0:
                low = step
            else:
                high = step
            middle = 0.5 * (low + high) if high < np.inf else 2.0 * low
            step = step - value / curvature if curvature > 0.0 else middle
            if not low < step < high:
                step = middle
        if low == 0.0:
            ends = STUCK
            break
        state[STEP] = low
        for j in range(d):
            w[j] += low * direction[j]
        work.gaps[taken] = gap / primal if gap > 0.0 else 0.0
        taken += 1
    for t in range(n):
        work.alpha[members[t]] = b[t]
    return ends, taken


@jit_sums
def solve(half: Array, scale: float, factor: Array, x: Array) -> bool:
    """Overwrite x with the solution of ``A z = x``, ``A = 1 + scale (half + half')``.

    Fills in the Cholesky factor of A. Returns whether there is one.
    """
    d = x.shape[0]
    for j in range(d):
        for k in range(j + 1):
            entry = scale * (half[j, k] + half[k, j])
            for m in range(k):
                entry -= factor[j, m] * factor[k, m]
            if k < j:
                factor[j, k] = entry / factor[k, k]
            elif 0.0 < 1.0 + entry < np.inf:
                factor[j, j] = np.sqrt(1.0 + entry)
            else:
                return False
    for j in range(d):
        total = 0.0
        for m in range(j):
            total += factor[j, m] * x[m]
        x[j] = (x[j] - total) / factor[j, j]
    for j in range(d - 1, -1, -1):
        x[j] /= factor[j, j]
        for m in range(j):
            x[m] -= factor[j, m] * x[j]
    return True

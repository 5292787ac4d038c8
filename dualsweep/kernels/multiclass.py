"""One sweep of sequential dual descent for Crammer-Singer and Weston-Watkins, and its certificate.

With scores ``s = W'x_i`` and violations ``t_m = 1 - s_y + s_m`` of the classes m != y = y_i, a row
with cost C_i loses

    Crammer-Singer   C_i max(0, max_m t_m)        dual  beta_i >= 0,  sum_m beta_im <= C_i
    Weston-Watkins   C_i sum_m max(0, t_m)        dual  0 <= beta_im <= C_i

In both cases row i adds ``-beta_im x_i`` to w_m and ``(sum_m beta_im) x_i`` to w_y, and the dual
objective is ``sum beta - 1/2 |W|^2``. W is stored (features and bias, classes): the loop over
classes is the inner one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import jit, jit_inline, jit_sums, prefetch
from .._typing import Array
from ..rows.compensated import two_sum
from ..rows.functions import EPS, row_prefetch, row_prefetch_head, row_rounding
from ..rows.layouts import AnyRows
from ..rows.many_classes import row_add_few, row_scores, row_scores_few
from .binary import HEAD_AHEAD, ROW_AHEAD, TINY, total
from .block_steps import block_step
from .certificate import add_totals, row_norm
from .duals import (
    Duals,
    Picked,
    inner_duals,
    load_duals,
    movable_duals,
    prefetch_duals,
    store_duals,
)

SQRT_2 = float(np.sqrt(2.0))

# Errors in EPS, beside those of scores: of ``1 - s_y + s_m``, relative to ``1 + |s_y| + |s_m|``;
# and of products and sums over classes, beside one for each class.
OF_VIOLATION, OF_SUMS = 4.0, 8.0


class MulticlassData(NamedTuple):
    """The rows of a problem of many classes."""

    rows: AnyRows
    sqnorm: Array  # squared norms, the bias included
    y: Array  # int64, the class of each
    cost: Array
    joint: bool  # Crammer-Singer, with dual variables in slots; else Weston-Watkins


@jit
def sweep_multiclass(
    data: MulticlassData,
    shrunk: bool,
    order: Array,
    beta: Duals,
    W: Array,
    grads: Array,
    gains: Array,
    shares: Array,
    scratch: Array,
    classes: Array,
) -> tuple[float, float, int]:
    """Visit the rows of `order` once each: a block step on the dual variables of a row.

    Updates `beta` and `W` in place. Per visit, ``gains[r] >= 0`` is what the dual gained, 0 if and
    only if nothing moved; ``grads[r] >= 0`` is by how much the row violated its optimality
    conditions if it moved, or fulfilled them if it stayed. Per row, ``shares[i]`` becomes its share
    of the duality gap before the visit.

    A step looks at the few dual variables that are likely to move, then at all if others would have
    to move too: it is exact, but for Crammer-Singer rows with very many violating classes. In a
    `shrunk` sweep only dual variables inside their bounds move, only their classes are looked at,
    and `shares` stay as they are (Keerthi et al. 2008, section 2.1).

    `scratch` has six numbers per class, `classes` one. Returns the sum of the gains, of
    all shares, and the number of visits: fewer than asked for if a row does not fit into `beta`.
    """
    rows, sqnorm, y, cost, joint = data
    n = order.shape[0]
    scores, t, b, new, step = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    sorted_v, picked = scratch[5], Picked(classes, t, b)
    total_gain = 0.0
    for r in range(n):
        if r + HEAD_AHEAD < n:
            i = order[r + HEAD_AHEAD]
            row_prefetch_head(rows, i)
            prefetch(sqnorm, i)
            prefetch(y, i)
            prefetch(cost, i)
            prefetch(shares, i)
            prefetch_duals(beta, i)
        if r + ROW_AHEAD < n:
            row_prefetch(rows, order[r + ROW_AHEAD])

        i = order[r]
        upper = cost[i]
        q = sqnorm[i]
        if not shrunk:
            row_scores(rows, i, W, scores)
            _violations(scores, y[i])
        few, above, least, most = 0, np.inf, -np.inf, np.inf
        for _ in range(2):
            if shrunk:
                few = inner_duals(beta, i, upper, picked)
                classes[few] = y[i]
                row_scores_few(rows, i, W, classes, few + 1, t)
                for c in range(few):
                    t[c] += 1.0 - t[few]
            else:
                few, shares[i], least, most = movable_duals(
                    beta, i, upper, y[i], scores, above, picked
                )
            above = block_step(beta, t, b, few, upper, q, new, sorted_v)
            if least <= above <= most:
                break  # no others have to move
        moved, linear, square, change = _steps(t, b, few, new, step)
        if moved:
            if not store_duals(beta, i, classes, new, few):
                return total_gain, total(shares), r
            gains[r] = max(linear - 0.5 * q * (square + change * change), TINY)
            grads[r] = _violation(t, b, few, upper, joint)
            classes[few] = y[i]
            step[few] = change
            row_add_few(rows, i, classes, step, few + 1, W, scores)
        else:
            gains[r] = 0.0
            grads[r] = 0.0 if shrunk else _firmness_seen(t, b, few, upper, least, most)
        total_gain += gains[r]
    return total_gain, total(shares), n


@jit_inline
def _violations(t: Array, label: int) -> None:
    """Turn scores into ``t_m = 1 - s_label + s_m``, and 0 for the label itself."""
    own = t[label]
    for m in range(t.shape[0]):
        t[m] += 1.0 - own
    t[label] = 0.0


@jit_sums
def _losses(t: Array, b: Array, joint: bool) -> tuple[float, float, float]:
    """Return the loss at cost 1, ``b.t`` and ``sum b``."""
    loss, product, total = 0.0, 0.0, 0.0
    for m in range(t.shape[0]):
        loss += max(t[m], 0.0)
        product += b[m] * t[m]
        total += b[m]
    if joint:
        loss = 0.0
        for m in range(t.shape[0]):
            loss = max(loss, t[m])
    return loss, product, total


@jit_sums
def _steps(t: Array, b: Array, k: int, new: Array, step: Array) -> tuple[bool, float, float, float]:
    """Fill ``step = -d``, ``d = new - b``; return whether any d is not 0, d.t, d.d and sum d."""
    moved, linear, square, change = False, 0.0, 0.0, 0.0
    for m in range(k):
        d = new[m] - b[m]
        moved |= d != 0.0
        step[m] = -d
        linear += d * t[m]
        square += d * d
        change += d
    return moved, linear, square, change


@jit
def _count_active(t: Array, b: Array, error: float, joint: bool) -> int:
    """Count the violations that the loss or ``b.t`` depends on if each t is off by `error`."""
    active = -1  # the label's own, which is 0, is not one
    for m in range(t.shape[0]):
        if t[m] > -error or b[m] > 0.0:
            active += 1
    return min(active, 1) if joint else active


@jit
def _firmness(t: Array, b: Array, label: int, upper: float, joint: bool) -> float:
    """Return how far each t may move, relative to any other, before this row's b must move.

    It is 0 unless b is an optimal vertex of its feasible set. Weston-Watkins: each b_m is 0 with
    t_m < 0 or `upper` with t_m > 0. Crammer-Singer: b is 0 and all t are negative, or one b_m is
    `upper`, and its t_m the largest and positive.
    """
    firm, level = np.inf, 0.0  # b_m = 0 while t_m is below the level
    for m in range(t.shape[0]):
        if m != label and b[m] > 0.0:
            if b[m] < upper or (b[m] > upper and not joint):
                return 0.0
            firm = min(firm, t[m])
            level = t[m] if joint else 0.0
    for m in range(t.shape[0]):
        if m != label and b[m] == 0.0:
            firm = min(firm, level - t[m])
    return max(firm, 0.0)


@jit_inline
def _firmness_seen(t: Array, b: Array, few: int, upper: float, least: float, most: float) -> float:
    """Return a lower bound on `_firmness`, from what `movable_duals` picked and left out."""
    if few == 0:
        return max(min(-least, most), 0.0)
    if few == 1 and b[0] == upper:
        return max(min(t[0], t[0] - least), 0.0)
    return 0.0


@jit_inline
def _violation(t: Array, b: Array, k: int, upper: float, joint: bool) -> float:
    """Return the largest violation of the row's optimality conditions (SDM eqs. 6 and 18)."""
    largest, smallest, worst, total = 0.0, np.inf, 0.0, 0.0
    for m in range(k):
        total += b[m]
        largest = max(largest, t[m])
        if b[m] > 0.0:
            smallest = min(smallest, t[m])
            worst = max(worst, -t[m])
        if b[m] < upper:
            worst = max(worst, t[m])
    if not joint:
        return worst
    violation = largest if total < upper else 0.0
    return max(violation, largest - smallest) if total > 0.0 else violation


@jit
def signed_duals(beta: Duals, members: Array, y: Array, out: Array) -> None:
    """Fill in a row per member: its coefficient in the weights of each class."""
    for r in range(members.shape[0]):
        i = members[r]
        load_duals(beta, i, out[r])
        total = 0.0
        for m in range(out.shape[1]):
            total += out[r, m]
            out[r, m] = -out[r, m]
        out[r, y[i]] = total


@jit
def certify_rows_multiclass(
    data: MulticlassData,
    scores: Array,
    members: Array,
    beta: Duals,
    length: float,
    level: float,
    firm: Array,
    totals: Array,
    b: Array,
) -> None:
    """Add to the totals of a certificate, as `certify_rows` does; fill `firm` with `_firmness`.

    The scores of two classes are off by ``n EPS (|x_i| (|w_l| + |w_m|) + |b_l| + |b_m|)`` together:
    at most sqrt(2) times the `length` of W without the intercepts, and twice the largest intercept,
    `level`. The share of a row moves by `error` for each class that counts. `b` is scratch.
    """
    rows, sqnorm, y, cost, joint = data
    losses, low, spread, shares, seen = 0.0, 0.0, 0.0, 0.0, 0.0
    lengths, drift = 0.0, 0.0
    sums = (scores.shape[1] + OF_SUMS) * EPS  # error of sums over classes
    for r in range(members.shape[0]):
        i = members[r]
        t = scores[r]
        load_duals(beta, i, b)
        _violations(t, y[i])
        firm[r] = _firmness(t, b, y[i], cost[i], joint)
        norm = row_norm(rows, i, sqnorm)
        reach = SQRT_2 * length * norm + 2.0 * level
        error = row_rounding(rows, i, 1.0, reach) + OF_VIOLATION * EPS * (1.0 + reach)
        at_one, product, total = _losses(t, b, joint)
        own = cost[i] * at_one
        share = max(own - product, 0.0)
        wobble = cost[i] * error * _count_active(t, b, error, joint) + sums * own
        losses, lost = two_sum(losses, own + wobble)
        low += lost
        spread += wobble
        seen += share
        shares += share + 2.0 * wobble + sums * share
        # A row with more than its cost has a feasible point nearby: b scaled down.
        excess = max((1.0 + sums) * total - cost[i], 0.0) if joint else 0.0
        if excess > 0.0:
            shares += excess / total * abs(product)
        # A row adds total * x to one class, and parts of that to others.
        lengths += SQRT_2 * total * norm
        drift += SQRT_2 * (excess + sums * total) * norm
    add_totals((losses + low, spread, shares, seen, lengths, drift, 1.0), totals)

"""One sweep of sequential dual descent for Crammer-Singer and Weston-Watkins, and its certificate.

With scores ``s = W'x_i`` and violations ``t_m = 1 - s_y + s_m`` of the classes m != y = y_i, a row
with cost C_i loses

    Crammer-Singer   C_i max(0, max_m t_m)        dual  beta_i >= 0,  sum_m beta_im <= C_i
    Weston-Watkins   C_i sum_m max(0, t_m)        dual  0 <= beta_im <= C_i

In both cases row i adds ``-beta_im x_i`` to w_m and ``(sum_m beta_im) x_i`` to w_y, the dual
objective is ``sum beta - 1/2 |W|^2``, and a block step maximises

    v.b - 1/2 (|b|^2 + (sum b)^2),    v_m = t_m / |x_i|^2 + beta_im + sum_l beta_il

over the row's b (Keerthi et al. 2008, eqs. 10 and 21, without the equality constraint; Wang and
Scott 2021, Proposition 3.5). W is stored (features and bias, classes): the loop over classes is the
inner one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit, jit_sums, prefetch
from ..duals import load_duals, store_duals
from ..rows import Rows, row_add_outer, row_prefetch, row_prefetch_head, row_scores
from ..subproblems.crammer_singer import crammer_singer_level
from ..subproblems.weston_watkins import weston_watkins_level
from .binary import HEAD_AHEAD, ROW_AHEAD, TINY
from .certificate import SLACK_ROUNDING

__all__ = ["certify_multiclass", "sweep_multiclass", "weights_multiclass"]


@jit
def sweep_multiclass(
    rows: Rows,
    sqnorm: Any,
    y: Any,
    cost: Any,
    joint: bool,
    few: bool,
    order: Any,
    beta: Any,
    W: Any,
    grads: Any,
    gains: Any,
    shares: Any,
    scratch: Any,
    changed: Any,
) -> tuple[float, int]:
    """Visit the rows of `order` once each: an exact block step on all dual variables of a row.

    Updates `beta` and `W` in place. Per visit, ``gains[r] >= 0`` is what the dual gained, 0 if and
    only if nothing moved, and ``grads[r] >= 0`` how much the row violated its optimality conditions
    if it moved, or by how much it fulfilled them if it stayed. Per row, ``shares[i]`` becomes its
    share of the duality gap before the visit. `joint` means Crammer-Singer. `few` restricts a step
    to the row's nonzero dual variables and that of the most violating class (Keerthi et al. 2008,
    section 2), which keeps them few. `scratch` has the shape (5, n_classes), `changed` holds
    n_classes integers. Returns the sum of the gains and the number of visits, which is less than
    asked for if a row's new dual variables do not fit into `beta`.
    """
    n = order.shape[0]
    t, v, sorted_v, step, b = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    total_gain = 0.0
    for r in range(n):
        if r + HEAD_AHEAD < n:
            i = order[r + HEAD_AHEAD]
            row_prefetch_head(rows, i)
            prefetch(sqnorm, i)
            prefetch(y, i)
            prefetch(cost, i)
            prefetch(shares, i)
        if r + ROW_AHEAD < n:
            row_prefetch(rows, order[r + ROW_AHEAD])

        i = order[r]
        load_duals(beta, i, b)
        upper = cost[i]
        q = sqnorm[i]
        row_scores(rows, i, W, t)
        _violations(t, y[i])
        loss, product, total = _losses(t, b, joint)
        shares[i] = max(upper * loss - product, 0.0)
        _block_step(t, b, y[i], upper, q, joint, few, total, v, sorted_v)  # v becomes the new b
        linear, square, change = _steps(t, b, v, step)
        if square > 0.0:
            if not store_duals(beta, i, v):
                return total_gain, r
            gains[r] = max(linear - 0.5 * q * (square + change * change), TINY)
            grads[r] = _violation(t, b, total, upper, joint)
            step[y[i]] = change
            row_add_outer(rows, i, step, W, changed)
        else:
            gains[r] = 0.0
            grads[r] = _firmness(t, b, y[i], upper, joint)
        total_gain += gains[r]
    return total_gain, n


@jit
def _violations(t: Any, label: int) -> None:
    """Turn scores into ``t_m = 1 - s_label + s_m``, and 0 for the label itself."""
    own = t[label]
    for m in range(t.shape[0]):
        t[m] += 1.0 - own
    t[label] = 0.0


@jit_sums
def _losses(t: Any, b: Any, joint: bool) -> tuple[float, float, float]:
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


@jit
def _block_step(
    t: Any,
    b: Any,
    label: int,
    upper: float,
    q: float,
    joint: bool,
    few: bool,
    total: float,
    v: Any,
    scratch: Any,
) -> None:
    """Fill `v` with the dual variables that are optimal for this row, all others being fixed."""
    k = t.shape[0]
    if q == 0.0:  # a zero row loses 1 per class, whatever W is
        for m in range(k):
            v[m] = upper / (k - 1) if joint else upper
    elif joint:
        top = 1 if label == 0 else 0
        worst = top
        for m in range(k):
            if m != label:
                if (t[m] - t[top]) / q + (b[m] - b[top]) > 0.0:
                    top = m
                if t[m] > t[worst]:
                    worst = m
        largest = t[top] / q + b[top] + total
        for m in range(k):
            v[m] = (t[m] - t[top]) / q + (b[m] - b[top])
            if few and b[m] == 0.0 and m != worst:
                v[m] = -np.inf
        v[label] = -np.inf
        level = crammer_singer_level(v, largest, upper, scratch)
        new_total = 0.0
        for m in range(k):
            v[m] = max(v[m] - level, 0.0) if m != label else 0.0
            new_total += v[m]
        if new_total > upper:  # by rounding
            for m in range(k):
                v[m] *= upper / new_total
    else:
        for m in range(k):
            v[m] = t[m] / q + b[m] + total
        v[label] = 0.0
        level = weston_watkins_level(v, upper, total, scratch)
        for m in range(k):
            v[m] = min(max(v[m] - level, 0.0), upper)
    v[label] = 0.0


@jit_sums
def _steps(t: Any, b: Any, new: Any, step: Any) -> tuple[float, float, float]:
    """Fill ``step = b - new``; return ``d.t``, ``d.d`` and ``sum d`` for ``d = new - b``."""
    linear, square, change = 0.0, 0.0, 0.0
    for m in range(t.shape[0]):
        d = new[m] - b[m]
        step[m] = -d
        linear += d * t[m]
        square += d * d
        change += d
    return linear, square, change


@jit
def _rounding(t: Any, b: Any, error: float, joint: bool) -> float:
    """Return by how much ``loss - b.t / upper`` may be off if each t is off by `error`."""
    active = 0
    for m in range(t.shape[0]):
        if t[m] > -error or b[m] > 0.0:
            active += 1
    return 2.0 * error * (min(active, 1) if joint else active)


@jit
def _firmness(t: Any, b: Any, label: int, upper: float, joint: bool) -> float:
    """Return how far each t may move, relative to any other, before this row's b must move.

    It is 0 unless b is at a vertex of its feasible set. Weston-Watkins: each b_m is 0 with t_m < 0
    or `upper` with t_m > 0. Crammer-Singer: b is 0 and all t are negative, or one b_m is `upper`
    and its t_m the largest, and positive.
    """
    firm = np.inf
    if not joint:
        for m in range(t.shape[0]):
            if m != label:
                if b[m] == 0.0:
                    firm = min(firm, -t[m])
                elif b[m] == upper:
                    firm = min(firm, t[m])
                else:
                    firm = 0.0
        return max(firm, 0.0)
    level = 0.0  # what b = 0 stays below
    for m in range(t.shape[0]):
        if m != label and b[m] > 0.0:
            if b[m] < upper:
                return 0.0
            level = t[m]
            firm = t[m]
    for m in range(t.shape[0]):
        if m != label and b[m] == 0.0:
            firm = min(firm, level - t[m])
    return max(firm, 0.0)


@jit
def _violation(t: Any, b: Any, total: float, upper: float, joint: bool) -> float:
    """Return the largest violation of the row's optimality conditions (SDM eqs. 6 and 18)."""
    largest, smallest, worst = 0.0, np.inf, 0.0
    for m in range(t.shape[0]):  # the label has t = b = 0, which violates nothing
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
def weights_multiclass(rows: Rows, y: Any, beta: Any, W: Any, step: Any, changed: Any) -> None:
    """Overwrite `W` with the weights of `beta`."""
    W[:] = 0.0
    for i in range(y.shape[0]):
        load_duals(beta, i, step)
        total = 0.0
        for m in range(step.shape[0]):
            total += step[m]
            step[m] = -step[m]
        if total > 0.0:
            step[y[i]] = total
            row_add_outer(rows, i, step, W, changed)


@jit
def certify_multiclass(
    rows: Rows,
    sqnorm: Any,
    y: Any,
    cost: Any,
    joint: bool,
    candidates: Any,
    beta: Any,
    W: Any,
    firm: Any,
    scratch: Any,
) -> tuple[float, float]:
    """Return ``primal(W)`` and the duality gap, W being the weights of `beta`.

    Fills ``firm[r]``, for the r-th of `candidates`, with `_firmness`. Rounding is allowed for as in
    the binary certificate. `scratch` has the shape (2, n_classes).
    """
    t, b = scratch[0], scratch[1]
    regulariser = 0.0
    for j in range(W.shape[0]):
        for m in range(W.shape[1]):
            regulariser += W[j, m] * W[j, m]
    length = np.sqrt(2.0 * regulariser)
    losses, gap = 0.0, 0.0
    for r in range(candidates.shape[0]):
        i = candidates[r]
        load_duals(beta, i, b)
        row_scores(rows, i, W, t)
        _violations(t, y[i])
        firm[r] = _firmness(t, b, y[i], cost[i], joint)
        error = SLACK_ROUNDING * (1.0 + length * np.sqrt(sqnorm[i]))
        loss, product, _ = _losses(t, b, joint)
        losses += cost[i] * loss
        gap += max(cost[i] * loss - product, 0.0) + cost[i] * _rounding(t, b, error, joint)
    return 0.5 * regulariser + losses, gap

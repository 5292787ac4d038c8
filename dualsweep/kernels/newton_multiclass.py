"""What a Newton step for Crammer-Singer or Weston-Watkins computes from the slacks of its rows.

Arrays have a row per member and a column per class, that of the label counting for nothing. The
dual variables b that belong to u are its projection onto the feasible set of the row:
``max(u - level, 0)`` with the smallest level >= 0 at which their sum is at most C_i
(Crammer-Singer, `joint`), or ``clip(u, 0, C_i)``. u can be huge, and only its differences make a b
that is exact: a level above 0 is kept as that of ``u - top``, top the largest entry of u.

Along a change of the slacks, b changes by M_i / rho times it. With e the unit vectors of classes,
M_i is the sum of ``(e_m - e_label)(e_m - e_label)'`` over the free dual variables of the row, less
the part along their sum where that is at its bound. `free` tells which these are, and `bound` where
their sum is at its bound.
"""

from __future__ import annotations

from typing import Any

from .._jit import jit, jit_inline
from ..rows.functions import row_prefetch
from ..rows.layouts import Rows
from ..rows.many_classes import row_add_few, row_scores_few
from .binary import ROW_AHEAD


@jit_inline
def _level(u: Any, label: int, cost: float, joint: bool) -> tuple[float, float, bool]:
    """Return top and level of the projection, and whether the sum of b is at its bound.

    The level is found by taking all entries above 0, computing the level as if they stayed above
    it, dropping those that do not, and so on (Michelot 1986). Each round but the last leaves fewer
    entries, by rounding too, and never drops the largest: its ``u - top`` is 0, the level below.
    """
    if not joint:
        return 0.0, 0.0, False
    top, total = 0.0, 0.0
    for m in range(u.shape[0]):
        if m != label and u[m] > 0.0:
            top = max(top, u[m])
            total += u[m]
    if total <= cost:
        return 0.0, 0.0, False
    level, number, before = -top, u.shape[0], u.shape[0] + 1
    while number < before:
        before, total, number = number, 0.0, 0
        for m in range(u.shape[0]):
            if m != label and u[m] - top > level:
                total += u[m] - top
                number += 1
        level = (total - cost) / number
    return top, level, True


@jit_inline
def _is_free(value: float, cost: float, joint: bool) -> bool:
    """Tell whether a dual variable moves with its u, from how far that is above the level."""
    return value > 0.0 and (joint or value < cost)


@jit
def implied_dual_multiclass(
    slack: Any,
    along: Any,
    step: float,
    anchor: Any,
    y: Any,
    cost: Any,
    joint: bool,
    rho: float,
    u: Any,
    b: Any,
    free: Any,
    bound: Any,
    signed: Any,
) -> tuple[float, float]:
    """Take a step, ``slack += step along``, then fill in the dual point that slacks imply.

    That is ``u = slack / rho + anchor``, the b that belong to it, which of them are free, and by
    how much of its row the weights of each class are made up. Returns the sum of the losses, and
    that of their excess over what b proves.
    """
    losses, excess = 0.0, 0.0
    for r in range(slack.shape[0]):
        label = y[r]
        for m in range(slack.shape[1]):
            if step != 0.0:
                slack[r, m] += step * along[r, m]
            u[r, m] = slack[r, m] / rho + anchor[r, m]
        top, level, bound[r] = _level(u[r], label, cost[r], joint)
        loss, product, total = 0.0, 0.0, 0.0
        for m in range(slack.shape[1]):
            value = max((u[r, m] - top) - level, 0.0)
            b[r, m] = 0.0 if m == label else (value if joint else min(value, cost[r]))
            free[r, m] = m != label and _is_free(value, cost[r], joint)
            s = slack[r, m] if m != label else 0.0
            loss = max(loss, s) if joint else loss + max(s, 0.0)
            product += b[r, m] * s
            total += b[r, m]
        if joint and total > cost[r]:  # by rounding
            shrink, total = cost[r] / total, 0.0
            product *= shrink
            for m in range(slack.shape[1]):
                b[r, m] *= shrink
                total += b[r, m]
        for m in range(slack.shape[1]):
            signed[r, m] = -b[r, m]
        signed[r, label] = total
        losses += cost[r] * loss
        excess += max(cost[r] * loss - product, 0.0)
    return losses, excess


@jit
def slope_multiclass(
    u: Any, q: Any, y: Any, cost: Any, joint: bool, rho: float, t: float, v: Any
) -> tuple[float, float]:
    """Return ``sum_i b_i.q_i`` at ``u + t q / rho``, and its derivative in t.

    `v` is scratch for as many numbers as there are classes.
    """
    total, curvature = 0.0, 0.0
    for r in range(u.shape[0]):
        label = y[r]
        for m in range(u.shape[1]):
            v[m] = u[r, m] + t * q[r, m] / rho
        top, level, bound = _level(v, label, cost[r], joint)
        number, along = 0, 0.0
        for m in range(u.shape[1]):
            value = (v[m] - top) - level
            if m != label and value > 0.0:
                total += (value if joint else min(value, cost[r])) * q[r, m]
                if _is_free(value, cost[r], joint):
                    curvature += q[r, m] * q[r, m] / rho
                    along += q[r, m]
                    number += 1
        if bound:  # the sum stays what it is
            curvature -= along * along / (number * rho)
    return total, curvature


@jit
def aim_multiclass(
    scores: Any, y: Any, u: Any, cost: Any, joint: bool, rho: float, t: float, q: Any, v: Any
) -> tuple[float, float]:
    """Fill in by how much slacks change in a whole step; return `slope_multiclass`.

    That is q, the scores of all classes less that of the label.
    """
    for r in range(q.shape[0]):
        for m in range(q.shape[1]):
            q[r, m] = scores[r, m] - scores[r, y[r]]
    return slope_multiclass(u, q, y, cost, joint, rho, t, v)


@jit
def add_curvature(
    rows: Rows,
    members: Any,
    y: Any,
    free: Any,
    bound: Any,
    rho: float,
    V: Any,
    out: Any,
    classes: Any,
    scratch: Any,
) -> None:
    """Add ``sum_i x_i (M_i V'x_i)' / rho`` to the weights `out`.

    Only the classes of free dual variables, and the label's, are looked at. `classes` holds
    n_classes integers, `scratch` has the shape (2, n_classes).
    """
    step, more = scratch[0], scratch[1]
    for r in range(members.shape[0]):
        if r + ROW_AHEAD < members.shape[0]:
            row_prefetch(rows, members[r + ROW_AHEAD])
        n = _find(free[r], classes)
        classes[n] = y[r]
        row_scores_few(rows, members[r], V, classes, n + 1, step)
        total = 0.0
        for c in range(n):
            step[c] = (step[c] - step[n]) / rho
            total += step[c]
        step[n] = -total
        if bound[r]:
            for c in range(n):
                step[c] -= total / n
            row_add_few(rows, members[r], classes, step, n, out, more)
        else:
            row_add_few(rows, members[r], classes, step, n + 1, out, more)


@jit_inline
def _find(free: Any, classes: Any) -> int:
    """Fill in the classes whose dual variables are free; return how many."""
    n = 0
    for m in range(free.shape[0]):
        if free[m]:
            classes[n] = m
            n += 1
    return n


@jit
def curvature_diagonal(y: Any, free: Any, bound: Any, rho: float, out: Any) -> None:
    """Fill ``out[r]`` with the diagonal of ``M_i / rho``."""
    for r in range(free.shape[0]):
        number = 0
        for m in range(free.shape[1]):
            number += free[r, m]
        for m in range(free.shape[1]):
            out[r, m] = 0.0
            if free[r, m]:
                out[r, m] = (1.0 - 1.0 / number if bound[r] else 1.0) / rho
        if not bound[r]:
            out[r, y[r]] = number / rho


@jit
def curvature_factors(
    y: Any, free: Any, bound: Any, rho: float, counts: Any, classes: Any, M: Any
) -> None:
    """Fill in for each row on how many classes M_i is not 0, on which, and ``M_i / rho`` there."""
    for r in range(free.shape[0]):
        n = _find(free[r], classes[r])
        counts[r] = n
        if n == 0:
            continue
        for a in range(n):
            for c in range(n):
                M[r, a, c] = ((1.0 if a == c else 0.0) - (1.0 / n if bound[r] else 0.0)) / rho
        if not bound[r]:
            classes[r, n] = y[r]
            for a in range(n):
                M[r, a, n] = -1.0 / rho
                M[r, n, a] = -1.0 / rho
            M[r, n, n] = n / rho
            counts[r] = n + 1

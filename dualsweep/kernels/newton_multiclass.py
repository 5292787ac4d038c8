"""What a Newton step for Crammer-Singer or Weston-Watkins computes from the slacks of its rows.

Arrays have a row per member and a column per class, that of the label counting for nothing. The
dual variables b that belong to u are its projection onto the feasible set of the row:
``max(u - level, 0)`` with the smallest level >= 0 at which their sum is at most C_i
(Crammer-Singer, `joint`), or ``clip(u, 0, C_i)``. u can be huge, and only its differences make a b
that is exact: a level above 0 is kept as that of ``u - top``, top the largest entry of u.

Along a change of the slacks, b changes by M_i / rho times it. With e the unit vectors of classes,
M_i is the sum of ``(e_m - e_label)(e_m - e_label)'`` over the free dual variables of the row, less
the part along their sum where that is at its bound.
"""

from __future__ import annotations

from typing import Any

from .._jit import jit, jit_inline

__all__ = [
    "curvature_factors",
    "curvature_product",
    "implied_dual_multiclass",
    "less_own",
    "slope_multiclass",
]


@jit
def less_own(scores: Any, y: Any) -> None:
    """Take the score of the row's label from those of all classes, in place."""
    for r in range(scores.shape[0]):
        own = scores[r, y[r]]
        for m in range(scores.shape[1]):
            scores[r, m] -= own


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
    slack: Any, anchor: Any, y: Any, cost: Any, joint: bool, rho: float, u: Any, b: Any
) -> tuple[float, float]:
    """Fill ``u = slack / rho + anchor`` and the b that belong to it.

    Returns the sum of the losses, and that of their excess over what b proves.
    """
    losses, excess = 0.0, 0.0
    for r in range(slack.shape[0]):
        label = y[r]
        for m in range(slack.shape[1]):
            u[r, m] = slack[r, m] / rho + anchor[r, m]
        top, level, _ = _level(u[r], label, cost[r], joint)
        loss, product, total = 0.0, 0.0, 0.0
        for m in range(slack.shape[1]):
            value = max((u[r, m] - top) - level, 0.0)
            b[r, m] = 0.0 if m == label else (value if joint else min(value, cost[r]))
            s = slack[r, m] if m != label else 0.0
            loss = max(loss, s) if joint else loss + max(s, 0.0)
            product += b[r, m] * s
            total += b[r, m]
        if joint and total > cost[r]:  # by rounding
            product *= cost[r] / total
            for m in range(slack.shape[1]):
                b[r, m] *= cost[r] / total
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


@jit_inline
def _free_classes(u: Any, label: int, cost: float, joint: bool, classes: Any) -> tuple[int, bool]:
    """Fill in the classes whose dual variables are free.

    Returns how many, and whether the sum of the dual variables is at its bound.
    """
    top, level, bound = _level(u, label, cost, joint)
    n = 0
    for m in range(u.shape[0]):
        if m != label and _is_free((u[m] - top) - level, cost, joint):
            classes[n] = m
            n += 1
    return n, bound


@jit
def curvature_product(
    scores: Any, y: Any, cost: Any, joint: bool, rho: float, u: Any, classes: Any, out: Any
) -> None:
    """Fill ``out[r] = M_i scores[r] / rho``; `classes` is scratch for each class."""
    out[:] = 0.0
    for r in range(scores.shape[0]):
        label = y[r]
        n, bound = _free_classes(u[r], label, cost[r], joint, classes)
        if n == 0:
            continue
        total = 0.0
        for c in range(n):
            out[r, classes[c]] = (scores[r, classes[c]] - scores[r, label]) / rho
            total += out[r, classes[c]]
        if bound:
            for c in range(n):
                out[r, classes[c]] -= total / n
        else:
            out[r, label] = -total


@jit
def curvature_factors(
    y: Any, cost: Any, joint: bool, rho: float, u: Any, counts: Any, classes: Any, M: Any
) -> None:
    """Fill in for each row on how many classes M_i is not 0, on which, and ``M_i / rho`` there."""
    for r in range(u.shape[0]):
        label = y[r]
        n, bound = _free_classes(u[r], label, cost[r], joint, classes[r])
        counts[r] = n
        if n == 0:
            continue
        for a in range(n):
            for c in range(n):
                M[r, a, c] = ((1.0 if a == c else 0.0) - (1.0 / n if bound else 0.0)) / rho
        if not bound:
            classes[r, n] = label
            for a in range(n):
                M[r, a, n] = -1.0 / rho
                M[r, n, a] = -1.0 / rho
            M[r, n, n] = n / rho
            counts[r] = n + 1

"""Passes over the rows that a Newton step for Crammer-Singer or Weston-Watkins needs.

Arrays have a row per member and a column per class, that of the label counting for nothing. The
dual variables b that belong to u are its projection onto the feasible set of the row:
``max(u - level, 0)`` with the smallest level >= 0 at which their sum is at most C_i
(Crammer-Singer, `joint`), or ``clip(u, 0, C_i)``. u can be huge, and only its differences make a b
that is exact: a level above 0 is kept as that of ``u - top``, top the largest entry of u.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit, jit_inline
from ..rows import Rows, row_add_few, row_entries, row_scores

__all__ = [
    "gram_multiclass",
    "implied_dual_multiclass",
    "product_multiclass",
    "responses",
    "slope_multiclass",
    "whole_gram",
]


@jit
def responses(rows: Rows, y: Any, members: Any, V: Any, out: Any) -> None:
    """Fill ``out[r, m] = x_i.(v_m - v_label)``, i the r-th of `members`."""
    for r in range(members.shape[0]):
        i = members[r]
        scores = out[r]
        row_scores(rows, i, V, scores)
        own = scores[y[i]]
        for m in range(scores.shape[0]):
            scores[m] -= own


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
def product_multiclass(
    rows: Rows,
    members: Any,
    y: Any,
    cost: Any,
    joint: bool,
    rho: float,
    u: Any,
    V: Any,
    out: Any,
    scratch: Any,
    classes: Any,
) -> None:
    """Add the product of the matrix of `gram_multiclass` with V to `out`.

    `scratch` has the shape (3, classes), `classes` holds as many integers.
    """
    scores, step, dense = scratch[0], scratch[1], scratch[2]
    for r in range(members.shape[0]):
        label = y[r]
        n, bound = _free_classes(u[r], label, cost[r], joint, classes)
        if n == 0:
            continue
        row_scores(rows, members[r], V, scores)
        total = 0.0
        for c in range(n):
            step[c] = (scores[classes[c]] - scores[label]) / rho
            total += step[c]
        if bound:
            for c in range(n):
                step[c] -= total / n
        else:
            classes[n] = label
            step[n] = -total
            n += 1
        row_add_few(rows, members[r], classes, step, n, out, dense)


@jit
def gram_multiclass(
    rows: Rows,
    members: Any,
    y: Any,
    cost: Any,
    joint: bool,
    rho: float,
    u: Any,
    out: Any,
    M: Any,
    classes: Any,
    values: Any,
    places: Any,
) -> None:
    """Add to `out` the blocks of ``1/rho sum_i (x_i x_i') (x) M_i``, as far as they differ.

    With e the unit vectors of classes, M_i is the sum of ``(e_m - e_label)(e_m - e_label)'`` over
    the free dual variables of the row, less the part along their sum where that is at its bound.
    ``out[a, c]`` is the block of the classes a >= c, a matrix over features of which the lower half
    is filled in, the order of features being that of the rows' entries; see `whole_gram`. The rest
    is scratch: `M` and `classes` for each class, `values` and `places` for each feature and the
    bias.
    """
    for r in range(members.shape[0]):
        label = y[r]
        n, bound = _free_classes(u[r], label, cost[r], joint, classes)
        if n == 0:
            continue
        for a in range(n):
            for c in range(n):
                M[a, c] = (1.0 if a == c else 0.0) - (1.0 / n if bound else 0.0)
        if not bound:
            classes[n] = label
            for a in range(n):
                M[a, n] = -1.0
                M[n, a] = -1.0
            M[n, n] = n
            n += 1
        entries = row_entries(rows, members[r], values, places)
        for a in range(n):
            for c in range(a + 1):
                block = out[max(classes[a], classes[c]), min(classes[a], classes[c])]
                scale = M[a, c] / rho
                for e in range(entries):
                    line = block[places[e]]
                    value = scale * values[e]
                    for f in range(e + 1):
                        line[places[f]] += value * values[f]


def whole_gram(blocks: Any) -> Any:
    """Return the matrix over all weights, in the order of W, from what `gram_multiclass` filled.

    An entry of a block is in one of its two places, which one depending on the order of a row's
    entries; blocks are symmetric, and those of (a, c) and (c, a) the same.
    """
    k, _, d, _ = blocks.shape
    diagonal = blocks.diagonal(axis1=2, axis2=3).copy()
    blocks = blocks + blocks.transpose(0, 1, 3, 2)
    blocks[..., np.arange(d), np.arange(d)] = diagonal
    lower = np.tri(k, k=-1, dtype=bool)
    blocks[lower.T] = blocks.transpose(1, 0, 2, 3)[lower.T]
    return np.ascontiguousarray(blocks.transpose(2, 0, 3, 1)).reshape(d * k, d * k)

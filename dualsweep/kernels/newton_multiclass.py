"""What a Newton step for Crammer-Singer or Weston-Watkins computes from the slacks of its rows.

Tables have a row per member and a column per class; that of the label counts for nothing. With
``u = slack / rho + anchor``, the dual variables b of a row are the projection of u onto its
feasible set: ``max(u - level, 0)`` with the smallest level >= 0 at which their sum is at most C_i
(Crammer-Singer, `joint`), or ``clip(u, 0, C_i)``. u can be huge, and only its differences give an
exact b: a level above 0 is kept relative to the largest entry of u.

Where slacks change, b changes by M_i / rho times as much. With e the unit vectors of classes, M_i
is the sum of ``(e_m - e_label)(e_m - e_label)'`` over the free dual variables of the row, less the
part along their sum if that is at its bound.

A step of conjugate gradients takes about a millisecond with many threads, so its passes are phases
of one kernel that all threads stay in; see `dualsweep._team`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import generic, implements, jit, jit_inline, jit_sums
from .._team import finish_part, next_part
from .._typing import Array
from ..rows.functions import row_prefetch
from ..rows.layouts import CSRRows, DenseRows, Rows
from ..rows.many_classes import row_add_few, row_scores_few
from .binary import ROW_AHEAD

PRODUCT, SUM, SOLVE = range(3)  # the phases: in parts of the rows, and by class twice


class ClassSlacks(NamedTuple):
    """The slacks of some rows, and what belongs to them."""

    y: Array
    cost: Array
    slack: Array
    along: Array  # how slacks change in a whole step
    anchor: Array
    u: Array
    b: Array
    free: Array  # which dual variables move with their slacks
    bound: Array  # of each row, whether the sum of b is at its bound


class CurvedRows(NamedTuple):
    """Rows with M_i that are not 0; as in `ClassSlacks`."""

    members: Array
    y: Array
    free: Array
    bound: Array


@jit_inline
def _level(u: Array, label: int, cost: float, joint: bool) -> tuple[float, float, bool]:
    """Return the largest entry of u, the level relative to it, and whether sum b is at its bound.

    Begin with all entries above 0; compute the level as if all stayed above it; drop those that do
    not, and repeat (Michelot 1986). Each round but the last leaves fewer entries, by rounding too,
    and keeps the largest: its ``u - top`` is 0, the level below.
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


@jit
def implied_dual_multiclass(
    rows: ClassSlacks, joint: bool, rho: float, step: float, signed: Array
) -> tuple[float, float]:
    """Take a step, ``slack += step along``, then fill in u, b, `free` and `bound`.

    Fills `signed` as `signed_duals` does. Returns the sums of losses and of what b fails to prove.
    """
    y, cost, slack, along, anchor, u, b, free, bound = rows
    losses, excess = 0.0, 0.0
    for r in range(slack.shape[0]):
        label, upper = y[r], np.inf if joint else cost[r]
        for m in range(slack.shape[1]):
            if step != 0.0:
                slack[r, m] += step * along[r, m]
            u[r, m] = slack[r, m] / rho + anchor[r, m]
        top, level, bound[r] = _level(u[r], label, cost[r], joint)
        loss, product, total = 0.0, 0.0, 0.0
        for m in range(slack.shape[1]):
            value = max((u[r, m] - top) - level, 0.0)
            b[r, m] = min(value, upper) if m != label else 0.0
            free[r, m] = m != label and 0.0 < value < upper
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
    rows: ClassSlacks, joint: bool, rho: float, t: float, v: Array
) -> tuple[float, float]:
    """Return ``sum_i b_i.q_i`` at ``u + t q / rho``, and its derivative in t; q is `along`.

    `v` is scratch for as many numbers as there are classes.
    """
    y, cost, u, q = rows.y, rows.cost, rows.u, rows.along
    total, curvature = 0.0, 0.0
    for r in range(u.shape[0]):
        label, upper = y[r], np.inf if joint else cost[r]
        for m in range(u.shape[1]):
            v[m] = u[r, m] + t * q[r, m] / rho
        top, level, bound = _level(v, label, cost[r], joint)
        number, along = 0, 0.0
        for m in range(u.shape[1]):
            value = (v[m] - top) - level
            if m != label and value > 0.0:
                total += min(value, upper) * q[r, m]
                if value < upper:
                    curvature += q[r, m] * q[r, m] / rho
                    along += q[r, m]
                    number += 1
        if bound:  # the sum stays what it is
            curvature -= along * along / (number * rho)
    return total, curvature


@generic
def some_rows(curved: Any, some: slice) -> Any:
    """Return some of the curved rows."""


@generic
def add_products(
    curved: Any, rows: Rows, rho: float, V: Array, out: Array, classes: Array, scratch: Array
) -> None:
    """Do what `add_curvature` says; looks at the type of `curved`."""


@jit
def add_curvature(
    rows: Rows, curved: Any, rho: float, V: Array, out: Array, classes: Array, scratch: Array
) -> None:
    """Add ``sum_i x_i (M_i V'x_i)' / rho`` to the weights `out`.

    `scratch` has two numbers per class, `classes` one.
    """
    add_products(curved, rows, rho, V, out, classes, scratch)


@implements(some_rows, CurvedRows)
def _some_rows(curved: CurvedRows, some: slice) -> CurvedRows:
    members, y, free, bound = curved
    return CurvedRows(members[some], y[some], free[some], bound[some])


@implements(add_products, CurvedRows)
def _add_products(
    curved: CurvedRows,
    rows: Rows,
    rho: float,
    V: Array,
    out: Array,
    classes: Array,
    scratch: Array,
) -> None:
    # Looks only at the label's class and at those of free dual variables.
    members, y, free, bound = curved
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
def _find(free: Array, classes: Array) -> int:
    """Fill in the classes of the free dual variables; return how many."""
    n = 0
    for m in range(free.shape[0]):
        if free[m]:
            classes[n] = m
            n += 1
    return n


def curvature_diagonal(curved: CurvedRows, rho: float) -> Array:
    """Return the diagonal of each ``M_i / rho``."""
    _, y, free, bound = curved
    number = free.sum(axis=1)
    of_free = np.where(bound, 1.0 - 1.0 / np.maximum(number, 1), 1.0) / rho
    out: Array = free * of_free[:, None]
    out[~bound, y[~bound]] = number[~bound] / rho
    return out


@jit
def curvature_factors(
    curved: CurvedRows, rho: float, counts: Array, classes: Array, M: Array
) -> None:
    """Fill in for each row on how many classes M_i is not 0, on which, and ``M_i / rho`` there."""
    _, y, free, bound = curved
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


class ClassPhases(NamedTuple):
    """The matrix ``I + sum_i x_i x_i' (x) M_i / rho``, and what its phases read and write.

    Arrays of all weights have a row per class.
    """

    rows: Rows
    curved: Any  # CurvedRows, or those of another formulation
    rho: float
    bounds: Array  # of the parts of the curved rows
    factors: Array  # Cholesky factors of the blocks of single classes, in lower halves
    direction: Array  # what PRODUCT and SUM multiply
    product: Array  # the matrix times that
    residual: Array  # what SOLVE solves for
    solved: Array
    V: Array  # the direction, in X's precision and order
    sums: Array  # products of the parts, in that order
    flat: Array  # the same, one row per part
    classes: Array  # scratch of each part
    scratch: Array


@jit
def class_phases(data: ClassPhases, team: Array, polls: int) -> int:
    """Do parts of phases with other threads; return after `polls` polls that find no part."""
    while True:
        phase, part, _ = next_part(team, polls)
        if phase < 0:
            return phase
        if phase == PRODUCT:
            _multiply(data.rows, data, part)
        elif phase == SUM:
            product, direction = data.product[part], data.direction[part]
            for j in range(product.shape[0]):
                product[j] = direction[j]
            for other in range(data.sums.shape[0]):
                for j in range(product.shape[0]):
                    product[j] += data.sums[other, j, part]
        else:
            _solve(data.factors[part], data.residual[part], data.solved[part])
        finish_part(team)


@generic
def _multiply(rows: Rows, data: ClassPhases, part: int) -> None:
    """Add up the product of the direction with the Hessian of some rows."""


@implements(_multiply, CSRRows)
def _multiply_csr(rows: CSRRows, data: ClassPhases, part: int) -> None:
    k, d = data.direction.shape
    _multiply_part(rows, data, part, data.flat[part].reshape(d, k))


@implements(_multiply, DenseRows)
def _multiply_dense(rows: DenseRows, data: ClassPhases, part: int) -> None:
    k, d = data.direction.shape
    _multiply_part(rows, data, part, data.flat[part].reshape(k, d).T)


@jit_inline
def _multiply_part(rows: Rows, data: ClassPhases, part: int, out: Array) -> None:
    data.flat[part, :] = 0.0
    some = slice(data.bounds[part], data.bounds[part + 1])
    classes, scratch = data.classes[part], data.scratch[part]
    add_products(some_rows(data.curved, some), rows, data.rho, data.V, out, classes, scratch)


@jit_inline
def _solve(factor: Array, right: Array, x: Array) -> None:
    """Solve ``factor factor' x = right``."""
    n = x.shape[0]
    for j in range(n):
        x[j] = (right[j] - _dot(factor[j, :j], x[:j])) / factor[j, j]
    for i in range(n):
        j = n - 1 - i
        row = factor[j]
        x[j] /= row[j]
        for c in range(j):
            x[c] -= x[j] * row[c]


@jit_sums
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total

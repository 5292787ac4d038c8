"""Products with the Hessian of many classes, and its preconditioner: the blocks of single classes.

A step of conjugate gradients takes about a millisecond with many threads, so its passes are phases
of one kernel that all threads stay in; see `dualsweep._team`.
"""

from __future__ import annotations

from typing import NamedTuple

from .._jit import generic, implements, jit, jit_inline, jit_sums
from .._team import finish_part, next_part
from .._typing import Array
from ..rows.layouts import CSRRows, DenseRows, Rows
from .newton_multiclass import add_curvature

PRODUCT, SUM, SOLVE = range(3)  # the phases: in parts of the rows, and by class twice


class ClassPhases(NamedTuple):
    """The matrix ``I + sum_i x_i x_i' (x) M_i / rho``, and what its phases read and write.

    For M_i see `dualsweep.kernels.newton_multiclass`. Arrays of all weights have a row per class.
    """

    rows: Rows
    members: Array  # rows with M_i that are not 0
    y: Array
    free: Array
    bound: Array
    rho: float
    bounds: Array  # of the parts of the members
    factors: Array  # Cholesky factors of the blocks of single classes, in lower halves
    direction: Array  # what PRODUCT and SUM multiply
    product: Array  # the matrix times that
    residual: Array  # what SOLVE solves for
    solved: Array
    V: Array  # the direction in the precision and the order that suit X
    sums: Array  # products of the parts of the members, in that order
    flat: Array  # the same as rows of numbers
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
    start, stop = data.bounds[part], data.bounds[part + 1]
    add_curvature(
        rows,
        data.members[start:stop],
        data.y[start:stop],
        data.free[start:stop],
        data.bound[start:stop],
        data.rho,
        data.V,
        out,
        data.classes[part],
        data.scratch[part],
    )


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

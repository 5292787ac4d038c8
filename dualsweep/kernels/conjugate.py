"""Conjugate gradients for the Newton steps of many classes, all threads inside one kernel.

A product with the Hessian takes a millisecond where many threads share it, and Python would take
another two to hand its parts to them: see `dualsweep._team`. Parts are fixed, and so is the order
in which their sums are added up: the solution does not depend on who does them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import generic, implements, jit, jit_inline, jit_sums
from .._team import (
    OVER,
    PATIENCE,
    STEP_DONE,
    end_phases,
    is_last_part,
    next_part,
    open_phase,
    wants_end,
)
from ..rows.functions import is_csr
from ..rows.layouts import Rows
from .newton_multiclass import add_curvature

# The phases of a step, by kind: the product with the Hessian, in parts of the rows; its sum over
# these, and the preconditioner, by class; the rest, in so many parts of the features.
PRODUCT, SUM, SOLVE, CENTRE, TURN = 0, 1, 2, 3, 4
FEATURE_PARTS = 8

# Places of the numbers that the threads have in common.
SIZE, ENOUGH, LENGTH, TURNED, LEFT, STEPS, MOST_STEPS = 0, 1, 2, 3, 4, 5, 6


class System(NamedTuple):
    """Equations ``(I + sum_i x_i x_i' (x) M_i / rho) solution = right``, and where they stand.

    For M_i see `dualsweep.kernels.newton_multiclass`. Arrays of all weights have a row per class.
    """

    rows: Rows
    members: Any  # rows with M_i that are not 0
    y: Any
    free: Any
    bound: Any
    rho: float
    bounds: Any  # of the parts of the members
    factors: Any  # Cholesky factors of about the blocks of single classes, in lower halves
    solution: Any
    residual: Any
    direction: Any
    product: Any
    scaled: Any  # the preconditioned residual
    V: Any  # the direction in the precision and the order that suit X
    sums: Any  # products of the parts of the members, in that order
    flat: Any  # the same as rows of numbers
    classes: Any  # scratch of each part
    scratch: Any
    dots: Any
    numbers: Any


def first_numbers(left: float, most_steps: int) -> Any:
    """Return the numbers to begin with: how much of the right side may be left, after what at most.

    How much is left is measured by the preconditioner.
    """
    numbers = np.zeros(7)
    numbers[LEFT], numbers[STEPS], numbers[MOST_STEPS] = left, -1, most_steps
    return numbers


@jit
def conjugate_gradients(system: System, team: Any) -> int:
    """Do parts of the steps of preconditioned conjugate gradients, with other threads.

    A step is a product with the Hessian. Returns OVER; or STEP_DONE to the thread that does the
    last part of a step; or NO_PART if there was nothing to do for a while.

    The weights of all classes add up to 0 in every gradient: only their differences count in
    losses. The blocks know of no other class, so what they lead away by is taken back.
    """
    k = system.solution.shape[0]
    numbers, dots = system.numbers, system.dots
    counts = (system.bounds.shape[0] - 1, k, k, FEATURE_PARTS, FEATURE_PARTS)
    while True:
        phase, part, count = next_part(team, PATIENCE)
        if phase < 0:
            return phase
        kind = phase % len(counts)
        if kind == PRODUCT:
            _multiply(system.rows, system, part)
        elif kind == SUM:
            dots[part] = _sum_up(system, part)
        elif kind == SOLVE:
            _solve(system, part)
        elif kind == CENTRE:
            dots[part] = _centre(system, part)
        else:
            _turn(system, part)
        if not is_last_part(team, count):
            continue

        total = 0.0
        if kind == SUM:
            for t in range(k):
                total += dots[t]
            numbers[LENGTH] = numbers[SIZE] / total
        elif kind == CENTRE:
            for t in range(FEATURE_PARTS):
                total += dots[t]
            numbers[STEPS] += 1.0
            if numbers[STEPS] == 0.0:  # of the right side
                numbers[ENOUGH] = numbers[LEFT] * numbers[LEFT] * total
            else:
                numbers[TURNED] = total / numbers[SIZE]
            numbers[SIZE] = total
            going = total > numbers[ENOUGH] and numbers[STEPS] < numbers[MOST_STEPS]
            if not going or wants_end(team):
                end_phases(team)
                return OVER
        open_phase(team, phase + 1, counts[(kind + 1) % len(counts)])
        if kind == TURN:
            return STEP_DONE


@generic
def _multiply(rows: Rows, system: System, part: int) -> Any:
    """Add up the product of the direction with the Hessian of some rows."""


@implements(_multiply)
def _multiply_in_order(rows: Any, system: Any, part: Any) -> Any:
    def by_feature(rows, system, part):  # type: ignore[no-untyped-def]
        k, d = system.solution.shape
        _multiply_part(rows, system, part, system.flat[part].reshape(d, k))

    def by_class(rows, system, part):  # type: ignore[no-untyped-def]
        k, d = system.solution.shape
        _multiply_part(rows, system, part, system.flat[part].reshape(k, d).T)

    return by_feature if is_csr(rows) else by_class


@jit_inline
def _multiply_part(rows: Rows, system: System, part: int, out: Any) -> None:
    system.flat[part, :] = 0.0
    start, stop = system.bounds[part], system.bounds[part + 1]
    add_curvature(
        rows,
        system.members[start:stop],
        system.y[start:stop],
        system.free[start:stop],
        system.bound[start:stop],
        system.rho,
        system.V,
        out,
        system.classes[part],
        system.scratch[part],
    )


@jit_inline
def _sum_up(system: System, m: int) -> float:
    """Sum up the product of a class; return its dot product with the direction."""
    p, product = system.direction[m], system.product[m]
    for j in range(p.shape[0]):
        product[j] = p[j]
    for part in range(system.sums.shape[0]):
        for j in range(p.shape[0]):
            product[j] += system.sums[part, j, m]
    return _dot(p, product)


@jit_inline
def _solve(system: System, m: int) -> None:
    """Take the step of a class, and solve with its factor for what is left."""
    length = system.numbers[LENGTH]
    residual, solution, x = system.residual[m], system.solution[m], system.scaled[m]
    p, product, factor = system.direction[m], system.product[m], system.factors[m]
    for j in range(residual.shape[0]):
        solution[j] += length * p[j]
        residual[j] -= length * product[j]
    for j in range(x.shape[0]):
        x[j] = (residual[j] - _dot(factor[j, :j], x[:j])) / factor[j, j]
    for i in range(x.shape[0]):
        j = x.shape[0] - 1 - i
        row = factor[j]
        x[j] /= row[j]
        for c in range(j):
            x[c] -= x[j] * row[c]


@jit_inline
def _centre(system: System, part: int) -> float:
    """Let scaled residuals of some features add up to 0; return their dot product with those."""
    k, d = system.solution.shape
    start, stop = d * part // FEATURE_PARTS, d * (part + 1) // FEATURE_PARTS
    total = 0.0
    for j in range(start, stop):
        mean = 0.0
        for m in range(k):
            mean += system.scaled[m, j]
        mean /= k
        for m in range(k):
            system.scaled[m, j] -= mean
            total += system.scaled[m, j] * system.residual[m, j]
    return total


@jit_inline
def _turn(system: System, part: int) -> None:
    """Make the direction of some features conjugate to those before."""
    k, d = system.solution.shape
    start, stop = d * part // FEATURE_PARTS, d * (part + 1) // FEATURE_PARTS
    turned = system.numbers[TURNED]
    for m in range(k):
        p, scaled = system.direction[m], system.scaled[m]
        for j in range(start, stop):
            p[j] = scaled[j] + turned * p[j]
            system.V[j, m] = p[j]


@jit_sums
def _dot(a: Any, b: Any) -> float:
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total

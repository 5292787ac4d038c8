"""What sweeps and Newton steps cost, as far as that can be foreseen before the first of them.

Costs are counted in entries of X read, never in seconds, so that runs are reproducible. An entry
read in sequence takes about a nanosecond.
"""

from __future__ import annotations

from functools import singledispatch
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from .. import _tuning
from ..newton.multiclass import has_blocks, has_room
from ..problems.binary import BinaryProblem
from ..problems.multiclass import MulticlassProblem

# What a sweep costs: before it has visited a row, per row, and per block step of many classes. (Per
# entry: see `Passes`.)
SWEEP_CALL, SWEEP_ROW, SWEEP_BLOCK = 10_000.0, 100.0, 250.0

# Newton steps with blocks of classes need so many rows per weight of a class. Fewer can be
# separated at large C, where sweeps with momentum are soon done, and the steps hundreds: usps,
# Crammer-Singer, 28 rows per weight, at C = 1, 10 and 100: 2.7, 9 and over 25 s instead of 0.9, 2.5
# and 2.3.
BLOCKS_ROWS_PER_WEIGHT = 50.0


# Newton steps that cost less than so many entries, some milliseconds, or less than so many sweeps
# need no sweeps first; less than so many if the problem is stiff, C |x|^2 being at least STIFF on
# average, and has so many rows per weight that the steps are nothing but passes, which threads can
# share. Time of the hinge loss at tol = 1e-3 and C >= 1, without sweeps over with: covtype 0.7 to
# 0.9, ijcnn1 0.8 to 1.1 (worth 22 and 23 sweeps); at C <= 0.1 1.3 to 2.6.
AT_ONCE, AT_ONCE_SWEEPS = 5e6, 10.0
STIFF, ROWS_PER_WEIGHT, AT_ONCE_STIFF = 2.0, 1000.0, 25.0

# Sweeps that have to be done to judge their rate, and as a part of what Newton is worth, unless
# they are known to be slow. (mnist dense, C = 10: 13 sweeps less of each class.) Those of many
# classes are slow sooner.
FIRST_LOOK, FIRST_PART, VERY_STIFF, VERY_STIFF_MULTICLASS = 3.0, 1 / 8, 300.0, 50.0


class Costs(NamedTuple):
    """What is foreseen for a problem."""

    newton: float  # all Newton steps to a solution; inf if that cannot be foreseen
    sweep: float
    at_once: bool = False  # whether Newton steps need no sweeps before
    first_look: float = FIRST_LOOK  # sweeps that have to be done to judge their rate


@singledispatch
def costs_of(problem: Any) -> Costs:
    """Return what is foreseen for a problem: for most, that only sweeps are possible."""
    return Costs(newton=inf, sweep=SWEEP_CALL)


@costs_of.register
def _(problem: BinaryProblem) -> Costs:
    passes, n, d = problem.passes, problem.n_rows, problem.passes.n_weights
    sweep = passes.entry_time * passes.n_stored + SWEEP_ROW * n + SWEEP_CALL
    # Steps, and the part of the rows that is free, are those of a9a, w8a, ijcnn1, covtype and mnist
    # at C = 1 and 100, within a factor of two or three.
    steps, free = (10, 0.5) if problem.smooth else (35, 0.08)
    pairs = free * passes.pair_time * _pairs(problem)
    step = passes.newton_time * passes.n_stored + pairs + _factorisation(d) + 40 * n + 30_000
    stiffness = _stiffness(problem) / (1.0 if problem.smooth else problem.scale)
    newton = steps * step if d <= _tuning.DIRECT_WEIGHTS else inf
    return _in_memory(problem, newton, sweep, stiffness, VERY_STIFF)


@costs_of.register
def _(problem: MulticlassProblem) -> Costs:
    passes, n, k = problem.passes, problem.n_rows, problem.n_classes
    sweep = passes.class_time * k * passes.n_stored + SWEEP_BLOCK * n + SWEEP_CALL
    d = prod(problem.weights_shape)
    newton = inf
    if has_room(problem) and d > _tuning.DIRECT_WEIGHTS and has_blocks(problem):
        if n >= BLOCKS_ROWS_PER_WEIGHT * passes.n_weights:
            newton = _blocks_cost(problem)
    elif has_room(problem) and d <= _tuning.DIRECT_WEIGHTS:
        steps = 40 if problem.joint else 20  # as for letter
        # As many pairs of classes as there are classes, the free ones of a row being few.
        pairs = 0.4 * k * _pairs(problem)
        newton = steps * (passes.n_stored * k + pairs + _factorisation(d) + 20 * n * k + 30_000)
    return _in_memory(problem, newton, sweep, _stiffness(problem), VERY_STIFF_MULTICLASS)


def _in_memory(
    problem: BinaryProblem | MulticlassProblem,
    newton: float,
    sweep: float,
    stiffness: float,
    very_stiff: float,
) -> Costs:
    if newton == inf:
        return Costs(newton, sweep)
    worth = newton / sweep
    many_rows = problem.n_rows >= ROWS_PER_WEIGHT * prod(problem.weights_shape)
    few = AT_ONCE_STIFF if stiffness >= STIFF and many_rows else AT_ONCE_SWEEPS
    look = FIRST_LOOK if stiffness >= very_stiff else max(FIRST_LOOK, FIRST_PART * worth)
    return Costs(newton, sweep, newton <= AT_ONCE or worth <= few, look)


def _pairs(problem: Any) -> float:
    """Return the pairs of entries in a Gram matrix of all rows."""
    stored: float = problem.passes.n_stored
    return 0.5 * stored * (stored / problem.n_rows)


def _factorisation(d: int) -> float:
    return d**3 / 3 / 10  # LAPACK does ten multiplications in the time of one entry


def _blocks_cost(problem: MulticlassProblem) -> float:
    """Return what Newton steps cost with conjugate gradients that blocks of classes precondition.

    Those of mnist at C = 1. They are passes and little else, so that threads can share them, which
    a sweep cannot: half of them are counted.
    """
    passes, classes = problem.passes, problem.n_classes
    d = passes.n_weights
    pairs = 0.5 * _tuning.SAMPLE * d * passes.per_row**2 * passes.pair_time
    blocks = classes * (pairs + _factorisation(d))
    step = 0.4 * passes.n_stored * classes + blocks / 2 + 20 * problem.n_rows * classes
    return 0.5 * 45 * step


@np.errstate(over="ignore")
def _stiffness(problem: BinaryProblem | MulticlassProblem) -> float:
    """Return the mean of C |x|^2: what a row can change its response by."""
    return float(problem.cost @ problem.sqnorm) / max(int(np.count_nonzero(problem.cost)), 1)

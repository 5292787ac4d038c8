"""What sweeps and Newton steps are expected to cost, before the first of them.

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
from ..problems.multinomial import MultinomialProblem

# Costs of a sweep besides its entries (see `Passes`): per call, per row, and per block step of many
# classes.
SWEEP_CALL, SWEEP_ROW, SWEEP_BLOCK = 10_000.0, 100.0, 250.0

# Newton steps with blocks of classes need so many rows per weight of a class. Fewer rows can be
# separated at large C, where sweeps with momentum are soon done, and the steps hundreds: usps,
# Crammer-Singer, 28 rows per weight, at C = 1, 10 and 100: 2.7, 9 and over 25 s instead of 0.9, 2.5
# and 2.3. With direct steps, sweeps get the time to show it: digits, 28 rows, at C = 10: 0.06
# instead of 0.67 s. Unscaled features need the steps all the same.
ROWS_PER_CLASS_WEIGHT = 50.0

# Newton steps come first if they cost fewer than AT_ONCE entries (some milliseconds) or
# AT_ONCE_SWEEPS sweeps. AT_ONCE_STIFF sweeps are the limit if the mean of C |x|^2 is at least STIFF
# and there are so many rows per weight that the steps are only passes, which threads share. Hinge
# loss, tol = 1e-3, C >= 1: this takes 0.7 to 0.9 of the time on covtype and 0.8 to 1.1 on ijcnn1,
# where the steps cost 22 and 23 sweeps; at C <= 0.1 it would take 1.3 to 2.6.
AT_ONCE, AT_ONCE_SWEEPS = 5e6, 10.0
STIFF, ROWS_PER_WEIGHT, AT_ONCE_STIFF = 2.0, 1000.0, 25.0

# Weights, at most, of Newton steps inside a kernel: LAPACK factorises larger matrices faster.
SMALL_WEIGHTS = 128

# With many classes a step takes at least STEP_MULTICLASS, which is Python. Crammer-Singer at C = 1,
# in milliseconds by sweeps and by Newton steps: iris 1.5 and 4.6, wine 2.4 and 6.9, 1,000 x 20 of
# three classes 22 and 9. They are 220, 200 and 90 sweeps.
STEP_MULTICLASS, AT_ONCE_MULTICLASS, AT_ONCE_SWEEPS_MULTICLASS = 250_000.0, 3e7, 100.0

# A block step of the multinomial loss takes SWEEP_CLASS per class besides, and Newton's method
# STEPS_MULTINOMIAL direct steps: 10 on covtype and 7 on letter, whatever C.
SWEEP_CLASS, STEPS_MULTINOMIAL = 12.0, 8.0

# Before their rate is judged there are LEAST_SWEEPS sweeps, and LEAST_PART of the sweeps that
# Newton steps cost, unless C |x|^2 is so large that sweeps are known to be slow. (mnist dense,
# C = 10: 13 fewer sweeps for each class.) With many classes sweeps are slow sooner.
LEAST_SWEEPS, LEAST_PART, VERY_STIFF, VERY_STIFF_MULTICLASS = 3.0, 1 / 8, 300.0, 50.0


class Costs(NamedTuple):
    """What a problem is expected to cost."""

    newton: float  # all Newton steps to a solution; inf if unknown
    sweep: float
    newton_first: bool = False  # whether to begin with Newton steps
    least_sweeps: float = LEAST_SWEEPS  # before their rate is judged
    newton_step: float = inf
    small: bool = False  # whether Newton steps are taken inside a kernel


@singledispatch
def costs_of(problem: Any) -> Costs:
    """Return the expected costs of a problem; by default it has sweeps only."""
    return Costs(newton=inf, sweep=SWEEP_CALL)


@costs_of.register
def _(problem: BinaryProblem) -> Costs:
    passes, n, d = problem.passes, problem.n_rows, problem.passes.n_weights
    sweep = passes.entry_time * passes.n_stored + SWEEP_ROW * n + SWEEP_CALL
    # The steps and the share of free rows of a9a, w8a, ijcnn1, covtype and mnist at C = 1 and 100,
    # within a factor of two or three.
    steps, free = (10, 0.5) if problem.smooth else (35, 0.08)
    pairs = free * passes.pair_time * _pairs(problem)
    step = passes.newton_time * passes.n_stored + pairs + _factorisation(d) + 40 * n + 30_000
    newton = steps * step if d <= _tuning.DIRECT_WEIGHTS else inf
    if newton <= _tuning.SMALL_NEWTON and d <= SMALL_WEIGHTS and problem.penalised:
        return Costs(newton, sweep, newton_first=True, newton_step=step, small=True)
    stiffness = _stiffness(problem) / (1.0 if problem.smooth else problem.scale)
    return _costs(problem, newton, sweep, stiffness, VERY_STIFF)


@costs_of.register
def _(problem: MulticlassProblem) -> Costs:
    passes, n, k = problem.passes, problem.n_rows, problem.n_classes
    sweep = passes.class_time * k * passes.n_stored + SWEEP_BLOCK * n + SWEEP_CALL
    d = prod(problem.weights_shape)
    newton, many_rows = inf, n >= ROWS_PER_CLASS_WEIGHT * passes.n_weights
    if has_room(problem) and d > _tuning.DIRECT_WEIGHTS and has_blocks(problem):
        if many_rows:
            newton = _cost_with_blocks(problem)
    elif has_room(problem) and d <= _tuning.DIRECT_WEIGHTS:
        steps = 40 if problem.joint else 20  # as for letter
        # As many pairs of classes as there are classes, since few are free in a row.
        pairs = 0.4 * k * _pairs(problem)
        work = passes.n_stored * k + pairs + _factorisation(d) + 20 * n * k
        newton = steps * (work + STEP_MULTICLASS)
        if newton <= AT_ONCE_MULTICLASS and newton <= AT_ONCE_SWEEPS_MULTICLASS * sweep:
            return Costs(newton, sweep, newton_first=True)
    very_stiff = VERY_STIFF_MULTICLASS if many_rows else inf
    return _costs(problem, newton, sweep, _stiffness(problem), very_stiff)


@costs_of.register
def _(problem: MultinomialProblem) -> Costs:
    passes, n, k = problem.passes, problem.n_rows, problem.n_classes
    sweep = passes.class_time * k * passes.n_stored + (SWEEP_BLOCK + SWEEP_CLASS * k) * n
    d, newton = prod(problem.weights_shape), inf
    many_rows = n >= ROWS_PER_CLASS_WEIGHT * passes.n_weights
    if has_room(problem) and d <= _tuning.DIRECT_WEIGHTS:
        gram = passes.n_stored + passes.pair_time * _pairs(problem)
        work = 0.5 * k * (k + 1) * gram + 3 * passes.n_stored * k + 20 * n * k
        newton = STEPS_MULTINOMIAL * (work + _factorisation(d) + STEP_MULTICLASS)
    elif has_room(problem) and has_blocks(problem) and many_rows:
        newton = _cost_with_blocks(problem)
    very_stiff = VERY_STIFF_MULTICLASS if many_rows else inf
    return _costs(problem, newton, sweep + SWEEP_CALL, _stiffness(problem), very_stiff)


def _costs(
    problem: BinaryProblem | MulticlassProblem,
    newton: float,
    sweep: float,
    stiffness: float,
    very_stiff: float,
) -> Costs:
    """Return the costs, with whether to begin with Newton steps and after how many sweeps."""
    if newton == inf:
        return Costs(newton, sweep)
    in_sweeps = newton / sweep
    many_rows = problem.n_rows >= ROWS_PER_WEIGHT * prod(problem.weights_shape)
    few = AT_ONCE_STIFF if stiffness >= STIFF and many_rows else AT_ONCE_SWEEPS
    least = LEAST_SWEEPS if stiffness >= very_stiff else max(LEAST_SWEEPS, LEAST_PART * in_sweeps)
    return Costs(newton, sweep, newton <= AT_ONCE or in_sweeps <= few, least)


def _pairs(problem: BinaryProblem | MulticlassProblem) -> float:
    """Return the pairs of entries in a Gram matrix of all rows."""
    stored = problem.passes.n_stored
    return 0.5 * stored * (stored / problem.n_rows)


def _factorisation(d: int) -> float:
    return d**3 / 3 / 10  # LAPACK does ten multiplications in the time of one entry


def _cost_with_blocks(problem: MulticlassProblem) -> float:
    """Return the cost of Newton steps by conjugate gradients, preconditioned by class blocks.

    The numbers are those of mnist at C = 1. Half the cost counts: the steps are passes and little
    else, which threads can share, while a sweep stays on one thread.
    """
    passes, classes = problem.passes, problem.n_classes
    d = passes.n_weights
    pairs = 0.5 * _tuning.SAMPLE * d * passes.per_row**2 * passes.pair_time
    blocks = classes * (pairs + _factorisation(d))
    step = 0.4 * passes.n_stored * classes + blocks / 2 + 20 * problem.n_rows * classes
    return 0.5 * 45 * step


@np.errstate(over="ignore")
def _stiffness(problem: BinaryProblem | MulticlassProblem) -> float:
    """Return the mean of C |x|^2: how much one row can change its own response."""
    return float(problem.cost @ problem.sqnorm) / max(int(np.count_nonzero(problem.cost)), 1)

"""Dual coordinate descent: order, sweep, now and then a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .problem import AnyProblem
from .rows import n_stored
from .run import Run
from .schedules import Schedule

__all__ = ["gap_left", "sweeps"]

# A certificate reads every row twice, in sequence and in float64, which takes as long as 0.5 to 2
# sweeps (w in cache; w of a million features). It is computed when the gap seen by the sweeps says
# it will hold, and every CHECK_EVERY sweeps. After the first, those that do not hold may cost up to
# CHECK_BUDGET of the run.
CHECK_COST = 1.0
CHECK_BUDGET = 0.15
CHECK_EVERY = 16.0

# The gap at the end of a sweep is less than what its visits saw: it fell on the way. Half of the
# fall since the sweep before, in logarithms and within these limits, is a fair guess (on the data
# sets of the benchmarks); a certificate corrects it by up to CORRECTION. Before there is one, the
# estimate has to be below UNCORRECTED times tol: a certificate that fails costs more than a sweep.
LEAST_LEFT, MOST_LEFT = 0.2, 0.8
CORRECTION = 2.0
UNCORRECTED = 0.85

# Sweeps keep w in float32 where X is float32 and tol is at least this: half the cache misses on
# text. Rounding then costs a relative gap of some 1e-6.
FLOAT32_TOL = 1e-4

# Where the gap is still more than this part of what it was a certificate ago, float32 may be what
# keeps it from closing, and sweeps go on in float64.
FLOAT32_PROGRESS = 0.9

# Entries visited between two looks at the clock and at the stop flag: at most about 0.1 s.
ENTRIES_PER_CALL = 20_000_000

# Rounding errors of primal and gap, relative to the primal, that a proof has to allow for.
ROUNDING = 1e-14


def sweeps(run: Run, plan: Schedule, give_up: Callable[[float], bool]) -> None:
    """Sweep until the run is over, or until `give_up`, told the relative gap, says so."""
    problem = run.problem
    n = len(run.candidates)
    fast = problem.rows.data.dtype == np.float32 and run.tol >= FLOAT32_TOL
    w: Any = run.w.astype(np.float32) if fast else run.w
    grads, gains = np.empty(n), np.empty(n)
    shares = np.zeros(len(problem.y))
    dual = run.dual
    seen = run.gap
    correction = 1.0
    visits = visits_at_check = checks = 0
    leave = False
    while not run.over and not leave and len(plan.rows):
        order = plan.next_order()
        done = 0
        for part in _parts(problem, order):
            dual += problem.sweep(
                plan.shrunk, order[part], run.alpha, w, grads[part], gains[part], shares
            )
            done = part.stop
            if run.poll():
                break
        plan.observe(order[:done], grads[:done], gains[:done])
        visits += done
        seen_before, seen = seen, float(shares.sum())
        estimate = correction * gap_left(seen, seen_before)
        relative_gap = estimate / (dual + estimate)
        run.tick(relative_gap, w)

        leave = give_up(relative_gap)
        promising = relative_gap <= (run.tol if checks else UNCORRECTED * run.tol)
        affordable = (checks - 1) * CHECK_COST * n <= CHECK_BUDGET * visits
        due = visits - visits_at_check >= CHECK_EVERY * n
        last = leave or run.halted or run.epoch >= run.max_iter
        if not (last or (affordable and (promising or due))):
            continue
        gap_before = run.gap
        run.check()
        if estimate > 0.0:
            correction *= run.gap / estimate
            correction = min(max(correction, 1.0 / CORRECTION), CORRECTION)
        checks += 1
        visits_at_check = visits
        dual = run.dual
        if promising:
            plan.expand()
        plan.restrict(_proven(run))
        run.active = len(plan.rows)
        if w is not run.w:
            if run.gap > FLOAT32_PROGRESS * gap_before:
                w = run.w
            else:
                w[:] = run.w


def gap_left(seen: float, before: float) -> float:
    """Guess the gap at the end of a sweep from what its visits saw, and those of the one before."""
    left = float(np.sqrt(seen / before)) if before > 0 else 1.0
    return min(max(left, LEAST_LEFT), MOST_LEFT) * seen


def _parts(problem: AnyProblem, order: Any) -> Iterator[slice]:
    """Cut a sweep into calls that are short enough to react between them."""
    per_row = (n_stored(problem.rows) / len(problem.y) + 1) * max(
        problem.weights_shape[1:], default=1
    )
    length = max(int(ENTRIES_PER_CALL / per_row), 1)
    for start in range(0, len(order), length):
        yield slice(start, min(start + length, len(order)))


def _proven(run: Run) -> Any:
    """Return a mask over all rows: those whose dual variables are proven to be optimal.

    The primal is 1-strongly convex, so ``|w - w*| <= sqrt(2 gap)`` (the gap-safe rule of Ndiaye et
    al. 2017).
    """
    radius = float(np.sqrt(2.0 * (run.gap + ROUNDING * run.primal)))
    proven = np.zeros(len(run.problem.y), dtype=bool)
    settled = run.problem.settled(run.candidates, run.alpha, run.slack, radius)
    proven[run.candidates[settled]] = True
    return proven

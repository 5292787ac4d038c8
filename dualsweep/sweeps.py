"""Dual coordinate descent: order, sweep, now and then a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .momentum import Momentum
from .problem import AnyProblem, relative
from .rows import n_stored
from .run import Run
from .schedules import Schedule

__all__ = ["gap_left", "sweeps", "sweeps_left"]

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

# Momentum is taken up after FIRST_HURRY sweeps if more than WORTH_HURRY are left, with the larger
# scale if there are FAR more. It lets go when the gap of w and alpha is ENOUGH times tol: a few
# sweeps without then make it that of alpha and its weights. Where these are slow again, it comes
# back for longer, and at last no more. The LAST_SWEEPS before max_iter are without, too: what
# counts in the end are alpha and its weights.
#
# Sweeps to a gap of 1e-3 on blogs: 395 become 211 at C = 100 (hinge), 208 become 118 (squared
# hinge), at C = 1000 more than 1,900 become 577. Where the guess is wrong it costs: 99 instead of
# 87 on separable rows; and with FIRST_HURRY = 24, to a gap of 1e-6, 254 instead of 151.
FIRST_HURRY = 32
WORTH_HURRY = 40.0
SCALE, SCALE_FAR, FAR = 4.0, 8.0, 800.0
ENOUGH = (10.0, 3.0, 1.0, 0.3, 0.1, np.inf)
LAST_SWEEPS = 16

# Entries visited between two looks at the clock and at the stop flag: at most about 0.1 s.
ENTRIES_PER_CALL = 20_000_000

# Rounding errors of primal and gap, relative to the primal, that a proof has to allow for.
ROUNDING = 1e-14


def sweeps(run: Run, plan: Schedule, give_up: Callable[[float], bool]) -> None:
    """Sweep until the run is over, or until `give_up`, told the relative gap, says so."""
    run.narrow = run.problem.rows.data.dtype == np.float32 and run.tol >= FLOAT32_TOL
    shares = np.zeros(len(run.problem.y))  # of the gap, as each row's latest visit saw them
    for enough in ENOUGH:
        left = _plain_sweeps(run, plan, give_up, shares, enough if plan.hurried else np.inf)
        if left is None:
            break
        scale = SCALE if left < FAR else SCALE_FAR
        if not _hurried_sweeps(run, plan, give_up, shares, scale, enough):
            break


def _plain_sweeps(
    run: Run, plan: Schedule, give_up: Callable[[float], bool], shares: Any, enough: float
) -> float | None:
    """Sweep to the end, or as long as momentum would not be worth it.

    Returns how many sweeps are left in the latter case. Momentum is of no use once the gap is below
    `enough` times tol.
    """
    problem = run.problem
    n = len(run.candidates)
    w: Any = run.w.astype(np.float32) if run.narrow else run.w
    seen, dual = run.gap, run.dual
    correction = 1.0
    visits = visits_at_check = checks = 0
    gaps: list[float] = []
    leave = slow = False
    while not run.over and not leave and not slow and len(plan.rows):
        done, gain = _sweep(run, problem, plan, w, shares)
        visits += done
        dual += gain
        seen_before, seen = seen, float(shares.sum())
        estimate = correction * gap_left(seen, seen_before)
        relative_gap = relative(estimate, dual + estimate)
        run.tick(relative_gap, w)
        gaps.append(relative_gap)

        leave = give_up(relative_gap)
        slow = (
            len(gaps) >= FIRST_HURRY
            and run.epoch < run.max_iter - LAST_SWEEPS
            and relative_gap > enough * run.tol
            and sweeps_left(gaps, run.tol) > WORTH_HURRY
        )
        promising = relative_gap <= (run.tol if checks else UNCORRECTED * run.tol)
        affordable = (checks - 1) * CHECK_COST * n <= CHECK_BUDGET * visits
        due = visits - visits_at_check >= CHECK_EVERY * n
        last = leave or slow or run.halted or run.epoch >= run.max_iter
        if not (last or (affordable and (promising or due))):
            continue
        gap_before = run.gap
        _check(run, plan, expand=promising)
        if estimate > 0.0:
            correction *= run.gap / estimate
            correction = min(max(correction, 1.0 / CORRECTION), CORRECTION)
        checks += 1
        visits_at_check = visits
        dual = run.dual
        run.narrow = run.narrow and run.gap <= FLOAT32_PROGRESS * gap_before
        w = run.w.astype(np.float32) if run.narrow else run.w
    hurry = slow and not leave and not run.over and len(plan.rows) > 0
    return sweeps_left(gaps, run.tol) if hurry else None


def _hurried_sweeps(
    run: Run,
    plan: Schedule,
    give_up: Callable[[float], bool],
    shares: Any,
    scale: float,
    enough: float,
) -> bool:
    """Sweep with momentum until the relative gap is `enough` times tol; return whether to go on.

    The gap is that of w and alpha, w not being the weights of alpha yet.
    """
    w: Any = run.w.astype(np.float32 if run.narrow else np.float64)
    momentum = Momentum(run.problem, scale, w, run.dual)
    seen, gap_before = run.gap / scale, run.gap
    visits = 0
    run.alpha *= 1.0 / scale
    shares *= 1.0 / scale
    while True:
        momentum.advance(w)
        done, gain = _sweep(run, momentum.problem, plan, w, shares)
        visits += done
        seen_before, seen = seen, float(shares.sum())
        dual, gap = momentum.observe(w, gain, gap_left(seen, seen_before))
        relative_gap = relative(gap, dual + gap)
        run.tick(relative_gap, w)
        leave = give_up(relative_gap)
        arrived = relative_gap <= enough * run.tol
        last = leave or arrived or run.halted or run.epoch >= run.max_iter - LAST_SWEEPS
        if not last and visits < CHECK_EVERY * len(run.candidates):
            continue
        run.alpha *= scale
        _check(run, plan, expand=False)
        if last or run.over or not len(plan.rows):
            shares *= scale
            return not leave
        run.alpha *= 1.0 / scale
        run.narrow = run.narrow and gap <= FLOAT32_PROGRESS * gap_before
        if not run.narrow:
            w = w.astype(np.float64, copy=False)
        momentum.recompute(w, run.w, run.dual)
        gap_before, visits = gap, 0


def _sweep(run: Run, problem: AnyProblem, plan: Schedule, w: Any, shares: Any) -> tuple[int, float]:
    """Do one sweep, unless told to stop; return the number of visits and what the dual gained."""
    order = plan.next_order()
    grads, gains = np.empty(len(order)), np.empty(len(order))
    done, gain = 0, 0.0
    for part in _parts(problem, order):
        gain += problem.sweep(
            plan.shrunk, order[part], run.alpha, w, grads[part], gains[part], shares
        )
        done = part.stop
        if run.poll():
            break
    plan.observe(order[:done], grads[:done], gains[:done])
    return done, gain


def _check(run: Run, plan: Schedule, expand: bool) -> None:
    """Compute a certificate, and leave out what it proves."""
    run.check()
    if expand:
        plan.expand()
    plan.restrict(_proven(run))
    run.active = len(plan.rows)


def sweeps_left(gaps: list[float], tol: float) -> float:
    """Guess how many more sweeps prove tol, from the gaps after those that were done.

    By how fast the gap fell over the second half of them.
    """
    n = len(gaps)
    then, now = gaps[n // 2 - 1], gaps[-1]
    if not now > tol:
        return 0.0
    if not then > now:
        return np.inf
    return (n - n // 2) * float(np.log(now / tol) / np.log(then / now))


def gap_left(seen: float, before: float) -> float:
    """Guess the gap at the end of a sweep from what its visits saw, and those of the one before."""
    seen = max(seen, 0.0)  # shares are never negative but for rounding
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

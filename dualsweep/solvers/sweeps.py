"""Dual coordinate descent: order, sweep, now and then a certificate."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import singledispatch
from typing import Any, Protocol, TypeAlias

import numpy as np

from .. import _tuning
from .._random import random_state
from .._typing import Array
from ..kernels.certificate import relative
from ..problems.binary import BinaryProblem
from ..problems.multiclass import MulticlassProblem
from ..problems.run import Estimate, PointRun, gap_left
from .momentum import Momentum
from .policy import Policy
from .schedules import SCHEDULES

# A certificate is computed when the gap that sweeps see says that it will prove tol, and every now
# and then. The failed ones after the first may cost up to CHECK_BUDGET of the run. Before the first
# the gap has to be below UNCORRECTED times tol: a certificate that fails costs more than a sweep.
CHECK_BUDGET, UNCORRECTED = 0.15, 0.85

# Sweeps keep w in float32 where X is float32 and tol is at least this: half the cache misses on
# text. Rounding then costs a relative gap of some 1e-6.
FLOAT32_TOL = 1e-4

# Sweeps go on in float64 if, since the last certificate, the gap has not fallen to this part of
# what it was: float32 may be what keeps it from closing.
FLOAT32_PROGRESS = 0.9

# Rounding errors of primal and gap, relative to the primal, that a proof has to allow for.
PROOF_ROUNDING = 1e-14

Swept: TypeAlias = BinaryProblem | MulticlassProblem


class Sweeper(Protocol):
    """How the rows of a problem are swept once, wherever they are."""

    check_every: float  # visits per row between two certificates
    check_cost: float  # of a certificate, in visits per row
    correction: float  # by which factor a certificate may correct the gap that sweeps see
    seen: float  # sum of the rows' shares of the gap, as the latest sweep visited them

    @property
    def n_left(self) -> int:
        """Rows whose dual variables are not proven to be optimal."""

    def sweep(self, run: PointRun, w: Array) -> tuple[int, float]:
        """Do one sweep, unless told to stop; return the number of visits and the dual's gain."""

    def check(self, run: PointRun, expand: bool) -> None:
        """Compute a certificate and leave out rows proven optimal.

        With `expand`, take back rows that were left out on suspicion.
        """


@singledispatch
def sweeper_of(problem: Any) -> Callable[..., Any]:
    """Return what makes the `Sweeper` of a problem from a run, a schedule and a seed."""
    raise TypeError(f"There are no sweeps over a {type(problem).__name__}.")


def sweeps(run: PointRun, sweeper: Sweeper, policy: Policy) -> None:
    """Sweep until the run is over, or until the policy wants Newton steps."""
    w = _working_weights(run)
    swept = run.resumed  # whether there is a sweep to judge
    while True:
        if swept:
            newton, momentum = policy.wants_newton(), policy.wants_momentum(run.epoch)
            if _certify_if_due(run, sweeper, last=newton or momentum):
                if newton or run.over or not sweeper.n_left:
                    return
                if momentum:
                    sweep_with_momentum(run, sweeper, policy)
                    if policy.wants_newton():
                        return
                    policy.end_momentum()
                    run.estimate = Estimate(run.gap, run.dual)
                w = _working_weights(run)
        if run.over or not sweeper.n_left:
            return
        visits, gain = sweeper.sweep(run, w)
        relative_gap = run.estimate.observe(sweeper.seen, gain, visits)
        policy.observe(relative_gap)
        run.tick(relative_gap, w)
        swept = True


def _working_weights(run: PointRun) -> Array:
    return run.w.astype(np.float32) if run.narrow else run.w


def _certify_if_due(run: PointRun, sweeper: Sweeper, last: bool) -> bool:
    """Compute a certificate if it is due or after the last sweep; return whether it was."""
    n, seen = len(run.candidates), run.estimate
    promising = seen.relative_gap <= (run.tol if seen.checks else UNCORRECTED * run.tol)
    affordable = (seen.checks - 1) * sweeper.check_cost * n <= CHECK_BUDGET * seen.visits
    due = seen.visits - seen.visits_at_check >= sweeper.check_every * n
    last = last or run.halted or run.epoch >= run.max_iter
    if not (last or (affordable and (promising or due))):
        return False
    gap_before = run.gap
    sweeper.check(run, expand=promising)
    seen.correct(run.gap, run.dual, sweeper.correction)
    run.narrow = run.narrow and run.gap <= FLOAT32_PROGRESS * gap_before
    return True


def sweep_with_momentum(run: PointRun, sweeper: Any, policy: Policy) -> None:
    """Sweep with momentum until the relative gap reaches the policy's goal.

    The gap is that of w and alpha, where w are not the weights of alpha. If momentum does not help,
    alpha goes back to what it was, unless its dual objective is better now.
    """
    before, rows, dual_before = copy(run.alpha), sweeper.plan.rows, run.dual
    scale = policy.begin_momentum()
    w = run.w.astype(np.float32 if run.narrow else np.float64)
    momentum = Momentum(run.problem, scale, w, run.dual)
    seen, gap_before = run.gap / scale, run.gap
    visits = 0
    run.alpha *= 1.0 / scale
    sweeper.shares *= 1.0 / scale
    while True:
        momentum.advance(w)
        done, gain = sweeper.sweep(run, w, momentum.problem)
        visits += done
        seen_before, seen = seen, sweeper.seen
        dual, gap = momentum.observe(w, gain, gap_left(seen, seen_before))
        relative_gap = relative(gap, dual + gap)
        run.tick(relative_gap, w)
        policy.observe(relative_gap)
        arrived = relative_gap <= policy.momentum_goal
        last = policy.wants_newton() or arrived or run.halted or policy.nears_max_iter(run.epoch)
        given_up = not (last or policy.momentum_helps())
        last = last or given_up
        if not last and visits < sweeper.check_every * len(run.candidates):
            continue
        run.alpha *= scale
        sweeper.check(run, expand=False)
        if last or run.over or not sweeper.n_left:
            with np.errstate(over="ignore"):  # shares of a gap near the largest float
                sweeper.shares *= scale
            if given_up and run.dual < dual_before:
                run.alpha, sweeper.plan.rows = before, rows
                sweeper.plan.expand()
                run.active = len(rows)
                run.check()
            return
        run.alpha *= 1.0 / scale
        run.narrow = run.narrow and gap <= FLOAT32_PROGRESS * gap_before
        if not run.narrow:
            w = w.astype(np.float64, copy=False)
        momentum.recompute(w, run.w, run.dual)
        gap_before, visits = gap, 0


class MemorySweeper:
    """Sweeps over rows in memory, in the order of a schedule."""

    # A certificate reads every row twice, in sequence and in float64, which takes as long as 0.5
    # sweeps (w in cache) to 2 (w of a million features).
    check_every, check_cost = 16.0, 1.0
    correction = 2.0

    def __init__(self, run: PointRun, schedule: str, seed: tuple[int, ...]) -> None:
        self.problem: Swept = run.problem
        self.plan = SCHEDULES[schedule](run.candidates, random_state(*seed))
        self.shares = np.zeros(self.problem.n_rows)
        per_row = self.problem.passes.per_row * max(self.problem.weights_shape[1:], default=1)
        self.step = max(int(_tuning.ENTRIES_PER_CALL / per_row), 1)  # rows per kernel call
        self.seen = 0.0
        run.narrow = self.problem.passes.rows.data.dtype == np.float32 and run.tol >= FLOAT32_TOL

    @property
    def n_left(self) -> int:
        return len(self.plan.rows)

    def sweep(self, run: PointRun, w: Array, problem: Swept | None = None) -> tuple[int, float]:
        problem = problem or self.problem
        plan, step = self.plan, self.step
        order = plan.next_order()
        n = len(order)
        grads, gains = np.empty(n), np.empty(n)
        done, gain = 0, 0.0
        for start in range(0, n, step):
            part = slice(start, start + step)
            gained, self.seen = problem.sweep(
                shrunk=plan.shrunk,
                order=order[part],
                alpha=run.alpha,
                w=w,
                grads=grads[part],
                gains=gains[part],
                shares=self.shares,
            )
            gain += gained
            done = min(part.stop, n)
            if run.poll():
                break
        plan.observe(order[:done], grads[:done], gains[:done])
        return done, gain

    def check(self, run: PointRun, expand: bool) -> None:
        run.check()
        if run.converged:  # no sweep follows
            return
        if expand:
            self.plan.expand()
        self.plan.restrict(proven_rows(run, self.problem))
        run.active = len(self.plan.rows)


def proven_rows(run: PointRun, problem: Swept) -> Array:
    """Return a mask over all rows: those whose dual variables are proven to be optimal.

    The primal is 1-strongly convex, so ``|w - w*| <= sqrt(2 gap)`` (the gap-safe rule of Ndiaye et
    al. 2017).
    """
    radius = float(np.sqrt(2.0 * (run.gap + PROOF_ROUNDING * run.primal)))
    proven = np.zeros(problem.n_rows, dtype=bool)
    settled = problem.settled(run.alpha, run.slack, radius)
    proven[run.candidates[settled]] = True
    return proven

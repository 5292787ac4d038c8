"""The loop: order, sweep, now and then a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

from ._random import random_state
from .kernels.binary import sweep
from .kernels.certificate import certify, weights
from .problem import HISTORY_DTYPE, Problem, Progress, Result
from .rows import n_stored
from .schedules import SCHEDULES

__all__ = ["solve"]

# A certificate reads every row once or twice, in sequence: about 0.6 of a sweep over all rows. It
# is computed when the gap seen by the sweeps says it will hold, and every CHECK_EVERY sweeps; those
# that do not hold may cost up to CHECK_BUDGET of the run.
CHECK_COST = 0.6
CHECK_BUDGET = 0.15
CHECK_EVERY = 8.0

# What is left of the gap at the end of a sweep, as a part of what the visits of the sweep saw; the
# start of a running calibration (0.1 to 1 on the data sets of the benchmarks).
STALE_GAP_LEFT = 0.5

# Sweeps keep w in float32 where X is float32 and tol is at least this: half the cache misses on
# text. Rounding then costs a relative gap of some 1e-6.
FLOAT32_TOL = 1e-4

# Entries visited between two looks at the clock and at `stop`: at most about 0.1 s.
ENTRIES_PER_CALL = 20_000_000

# Rounding errors of primal and gap, relative to the primal, that a proof has to allow for.
ROUNDING = 1e-14


def solve(
    problem: Problem,
    *,
    schedule: str = "auto",
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float = np.inf,
    seed: tuple[int, ...] = (0,),
    alpha: Any = None,
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], bool] = lambda progress: False,
) -> Result:
    """Minimise the dual by sweeps until the relative duality gap is proven to be at most `tol`.

    Parameters
    ----------
    problem : Problem
        Rows, labels, costs and loss.
    schedule : str
        A name from `dualsweep.schedules.SCHEDULES`.
    tol : float
        Relative duality gap to prove.
    max_iter : int
        Sweeps to give up after.
    max_time : float
        Seconds to give up after.
    seed : tuple of int
        Seeds the random order; the same seed gives bitwise the same result.
    alpha : array of shape (n_rows,), optional
        Feasible dual variables to start from; overwritten. Zeros if not given.
    stop : callable
        Asked some ten times a second; true ends the loop with what there is.
    watch : callable
        Called after each sweep; true ends the loop as well.

    Returns
    -------
    Result
        Facts only: whether it converged is for the caller to judge.
    """
    started = perf_counter()
    candidates = np.flatnonzero(problem.cost > 0)
    n = len(candidates)
    warm = alpha is not None
    if alpha is None:
        alpha = np.zeros(len(problem.y))
    w = np.zeros(problem.n_weights)
    slack = np.empty(n)
    history: list[Any] = []
    epoch = 0

    def check() -> tuple[float, float]:
        """Recompute w from alpha, then the primal and the gap."""
        weights(problem.rows, problem.y, alpha, w)
        primal, gap = certify(
            problem.rows, problem.y, problem.cost, problem.loss, candidates, alpha, w, slack
        )
        seconds = perf_counter() - started
        history.append((0, seconds, epoch, primal, primal - gap, gap, len(plan.rows)))
        return primal, gap

    plan = SCHEDULES[schedule](candidates, random_state(*seed))
    # At w = 0 every loss is 1, whatever the data.
    primal, gap = check() if warm else (float(problem.cost.sum()),) * 2
    fast = problem.rows.data.dtype == np.float32 and tol >= FLOAT32_TOL
    working_w: Any = w.astype(np.float32) if fast else w

    grads, gains = np.empty(n), np.empty(n)
    dual = primal - gap
    left = STALE_GAP_LEFT
    visits = visits_at_check = checks = 0
    halted = False
    while gap > tol * primal and epoch < max_iter and not halted and len(plan.rows):
        order = plan.next_order()
        stale_gap = 0.0
        done = 0
        for part in _parts(problem, order):
            gain, seen = sweep(
                problem.rows,
                problem.sqnorm,
                problem.y,
                problem.cost,
                problem.loss,
                order[part],
                alpha,
                working_w,
                grads[part],
                gains[part],
            )
            dual += gain
            stale_gap += seen
            done = part.stop
            halted = stop() or perf_counter() - started > max_time
            if halted:
                break
        plan.observe(order[:done], grads[:done], gains[:done])
        epoch += 1
        visits += done

        estimate = left * stale_gap
        promising = estimate <= tol * (dual + estimate)
        affordable = checks * CHECK_COST * n <= CHECK_BUDGET * visits
        halted |= watch(Progress(epoch, estimate / (dual + estimate), len(plan.rows), working_w))
        due = visits - visits_at_check >= CHECK_EVERY * n
        if not (halted or epoch == max_iter or (affordable and (promising or due))):
            continue
        primal, gap = check()
        checks += 1
        visits_at_check = visits
        dual = primal - gap
        if stale_gap > 0.0:
            left = min(gap / stale_gap, 1.0)
        if promising:
            plan.expand()
        plan.restrict(_proven(problem, candidates, alpha, slack, primal, gap))
        if working_w is not w:
            if promising and gap > 2 * stale_gap:
                working_w = w  # float32 is what keeps the gap from closing
            else:
                working_w[:] = w

    return Result(
        w=w,
        alpha=alpha,
        primal=primal,
        gap=gap,
        converged=gap <= tol * primal,
        n_iter=epoch,
        history=np.array(history, HISTORY_DTYPE),
    )


def _parts(problem: Problem, order: Any) -> Iterator[slice]:
    """Cut a sweep into calls that are short enough to react between them."""
    per_row = n_stored(problem.rows) / len(problem.y) + 1
    length = max(int(ENTRIES_PER_CALL / per_row), 1)
    for start in range(0, len(order), length):
        yield slice(start, min(start + length, len(order)))


def _proven(
    problem: Problem, candidates: Any, alpha: Any, slack: Any, primal: float, gap: float
) -> Any:
    """Return a mask over all rows: those at a bound where every optimal alpha has them.

    The primal is 1-strongly convex, so ``|w - w*| <= sqrt(2 gap)``, and the slack of row i at the
    optimum differs from the one at w by at most that times ``|x_i|`` (the gap-safe rule of
    Ndiaye et al. 2017). A row whose slack is thereby known to be negative has alpha at its lower
    bound, one whose slack is positive at its upper bound if it has one.
    """
    radius = np.sqrt(2.0 * (gap + ROUNDING * primal))
    reach = radius * np.sqrt(problem.sqnorm[candidates])
    a = alpha[candidates]
    upper = problem.cost[candidates] * problem.loss.upper
    fixed = ((slack < -reach) & (a == problem.loss.lower)) | ((slack > reach) & (a == upper))
    proven = np.zeros(len(alpha), dtype=bool)
    proven[candidates[fixed]] = True
    return proven

"""Problems whose intercept is not penalised: Newton steps, or sweeps around centres."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _tuning
from .._clock import clock
from ..problems.free import FreeProblem
from ..problems.result import Progress, Result
from ..problems.run import PointRun
from .solve import Start, Started, solve, start_run

# Of a free intercept, sweeps around one centre after the other: how many at most, which part of tol
# the first of them are to prove, and those that follow of what the one before was; how far the next
# centre is at most, in moves of the intercept.
MOST_CENTRES, INNER_TOL, TIGHTER, FURTHEST = 30, 0.7, 0.7, 100.0


@start_run.register
def _(
    problem: FreeProblem,
    *,
    solver: str = "auto",
    schedule: str = "auto",
    seed: tuple[int, ...] = (0,),
    start: Start = Start(),  # noqa: B008
    saving: None = None,
    **limits: Any,
) -> Started:
    run = PointRun(problem, alpha=start.alpha, known=start.known, **limits)
    if not run.alpha.any():
        run.check()  # with the best intercept, and no weights
    few = run.w.size <= _tuning.DIRECT_WEIGHTS
    first = solver == "newton" or (solver == "auto" and few)

    def finish() -> Result:
        if not (run.over or run.poll()):  # or Newton steps got stuck
            _sweep_around_centres(problem, run, schedule, seed)
        return run.finish()

    return Started(run, first and not (run.over or run.poll()), finish)


def _sweep_around_centres(
    problem: FreeProblem, run: PointRun, schedule: str, seed: tuple[int, ...]
) -> None:
    """Sweep with a penalty on what a free intercept is off a centre by, for a sequence of centres.

    The penalised intercept is off by ``bias^2 sum_i y_i a_i``, so the constraint holds at the
    centre at which it stays. To go where it went are proximal point steps on the intercept, or the
    method of multipliers for the constraint (Rockafellar 1976); where two centres tell how the move
    depends on them, the next is where it vanishes, if that is further. On text the first centre or
    two are enough: a penalty on one weight is nothing beside the losses of all rows.
    """
    bias = problem.passes.rows.bias
    centre, alpha = float(run.w[-1]), run.alpha
    last_centre, last_move = centre, 0.0

    def watch(progress: Progress) -> bool:
        w = progress.w.copy()
        w[-1] += centre
        run.tick(progress.relative_gap, w)
        return run.halted

    for turn in range(MOST_CENTRES):
        inner = solve(
            problem.centred(centre * bias),
            solver="sweep",
            schedule=schedule,
            tol=INNER_TOL * TIGHTER**turn * run.tol,
            max_iter=run.max_iter - run.epoch,
            max_time=run.deadline - clock(),
            seed=(*seed, turn),
            start=Start(alpha.copy()),
            stop=run.poll,
            watch=watch,
        )
        alpha = inner.alpha
        run.alpha = alpha.copy()
        run.check()
        if run.over or run.poll():
            return
        move = float(inner.w[-1])
        ahead = move
        if last_move != 0.0 and (move - last_move) * (centre - last_centre) < 0.0:
            ahead = -move * (centre - last_centre) / (move - last_move)
        last_centre, last_move = centre, move
        centre += float(np.clip(ahead, min(move, FURTHEST * move), max(move, FURTHEST * move)))

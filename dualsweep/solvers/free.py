"""Problems whose intercept is not penalised: Newton steps, or sweeps around centres."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _tuning
from .._clock import clock
from ..problems.free import FreeProblem
from ..problems.multinomial import FreeMultinomialProblem
from ..problems.result import Progress, Result
from ..problems.run import PointRun
from .solve import Start, Started, solve, start_run

# How many centres there are at most. The first run of sweeps proves INNER_TOL times tol, and each
# later one TIGHTER times what the one before did. A centre moves by at most FURTHEST times what
# the intercept moved.
MOST_CENTRES, INNER_TOL, TIGHTER, FURTHEST = 30, 0.7, 0.7, 100.0


@start_run.register(FreeProblem)
@start_run.register(FreeMultinomialProblem)
def _(
    problem: FreeProblem | FreeMultinomialProblem,
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
        run.check()  # finds the best intercept of zero weights
    few = run.w.size <= _tuning.DIRECT_WEIGHTS
    newton = solver == "newton" or (solver == "auto" and few)

    def finish() -> Result:
        if not (run.over or run.poll()):  # no Newton steps, or they got stuck
            _sweep_around_centres(problem, run, schedule, seed)
        return run.finish()

    return Started(run, newton and not (run.over or run.poll()), finish)


def _sweep_around_centres(
    problem: FreeProblem | FreeMultinomialProblem,
    run: PointRun,
    schedule: str,
    seed: tuple[int, ...],
) -> None:
    """Penalise the intercept's distance from a centre; move the centre until it stays.

    The penalised intercept is off the centre by ``bias^2 sum_i y_i a_i``, so the dual's constraint
    holds once it stays there. Moving the centre to the intercept is a proximal point step, the
    method of multipliers for the constraint (Rockafellar 1976). From the moves at two centres the
    secant method predicts where the move vanishes; the centre goes there if that is further. Text
    takes a centre or two: a penalty on one weight is small beside the losses of all rows. Each of
    several intercepts has a centre and a secant of its own.
    """
    bias = problem.passes.rows.bias
    centre, alpha = np.array(run.w[-1]), run.alpha
    last_centre, last_move = centre, np.zeros_like(centre)
    scale = 1.0  # of the intercepts' weights, from one problem to the other

    def watch(progress: Progress) -> bool:
        w = progress.w.copy()
        w[-1] = scale * w[-1] + centre
        run.tick(progress.relative_gap, w)
        return run.halted

    for turn in range(MOST_CENTRES):
        around = problem.centred(bias * centre)
        scale = around.passes.rows.bias / bias
        inner = solve(
            around,
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
        move = scale * np.array(inner.w[-1])
        change, bend = move - last_move, centre - last_centre
        secant = (last_move != 0.0) & (change * bend < 0.0)
        step = np.where(secant, -move * bend / np.where(secant, change, 1.0), move)
        last_centre, last_move = centre, move
        centre = centre + np.clip(
            step, np.minimum(move, FURTHEST * move), np.maximum(move, FURTHEST * move)
        )

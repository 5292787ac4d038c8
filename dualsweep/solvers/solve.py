"""One problem, from a start to a certificate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._clock import clock
from ..problems.free import FreeProblem
from ..problems.result import Known, Progress, Result
from .blocks import BlockProblem, BlockSweeper, Saving
from .iterates import DIRECT_WEIGHTS
from .multipliers import PartsSweeper
from .newton import newton
from .parts import PartsProblem
from .policy import Policy
from .run import Estimate, Problem, Run
from .schedules import SCHEDULES
from .sweeps import MemorySweeper, Sweeper, sweeps

# Of a free intercept, sweeps around one centre after the other: how many at most, which part of tol
# the first of them are to prove, and those that follow of what the one before was; how far the next
# centre is at most, in moves of the intercept.
MOST_CENTRES, INNER_TOL, TIGHTER, FURTHEST = 30, 0.7, 0.7, 100.0


class Start(NamedTuple):
    """Where a run starts.

    `alpha` are feasible dual variables, which may be overwritten. `known` is what is known of them,
    to start without a look at X; what is returned is computed from scratch in any case. `before` is
    the solution for other costs that they were made of; see `dualsweep.solvers.path`.
    """

    alpha: Any = None
    known: Known | None = None
    before: Result | None = None


class Begun(NamedTuple):
    """A run up to its Newton steps, whether it comes to any, and what is to be done after them."""

    run: Run
    wants_newton: bool
    finish: Callable[[], Result]


def solve(problem: Problem, **options: Any) -> Result:
    """Minimise the dual until the relative duality gap is proven to be at most `tol`.

    See `begin` for the parameters and what is raised. Facts only are returned: whether it converged
    is for the caller to judge.
    """
    begun = begin(problem, **options)
    if begun.wants_newton:
        newton(begun.run)
    return begun.finish()


def begin(
    problem: Problem,
    *,
    solver: str = "auto",
    schedule: str = "auto",
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float = np.inf,
    seed: tuple[int, ...] = (0,),
    start: Start = Start(),  # noqa: B008
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], bool] = lambda progress: False,
    saving: Saving | None = None,
) -> Begun:
    """Minimise the dual until `tol` is proven, or Newton steps are to be taken.

    Those are the caller's to take: several problems can do that together; see `newton`.

    Parameters
    ----------
    problem : BinaryProblem, MulticlassProblem or BlockProblem
        Rows, labels, costs and formulation.
    solver : {"auto", "sweep", "newton"}
        Sweeps of coordinate descent, Newton steps (and sweeps where those make no progress), or
        the one after the other. Block by block there are sweeps only; a free intercept has either
        Newton steps (and sweeps after them) or sweeps.
    schedule : str
        A name from `dualsweep.solvers.schedules.SCHEDULES`.
    tol : float
        Relative duality gap to prove.
    max_iter : int
        Sweeps and Newton steps to give up after; of blocks, passes over all of them.
    max_time : float
        Seconds to give up after; the time for a last certificate comes on top.
    seed : tuple of int
        Seeds the random order; the same seed gives bitwise the same result.
    start : Start
        Where to start: from zeros if nothing else is given.
    stop : callable
        Asked some ten times a second, by any of the threads; true ends the run with what there is.
    watch : callable
        Called after each sweep or Newton step; true ends the run as well.
    saving : Saving, optional
        Where to go on from and to write to after each pass, of a problem in blocks. A run that goes
        on from what was written ends with bitwise the same result.

    Returns
    -------
    Begun
        What has been reached, and how to go on.

    Raises
    ------
    ValueError
        If what `saving` read is nothing that a run of this problem can have written.
    """
    run = Run(
        problem,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        alpha=start.alpha,
        known=start.known,
        stop=stop,
        watch=watch,
    )
    if isinstance(problem, FreeProblem):
        return _begin_free(run, solver, schedule, seed)
    in_memory = not isinstance(problem, BlockProblem | PartsProblem)
    policy = Policy(
        problem,
        solver="sweep" if isinstance(problem, BlockProblem) else solver,
        tol=tol,
        max_iter=max_iter,
        momentum=SCHEDULES[schedule].momentum and in_memory,
        before=start.before,
    )

    def new_sweeper() -> Sweeper:
        if isinstance(problem, PartsProblem):
            return PartsSweeper(run)
        return (MemorySweeper if in_memory else BlockSweeper)(run, schedule, seed)

    sweeper = None if policy.newton_first else new_sweeper()
    if saving is not None:
        assert isinstance(sweeper, BlockSweeper)
        sweeper.keep(run, saving)
    if max_time <= 0.0 or stop():  # there is a model already, w = 0 or where it starts
        return Begun(run, False, run.result)

    if sweeper is not None:
        sweeps(run, sweeper, policy)

    def finish() -> Result:
        if not run.over:  # Newton steps got stuck, or sweeps proved all rows but not the gap
            policy.start_over()
            run.estimate = Estimate(run.gap, run.dual)
            sweeps(run, new_sweeper(), policy)
        return run.result()

    return Begun(run, not run.over and policy.newton_allowed, finish)


def _begin_free(run: Run, solver: str, schedule: str, seed: tuple[int, ...]) -> Begun:
    """Begin a problem whose intercept is not penalised."""
    if not run.alpha.any():
        run.check()  # with the best intercept, and no weights
    few = run.w.size <= DIRECT_WEIGHTS
    first = solver == "newton" or (solver == "auto" and few)

    def finish() -> Result:
        if not (run.over or run.poll()):  # or Newton steps got stuck
            _sweep_around_centres(run, schedule, seed)
        return run.result()

    return Begun(run, first and not (run.over or run.poll()), finish)


def _sweep_around_centres(run: Run, schedule: str, seed: tuple[int, ...]) -> None:
    """Sweep with a penalty on what a free intercept is off a centre by, for a sequence of centres.

    The penalised intercept is off by ``bias^2 sum_i y_i a_i``, so the constraint holds at the
    centre at which it stays. To go where it went are proximal point steps on the intercept, or the
    method of multipliers for the constraint (Rockafellar 1976); where two centres tell how the move
    depends on them, the next is where it vanishes, if that is further. On text the first centre or
    two are enough: a penalty on one weight is nothing beside the losses of all rows.
    """
    problem = run.problem
    assert isinstance(problem, FreeProblem)
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

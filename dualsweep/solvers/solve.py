"""One problem, from a start to a certificate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..problems.free import FreeProblem
from ..problems.result import Known, Progress, Result
from .blocks import BlockProblem, BlockSweeper, Saving
from .newton import newton
from .policy import Policy
from .run import Estimate, Problem, Run
from .schedules import SCHEDULES
from .sweeps import MemorySweeper, Sweeper, sweeps

__all__ = ["Start", "solve"]


class Start(NamedTuple):
    """Where a run starts.

    `alpha` are feasible dual variables, which may be overwritten. `known` is what is known of them,
    to start without a look at X; what is returned is computed from scratch in any case. `before` is
    the solution for other costs that they were made of; see `dualsweep.solvers.path`.
    """

    alpha: Any = None
    known: Known | None = None
    before: Result | None = None


def solve(
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
) -> Result:
    """Minimise the dual until the relative duality gap is proven to be at most `tol`.

    Parameters
    ----------
    problem : BinaryProblem, MulticlassProblem or BlockProblem
        Rows, labels, costs and formulation.
    solver : {"auto", "sweep", "newton"}
        Sweeps of coordinate descent, Newton steps (and sweeps where those make no progress), or
        the one after the other. Block by block there are sweeps only, with a free intercept Newton
        steps only.
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
    Result
        Facts only: whether it converged is for the caller to judge.

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
        return _solve_free(run, max_time)
    in_blocks = isinstance(problem, BlockProblem)
    policy = Policy(
        problem,
        solver="sweep" if in_blocks else solver,
        tol=tol,
        max_iter=max_iter,
        momentum=SCHEDULES[schedule].momentum and not in_blocks,
        before=start.before,
    )

    def new_sweeper() -> Sweeper:
        return (BlockSweeper if in_blocks else MemorySweeper)(run, schedule, seed)

    sweeper = new_sweeper()
    if saving is not None:
        assert isinstance(sweeper, BlockSweeper)
        sweeper.keep(run, saving)
    if max_time <= 0.0 or stop():  # there is a model already, w = 0 or where it starts
        return run.result()

    if not policy.newton_first:
        sweeps(run, sweeper, policy)
    if not run.over and policy.newton_allowed:
        newton(run)
    if not run.over:  # Newton steps got stuck, or sweeps proved all rows but not the gap
        policy.start_over()
        run.estimate = Estimate(run.gap, run.dual)
        sweeps(run, new_sweeper(), policy)
    return run.result()


# Newton steps that get stuck start anew from where they are, as long as the gap becomes less than
# this part of what it was.
FREE_PROGRESS = 0.5


def _solve_free(run: Run, max_time: float) -> Result:
    """Solve a problem whose intercept is not penalised: by Newton steps alone."""
    if run.epoch == 0 and not run.alpha.any():
        run.check()  # with the best intercept, and no weights
    if max_time <= 0.0 or run.poll():
        return run.result()
    while not run.over:
        gap = run.gap
        newton(run)
        if not run.gap < FREE_PROGRESS * gap:
            break
    return run.result()

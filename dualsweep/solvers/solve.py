"""One problem, from a start to a certificate."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

from ..newton.host import newton_on_host
from ..problems.result import Known, Result
from ..problems.run import Estimate, PointRun, Problem, Saving
from .costs import costs_of
from .policy import Policy
from .schedules import SCHEDULES
from .sweeps import sweeper_of, sweeps


class Start(NamedTuple):
    """Where a run starts.

    `alpha` are feasible dual variables, which may be overwritten. `known` is what is known of them,
    to start without a look at X; what is returned is computed from scratch in any case. `before` is
    the solution for other costs that they were made of; see `dualsweep.solvers.path`.
    """

    alpha: Any = None
    known: Known | None = None
    before: Result | None = None


class Started(NamedTuple):
    """A run up to its Newton steps, whether it wants any, and what is to be done after them."""

    run: PointRun
    wants_newton: bool
    finish: Callable[[], Result]


def solve(problem: Problem, **options: Any) -> Result:
    """Minimise the dual until the relative duality gap is proven to be at most `tol`.

    See `start_run` for the parameters and what is raised. Facts only are returned: whether it
    converged is for the caller to judge.
    """
    started = start_run(problem, **options)
    if started.wants_newton:
        newton_on_host(started.run)
    return started.finish()


@singledispatch
def start_run(
    problem: Any,
    *,
    solver: str = "auto",
    schedule: str = "auto",
    seed: tuple[int, ...] = (0,),
    start: Start = Start(),  # noqa: B008
    saving: Saving | None = None,
    **limits: Any,
) -> Started:
    """Minimise the dual until `tol` is proven, or Newton steps are to be taken.

    Those are the caller's to take: several problems can do that together; see `dualsweep.newton`.

    Parameters
    ----------
    problem : Problem
        Rows, labels, costs and formulation.
    solver : {"auto", "sweep", "newton"}
        Sweeps of coordinate descent, Newton steps (and sweeps where those make no progress), or
        the one after the other. Block by block there are sweeps only; a free intercept has either
        Newton steps (and sweeps after them) or sweeps.
    schedule : str
        A name from `dualsweep.solvers.schedules.SCHEDULES`.
    seed : tuple of int
        Seeds the random order; the same seed gives bitwise the same result.
    start : Start
        Where to start: from zeros if nothing else is given.
    saving : Saving, optional
        Where to go on from and to write to after each epoch, for a problem in blocks. A run that
        goes on from what was written ends with bitwise the same result.
    **limits
        `tol`, `max_iter`, `max_time`, `stop` and `watch`; see `Run`.

    Returns
    -------
    Started
        What has been reached, and how to go on.

    Raises
    ------
    ValueError
        If what `saving` read is nothing that a run of this problem can have written.
    """
    run = PointRun(problem, alpha=start.alpha, known=start.known, **limits)
    sweeper_kind = sweeper_of(problem)
    policy = Policy(
        costs_of(problem),
        solver=solver,
        tol=run.tol,
        max_iter=run.max_iter,
        momentum=SCHEDULES[schedule].momentum and sweeper_kind.takes_momentum,
        before=start.before,
    )
    sweeper = None if policy.newton_first else sweeper_kind(run, schedule, seed)
    if saving is not None:
        assert sweeper is not None
        sweeper.keep(run, saving)
    if run.deadline <= run.started or run.stop():  # a model is there: w = 0, or where it starts
        return Started(run, False, run.finish)
    if sweeper is not None:
        sweeps(run, sweeper, policy)

    def finish() -> Result:
        if not run.over:  # Newton steps got stuck, or sweeps proved all rows but not the gap
            policy.start_over()
            run.estimate = Estimate(run.gap, run.dual)
            sweeps(run, sweeper_kind(run, schedule, seed), policy)
        return run.finish()

    return Started(run, not run.over and policy.newton_allowed, finish)

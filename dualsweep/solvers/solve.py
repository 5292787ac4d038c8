"""One problem, from a start to a certificate."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

from .._typing import Array, DualPoint
from ..newton.host import newton_on_host
from ..newton.small import newton_of_small
from ..problems.result import Known, Result
from ..problems.run import Estimate, PointRun, Problem, Saving
from .costs import costs_of
from .policy import Policy
from .schedules import SCHEDULES
from .sweeps import sweeper_of, sweeps


class Start(NamedTuple):
    """Where a run starts: from zeros, unless told otherwise."""

    alpha: DualPoint = None  # feasible; may be overwritten
    known: Known | None = None  # of alpha, so that X need not be read; certificates do not use it
    before: Result | None = None  # the solution for other costs that alpha was made of


class Started(NamedTuple):
    """A run up to its Newton steps, whether it wants any, and what to do after them."""

    run: PointRun
    wants_newton: bool
    finish: Callable[[], Result]


def start_from(problem: Any, seen: Array, result: Result) -> Start:
    """Return where to start from the solution for other costs, whose costly rows were `seen`.

    The dual variables of the solution are multiplied by the number that makes the dual objective
    largest within the new bounds. w and the slacks scale with them, so X is not read. Where most
    rows are at their bound the number is the ratio of the two C, and they stay there; where rows
    can be separated it is 1. Sweeps to a relative gap of 1e-3 for C = 2^-6, 2^-5, ..., 2^3, in
    total:

        ====================  =====  ===========  ============  =============
        data                   cold  alpha as is  times C'/C    best multiple
        ====================  =====  ===========  ============  =============
        a9a, hinge              268          262            47             47
        a9a, squared hinge      113          101            25             25
        imdb, hinge             100           69            93             67
        imdb, squared hinge      63           42            56             34
        20news, Crammer-Singer  212          155           177            150
        20news, Weston-Watkins  250          175           224            167
        ====================  =====  ===========  ============  =============

    Where features are so correlated that sweeps are slow (digits, Crammer-Singer: 2060 against
    1957) no start helps, nor does extrapolating from two solutions.

    No row is left out before the first sweep. When C doubles, the gap at the start is some tenths
    of the objective, too much to prove any row optimal (none on a9a, imdb and 20news at any C
    above). The bound ``|w' - w| <= (C'/C - 1) |w| / 2`` between exact solutions proves only a few
    rows, at the smallest C.
    """
    alpha, known = problem.rescaled(result, seen)
    return Start(alpha, known, result)


def solve(problem: Problem, **options: Any) -> Result:
    """Minimise the dual until the relative duality gap is proven to be at most `tol`.

    See `start_run` for the options. The result says whether this was reached.
    """
    started = start_run(problem, **options)
    if started.wants_newton:
        newton_on_host(started.run)
    return started.finish()


@singledispatch
def start_run(
    problem: Any,
    *,
    solver: str = "auto",  # one of `SOLVERS`; rows in blocks have sweeps only
    schedule: str = "auto",  # one of `SCHEDULES`
    seed: tuple[int, ...] = (0,),  # the same seed gives bitwise the same result
    start: Start = Start(),  # noqa: B008
    saving: Saving | None = None,  # for rows in blocks
    **limits: Any,  # tol, max_iter, max_time, stop, watch and stepwise; see `Run`
) -> Started:
    """Minimise the dual until `tol` is proven, or Newton steps are to be taken.

    The caller takes these steps, for several problems together if it likes; see `newton_on_host`.
    A run that resumes from what `saving` read ends with bitwise the same result; ValueError if no
    run of this problem can have written that.
    """
    run = PointRun(problem, alpha=start.alpha, known=start.known, **limits)
    costs = costs_of(problem)
    over = run.over or run.deadline <= run.started or run.stop()
    if costs.small and solver != "sweep" and not over:
        newton_of_small(run, costs.newton_step)
        if run.over:
            return Started(run, False, run.finish)
        run.estimate = Estimate(run.gap, run.dual)
    sweeper_kind = sweeper_of(problem)
    policy = Policy(
        costs,
        solver=solver,
        tol=run.tol,
        max_iter=run.max_iter,
        momentum=SCHEDULES[schedule].momentum and problem.takes_momentum,
        before=start.before,
    )
    sweeper = None if policy.newton_first else sweeper_kind(run, schedule, seed)
    if saving is not None:
        assert sweeper is not None
        sweeper.keep(run, saving)
    if over:  # the start is a model
        return Started(run, False, run.finish)
    if sweeper is not None:
        sweeps(run, sweeper, policy)

    def finish() -> Result:
        if not run.over:  # Newton steps got stuck, or all rows are proven optimal but not the gap
            policy.forbid_newton()
            run.estimate = Estimate(run.gap, run.dual)
            sweeps(run, sweeper_kind(run, schedule, seed), policy)
        return run.finish()

    return Started(run, not run.over and policy.newton_allowed, finish)

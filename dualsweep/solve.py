"""Sweeps for the easy part, Newton steps for the hard part, one certificate for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._random import random_state
from .newton import newton, newton_cost
from .problem import AnyProblem, Known, Problem, Progress, Result
from .rows import n_stored
from .run import Run
from .schedules import SCHEDULES, Schedule
from .sweeps import sweeps, sweeps_left

__all__ = ["SOLVERS", "solve"]

SOLVERS = ("auto", "sweep", "newton")


def solve(
    problem: AnyProblem,
    *,
    solver: str = "auto",
    schedule: str = "auto",
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float = np.inf,
    seed: tuple[int, ...] = (0,),
    alpha: Any = None,
    known: Known | None = None,
    n_threads: int = 1,
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], bool] = lambda progress: False,
) -> Result:
    """Minimise the dual until the relative duality gap is proven to be at most `tol`.

    Parameters
    ----------
    problem : Problem or MulticlassProblem
        Rows, labels, costs and formulation.
    solver : {"auto", "sweep", "newton"}
        Sweeps of coordinate descent, Newton steps (and sweeps where those make no progress), or
        the one after the other.
    schedule : str
        A name from `dualsweep.schedules.SCHEDULES`.
    tol : float
        Relative duality gap to prove.
    max_iter : int
        Sweeps and Newton steps to give up after.
    max_time : float
        Seconds to give up after.
    seed : tuple of int
        Seeds the random order; the same seed gives bitwise the same result.
    alpha : array or SlottedDuals, optional
        Feasible dual variables to start from; may be overwritten. Zeros if not given.
    known : Known, optional
        The weights of `alpha`, which may be overwritten too, and its certificate, to start without
        a look at X. What is returned is computed from scratch in any case.
    n_threads : int
        Threads for the passes over the rows of Newton steps (of binary problems); the result does
        not depend on it. Sweeps have one.
    stop : callable
        Asked some ten times a second, by any of the threads; true ends the run with what there is.
    watch : callable
        Called after each sweep or Newton step; true ends the run as well.

    Returns
    -------
    Result
        Facts only: whether it converged is for the caller to judge.
    """
    run = Run(
        problem,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        alpha=alpha,
        known=known,
        n_threads=n_threads,
        stop=stop,
        watch=watch,
    )
    if max_time <= 0.0 or stop():  # there is a model already, w = 0 or where `alpha` is
        return run.result()

    def plan() -> Schedule:
        return SCHEDULES[schedule](run.candidates, random_state(*seed))

    hand_over = HandOver(problem, tol, solver)
    if not hand_over.at_once:
        sweeps(run, plan(), give_up=hand_over)
    if not run.over and hand_over.allowed:
        newton(run)
    if not run.over:  # Newton got stuck
        sweeps(run, plan(), give_up=lambda gap: False)
    return run.result()


class HandOver:
    """Decides when Newton steps are expected to finish sooner than more sweeps would.

    Costs are counted in entries of X read, never in seconds, so that runs are reproducible.
    """

    # Newton steps that cost less than so many entries, some milliseconds, or less than so many
    # sweeps need no sweeps first.
    AT_ONCE, AT_ONCE_SWEEPS = 5e6, 10.0
    # What a sweep costs: before it has visited a row, per row and per entry; with many classes, per
    # block step and per entry and class.
    SWEEP_CALL, SWEEP_ROW, SWEEP_ENTRY = 10_000.0, 100.0, 2.0
    SWEEP_BLOCK, SWEEP_CLASS = 250.0, 0.25
    # Sweeps that have to be done to judge their rate, and as a part of what Newton is worth.
    FIRST_LOOK, FIRST_PART = 3, 1 / 8

    def __init__(self, problem: AnyProblem, tol: float, solver: str) -> None:
        self.tol = tol
        cost = newton_cost(problem)
        self.allowed = solver == "newton" or (solver == "auto" and np.isfinite(cost))
        stored = n_stored(problem.rows)
        if isinstance(problem, Problem):
            sweep = self.SWEEP_ENTRY * stored + self.SWEEP_ROW * len(problem.y)
        else:
            sweep = self.SWEEP_CLASS * problem.n_classes * stored
            sweep += self.SWEEP_BLOCK * len(problem.y)
        self.sweeps_worth = cost / (sweep + self.SWEEP_CALL)
        cheap = cost <= self.AT_ONCE or self.sweeps_worth <= self.AT_ONCE_SWEEPS
        self.at_once = solver == "newton" or (self.allowed and cheap)
        self.gaps: list[float] = []

    def __call__(self, relative_gap: float) -> bool:
        """Note the gap after a sweep; return whether to leave the rest to Newton."""
        self.gaps.append(relative_gap)
        n = len(self.gaps)
        first_look = max(self.FIRST_LOOK, self.FIRST_PART * self.sweeps_worth)
        if not self.allowed or n < first_look or relative_gap <= self.tol:
            return False
        return sweeps_left(self.gaps, self.tol) > self.sweeps_worth

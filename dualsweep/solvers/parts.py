"""Rows in parts that stay where they are, such as the partitions of a cluster.

A `Part` has the dual variables of some rows and answers questions about them, whose answers are
added up: that is all in which parts meet. Rounds of sweeps are in `dualsweep.solvers.multipliers`;
Newton steps are those of `dualsweep.solvers.newton`, with the slacks of the rows in the parts.

Weights are summed up afresh from the dual variables in each round. So nothing drifts, and a part
that was lost and starts again from nothing makes the model worse but no certificate wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

import numpy as np

from .._random import random_state
from ..kernels.certificate import feature_length
from ..problems.multiclass import MulticlassProblem
from .iterates import slacks_of
from .run import Run
from .schedules import SCHEDULES
from .slacks import Slacks

LOCAL_SWEEPS = 3  # of a part in a round
LARGEST = 1e30  # that is left to float32, which ends at 3e38: such weights can be added up, too

Answer = tuple[Any, Any]  # weights, or None; numbers, or None


class Part:
    """The dual variables of some rows, and what is known of how to visit them.

    Methods take the rows as a problem of their own, for nothing here holds on to them, and return
    answers that are to be added up over the parts.
    """

    def __init__(self, problem: Any, schedule: str, seed: tuple[int, ...]) -> None:
        self.alpha = problem.zero_alpha()
        self.kept: Any = None
        self.slacks: Slacks | None = None  # of Newton steps
        self.plan = SCHEDULES[schedule](problem.candidates, random_state(*seed))

    def advance(self, problem: Any, start: Any, rho: float) -> Answer:
        """Sweep the rows from the weights `start`; return the weights, and totals at the start.

        The weights are as precise as those that were sent.
        """
        w = problem.zero_weights()
        w[...] = start
        _, totals = self.totals(problem, w, "alpha")
        near = problem.with_costs(rho * problem.cost)
        shares = np.empty(problem.n_rows)
        self.alpha *= rho
        for _ in range(LOCAL_SWEEPS if len(self.plan.rows) else 0):
            order = self.plan.next_order()
            grads, gains = np.empty(len(order)), np.empty(len(order))
            near.sweep(self.plan.shrunk, order, self.alpha, w, grads, gains, shares)
            self.plan.observe(order, grads, gains)
        self.alpha *= 1.0 / rho
        return rounded(self.weights(problem, "alpha")[0], start.dtype), totals

    def weights(self, problem: Any, which: str, compensated: bool = False) -> Answer:
        """Return the weights of the dual variables, or of those that were kept."""
        w = problem.zero_weights()
        duals = self.duals(problem, which)
        problem.fill_weights(problem.candidates, duals, w, compensated=compensated)
        return w, None

    def totals(self, problem: Any, w: Any, which: str, compensated: bool = False) -> Answer:
        """Return what a certificate of w and the dual variables adds up."""
        members, duals = problem.candidates, self.duals(problem, which)
        length, slack = feature_length(w), np.empty(len(members))
        return None, problem.totals(members, duals, w, length, slack, compensated=compensated)

    def begin(self, problem: Any, w: Any) -> Answer:
        """Begin Newton steps from w and the dual variables."""
        self.slacks = slacks_of(problem, w, self.alpha, lambda: False, keep_gram=False)
        self.slacks.leave()
        return None, None

    def newton(self, problem: Any, *weights: Any, do: str, **how: Any) -> Answer:
        """Let the slacks answer; see `dualsweep.solvers.slacks.Slacks`."""
        if self.slacks is None:  # a part that was lost; the answer does not count
            self.begin(problem, problem.zero_weights())
        assert self.slacks is not None
        self.slacks.visit(problem)
        made = getattr(self.slacks, do)(*weights, **how)
        self.slacks.leave()
        if do == "measure":
            return made  # type: ignore[no-any-return]
        if do == "hessian":
            matrix, scale = made
            return scale * matrix, None
        return (None, made) if do in ("aim", "slope") else (made, None)

    def take(self, problem: Any) -> Answer:
        """Make the dual point of the slacks the dual variables."""
        if self.slacks is not None:
            self.slacks.visit(problem)
            self.alpha = self.slacks.duals()
            self.slacks.leave()
        return None, None

    def keep(self, problem: Any) -> Answer:
        """Keep the dual variables as they are."""
        self.kept = copy(self.alpha)
        return None, None

    def expand(self, problem: Any) -> Answer:
        """Take back rows that are left out on suspicion."""
        self.plan.expand()
        return None, None

    def reset(self, problem: Any) -> Answer:
        """Start over from nothing."""
        self.alpha = problem.zero_alpha()
        return None, None

    def duals(self, problem: Any, which: str) -> Any:
        """Return dual variables; those of a part that was lost after it kept some are 0."""
        duals = getattr(self, which)
        return problem.zero_alpha() if duals is None else duals


def rounded(w: Any, number: Any) -> Any:
    """Return weights in the precision asked for, or as they are where that cannot hold them."""
    fits = w.min() > -LARGEST and w.max() < LARGEST
    return w.astype(number, copy=False) if fits else w


def looks_at_rows(name: str, do: str = "", **how: Any) -> bool:
    """Tell whether a method of `Part` looks at the rows."""
    return name not in ("keep", "expand", "reset", "take") and do != "slope"


class Parts(Protocol):
    """Where the parts of a problem are, and how they are reached."""

    n_parts: int
    n_rows: int
    restarts: int  # how often parts were lost so far, to start again from nothing

    def ask(self, name: str, w: Any = None, **how: Any) -> Answer:
        """Call a method of each `Part`, with its rows; return the sums of the answers."""


class PartsHere:
    """Parts in this process, for tests and simulations.

    Parameters
    ----------
    problems : list of BinaryProblem or MulticlassProblem
        Their rows.
    schedule : str
        A name from `SCHEDULES`.
    lose : callable
        Told the number of each question, before it is answered; returns a part to lose, or None.
    """

    def __init__(
        self,
        problems: list[Any],
        schedule: str = "auto",
        lose: Callable[[int], int | None] = lambda t: None,
    ) -> None:
        self.problems, self.schedule, self.lose = problems, schedule, lose
        self.n_parts, self.n_rows = len(problems), sum(problem.n_rows for problem in problems)
        self.restarts = self.n_asked = 0
        self.n_sent = self.n_summed = 0  # questions with weights, and answers
        self.parts = [self._new(k) for k in range(self.n_parts)]

    @property
    def n_rounds(self) -> int:
        """Rounds: a broadcast of weights, a sum of weights, or both."""
        return max(self.n_sent, self.n_summed)

    def _new(self, k: int) -> Part:
        return Part(self.problems[k], self.schedule, (0, k))

    def ask(self, name: str, w: Any = None, **how: Any) -> Answer:
        """Call a method of each part; return the sums of the answers."""
        self.n_asked += 1
        lost = self.lose(self.n_asked)
        if lost is not None:
            self.parts[lost] = self._new(lost)
            self.restarts += 1
        sent = () if w is None else (w,)
        answers = [
            getattr(part, name)(problem, *sent, **how)
            for part, problem in zip(self.parts, self.problems, strict=True)
        ]
        weights, numbers = (
            None if answers[0][t] is None else sum(answer[t] for answer in answers) for t in (0, 1)
        )
        self.n_sent += w is not None
        self.n_summed += weights is not None
        return weights, numbers


class RemoteDuals:
    """The dual variables of all parts of a problem: as they are, or those that were kept."""

    def __init__(self, problem: PartsProblem, which: str) -> None:
        self.problem, self.which = problem, which

    def __copy__(self) -> RemoteDuals:
        self.problem.parts.ask("keep")
        return RemoteDuals(self.problem, "kept")


class PartsProblem:
    """A problem whose rows are in parts.

    Parameters
    ----------
    parts : Parts
        The parts.
    like : BinaryProblem or MulticlassProblem
        A problem of no rows and the same formulation.
    primal_at_zero : float
        Objective where all weights are 0.
    """

    def __init__(self, parts: Parts, like: Any, primal_at_zero: float) -> None:
        self.parts, self.like = parts, like
        self.n_rows = parts.n_rows
        self.candidates = range(parts.n_rows)
        self.weights_shape = like.weights_shape
        self.primal_at_zero = primal_at_zero
        self.zero_weights = like.zero_weights
        self.size = like.size
        self._summed = parts.restarts  # as they were when weights were last summed up

    @property
    def mean_cost(self) -> float:
        """The mean of the rows' costs."""
        of_one = float(self.like.with_costs(np.ones(1)).primal_at_zero)
        return self.primal_at_zero / (of_one * self.n_rows)

    @property
    def smooth(self) -> bool:
        """Whether the losses are."""
        return not isinstance(self.like, MulticlassProblem) and self.like.loss.diag > 0

    @property
    def outdated(self) -> bool:
        """Whether a part was lost since weights were last summed up."""
        return self._summed != self.parts.restarts

    def zero_alpha(self) -> Any:
        """Return dual variables to start from."""
        self.parts.ask("reset")
        return RemoteDuals(self, "alpha")

    def slack_at_zero(self) -> None:
        """Return None: slacks are not kept."""

    def fill_weights(self, members: Any, alpha: Any, w: Any, *, compensated: bool = False) -> None:
        """Overwrite w with the weights of `alpha`."""
        answer = self.parts.ask("weights", which=alpha.which, compensated=compensated)
        self.note_weights(answer[0], w)

    def note_weights(self, weights: Any, w: Any) -> None:
        """Overwrite w with weights that the parts have just answered."""
        w[...] = weights
        self._summed = self.parts.restarts

    def totals(
        self,
        members: Any,
        alpha: Any,
        w: Any,
        length: float,
        slack: Any,
        *,
        compensated: bool = False,
    ) -> Any:
        """Return what a certificate adds up over all rows.

        A part that was lost since w was summed up has other dual variables now. Then w is summed up
        again, in place.
        """
        while True:
            how = {"which": alpha.which, "compensated": compensated}
            totals = self.parts.ask("totals", w, **how)[1]
            if not self.outdated:
                return totals
            self.fill_weights(members, alpha, w, compensated=compensated)

    def best_scale(self, members: Any, alpha: Any, slack: Any, w: Any) -> float:
        """Return 1: the slacks it would take are not kept."""
        return 1.0

    def recheck(self, run: Run) -> None:
        """Compute a certificate again if a part was lost when it was to keep its dual variables."""
        while self.outdated:
            run.check()


class PartLostError(Exception):
    """A part was lost, and the slacks of its rows with it."""


class RemoteSlacks:
    """The slacks of all parts; see `dualsweep.solvers.slacks.Slacks`.

    Methods raise PartLostError if a part is not what it was.

    Parameters
    ----------
    problem : PartsProblem
        The problem.
    w : array
        Weights to begin from; the parts' dual variables are the first anchor.
    """

    def __init__(self, problem: PartsProblem, w: Any) -> None:
        self.problem = problem
        while True:
            self.restarts = problem.parts.restarts
            problem.parts.ask("begin", w)
            if self.restarts == problem.parts.restarts:
                return

    def _ask(self, do: str, *weights: Any, **how: Any) -> Answer:
        answer = self.problem.parts.ask("newton", *weights, do=do, **how)
        if self.restarts != self.problem.parts.restarts:
            raise PartLostError
        return answer

    def measure(self, **how: Any) -> Answer:
        """Take a step, then compute b."""
        return self._ask("measure", **how)

    def hessian(self, exact: bool) -> tuple[Any, float]:
        """Return the Hessian without its identity, and 1."""
        return self._ask("hessian", exact=exact)[0], 1.0

    def product(self, v: Any) -> Any:
        """Return the product of the Hessian, without its identity, with v."""
        return self._ask("product", v)[0]

    def aim(self, p: Any, t: float) -> Any:
        """Let p be a whole step; return `slope`."""
        return self._ask("aim", p, t=t)[1]

    def slope(self, t: float) -> Any:
        """Return the slope of the sums along the step, and its derivative."""
        return self._ask("slope", t=t)[1]

    def duals(self) -> RemoteDuals:
        """Make b the parts' dual variables."""
        self.problem.parts.ask("take")
        return RemoteDuals(self.problem, "alpha")

"""Rows in partitions that stay where they are, such as the workers of a cluster.

A `Partition` has the dual variables of its rows and answers questions about them. Answers are added
up: partitions meet in nothing else. Rounds of sweeps are in `dualsweep.placements.cluster.rounds`;
Newton steps are those of `dualsweep.newton`, with the slacks of the rows in the partitions.

Weights are summed up afresh from the dual variables in each round. So nothing drifts, and a
partition that was lost and starts again from nothing makes the model worse but no certificate
wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from math import prod
from typing import Any, Protocol

import numpy as np

from ..._random import random_state
from ..._typing import Array
from ...kernels.certificate import feature_length
from ...newton.backend import Hessian, StartOverError
from ...newton.slacks import Slacks, slacks_of
from ...newton.tuning import DIRECT_WEIGHTS, PARTITIONS, PARTITIONS_MULTICLASS, Tuning
from ...solvers.costs import Costs, costs_of
from ...solvers.schedules import SCHEDULES
from ...training.formulations import Problem

LOCAL_SWEEPS = 3  # of a partition in a round
LARGEST = 1e30  # that is left to float32, which ends at 3e38: such weights can be added up, too

# Costs are counted in rounds. Direct Newton steps take one each, and a Gram matrix: below AT_ONCE
# weights that is nothing, and no sweeps are tried before. Above, 15 to 40 steps are worth
# ROUNDS_DIRECT: those of one class of mnist took minutes at C = 0.01, where rounds of sweeps take
# seconds. Conjugate gradients take a round each: about so many, however many partitions there are,
# where the loss is smooth, and where it is not. Rates are judged after FIRST_LOOK rounds.
AT_ONCE = 200
ROUNDS_DIRECT, ROUNDS_SMOOTH, ROUNDS_KINKED = 100.0, 200.0, 800.0
FIRST_LOOK = 30.0

Answer = tuple[Any, Any]  # weights, or None; numbers, or None
Question = Callable[..., Answer]  # a method of `Partition`


def without_rows(question: Question) -> Question:
    """Mark a question that does not look at the rows."""
    question.without_rows = True  # type: ignore[attr-defined]
    return question


class Partition:
    """The dual variables of some rows, and what is known of how to visit them.

    Methods that are questions take the rows as a problem of their own, for nothing here holds on to
    them, and return answers that are to be added up over the partitions.
    """

    def __init__(self, problem: Problem, schedule: str, seed: tuple[int, ...]) -> None:
        self.alpha = problem.zero_alpha()
        self.kept: Any = None
        self.slacks: Slacks | None = None  # of Newton steps
        self.plan = SCHEDULES[schedule](problem.candidates, random_state(*seed))

    def advance(self, problem: Problem, start: Array, rho: float) -> Answer:
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

    def weights(self, problem: Problem, which: str, compensated: bool = False) -> Answer:
        """Return the weights of the dual variables, or of those that were kept."""
        w = problem.zero_weights()
        duals = self.duals(problem, which)
        problem.fill_weights(problem.candidates, duals, w, compensated=compensated)
        return w, None

    def totals(self, problem: Problem, w: Array, which: str, compensated: bool = False) -> Answer:
        """Return what a certificate of w and the dual variables adds up."""
        members, duals = problem.candidates, self.duals(problem, which)
        length, slack = feature_length(w), np.empty(len(members))
        return None, problem.totals(members, duals, w, length, slack, compensated=compensated)

    def begin(self, problem: Problem, w: Array) -> Answer:
        """Begin Newton steps from w and the dual variables."""
        self.slacks = slacks_of(problem, w, self.alpha, lambda: False)
        self.slacks.detach()
        return None, None

    def _attached(self, problem: Problem) -> Slacks:
        if self.slacks is None:  # a partition that was lost; the answer does not count
            self.begin(problem, problem.zero_weights())
        assert self.slacks is not None
        self.slacks.attach(problem)
        return self.slacks

    def measure(self, problem: Problem, rho: float, step: float, settled: bool) -> Answer:
        """Let slacks take a step; see `Slacks.measure`."""
        slacks = self._attached(problem)
        answer = slacks.measure(rho, step, settled)
        slacks.detach()
        return answer

    def aim(self, problem: Problem, p: Array, rho: float, t: float) -> Answer:
        """Let p be a whole step; see `Slacks.aim`."""
        slacks = self._attached(problem)
        answer = slacks.aim(p, rho, t)
        slacks.detach()
        return None, answer

    @without_rows
    def slope(self, problem: Problem, rho: float, t: float) -> Answer:
        """Return the slope of the sums along the step; see `Slacks.slope`."""
        slacks = self._attached(problem)
        answer = slacks.slope(rho, t)
        slacks.detach()
        return None, answer

    def hessian(self, problem: Problem, rho: float, exact: bool) -> Answer:
        """Return the Hessian without its ridge; see `Slacks.hessian`."""
        slacks = self._attached(problem)
        matrix, factor = slacks.hessian(rho, exact)
        slacks.detach()
        return factor * matrix, None  # type: ignore[operator]

    def product(self, problem: Problem, v: Array, rho: float) -> Answer:
        """Return the Hessian, without its ridge, times v; see `Slacks.product`."""
        slacks = self._attached(problem)
        answer = slacks.product(v, rho)
        slacks.detach()
        return answer, None

    @without_rows
    def take(self, problem: Problem) -> Answer:
        """Make the dual point of the slacks the dual variables."""
        if self.slacks is not None:
            self.slacks.attach(problem)
            self.alpha = self.slacks.duals()
            self.slacks.detach()
        return None, None

    @without_rows
    def keep(self, problem: Problem) -> Answer:
        """Keep the dual variables as they are."""
        self.kept = copy(self.alpha)
        return None, None

    @without_rows
    def expand(self, problem: Problem) -> Answer:
        """Take back rows that are left out on suspicion."""
        self.plan.expand()
        return None, None

    @without_rows
    def reset(self, problem: Problem) -> Answer:
        """Start over from nothing."""
        self.alpha = problem.zero_alpha()
        return None, None

    def duals(self, problem: Problem, which: str) -> Any:
        """Return dual variables; 0 for a partition that was lost after it kept some."""
        duals = getattr(self, which)
        return problem.zero_alpha() if duals is None else duals


def rounded(w: Array, number: Any) -> Array:
    """Return weights in the precision asked for, or as they are where that cannot hold them."""
    fits = w.min() > -LARGEST and w.max() < LARGEST
    return w.astype(number, copy=False) if fits else w


class Partitions(Protocol):
    """Where the partitions of a problem are, and how they are reached."""

    n_parts: int
    n_rows: int
    restarts: int  # how often partitions were lost so far, to start again from nothing

    def ask(self, question: Question, w: Array | None = None, **how: Any) -> Answer:
        """Ask each `Partition`, with its rows and the weights w; return the sums of the answers."""


class LocalPartitions:
    """Partitions in this process, for tests and simulations.

    Parameters
    ----------
    problems : list of BinaryProblem or MulticlassProblem
        Their rows.
    schedule : str
        A name from `SCHEDULES`.
    lose : callable
        Told the number of each question, before it is answered; returns a partition to lose, or
        None.
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

    def _new(self, k: int) -> Partition:
        return Partition(self.problems[k], self.schedule, (0, k))

    def ask(self, question: Question, w: Array | None = None, **how: Any) -> Answer:
        """Ask each partition; return the sums of the answers."""
        self.n_asked += 1
        lost = self.lose(self.n_asked)
        if lost is not None:
            self.parts[lost] = self._new(lost)
            self.restarts += 1
        sent = () if w is None else (w,)
        answers = [
            question(part, problem, *sent, **how)
            for part, problem in zip(self.parts, self.problems, strict=True)
        ]
        weights, numbers = (
            None if answers[0][t] is None else sum(answer[t] for answer in answers) for t in (0, 1)
        )
        self.n_sent += w is not None
        self.n_summed += weights is not None
        return weights, numbers


class RemoteDuals:
    """The dual variables of all partitions of a problem: as they are, or those that were kept."""

    def __init__(self, problem: PartitionedProblem, which: str) -> None:
        self.problem, self.which = problem, which

    def __copy__(self) -> RemoteDuals:
        self.problem.parts.ask(Partition.keep)
        return RemoteDuals(self.problem, "kept")


class PartitionedProblem:
    """A problem whose rows are in partitions.

    Parameters
    ----------
    parts : Partitions
        The partitions.
    like : BinaryProblem or MulticlassProblem
        A problem of no rows and the same formulation.
    primal_at_zero : float
        Objective where all weights are 0.
    """

    in_place = True  # dual variables are replaced where they are

    def __init__(self, parts: Partitions, like: Any, primal_at_zero: float) -> None:
        self.parts, self.like = parts, like
        self.n_rows = parts.n_rows
        self.candidates = range(parts.n_rows)
        self.weights_shape = like.weights_shape
        self.primal_at_zero = primal_at_zero
        self.smooth, self.scale, self.ridge = like.smooth, like.scale, like.ridge
        self.zero_weights, self.size = like.zero_weights, like.size
        self.gap_of_gradient = like.gap_of_gradient
        self._summed = parts.restarts  # as they were when weights were last summed up

    @property
    def mean_cost(self) -> float:
        """The mean of the rows' costs."""
        one = float(self.like.with_costs(np.ones(1)).primal_at_zero)
        return self.primal_at_zero / (one * self.n_rows)

    @property
    def outdated(self) -> bool:
        """Whether a partition was lost since weights were last summed up."""
        return self._summed != self.parts.restarts

    def check_rows(self) -> None:
        """Do nothing: partitions are checked as they are taken over."""

    def zero_alpha(self) -> RemoteDuals:
        """Return dual variables to start from."""
        self.parts.ask(Partition.reset)
        return RemoteDuals(self, "alpha")

    def slack_at_zero(self) -> None:
        """Return None: slacks are not kept."""

    def fill_weights(
        self, members: Any, alpha: RemoteDuals, w: Array, *, compensated: bool = False
    ) -> None:
        """Overwrite w with the weights of `alpha`."""
        answer = self.parts.ask(Partition.weights, which=alpha.which, compensated=compensated)
        self.note_weights(answer[0], w)

    def note_weights(self, weights: Array, w: Array) -> None:
        """Overwrite w with weights that the partitions have just answered."""
        w[...] = weights
        self._summed = self.parts.restarts

    def totals(
        self,
        members: Any,
        alpha: RemoteDuals,
        w: Array,
        length: float,
        slack: Any,
        *,
        compensated: bool = False,
    ) -> Array:
        """Return what a certificate adds up over all rows.

        A partition that was lost since w was summed up has other dual variables now. Then w is
        summed up again, in place.
        """
        while True:
            how = {"which": alpha.which, "compensated": compensated}
            totals: Array = self.parts.ask(Partition.totals, w, **how)[1]
            if not self.outdated:
                return totals
            self.fill_weights(members, alpha, w, compensated=compensated)

    def best_scale(self, members: Any, alpha: RemoteDuals, slack: Any, w: Array) -> float:
        """Return 1: the slacks it would take are not kept."""
        return 1.0


class RemoteSlacks:
    """The slacks of all partitions; see `dualsweep.newton.slacks.Slacks`.

    Methods raise StartOverError if a partition is not what it was.

    Parameters
    ----------
    problem : PartitionedProblem
        The problem.
    w : array
        Weights to begin from; the partitions' dual variables are the first anchor.
    """

    def __init__(self, problem: PartitionedProblem, w: Array, *rest: Any) -> None:
        self.problem = problem
        while True:
            self.restarts = problem.parts.restarts
            problem.parts.ask(Partition.begin, w)
            if self.restarts == problem.parts.restarts:
                return

    @property
    def tuning(self) -> Tuning:
        """The constants."""
        return PARTITIONS if len(self.problem.weights_shape) == 1 else PARTITIONS_MULTICLASS

    def _ask(self, question: Question, w: Array | None = None, **how: Any) -> Answer:
        answer = self.problem.parts.ask(question, w, **how)
        if self.restarts != self.problem.parts.restarts:
            raise StartOverError
        return answer

    def measure(self, rho: float, step: float, settled: bool) -> Answer:
        """Take a step, then compute b."""
        return self._ask(Partition.measure, rho=rho, step=step, settled=settled)

    def hessian(self, rho: float, exact: bool) -> tuple[Array, float]:
        """Return the Hessian without its ridge, and 1."""
        return self._ask(Partition.hessian, rho=rho, exact=exact)[0], 1.0

    def product(self, v: Array, rho: float) -> Array:
        """Return the Hessian, without its ridge, times v."""
        return self._ask(Partition.product, v, rho=rho)[0]  # type: ignore[no-any-return]

    def aim(self, p: Array, rho: float, t: float) -> Array:
        """Let p be a whole step; return `slope`."""
        return self._ask(Partition.aim, p, rho=rho, t=t)[1]  # type: ignore[no-any-return]

    def slope(self, rho: float, t: float) -> Array:
        """Return the slope of the sums along the step, and its derivative."""
        return self._ask(Partition.slope, rho=rho, t=t)[1]  # type: ignore[no-any-return]

    def preconditioned(self, rho: float) -> Hessian | None:
        """Return None: partitions have no preconditioner."""
        return None

    def duals(self) -> RemoteDuals:
        """Make b the partitions' dual variables."""
        self.problem.parts.ask(Partition.take)
        return RemoteDuals(self.problem, "alpha")


slacks_of.register(PartitionedProblem, RemoteSlacks)  # type: ignore[arg-type]


@costs_of.register
def _(problem: PartitionedProblem) -> Costs:
    n_weights = prod(problem.weights_shape)
    rounds = ROUNDS_SMOOTH if problem.smooth else ROUNDS_KINKED
    if n_weights <= DIRECT_WEIGHTS:
        rounds = ROUNDS_DIRECT
    return Costs(rounds, 1.0, at_once=n_weights <= AT_ONCE, first_look=FIRST_LOOK)

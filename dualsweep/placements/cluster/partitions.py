"""Rows in partitions that stay where they are, such as the workers of a cluster.

A `Partition` has the dual variables of its rows and answers questions about them. Answers are added
up: partitions meet in nothing else. Rounds of sweeps are in `dualsweep.placements.cluster.rounds`;
Newton steps are those of `dualsweep.newton`, with the slacks of the rows in the partitions.

Weights are summed up afresh from the dual variables in each round. So nothing drifts, and a
partition that was lost and starts again from nothing makes the model worse but no certificate
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from math import prod
from typing import Concatenate, NamedTuple, ParamSpec, Protocol, cast

import numpy as np
import numpy.typing as npt

from ... import _tuning
from ..._random import random_state
from ..._typing import Array
from ...kernels.certificate import feature_length
from ...kernels.duals import SlottedDuals
from ...newton.backend import StartOverError
from ...newton.slacks import MemoryProblem, MemorySlacks, Slacks, slacks_of
from ...newton.tuning import PARTITIONS, PARTITIONS_MULTICLASS, Tuning
from ...solvers.costs import Costs, costs_of
from ...solvers.schedules import SCHEDULES

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

Numbers = ParamSpec("Numbers")


class Answer(NamedTuple):
    """What partitions answer, to be added up over them; None is nothing."""

    weights: Array | None = None
    numbers: Array | None = None


class Partition:
    """The dual variables of some rows, and what is known of how to visit them.

    Methods that return an `Answer` are questions. They take the rows as a problem of their own, for
    nothing here holds on to them. Weights that are sent come by position, numbers by name.
    """

    def __init__(self, problem: MemoryProblem, schedule: str, seed: tuple[int, ...]) -> None:
        self.alpha = problem.zero_alpha()
        self.kept: Array | SlottedDuals | None = None
        self.slacks: MemorySlacks | None = None  # of Newton steps
        self.plan = SCHEDULES[schedule](problem.candidates, random_state(*seed))

    def advance(self, problem: MemoryProblem, start: Array, rho: float) -> Answer:
        """Sweep the rows from the weights `start`; return the weights, and totals at the start.

        The weights are as precise as those that were sent.
        """
        w = problem.zero_weights()
        w[...] = start
        totals = self.totals(problem, w).numbers
        near = problem.with_costs(rho * problem.cost)
        shares = np.empty(problem.n_rows)
        self.alpha *= rho
        for _ in range(LOCAL_SWEEPS if len(self.plan.rows) else 0):
            order = self.plan.next_order()
            grads, gains = np.empty(len(order)), np.empty(len(order))
            near.sweep(self.plan.shrunk, order, self.alpha, w, grads, gains, shares)
            self.plan.observe(order, grads, gains)
        self.alpha *= 1.0 / rho
        problem.fill_weights(problem.candidates, self.alpha, w)
        return Answer(rounded(w, start.dtype), totals)

    def weights(
        self, problem: MemoryProblem, kept: bool = False, compensated: bool = False
    ) -> Answer:
        """Return the weights of the dual variables, or of those that were kept."""
        w, duals = problem.zero_weights(), self.duals(problem, kept)
        problem.fill_weights(problem.candidates, duals, w, compensated=compensated)
        return Answer(w)

    def totals(
        self, problem: MemoryProblem, w: Array, kept: bool = False, compensated: bool = False
    ) -> Answer:
        """Return what a certificate of w and the dual variables adds up."""
        members, duals = problem.candidates, self.duals(problem, kept)
        length, slack = feature_length(w), np.empty(len(members))
        totals = problem.totals(members, duals, w, length, slack, compensated=compensated)
        return Answer(numbers=totals)

    def begin(self, problem: MemoryProblem, w: Array) -> Answer:
        """Begin Newton steps from w and the dual variables."""
        # The rows of a partition are in memory, wherever those of the whole problem are.
        self.slacks = cast(MemorySlacks, slacks_of(problem, w, self.alpha, lambda: False))
        self.slacks.detach()
        return Answer()

    @contextmanager
    def _attached(self, problem: MemoryProblem) -> Iterator[MemorySlacks]:
        """Lend the slacks their rows for a ``with`` block."""
        if self.slacks is None:  # a partition that was lost; the answer does not count
            self.begin(problem, problem.zero_weights())
        assert self.slacks is not None
        self.slacks.attach(problem)
        yield self.slacks
        self.slacks.detach()

    def measure(self, problem: MemoryProblem, rho: float, step: float, settled: bool) -> Answer:
        """Let slacks take a step; see `Slacks.measure`."""
        with self._attached(problem) as slacks:
            return Answer(*slacks.measure(rho, step, settled))

    def aim(self, problem: MemoryProblem, p: Array, rho: float, t: float) -> Answer:
        """Let p be a whole step; see `Slacks.aim`."""
        with self._attached(problem) as slacks:
            return Answer(numbers=slacks.aim(p, rho, t))

    def slope(self, problem: MemoryProblem, rho: float, t: float) -> Answer:
        """Return the slope of the sums along the step; see `Slacks.slope`."""
        with self._attached(problem) as slacks:
            return Answer(numbers=slacks.slope(rho, t))

    def hessian(self, problem: MemoryProblem, rho: float, exact: bool) -> Answer:
        """Return the Hessian without its ridge; see `Slacks.hessian`."""
        with self._attached(problem) as slacks:
            matrix, factor = slacks.hessian(rho, exact)
            assert matrix is not None  # nobody tells it to stop
            return Answer(factor * matrix)

    def product(self, problem: MemoryProblem, v: Array, rho: float) -> Answer:
        """Return the Hessian, without its ridge, times v; see `Slacks.product`."""
        with self._attached(problem) as slacks:
            return Answer(slacks.product(v, rho))

    def take(self, problem: MemoryProblem) -> Answer:
        """Make the dual point of the slacks the dual variables."""
        if self.slacks is not None:
            with self._attached(problem) as slacks:
                self.alpha = slacks.duals()
        return Answer()

    def keep(self, problem: MemoryProblem) -> Answer:
        """Keep the dual variables as they are."""
        self.kept = copy(self.alpha)
        return Answer()

    def expand(self, problem: MemoryProblem) -> Answer:
        """Take back rows that are left out on suspicion."""
        self.plan.expand()
        return Answer()

    def reset(self, problem: MemoryProblem) -> Answer:
        """Start over from nothing."""
        self.alpha = problem.zero_alpha()
        return Answer()

    def duals(self, problem: MemoryProblem, kept: bool) -> Array | SlottedDuals:
        """Return dual variables; 0 for a partition that was lost after it kept some."""
        duals = self.kept if kept else self.alpha
        return problem.zero_alpha() if duals is None else duals


Question = Callable[Concatenate[Partition, MemoryProblem, Numbers], Answer]

# The questions that do not look at the rows: those on disk need not be read.
WITHOUT_ROWS = (
    Partition.slope,
    Partition.take,
    Partition.keep,
    Partition.expand,
    Partition.reset,
)


def rounded(w: Array, number: npt.DTypeLike) -> Array:
    """Return weights in the precision asked for, or as they are where that cannot hold them."""
    fits = w.min() > -LARGEST and w.max() < LARGEST
    return w.astype(number, copy=False) if fits else w


class Partitions(Protocol):
    """Where the partitions of a problem are, and how they are reached."""

    n_parts: int
    n_rows: int
    restarts: int  # how often partitions were lost so far, to start again from nothing

    def ask(
        self, question: Question[Numbers], *sent: Numbers.args, **how: Numbers.kwargs
    ) -> Answer:
        """Ask each `Partition`, which is given its rows; return the sums of the answers."""


class RemoteDuals(NamedTuple):
    """The dual variables of all partitions of a problem: as they are, or those that were kept."""

    problem: PartitionedProblem
    kept: bool = False

    def __copy__(self) -> RemoteDuals:
        self.problem.parts.ask(Partition.keep)
        return RemoteDuals(self.problem, kept=True)


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

    def __init__(self, parts: Partitions, like: MemoryProblem, primal_at_zero: float) -> None:
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
        return RemoteDuals(self)

    def slack_at_zero(self) -> None:
        """Return None: slacks are not kept."""

    def fill_weights(
        self, members: range, alpha: RemoteDuals, w: Array, *, compensated: bool = False
    ) -> None:
        """Overwrite w with the weights of `alpha`."""
        answer = self.parts.ask(Partition.weights, kept=alpha.kept, compensated=compensated)
        self.note_weights(answer, w)

    def note_weights(self, answer: Answer, w: Array) -> None:
        """Overwrite w with weights that the partitions have just answered."""
        w[...] = answer.weights
        self._summed = self.parts.restarts

    def totals(
        self,
        members: range,
        alpha: RemoteDuals,
        w: Array,
        length: float,
        slack: None,
        *,
        compensated: bool = False,
    ) -> Array:
        """Return what a certificate adds up over all rows.

        A partition that was lost since w was summed up has other dual variables now. Then w is
        summed up again, in place.
        """
        while True:
            answer = self.parts.ask(Partition.totals, w, kept=alpha.kept, compensated=compensated)
            if not self.outdated:
                assert answer.numbers is not None
                return answer.numbers
            self.fill_weights(members, alpha, w, compensated=compensated)

    def best_scale(self, members: range, alpha: RemoteDuals, slack: None, w: Array) -> float:
        """Return 1: the slacks it would take are not kept."""
        return 1.0


class RemoteSlacks(Slacks):
    """The slacks of all partitions.

    Methods raise StartOverError if a partition is not what it was.

    Parameters
    ----------
    problem : PartitionedProblem
        The problem.
    w : array
        Weights to begin from; the partitions' dual variables are the first anchor.
    """

    def __init__(self, problem: PartitionedProblem, w: Array, *rest: object) -> None:
        self.problem, self.parts = problem, problem.parts
        one = len(problem.weights_shape) == 1
        self.tuning: Tuning = PARTITIONS if one else PARTITIONS_MULTICLASS
        while True:
            self.restarts = self.parts.restarts
            self.parts.ask(Partition.begin, w)
            if self.restarts == self.parts.restarts:
                return

    def _ask(
        self, question: Question[Numbers], *sent: Numbers.args, **how: Numbers.kwargs
    ) -> tuple[Array, Array]:
        """Return what partitions answer; whoever asks knows which of the two there is."""
        answer = self.parts.ask(question, *sent, **how)
        if self.restarts != self.parts.restarts:
            raise StartOverError
        return cast(tuple[Array, Array], answer)

    def measure(self, rho: float, step: float, settled: bool) -> tuple[Array, Array]:
        return self._ask(Partition.measure, rho=rho, step=step, settled=settled)

    def hessian(self, rho: float, exact: bool) -> tuple[Array, float]:
        return self._ask(Partition.hessian, rho=rho, exact=exact)[0], 1.0

    def product(self, v: Array, rho: float) -> Array:
        return self._ask(Partition.product, v, rho=rho)[0]

    def aim(self, p: Array, rho: float, t: float) -> Array:
        return self._ask(Partition.aim, p, rho=rho, t=t)[1]

    def slope(self, rho: float, t: float) -> Array:
        return self._ask(Partition.slope, rho=rho, t=t)[1]

    def duals(self) -> RemoteDuals:
        """Make b the partitions' dual variables."""
        self.parts.ask(Partition.take)
        return RemoteDuals(self.problem)


slacks_of.register(PartitionedProblem, RemoteSlacks)  # type: ignore[arg-type]


@costs_of.register
def _(problem: PartitionedProblem) -> Costs:
    n_weights = prod(problem.weights_shape)
    rounds = ROUNDS_SMOOTH if problem.smooth else ROUNDS_KINKED
    if n_weights <= _tuning.DIRECT_WEIGHTS:
        rounds = ROUNDS_DIRECT
    return Costs(rounds, 1.0, at_once=n_weights <= AT_ONCE, first_look=FIRST_LOOK)

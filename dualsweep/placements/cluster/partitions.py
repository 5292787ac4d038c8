"""Rows in partitions that stay where they are, such as on the workers of a cluster.

A `Partition` has the dual variables of its rows and answers questions about them. The answers are
summed, and nothing else leaves a partition. Each round sums the weights afresh from the dual
variables, so nothing drifts. A partition that is lost starts again from 0: the model gets worse,
but every certificate stays right. Newton steps are those of `dualsweep.newton`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from math import prod
from typing import Concatenate, NamedTuple, ParamSpec, Protocol, cast

import numpy as np
import numpy.typing as npt

from ... import _tuning
from ..._random import random_state
from ..._typing import Array
from ...kernels.certificate import certified, feature_length, squared_length
from ...kernels.duals import SlottedDuals
from ...newton.backend import StartOverError
from ...newton.slacks import AnyMemoryProblem, MemorySlacks, Slacks, slacks_of
from ...newton.tuning import PARTITIONS, PARTITIONS_MULTICLASS, Tuning
from ...problems.remote import RemoteProblem
from ...problems.run import PointRun
from ...solvers.costs import Costs, costs_of
from ...solvers.schedules import SCHEDULES
from ...solvers.sweeps import FLOAT32_PROGRESS, FLOAT32_TOL, sweeper_of

LOCAL_SWEEPS = 3  # of a partition in a round
LARGEST = 1e30  # weight sent in float32, which ends at 3e38: leave room for sums

# rho is halved where ROUNDS rounds leave more than SLOW of the gap, down to LEAST_RHO; powers of
# two scale dual variables without rounding. Rounds for hinge and squared hinge, C = 1, four parts,
# with 0.5 throughout, with this, and down to 1/64: 252 and 145, 186 and 54, over 400 and 100 on
# digits (0 against the rest); over 400 and 13, 220 and 13, over 400 and 13 on generated text.
FIRST_RHO, LEAST_RHO = 0.5, 0.125
ROUNDS, SLOW = 8, 0.5
RELAX = 1.6  # over-relaxation, as usual

# Costs are counted in rounds. A direct Newton step takes a round and a Gram matrix. Below AT_ONCE
# weights the matrix is cheap, and no sweeps are tried first. Above, 15 to 40 steps are worth
# ROUNDS_DIRECT: those of one class of mnist took minutes at C = 0.01, where sweeps take seconds.
# A step of conjugate gradients takes a round: in all ROUNDS_SMOOTH or ROUNDS_KINKED by the loss,
# however many partitions there are. Rates are judged after FIRST_LOOK rounds.
AT_ONCE = 200
ROUNDS_DIRECT, ROUNDS_SMOOTH, ROUNDS_KINKED = 100.0, 200.0, 800.0
FIRST_LOOK = 30.0

Numbers = ParamSpec("Numbers")


class Answer(NamedTuple):
    """What a partition answers, or the sum over several."""

    weights: Array = np.empty(0)
    numbers: Array = np.empty(0)
    born: Mapping[int, str] = {}  # by partition; changes if it is lost, with its dual variables

    def plus(self, other: Answer) -> Answer:
        """Return the sum; it may take the place of these weights."""
        same = self.weights.dtype == other.weights.dtype
        weights = np.add(self.weights, other.weights, out=self.weights if same else None)
        return Answer(weights, self.numbers + other.numbers, {**self.born, **other.born})


class Partition:
    """The dual variables of some rows, and the order to visit them in.

    Methods that return an `Answer` are questions. The rows come as an argument, so that nothing
    here keeps them in memory. Weights that are sent come by position, numbers by name.
    """

    def __init__(self, problem: AnyMemoryProblem, schedule: str, seed: tuple[int, ...]) -> None:
        self.alpha = problem.zero_alpha()
        self.kept: Array | SlottedDuals | None = None
        self.slacks: MemorySlacks | None = None  # of Newton steps
        self.plan = SCHEDULES[schedule](problem.candidates, random_state(*seed))

    def advance(self, problem: AnyMemoryProblem, start: Array, rho: float) -> Answer:
        """Sweep the rows from the weights `start`; return the weights, and totals at the start.

        The answer has the precision of `start`.
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
        problem.fill_weights(self.alpha, w)
        return Answer(rounded(w, start.dtype), totals)

    def weights(
        self, problem: AnyMemoryProblem, kept: bool = False, compensated: bool = False
    ) -> Answer:
        """Return the weights of the dual variables, or of the kept ones."""
        w, duals = problem.zero_weights(), self.duals(problem, kept)
        problem.fill_weights(duals, w, compensated=compensated)
        return Answer(w)

    def totals(
        self, problem: AnyMemoryProblem, w: Array, kept: bool = False, compensated: bool = False
    ) -> Answer:
        """Return these rows' sums for a certificate of w and the dual variables."""
        duals, slack = self.duals(problem, kept), np.empty(len(problem.candidates))
        length = feature_length(w)
        totals = problem.totals(duals, w, length, slack, compensated=compensated)
        return Answer(numbers=totals)

    def begin(self, problem: AnyMemoryProblem, w: Array) -> Answer:
        """Begin Newton steps from w and the dual variables."""
        # The rows of a partition are in memory, wherever those of the whole problem are.
        self.slacks = cast(MemorySlacks, slacks_of(problem, w, self.alpha, lambda: False))
        self.slacks.detach()
        return Answer()

    @contextmanager
    def _attached(self, problem: AnyMemoryProblem) -> Iterator[MemorySlacks]:
        """Lend the slacks their rows for a ``with`` block."""
        if self.slacks is None:  # the partition was lost, and nobody uses this answer
            self.begin(problem, problem.zero_weights())
        assert self.slacks is not None
        self.slacks.attach(problem)
        yield self.slacks
        self.slacks.detach()

    # The questions of Newton's method are those of `Slacks`.

    def measure(self, problem: AnyMemoryProblem, rho: float, step: float, settled: bool) -> Answer:
        with self._attached(problem) as slacks:
            return Answer(*slacks.measure(rho, step, settled))

    def aim(self, problem: AnyMemoryProblem, p: Array, rho: float, t: float) -> Answer:
        with self._attached(problem) as slacks:
            return Answer(numbers=slacks.aim(p, rho, t))

    def slope(self, problem: AnyMemoryProblem, rho: float, t: float) -> Answer:
        with self._attached(problem) as slacks:
            return Answer(numbers=slacks.slope(rho, t))

    def hessian(self, problem: AnyMemoryProblem, rho: float, exact: bool) -> Answer:
        with self._attached(problem) as slacks:
            matrix, factor = slacks.hessian(rho, exact)
            assert matrix is not None  # nobody tells it to stop
            return Answer(factor * matrix)

    def product(self, problem: AnyMemoryProblem, v: Array, rho: float) -> Answer:
        with self._attached(problem) as slacks:
            return Answer(slacks.product(v, rho))

    def take(self, problem: AnyMemoryProblem) -> Answer:
        """Replace the dual variables by the dual point of the slacks."""
        if self.slacks is not None:
            with self._attached(problem) as slacks:
                self.alpha = slacks.duals()
        return Answer()

    def keep(self, problem: AnyMemoryProblem) -> Answer:
        """Keep the dual variables as they are."""
        self.kept = copy(self.alpha)
        return Answer()

    def expand(self, problem: AnyMemoryProblem) -> Answer:
        """Visit again the rows that were left out on trial."""
        self.plan.expand()
        return Answer()

    def reset(self, problem: AnyMemoryProblem) -> Answer:
        """Set all dual variables to 0."""
        self.alpha = problem.zero_alpha()
        return Answer()

    def duals(self, problem: AnyMemoryProblem, kept: bool) -> Array | SlottedDuals:
        """Return the dual variables; kept ones are 0 if a partition was lost since."""
        duals = self.kept if kept else self.alpha
        return problem.zero_alpha() if duals is None else duals


Question = Callable[Concatenate[Partition, AnyMemoryProblem, Numbers], Answer]

# These questions need no row: rows on disk are not read for them.
WITHOUT_ROWS = Partition.slope, Partition.take, Partition.keep, Partition.expand, Partition.reset


def rounded(w: Array, number: npt.DTypeLike) -> Array:
    """Return weights in another precision, or unchanged if it cannot hold them."""
    fits = w.min() > -LARGEST and w.max() < LARGEST
    return w.astype(number, copy=False) if fits else w


class Partitions(Protocol):
    """How the partitions of a problem are reached."""

    n_parts: int
    n_rows: int
    restarts: int  # how often partitions were lost and started again from 0

    def ask(
        self, question: Question[Numbers], *sent: Numbers.args, **how: Numbers.kwargs
    ) -> Answer:
        """Ask each `Partition`; return the sum of the answers."""


class RemoteDuals(NamedTuple):
    """The dual variables in all partitions of a problem: the current ones, or those kept."""

    problem: PartitionedProblem
    kept: bool = False

    def __copy__(self) -> RemoteDuals:
        self.problem.parts.ask(Partition.keep)
        return RemoteDuals(self.problem, kept=True)


class PartitionedProblem(RemoteProblem):
    """A problem whose rows are in partitions."""

    in_place = True

    def __init__(self, parts: Partitions, like: AnyMemoryProblem, primal_at_zero: float) -> None:
        """Take partitions, and a problem of the same formulation without rows."""
        super().__init__(parts.n_rows, like.weights_shape, primal_at_zero)
        self.parts, self.like = parts, like
        self.smooth, self.scale, self.ridge = like.smooth, like.scale, like.ridge
        self.zero_weights, self.size = like.zero_weights, like.size
        self.gap_of_gradient = like.gap_of_gradient
        self._summed = parts.restarts  # when weights were last summed

    @property
    def mean_cost(self) -> float:
        """The mean of the rows' costs."""
        one = float(self.like.with_costs(np.ones(1)).primal_at_zero)
        return self.primal_at_zero / (one * self.n_rows)

    @property
    def outdated(self) -> bool:
        return self._summed != self.parts.restarts

    def zero_alpha(self) -> RemoteDuals:
        self.parts.ask(Partition.reset)
        return RemoteDuals(self)

    def fill_weights(self, alpha: RemoteDuals, w: Array, *, compensated: bool = False) -> None:
        answer = self.parts.ask(Partition.weights, kept=alpha.kept, compensated=compensated)
        self.note_weights(answer, w)

    def note_weights(self, answer: Answer, w: Array) -> None:
        """Overwrite w with weights that partitions have just answered."""
        w[...] = answer.weights
        self._summed = self.parts.restarts

    def totals(
        self, alpha: RemoteDuals, w: Array, length: float, slack: None, *, compensated: bool = False
    ) -> Array:
        """Return what a certificate adds up; sum w again, in place, if a partition was lost."""
        while True:
            answer = self.parts.ask(Partition.totals, w, kept=alpha.kept, compensated=compensated)
            if not self.outdated:
                return answer.numbers
            self.fill_weights(alpha, w, compensated=compensated)


class RemoteSlacks(Slacks):
    """The slacks of all partitions; methods raise StartOverError if one was lost."""

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
    ) -> Answer:
        answer = self.parts.ask(question, *sent, **how)
        if self.restarts != self.parts.restarts:
            raise StartOverError
        return answer

    def measure(self, rho: float, step: float, settled: bool) -> tuple[Array, Array]:
        answer = self._ask(Partition.measure, rho=rho, step=step, settled=settled)
        return answer.weights, answer.numbers

    def hessian(self, rho: float, exact: bool) -> tuple[Array, float]:
        return self._ask(Partition.hessian, rho=rho, exact=exact).weights, 1.0

    def product(self, v: Array, rho: float) -> Array:
        return self._ask(Partition.product, v, rho=rho).weights

    def aim(self, p: Array, rho: float, t: float) -> Array:
        return self._ask(Partition.aim, p, rho=rho, t=t).numbers

    def slope(self, rho: float, t: float) -> Array:
        return self._ask(Partition.slope, rho=rho, t=t).numbers

    def duals(self) -> RemoteDuals:
        """Let partitions take b as their dual variables."""
        self.parts.ask(Partition.take)
        return RemoteDuals(self.problem)


class PartitionSweeper:
    """Rounds of sweeps: the alternating direction method of multipliers.

    Let u_k be the weights of the dual variables of partition k, and f_k its other terms of the
    dual. The dual is ``1/2 |sum_k u_k|^2 + sum_k f_k``, a sharing problem, which the method solves
    for any penalty rho > 0 (Boyd et al. 2011, section 7.3). In a round each partition minimises

        f_k + rho / 2 |u_k - (the u_k it had) + start / rho|^2

    by a few sweeps over its own rows, with the same vector `start` for all, and answers with its
    u_k. The sum of these is w. In the variables ``rho alpha`` this is the problem of these rows
    alone, with costs ``rho C`` and weights that start at `start`, so kernels need not know. Without
    multipliers and with rho the number of partitions it is CoCoA+ (Ma et al. 2015): safe, and slow.

    Rounds to a relative gap of 1e-3 on blogs at C = 1, with rows at random in four partitions, for
    hinge and squared hinge: CoCoA+ 564 and 119; with multipliers and rho = 0.5 throughout 30 and
    15; with rho = 1 53 for hinge, with rho = 2 52 for squared hinge.
    """

    # A certificate takes a round, but no sweeps, and few numbers come back.
    check_every, check_cost = 10.0 * LOCAL_SWEEPS, 1.0
    # A round sees the gap of the weights that it starts from.
    correction = 16.0

    def __init__(self, run: PointRun, schedule: str, seed: tuple[int, ...]) -> None:
        self.problem: PartitionedProblem = run.problem  # whose partitions know schedule and seed
        self.parts = self.problem.parts
        self.n_left, self.seen, self.dual = self.problem.n_rows, run.gap, run.dual
        self.rho = FIRST_RHO
        # In float32 messages are half as long. That is exact enough: all partitions start from the
        # same rounded weights, and a certificate sums its weights afresh.
        self.number: npt.DTypeLike = np.float32 if run.tol >= FLOAT32_TOL else np.float64
        self._restart(run.w)

    @property
    def share(self) -> float:
        """Rho over the number of partitions."""
        return self.rho / self.parts.n_parts

    def _restart(self, w: Array) -> None:
        """Start from w: set the consensus sum and its multiplier."""
        self.restarts = self.parts.restarts
        self.consensus, self.multiplier = w.copy("K"), w / self.share
        self.gaps: list[float] = []  # since rho was last changed

    def sweep(self, run: PointRun, w: Array) -> tuple[int, float]:
        """Do a round; return the number of visits, and the dual's gain in the round before."""
        if self.restarts != self.parts.restarts:
            self._restart(w)
        sent = rounded(self.share * (w - self.consensus + self.multiplier), self.number)
        answer = self.parts.ask(Partition.advance, sent, rho=self.rho)
        start = sent.astype(np.float64, copy=False)
        found = certified(self.problem.size(start), answer.numbers, self.problem.n_rows)
        # P(start) - D(alpha), of the dual variables before these sweeps.
        self.seen = found.gap + 0.5 * squared_length((start - w).ravel("K"))
        before, self.dual = self.dual, found.primal - self.seen
        self.problem.note_weights(answer, w)
        relaxed = RELAX * w + (1.0 - RELAX) * self.consensus + self.multiplier
        self.consensus = self.share / (1.0 + self.share) * relaxed
        self.multiplier = relaxed - self.consensus
        self._lower_rho()
        run.poll()
        return LOCAL_SWEEPS * self.problem.n_rows, self.dual - before

    def _lower_rho(self) -> None:
        """Make rho smaller where rounds have become slow."""
        self.gaps.append(self.seen)
        slow = len(self.gaps) > ROUNDS and self.seen > SLOW * self.gaps[-1 - ROUNDS]
        if slow and self.rho > LEAST_RHO:
            self.rho *= 0.5
            self.multiplier *= 2.0
            self.gaps = []

    def check(self, run: PointRun, expand: bool) -> None:
        if expand:
            self.parts.ask(Partition.expand)
        before, exact = run.gap, self.number == np.float64
        run.check(weights_known=exact and not self.problem.outdated)
        if run.gap > FLOAT32_PROGRESS * before:
            self.number = np.float64


slacks_of.register(PartitionedProblem, RemoteSlacks)  # type: ignore[arg-type]
sweeper_of.register(PartitionedProblem, lambda problem: PartitionSweeper)


@costs_of.register
def _(problem: PartitionedProblem) -> Costs:
    n_weights = prod(problem.weights_shape)
    rounds = ROUNDS_SMOOTH if problem.smooth else ROUNDS_KINKED
    if n_weights <= _tuning.DIRECT_WEIGHTS:
        rounds = ROUNDS_DIRECT
    return Costs(rounds, 1.0, newton_first=n_weights <= AT_ONCE, least_sweeps=FIRST_LOOK)

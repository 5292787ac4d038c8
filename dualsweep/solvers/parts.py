"""Training on rows in parts that stay where they are, such as the partitions of a cluster.

With u_k the weights of the dual variables of part k, and f_k what else these contribute, the dual
is ``1/2 |sum_k u_k|^2 + sum_k f_k``: parts meet in the sum of their weights only. That is a sharing
problem, which the alternating direction method of multipliers solves for any penalty rho > 0 (Boyd
et al. 2011, section 7.3). In a round each part minimises

    f_k + rho / 2 |u_k - (the u_k it had) + start / rho|^2

by a few sweeps over its own rows, where `start` is the same vector for all, and answers with its
u_k; their sum is w. In the variables ``rho alpha`` this is the problem of the part's rows alone
with costs ``rho C``, whose weights start at `start`: kernels need not know. Without multipliers and
with rho the number of parts it is CoCoA+ (Ma et al. 2015), which is safe, and slow.

Rounds to a relative gap of 1e-3 on blogs at C = 1, its rows at random in four parts, for hinge and
squared hinge: 564 and 119 for CoCoA+, 30 and 15 with multipliers and rho = 0.5 throughout; 53 for
hinge with rho = 1, 52 for squared hinge with rho = 2.

Weights are summed up afresh from the dual variables in each round. So nothing drifts, and a part
that was lost and starts again from nothing makes the model worse but no certificate wrong.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Protocol

import numpy as np

from .._random import random_state
from ..kernels.certificate import primal_and_gap, squared_length
from .run import Run
from .schedules import SCHEDULES

__all__ = ["Part", "Parts", "PartsProblem", "PartsSweeper"]

LOCAL_SWEEPS = 3  # of a part in a round

# rho is halved where ROUNDS rounds leave more than SLOW of the gap, down to LEAST_RHO; powers of
# two scale dual variables without rounding. Rounds for hinge and squared hinge, C = 1, four parts,
# with 0.5 throughout, with this, and down to 1/64: 252 and 145, 186 and 54, over 400 and 100 on
# digits (0 against the rest); over 400 and 13, 220 and 13, over 400 and 13 on generated text.
FIRST_RHO, LEAST_RHO = 0.5, 0.125
ROUNDS, SLOW = 8, 0.5
RELAX = 1.6  # over-relaxation, as usual

Answer = tuple[Any, Any]  # weights, or None; numbers, or None


class Part:
    """The dual variables of some rows, and what is known of how to visit them.

    Methods take the rows as a problem of their own, for nothing here holds on to them, and return
    answers that are to be added up over the parts.
    """

    def __init__(self, problem: Any, schedule: str, seed: tuple[int, ...]) -> None:
        self.alpha = problem.zero_alpha()
        self.kept: Any = None
        self.plan = SCHEDULES[schedule](problem.candidates, random_state(*seed))

    def advance(self, problem: Any, start: Any, rho: float) -> Answer:
        """Sweep the rows from the weights `start`; return the weights, and totals at the start."""
        _, totals = self.totals(problem, start, "alpha")
        near = problem.with_costs(rho * problem.cost)
        w = problem.zero_weights()
        w[...] = start
        shares = np.empty(problem.n_rows)
        self.alpha *= rho
        for _ in range(LOCAL_SWEEPS if len(self.plan.rows) else 0):
            order = self.plan.next_order()
            grads, gains = np.empty(len(order)), np.empty(len(order))
            near.sweep(self.plan.shrunk, order, self.alpha, w, grads, gains, shares)
            self.plan.observe(order, grads, gains)
        self.alpha *= 1.0 / rho
        return self.weights(problem, "alpha")[0], totals

    def weights(self, problem: Any, which: str) -> Answer:
        """Return the weights of the dual variables, or of those that were kept."""
        w = problem.zero_weights()
        problem.fill_weights(problem.candidates, self.duals(problem, which), w)
        return w, None

    def totals(self, problem: Any, w: Any, which: str) -> Answer:
        """Return what a certificate of w and the dual variables adds up."""
        members = problem.candidates
        length = problem.margin_length(problem.size(w))
        slack = np.empty(len(members))
        return None, problem.totals(members, self.duals(problem, which), w, length, slack)

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


class Parts(Protocol):
    """Where the parts of a problem are, and how they are reached."""

    n_parts: int
    n_rows: int
    restarts: int  # how often parts were lost so far, to start again from nothing

    def ask(self, name: str, w: Any = None, **how: Any) -> Answer:
        """Call a method of each `Part`, with its rows; return the sums of the answers."""


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
        self.parts = parts
        self.n_rows = parts.n_rows
        self.candidates = range(parts.n_rows)
        self.weights_shape = like.weights_shape
        self.primal_at_zero = primal_at_zero
        self.zero_weights = like.zero_weights
        self.size, self.margin_length = like.size, like.margin_length
        self._summed = parts.restarts  # as they were when weights were last summed up

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

    def fill_weights(self, members: Any, alpha: Any, w: Any) -> None:
        """Overwrite w with the weights of `alpha`."""
        self.note_weights(self.parts.ask("weights", which=alpha.which)[0], w)

    def note_weights(self, weights: Any, w: Any) -> None:
        """Overwrite w with weights that the parts have just answered."""
        w[...] = weights
        self._summed = self.parts.restarts

    def totals(self, members: Any, alpha: Any, w: Any, length: float, slack: Any) -> Any:
        """Return what a certificate adds up over all rows.

        A part that was lost since w was summed up has other dual variables now. Then w is summed up
        again, and the objective is made that of the new w.
        """
        before = after = self.size(w)
        while True:
            totals = self.parts.ask("totals", w, which=alpha.which)[1]
            if not self.outdated:
                totals[0] += 0.5 * (after - before)
                return totals
            self.fill_weights(members, alpha, w)
            after = self.size(w)

    def best_scale(self, members: Any, alpha: Any, slack: Any, w: Any) -> float:
        """Return 1: the slacks it would take are not kept."""
        return 1.0


class PartsSweeper:
    """Rounds of sweeps over all parts at once.

    Parameters
    ----------
    run : Run
        The run of a `PartsProblem`.
    """

    # A certificate takes a round, but for the sweeps and for what comes back.
    check_every, check_cost = 10.0 * LOCAL_SWEEPS, 1.0
    # What a round sees of the gap is that of the weights it starts from.
    correction = 16.0

    def __init__(self, run: Run) -> None:
        assert isinstance(run.problem, PartsProblem)
        self.problem, self.parts = run.problem, run.problem.parts
        self.n_left = run.problem.n_rows
        self.seen = run.gap
        self.dual = run.dual
        self.rho = FIRST_RHO
        self._settle(run.w)

    @property
    def share(self) -> float:
        """Rho over the number of parts."""
        return self.rho / self.parts.n_parts

    def _settle(self, w: Any) -> None:
        """Let rounds start from w: the sum that is hoped for, and what multiplies the deviation."""
        self.restarts = self.parts.restarts
        self.hoped, self.multiplier = w.copy("K"), w / self.share
        self.gaps: list[float] = []  # since rho is what it is

    def sweep(self, run: Run, w: Any) -> tuple[int, float]:
        """Do a round; return the number of visits, and what the dual gained in the one before."""
        if self.restarts != self.parts.restarts:
            self._settle(w)
        start = self.share * (w - self.hoped + self.multiplier)
        weights, totals = self.parts.ask("advance", start, rho=self.rho)
        primal, gap = primal_and_gap(self.problem.size(start), totals, run.problem.n_rows)
        # P(start) - D(alpha), of the dual variables before these sweeps.
        self.seen = gap + 0.5 * squared_length((start - w).ravel("K"))
        before, self.dual = self.dual, primal - self.seen
        self.problem.note_weights(weights, w)
        relaxed = RELAX * w + (1.0 - RELAX) * self.hoped + self.multiplier
        self.hoped = self.share / (1.0 + self.share) * relaxed
        self.multiplier = relaxed - self.hoped
        self._lower()
        run.poll()
        return LOCAL_SWEEPS * run.problem.n_rows, self.dual - before

    def _lower(self) -> None:
        """Make rho smaller where rounds have become slow."""
        self.gaps.append(self.seen)
        slow = len(self.gaps) > ROUNDS and self.seen > SLOW * self.gaps[-1 - ROUNDS]
        if slow and self.rho > LEAST_RHO:
            self.rho *= 0.5
            self.multiplier *= 2.0
            self.gaps = []

    def check(self, run: Run, expand: bool) -> None:
        """Compute a certificate; take back what is left out on trial."""
        if expand:
            self.parts.ask("expand")
        run.check(weights_known=not self.problem.outdated)
        while self.problem.outdated:  # a part was lost when it was to keep its dual variables
            run.check()

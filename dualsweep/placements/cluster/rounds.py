"""Rounds of sweeps over rows in parts: the alternating direction method of multipliers.

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
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..._typing import Array
from ...kernels.certificate import certified, squared_length
from ...problems.run import PointRun
from ...solvers.sweeps import FLOAT32_PROGRESS, FLOAT32_TOL, sweeper_of
from .partitions import LOCAL_SWEEPS, Partition, PartitionedProblem, rounded

# rho is halved where ROUNDS rounds leave more than SLOW of the gap, down to LEAST_RHO; powers of
# two scale dual variables without rounding. Rounds for hinge and squared hinge, C = 1, four parts,
# with 0.5 throughout, with this, and down to 1/64: 252 and 145, 186 and 54, over 400 and 100 on
# digits (0 against the rest); over 400 and 13, 220 and 13, over 400 and 13 on generated text.
FIRST_RHO, LEAST_RHO = 0.5, 0.125
ROUNDS, SLOW = 8, 0.5
RELAX = 1.6  # over-relaxation, as usual


class PartitionSweeper:
    """Rounds of sweeps over all parts at once."""

    takes_momentum = False
    # A certificate takes a round, but for the sweeps and for what comes back.
    check_every, check_cost = 10.0 * LOCAL_SWEEPS, 1.0
    # What a round sees of the gap is that of the weights it starts from.
    correction = 16.0

    def __init__(self, run: PointRun, schedule: str, seed: tuple[int, ...]) -> None:
        self.problem: PartitionedProblem = run.problem  # whose partitions know schedule and seed
        self.parts = self.problem.parts
        self.n_left = self.problem.n_rows
        self.seen = run.gap
        self.dual = run.dual
        self.rho = FIRST_RHO
        # In float32 messages are half as long. What a round starts from is rounded before anybody
        # uses it, and where a certificate is computed, weights are summed up afresh.
        self.number: npt.DTypeLike = np.float32 if run.tol >= FLOAT32_TOL else np.float64
        self._settle(run.w)

    @property
    def share(self) -> float:
        """Rho over the number of parts."""
        return self.rho / self.parts.n_parts

    def _settle(self, w: Array) -> None:
        """Let rounds start from w: the sum that is hoped for, and what multiplies the deviation."""
        self.restarts = self.parts.restarts
        self.hoped, self.multiplier = w.copy("K"), w / self.share
        self.gaps: list[float] = []  # since rho is what it is

    def sweep(self, run: PointRun, w: Array) -> tuple[int, float]:
        """Do a round; return the number of visits, and what the dual gained in the one before."""
        if self.restarts != self.parts.restarts:
            self._settle(w)
        sent = rounded(self.share * (w - self.hoped + self.multiplier), self.number)
        answer = self.parts.ask(Partition.advance, sent, rho=self.rho)
        start = sent.astype(np.float64, copy=False)
        found = certified(self.problem.size(start), answer.numbers, self.problem.n_rows)
        # P(start) - D(alpha), of the dual variables before these sweeps.
        self.seen = found.gap + 0.5 * squared_length((start - w).ravel("K"))
        before, self.dual = self.dual, found.primal - self.seen
        self.problem.note_weights(answer, w)
        relaxed = RELAX * w + (1.0 - RELAX) * self.hoped + self.multiplier
        self.hoped = self.share / (1.0 + self.share) * relaxed
        self.multiplier = relaxed - self.hoped
        self._lower()
        run.poll()
        return LOCAL_SWEEPS * self.problem.n_rows, self.dual - before

    def _lower(self) -> None:
        """Make rho smaller where rounds have become slow."""
        self.gaps.append(self.seen)
        slow = len(self.gaps) > ROUNDS and self.seen > SLOW * self.gaps[-1 - ROUNDS]
        if slow and self.rho > LEAST_RHO:
            self.rho *= 0.5
            self.multiplier *= 2.0
            self.gaps = []

    def check(self, run: PointRun, expand: bool) -> None:
        """Compute a certificate; take back what is left out on trial."""
        if expand:
            self.parts.ask(Partition.expand)
        before, exact = run.gap, self.number == np.float64
        run.check(weights_known=exact and not self.problem.outdated)
        if run.gap > FLOAT32_PROGRESS * before:
            self.number = np.float64


sweeper_of.register(PartitionedProblem, lambda problem: PartitionSweeper)

"""The slacks of a binary problem, whose passes are phases of one kernel."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from .. import _tuning
from .._symmetric import add_lower
from .._team import Team
from .._threads import Workers
from .._typing import Array
from ..kernels import newton_binary as kernel
from ..kernels.duals import SlottedDuals
from ..problems.binary import BinaryProblem
from ..rows.passes import SMALL_SUMS
from .slacks import MemorySlacks, slacks_of
from .tuning import DIRECT

# Pad to two cache lines, to avoid false sharing.
PADDING = 16


class BinarySlacks(MemorySlacks):
    """The slacks of a binary problem.

    A pass over a few million entries takes a millisecond with many threads, and Python takes
    another to hand it over. So passes, and the Gram matrix of sparse rows, are phases of one kernel
    that a team of threads stays in. If several problems share passes (`measure_together`,
    `aim_together`), a problem is the work of one thread.
    """

    tuning = DIRECT
    problem: BinaryProblem

    def prepare(self) -> None:
        self.loss, n = self.problem.loss, len(self.y)
        self.scale = np.empty(n)  # the derivative of b in the slack
        # Where b bends, what the last direction promised of it can prove more; see `ahead_gap`.
        self.ahead = np.empty(0 if self.loss.quadratic else n)
        self.looked, self.chosen = np.inf, self.b
        self.length = float(np.sqrt(self.problem.sqnorm.mean()))  # of a row
        self.gram: Array | None = None  # of the free rows, with these weights
        self.weight, self.exact = np.zeros(n), False
        # How many parts there are, and how many where each adds to weights of its own.
        self.parts, self.adding = self.passes.count_fine_parts(n)
        self.shared = False  # whether threads are divided among several problems

    def detach(self) -> None:
        """Drop the rows, and a Gram matrix as large as many of them."""
        super().detach()
        self.gram = None
        for name in ("phases", "team"):
            self.__dict__.pop(name, None)

    def first_slack(self) -> Array:
        return self.problem.slack_at_zero()

    def change(self, part: slice, scores: Array) -> Array:
        return -self.y[part] * scores

    def measure(self, rho: float, step: float, settled: bool) -> tuple[Array, Array]:
        sums = self._imply(kernel.MEASURE, self.adding, rho, step, settled)
        return self.phases.weights[:, : self.passes.n_weights].sum(axis=0), sums

    def imply(self, rho: float, step: float, settled: bool, coef: Array) -> Array:
        """Do what `measure` does, but fill in the rows' coefficients instead of the weights."""
        sums = self._imply(kernel.IMPLY, self.n_parts, rho, step, settled)
        np.multiply(self.b, self.y, out=coef)
        return sums

    def _imply(self, phase: int, count: int, rho: float, step: float, settled: bool) -> Array:
        sums = self._do(phase, count, rho, step, settled)
        usable = len(self.ahead) and step > 0.0 and rho == 0.0
        self.looked = float(sums[2]) if usable else np.inf
        if usable and sums[3] > 0.0:
            # What bounds cut off changes the weights by this at most, and the objective bends.
            away = float(sums[3]) * self.length
            self.looked += 0.5 * away**2 * (1.0 + float(self.scale.sum()) * self.length**2)
        return sums[:2]

    def ahead_gap(self, gap: float) -> float:
        """Choose between b, which has this gap, and the dual point that the direction promised.

        The weights of that are those of a whole step, since the direction solves the linear system
        that says so. Hence its gap is what the dual variables bend, row by row. That of b is half
        the square of what its weights bend, which is much more where rows add up. Steps to 1e-3 at
        C = 0.1, 1, 10 and 100: covtype 5, 6, 8 and 10 instead of 6, 8, 9 and 11; a9a 3, 4, 4 and 5
        instead of 5, 5, 6 and 7.
        """
        self.chosen = self.ahead if self.looked < gap else self.b
        return min(self.looked, gap)

    def aim(self, p: Array, rho: float, t: float) -> Array:
        self.phases.direction[:] = p
        return self._do(kernel.AIM, self.n_parts, rho, t)[:2]

    def aim_by_scores(self, scores: Array, rho: float, t: float) -> Array:
        """Do what `aim` does, from the responses to p."""
        np.multiply(-self.y, scores, out=self.along)
        return self.slope(rho, t)

    def slope(self, rho: float, t: float) -> Array:
        return self._do(kernel.SLOPE, self.n_parts, rho, t)[:2]

    def duals(self) -> Array | SlottedDuals:
        self.team.dismiss()  # a certificate's passes come next
        return self.problem.alpha_of(self.chosen)

    def hessian(self, rho: float, exact: bool) -> tuple[Array | None, float]:
        # From that of the step before, where the weights of few rows have changed since.
        if exact and not self.exact:
            self.gram, self.exact = None, True
        n_picked, n_weighted = self._pick_changed(rho, self.gram is None)
        if self.gram is not None and n_picked >= n_weighted:
            self.gram = None
            n_picked, _ = self._pick_changed(rho, whole=True)
        if self.gram is None:
            self.gram = np.zeros((self.passes.n_weights, self.passes.n_weights))
        add = self._add_picked if len(self.phases.halves) else self._pass_picked
        gram = self.gram
        if not add(n_picked, gram):
            self.gram = None
            return None, 1.0
        return gram, 1.0 / rho if rho > 0.0 else 1.0

    def _pick_changed(self, rho: float, whole: bool) -> tuple[int, int]:
        """Pick the rows whose weight in the Gram matrix has changed, or all with a weight.

        Returns their number, and the number of rows with a weight.
        """
        self._do(kernel.CHANGED, self.parts, rho, 0.0, whole)
        rows, total = self.phases.picked, 0
        picked, weighted = self.phases.found.T
        for part, count in enumerate(picked.tolist()):
            first = len(rows) * part // self.parts
            rows[total : total + count] = rows[first : first + count]
            total += count
        return total, int(weighted.sum())

    def _add_picked(self, n_picked: int, gram: Array) -> bool:
        """Add picked rows to the Gram matrix inside the kernel; return False if told to stop."""
        phases = self.phases
        count = max(min(len(phases.halves), n_picked // _tuning.PICKED_ROWS), 1)
        at_once = max(int(count * _tuning.PAIRS_PER_CALL / self.passes.per_row**2), 1)
        for first in range(0, max(n_picked, 1), at_once):
            phases.span[:] = first, min(first + at_once, n_picked)
            self._do(kernel.GRAM, count)
            if self.stop():
                return False
        half = phases.halves[:count].sum(axis=0)
        add_lower(half + half.T, 1.0, gram)
        return True

    def _pass_picked(self, n_picked: int, gram: Array) -> bool:
        """Do what `_add_picked` does by a pass, for dense rows and many features."""
        self.team.dismiss()
        picked = self.phases.picked[:n_picked]
        rows, change = self.members[picked], self.phases.change[picked]
        return self.passes.add_gram(rows, change, gram, self.stop, self.exact)

    def product(self, v: Array, rho: float) -> Array:
        free = np.flatnonzero(self.scale)
        scale, members = self.scale[free], self.members[free]
        out = np.zeros(self.passes.n_weights)
        self.passes.add_product(members, v, lambda some, scores: scale[some] * scores, out)
        return out

    @property
    def n_parts(self) -> int:
        """How many parts a pass has: one if threads are divided among problems."""
        return 1 if self.shared else self.parts

    def _do(self, phase: int, count: int, *numbers: float) -> Array:
        """Let the team do a phase of `count` parts; return the sums over them."""
        self.phases.numbers[: len(numbers)] = numbers
        self.team.do(phase, count)
        return self.phases.sums[:count].sum(axis=0)

    @cached_property
    def team(self) -> Team:
        """The threads that do phases."""
        workers = Workers() if self.shared else self.passes.workers
        return Team(workers, partial(kernel.newton_phases, self.phases))

    @cached_property
    def phases(self) -> kernel.Phases:
        """What phases read and write."""
        n, d, halves = len(self.members), self.passes.n_weights, _tuning.GRAM_PARTS
        if self.passes.gram_by_products or halves * d**2 > SMALL_SUMS:
            halves = 0
        return kernel.Phases(
            rows=self.passes.rows,
            members=self.members,
            y=self.y,
            cost=self.cost,
            loss=self.loss,
            slack=self.slack,
            along=self.along,
            anchor=self.anchor,
            b=self.b,
            scale=self.scale,
            ahead=self.ahead,
            weight=self.weight,
            picked=np.empty(n, np.int64),
            change=np.empty(n),
            span=np.zeros(2, np.int64),
            numbers=np.zeros(3),
            direction=np.zeros(d),
            weights=np.empty((self.adding, -(-d // PADDING) * PADDING)),
            sums=np.zeros((self.parts, 4)),
            found=np.empty((self.parts, 2), np.int64),
            halves=np.empty((halves, d, d)),
        )


slacks_of.register(BinaryProblem, BinarySlacks)

"""The slacks of a binary problem, all of whose passes one kernel does; see `dualsweep._team`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._symmetric import add_lower
from .._team import Team
from ..kernels.loss import bounds
from ..kernels.newton import (
    AIM,
    CHANGED,
    GRAM,
    MEASURE,
    RHO,
    SLOPE,
    STEP,
    SWAPPED,
    T,
    Table,
    aim,
    implied_dual,
    newton_parts,
)
from ..problems.binary import BinaryProblem
from ..rows.dense import DensePasses
from ..rows.passes import PAIRS_PER_CALL, SMALL_SUMS
from .slacks import Slacks, part_of

# Parts of a Gram matrix that threads add up inside a kernel, and rows that each has at least. Where
# so many would take too much memory, they are passes'.
GRAM_PARTS, PICKED_ROWS = 32, 256

# Numbers of two cache lines: of less, threads that write to neighbouring ones would wait for each
# other.
OWN_LINES = 16


class BinarySlacks(Slacks):
    """Those of a binary problem; for the parameters see `slacks_of`.

    Its passes are phases of one kernel, which a team of threads stays in. Several problems at once
    have passes in common, and each is one thread's for the rest.
    """

    helped = True  # by other threads
    swapped = False

    def __init__(
        self,
        problem: BinaryProblem,
        w: Any,
        alpha: Any,
        stop: Callable[[], bool],
        keep_gram: bool,
    ) -> None:
        self.loss = problem.loss
        self.y = part_of(problem.y, problem.candidates)
        self.scale = np.empty(len(self.y))  # by how much b changes with its slack
        super().__init__(problem, w, alpha, stop)
        # The Gram matrix of some rows, and which they are.
        self.gram: Any = None
        self.keep_gram, self.exact = keep_gram, False
        self.summed = np.zeros(len(self.y), bool)
        # Of the rows, and where each part has weights.
        self.parts, self.adding = self.passes.count_fine_parts(len(self.y))

    def visit(self, problem: Any) -> None:
        super().visit(problem)
        self.team: Any = None
        self.table: Any = None

    def leave(self) -> None:
        super().leave()
        self.team = self.table = None

    def first_slack(self) -> Any:
        return self.problem.slack_at_zero()

    def change(self, part: slice, scores: Any) -> Any:
        return -self.y[part] * scores

    def begin_measure(self, rho: float, step: float, settled: bool) -> None:
        super().begin_measure(rho, step, settled)
        self.swapped ^= settled  # since there is a table

    def measured(self, part: slice, signed: Any) -> tuple[float, float]:
        sums = implied_dual(
            slack=self.slack[part],
            along=self.along[part],
            step=self.step,
            anchor=self.anchor[part],
            cost=self.cost[part],
            loss=self.loss,
            rho=self.rho,
            u=self.u[part],
            b=self.b[part],
            scale=self.scale[part],
        )
        np.multiply(self.b[part], self.y[part], out=signed)
        return sums  # type: ignore[no-any-return]

    def measure(self, rho: float, step: float, settled: bool) -> tuple[Any, Any]:
        self.begin_measure(rho, step, settled)
        sums = self._sums(MEASURE, self.adding)
        return self.table.weights[:, : self.passes.n_weights].sum(axis=0), sums

    def aimed(self, part: slice, scores: Any, t: float) -> tuple[float, float]:
        return aim(
            scores=scores,
            y=self.y[part],
            u=self.u[part],
            cost=self.cost[part],
            loss=self.loss,
            rho=self.rho,
            t=t,
            q=self.along[part],
        )

    def aim(self, p: Any, t: float) -> Any:
        return self._sums(AIM, self.parts, t, p)

    def slope(self, t: float) -> Any:
        return self._sums(SLOPE, self.parts, t)

    def duals(self) -> Any:
        self._let_go()  # a certificate's passes come next
        return super().duals()

    def hessian(self, exact: bool) -> tuple[Any, float]:
        # From that of the step before, where few rows have come or gone since.
        if exact and not self.exact:
            self.gram, self.exact = None, True
        n_picked = self._pick_changed()
        if self.gram is None or n_picked >= np.count_nonzero(self.summed):
            self.gram = np.zeros((self.passes.n_weights, self.passes.n_weights))
            free = np.flatnonzero(self.summed)
            n_picked = len(free)
            self.table.picked[:n_picked] = free
        gram = self.gram
        if not (self._add_picked if len(self.table.halves) else self._pass_picked)(n_picked):
            self.gram = None
            return None, 1.0
        if not self.keep_gram:
            self.gram = None
        return gram, 1.0 / self.rho if self.rho > 0.0 else 1.0

    def _pick_changed(self) -> int:
        """Pick the rows that have become free since the last time, or are no more; count them."""
        self._do(CHANGED, self.parts)
        picked, found = self.table.picked, self.table.found
        n, total = len(picked), 0
        for part, count in enumerate(found.tolist()):
            first = n * part // len(found)
            picked[total : total + count] = picked[first : first + count]
            total += count
        return total

    def _add_picked(self, n_picked: int) -> bool:
        """Add the picked rows to the Gram matrix; return False if told to stop."""
        table = self.table
        count = max(min(len(table.halves), n_picked // PICKED_ROWS), 1)
        at_once = max(int(count * PAIRS_PER_CALL / self.passes.per_row**2), 1)
        for first in range(0, max(n_picked, 1), at_once):
            table.span[:] = first, min(first + at_once, n_picked)
            self._do(GRAM, count)
            if self.stop():
                return False
        half = table.halves[:count].sum(axis=0)
        add_lower(half + half.T, 1.0, self.gram)
        return True

    def _pass_picked(self, n_picked: int) -> bool:
        """Do what `_add_picked` does by a pass."""
        self._let_go()
        picked = self.table.picked[:n_picked]
        rows = np.maximum(picked, -1 - picked)
        scale = np.where(picked < 0, -1.0, 1.0)
        if self.loss.diag > 0:
            _, _, diag = bounds(self.loss, self.cost[rows])
            scale /= diag
        return self.passes.add_gram(self.members[rows], scale, self.gram, self.stop, self.exact)

    def _sums(self, phase: int, count: int, t: float = 0.0, direction: Any = 0.0) -> Any:
        """Do a phase; return the sums of its parts."""
        self._do(phase, count, t, direction)
        return self.table.sums[:count].sum(axis=0)

    def _do(self, phase: int, count: int, t: float = 0.0, direction: Any = 0.0) -> None:
        """Let the team do a phase of so many parts."""
        if self.team is None:
            self.table, self.swapped = self._new_table(), False
            self.team = Team(self.passes.workers, partial(newton_parts, self.table))
        table = self.table
        table.numbers[[RHO, STEP, T, SWAPPED]] = self.rho, self.step, t, self.swapped
        table.direction[:] = direction
        self.team.do(phase, count, self.helped)

    def _let_go(self) -> None:
        """Let threads go that wait for the next phase."""
        if self.team is not None:
            self.team.dismiss()

    def _new_table(self) -> Table:
        n, d = len(self.members), self.passes.n_weights
        dense = isinstance(self.passes, DensePasses)
        halves = 0 if dense or GRAM_PARTS * d**2 > SMALL_SUMS else GRAM_PARTS
        return Table(
            rows=self.passes.rows,
            members=self.members,
            y=self.y,
            cost=self.cost,
            loss=self.loss,
            slack=self.slack,
            along=self.along,
            u=self.u,
            b=self.b,
            anchor=self.anchor,
            scale=self.scale,
            summed=self.summed,
            picked=np.empty(n, np.int64),
            span=np.zeros(2, np.int64),
            numbers=np.zeros(4),
            direction=np.zeros(d),
            weights=np.empty((self.adding, -(-d // OWN_LINES) * OWN_LINES)),
            sums=np.empty((self.parts, 2)),
            found=np.empty(self.parts, np.int64),
            halves=np.empty((halves, d, d)),
        )

    def product(self, v: Any) -> Any:
        free = np.flatnonzero(self.scale)
        scale, members = self.scale[free], self.members[free]
        out = self.problem.zero_weights()
        self.passes.add_product(members, v, lambda some, scores: scale[some] * scores, out)
        return out

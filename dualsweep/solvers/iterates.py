"""What Newton steps know of the rows, by formulation; see `dualsweep.solvers.newton`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._symmetric import add_lower, regular_cholesky
from .._team import new_team, work_together
from ..kernels.conjugate import (
    FEATURE_PARTS,
    SOLVE,
    STEPS,
    System,
    conjugate_gradients,
    first_numbers,
)
from ..kernels.newton_multiclass import (
    add_curvature,
    aim_multiclass,
    curvature_diagonal,
    curvature_factors,
    implied_dual_multiclass,
    slope_multiclass,
)
from ..problems.binary import BinaryProblem
from ..problems.multiclass import MulticlassProblem
from ..rows.dense import DensePasses
from ..rows.passes import LIGHT_ROWS
from .slacks import Slacks, part_of
from .slacks_binary import BinarySlacks

# Up to this many weights a Newton step builds the Hessian and factorises it; above it takes
# conjugate gradients.
DIRECT_WEIGHTS = 2000

# Tables of rows and classes that Newton steps have, and numbers that are no matter, 128 MB.
TABLES, SMALL = 6, 1 << 24

# Rows per weight, about, that are enough to precondition with.
SAMPLE = 3

# Rows that a part of a Hessian product has at least.
CURVED_ROWS = 125


def slacks_of(
    problem: Any, w: Any, alpha: Any, stop: Callable[[], bool], keep_gram: bool = True
) -> Slacks:
    """Return the slacks of w, and dual variables as the first anchor."""
    if isinstance(problem, BinaryProblem):
        return BinarySlacks(problem, w, alpha, stop, keep_gram)
    assert isinstance(problem, MulticlassProblem)
    return _Multiclass(problem, w, alpha, stop)


def has_blocks(problem: Any) -> bool:
    """Tell whether the Hessian has blocks of single classes that are small enough to factorise.

    All factors together are to take no more memory than X does.
    """
    if not isinstance(problem, MulticlassProblem):
        return False
    d = problem.passes.n_weights
    few = problem.n_classes * d**2 <= max(problem.passes.n_stored, SMALL)
    return d <= DIRECT_WEIGHTS and few


def has_room(problem: MulticlassProblem) -> bool:
    """Tell whether slacks and dual variables of all rows and classes take no more memory than X."""
    numbers = TABLES * problem.n_rows * problem.n_classes
    return numbers <= max(problem.passes.n_stored, SMALL)


def shares_passes(passes: Any) -> bool:
    """Tell whether Newton steps of several binary problems gain by passes over the same rows.

    Dense rows respond to the weights of ten classes in three times the time for one.
    """
    return isinstance(passes, DensePasses) and passes.n_weights <= DIRECT_WEIGHTS


class _Multiclass(Slacks):
    def __init__(
        self, problem: MulticlassProblem, w: Any, alpha: Any, stop: Callable[[], bool]
    ) -> None:
        self.joint, self.n_classes = problem.joint, problem.n_classes
        self.y = part_of(problem.y, problem.candidates)
        super().__init__(problem, w, alpha, stop)
        self.light = max(LIGHT_ROWS // self.n_classes, 1)
        self.free = np.empty(self.slack.shape, bool)  # which dual variables move with their slacks
        self.bound = np.empty(len(self.y), bool)  # whether their sum does not
        self.curved: Any = None  # rows with any that are free, if they are known

    def first_slack(self) -> Any:
        return (np.arange(self.n_classes) != self.y[:, None]).astype(np.float64)

    def change(self, part: slice, scores: Any) -> Any:
        return scores - np.take_along_axis(scores, self.y[part, None], axis=1)

    def begin_measure(self, rho: float, step: float, settled: bool) -> None:
        self.curved = None
        super().begin_measure(rho, step, settled)

    def measured(self, part: slice, signed: Any) -> tuple[float, float]:
        return implied_dual_multiclass(
            slack=self.slack[part],
            along=self.along[part],
            step=self.step,
            anchor=self.anchor[part],
            y=self.y[part],
            cost=self.cost[part],
            joint=self.joint,
            rho=self.rho,
            u=self.u[part],
            b=self.b[part],
            free=self.free[part],
            bound=self.bound[part],
            signed=signed,
        )

    def measure(self, rho: float, step: float, settled: bool) -> tuple[Any, Any]:
        self.begin_measure(rho, step, settled)
        sums: dict[int, Any] = {}  # by first row: added up in order, whoever made them
        weights = self.problem.zero_weights()

        def signed(part: slice) -> Any:
            made = np.empty((part.stop - part.start, self.n_classes))
            sums[part.start] = self.measured(part, made)
            return made

        self.passes.add_weighted(self.members, signed, weights)
        in_order = [sums[first] for first in sorted(sums)]
        return weights, np.array(in_order).reshape(-1, 2).sum(axis=0)

    def aimed(self, part: slice, scores: Any, t: float) -> tuple[float, float]:
        return aim_multiclass(
            scores=scores,
            y=self.y[part],
            u=self.u[part],
            cost=self.cost[part],
            joint=self.joint,
            rho=self.rho,
            t=t,
            q=self.along[part],
            v=np.empty(self.n_classes),
        )

    def aim(self, p: Any, t: float) -> Any:
        def look(part: slice, scores: Any, totals: Any) -> None:
            totals += self.aimed(part, scores, t)

        return self.passes.scan(self.members, p, look, 2)

    def slope(self, t: float) -> Any:
        def slope_of(part: slice) -> Any:
            sums = slope_multiclass(
                u=self.u[part],
                q=self.along[part],
                y=self.y[part],
                cost=self.cost[part],
                joint=self.joint,
                rho=self.rho,
                t=t,
                v=np.empty(self.n_classes),
            )
            return np.array(sums)

        return self.passes.sum(slope_of, len(self.members), part_rows=self.light)

    def _curved(self) -> Any:
        """Return the rows with free dual variables, their classes, and what `free` tells of them.

        A single one whose sum is at its bound does not move.
        """
        if self.curved is None:
            rows = np.concatenate(self.passes.each(self._curved_of, len(self.y), self.light))
            self.curved = rows, self.y[rows], self.free[rows], self.bound[rows]
        return self.curved

    def _curved_of(self, part: slice) -> Any:
        numbers = np.count_nonzero(self.free[part], axis=1)
        return part.start + np.flatnonzero(numbers > self.bound[part])

    def hessian(self, exact: bool) -> tuple[Any, float]:
        k = self.n_classes
        rows, y, free, bound = self._curved()

        def factors(some: slice) -> tuple[Any, Any, Any]:
            n = some.stop - some.start
            counts, classes = np.empty(n, np.int64), np.empty((n, k), np.int64)
            M = np.empty((n, k, k))
            curvature_factors(y[some], free[some], bound[some], self.rho, counts, classes, M)
            return counts, classes, M

        return self.passes.gram_many(self.members[rows], factors, k, self.stop), 1.0

    def product(self, v: Any) -> Any:
        rows, y, free, bound = self._curved()
        members, k, narrow = self.members[rows], self.n_classes, self.passes.rows.data.dtype
        V = v.astype(narrow, order=self.passes.order)  # the direction need not be exact

        def add(part: slice, W: Any) -> None:
            add_curvature(
                rows=self.passes.rows,
                members=members[part],
                y=y[part],
                free=free[part],
                bound=bound[part],
                rho=self.rho,
                V=V,
                out=W,
                classes=np.empty(k, np.int64),
                scratch=np.empty((2, k)),
            )

        out = self.problem.zero_weights()
        self.passes.add_parts(add, len(members), out, CURVED_ROWS)
        return out

    def solve(self, factors: Any, right: Any, left: float, most_steps: int) -> tuple[Any, int]:
        """Return the solution of ``Hessian x = right``, its identity included, and how many steps.

        Those of conjugate gradients, which factors of the classes' blocks precondition. Solution
        and right side have a row per class.
        """
        rows, y, free, bound = self._curved()
        (k, d), passes = right.shape, self.passes
        parts = passes.parts_to_add(len(rows), right.size, CURVED_ROWS)
        n, flat = len(parts), np.empty((len(parts), right.size))
        by_class = flat.reshape(n, k, d).transpose(0, 2, 1)
        solution, direction, product, scaled = np.zeros((4, k, d))
        system = System(
            rows=passes.rows,
            members=self.members[rows],
            y=y,
            free=free,
            bound=bound,
            rho=self.rho,
            bounds=np.array([0, *(part.stop for part in parts)]),
            factors=factors,
            solution=solution,
            residual=np.array(right, order="C"),
            direction=direction,
            product=product,
            scaled=scaled,
            V=np.empty((d, k), passes.rows.data.dtype, passes.order),
            sums=flat.reshape(n, d, k) if passes.order == "C" else by_class,
            flat=flat,
            classes=np.empty((n, k), np.int64),
            scratch=np.empty((n, 2, k)),
            dots=np.empty(max(k, FEATURE_PARTS)),
            numbers=first_numbers(left, most_steps),
        )
        team = new_team(SOLVE, k)
        work_together(
            passes.workers, team, lambda: conjugate_gradients(system, team), stop=self.stop
        )
        return solution, int(system.numbers[STEPS])

    def block_factors(self, before: Any) -> Any:
        """Return factors of about the Hessian's blocks of one class each; None if told to stop.

        Of many rows some stand for all, and float32 is enough: they are to precondition with. They
        take the place of those of before, if there are any.
        """
        rows, y, free, bound = self._curved()
        diagonal, d = np.empty(free.shape), self.passes.n_weights
        curvature_diagonal(y, free, bound, self.rho, diagonal)
        factors = np.empty((self.n_classes, d, d), np.float32) if before is None else before

        def factorise(m: int) -> None:
            own = np.flatnonzero(diagonal[:, m])
            every = max(len(own) // (SAMPLE * d), 1)
            own = own[::every]
            members, scale = self.members[rows[own]], every * diagonal[own, m]
            for exact in (False, True):
                gram, factor = np.zeros((d, d)), None
                if self.passes.add_gram(members, scale, gram, self.stop, exact):
                    factor = regular_cholesky(gram)
                if factor is not None or self.stop():
                    break
            factors[m] = 0.0
            add_lower(np.eye(d) if factor is None else factor, 1.0, factors[m])

        self.passes.workers.map(factorise, range(self.n_classes))
        return None if self.stop() else factors

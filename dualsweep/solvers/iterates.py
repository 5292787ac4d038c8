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
from ..kernels.loss import bounds
from ..kernels.newton import (
    aim,
    find_changed,
    implied_dual,
    implied_weights,
    respond_and_aim,
    slope,
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
from .slacks import Slacks, part_of

__all__ = [
    "DIRECT_WEIGHTS",
    "SAMPLE",
    "has_blocks",
    "has_room",
    "shares_passes",
    "slacks_of",
]

# Up to this many weights a Newton step builds the Hessian and factorises it; above it takes
# conjugate gradients.
DIRECT_WEIGHTS = 2000

# Tables of rows and classes that Newton steps have, and numbers that are no matter, 128 MB.
TABLES, SMALL = 6, 1 << 24

# Rows per weight, about, that are enough to precondition with.
SAMPLE = 3

# Rows that a part of a Hessian product has at least, and of a look at which rows are free: a thread
# sees as many in the time that it takes to hand some to another.
CURVED_ROWS, CHANGED_ROWS = 125, 300_000


def slacks_of(
    problem: Any, w: Any, alpha: Any, stop: Callable[[], bool], keep_gram: bool = True
) -> Slacks:
    """Return the slacks of w, and dual variables as the first anchor."""
    if isinstance(problem, BinaryProblem):
        return _Binary(problem, w, alpha, stop, keep_gram)
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


class _Binary(Slacks):
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

    def first_slack(self) -> Any:
        return self.problem.slack_at_zero()

    def change(self, part: slice, scores: Any) -> Any:
        return -self.y[part] * scores

    def measured(self, part: slice, signed: Any) -> tuple[float, float]:
        return implied_dual(**self._implied(part), signed=signed)

    def _implied(self, part: slice) -> dict[str, Any]:
        return {
            "slack": self.slack[part],
            "along": self.along[part],
            "step": self.step,
            "anchor": self.anchor[part],
            "y": self.y[part],
            "cost": self.cost[part],
            "loss": self.loss,
            "rho": self.rho,
            "u": self.u[part],
            "b": self.b[part],
            "scale": self.scale[part],
        }

    def weigh(self, weights: Any, sums: dict[int, Any]) -> None:
        def add(part: slice, w: Any) -> None:
            sums[part.start] = implied_weights(
                rows=self.passes.rows,
                members=self.members[part],
                w=w,
                **self._implied(part),
                signed=np.empty(part.stop - part.start),
            )

        self.passes.add_parts(add, len(self.members), weights)

    def aimed(self, part: slice, scores: Any, t: float) -> tuple[float, float]:
        return aim(scores=scores, **self._aiming(part, t))

    def _aiming(self, part: slice, t: float) -> dict[str, Any]:
        return {
            "y": self.y[part],
            "u": self.u[part],
            "cost": self.cost[part],
            "loss": self.loss,
            "rho": self.rho,
            "t": t,
            "q": self.along[part],
        }

    def aim(self, p: Any, t: float) -> Any:
        def look(part: slice) -> Any:
            some, aiming = self.members[part], self._aiming(part, t)
            return np.array(respond_and_aim(self.passes.rows, some, p, **aiming))

        return self.passes.sum(look, len(self.members))

    def slope_of(self, part: slice, t: float) -> tuple[float, float]:
        return slope(self.u[part], self.along[part], self.cost[part], self.loss, self.rho, t)

    def hessian(self, exact: bool) -> tuple[Any, float]:
        # From that of the step before, where few rows have come or gone since.
        if exact and not self.exact:
            self.gram, self.exact = None, True
        changed = self.passes.each(self._changed, len(self.members), CHANGED_ROWS)
        came, went = (np.concatenate(rows) for rows in zip(*changed, strict=True))
        if self.gram is None or len(came) + len(went) >= np.count_nonzero(self.summed):
            n_weights = self.passes.n_weights
            self.gram = np.zeros((n_weights, n_weights))
            came, went = np.flatnonzero(self.summed), went[:0]
        rows = np.concatenate([came, went])
        scale = np.ones(len(rows))
        if self.loss.diag > 0:
            _, _, diag = bounds(self.loss, self.cost[rows])
            scale /= diag
        scale[len(came) :] *= -1.0
        gram = self.gram
        if not self.passes.add_gram(self.members[rows], scale, gram, self.stop, self.exact):
            self.gram = None
            return None, 1.0
        if not self.keep_gram:
            self.gram = None
        return gram, 1.0 / self.rho if self.rho > 0.0 else 1.0

    def _changed(self, part: slice) -> tuple[Any, Any]:
        """Return which rows of a part have become free since the last time, and are no more."""
        came, went = np.empty((2, part.stop - part.start), np.int64)
        n_came, n_went = find_changed(self.scale[part], self.summed[part], part.start, came, went)
        return came[:n_came], went[:n_went]

    def product(self, v: Any) -> Any:
        free = np.flatnonzero(self.scale)
        scale, members = self.scale[free], self.members[free]
        out = self.problem.zero_weights()
        self.passes.add_product(members, v, lambda some, scores: scale[some] * scores, out)
        return out


class _Multiclass(Slacks):
    def __init__(
        self, problem: MulticlassProblem, w: Any, alpha: Any, stop: Callable[[], bool]
    ) -> None:
        self.joint, self.n_classes = problem.joint, problem.n_classes
        self.y = part_of(problem.y, problem.candidates)
        super().__init__(problem, w, alpha, stop)
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

    def slope_of(self, part: slice, t: float) -> tuple[float, float]:
        return slope_multiclass(
            u=self.u[part],
            q=self.along[part],
            y=self.y[part],
            cost=self.cost[part],
            joint=self.joint,
            rho=self.rho,
            t=t,
            v=np.empty(self.n_classes),
        )

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
        team = new_team(SOLVE)
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

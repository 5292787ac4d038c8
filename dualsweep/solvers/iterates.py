"""What Newton steps know of the rows, by formulation; see `dualsweep.solvers.newton`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels.loss import bounds
from ..kernels.multiclass import signed_duals
from ..kernels.newton import implied_dual, slope
from ..kernels.newton_multiclass import (
    curvature_factors,
    curvature_product,
    implied_dual_multiclass,
    less_own,
    slope_multiclass,
)
from ..problems.binary import BinaryProblem
from ..problems.multiclass import MulticlassProblem
from ..rows.passes import LIGHT_ROWS

__all__ = ["Slacks", "slacks_of"]


def slacks_of(
    problem: Any, w: Any, alpha: Any, stop: Callable[[], bool], keep_gram: bool = True
) -> Slacks:
    """Return the slacks of w, and dual variables as the first anchor."""
    if isinstance(problem, BinaryProblem):
        return _Binary(problem, w, alpha, stop, keep_gram)
    assert isinstance(problem, MulticlassProblem)
    return _Multiclass(problem, w, alpha, stop)


class Slacks(ABC):
    """The slacks of rows, their anchor, and the dual point b that they imply.

    What depends on the formulation is in the subclasses. All they do with the rows are passes.
    Sums over the rows are what methods return, so that rows may be in several places.
    """

    rho = 0.0

    def __init__(self, problem: Any, w: Any, alpha: Any, stop: Callable[[], bool]) -> None:
        self.stop = stop
        self.visit(problem)
        self.members = problem.candidates
        self.cost = problem.cost[self.members]
        self.anchor = problem.duals_of(alpha, self.members)
        self.slack = np.array(self.first_slack())
        self.along = np.zeros_like(self.slack)  # by how much slacks change in a whole step
        self.passes.scan(self.members, w, self._start, 0)
        self.u, self.b = np.empty_like(self.slack), np.empty_like(self.slack)
        self.light = max(LIGHT_ROWS // max(self.slack.shape[1:], default=1), 1)

    def visit(self, problem: Any) -> None:
        """Take the rows, as a problem."""
        self.problem, self.passes = problem, problem.passes

    def leave(self) -> None:
        """Let go of the rows until they are needed again."""
        self.problem = self.passes = None

    @abstractmethod
    def first_slack(self) -> Any:
        """Return the slacks of w = 0."""

    @abstractmethod
    def change(self, part: slice, scores: Any) -> Any:
        """Return by how much the slacks of a part change where its responses are `scores`."""

    @abstractmethod
    def implied_dual(self, part: slice) -> tuple[float, float]:
        """Fill in a part of u and b; return the losses and their excess over what b proves."""

    @abstractmethod
    def signed_b(self, part: slice) -> Any:
        """Return by how much of each row the weights of b are made up."""

    @abstractmethod
    def slope_of(self, part: slice, t: float) -> tuple[float, float]:
        """Return the part of a part in `slope`."""

    @abstractmethod
    def hessian(self) -> Any:
        """Return the Hessian without its identity; None if told to stop."""

    @abstractmethod
    def product(self, v: Any) -> Any:
        """Return the product of the Hessian, without its identity, with v."""

    def measure(self, rho: float, step: float, settled: bool) -> tuple[Any, Any]:
        """Take a step, then compute b; return its weights, the losses, and what b fails to prove.

        If settled, b has become the anchor before that.
        """
        if settled:
            self.anchor = self.b.copy()
        self.rho = rho
        sums: dict[int, Any] = {}  # by first row: they are added up in order, whoever made them

        def signed_b(part: slice) -> Any:
            if step:
                self.along[part] *= step
                self.slack[part] += self.along[part]
            sums[part.start] = self.implied_dual(part)
            return self.signed_b(part)

        weights = self.problem.zero_weights()
        self.passes.add_weighted(self.members, signed_b, weights)
        return weights, np.array([sums[first] for first in sorted(sums)]).reshape(-1, 2).sum(axis=0)

    def _start(self, part: slice, scores: Any, totals: Any) -> None:
        self.slack[part] += self.change(part, scores)

    def aim(self, p: Any, t: float) -> Any:
        """Let p be a whole step; return `slope`."""

        def look(part: slice, scores: Any, totals: Any) -> None:
            self.along[part] = self.change(part, scores)
            totals += self.slope_of(part, t)

        return self.passes.scan(self.members, p, look, 2)

    def slope(self, t: float) -> Any:
        """Return ``sum_i b_i q_i`` where slacks have changed by t q, and its derivative in t."""
        return self._sum(lambda part: self.slope_of(part, t))

    def duals(self) -> Any:
        """Return b as dual variables of the problem."""
        return self.problem.alpha_of(self.members, self.b)

    def _sum(self, function: Callable[[slice], tuple[float, float]]) -> Any:
        """Return the sums of what `function` returns for the parts of the rows."""
        return self.passes.sum(
            lambda part: np.array(function(part)), len(self.members), part_rows=self.light
        )


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
        self.y = problem.y[problem.candidates]
        self.minus_y = -self.y
        self.target = problem.slack_at_zero()
        self.scale = np.empty(len(self.y))  # by how much b changes with its slack
        super().__init__(problem, w, alpha, stop)
        # The Gram matrix of some rows, which they are, and their factors but for rho.
        self.gram: Any = None
        self.keep_gram = keep_gram
        self.summed = np.zeros(len(self.y), bool)
        _, _, diag = bounds(self.loss, self.cost)
        self.base = 1.0 / diag if self.loss.diag > 0 else np.ones(len(self.y))

    def first_slack(self) -> Any:
        return self.target

    def change(self, part: slice, scores: Any) -> Any:
        return scores * self.minus_y[part]

    def implied_dual(self, part: slice) -> tuple[float, float]:
        return implied_dual(
            slack=self.slack[part],
            anchor=self.anchor[part],
            cost=self.cost[part],
            loss=self.loss,
            rho=self.rho,
            u=self.u[part],
            b=self.b[part],
            scale=self.scale[part],
        )

    def signed_b(self, part: slice) -> Any:
        return self.b[part] * self.y[part]

    def slope_of(self, part: slice, t: float) -> tuple[float, float]:
        return slope(self.u[part], self.along[part], self.cost[part], self.loss, self.rho, t)

    def hessian(self) -> Any:
        # From that of the step before, where few rows have come or gone since. Factors are those of
        # rho = 0 or, for the hinge loss, 1 / rho.
        changed = np.concatenate(self.passes.each(self._changed, len(self.members), self.light))
        came = ~self.summed[changed]
        came, went = changed[came], changed[~came]
        self.summed[came], self.summed[went] = True, False
        if self.gram is not None and len(changed) < np.count_nonzero(self.summed):
            self._add_gram(came, 1.0)
            self._add_gram(went, -1.0)
        else:
            n_weights = self.passes.n_weights
            self.gram = np.zeros((n_weights, n_weights))
            self._add_gram(np.flatnonzero(self.summed), 1.0)
        if self.gram is None:
            return None
        hessian = self.gram / (self.rho if self.rho > 0.0 else 1.0)
        if not self.keep_gram:
            self.gram = None
        return hessian

    def _changed(self, part: slice) -> Any:
        """Return which rows of a part have become free since the Gram matrix, or are no more."""
        return part.start + np.flatnonzero((self.scale[part] != 0.0) != self.summed[part])

    def _add_gram(self, rows: Any, sign: float) -> None:
        """Add rows to the Gram matrix or take them away; there is none if told to stop."""
        if self.gram is not None and len(rows):
            gram = self.passes.gram(self.members[rows], self.base[rows], self.stop)
            self.gram = None if gram is None else self.gram + sign * gram

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
        self.y = problem.y[problem.candidates]
        super().__init__(problem, w, alpha, stop)

    def first_slack(self) -> Any:
        return (np.arange(self.n_classes) != self.y[:, None]).astype(np.float64)

    def change(self, part: slice, scores: Any) -> Any:
        less_own(scores, self.y[part])
        return scores

    def implied_dual(self, part: slice) -> tuple[float, float]:
        return implied_dual_multiclass(
            slack=self.slack[part],
            anchor=self.anchor[part],
            y=self.y[part],
            cost=self.cost[part],
            joint=self.joint,
            rho=self.rho,
            u=self.u[part],
            b=self.b[part],
        )

    def signed_b(self, part: slice) -> Any:
        signed = np.empty((part.stop - part.start, self.n_classes))
        signed_duals(self.b[part], np.arange(len(signed)), self.y[part], signed)
        return signed

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

    def hessian(self) -> Any:
        k = self.n_classes

        def factors(some: slice) -> tuple[Any, Any, Any]:
            n = some.stop - some.start
            counts, classes = np.empty(n, np.int64), np.empty((n, k), np.int64)
            M = np.empty((n, k, k))
            curvature_factors(
                y=self.y[some],
                cost=self.cost[some],
                joint=self.joint,
                rho=self.rho,
                u=self.u[some],
                counts=counts,
                classes=classes,
                M=M,
            )
            return counts, classes, M

        return self.passes.gram_many(self.members, factors, k, self.stop)

    def product(self, v: Any) -> Any:
        def change(some: slice, scores: Any) -> Any:
            changed = np.empty_like(scores)
            curvature_product(
                scores=scores,
                y=self.y[some],
                cost=self.cost[some],
                joint=self.joint,
                rho=self.rho,
                u=self.u[some],
                classes=np.empty(self.n_classes, np.int64),
                out=changed,
            )
            return changed

        out = self.problem.zero_weights()
        self.passes.add_product(self.members, v, change, out)
        return out

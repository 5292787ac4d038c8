"""Newton's iterates: what a step of `dualsweep.solvers.newton` computes, by formulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.lapack import dposv

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
from ..problems.free import FreeProblem
from ..problems.multiclass import MulticlassProblem
from ..rows.passes import LIGHT_ROWS
from .policy import DIRECT_WEIGHTS
from .run import Run

__all__ = ["Iterate", "first_iterate"]

# Outer iterations of losses without a diagonal: rho starts at FIRST_RHO / C, times the size of a
# target (1 for classes), and is divided by RHO_FACTOR each time; an inner problem counts as solved
# when its gap is INNER_GAP of the whole gap. Steps of the hinge loss to 1e-6: 27, 34 and 49
# on covtype at C = 1, 100 and 1000, 145 on w8a at C = 100 (with 5 and 0.03 instead: 23, 41, 48 and
# 187).
FIRST_RHO = 10.0
FIRST_RHO_MULTICLASS = 0.5  # letter, C = 10: 40 steps to 1e-3 instead of 47, in 4/5 of the time
RHO_FACTOR = 3.0
INNER_GAP = 0.1

LINE_SEARCH = 0.01  # part of the first slope that may be left
CG_STEPS = 200


def first_iterate(run: Run) -> Iterate:
    """Return the iterate to start from: the point that the run has reached."""
    if isinstance(run.problem, BinaryProblem):
        return _Binary(run, run.problem)
    assert isinstance(run.problem, MulticlassProblem)
    return _Multiclass(run, run.problem)


class Iterate(ABC):
    """Newton's iterate: the weights w, the slacks, and the dual point b they imply.

    What depends on the formulation is in the subclasses. All they do with the rows are passes.
    """

    rho: float
    w_of_b: Any

    def __init__(self, run: Run, problem: Any) -> None:
        self.run, self.passes, self.members = run, problem.passes, run.candidates
        self.ridge = problem.ridge
        self.cost = problem.cost[self.members]
        self.w = run.w.copy("K")
        if run.primal > problem.primal_at_zero:  # worse than no model at all
            self.w[:] = 0.0
        self.anchor = problem.duals_of(run.alpha, self.members)
        self.slack = self.first_slack() + self.response(self.w)
        self.u, self.b = np.empty_like(self.slack), np.empty_like(self.slack)
        self.light = max(LIGHT_ROWS // max(self.slack.shape[1:], default=1), 1)

    @abstractmethod
    def first_slack(self) -> Any:
        """Return the slacks of w = 0."""

    @abstractmethod
    def response(self, v: Any) -> Any:
        """Return by how much the slacks change along v."""

    @abstractmethod
    def implied_dual(self, part: slice) -> tuple[float, float]:
        """Fill in a part of u and b; return the losses and their excess over what b proves."""

    @abstractmethod
    def signed_b(self, part: slice) -> Any:
        """Return by how much of each row the weights of b are made up."""

    @abstractmethod
    def slope(self, part: slice, q: Any, t: float) -> tuple[float, float]:
        """Return ``sum_i b_i q_i`` where the slacks have changed by t q, and its derivative."""

    @abstractmethod
    def hessian(self) -> Any:
        """Return the Hessian without its identity; None if told to stop."""

    @abstractmethod
    def add_hessian_product(self, v: Any, out: Any) -> None:
        """Add the product of the Hessian, without its identity, with v."""

    def sum(self, function: Callable[[slice], tuple[float, float]]) -> list[float]:
        """Return the sums of what `function` returns for the parts of the rows."""
        sums = self.passes.sum(
            lambda part: np.array(function(part)), len(self.members), part_rows=self.light
        )
        return sums.tolist()

    def measure(self) -> None:
        """Compute b, the gradient, and the gaps they prove."""
        losses, excess = self.sum(self.implied_dual)
        self.w_of_b = np.zeros_like(self.w)
        self.passes.add_weighted(self.members, self.signed_b, self.w_of_b)
        penalised = self.ridge * self.w
        self.gradient = (penalised - self.w_of_b).ravel()
        self.inner_gap = self.gap_of_gradient()
        self.primal = 0.5 * float(penalised.ravel() @ self.w.ravel()) + losses
        self.gap = self.inner_gap + excess

    def gap_of_gradient(self) -> float:
        """Return what of the gap is due to weights that are not those of b."""
        return 0.5 * float(self.gradient @ self.gradient)

    @property
    def settled(self) -> bool:
        """Whether the inner problem is solved well enough for the next anchor."""
        return self.rho > 0.0 and self.inner_gap <= INNER_GAP * self.gap

    def next_anchor(self) -> None:
        """Take the proximal point step on the dual."""
        self.anchor = self.b.copy()
        self.rho /= RHO_FACTOR

    def move(self) -> bool:
        """Take a Newton step with line search; return whether it led anywhere."""
        p = self._direction()
        if p is None or not np.isfinite(p).all():
            return False
        p = p.reshape(self.w.shape)
        q = self.response(p)
        t = self._line_search(p.ravel(), q)
        if t == 0.0:
            return False
        self.w += t * p
        self.passes.each(lambda part: self._shift(part, q, t), len(self.members), self.light)
        return True

    def _shift(self, part: slice, q: Any, t: float) -> None:
        """Move a part of the slacks by t q; q is not needed any more."""
        q[part] *= t
        self.slack[part] += q[part]

    def _direction(self) -> Any:
        """Solve ``Hessian p = -gradient``; return None if told to stop."""
        d = self.w.size
        if d > DIRECT_WEIGHTS:
            return self._conjugate_gradients()
        hessian = self.hessian()
        if hessian is None:
            return None
        diagonal = hessian.diagonal().copy()
        # The identity drowns in rounding where the features are huge; then as much as is needed.
        for more in (0.0, 1e-14, 1e-11, 1e-8):
            hessian.flat[:: d + 1] = diagonal + (self.ridge + more * diagonal.max())
            _, p, failed = dposv(hessian, self.gradient)
            if not failed:
                return -p
        return -self.gradient

    def _conjugate_gradients(self) -> Any:
        residual = -self.gradient
        p, solution = residual.copy(), np.zeros_like(residual)
        size = residual @ residual
        enough = size * min(0.01, float(np.sqrt(size))) ** 2
        for _ in range(CG_STEPS):
            product = self.ridge * p
            self.add_hessian_product(p, product)
            curvature = p @ product
            if curvature == 0.0:  # along an intercept that no row holds
                return solution if solution.any() else p
            length = size / curvature
            solution += length * p
            residual -= length * product
            before, size = size, residual @ residual
            if size <= enough or self.run.poll():
                break
            p = residual + (size / before) * p
        return solution

    def _line_search(self, p: Any, q: Any) -> float:
        """Return t > 0 with ``phi'(t)`` near 0; phi' is increasing and piecewise linear."""
        penalised = self.ridge * p
        wp, pp = float(self.w.ravel() @ penalised), float(p @ penalised)
        first = float(self.gradient @ p)
        t, low, high = 1.0, 0.0, np.inf
        for _ in range(100):
            total, curvature = self.sum(lambda part: self.slope(part, q, t))  # noqa: B023
            value = wp + t * pp + total
            if abs(value) <= LINE_SEARCH * abs(first):
                return t
            low, high = (t, high) if value < 0 else (low, t)
            if pp + curvature > 0.0:
                t -= value / (pp + curvature)
            if not low < t < high:
                t = 0.5 * (low + high) if high < np.inf else 2.0 * low
        return low


class _Binary(Iterate):
    def __init__(self, run: Run, problem: BinaryProblem) -> None:
        self.loss = problem.loss
        self.y = problem.y[run.candidates]
        self.minus_y = -self.y
        self.target = problem.slack_at_zero()
        self.scale = np.empty(len(self.y))  # by how much b changes with its slack
        super().__init__(run, problem)
        self.free_intercept = isinstance(problem, FreeProblem)
        self.bias, self.typical = problem.passes.rows.bias, problem.scale
        first_rho = FIRST_RHO * self.typical / float(self.cost.mean())
        self.rho = 0.0 if self.loss.diag > 0 else first_rho
        # The Gram matrix of some rows, which they are, and their factors but for rho.
        self.gram: Any = None
        self.summed = np.zeros(len(self.y), bool)
        _, _, diag = bounds(self.loss, self.cost)
        self.base = np.ones(len(self.y)) if self.rho > 0.0 else 1.0 / diag

    def first_slack(self) -> Any:
        return self.target

    def gap_of_gradient(self) -> float:
        if not self.free_intercept:
            return super().gap_of_gradient()
        # The last derivative is by how much sum_i y_i b_i is off 0, times the bias.
        features, unbalanced = self.gradient[:-1], abs(float(self.gradient[-1]))
        return 0.5 * float(features @ features) + unbalanced / self.bias * self.typical

    def response(self, v: Any) -> Any:
        change = np.empty(len(self.members))

        def look(some: slice, scores: Any, totals: Any) -> None:
            np.multiply(scores, self.minus_y[some], out=change[some])

        self.passes.scan(self.members, v, look, 0)
        return change

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

    def slope(self, part: slice, q: Any, t: float) -> tuple[float, float]:
        return slope(self.u[part], q[part], self.cost[part], self.loss, self.rho, t)

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
            self.gram = np.zeros((self.w.size, self.w.size))
            self._add_gram(np.flatnonzero(self.summed), 1.0)
        return None if self.gram is None else self.gram / (self.rho if self.rho > 0.0 else 1.0)

    def _changed(self, part: slice) -> Any:
        """Return which rows of a part have become free since the Gram matrix, or are no more."""
        return part.start + np.flatnonzero((self.scale[part] != 0.0) != self.summed[part])

    def _add_gram(self, rows: Any, sign: float) -> None:
        """Add rows to the Gram matrix or take them away; there is none if told to stop."""
        if self.gram is not None and len(rows):
            gram = self.passes.gram(self.members[rows], self.base[rows], self.run.poll)
            self.gram = None if gram is None else self.gram + sign * gram

    def add_hessian_product(self, v: Any, out: Any) -> None:
        free = np.flatnonzero(self.scale)
        scale, members = self.scale[free], self.members[free]
        self.passes.add_product(members, v, lambda some, scores: scale[some] * scores, out)


class _Multiclass(Iterate):
    def __init__(self, run: Run, problem: MulticlassProblem) -> None:
        self.joint, self.n_classes = problem.joint, problem.n_classes
        self.y = problem.y[run.candidates]
        super().__init__(run, problem)
        self.rho = FIRST_RHO_MULTICLASS / float(self.cost.mean())

    def first_slack(self) -> Any:
        return (np.arange(self.n_classes) != self.y[:, None]).astype(np.float64)

    def response(self, v: Any) -> Any:
        scores = self.passes.responses(self.members, v)
        less_own(scores, self.y)
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

    def slope(self, part: slice, q: Any, t: float) -> tuple[float, float]:
        return slope_multiclass(
            u=self.u[part],
            q=q[part],
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

        return self.passes.gram_many(self.members, factors, k, self.run.poll)

    def add_hessian_product(self, v: Any, out: Any) -> None:
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

        product = np.zeros_like(self.w)
        self.passes.add_product(self.members, v.reshape(product.shape), change, product)
        out += product.ravel()

"""The scores of a multinomial problem: tables of rows and classes."""

from __future__ import annotations

from math import prod

import numpy as np

from .. import _tuning
from .._typing import Array
from ..kernels.multinomial import intercept_sums
from ..kernels.newton_multinomial import (
    SoftRows,
    SoftSlacks,
    curvatures,
    implied_dual_multinomial,
    keep_large,
    slope_multinomial,
)
from ..problems.multinomial import FreeMultinomialProblem, MultinomialProblem
from .backend import Hessian
from .multiclass import BlockHessian, MulticlassSlacks, has_blocks
from .slacks import slacks_of
from .tuning import BLOCKS, SOFTMAX

# Products with the Hessian leave out the smallest curvatures: LEFT_OUT of them all, after every
# STEPS_EACH steps FEWER times as much, and nothing once that is below LEAST_LEFT_OUT. So many
# numbers are sampled. mnist, C = 1 and 10: 12.2 and 37 s became 5.3 and 10.8. Direct steps leave
# out nothing: on covtype they became 21 instead of 10, each in half the time.
LEFT_OUT, STEPS_EACH, FEWER, LEAST_LEFT_OUT, SAMPLED = 0.01, 8, 0.1, 1e-4, 100_000


class MultinomialSlacks(MulticlassSlacks):
    """The slacks of a multinomial problem: differences of scores to those of the own classes."""

    problem: MultinomialProblem

    def prepare(self) -> None:
        self.light = max(_tuning.LIGHT_ROWS // self.n_classes, 1)
        self.few = prod(self.problem.weights_shape) <= _tuning.DIRECT_WEIGHTS
        self.tuning = SOFTMAX if self.few or not has_blocks(self.problem) else BLOCKS
        self.factors, self.cg_steps = None, 0
        self.n_hessians = 0
        del self.anchor  # the loss is smooth

    def first_slack(self) -> Array:
        self.n_classes, offset = self.problem.n_classes, self.problem.data.offset
        return offset - offset[self.y][:, None]  # type: ignore[no-any-return]

    def imply(self, part: slice, rho: float, step: float, signed: Array) -> tuple[float, float]:
        return implied_dual_multinomial(self._rows(part), step, signed)

    def slope_of(self, part: slice, rho: float, t: float) -> tuple[float, float]:
        return slope_multinomial(self._rows(part), t, *np.empty((2, self.n_classes)))

    def _rows(self, part: slice) -> SoftSlacks:  # type: ignore[override]
        tables = self.slack, self.along, self.b
        return SoftSlacks(*(a[part] for a in (self.y, self.cost, *tables)))

    def curved_rows(self) -> SoftRows:  # type: ignore[override]
        if self.curved is None:
            large, sqnorm = np.empty_like(self.b), self.problem.sqnorm[self.members]
            least = self._least_curvature(sqnorm)

            def keep(part: slice) -> Array:
                given = self.b[part], self.cost[part], sqnorm[part]
                keep_large(*given, least, large[part])
                return part.start + np.flatnonzero(large[part].any(axis=1))

            rows = np.concatenate(self.passes.each(keep, len(self.y), self.light))
            large = large if len(rows) == len(large) else large[rows]
            found = self.members[rows], large, large.sum(axis=1)
            self.curved = SoftRows(*found)  # type: ignore[assignment]
        return self.curved  # type: ignore[return-value]

    def _least_curvature(self, sqnorm: Array) -> float:
        """Return below which curvature dual variables are left out of the Hessian.

        Those of a sample of the rows add up to a part of all that falls as steps are taken, so that
        the last ones are Newton's.
        """
        part = LEFT_OUT * FEWER ** (self.n_hessians // STEPS_EACH)
        self.n_hessians += 1
        if self.few or part < LEAST_LEFT_OUT:
            return 0.0
        sample = slice(None, None, max(len(sqnorm) * self.n_classes // SAMPLED, 1))
        b = self.b[sample]
        found = np.empty_like(b)
        curvatures(b, self.cost[sample], sqnorm[sample], found)
        ordered = np.sort(found, axis=None)
        sums = np.cumsum(ordered)
        return float(ordered[np.searchsorted(sums, part * sums[-1])])

    def diagonal(self, rho: float) -> Array:
        _, b, total = self.curved_rows()
        return b * (1.0 - b / total[:, None])

    def hessian(self, rho: float, exact: bool) -> tuple[Array | None, float]:
        """Return the Hessian by Gram matrices of pairs of classes."""
        k, d = self.n_classes, self.passes.n_weights
        members, b, total = self.curved_rows()
        out = np.zeros((d, k, d, k))
        for a in range(k):
            for c in range(a + 1):
                scale = -b[:, a] * (b[:, c] / total)
                scale += b[:, a] if a == c else 0.0
                some, half = np.flatnonzero(scale), np.zeros((d, d))
                if not self.passes.add_gram(members[some], scale[some], half, self.stop, exact):
                    return None, 1.0
                half += np.tril(half, -1).T
                out[:, a, :, c] = out[:, c, :, a] = half
        return out.reshape(d * k, d * k), 1.0

    def best_duals(self) -> Array:
        """Return dual variables that fit the slacks, those of the own classes included."""
        return self.b.copy()

    def duals(self) -> Array:
        b = self.best_duals()
        b[np.arange(len(b)), self.y] = 0.0
        return self.problem.feasible(self.problem.alpha_of(b))


class FreeMultinomialSlacks(MultinomialSlacks):
    """The slacks of a problem with free intercepts.

    Adding the same number to all intercepts changes nothing. The Hessian is singular along that; no
    gradient leads there.
    """

    problem: FreeMultinomialProblem

    def hessian(self, rho: float, exact: bool) -> tuple[Array | None, float]:
        matrix, scale = super().hessian(rho, exact)
        if matrix is not None:
            last = matrix[-self.n_classes :, -self.n_classes :]
            last += max(float(last.diagonal().mean()), 1.0)
        return matrix, scale

    def preconditioned(self, rho: float) -> Hessian | None:
        hessian = super().preconditioned(rho)
        return None if hessian is None else FreeBlockHessian(self, rho)

    def best_duals(self) -> Array:
        """Return those of the best intercepts: their constraint holds but for rounding."""
        b, shift = np.empty_like(self.b), np.zeros(self.n_classes)
        shift = self.problem.best_intercepts(self.slack, shift)
        intercept_sums(self.slack, shift, self.y, self.cost, b, np.zeros(self.n_classes))
        return b * self.cost[:, None]


class FreeBlockHessian(BlockHessian):
    """The same without the ridge of the intercepts."""

    def product(self, p: Array) -> Array:
        product = super().product(p)
        product[-1] -= p[-1]
        return product


slacks_of.register(MultinomialProblem, MultinomialSlacks)
slacks_of.register(FreeMultinomialProblem, FreeMultinomialSlacks)

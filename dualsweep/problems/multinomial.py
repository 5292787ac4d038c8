"""Multinomial logistic regression: problems of many classes at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, log2

import numpy as np

from .._symmetric import cholesky_solve, regular_cholesky
from .._typing import Array, DualPoint
from ..kernels.certificate import DRIFT, LOSSES, OF_OBJECTIVE, SHARES, squared_length
from ..kernels.multinomial import (
    OF_SOFTMAX,
    MultinomialData,
    certify_rows_multinomial,
    class_sums,
    entropies,
    intercept_sums,
    sweep_multinomial,
)
from ..rows.functions import EPS, SMALLEST
from .multiclass import MulticlassProblem
from .result import Known, Result

# A solution for other costs is multiplied by the largest number that is feasible, or that times a
# power of MULTIPLE, whichever is best.
LARGEST, MULTIPLE, MOST_MULTIPLES = 1e6, 0.7, 50

# The best intercepts: the steps end when they would gain ENOUGH of the losses, after one that gains
# at most LAST of them, or after MOST_STEPS. Newton steps beyond FAR may be worse than steps of
# iterative scaling. The curvature counts as at least LEAST_CURVED of the costs, and REGULAR of that
# is added. Hessians are of so many rows that these have at most PAIRS pairs of classes.
# Probabilities are computed a CHUNK at a time.
ENOUGH, LAST, MOST_STEPS, FAR = 1e-28, 1e-10, 100, 4.0
LEAST_CURVED, REGULAR, PAIRS, CHUNK = 1e-10, 1e-12, 1e9, 1 << 18

# Sums of signed dual variables that are mixed away, in parts of the costs of a class; and how
# often: the second time makes up for the rounding of the first.
NEARLY, BALANCES = 1e-13, 2


@dataclass(frozen=True)
class MultinomialProblem(MulticlassProblem):
    """A problem of multinomial logistic regression; see `dualsweep.kernels.multinomial`.

    Dual variables are dense: no probability is 0. The sum of a row's is at most its cost, as with
    Crammer-Singer: they are `joint`.
    """

    offset: Array | None = None  # of each class, which scores have besides

    smooth = True

    sweep_rows = staticmethod(sweep_multinomial)
    certify_rows = staticmethod(certify_rows_multinomial)

    @cached_property
    def data(self) -> MultinomialData:
        offset = np.zeros(self.n_classes) if self.offset is None else self.offset
        return MultinomialData(self.passes.rows, self.sqnorm, self.y, self.cost, offset)

    @property
    def primal_at_zero(self) -> float:
        """Objective of W = 0 without offsets, where all classes have the same probability."""
        return float(self.cost.sum()) * log(self.n_classes) * (1.0 + OF_OBJECTIVE * EPS)

    def level(self, w: Array) -> float:
        return super().level(w) + float(np.abs(self.data.offset).max())

    def zero_alpha(self) -> Array:
        """Return dual variables to start from: each row's probability is that of its own class."""
        return np.zeros((self.n_rows, self.n_classes))

    def duals_of(self, alpha: DualPoint) -> Array:
        return alpha[self.candidates]  # type: ignore[no-any-return]

    def alpha_of(self, values: Array) -> Array:
        """Return dual variables with the given values for the candidates, the rest 0."""
        alpha = self.zero_alpha()
        alpha[self.candidates] = values
        return alpha

    def settled(self, alpha: DualPoint, slack: Array, radius: float) -> Array:
        """Return that no row is known to have its optimal probabilities: none are at a bound."""
        return np.zeros(len(self.candidates), bool)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def rescaled(self, result: Result, seen: Array) -> tuple[Array, Known | None]:
        """Return a multiple of a solution for other costs: the best of some."""
        alpha, members = result.alpha, self.candidates
        sums, size = alpha[members].sum(axis=1), self.size(result.w)
        room = float(np.min(self.cost[members] / sums, initial=LARGEST))

        def dual(s: float) -> float:
            return entropies(alpha, members, self.y, self.cost, s) - 0.5 * s * s * size

        best = dual(room)
        for _ in range(MOST_MULTIPLES):  # the objective is concave
            next_best = dual(MULTIPLE * room)
            if not next_best > best:
                break
            best, room = next_best, MULTIPLE * room
        return self.feasible(room * alpha), None

    def feasible(self, alpha: Array) -> Array:
        """Scale rows down whose sum exceeds their cost, in place."""
        total = alpha.sum(axis=1)
        over = np.flatnonzero(total > self.cost)
        alpha[over] *= (self.cost[over] / total[over])[:, None]
        return alpha


@dataclass(frozen=True)
class FreeMultinomialProblem(MultinomialProblem):
    """A multinomial problem whose intercepts, the last weights times the bias, are not penalised.

    The dual has one more constraint per class: the signed dual variables of each add up to 0,
    ``sum_i C_i ([y_i = m] - p_im) = 0``. Visits of single rows do not keep it. To make a dual point
    feasible, its probabilities get intercepts too; what rounding leaves is mixed away with the
    probabilities of no row in particular, z, which are about how frequent classes are. The weights
    get the best intercepts. Then ``P(W) - D(p)`` is the sum of the rows' shares of the gap, as with
    a penalty.
    """

    penalised = False

    @property
    def ridge(self) -> Array:
        ridge = np.ones(self.weights_shape)
        ridge[-1] = 0.0
        return ridge

    def gap_of_gradient(self, gradient: Array) -> float:
        # The last derivatives are what the sums of signed dual variables should not be.
        features, last = np.split(gradient.reshape(self.weights_shape), [-1])
        unbalanced = float(np.abs(last).sum()) / self.passes.rows.bias
        return 0.5 * float(np.vdot(features, features)) + 0.5 * unbalanced

    def size(self, w: Array) -> float:
        return float(squared_length(w[:-1].ravel("K")))

    def centred(self, b: Array) -> MultinomialProblem:
        """Return the problem with a penalty on the intercepts' distance from b.

        Its constant feature is about half as long as the others together: the longer, the smaller
        the penalty, but the slower sweeps are. Sweeps in total to 1e-3 with that, with the same
        length, and with a length of 1: usps, C = 1, 58, 72 and 89, C = 10, 100, 109 and 211; mnist,
        C = 1, 46, 61 and 42; dna, C = 1, 27, 31 and 44.
        """
        rows, members = self.passes.rows, self.candidates
        features = float((self.sqnorm[members] - rows.bias**2).mean())
        bias = max(2.0 ** (round(0.5 * log2(max(features, SMALLEST))) - 1), rows.bias)
        passes = type(self.passes)(rows._replace(bias=bias), self.passes.workers)
        sqnorm = passes.sqnorms()
        problem = passes, sqnorm, self.y, self.cost, self.joint, self.n_classes
        return MultinomialProblem(*problem, b, candidates=members)

    @cached_property
    def class_costs(self) -> Array:
        """The sum of the costs of each class."""
        members = self.candidates
        return np.bincount(self.y[members], self.cost[members], minlength=self.n_classes)

    def _unbalanced(self, alpha: Array) -> tuple[Array, float]:
        """Return the sums of signed dual variables, and by how much these may be off.

        That is their rounding, and what is taken from rows that add up to more than their cost.
        """
        members, n = self.candidates, len(self.candidates) * self.n_classes
        high, low = np.zeros((2, self.n_classes))
        size = class_sums(alpha, members, self.y, high, low)
        sums, rounding = high + low, (self.n_classes + OF_SOFTMAX) * EPS
        totals = (1.0 + rounding) * alpha[members].sum(axis=1)
        over = float(np.maximum(totals - self.cost[members], 0.0).sum())
        return sums, float((n * EPS) ** 2 * size + EPS * np.abs(sums).max()) + 2.0 * over

    def balance(self, alpha: DualPoint) -> None:
        """Make the sums of signed dual variables 0 but for rounding, in place.

        The nearest such probabilities, in their Kullback-Leibler divergence, are p with intercepts:
        proportional to ``p_m exp(b_m)``. For the rest, mix them with the part `theta` of z. Then
        ``(1 - theta) sums_m + theta sum_i C_i ([y_i = m] - z_m)`` is 0, and no z_m is negative.
        """
        alpha[~np.isfinite(alpha)] = 0.0
        members, costs = self.candidates, self.class_costs
        y, cost = self.y[members], self.cost[members, None]
        if float((np.abs(self._unbalanced(alpha)[0]) / costs).max()) > NEARLY:
            q = alpha[members] / cost
            q[np.arange(len(q)), y] = np.maximum(1.0 - q.sum(axis=1), 0.0)
            scores = np.log(np.maximum(q, SMALLEST))
            b = self.best_intercepts(scores, np.zeros(self.n_classes))
            intercept_sums(scores, b, y, cost[:, 0], q, np.zeros(self.n_classes))
            alpha[members] = cost * q
            alpha[members, y] = 0.0
            self.feasible(alpha)
        sums = self._unbalanced(alpha)[0]
        ratio = max(float((-sums / costs).max()), 0.0)
        theta = ratio / (1.0 + ratio)
        if theta > 0.0:
            z = np.maximum(theta * costs + (1.0 - theta) * sums, 0.0) / costs.sum()
            alpha *= 1.0 - theta
            alpha[members] += cost * z
            alpha[members, y] = 0.0
            self.feasible(alpha)

    def fill_weights(self, alpha: DualPoint, w: Array, *, compensated: bool = False) -> None:
        """Make `alpha` feasible, and overwrite w with its weights and the best intercepts."""
        bias, last = self.passes.rows.bias, w[-1].copy()
        for _ in range(BALANCES):
            self.balance(alpha)
        super().fill_weights(alpha, w, compensated=compensated)
        w[-1] = 0.0
        scores = self.passes.responses(self.candidates, w)
        w[-1] = self.best_intercepts(scores, last * bias) / bias

    def best_intercepts(self, scores: Array, start: Array) -> Array:
        """Return the intercepts that minimise the losses of the candidates, of mean 0.

        Newton steps. Where these do not help, as far from the minimum, a step of iterative scaling
        does (Darroch and Ratcliff 1972).
        """
        members = self.candidates
        y, cost, k = self.y[members], self.cost[members], self.n_classes
        every = max(int(len(members) * k * k / PAIRS), 1)  # rows of the Hessian, to save time
        start = np.where(np.isfinite(start), start, 0.0)

        def measure(b: Array) -> tuple[float, Array, Array]:
            descent, hessian, losses = np.zeros(k), np.zeros((k, k)), 0.0
            step = max(CHUNK // k, 1)
            for first in range(0, len(members), step):
                part = slice(first, first + step)
                q = np.empty((len(y[part]), k))
                losses += intercept_sums(scores[part], b, y[part], cost[part], q, descent)
                some = q[::every]
                weighted = every * cost[part][::every, None] * some
                hessian[np.diag_indices(k)] += weighted.sum(axis=0)
                hessian -= weighted.T @ some
            return losses, descent, hessian

        b, found = start, measure(start)
        for _ in range(MOST_STEPS):
            losses, descent, hessian = found
            scale = max(float(hessian.diagonal().max()), LEAST_CURVED * float(cost.sum()))
            factor = regular_cholesky(hessian + scale / k, REGULAR * scale)
            part = np.maximum(1.0 - descent / self.class_costs, EPS)  # predicted, of each class
            scaling = -np.log(part)
            newton = scaling if factor is None else cholesky_solve(factor, descent)
            gain, longest = float(newton @ descent), float(np.abs(newton).max())
            if not max(gain, float(scaling @ self.class_costs)) > ENOUGH * losses:
                break
            near = gain > 0.0 and longest <= FAR
            if near and gain <= LAST * losses:  # rounding may hide that losses fall
                b = b + newton
                break
            step = newton if near else FAR / longest * newton
            better = measure(b + step)
            if not (near and better[0] < losses):
                scaled = measure(b + scaling)
                if not better[0] < scaled[0]:
                    step, better = scaling, scaled
            if not better[0] < losses:
                break
            b, found = b + step, better
        return b - b.mean()  # type: ignore[no-any-return]

    def totals(
        self, alpha: DualPoint, w: Array, length: float, slack: Array, *, compensated: bool = False
    ) -> Array:
        """Return the sums of a certificate over the candidates.

        They allow for what is left of the sums of signed dual variables. The feasible point mixes
        `theta` of z into all probabilities. A share is convex in them: it grows by at most theta
        times that of z, which is at most the loss and, for what z has of other classes, the largest
        difference of two scores. As sums are at most half of theta times the costs of their class,
        no z_m is more than 1.5 times the part of class m in the costs.
        """
        totals = super().totals(alpha, w, length, slack, compensated=compensated)
        members, k = self.candidates, self.n_classes
        sums, error = self._unbalanced(alpha)
        theta = 2.0 * float(((np.abs(sums) + error) / self.class_costs).max())
        if theta > 0.0:
            reach = 2.0 * (length * np.sqrt(self.sqnorm[members]) + self.level(w))
            norms = np.sqrt(2.0 * self.sqnorm[members])
            cost = self.cost[members]
            part = self.class_costs / self.class_costs.sum()
            others = 2.0 * (1.0 - part + k * EPS)[self.y[members]]
            totals[SHARES] += 2.0 * theta * float(totals[LOSSES] + cost @ (others * reach))
            totals[DRIFT] += 4.0 * theta * float(cost @ norms)
        return totals

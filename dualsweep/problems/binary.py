"""Problems of one vector of weights: two classes, or regression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import ClassVar

import numpy as np

from .._typing import Array, DualPoint
from ..kernels.binary import BinaryData, add_weights, sweep
from ..kernels.certificate import N_TOTALS, certify_rows, settle_rows, sum_losses
from ..kernels.scaling import rescale
from ..losses import Loss, loss_at
from ..rows.compensated import compensated_rows, intercept_size, scales_exactly
from .memory import MemoryProblem
from .result import Known, Result


@dataclass(frozen=True)
class BinaryProblem(MemoryProblem):
    """A problem of two classes, or of regression, which has a target per row and y = 1.

    For its primal and its dual see `dualsweep.losses.protocol`.
    """

    loss: Loss
    target: float | Array = 1.0  # of the margin, for all rows or for each
    penalised: ClassVar[bool] = True  # the intercept

    @cached_property
    def data(self) -> BinaryData:
        """What kernels are given."""
        target = np.asarray(self.target)
        return BinaryData(self.passes.rows, self.sqnorm, self.y, target, self.cost, self.loss)

    @property
    def smooth(self) -> bool:
        """Whether Newton steps need no anchor."""
        return self.loss.smooth

    @property
    def primal_at_zero(self) -> float:
        """Objective of w = 0; the slacks of classes there are the same for all data."""
        if np.ndim(self.target) == 0:
            return float(self.cost.sum()) * loss_at(float(self.target), self.loss)
        return float(sum_losses(self.slack_at_zero(), self.cost[self.candidates], self.loss))

    @property
    def scale(self) -> float:
        """What is a large slack: 1 for classes, else the mean size of the targets."""
        if np.ndim(self.target) == 0:
            return abs(float(self.target)) or 1.0
        target = self.slack_at_zero()
        sizes = np.abs(target - self.centre(target))
        return float(sizes.mean()) if sizes.any() else 1.0

    @staticmethod
    def centre(target: Array) -> float:
        """Return the target from which `scale` measures the others."""
        return 0.0

    def zero_alpha(self) -> Array:
        return np.zeros(self.n_rows)

    def slack_at_zero(self) -> Array:
        """Return the slacks of w = 0: the targets."""
        target, members = np.asarray(self.target), self.candidates
        return target[members] if target.ndim else np.full(len(members), target)

    def duals_of(self, alpha: DualPoint) -> Array:
        """Return a copy of the dual variables of the candidates."""
        return alpha.copy() if len(self.candidates) == len(alpha) else alpha[self.candidates]

    def alpha_of(self, values: Array) -> Array:
        """Return dual variables with the given values for the candidates, the rest 0."""
        if len(values) == self.n_rows:
            return np.array(values)
        alpha = self.zero_alpha()
        alpha[self.candidates] = values
        return alpha

    def sweep(
        self,
        shrunk: bool,
        order: Array,
        alpha: DualPoint,
        w: Array,
        grads: Array,
        gains: Array,
        shares: Array,
    ) -> tuple[float, float]:
        """Visit the rows of `order`; see `dualsweep.kernels.binary.sweep`.

        `shrunk` means nothing here: a row has a single dual variable.
        """
        return sweep(self.data, order, alpha, w, grads, gains, shares)

    def is_feasible(self, alpha: DualPoint) -> bool:
        """Return whether dual variables are within their bounds, and 0 without a cost."""
        used = self.cost > 0
        lower, upper = self.loss.on_arrays(np).bounds(self.cost[used])
        inside = (lower <= alpha[used]) & (alpha[used] <= upper)
        return bool(inside.all()) and not alpha[~used].any()

    def summed(self, alpha: DualPoint) -> float:
        """Return the sum of the lengths of what weights are summed from."""
        return float(np.abs(alpha) @ np.sqrt(self.sqnorm))

    def fill_weights(self, alpha: DualPoint, w: Array, *, compensated: bool = False) -> None:
        passes, members = self.passes, self.candidates

        def coef(part: slice) -> Array:
            i = members[part]
            return (alpha[i] * self.y[i])[:, None]

        def add(part: slice, w: Array) -> None:
            add_weights(passes.rows, members[part], alpha, self.y, w)

        w[:] = 0.0
        if compensated:
            passes.add_compensated(members, coef, w)
        else:
            passes.add_parts(add, passes.parts_to_add(len(members), w.size), w)

    def totals(
        self, alpha: DualPoint, w: Array, length: float, slack: Array, *, compensated: bool = False
    ) -> Array:
        passes, rows, members = self.passes, self.passes.rows, self.candidates
        # With no weight but the intercept and a bias of a power of two, nothing is rounded.
        exact = length == 0.0 and scales_exactly(rows.bias)
        level = 0.0 if exact else intercept_size(rows, w)
        data = self.data._replace(rows=compensated_rows(rows, w)) if compensated else self.data

        def certify(part: slice, totals: Array) -> None:
            certify_rows(data, members[part], w, alpha, length, level, slack[part], totals)

        totals = np.zeros(N_TOTALS)
        passes.add_parts(certify, passes.parts(len(members)), totals)
        return totals

    def settled(self, alpha: DualPoint, slack: Array, radius: float) -> Array:
        """Return which candidates have the dual variable of the optimum, at a bound or the kink.

        Its weights are at most `radius` from w, so its slacks differ by at most ``radius |x_i|``.
        """
        out = np.empty(len(self.candidates), dtype=bool)
        settle_rows(self.data, self.candidates, alpha, slack, radius, out)
        return out

    def best_scale(self, alpha: DualPoint, slack: Array, w: Array) -> float:
        # Weights s w have margins s z, and the gap is convex in s.
        members = self.candidates
        a, cost, target = alpha[members], self.cost[members], self.slack_at_zero()
        linear, square = self.loss.on_arrays(np).conjugate_parts(cost, a)
        total, curvature = float(target @ a - linear.sum()), float(w @ w + 0.5 * square.sum())

        def gap(s: float) -> float:
            losses = sum_losses(target - s * (target - slack), cost, self.loss)
            return float(losses + s * s * curvature - s * total)

        from scipy.optimize import minimize_scalar  # takes a while, and few runs need it

        found = minimize_scalar(gap, bounds=(0.0, 1.0), method="bounded")
        return float(found.x) if found.fun < 0.99 * gap(1.0) else 1.0

    def rescaled(self, result: Result, seen: Array) -> tuple[DualPoint, Known | None]:
        """Return the best feasible multiple of a solution for other costs, and what is known of it.

        The solution has the slacks of the rows `seen`. See `start_from` in solvers/solve.py.
        """
        assert result.slack is not None
        alpha, w = np.empty_like(result.alpha), np.empty_like(result.w)
        before = self.data, self.candidates, result.alpha, result.w
        primal, dual = rescale(*before, seen, result.slack, alpha, w)
        if isnan(primal) or not self.loss.quadratic:  # rows have come or gone
            return alpha, None
        return alpha, Known(w, primal, max(primal - dual, 0.0))

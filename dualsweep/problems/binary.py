"""Problems of one vector of weights: two classes, or regression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isnan

import numpy as np

from .._typing import Array, DualPoint
from ..kernels.binary import BinaryData, add_weights, sweep
from ..kernels.certificate import N_TOTALS, certify_rows, settle_rows, squared_length
from ..kernels.losses import sum_losses
from ..kernels.scaling import rescale
from ..losses import Loss, loss_at, of_numpy
from ..rows.compensated import compensated_rows, intercept_size, scales_exactly
from .memory import MemoryProblem
from .result import Known, Result


@dataclass(frozen=True)
class BinaryProblem(MemoryProblem):
    """A binary problem; see `dualsweep.losses.protocol` for the primal and the dual it stands for.

    That of regression has a target per row, and y = 1.
    """

    loss: Loss
    target: float | Array = 1.0  # of the margin, for all rows or for each

    @cached_property
    def data(self) -> BinaryData:
        """What kernels are given."""
        return BinaryData(self.passes.rows, self.sqnorm, self.y, self.target, self.cost, self.loss)

    @property
    def smooth(self) -> bool:
        """Whether Newton steps need no anchor."""
        return self.loss.smooth

    @property
    def primal_at_zero(self) -> float:
        """Objective of w = 0, where the slacks of classes are the same whatever the data."""
        if np.ndim(self.target) == 0:
            return float(self.cost.sum()) * loss_at(float(self.target), self.loss)
        return float(sum_losses(self.slack_at_zero(), self.cost[self.candidates], self.loss))

    @property
    def scale(self) -> float:
        """What is a large slack: 1 for classes, else the mean size of the targets."""
        if np.ndim(self.target) == 0:
            return abs(float(self.target)) or 1.0
        sizes = np.abs(self.slack_at_zero())
        return float(sizes.mean()) if sizes.any() else 1.0

    def zero_alpha(self) -> Array:
        """Return dual variables to start from."""
        return np.zeros(self.n_rows)

    def slack_at_zero(self) -> Array:
        """Return what a certificate of w = 0 sees of each row with a cost."""
        return self._targets(self.candidates)

    def duals_of(self, alpha: DualPoint, members: Array) -> Array:
        """Return the dual variables of the rows `members`."""
        return alpha.copy() if len(members) == len(alpha) else alpha[members]

    def alpha_of(self, members: Array, values: Array) -> Array:
        """Return dual variables with the given values for the rows `members`, the rest 0."""
        if len(members) == self.n_rows:
            return np.array(values)
        alpha = self.zero_alpha()
        alpha[members] = values
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
        """Tell whether dual variables are within their bounds, and 0 where there is no cost."""
        used = self.cost > 0
        lower, upper = of_numpy(self.loss).bounds(self.cost[used])
        inside = (lower <= alpha[used]) & (alpha[used] <= upper)
        return bool(inside.all()) and not alpha[~used].any()

    def summed(self, alpha: DualPoint) -> float:
        """Return the sum of the lengths of what weights are summed from."""
        return float(np.abs(alpha) @ np.sqrt(self.sqnorm))

    def fill_weights(
        self, members: Array, alpha: DualPoint, w: Array, *, compensated: bool = False
    ) -> None:
        """Overwrite w with the weights of `alpha`, which is 0 on all rows but `members`."""
        if compensated:

            def coef(part: slice) -> Array:
                i = members[part]
                return (alpha[i] * self.y[i])[:, None]

            w[:] = 0.0
            self.passes.add_compensated(members, coef, w)
            return

        def add(part: slice, w: Array) -> None:
            add_weights(self.passes.rows, members[part], alpha, self.y, part.start == 0, w)

        self.passes.add_parts(add, len(members), w)

    def size(self, w: Array) -> float:
        """Return the squared length of the weights that are penalised: all."""
        return float(squared_length(w))

    def totals(
        self,
        members: Array,
        alpha: DualPoint,
        w: Array,
        length: float,
        slack: Array,
        *,
        compensated: bool = False,
    ) -> Array:
        """Return what a certificate adds up over `members`; fill in their slacks."""
        passes, rows = self.passes, self.passes.rows
        # Of no weights but the intercept, responses are that of a power of two, without rounding.
        exact = length == 0.0 and scales_exactly(rows.bias)
        level = 0.0 if exact else intercept_size(rows, w)
        data = self.data._replace(rows=compensated_rows(rows, w)) if compensated else self.data

        def certify(part: slice) -> Array:
            totals = np.zeros(N_TOTALS)
            certify_rows(
                data=data,
                members=members[part],
                w=w,
                alpha=alpha,
                length=length,
                level=level,
                slack=slack[part],
                totals=totals,
            )
            return totals

        return passes.sum(certify, len(members))

    def settled(self, members: Array, alpha: DualPoint, slack: Array, radius: float) -> Array:
        """Tell which of `members` are at a bound, or at the kink, where the optimum has them.

        The optimum is at most `radius` from w, so its slack differs by at most that times
        ``|x_i|``.
        """
        out = np.empty(len(members), dtype=bool)
        settle_rows(self.data, members, alpha, slack, radius, out)
        return out

    def best_scale(self, members: Array, alpha: DualPoint, slack: Array, w: Array) -> float:
        """Return the s in [0, 1] for which the gap of ``s * alpha`` is smallest.

        With w times s goes the margin times s, and the gap is convex in s.
        """
        a, cost, target = alpha[members], self.cost[members], self._targets(members)
        linear, square = of_numpy(self.loss).conjugate_parts(cost, a)
        total, curvature = float(target @ a - linear.sum()), float(w @ w + 0.5 * square.sum())

        def gap(s: float) -> float:
            losses = sum_losses(target - s * (target - slack), cost, self.loss)
            return float(losses + s * s * curvature - s * total)

        from scipy.optimize import minimize_scalar  # takes a while, and few runs need it

        found = minimize_scalar(gap, bounds=(0.0, 1.0), method="bounded")
        return float(found.x) if found.fun < 0.99 * gap(1.0) else 1.0

    def rescaled(self, result: Result, seen: Array) -> tuple[DualPoint, Known | None]:
        """Return the best feasible multiple of a solution for other costs, and what is known of it.

        `seen` are the rows whose slacks the solution has. See `dualsweep.solvers.path`.
        """
        assert result.slack is not None
        alpha, w = np.empty_like(result.alpha), np.empty_like(result.w)
        primal, dual = rescale(
            data=self.data,
            members=self.candidates,
            before=result.alpha,
            w_before=result.w,
            seen=seen,
            slack=result.slack,
            alpha=alpha,
            w=w,
        )
        if isnan(primal) or not self.loss.quadratic:  # rows have come or gone
            return alpha, None
        return alpha, Known(w, primal, max(primal - dual, 0.0))

    def _targets(self, members: Array) -> Array:
        target = np.asarray(self.target)
        return target[members] if target.ndim else np.full(len(members), target)

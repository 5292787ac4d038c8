"""Problems of one vector of weights: two classes, or regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from .._typing import Array
from ..kernels.binary import BinaryData, add_weights, sweep
from ..kernels.certificate import N_TOTALS, certify_rows, settle_rows, squared_length
from ..kernels.losses import sum_losses
from ..kernels.scaling import rescale
from ..losses import Loss, loss_at, of_numpy
from ..rows.compensated import compensated_rows, intercept_size, scales_exactly
from ..rows.passes import Passes
from .result import Known, Result


@dataclass(frozen=True)
class BinaryProblem:
    """A binary problem; see `dualsweep.losses.protocol` for the primal and the dual it stands for.

    That of regression has a target per row, and y = 1. Rows with cost 0 are not part of the
    problem.
    """

    passes: Passes
    sqnorm: Any  # squared norms of the rows, the bias included
    y: Any  # -1.0 or +1.0
    cost: Any  # C_i = C * sample weight * class weight
    loss: Loss
    target: Any = 1.0  # of the margin, for all rows or for each
    candidates: Any = None  # numbers of the rows that are part of the problem

    in_place = False  # whether a new dual point takes the place of the old one
    outdated = False  # whether rows were lost since weights were last summed up

    def __post_init__(self) -> None:
        if self.candidates is None:
            object.__setattr__(self, "candidates", np.flatnonzero(self.cost > 0))

    @cached_property
    def data(self) -> BinaryData:
        """What kernels are given."""
        return BinaryData(self.passes.rows, self.sqnorm, self.y, self.target, self.cost, self.loss)

    @property
    def n_rows(self) -> int:
        """Rows, with and without a cost."""
        return len(self.y)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Shape of w: the features and the bias."""
        return (self.passes.n_weights,)

    @property
    def ridge(self) -> Any:
        """How much the squares of the weights are penalised."""
        return 1.0

    @property
    def smooth(self) -> bool:
        """Whether Newton steps need no anchor."""
        return self.loss.smooth

    def gap_of_gradient(self, gradient: Array) -> float:
        """Return the gap of an inner problem of Newton's method with this gradient."""
        return 0.5 * float(gradient @ gradient)

    def check_rows(self) -> None:
        """Raise ValueError if rows are not finite any more."""
        self.passes.check_finite()

    @property
    def mean_cost(self) -> float:
        """The mean of the costs of these rows."""
        return float(self.cost[self.candidates].mean())

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

    def with_costs(self, cost: Any) -> BinaryProblem:
        """Return the same problem with other costs."""
        return replace(self, cost=cost, candidates=None)

    def zero_alpha(self) -> Any:
        """Return dual variables to start from."""
        return np.zeros(self.n_rows)

    def zero_weights(self) -> Any:
        """Return weights to start from."""
        return np.zeros(self.weights_shape)

    def slack_at_zero(self) -> Any:
        """Return what a certificate of w = 0 sees of each row with a cost."""
        return self._targets(self.candidates)

    def duals_of(self, alpha: Any, members: Any) -> Any:
        """Return the dual variables of the rows `members`."""
        return alpha.copy() if len(members) == self.n_rows else alpha[members]

    def alpha_of(self, members: Any, values: Any) -> Any:
        """Return dual variables with the given values for the rows `members`, the rest 0."""
        if len(members) == self.n_rows:
            return np.array(values)
        alpha = self.zero_alpha()
        alpha[members] = values
        return alpha

    def sweep(
        self,
        shrunk: bool,
        order: Any,
        alpha: Any,
        w: Any,
        grads: Any,
        gains: Any,
        shares: Any,
    ) -> float:
        """Visit the rows of `order`; see `dualsweep.kernels.binary.sweep`.

        `shrunk` means nothing here: a row has a single dual variable.
        """
        return sweep(
            data=self.data,
            order=order,
            alpha=alpha,
            w=w,
            grads=grads,
            gains=gains,
            shares=shares,
        )

    def is_feasible(self, alpha: Any) -> bool:
        """Tell whether dual variables are within their bounds, and 0 where there is no cost."""
        used = self.cost > 0
        lower, upper = of_numpy(self.loss).bounds(self.cost[used])
        inside = (lower <= alpha[used]) & (alpha[used] <= upper)
        return bool(inside.all()) and not alpha[~used].any()

    def summed(self, alpha: Any) -> float:
        """Return the sum of the lengths of what weights are summed from."""
        return float(np.abs(alpha) @ np.sqrt(self.sqnorm))

    def fill_weights(self, members: Any, alpha: Any, w: Any, *, compensated: bool = False) -> None:
        """Overwrite w with the weights of `alpha`, which is 0 on all rows but `members`."""
        if compensated:

            def coef(part: slice) -> Any:
                i = members[part]
                return (alpha[i] * self.y[i])[:, None]

            w[:] = 0.0
            self.passes.add_compensated(members, coef, w)
            return

        def add(part: slice, w: Any) -> None:
            add_weights(self.passes.rows, members[part], alpha, self.y, part.start == 0, w)

        self.passes.add_parts(add, len(members), w)

    def size(self, w: Any) -> float:
        """Return the squared length of the weights that are penalised: all."""
        return float(squared_length(w))

    def totals(
        self,
        members: Any,
        alpha: Any,
        w: Any,
        length: float,
        slack: Any,
        *,
        compensated: bool = False,
    ) -> Any:
        """Return what a certificate adds up over `members`; fill in their slacks."""
        passes, rows = self.passes, self.passes.rows
        # Of no weights but the intercept, responses are that of a power of two, without rounding.
        exact = length == 0.0 and scales_exactly(rows.bias)
        level = 0.0 if exact else intercept_size(rows, w)
        data = self.data._replace(rows=compensated_rows(rows, w)) if compensated else self.data

        def certify(part: slice) -> Any:
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

    def settled(self, members: Any, alpha: Any, slack: Any, radius: float) -> Any:
        """Tell which of `members` are at a bound, or at the kink, where the optimum has them.

        The optimum is at most `radius` from w, so its slack differs by at most that times
        ``|x_i|``. A row whose slack is thereby known to be so far below the kink that its dual
        variable is at its lower bound has alpha there, one whose slack is so far above it at its
        upper bound if it has one, one whose slack is inside at 0.
        """
        out = np.empty(len(members), dtype=bool)
        settle_rows(self.data, members, alpha, slack, radius, out)
        return out

    def best_scale(self, members: Any, alpha: Any, slack: Any, w: Any) -> float:
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

    def rescaled(self, result: Result, seen: Array) -> tuple[Any, Known | None]:
        """Return the best feasible multiple of a solution for other costs, and what is known of it.

        `seen` are the rows whose slacks the solution has. See `dualsweep.solvers.path`.
        """
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

    def _targets(self, members: Any) -> Any:
        if np.ndim(self.target) == 0:
            return np.full(len(members), self.target)
        return self.target[members]

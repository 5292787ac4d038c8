"""Problems of many classes at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._typing import Array
from ..kernels.certificate import N_TOTALS, squared_length
from ..kernels.duals import SlottedDuals
from ..kernels.multiclass import certify_rows_multiclass, signed_duals, sweep_multiclass
from ..kernels.scaling import best_multiple, snapped
from ..rows.compensated import compensated_rows, intercept_size
from ..rows.passes import Passes
from .result import Known, Result

ROUNDED_SUM = 1.0 + 1e-12  # of the dual variables of a row, in costs


@dataclass(frozen=True)
class MulticlassProblem:
    """A Crammer-Singer or Weston-Watkins problem; see `dualsweep.kernels.multiclass`.

    Rows with cost 0 are not part of the problem.
    """

    passes: Passes
    sqnorm: Any
    y: Any  # number of the class, int64
    cost: Any
    joint: bool  # Crammer-Singer; else Weston-Watkins
    n_classes: int

    ridge = 1.0  # how much the squares of the weights are penalised
    smooth = False  # whether Newton steps need no anchor
    scale = 1.0  # what is a large slack
    in_place = False  # whether a new dual point takes the place of the old one
    outdated = False  # whether rows were lost since weights were last summed up

    @property
    def n_rows(self) -> int:
        """Rows, with and without a cost."""
        return len(self.y)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Shape of W: features and bias, classes."""
        return (self.passes.n_weights, self.n_classes)

    @cached_property
    def candidates(self) -> Any:
        """Numbers of the rows that are part of the problem."""
        return np.flatnonzero(self.cost > 0)

    @property
    def mean_cost(self) -> float:
        """The mean of the costs of these rows."""
        return float(self.cost[self.candidates].mean())

    @property
    def primal_at_zero(self) -> float:
        """Objective of W = 0, where a row loses 1, or 1 per other class."""
        return float(self.cost.sum()) * (1 if self.joint else self.n_classes - 1)

    def gap_of_gradient(self, gradient: Array) -> float:
        """Return the gap of an inner problem of Newton's method with this gradient."""
        return 0.5 * float(gradient @ gradient)

    def check_rows(self) -> None:
        """Raise ValueError if rows are not finite any more."""
        self.passes.check_finite()

    def with_costs(self, cost: Any) -> MulticlassProblem:
        """Return the same problem with other costs."""
        return replace(self, cost=cost)

    def zero_alpha(self) -> Any:
        """Return dual variables to start from: dense, or slots where most would stay 0."""
        if self.joint:
            return SlottedDuals(self.n_rows, self.n_classes)
        return np.zeros((self.n_rows, self.n_classes))

    def zero_weights(self) -> Any:
        """Return weights to start from."""
        return np.zeros(self.weights_shape, order=self.passes.order)

    def slack_at_zero(self) -> Any:
        """Return how firm a certificate of W = 0 finds each row with a cost: not at all."""
        return np.zeros(len(self.candidates))

    def alpha_from(self, rows: Any, classes: Any, values: Any) -> Any:
        """Return dual variables with the given values, the rest 0."""
        alpha = self.zero_alpha()
        if isinstance(alpha, SlottedDuals):
            alpha.fill(rows, classes, values)
        else:
            alpha[rows, classes] = values
        return alpha

    def nonzero(self, alpha: Any) -> tuple[Any, Any, Any]:
        """Return rows, classes and values of the nonzero dual variables."""
        if isinstance(alpha, SlottedDuals):
            return alpha.nonzero()
        rows, classes = np.nonzero(alpha)
        return rows, classes, alpha[rows, classes]

    def duals_of(self, alpha: Any, members: Any) -> Any:
        """Return the dual variables of the rows `members`, one column per class."""
        rows, classes, values = self.nonzero(alpha)
        dense = np.zeros((self.n_rows, self.n_classes))
        dense[rows, classes] = values
        return dense[members]

    def alpha_of(self, members: Any, values: Any) -> Any:
        """Return dual variables with the given values for the rows `members`, the rest 0."""
        rows, classes = np.nonzero(values)
        return self.alpha_from(members[rows], classes, values[rows, classes])

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
        """Visit the rows of `order`; see `dualsweep.kernels.multiclass.sweep_multiclass`."""
        scratch, classes = np.empty((6, self.n_classes)), np.empty(self.n_classes, np.int64)
        gain, start = 0.0, 0
        while True:
            part, done = sweep_multiclass(
                rows=self.passes.rows,
                sqnorm=self.sqnorm,
                y=self.y,
                cost=self.cost,
                joint=self.joint,
                shrunk=shrunk,
                order=order[start:],
                beta=_arrays(alpha),
                W=w,
                grads=grads[start:],
                gains=gains[start:],
                shares=shares,
                scratch=scratch,
                classes=classes,
            )
            gain += part
            start += done
            if start == len(order):
                return gain
            alpha.widen()

    def is_feasible(self, alpha: Any) -> bool:
        """Tell whether dual variables are within their bounds, sums but for rounding."""
        rows, classes, values = self.nonzero(alpha)
        if (values < 0.0).any() or (classes == self.y[rows]).any():
            return False
        if not self.joint:
            return bool((values <= self.cost[rows]).all())
        return bool((self._sums(rows, values) <= ROUNDED_SUM * self.cost).all())

    def summed(self, alpha: Any) -> float:
        """Return the sum of the lengths of what weights are summed from, or more."""
        rows, _, values = self.nonzero(alpha)
        return float(np.sqrt(2.0) * self._sums(rows, values) @ np.sqrt(self.sqnorm))

    def _sums(self, rows: Any, values: Any) -> Any:
        return np.bincount(rows, values, minlength=self.n_rows)

    def fill_weights(self, members: Any, alpha: Any, w: Any, *, compensated: bool = False) -> None:
        """Overwrite w with the weights of `alpha`, which is 0 on all rows but `members`."""

        def coef(chunk: slice) -> Any:
            out = np.empty((chunk.stop - chunk.start, self.n_classes))
            signed_duals(_arrays(alpha), members[chunk], self.y, out)
            return out

        w[:] = 0.0
        add = self.passes.add_compensated if compensated else self.passes.add_weighted
        add(members, coef, w)

    def size(self, w: Any) -> float:
        """Return the squared length of the weights that are penalised: all."""
        return float(squared_length(w.ravel("K")))

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
        """Return what a certificate adds up over `members`; fill in how firm they are."""
        beta, rows = _arrays(alpha), self.passes.rows
        level = intercept_size(rows, w)
        rows_used = compensated_rows(rows, w) if compensated else rows

        def look(chunk: slice, scores: Any, totals: Any) -> None:
            certify_rows_multiclass(
                rows=rows_used,
                scores=scores,
                members=members[chunk],
                y=self.y,
                cost=self.cost,
                sqnorm=self.sqnorm,
                beta=beta,
                joint=self.joint,
                length=length,
                level=level,
                firm=slack[chunk],
                totals=totals,
                b=np.empty(self.n_classes),
            )

        return self.passes.scan(members, w, look, N_TOTALS, rows_used)

    def settled(self, members: Any, alpha: Any, slack: Any, radius: float) -> Any:
        """Tell which of `members` have the dual variables of the optimum, as in `BinaryProblem`.

        The difference of two scores differs by at most ``sqrt(2) radius |x_i|``.
        """
        with np.errstate(invalid="ignore"):  # of no certificate the radius is infinite
            return slack > np.sqrt(2.0) * radius * np.sqrt(self.sqnorm[members])

    def best_scale(self, members: Any, alpha: Any, slack: Any, w: Any) -> float:
        """Return 1: the scores it would take are not kept."""
        return 1.0

    @np.errstate(over="ignore", invalid="ignore")
    def rescaled(self, result: Result, seen: Array) -> tuple[Any, Known | None]:
        """Return the best feasible multiple of a solution for other costs, as in `BinaryProblem`.

        Its certificate is not known: the scores it would take are not kept.
        """
        rows, classes, values = self.nonzero(result.alpha)
        cost, size = self.cost[rows], float(np.vdot(result.w, result.w))
        used = np.bincount(rows, values)[rows] if self.joint else values
        s = best_multiple(float(values.sum()), size, cost / used)
        values = snapped(s * values, cost)
        if self.joint:  # the sum of a row may exceed its bound by rounding
            values *= np.minimum(cost / np.maximum(np.bincount(rows, values)[rows], cost), 1.0)
        return self.alpha_from(rows, classes, values), None


def _arrays(alpha: Any) -> Any:
    return alpha.slots if isinstance(alpha, SlottedDuals) else alpha

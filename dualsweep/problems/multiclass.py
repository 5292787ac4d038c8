"""Problems of many classes at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._typing import Array, DualPoint
from ..kernels.certificate import N_TOTALS, squared_length
from ..kernels.duals import Duals, SlottedDuals
from ..kernels.multiclass import (
    MulticlassData,
    certify_rows_multiclass,
    signed_duals,
    sweep_multiclass,
)
from ..kernels.scaling import best_multiple, snapped
from ..rows.compensated import compensated_rows, intercept_size
from .memory import MemoryProblem
from .result import Known, Result

ROUNDED_SUM = 1.0 + 1e-12  # the most that the dual variables of a row may add up to, in costs


@dataclass(frozen=True)
class MulticlassProblem(MemoryProblem):
    """A Crammer-Singer or Weston-Watkins problem; see `dualsweep.kernels.multiclass`."""

    joint: bool  # Crammer-Singer; else Weston-Watkins
    n_classes: int

    smooth = False  # whether Newton steps need no anchor
    scale = 1.0  # what is a large slack

    @cached_property
    def data(self) -> MulticlassData:
        """What kernels are given."""
        return MulticlassData(self.passes.rows, self.sqnorm, self.y, self.cost, self.joint)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Shape of W: features and bias, classes."""
        return (self.passes.n_weights, self.n_classes)

    @property
    def primal_at_zero(self) -> float:
        """Objective of W = 0, where a row loses 1, or 1 per other class."""
        return float(self.cost.sum()) * (1 if self.joint else self.n_classes - 1)

    def zero_alpha(self) -> DualPoint:
        """Return dual variables to start from: dense, or slots if most would stay 0."""
        if self.joint:
            return SlottedDuals(self.n_rows, self.n_classes)
        return np.zeros((self.n_rows, self.n_classes))

    def slack_at_zero(self) -> Array:
        """Return how firm a certificate of W = 0 finds each candidate: not at all."""
        return np.zeros(len(self.candidates))

    def alpha_from(self, rows: Array, classes: Array, values: Array) -> DualPoint:
        """Return dual variables with the given values, the rest 0."""
        alpha = self.zero_alpha()
        if isinstance(alpha, SlottedDuals):
            alpha.fill(rows, classes, values)
        else:
            alpha[rows, classes] = values
        return alpha

    def nonzero(self, alpha: DualPoint) -> tuple[Array, Array, Array]:
        """Return rows, classes and values of the nonzero dual variables."""
        if isinstance(alpha, SlottedDuals):
            return alpha.nonzero()
        rows, classes = np.nonzero(alpha)
        return rows, classes, alpha[rows, classes]

    def duals_of(self, alpha: DualPoint, members: Array) -> Array:
        """Return the dual variables of the rows `members`, one column per class."""
        rows, classes, values = self.nonzero(alpha)
        dense = np.zeros((self.n_rows, self.n_classes))
        dense[rows, classes] = values
        return dense[members]

    def alpha_of(self, members: Array, values: Array) -> DualPoint:
        """Return dual variables with the given values for the rows `members`, the rest 0."""
        rows, classes = np.nonzero(values)
        return self.alpha_from(members[rows], classes, values[rows, classes])

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
        """Visit the rows of `order`; see `dualsweep.kernels.multiclass.sweep_multiclass`."""
        scratch, classes = np.empty((6, self.n_classes)), np.empty(self.n_classes, np.int64)
        gain, start = 0.0, 0
        while True:
            part, seen, done = sweep_multiclass(
                data=self.data,
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
                return gain, seen
            alpha.widen()

    def is_feasible(self, alpha: DualPoint) -> bool:
        """Return whether dual variables are within their bounds, sums within rounding."""
        rows, classes, values = self.nonzero(alpha)
        if (values < 0.0).any() or (classes == self.y[rows]).any():
            return False
        if not self.joint:
            return bool((values <= self.cost[rows]).all())
        sums = np.bincount(rows, values, minlength=self.n_rows)
        return bool((sums <= ROUNDED_SUM * self.cost).all())

    def summed(self, alpha: DualPoint) -> float:
        """Return the sum of the lengths of what weights are summed from, or more."""
        rows, _, values = self.nonzero(alpha)
        sums = np.bincount(rows, values, minlength=self.n_rows)
        return float(np.sqrt(2.0) * sums @ np.sqrt(self.sqnorm))

    def fill_weights(self, alpha: DualPoint, w: Array, *, compensated: bool = False) -> None:
        members = self.candidates

        def coef(chunk: slice) -> Array:
            out = np.empty((chunk.stop - chunk.start, self.n_classes))
            signed_duals(_arrays(alpha), members[chunk], self.y, out)
            return out

        w[:] = 0.0
        add = self.passes.add_compensated if compensated else self.passes.add_weighted
        add(members, coef, w)

    def size(self, w: Array) -> float:
        return float(squared_length(w.ravel("K")))

    def totals(
        self, alpha: DualPoint, w: Array, length: float, slack: Array, *, compensated: bool = False
    ) -> Array:
        beta, data, rows, members = _arrays(alpha), self.data, self.passes.rows, self.candidates
        level = intercept_size(rows, w)
        if compensated:
            data = data._replace(rows=compensated_rows(rows, w))

        def look(chunk: slice, scores: Array, totals: Array) -> None:
            certify_rows_multiclass(
                data=data,
                scores=scores,
                members=members[chunk],
                beta=beta,
                length=length,
                level=level,
                firm=slack[chunk],
                totals=totals,
                b=np.empty(self.n_classes),
            )

        return self.passes.scan(members, w, look, N_TOTALS, data.rows)

    def settled(self, alpha: DualPoint, slack: Array, radius: float) -> Array:
        """Return which of the candidates have the dual variables of the optimum.

        W is at most `radius` from it, a difference of two scores ``sqrt(2) radius |x_i|``.
        """
        with np.errstate(invalid="ignore"):  # without a certificate the radius is infinite
            return slack > np.sqrt(2.0) * radius * np.sqrt(self.sqnorm[self.candidates])

    @np.errstate(over="ignore", invalid="ignore")
    def rescaled(self, result: Result, seen: Array) -> tuple[DualPoint, Known | None]:
        """Return the best feasible multiple of a solution for other costs."""
        rows, classes, values = self.nonzero(result.alpha)
        cost, size = self.cost[rows], float(np.vdot(result.w, result.w))
        used = np.bincount(rows, values)[rows] if self.joint else values
        s = best_multiple(float(values.sum()), size, cost / used)
        values = snapped(s * values, cost)
        if self.joint:  # the sum of a row may exceed its bound by rounding
            values *= np.minimum(cost / np.maximum(np.bincount(rows, values)[rows], cost), 1.0)
        return self.alpha_from(rows, classes, values), None


def _arrays(alpha: DualPoint) -> Duals:
    return alpha.slots if isinstance(alpha, SlottedDuals) else alpha

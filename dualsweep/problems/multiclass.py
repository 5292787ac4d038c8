"""Problems of many classes at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._typing import Array, DualPoint
from ..kernels.certificate import N_TOTALS
from ..kernels.duals import Duals, SlottedDuals
from ..kernels.multiclass import (
    MulticlassData,
    certify_rows_multiclass,
    signed_duals,
    sweep_multiclass,
)
from ..kernels.scaling import AT_BOUND, best_multiple
from ..rows.compensated import compensated_rows, intercept_size
from .memory import MemoryProblem
from .result import Known, Result

ROUNDED_SUM = 1.0 + 1e-12  # the most that the dual variables of a row may add up to, in costs


@dataclass(frozen=True)
class MulticlassProblem(MemoryProblem):
    """A Crammer-Singer or Weston-Watkins problem; see `dualsweep.kernels.multiclass`.

    `BinaryProblem` documents the methods that it has too.
    """

    joint: bool  # whether the sum of a row is bounded: Crammer-Singer; else Weston-Watkins
    n_classes: int

    smooth = False  # whether Newton steps need no anchor
    scale = 1.0  # what is a large slack

    # The kernels of a sweep and of the sums of a certificate.
    sweep_rows: ClassVar[Callable[..., tuple[float, float, int]]] = staticmethod(sweep_multiclass)
    certify_rows: ClassVar[Callable[..., None]] = staticmethod(certify_rows_multiclass)

    @cached_property
    def data(self) -> Any:
        """What kernels are called with."""
        return MulticlassData(self.passes.rows, self.sqnorm, self.y, self.cost, self.joint)

    @property
    def weights_shape(self) -> tuple[int, ...]:
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

    def duals_of(self, alpha: DualPoint) -> Array:
        rows, classes, values = self.nonzero(alpha)
        dense = np.zeros((self.n_rows, self.n_classes))
        dense[rows, classes] = values
        return dense[self.candidates]

    def alpha_of(self, values: Array) -> DualPoint:
        rows, classes = np.nonzero(values)
        return self.alpha_from(self.candidates[rows], classes, values[rows, classes])

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
        scratch = np.empty((6, self.n_classes)), np.empty(self.n_classes, np.int64)
        gain = 0.0
        while True:
            visits = order, _arrays(alpha), w, grads, gains, shares
            part, seen, done = self.sweep_rows(self.data, shrunk, *visits, *scratch)
            gain += part
            if done == len(order):
                return gain, seen
            order, grads, gains = order[done:], grads[done:], gains[done:]
            alpha.widen()

    def is_feasible(self, alpha: DualPoint) -> bool:
        rows, classes, values = self.nonzero(alpha)
        if (values < 0.0).any() or (classes == self.y[rows]).any():
            return False
        if not self.joint:
            return bool((values <= self.cost[rows]).all())
        sums = np.bincount(rows, values, minlength=self.n_rows)
        return bool((sums <= ROUNDED_SUM * self.cost).all())

    def summed(self, alpha: DualPoint) -> float:
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

    def totals(
        self, alpha: DualPoint, w: Array, length: float, slack: Array, *, compensated: bool = False
    ) -> Array:
        beta, rows, members = _arrays(alpha), self.passes.rows, self.candidates
        level = self.level(w)
        data = self.data._replace(rows=compensated_rows(rows, w)) if compensated else self.data

        def certify(chunk: slice, scores: Array, totals: Array) -> None:
            firm, b = slack[chunk], np.empty(self.n_classes)
            point = beta, length, level
            self.certify_rows(data, scores, members[chunk], *point, firm, totals, b)

        return self.passes.scan(members, w, certify, N_TOTALS, data.rows)

    def level(self, w: Array) -> float:
        """Return the size of the largest intercept."""
        return intercept_size(self.passes.rows, w)

    def settled(self, alpha: DualPoint, slack: Array, radius: float) -> Array:
        # A difference of two scores is at most ``sqrt(2) radius |x_i|`` from that of the optimum.
        with np.errstate(invalid="ignore"):  # without a certificate the radius is infinite
            return slack > np.sqrt(2.0) * radius * np.sqrt(self.sqnorm[self.candidates])

    @np.errstate(over="ignore", invalid="ignore")
    def rescaled(self, result: Result, seen: Array) -> tuple[DualPoint, Known | None]:
        rows, classes, values = self.nonzero(result.alpha)
        cost, size = self.cost[rows], float(np.vdot(result.w, result.w))
        used = np.bincount(rows, values)[rows] if self.joint else values
        room = float(np.min(cost / used, initial=np.inf))
        values *= best_multiple(float(values.sum()), size, room)
        values = np.where(values >= AT_BOUND * cost, cost, values)
        if self.joint:  # the sum of a row may exceed its bound by rounding
            values *= np.minimum(cost / np.maximum(np.bincount(rows, values)[rows], cost), 1.0)
        return self.alpha_from(rows, classes, values), None


def _arrays(alpha: DualPoint) -> Duals:
    return alpha.slots if isinstance(alpha, SlottedDuals) else alpha

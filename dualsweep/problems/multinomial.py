"""Multinomial logistic regression: problems of many classes at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from .._typing import Array, DualPoint
from ..kernels.certificate import OF_OBJECTIVE
from ..kernels.multinomial import (
    MultinomialData,
    certify_rows_multinomial,
    entropies,
    sweep_multinomial,
)
from ..rows.functions import EPS
from .multiclass import MulticlassProblem
from .result import Known, Result

# A solution for other costs is multiplied by the largest number that is feasible, or that times a
# power of MULTIPLE, whichever is best.
LARGEST, MULTIPLE, MOST_MULTIPLES = 1e6, 0.7, 50


@dataclass(frozen=True)
class MultinomialProblem(MulticlassProblem):
    """A problem of multinomial logistic regression; see `dualsweep.kernels.multinomial`.

    Dual variables are dense: no probability is 0. The sum of a row's is at most its cost, as with
    Crammer-Singer: they are `joint`.
    """

    smooth = True

    sweep_rows = staticmethod(sweep_multinomial)
    certify_rows = staticmethod(certify_rows_multinomial)

    @cached_property
    def data(self) -> MultinomialData:
        return MultinomialData(self.passes.rows, self.sqnorm, self.y, self.cost)

    @property
    def primal_at_zero(self) -> float:
        """Objective of W = 0, where all classes have the same probability."""
        return float(self.cost.sum()) * log(self.n_classes) * (1.0 + OF_OBJECTIVE * EPS)

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
        sums, size = alpha[members].sum(axis=1), float(np.vdot(result.w, result.w))
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

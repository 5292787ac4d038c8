"""Problems whose intercept is not penalised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, fsum

import numpy as np

from .._typing import Array, DualPoint
from ..kernels.certificate import DRIFT, LENGTHS, SHARES, squared_length
from ..kernels.intercept import best_intercept
from ..rows.compensated import intercept_size
from ..rows.functions import EPS
from .binary import BinaryProblem
from .result import Known, Result


@dataclass(frozen=True)
class FreeProblem(BinaryProblem):
    """A binary problem whose intercept b, the last weight times the bias, is not penalised.

        primal   min_{w, b}  1/2 |w|^2 + sum_i C_i * loss(t_i - y_i (w.x_i + b))

    The dual has one more constraint, ``sum_i y_i a_i = 0``, which visits of single rows do not
    keep. To make a dual point feasible, the larger side of the sum is scaled down; its weights get
    the best intercept. Then ``P(w, b) - D(a)`` is the sum of the rows' shares of the gap, as with a
    penalty.
    """

    penalised = False

    @property
    def ridge(self) -> Array:
        ridge = np.ones((self.passes.n_weights, 1))
        ridge[-1] = 0.0
        return ridge

    def gap_of_gradient(self, gradient: Array) -> float:
        # The last derivative is ``sum_i y_i b_i``, which should be 0, times the bias.
        features, unbalanced = gradient[:-1], abs(float(gradient[-1])) / self.passes.rows.bias
        return 0.5 * float(features @ features) + unbalanced * self.scale

    @staticmethod
    def centre(target: Array) -> float:
        return float(np.median(target))

    def size(self, w: Array) -> float:
        return float(squared_length(w[:-1]))

    def centred(self, b: float | Array) -> BinaryProblem:
        """Return the problem with a penalty on the intercept's distance from b."""
        target = np.broadcast_to(self.target, self.n_rows) - self.y * b
        given = self.passes, self.sqnorm, self.y, self.cost, self.loss, target
        return BinaryProblem(*given, alone=self.alone)

    def balance(self, alpha: DualPoint) -> None:
        """Make ``sum_i y_i a_i`` 0 but for rounding, in place; what overflowed becomes 0."""
        alpha[~np.isfinite(alpha)] = 0.0
        signed = alpha * self.y
        largest = float(np.abs(signed).max(initial=0.0))
        if largest == 0.0:
            return
        signed = np.ldexp(signed, -frexp(largest)[1])  # so that no sum overflows or vanishes
        above, below = float(signed[signed > 0].sum()), -float(signed[signed < 0].sum())
        large, small = max(above, below), min(above, below)
        if large > small:
            alpha[signed > 0 if above > below else signed < 0] *= small / large

    def fill_weights(self, alpha: DualPoint, w: Array, *, compensated: bool = False) -> None:
        """Make `alpha` feasible, and overwrite w with its weights and the best intercept."""
        members = self.candidates
        self.balance(alpha)
        super().fill_weights(alpha, w, compensated=compensated)
        w[-1] = 0.0
        scores, target = self.passes.responses(members, w), self.slack_at_zero()
        rows = scores, self.y[members], target, self.cost[members]
        b = best_intercept(*rows, self.loss, self.loss.smooth)
        w[-1] = b / self.passes.rows.bias

    def totals(
        self, alpha: DualPoint, w: Array, length: float, slack: Array, *, compensated: bool = False
    ) -> Array:
        """Return the sums of a certificate over the candidates; fill in their slacks.

        They allow for what is left of ``sum_i y_i a_i``: in a feasible point, the dual variables of
        one side are smaller by a tiny part of themselves, `off`.
        """
        totals = super().totals(alpha, w, length, slack, compensated=compensated)
        members = self.candidates
        a = alpha[members]
        signed = a * self.y[members]
        total = fsum(signed)
        if total != 0.0:
            side = signed > 0 if total > 0 else signed < 0
            # Not less than EPS^2: the logarithm of a part of the cost bends more steeply there.
            off = max(abs(total) / float(np.abs(signed[side]).sum()), EPS * EPS)
            linear, square = self.loss.on_arrays(np).conjugate_parts(self.cost[members], a)
            # At least the error of slacks.
            error = length * np.sqrt(self.sqnorm[members]) + intercept_size(self.passes.rows, w)
            changes = np.abs(a) * (np.abs(slack) + error) + np.abs(linear) + np.abs(square)
            totals[SHARES] += 2.0 * off * float(changes[side].sum())
            totals[DRIFT] += 2.0 * off * totals[LENGTHS]
        return totals

    def best_scale(self, alpha: DualPoint, slack: Array, w: Array) -> float:
        return 1.0  # other weights have another intercept

    def rescaled(self, result: Result, seen: Array) -> tuple[DualPoint, Known | None]:
        w = result.w.copy()
        w[-1] = 0.0
        alpha, _ = super().rescaled(replace(result, w=w), seen)
        return alpha, None

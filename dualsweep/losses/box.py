"""Losses that are a box, a diagonal and a kink: hinge, squared hinge, squared, and regression's.

With bounds ``lower_i = C_i * lower``, ``upper_i = C_i * upper`` and ``D_i = diag / C_i``,

    C_i * loss(z_i) = max over lower_i <= b <= upper_i of  b s - kink |b| - D_i b^2 / 2.

Losses of classes have no kink. That of regression is its epsilon: slacks of up to epsilon either
way cost nothing and leave the dual variable at 0. Two variables per row, one for each side, would
be the same problem with twice the visits; with one, a step is exact.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from .._jit import implements, jit_inline
from .._typing import DeviceArray, Namespace
from ..rows.functions import EPS, SMALLEST
from . import protocol
from .protocol import ArrayLoss, best_dual, gap_share

# Rounding of a share with a diagonal, relative to ``|s| + kink`` and to ``D |a|``. With b the best
# dual variable, the second factor of ``(b - a) (s - kink - D (a + b) / 2)`` is off by at most
# ``EPS (9/4 |s| + kink + 5/4 D |a|)``, and the product by as much again. Moving the slack by twice
# that, e, changes the share by more: by ``(b - a) e + e^2 / (2 D)``, for a share has the slope
# ``b - a``, and b a slope of at most ``1 / D``.
OF_SLACK, OF_DUAL = 11.0 * EPS, 4.0 * EPS


class Box(NamedTuple):
    """The box ``[C_i * lower, C_i * upper]`` of a dual variable, diagonal ``diag / C_i``, and kink.

    0 is in the box, and bounds are finite where the diagonal is 0.
    """

    lower: float
    upper: float
    diag: float
    kink: float = 0.0

    @property
    def smooth(self) -> bool:
        return self.diag > 0.0

    @property
    def bounded(self) -> bool:
        return self.upper < inf

    @property
    def quadratic(self) -> bool:
        return True

    def on_arrays(self, xp: Namespace) -> BoxArrays:
        return BoxArrays(self, xp)


@jit_inline
def _beyond(value: float, kink: float) -> float:
    """Return how far a value is beyond ``[-kink, kink]``; without a kink, the value."""
    return value - min(max(value, -kink), kink)


@implements(protocol.dual_bounds, Box)
def _dual_bounds(loss: Box, cost: float) -> tuple[float, float]:
    return cost * loss.lower, cost * loss.upper


@implements(protocol.row_loss, Box)
def _row_loss(loss: Box, cost: float, slack: float) -> float:
    best, excess = best_dual(loss, cost, slack), _beyond(slack, loss.kink)
    lost = best * excess - 0.5 * (loss.diag / cost) * best * best
    if (excess > 0.0 and loss.upper > 0.0) or (excess < 0.0 and loss.lower < 0.0):
        return max(lost, SMALLEST)  # a square may underflow
    return lost


@implements(protocol.best_dual, Box)
def _best_dual(loss: Box, cost: float, slack: float) -> float:
    # b maximises b slack - kink |b| - D b^2 / 2 in the box
    lower, upper = cost * loss.lower, cost * loss.upper
    excess = _beyond(slack, loss.kink)
    if loss.diag > 0.0:
        return min(max(excess / (loss.diag / cost), lower), upper)
    if excess == 0.0:
        return 0.0
    return upper if excess > 0.0 else lower


@implements(protocol.conjugate_parts, Box)
def _conjugate_parts(loss: Box, cost: float, a: float) -> tuple[float, float]:
    return loss.kink * abs(a), loss.diag / cost * a * a


@implements(protocol.gap_share, Box)
def _gap_share(loss: Box, cost: float, a: float, slack: float) -> float:
    # share = best slack - kink |best| - D best^2 / 2, minus the same at a
    best, diag = best_dual(loss, cost, slack), loss.diag / cost
    # without cancellation; the slope of kink |b| is that on the best one's side
    side = np.copysign(loss.kink, best if best != 0.0 else a)
    share = (best - a) * (slack - side - 0.5 * diag * (best + a))
    return share + 2.0 * loss.kink * abs(a) if a * side < 0.0 else share


@implements(protocol.certified_share, Box)
def _certified_share(
    loss: Box, cost: float, a: float, slack: float, error: float
) -> tuple[float, float, float, float]:
    kink, diag = loss.kink, loss.diag / cost
    best = best_dual(loss, cost, slack)
    steepest = abs(best)
    share = max(gap_share(loss, cost, a, slack), 0.0)
    if diag > 0.0:
        wider = error + OF_SLACK * (abs(slack) + kink) + OF_DUAL * diag * abs(a)
        bend = wider / diag if abs(slack) + wider > kink else 0.0
        steepest += bend
        most = share + (abs(best - a) + 0.5 * bend) * wider
    elif abs(abs(slack) - kink) > error:  # all on one side of the kink
        most = share + abs(best - a) * error
    else:
        start, end = slack - error, slack + error
        steepest = max(abs(best_dual(loss, cost, start)), abs(best_dual(loss, cost, end)))
        most = max(share, gap_share(loss, cost, a, start), gap_share(loss, cost, a, end))
    spread = steepest * error + (SMALLEST if steepest > 0.0 else 0.0)  # a loss may underflow
    excess = _beyond(slack, kink)
    return best * excess - 0.5 * diag * best * best, spread, share, most


@implements(protocol.dual_step, Box)
def _dual_step(
    loss: Box, cost: float, a: float, slack: float, sqnorm: float
) -> tuple[float, float, float]:
    kink, diag = loss.kink, loss.diag / cost
    lower, upper = cost * loss.lower, cost * loss.upper
    grad = diag * a - slack
    curvature = sqnorm + diag
    # The slope of kink |b| at the new b; less than the kink if that is 0.
    side = min(max(curvature * a - grad, -kink), kink)
    seen = grad + side
    # A zero row under the hinge loss has no curvature: its dual variable goes to a bound.
    new = a - seen / curvature if curvature > 0.0 else best_dual(loss, cost, slack)
    new = min(max(new, lower), upper)
    if abs(side) < kink:
        new = 0.0
        seen = kink - abs(grad) if a == 0.0 else grad + np.copysign(kink, a)
    change = new - a
    gain = 0.0
    if change != 0.0:
        gain = -change * (grad + 0.5 * change * curvature)
        if kink > 0.0:
            gain -= kink * (abs(new) - abs(a))
    return new, seen, gain


@implements(protocol.proximal_dual, Box)
def _proximal_dual(loss: Box, cost: float, v: float, rho: float) -> tuple[float, float]:
    # Without a diagonal, the reciprocal is the same for all rows and computed once.
    scale = cost / (loss.diag + cost * rho) if loss.diag > 0.0 else 1.0 / rho
    lower, upper = cost * loss.lower, cost * loss.upper
    b = _beyond(v, loss.kink) * scale
    moves = lower < b < upper and (loss.kink == 0.0 or b != 0.0)
    return min(max(b, lower), upper), scale if moves else 0.0


@implements(protocol.is_settled, Box)
def _is_settled(loss: Box, cost: float, a: float, slack: float, reach: float) -> bool:
    # Beyond these slacks, the best dual variable is at a bound.
    below = loss.diag * loss.lower - loss.kink
    above = loss.diag * loss.upper + loss.kink
    at_lower = slack < below - reach and a == cost * loss.lower
    at_upper = slack > above + reach and a == cost * loss.upper
    return at_lower or at_upper or (abs(slack) < loss.kink - reach and a == 0.0)


@implements(protocol.tube, Box)
def _tube(loss: Box) -> float:
    return loss.kink


class BoxArrays(ArrayLoss):
    """A `Box` on arrays of one library."""

    def __init__(self, loss: Box, xp: Namespace) -> None:
        self.loss, self.xp = loss, xp

    def bounds(self, cost: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        lower, upper = self.loss.lower, self.loss.upper
        # An infinite bound times a cost of 0 is NaN.
        return lower * cost if lower > -inf else lower, upper * cost if upper < inf else upper

    def best_dual(self, cost: DeviceArray, slack: DeviceArray) -> DeviceArray:
        excess = self._beyond(slack, self.loss.kink)
        if self.loss.smooth:
            return self.clipped(cost, excess * (cost / self.loss.diag))
        lower, upper = self.bounds(cost)
        best = self.xp.where(excess > 0, upper, lower)
        return self.xp.where(excess == 0, 0 * best, best) if self.loss.kink else best

    def losses(self, cost: DeviceArray, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        xp, loss = self.xp, self.loss
        excess = self._beyond(slack, loss.kink)
        if loss.smooth:
            if not loss.bounded and loss.lower == -inf:
                return 0.5 * b * excess
            return b * (excess - 0.5 * self._diag(cost) * b)
        zero = xp.zeros_like(excess)
        losses = loss.upper * xp.maximum(excess, zero) * cost
        return losses + loss.lower * xp.minimum(excess, zero) * cost if loss.lower else losses

    def proven(self, cost: DeviceArray, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        proven = b * slack
        if self.loss.kink:
            proven = proven - self.loss.kink * self.xp.abs(b)
        return proven - 0.5 * self._diag(cost) * b * b if self.loss.smooth else proven

    def conjugate_parts(self, cost: DeviceArray, b: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        return self.loss.kink * self.xp.abs(b), self._diag(cost) * b * b

    def proximal_dual(
        self, cost: DeviceArray, v: DeviceArray, rho: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray]:
        xp, loss = self.xp, self.loss
        scale = cost / loss.diag if loss.smooth else 1 / rho
        b = self._beyond(v, loss.kink) * scale
        lower, upper = self.bounds(cost)
        moves = b != 0 if loss.kink else None
        for bound, inside in ((lower, b > lower), (upper, b < upper)):
            if not isinstance(bound, float):
                moves = inside if moves is None else moves & inside
        if moves is None:
            return b, xp.broadcast_to(scale, b.shape)
        return self.clipped(cost, b), xp.where(moves, scale, xp.zeros_like(b))

    def certified_share(
        self, cost: DeviceArray, b: DeviceArray, slack: DeviceArray, error: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
        xp, loss = self.xp, self.loss
        wider = error
        if loss.smooth:
            wider = error + OF_SLACK * (xp.abs(slack) + loss.kink)
            wider = wider + OF_DUAL * self._diag(cost) * xp.abs(b)
        start, end = slack - wider, slack + wider
        ends = (xp.abs(self.best_dual(cost, place)) for place in (start, end))
        zero = xp.zeros_like(b)
        seen = xp.maximum(self._share(cost, b, slack), zero)
        share = xp.maximum(self._share(cost, b, start), self._share(cost, b, end))
        spread = xp.maximum(*ends) * error
        return self._share(cost, zero, slack), spread, seen, xp.maximum(share, seen)

    def _beyond(self, value: DeviceArray, kink: float) -> DeviceArray:
        """Return how far values are beyond ``[-kink, kink]``."""
        return value - self.xp.clip(value, -kink, kink) if kink else value

    def _diag(self, cost: DeviceArray) -> DeviceArray:
        """Return the diagonal of each row, that of a cost of 1 for rows without a cost."""
        return self.loss.diag / self.xp.where(cost > 0, cost, self.xp.ones_like(cost))

    def _share(self, cost: DeviceArray, b: DeviceArray, slack: DeviceArray) -> DeviceArray:
        """Return how much losses exceed what b proves; with b = 0, the losses."""
        xp, kink = self.xp, self.loss.kink
        best = self.best_dual(cost, slack)
        if kink:
            sign = xp.sign(xp.where(best != 0, best, b))
            slack = slack - kink * sign
        half = 0.5 * self._diag(cost) * (best + b) if self.loss.smooth else 0.0
        share = (best - b) * (slack - half)
        if kink:
            share = share + xp.where(b * sign < 0, 2 * kink * xp.abs(b), xp.zeros_like(share))
        return share

"""The logistic loss, whose conjugate is an entropy.

With ``u = s - 1 = -z``, ``p = a / C_i`` and the entropy ``H(p) = -p log p - (1 - p) log(1 - p)``,

    C_i * loss(z_i) = C_i log(1 + exp(u)) = max over 0 <= b <= C_i of  b s - conjugate(b),
    conjugate(a) = a - C_i H(p).

The best dual variable is ``C_i q`` with the probability ``q = 1 / (1 + exp(-u))`` of the other
class, and a row's share of the gap is C_i times the divergence of q from p,

    share = C_i (p log(p / q) + (1 - p) log((1 - p) / (1 - q))).

The loss stays the same if a becomes ``C_i - a`` and u becomes -u. So all formulas are of the
smaller of a and ``C_i - a``, whose log-odds ``log(p / (1 - p))`` have no cancellation. Steps on one
variable are Newton's method (Yu, Huang and Lin 2011, Algorithm 4), here on the log-odds: these have
no bounds, and a step from the solution of an earlier visit is nearly always the only one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import implements, jit_inline
from .._typing import DeviceArray, Namespace
from ..rows.functions import EPS, SMALLEST
from . import protocol
from .protocol import ArrayLoss

# A divergence is summed as a series where log-odds differ by less than SERIES, and as a difference
# of losses from FAR on. Its relative error is then below OF_SHARE, if exp, log, expm1 and log1p are
# off by at most 4 EPS; a slack that is off by OF_SLACK times ``1 + |u| + |log-odds|`` changes it by
# more than the rounding of u and of the log-odds.
SERIES, FAR = 1.0 / 64.0, 1.0
OF_SHARE, OF_SLACK = 1e-11, 16.0 * EPS
OF_LOSS = 16.0 * EPS  # the same of losses and of best dual variables
OF_UNDERFLOW = 1e4 * SMALLEST  # what underflow changes shares by, relative to the cost

# Steps end when this part of the derivative is left, or where it is only rounding; at the latest
# after MOST_STEPS, of which bisections need no more. A tenth of ENOUGH saves no sweeps: a9a, imdb
# and blogs, C = 1 and 10, to 1e-5.
ENOUGH, OF_DERIVATIVE, MOST_STEPS = 0.1, 8.0 * EPS, 64

# Of the conjugate at a = C_i there is no slope: ``1 - p`` counts as this at least.
NEAREST = 0.25 * EPS


class Logistic(NamedTuple):
    """The loss ``C_i log(1 + exp(-z_i))``."""

    @property
    def smooth(self) -> bool:
        return True

    @property
    def bounded(self) -> bool:
        return True

    @property
    def quadratic(self) -> bool:
        return False

    def on_arrays(self, xp: Namespace) -> LogisticArrays:
        return LogisticArrays(self, xp)


@jit_inline
def _softplus(u: float) -> float:
    """Return ``log(1 + exp(u))``."""
    return max(u, 0.0) + np.log1p(np.exp(-abs(u)))


@jit_inline
def _sigmoid(u: float) -> tuple[float, float]:
    """Return ``1 / (1 + exp(-u))`` and the smaller of it and 1 minus it."""
    e = np.exp(-abs(u))
    large = 1.0 / (1.0 + e)
    small = e * large
    return (large if u >= 0.0 else small), small


@jit_inline
def _smaller(cost: float, a: float, slack: float) -> tuple[float, float, bool]:
    """Return a and u, or ``cost - a`` and -u if that is the smaller, and whether it is."""
    if a <= 0.5 * cost:
        return a, slack - 1.0, False
    return cost - a, 1.0 - slack, True


@jit_inline
def _log_odds(cost: float, small: float) -> float:
    """Return ``log(p / (1 - p))``, -infinity at 0."""
    return np.log(max(small / (cost - small), SMALLEST)) if small > 0.0 else -np.inf


@jit_inline
def _divergence(cost: float, small: float, odds: float, u: float) -> float:
    """Return the share at u of a dual variable of at most half the cost, with these log-odds."""
    if small == 0.0:
        return cost * _softplus(u)
    p, d = small / cost, u - odds
    if abs(d) < SERIES:  # with the cumulants of a coin
        v, skew = p * (1.0 - p), 1.0 - 2.0 * p
        sixth = (1.0 - 30.0 * v + 120.0 * v * v) / 720.0
        fifth = skew * (1.0 - 12.0 * v) / 120.0 + d * sixth
        series = 0.5 + d * (skew / 6.0 + d * ((1.0 - 6.0 * v) / 24.0 + d * fifth))
        return cost * v * d * d * series
    if abs(d) < FAR:
        return cost * (np.log1p(p * np.expm1(d)) - p * d)
    return cost * (_softplus(u) + np.log1p(-p)) - small * d


@jit_inline
def _solve(
    cost: float, sqnorm: float, small: float, odds: float, u: float
) -> tuple[float, float, float, float]:
    """Return b, ``cost - b``, the log-odds x, and g, about 0.

    It is the derivative ``g(x) = x - u + sqnorm (b - small)``, which increases; x is between u and
    the log-odds of `small`.
    """
    d, scale = u - odds, sqnorm * small
    noise = abs(u) + scale
    if abs(d) < FAR:  # Newton's first step
        noise += abs(odds)
        x = odds + d / (1.0 + scale * (1.0 - small / cost))
    else:  # with exp(x) for b / cost, x is the solution of Lambert's equation
        v = u + scale
        most = _softplus(v + np.log(sqnorm * cost)) if sqnorm > 0.0 else 0.0
        x = v - most * (1.0 - np.log1p(most) / (2.0 + most))
        odds = max(odds, v - most - 1.0)  # a lower bound where `small` is 0
        x = min(max(x, min(odds, u)), max(odds, u))
    low, high = min(odds, u), max(odds, u)
    enough = max(ENOUGH * min(abs(d), 1.0), OF_DERIVATIVE * noise)
    b, other, g = small, 0.0, -d
    for _ in range(MOST_STEPS):
        q, other = _sigmoid(x)
        b = cost * q
        g = (x - u) + sqnorm * (b - small)
        if abs(g) <= enough:
            break
        if g > 0.0:
            high = x
        else:
            low = x
        x -= g / (1.0 + sqnorm * cost * other * (1.0 - other))
        if not low < x < high:
            x = low + 0.5 * (high - low)
            if not low < x < high:
                break
    return b, cost * other if x >= 0.0 else cost - b, x, g


@implements(protocol.dual_bounds, Logistic)
def _dual_bounds(loss: Logistic, cost: float) -> tuple[float, float]:
    return 0.0, cost


@implements(protocol.row_loss, Logistic)
def _row_loss(loss: Logistic, cost: float, slack: float) -> float:
    return max(cost * _softplus(slack - 1.0), SMALLEST)


@implements(protocol.best_dual, Logistic)
def _best_dual(loss: Logistic, cost: float, slack: float) -> float:
    return cost * _sigmoid(slack - 1.0)[0]


@implements(protocol.conjugate_parts, Logistic)
def _conjugate_parts(loss: Logistic, cost: float, a: float) -> tuple[float, float]:
    # With this q, the slope of ``s p + s^2 q / 2`` at s = 1 is that of the conjugate, too.
    p, rest = a / cost, (cost - a) / cost
    value = a
    if p > 0.0:
        value += a * np.log(p)
    if rest > 0.0:
        value += (cost - a) * np.log(rest)
    half = -cost * np.log(max(rest, NEAREST))
    return value - half, 2.0 * half


@implements(protocol.gap_share, Logistic)
def _gap_share(loss: Logistic, cost: float, a: float, slack: float) -> float:
    small, u, _ = _smaller(cost, a, slack)
    return _divergence(cost, small, _log_odds(cost, small), u)


@implements(protocol.certified_share, Logistic)
def _certified_share(
    loss: Logistic, cost: float, a: float, slack: float, error: float
) -> tuple[float, float, float, float]:
    small, u, _ = _smaller(cost, a, slack)
    odds = _log_odds(cost, small)
    share = max(_divergence(cost, small, odds, u), 0.0)
    lost = cost * _softplus(slack - 1.0)
    q, other = _sigmoid(slack - 1.0)
    best, size = cost * q, 1.0 + abs(u)
    # The slope of the loss is b, that of the share ``b - a``, and b has a slope of at most `steep`
    # within a slack of 1.
    near = error + OF_SLACK * size
    wider = near + (OF_SLACK * abs(odds) if small > 0.0 else 0.0)
    steep = cost * min(3.0 * other, 0.25)
    slope = (1.0 + OF_LOSS) * best + steep * near
    spread = (slope if near <= 1.0 else cost) * near + OF_LOSS * lost + OF_UNDERFLOW * cost
    slope = abs(best - a) + OF_LOSS * (best + a) + steep * wider
    slope = slope if wider <= 1.0 else cost
    most = (1.0 + OF_SHARE) * share + slope * wider + OF_UNDERFLOW * cost
    return lost, spread, share, most


@implements(protocol.dual_step, Logistic)
def _dual_step(
    loss: Logistic, cost: float, a: float, slack: float, sqnorm: float
) -> tuple[float, float, float]:
    small, u, mirrored = _smaller(cost, a, slack)
    odds = _log_odds(cost, small)
    seen = odds - u
    if small > 0.0 and abs(seen) <= OF_DERIVATIVE * (abs(u) + abs(odds) + sqnorm * small):
        return a, -seen if mirrored else seen, 0.0
    b, rest, x, left = _solve(cost, sqnorm, small, odds, u)
    new = rest if mirrored else b
    gain = 0.0
    if new != a:
        change = b - small
        gain = 0.5 * sqnorm * change * change + _divergence(cost, small, odds, x) - left * change
    return new, -seen if mirrored else seen, gain


@implements(protocol.proximal_dual, Logistic)
def _proximal_dual(loss: Logistic, cost: float, v: float, rho: float) -> tuple[float, float]:
    x = v - 1.0
    if rho > 0.0:
        _, _, x, _ = _solve(cost, rho, 0.0, -np.inf, x)
    q, other = _sigmoid(x)
    scale = cost * other * (1.0 - other)
    return cost * q, scale / (1.0 + rho * scale)


@implements(protocol.is_settled, Logistic)
def _is_settled(loss: Logistic, cost: float, a: float, slack: float, reach: float) -> bool:
    return False  # a dual variable always moves with the slack


@implements(protocol.tube, Logistic)
def _tube(loss: Logistic) -> float:
    return 0.0


def log_probabilities(xp: Namespace, scores: DeviceArray, together: bool) -> DeviceArray:
    """Return the logarithm of the probability of each class, for the scores of rows.

    One score per row is that of the second of two classes. Of more classes there is one each: the
    classes are trained `together`, or each against the rest, and then the probabilities of these
    are divided by their sum.
    """
    if scores.ndim == 1:
        return -_softplus_of(xp, xp.stack([scores, -scores], axis=1))
    logs = scores if together else -_softplus_of(xp, -scores)
    logs = logs - xp.max(logs, axis=1, keepdims=True)
    return logs - xp.log(xp.sum(xp.exp(logs), axis=1, keepdims=True))


def _softplus_of(xp: Namespace, u: DeviceArray) -> DeviceArray:
    """Return ``log(1 + exp(u))``."""
    return xp.maximum(u, xp.zeros_like(u)) + xp.log1p(xp.exp(-xp.abs(u)))


class LogisticArrays(ArrayLoss):
    """The logistic loss on arrays of one library."""

    def __init__(self, loss: Logistic, xp: Namespace) -> None:
        self.loss, self.xp = loss, xp

    def bounds(self, cost: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        return 0 * cost, cost

    def best_dual(self, cost: DeviceArray, slack: DeviceArray) -> DeviceArray:
        return cost * self._sigmoid(slack - 1)[0]

    def losses(self, cost: DeviceArray, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        return cost * self._softplus(slack - 1)

    def proven(self, cost: DeviceArray, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        return b * (slack - 1) - self._negative_entropy(cost, b)

    def conjugate_parts(self, cost: DeviceArray, b: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        rest = self.xp.clip((cost - b) / self._positive(cost), NEAREST, None)
        half = -cost * self.xp.log(rest)
        return b + self._negative_entropy(cost, b) - half, 2 * half

    def proximal_dual(
        self, cost: DeviceArray, v: DeviceArray, rho: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray]:
        q, other = self._sigmoid(v - 1)
        return cost * q, cost * (other * (1 - other))

    def certified_share(
        self, cost: DeviceArray, b: DeviceArray, slack: DeviceArray, error: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
        xp, u = self.xp, slack - 1
        share, odds = self._share(cost, b, u)
        share = xp.maximum(share, xp.zeros_like(share))
        lost = cost * self._softplus(u)
        q, other = self._sigmoid(u)
        best = cost * q
        near = error + OF_SLACK * (1 + xp.abs(u))
        wider = near + OF_SLACK * xp.abs(odds)
        steep = cost * xp.clip(3 * other, None, 0.25)
        slope = xp.where(near <= 1, (1 + OF_LOSS) * best + steep * near, cost)
        spread = slope * near + OF_LOSS * lost + OF_UNDERFLOW * cost
        slope = xp.abs(best - b) + OF_LOSS * (best + b) + steep * wider
        slope = xp.where(wider <= 1, slope, cost)
        most = (1 + OF_SHARE) * share + slope * wider + OF_UNDERFLOW * cost
        return lost, spread, share, most

    def _softplus(self, u: DeviceArray) -> DeviceArray:
        return _softplus_of(self.xp, u)

    def _sigmoid(self, u: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return ``1 / (1 + exp(-u))`` and the smaller of it and 1 minus it."""
        e = self.xp.exp(-self.xp.abs(u))
        small = e / (1 + e)
        return self.xp.where(u >= 0, 1 / (1 + e), small), small

    def _positive(self, cost: DeviceArray) -> DeviceArray:
        """Return costs, 1 for rows without a cost."""
        return self.xp.where(cost > 0, cost, self.xp.ones_like(cost))

    def _negative_entropy(self, cost: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return ``cost (p log p + (1 - p) log(1 - p))``."""
        total: DeviceArray = 0
        for part in (b, cost - b):
            p = part / self._positive(cost)
            total = total + part * self.xp.log(self.xp.where(p > 0, p, self.xp.ones_like(p)))
        return total

    def _share(
        self, cost: DeviceArray, b: DeviceArray, u: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray]:
        """Return shares of the gap, and the log-odds of the dual variables, 0 for 0."""
        xp, whole = self.xp, self._positive(cost)
        mirrored = b > 0.5 * cost
        small, u = xp.where(mirrored, cost - b, b), xp.where(mirrored, -u, u)
        ratio = xp.where(small > 0, xp.clip(small / (whole - small), SMALLEST, None), 1 + 0 * u)
        odds = xp.log(ratio)
        p, d = small / whole, u - odds
        near = xp.clip(d, -SERIES, SERIES)
        v, skew = p * (1 - p), 1 - 2 * p
        fifth = skew * (1 - 12 * v) / 120 + near * (1 - 30 * v + 120 * v * v) / 720
        series = 0.5 + near * (skew / 6 + near * ((1 - 6 * v) / 24 + near * fifth))
        middle = xp.clip(d, -FAR, FAR)
        own, lost = cost * xp.log1p(-p), cost * self._softplus(u)
        share = xp.where(
            xp.abs(d) < FAR,
            cost * (xp.log1p(p * xp.expm1(middle)) - p * middle),
            lost + own - small * d,
        )
        share = xp.where(xp.abs(d) < SERIES, cost * v * near * near * series, share)
        return xp.where(small > 0, share, lost), odds

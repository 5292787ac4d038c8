"""The best intercept for the responses of rows, if it is not penalised."""

from __future__ import annotations

from .._jit import jit, jit_inline
from .._typing import Array
from ..losses.protocol import Loss, best_dual, tube
from ..rows.functions import EPS

HALVINGS = 100  # of an interval around the intercept; it ends earlier at neighbouring floats
DOUBLINGS = 60  # of the interval, until the intercept is in it

# A slope of at most this part of its summands is rounding. Of losses that are smooth, the places
# are those of the secant; after SECANTS that have not halved the interval, it is halved. Logistic
# loss, rows of covtype: 14 sums instead of 56.
NOISE, SECANTS = 4.0 * EPS, 3


@jit_inline
def _descent(
    scores: Array, y: Array, target: Array, cost: Array, loss: Loss, smooth: bool, b: float
) -> float:
    """Return how fast losses fall as the intercept grows: ``sum_i y_i a_i``, a_i the best dual."""
    total, size = 0.0, 0.0
    for i in range(scores.shape[0]):
        slack = target[i] - y[i] * (scores[i] + b)
        a = best_dual(loss, cost[i], slack)
        total += y[i] * a
        size += abs(a)
    return 0.0 if smooth and abs(total) <= NOISE * size else total


@jit
def best_intercept(
    scores: Array, y: Array, target: Array, cost: Array, loss: Loss, smooth: bool
) -> float:
    """Return the b that minimises ``sum_i C_i loss(t_i - y_i (scores_i + b))``.

    The sum is convex: bisection finds where its slope changes sign, most often between the places
    where slacks are at the tube; if the loss is `smooth`, with steps of the secant. If all slacks
    fit into the tube at once, b puts them as far inside as possible: at 0 exactly if targets are
    all the same.
    """
    low = high = y[0] * target[0] - scores[0]
    for i in range(1, scores.shape[0]):
        place = y[i] * target[i] - scores[i]
        low, high = min(low, place), max(high, place)
    if high - low <= 2.0 * tube(loss):
        return low + 0.5 * (high - low)
    low, high = low - tube(loss), high + tube(loss)
    width = high - low
    for _ in range(DOUBLINGS):
        if _descent(scores, y, target, cost, loss, smooth, high) <= 0.0:
            break
        low, high, width = high, high + width, 2.0 * width
    for _ in range(DOUBLINGS):
        if _descent(scores, y, target, cost, loss, smooth, low) >= 0.0:
            break
        low, high, width = low - width, low, 2.0 * width
    below = above = 0.0
    if smooth:
        below = _descent(scores, y, target, cost, loss, smooth, low)
        above = _descent(scores, y, target, cost, loss, smooth, high)
    secants, halved, last = 0, high - low, 0.0
    for _ in range(HALVINGS):
        middle = low + 0.5 * (high - low)
        if smooth and below > 0.0 > above and secants < SECANTS:
            place = low + (high - low) * (below / (below - above))
            middle = place if low < place < high else middle
        if not low < middle < high:
            break
        slope = _descent(scores, y, target, cost, loss, smooth, middle)
        if smooth and slope == 0.0:
            return middle
        if slope > 0.0:  # Illinois: the slope of an end that stays counts half
            low, below, above = middle, slope, 0.5 * above if last > 0.0 else above
        else:
            high, above, below = middle, slope, 0.5 * below if last < 0.0 else below
        secants, last = secants + 1, slope
        if high - low <= 0.5 * halved:
            secants, halved = 0, high - low
    return high

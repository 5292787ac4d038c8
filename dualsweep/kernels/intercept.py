"""The best intercept for the responses of rows, if it is not penalised."""

from __future__ import annotations

from .._jit import jit, jit_inline
from .._typing import Array
from ..losses.protocol import Loss, best_dual, tube

HALVINGS = 100  # of an interval around the intercept; it ends earlier at neighbouring floats
DOUBLINGS = 60  # of the interval, until the intercept is in it


@jit_inline
def _descent(scores: Array, y: Array, target: Array, cost: Array, loss: Loss, b: float) -> float:
    """Return how fast losses fall as the intercept grows: ``sum_i y_i a_i``, a_i the best dual."""
    total = 0.0
    for i in range(scores.shape[0]):
        slack = target[i] - y[i] * (scores[i] + b)
        total += y[i] * best_dual(loss, cost[i], slack)
    return total


@jit
def best_intercept(scores: Array, y: Array, target: Array, cost: Array, loss: Loss) -> float:
    """Return the b that minimises ``sum_i C_i loss(t_i - y_i (scores_i + b))``.

    The sum is convex: bisection finds where its slope changes sign, most often between the places
    where slacks are at the tube. If all slacks fit into the tube at once, b puts them as far inside
    as possible: at 0 exactly if targets are all the same.
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
        if _descent(scores, y, target, cost, loss, high) <= 0.0:
            break
        low, high, width = high, high + width, 2.0 * width
    for _ in range(DOUBLINGS):
        if _descent(scores, y, target, cost, loss, low) >= 0.0:
            break
        low, high, width = low - width, low, 2.0 * width
    for _ in range(HALVINGS):
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            break
        if _descent(scores, y, target, cost, loss, middle) > 0.0:
            low = middle
        else:
            high = middle
    return high

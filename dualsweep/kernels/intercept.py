"""The intercept that is best for the responses of rows, where it is not penalised."""

from __future__ import annotations

from .._jit import jit, jit_inline
from .._typing import Array
from ..losses.protocol import Loss, best_dual, tube

HALVINGS = 100  # of the interval of the intercept, unless its ends are two neighbours before
DOUBLINGS = 60  # of the interval, until the intercept is in it


@jit_inline
def _descent(scores: Array, y: Array, target: Array, cost: Array, loss: Loss, b: float) -> float:
    """Return how fast the losses fall as the intercept grows from b: ``sum_i y_i a_i``.

    a_i is the dual variable that fits the slack: minus the derivative of the loss.
    """
    total = 0.0
    for i in range(scores.shape[0]):
        slack = target[i] - y[i] * (scores[i] + b)
        total += y[i] * best_dual(loss, cost[i], slack)
    return total


@jit
def best_intercept(scores: Array, y: Array, target: Array, cost: Array, loss: Loss) -> float:
    """Return the b at which ``sum_i C_i loss(t_i - y_i (scores_i + b))`` is least.

    The sum is convex: bisection finds where its slope changes sign. That is among the places where
    slacks are at the tube; a loss that never vanishes may need a wider interval. Where all slacks
    can be inside the tube at once, they are as far inside as can be: for targets that are all the
    same, at 0 exactly.
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

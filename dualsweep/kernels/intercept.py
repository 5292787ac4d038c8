"""The intercept that is best for the responses of rows, where it is not penalised."""

from __future__ import annotations

from typing import Any

from .._jit import jit, jit_inline
from .loss import Loss, best_dual, box

HALVINGS = 100  # of what the intercept is known to be in, unless it is two neighbours before


@jit_inline
def _falls(scores: Any, y: Any, target: Any, cost: Any, loss: Loss, b: float) -> bool:
    """Tell whether the losses fall as the intercept grows beyond b: whether ``sum_i y_i a_i > 0``.

    a_i is the dual variable that fits the slack: minus the derivative of the loss.
    """
    total = 0.0
    for i in range(scores.shape[0]):
        lower, upper, diag = box(loss, cost[i])
        slack = target[i] - y[i] * (scores[i] + b)
        total += y[i] * best_dual(slack, lower, upper, diag, loss.kink)
    return total > 0.0


@jit
def best_intercept(scores: Any, y: Any, target: Any, cost: Any, loss: Loss) -> float:
    """Return the b at which ``sum_i C_i loss(t_i - y_i (scores_i + b))`` is least.

    The sum is convex, and its slope changes its sign among the places where slacks are at the kink:
    bisection. Where all slacks can be inside the kinks at once, they are as far inside as can be:
    of targets that are all the same, at 0 exactly.
    """
    low = high = y[0] * target[0] - scores[0]
    for i in range(1, scores.shape[0]):
        place = y[i] * target[i] - scores[i]
        low, high = min(low, place), max(high, place)
    if high - low <= 2.0 * loss.kink:
        return low + 0.5 * (high - low)
    low, high = low - loss.kink, high + loss.kink
    for _ in range(HALVINGS):
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            break
        if _falls(scores, y, target, cost, loss, middle):
            low = middle
        else:
            high = middle
    return high

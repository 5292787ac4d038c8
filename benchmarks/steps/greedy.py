"""The Weston-Watkins block step by greedy coordinate descent, as in Shark, to compare with."""

from __future__ import annotations

from typing import Any

from dualsweep._jit import jit

__all__ = ["ACCURACY", "greedy_step"]

# Shark's step stops when no optimality condition is violated by more than this, or after so many
# moves per class.
ACCURACY = 1e-6
MOVES_PER_CLASS = 10


@jit
def greedy_step(grad: Any, q: float, upper: float, accuracy: float, b: Any) -> int:
    """Move `b`, which is feasible, towards the solution of a block; return the number of moves.

    The problem is that of `weston_watkins_level` times q,

        min_b  q/2 (|b|^2 + (sum b)^2) - q v.b,    0 <= b <= upper,

    given by ``grad = q (v - b - sum b)``, which is kept up to date in place. The entry that
    violates its optimality condition most is moved to where it is optimal, the others being fixed,
    until none violates it by more than `accuracy` (Wang and Scott 2021, section 5, after Igel,
    Heidrich-Meisner and Glasmachers 2008). A move takes O(k).
    """
    k = grad.shape[0]
    for move in range(MOVES_PER_CLASS * k):
        worst, violation = -1, accuracy
        for m in range(k):
            if grad[m] > violation and b[m] < upper:
                worst, violation = m, grad[m]
            elif -grad[m] > violation and b[m] > 0.0:
                worst, violation = m, -grad[m]
        if worst < 0:
            return move
        old = b[worst]
        b[worst] = min(max(old + grad[worst] / (2.0 * q), 0.0), upper)
        change = q * (b[worst] - old)
        for m in range(k):
            grad[m] -= change
        grad[worst] -= change
    return MOVES_PER_CLASS * k

"""What is to be trained, and how far."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

# Values of the constant feature whose squares and reciprocals float64 has in full precision.
BIASES = 1e-150, 1e150

# That of a free intercept is at most 2 to this power, and at least its reciprocal: farther from 1,
# allowances for rounding hide a gap of 1e-9 (at 2^-20, one of 3e-8).
MOST_FREE = 10

INTERCEPTS = {
    "penalized": "as a weight of a constant feature",
    "free": "not penalised",
}


@dataclass(frozen=True)
class Settings:
    """The parameters of a training; see `LinearSVC` for what they mean. Nothing is checked.

    The loss tells whether it is classification or regression, which has `epsilon`, but neither
    `multi_class` nor `class_weight`.
    """

    C: float = 1.0
    loss: str = "squared_hinge"
    epsilon: float = 0.0
    multi_class: str = "ovr"
    solver: str = "auto"
    schedule: str = "auto"
    fit_intercept: bool = True
    intercept: str = "penalized"
    intercept_scaling: float = 1.0
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    class_weight: Any = None
    memory_limit: int | None = None
    seed: int = 0
    random_state: int | None = None  # what the seed was drawn from, for checkpoints

    @property
    def free_intercept(self) -> bool:
        """Whether there is an intercept that is not penalised."""
        return self.fit_intercept and self.intercept == "free"

    @property
    def bias(self) -> float:
        """Value of the constant feature.

        That of an intercept that is not penalised changes no optimum: it is a power of 2 near it,
        with which the weight stands for exactly the intercept.
        """
        if self.free_intercept:
            return 2.0 ** min(max(round(log2(self.intercept_scaling)), -MOST_FREE), MOST_FREE)
        return self.intercept_scaling if self.fit_intercept else 0.0


def draw_seed(random_state: Any) -> int:
    """Return the seed that a `RandomState`, or an integer that seeds one, stands for."""
    if not hasattr(random_state, "randint"):
        random_state = np.random.RandomState(random_state)
    return int(random_state.randint(np.iinfo(np.int32).max))

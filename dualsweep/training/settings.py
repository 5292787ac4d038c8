"""What is to be trained, and how far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["INTERCEPTS", "Settings", "draw_seed"]

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
        """Value of the constant feature."""
        return self.intercept_scaling if self.fit_intercept else 0.0


def draw_seed(random_state: Any) -> int:
    """Return the seed that a `RandomState`, or an integer that seeds one, stands for."""
    if not hasattr(random_state, "randint"):
        random_state = np.random.RandomState(random_state)
    return int(random_state.randint(np.iinfo(np.int32).max))

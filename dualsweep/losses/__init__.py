"""Losses: what a row costs, as a type that kernels and devices know how to compute with.

`protocol` says what a loss is, `box` has those of support vector machines, and `logistic` that of
logistic regression. To add a loss, write a module like these and an entry below; for another `Box`,
the entry is enough.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf

import numpy as np

from .box import Box
from .logistic import Logistic, log_probabilities
from .protocol import Loss

__all__ = [
    "LOSSES",
    "REGRESSION_LOSSES",
    "Box",
    "Logistic",
    "Loss",
    "log_probabilities",
    "loss_at",
    "loss_named",
]

LOSSES: dict[str, Loss] = {
    "hinge": Box(lower=0.0, upper=1.0, diag=0.0),  # max(0, 1 - z)
    "squared_hinge": Box(lower=0.0, upper=inf, diag=0.5),  # max(0, 1 - z)^2
    "squared": Box(lower=-inf, upper=inf, diag=0.5),  # (1 - z)^2
    "logistic": Logistic(),  # log(1 + exp(-z))
}

# Losses of the distance s of a prediction from its target.
REGRESSION_LOSSES: dict[str, Box] = {
    "epsilon_insensitive": Box(lower=-1.0, upper=1.0, diag=0.0),  # max(0, |s| - epsilon)
    "squared_epsilon_insensitive": Box(lower=-inf, upper=inf, diag=0.5),  # its square
}


def loss_named(name: str, epsilon: float = 0.0) -> Loss:
    """Return a loss; epsilon is the tube of regression."""
    if name in LOSSES:
        return LOSSES[name]
    return REGRESSION_LOSSES[name]._replace(kink=float(epsilon))


@lru_cache
def loss_at(slack: float, loss: Loss) -> float:
    """Return what a row with this slack and a cost of 1 loses."""
    arrays, cost, slacks = loss.on_arrays(np), np.ones(1), np.full(1, slack)
    return float(arrays.losses(cost, slacks, arrays.best_dual(cost, slacks))[0])

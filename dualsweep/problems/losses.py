"""Losses as numbers; see `dualsweep.kernels.loss` for what they mean."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..kernels.loss import Loss, sum_losses

INF = float("inf")

LOSSES: dict[str, Loss] = {
    "hinge": Loss(lower=0.0, upper=1.0, diag=0.0),  # max(0, 1 - z)
    "squared_hinge": Loss(lower=0.0, upper=INF, diag=0.5),  # max(0, 1 - z)^2
    "squared": Loss(lower=-INF, upper=INF, diag=0.5),  # (1 - z)^2
}

# Of the distance s of a prediction from its target.
REGRESSION_LOSSES: dict[str, Loss] = {
    "epsilon_insensitive": Loss(lower=-1.0, upper=1.0, diag=0.0),  # max(0, |s| - epsilon)
    "squared_epsilon_insensitive": Loss(lower=-INF, upper=INF, diag=0.5),  # its square
}


def loss_numbers(name: str, epsilon: float = 0.0) -> Loss:
    """Return the numbers of a loss; epsilon is that of regression."""
    if name in LOSSES:
        return LOSSES[name]
    return REGRESSION_LOSSES[name]._replace(kink=float(epsilon))


@lru_cache
def loss_of(slack: float, loss: Loss) -> float:
    """Return what a row with this slack and a cost of 1 loses."""
    return float(sum_losses(np.array([slack]), np.ones(1), loss))

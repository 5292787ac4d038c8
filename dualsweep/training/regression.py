"""Rows that have a number each to come close to."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.loss import Loss, bounds
from ..problems.binary import BinaryProblem
from ..problems.free import FreeProblem
from ..problems.labels import row_costs
from ..problems.losses import REGRESSION_LOSSES, loss_numbers
from ..problems.result import Result
from ..rows.passes import Passes
from .context import Context
from .data import TrainingSet
from .formulations import Formulation
from .settings import Settings


def training_set(X: Any, y: Any, weight: Any, settings: Settings, context: Context) -> TrainingSet:
    """Return rows in memory with classes or targets, as the loss needs them."""
    kind = RegressionSet if settings.loss in REGRESSION_LOSSES else TrainingSet
    return kind(X, y, weight, settings.bias, context)


class RegressionSet(TrainingSet):
    """Rows of X, where they lie, with a target each, and how much each of them counts."""

    n_weight_rows = 1

    def understand(self) -> None:
        """Check the targets, and that there is a row to train on."""
        self.y = as_targets(self.y)
        if self.weight is not None and not self.weight.any():
            raise ValueError("Training needs rows of positive weight, but all weights are 0.")

    def formulate(self, settings: Settings) -> MemoryRegression:
        """Return the problem to solve."""
        return MemoryRegression(
            passes=self.passes,
            sqnorm=self.sqnorm,
            target=self.y,
            cost=costs_of_rows(settings, len(self.y), self.weight),
            bias=self.bias,
            loss=loss_numbers(settings.loss, settings.epsilon),
            free=settings.free_intercept,
        )


class Regression(Formulation):
    """A single problem, wherever its rows are; its weights and dual variables are one row."""

    n_weight_rows = 1

    def __init__(self, n_rows: int, bias: float, loss: Loss) -> None:
        super().__init__(None, n_rows, bias)
        self.loss = loss
        self.names = ["regression"]

    def coef(self, ws: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the model's coefficients, and the weight of the bias."""
        w = ws[0].astype(np.float64, copy=False)
        return w[:-1], w[-1:]

    def problem_weights(self, p: int, weights: Any) -> Any:
        """Return the weights of the problem that the model's row stands for."""
        return weights[p]


class MemoryRegression(Regression):
    """The problem of rows in memory."""

    def __init__(
        self,
        *,
        passes: Passes,
        sqnorm: Any,
        target: Any,
        cost: Any,
        bias: float,
        loss: Loss,
        free: bool,
    ) -> None:
        super().__init__(len(target), bias, loss)
        kind = FreeProblem if free else BinaryProblem
        self.whole = kind(passes, sqnorm, np.ones(len(target)), cost, loss, target)
        check_scale(self.whole.primal_at_zero)

    def problem(self, p: int) -> BinaryProblem:
        """Return the problem."""
        return self.whole

    def start(self, p: int, dual_coef: Any) -> Any:
        """Return feasible dual variables near those of another model."""
        used = self.whole.candidates
        lower, upper, _ = bounds(self.loss, self.whole.cost[used])
        return self.whole.alpha_of(used, np.clip(dual_coef.toarray()[0][used], lower, upper))

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's dual variables."""
        return sp.csr_array(results[0].alpha[None, :])


def costs_of_rows(settings: Settings, n_rows: int, weight: Any, all_rows: bool = True) -> Any:
    """Return ``C_i = C * sample_weight_i``."""
    codes = np.zeros(n_rows, np.int64)
    return row_costs(settings.C, None, np.zeros(1), codes, weight, all_rows)


def as_targets(y: Any) -> Any:
    """Return y in float64; ValueError unless it is numbers to come close to."""
    if y.dtype.kind not in "fiub":
        raise ValueError(f"Targets of regression must be numbers, but y has {y[:1].tolist()}.")
    if not np.isfinite(y).all():
        bad = y[~np.isfinite(y)][0]
        raise ValueError(f"Targets of regression must be finite, but y has {bad}.")
    return y.astype(np.float64, copy=False)


def check_scale(primal_at_zero: float) -> None:
    """Raise ValueError if targets and costs are too large to compute with."""
    if not np.isfinite(primal_at_zero):
        raise ValueError(
            "The losses of predicting 0 add up to more than float64 can hold. Scale y, or use "
            "smaller C and sample_weight."
        )

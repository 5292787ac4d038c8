"""Rows in memory, and how much each of them counts."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from .._threads import Workers
from ..problems.labels import encode_labels, row_costs
from ..rows.dense import passes_over
from ..rows.layouts import as_rows
from .context import Context
from .formulations import Formulation, formulation
from .settings import Settings

__all__ = ["TrainingSet", "check_finite"]


class TrainingSet:
    """Rows of X, where they lie, and how much each of them counts.

    A part of the rows is the same X with weight 0 elsewhere, never a copy.

    Parameters
    ----------
    X : array or CSR matrix
        Rows of float32 or float64, CSR or C-ordered.
    y : array
        Labels.
    weight : array or None
        Of each row, float64.
    bias : float
        Value of the constant feature.
    context : Context
        Where it is trained on.
    """

    def __init__(self, X: Any, y: Any, weight: Any, bias: float, context: Context) -> None:
        if X.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.y, self.weight, self.bias = y, weight, bias
        self.understand()
        self.passes = passes_over(as_rows(X, bias, context.workers), context.workers)
        self.sqnorm = self.passes.sqnorms()
        context.deliver()
        check_finite(self.sqnorm)

    def understand(self) -> None:
        """Find the classes among the labels."""
        self.classes, self.codes = encode_labels(self.y, self.weight)

    def part(self, times: Any, workers: Workers) -> TrainingSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = copy(self)
        part.weight = times.astype(np.float64) if self.weight is None else times * self.weight
        part.understand()
        part.passes = self.passes.shared(workers)
        return part

    def shared(self, workers: Workers) -> TrainingSet:
        """Return the same set with other threads."""
        twin = copy(self)
        twin.passes = self.passes.shared(workers)
        return twin

    def formulate(self, settings: Settings) -> Formulation:
        """Return the problems to solve."""
        if settings.free_intercept and settings.multi_class != "ovr":
            raise ValueError(
                f"intercept='free' is not available with multi_class={settings.multi_class!r}. Use "
                "multi_class='ovr', or intercept='penalized'."
            )
        cost = row_costs(settings.C, settings.class_weight, self.classes, self.codes, self.weight)
        return formulation(settings, self.passes, self.sqnorm, self.classes, self.codes, cost)


def check_finite(sqnorm: Any, first: int = 0) -> None:
    """Raise ValueError unless all squared norms are finite, those of rows from `first` on."""
    if not np.isfinite(sqnorm).all():
        raise ValueError(
            f"Row {first + int(np.argmax(~np.isfinite(sqnorm)))} has NaN, infinity or a squared "
            "norm beyond float64. Correct the values, or scale the features."
        )

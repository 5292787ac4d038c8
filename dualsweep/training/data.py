"""Rows in memory, and how much each of them counts."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from .._memory import available_bytes
from .._threads import Workers
from ..problems.labels import encode_labels, row_costs
from ..rows.dense import passes_over
from ..rows.layouts import as_rows
from .context import Context
from .formulations import Formulation, formulation
from .settings import Settings

# Vectors of weights that a training needs at least for each row of weights of the model: those that
# are trained, and those of the model, or the sums of a part of the rows.
WEIGHT_COPIES = 2

SMALL = 1 << 24  # bytes that are not worth asking for


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
        check_room(X.shape[1], self.n_weight_rows)
        self.passes = passes_over(as_rows(X, bias, context.workers), context.workers)
        self.sqnorm = self.passes.sqnorms()
        context.deliver()
        check_finite(self.sqnorm)

    @property
    def n_weight_rows(self) -> int:
        """Rows of weights that a model has."""
        return 1 if len(self.classes) == 2 else len(self.classes)

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


def weight_bytes(n_features: int, n_rows: int = 1) -> int:
    """Return the bytes of so many rows of weights, which are dense however sparse X is."""
    return 8 * WEIGHT_COPIES * (n_features + 1) * n_rows


def check_room(n_features: int, n_rows: int = 1) -> None:
    """Raise MemoryError if so many rows of weights cannot be in memory.

    Better than to be killed: systems promise more memory than they have.
    """
    needed = weight_bytes(n_features, n_rows)
    if needed > SMALL and needed > (available := available_bytes()):
        times = f" times {n_rows:,} classes" if n_rows > 1 else ""
        raise MemoryError(
            f"X has {n_features:,} features{times}, whose weights take {needed / 2**30:,.1f} GiB "
            f"of memory, but {available / 2**30:,.1f} are available. Hash the features to fewer "
            "(FeatureHasher, from sklearn.feature_extraction), or leave out those that no row has "
            "and number the others from 1."
        )


def check_finite(sqnorm: Any, first: int = 0) -> None:
    """Raise ValueError unless all squared norms are finite, those of rows from `first` on."""
    if not np.isfinite(sqnorm).all():
        raise ValueError(
            f"Row {first + int(np.argmax(~np.isfinite(sqnorm)))} has NaN, infinity or a squared "
            "norm beyond float64. Correct the values, or scale the features."
        )

"""Rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from .._memory import available_bytes
from .._threads import Workers
from .._typing import Array, Sparse
from ..losses import REGRESSION_LOSSES
from ..newton.host import shares_passes
from ..problems.binary import BinaryProblem
from ..problems.labels import encode_labels
from ..problems.result import Result
from ..rows.functions import EPS
from ..rows.layouts import as_rows
from ..rows.passes import column_sums, passes_over
from ..solvers.solve import Start, start_from
from ..training.context import Context
from ..training.formulations import LabelledRows, as_targets, check_scale, formulation_of
from ..training.problems import SeparateProblems
from ..training.settings import Settings

# Vectors that a training needs at least for each row of weights of the model: the weights that are
# trained, and those of the model, or the sums of a part of the rows.
WEIGHT_COPIES = 2

SMALL = 1 << 24  # bytes that are not worth asking for

# Problems whose Newton steps are taken together, at most: more gain little.
MOST_TOGETHER = 16


class TrainingSet:
    """Rows of X, where they lie, with labels or targets, and how much each of them counts.

    X is CSR or C-ordered, in float32 or float64; weights are float64. A part of the rows is the
    same X with weight 0 elsewhere, never a copy.
    """

    def __init__(
        self, X: Any, y: Array, weight: Array | None, settings: Settings, context: Context
    ) -> None:
        if X.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.y, self.weight, self.bias = y, weight, settings.bias
        self.regression = settings.loss in REGRESSION_LOSSES
        self._read_labels()
        check_room(X.shape[1], 1 if self.regression else len(self.classes))
        self.passes = passes_over(as_rows(X, self.bias, context.workers), context.workers)
        self.sqnorm = self.passes.sqnorms()
        context.deliver()
        check_finite(self.sqnorm)

    def _read_labels(self) -> None:
        """Find the classes among the labels, or check the targets."""
        self.classes: Any = None
        if not self.regression:
            self.classes, self.codes = encode_labels(self.y, self.weight)
            return
        self.y = self.codes = as_targets(self.y)
        if self.weight is not None and not self.weight.any():
            raise ValueError("Training needs rows of positive weight, but all weights are 0.")

    def part(self, times: Array, workers: Workers) -> TrainingSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = self.shared(workers)
        part.weight = times.astype(np.float64) if self.weight is None else times * self.weight
        part._read_labels()
        return part

    def shared(self, workers: Workers) -> TrainingSet:
        """Return the same set with other threads."""
        twin = copy(self)
        twin.passes = self.passes.shared(workers)
        return twin

    def column_sums(self, weight: Array) -> Iterator[Array]:
        """Yield sums over the columns; see `dualsweep.rows.passes`."""
        return column_sums(self.passes.rows, weight)

    def problems(self, settings: Settings) -> MemoryProblems:
        """Return the problems to solve."""
        return MemoryProblems(self, settings)


class MemoryProblems(SeparateProblems):
    """The problems of rows in memory."""

    def __init__(self, data: TrainingSet, settings: Settings) -> None:
        formulation = formulation_of(settings, data.classes, settings.class_weight)
        super().__init__(formulation, len(data.codes))
        cost = formulation.costs(data.codes, data.weight)
        self.passes = data.passes
        self.rows = LabelledRows(data.passes, data.sqnorm, data.codes, cost)
        if data.regression:
            check_scale(self._only.primal_at_zero)

    @cached_property
    def _only(self) -> Any:
        """The problem, where there is one."""
        return self.formulation.problem(0, self.rows)

    def problem(self, p: int) -> Any:
        """Return the p-th problem."""
        return self._only if len(self.names) == 1 else self.formulation.problem(p, self.rows)

    @property
    def newton_together(self) -> int:  # type: ignore[override]
        """How many problems take Newton steps together, in about the memory that X takes.

        Besides its Hessian, a problem has some ten numbers per row.
        """
        separate = getattr(self.formulation, "kind", None) is BinaryProblem
        if not (separate and shares_passes(self.passes)):
            return 1
        numbers = self.passes.n_weights**2 + 10 * self.n_rows
        return max(min(self.passes.rows.data.nbytes // (8 * numbers), MOST_TOGETHER), 1)

    def start(self, p: int, duals: Sparse) -> Start:
        """Return where to start near signed dual variables of some model."""
        return Start(self.formulation.near(p, self.rows, duals))

    def start_from(self, p: int, problem: Any, before: Any) -> Start:
        """Return where to start the p-th problem from the model of the same data for another C."""
        return start_from(problem, before.problems.rows.candidates, before.results[p])

    def complete(self, results: list[Result]) -> None:
        """Give classes that were not begun weights of some use beside the others, in place.

        Without an intercept they get the mean of the others' weights.
        """
        formulation: Any = self.formulation
        if len(results) == 1 or all(result.n_iter for result in results):
            return
        used = self.rows.candidates
        labels, cost = self.rows.labels[used], self.rows.cost[used]
        costs = np.bincount(labels, cost, minlength=len(formulation.classes))
        idle = formulation.fill_in(results, costs, self.n_rows)
        trained = [result.w for result in results if result.w.any()]
        if idle and trained:
            w = np.mean(trained, axis=0)
            scores = self.passes.responses(used, w)
            reach = np.sqrt(self.rows.sqnorm[used]) * np.linalg.norm(w)
            error = (len(w) + 2) * EPS * (1.0 + reach)
            for p in idle:
                slack = 1.0 - formulation.signs(p, labels) * scores
                formulation.give(results[p], w, slack, error, cost)

    def dual_coef(self, results: list[Result]) -> Sparse:
        """Return the model's signed dual variables."""
        return self.formulation.signed(self.rows, [result.alpha for result in results])


def weight_bytes(n_features: int, n_rows: int = 1) -> int:
    """Return the bytes of so many rows of weights, which are dense however sparse X is."""
    return 8 * WEIGHT_COPIES * (n_features + 1) * n_rows


def check_room(n_features: int, n_classes: int = 1) -> None:
    """Raise MemoryError if the weights of these classes cannot be in memory.

    Better than to be killed: systems promise more memory than they have.
    """
    n_rows = 1 if n_classes == 2 else n_classes
    needed = weight_bytes(n_features, n_rows)
    if needed > SMALL and needed > (available := available_bytes()):
        times = f" times {n_rows:,} classes" if n_rows > 1 else ""
        raise MemoryError(
            f"X has {n_features:,} features{times}, whose weights take {needed / 2**30:,.1f} GiB "
            f"of memory, but {available / 2**30:,.1f} are available. Hash the features to fewer "
            "(FeatureHasher, from sklearn.feature_extraction), or leave out those that no row has "
            "and number the others from 1."
        )


def check_finite(sqnorm: Array, first: int = 0) -> None:
    """Raise ValueError unless all squared norms are finite, those of rows from `first` on."""
    if not np.isfinite(sqnorm).all():
        raise ValueError(
            f"Row {first + int(np.argmax(~np.isfinite(sqnorm)))} has NaN, infinity or a squared "
            "norm beyond float64. Correct the values, or scale the features."
        )

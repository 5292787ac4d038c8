"""What problems share if their rows are in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import numpy as np

from .._typing import Array
from ..kernels.certificate import squared_length
from ..rows.passes import Passes
from .run import Problem

Own = TypeVar("Own", bound="MemoryProblem")


@dataclass(frozen=True)
class MemoryProblem(Problem):
    """Rows in memory and their costs. Rows with cost 0 are not part of the problem."""

    takes_momentum: ClassVar[bool] = True

    passes: Passes
    sqnorm: Array  # squared norms of the rows, the bias included
    y: Array  # -1.0 or +1.0, or the number of the class, int64
    cost: Array  # C_i = C * sample weight * class weight
    # Numbers of the rows that are part of the problem.
    candidates: Array = field(default=None, kw_only=True)  # type: ignore[arg-type]
    alone: bool = field(default=True, kw_only=True)  # whether all threads are for this problem

    def __post_init__(self) -> None:
        if self.candidates is None:
            object.__setattr__(self, "candidates", np.flatnonzero(self.cost > 0))

    @property
    def n_rows(self) -> int:
        """Rows, with and without a cost."""
        return len(self.y)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Shape of the weights: the features and the bias; classes, if there are many."""
        return (self.passes.n_weights,)

    @property
    def ridge(self) -> float | Array:
        """How much the squares of the weights are penalised."""
        return 1.0

    @property
    def mean_cost(self) -> float:
        """The mean of the costs of these rows."""
        return float(self.cost[self.candidates].mean())

    def gap_of_gradient(self, gradient: Array) -> float:
        """Return the gap of an inner problem of Newton's method with this gradient."""
        return 0.5 * float(gradient @ gradient)

    def size(self, w: Array) -> float:
        return float(squared_length(w.ravel("K")))

    def check_rows(self) -> None:
        self.passes.check_finite()

    def with_costs(self: Own, cost: Array) -> Own:
        """Return the same problem with other costs."""
        return replace(self, cost=cost, candidates=np.flatnonzero(cost > 0))

    def zero_weights(self) -> Array:
        return np.zeros(self.weights_shape, order=self.passes.order)

"""The problems of one training: a formulation, and rows wherever they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .._typing import Array, Sparse
from ..problems.result import Progress, Result
from ..problems.run import Saving
from ..solvers.solve import Start
from .context import Context
from .formulations import Formulation
from .settings import Settings


class Data(Protocol):
    """Rows, labels and weights in some placement, checked and ready for any settings."""

    def problems(self, settings: Settings) -> Problems:
        """Return the problems to solve."""


class Problems(ABC):
    """The problems of a training in one placement."""

    def __init__(self, formulation: Formulation, n_rows: int) -> None:
        self.formulation, self.n_rows, self.names = formulation, n_rows, formulation.names

    def fits(self, duals: Sparse) -> bool:
        """Return whether signed dual variables are of as many rows, and finite."""
        shape = (self.formulation.n_weight_rows, self.n_rows)
        return duals.shape == shape and bool(np.isfinite(duals.data).all())

    def solve_together(
        self,
        settings: Settings,
        context: Context,
        seconds: float,
        duals: Sparse,
        watch: Callable[[int, Progress], bool],
    ) -> list[Result] | None:
        """Solve all problems at once; return None if they are `SeparateProblems`."""
        return None

    def complete(self, results: list[Result]) -> None:  # noqa: B027
        """Give problems that were not begun weights of some use beside the others, in place."""

    def attributes(self, *ws: Array) -> dict[str, Any]:
        """Return classes, coefficients and intercepts for the weights of the problems."""
        return self.formulation.attributes(*ws)

    @abstractmethod
    def dual_coef(self, results: list[Result]) -> Sparse:
        """Return the model's signed dual variables."""

    def support(self, dual_coef: Sparse) -> Array:
        """Return the rows with a nonzero dual variable."""
        if dual_coef.shape[0] == 1 and dual_coef.has_sorted_indices:
            return dual_coef.indices.astype(np.int64)  # type: ignore[no-any-return]
        return np.flatnonzero(np.bincount(dual_coef.indices))


class SeparateProblems(Problems):
    """Problems that are solved one by one, by sweeps and Newton steps."""

    side_by_side = True  # whether several problems may be solved at once
    newton_together = 1  # how many problems take Newton steps together

    @abstractmethod
    def problem(self, p: int) -> Any:
        """Return the p-th problem."""

    def start(self, p: int, duals: Sparse) -> Start:
        """Return where to start near signed dual variables of some model; cold by default."""
        return Start()

    def start_from(self, p: int, problem: Any, before: Any) -> Start:
        """Return where to start from the model of the same data for another C; cold by default."""
        return Start()

    def saving(self, p: int) -> Saving | None:
        """Return how the state of the p-th problem is kept, if it is."""
        return None

    def finished(self, p: int, result: Result) -> Result:
        """Return what to keep of the solution of the p-th problem."""
        return result

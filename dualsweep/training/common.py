"""What a fit, a path and the folds of a search have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from .._threads import one_blas_thread
from ..path import follow
from ..problem import Progress, Result
from ..rows import as_rows, sqnorms
from .formulations import Formulation, formulate
from .interrupt import DeferredInterrupt
from .labels import encode_labels, row_costs

__all__ = [
    "Steps",
    "TrainingSet",
    "check_finite",
    "solve_problems",
    "undisturbed",
    "usable_duals",
]


# Epochs that make a model which is of use beside others. On 1,000 authors the accuracy after one,
# two and three sweeps of each class is 12.1, 35.4 and 40.7 %, of models trained to 0.001 40.8 %.
LEAST_EPOCHS = 3


class TrainingSet:
    """Rows of X, where they lie, and how much each of them counts.

    A part of the rows is the same X with weight 0 elsewhere, never a copy.
    """

    def __init__(self, X: Any, y: Any, weight: Any, bias: float) -> None:
        self.y, self.weight = y, weight
        self.classes, self.codes = encode_labels(y, weight)
        with DeferredInterrupt() as interrupt:  # one that comes during compilation can get lost
            self.rows = as_rows(X, bias)
            self.sqnorm = sqnorms(self.rows)
        interrupt.deliver()
        check_finite(self.sqnorm)

    def part(self, times: Any) -> TrainingSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = object.__new__(TrainingSet)
        part.rows, part.sqnorm, part.y = self.rows, self.sqnorm, self.y
        part.weight = times.astype(np.float64) if self.weight is None else times * self.weight
        part.classes, part.codes = encode_labels(part.y, part.weight)
        return part

    def at(self, C: float, svc: Any) -> Formulation:
        """Return the problems of `svc`, a `PlainSVC`, on these rows, but with this C."""
        cost = row_costs(C, svc.class_weight, self.classes, self.codes, self.weight)
        return self._formulated(svc, cost)

    def names(self, svc: Any) -> list[str]:
        """Return a name for each problem, whatever C is."""
        return self._formulated(svc, None).names(self.classes)

    def _formulated(self, svc: Any, cost: Any) -> Formulation:
        data = self.rows, self.sqnorm, self.codes, cost, len(self.classes)
        return formulate(svc.multi_class, svc.loss, *data)


def usable_duals(model: Any, n_problems: int, n_rows: int) -> Any:
    """Return the dual variables of a model if it has any, of as many rows and finite; else None."""
    duals = getattr(model, "dual_coef_", None)
    if duals is None or duals.shape != (n_problems, n_rows) or not np.isfinite(duals.data).all():
        return None
    return duals


def check_finite(sqnorm: Any, first: int = 0) -> None:
    """Raise ValueError unless all squared norms are finite, those of rows from `first` on."""
    if not np.isfinite(sqnorm).all():
        raise ValueError(
            f"Row {first + int(np.argmax(~np.isfinite(sqnorm)))} has NaN, infinity or a squared "
            "norm beyond float64. Correct the values, or scale the features."
        )


def solve_problems(
    method: Callable[..., Result],
    n_problems: int,
    svc: Any,
    *,
    seed: int,
    n_threads: int,
    max_time: float,
    stop: Callable[[], bool],
    watch: Callable[[int, Progress], bool],
) -> list[Result]:
    """Return ``method(p, **options)`` for each problem p, the options being those of `solve`.

    The problems still to be solved share the time that is left, but each that is begun gets at
    least `LEAST_EPOCHS`: less of them all would be worse than enough of some.
    """
    deadline = perf_counter() + max_time
    at_once = min(n_threads, n_problems)

    def run(p: int) -> Result:
        now = perf_counter()
        rounds_left = -(-(n_problems - p) // at_once)
        share = now + (deadline - now) / rounds_left

        def halt(progress: Progress) -> bool:
            over = progress.epoch >= LEAST_EPOCHS and perf_counter() > share
            return watch(p, progress) or over

        return method(
            p,
            solver=svc.solver,
            schedule=svc.schedule,
            tol=svc.tol,
            max_iter=svc.max_iter,
            max_time=deadline - now,
            seed=(seed, p),
            n_threads=n_threads // at_once,
            stop=stop,
            watch=halt,
        )

    if at_once == 1:
        return [run(p) for p in range(n_problems)]
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run, range(n_problems)))


class Steps:
    """Trains `svc`, a `PlainSVC`, for one C after the other, each from the one before."""

    def __init__(self, svc: Any, data: TrainingSet, seed: int) -> None:
        self.svc, self.data, self.seed = svc, data, seed
        self.names = data.names(svc)
        self.before: list[Any] = [None] * len(self.names)

    def step(self, C: float, **options: Any) -> dict[str, Any]:
        """Return the fitted attributes for this C; the options are those of `solve_problems`."""
        formulation = self.data.at(C, self.svc)

        def run(p: int, **options: Any) -> Result:
            return follow(formulation.problem(p), self.before[p], **options)

        self.before = solve_problems(run, len(self.names), self.svc, seed=self.seed, **options)
        fitted: dict[str, Any] = self.svc._fitted(formulation, self.data.classes, self.before)
        return fitted


@contextmanager
def undisturbed() -> Iterator[DeferredInterrupt]:
    """Put off Ctrl-C, and keep to one BLAS thread."""
    with DeferredInterrupt() as interrupt, one_blas_thread():
        yield interrupt

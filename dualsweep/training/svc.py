"""`PlainSVC`: parameters, training, and what comes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from .._threads import count_threads
from ..outofcore import Blocks
from ..problem import Progress, Result
from ..solve import solve
from .blocks import BlockFormulation, check_trainable
from .common import TrainingSet, solve_problems, undisturbed, usable_duals
from .formulations import Formulation
from .interrupt import DeferredInterrupt
from .progress import Bars, FitCallbacks, announce_compilation

__all__ = ["PlainSVC"]

logger = logging.getLogger("dualsweep")


class PlainSVC:
    """What `dualsweep.LinearSVC` is without scikit-learn's interface.

    Its parameters and fitted attributes are those of `LinearSVC`, but nothing is checked: the
    parameters are valid, X is CSR or C-ordered and dense, of float32 or float64, or a store.
    """

    coef_: Any
    intercept_: Any
    classes_: Any
    dual_coef_: Any
    support_: Any
    primal_objective_: float
    dual_objective_: float
    dual_gap_: float
    relative_gap_: float
    converged_: bool
    n_iter_: int
    history_: Any
    n_features_in_: int

    def __init__(
        self,
        *,
        C: float = 1.0,
        loss: str = "squared_hinge",
        multi_class: str = "ovr",
        solver: str = "auto",
        schedule: str = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        class_weight: Any = None,
        warm_start: bool = False,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.loss = loss
        self.multi_class = multi_class
        self.solver = solver
        self.schedule = schedule
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None
    ) -> Any:
        """Train the model; see `LinearSVC.fit`."""
        if X.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        with announce_compilation(bool(self.verbose)):
            if isinstance(X, Blocks):
                self._train_on_blocks(X, y, sample_weight, checkpoint)
            else:
                self._train(TrainingSet(X, y, sample_weight, self._bias), X, y)
        return self

    def _train_on_blocks(self, data: Blocks, y: Any, sample_weight: Any, checkpoint: Any) -> None:
        """Train on what does not fit into memory."""
        check_trainable(self)
        with undisturbed() as interrupt:
            problems = BlockFormulation(self, data, y, sample_weight, checkpoint)
            results = self._solve_all(
                problems, problems.solve, problems.classes, data, y, interrupt, n_threads=1
            )
            self.__dict__.update(self._fitted(problems, problems.classes, results))
        interrupt.deliver()

    @property
    def _bias(self) -> float:
        """Value of the constant feature."""
        return self.intercept_scaling if self.fit_intercept else 0.0

    def _train(self, data: TrainingSet, X: Any, y: Any) -> None:
        """Train on validated data; X and y are what callbacks get to see."""
        formulation = data.at(self.C, self)
        previous = self._previous_dual_coef(data)

        def solve_problem(p: int, **options: Any) -> Result:
            alpha = None if previous is None else formulation.start(p, previous)
            return solve(formulation.problem(p), alpha=alpha, **options)

        with undisturbed() as interrupt:
            results = self._solve_all(
                formulation,
                solve_problem,
                data.classes,
                X,
                y,
                interrupt,
                n_threads=count_threads(self.n_jobs),
            )
            self.__dict__.update(self._fitted(formulation, data.classes, results))
        interrupt.deliver()

    def _previous_dual_coef(self, data: TrainingSet) -> Any:
        """Return the dual variables to start from, or None for a cold start."""
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        if not np.array_equal(self.classes_, data.classes):
            return None
        return usable_duals(self, 1 if len(data.classes) == 2 else len(data.classes), len(data.y))

    def _solve_all(
        self,
        formulation: Formulation | BlockFormulation,
        solve_problem: Callable[..., Result],
        classes: Any,
        X: Any,
        y: Any,
        interrupt: DeferredInterrupt,
        n_threads: int,
    ) -> list[Result]:
        """Solve the problems of the formulation, in so many threads."""
        names = formulation.names(classes)
        callbacks = FitCallbacks(self, X, y, len(names))

        with Bars(names, self.tol, show=bool(self.verbose)) as bars:

            def run(p: int, watch: Callable[[Progress], bool], **options: Any) -> Result:
                epochs = callbacks.problem(
                    p,
                    lambda w: {"classes_": classes, **self._coef(formulation, [w.astype(float)])},
                )
                result = solve_problem(
                    p, watch=lambda progress: watch(progress) or epochs(progress), **options
                )
                bars.update(p, result.n_iter, result.relative_gap, result.history["active"][-1])
                epochs.close(whole_problem=len(names) > 1)
                logger.info(
                    "%s: relative gap %.1e after %d epochs, %d of them Newton steps, and %.2f s",
                    names[p],
                    result.relative_gap,
                    result.n_iter,
                    result.n_newton,
                    result.history["time"][-1],
                )
                return result

            def watch(p: int, progress: Progress) -> bool:
                bars.update(p, progress.epoch, progress.relative_gap, progress.active)
                return False

            results = solve_problems(
                run,
                len(names),
                self,
                seed=self._seed(),
                n_threads=n_threads,
                max_time=np.inf if self.max_time is None else self.max_time,
                stop=lambda: interrupt.requested,
                watch=watch,
            )
        callbacks.close()
        return results

    def _seed(self) -> int:
        """Return a number that `random_state`, an integer, stands for."""
        return int(np.random.RandomState(self.random_state).randint(np.iinfo(np.int32).max))

    def _coef(self, formulation: Formulation | BlockFormulation, ws: list[Any]) -> dict[str, Any]:
        """Return coefficients and intercepts of the weights of the problems."""
        coef, last = formulation.coef(ws)
        return {"coef_": coef, "intercept_": self._bias * last}

    def _fitted(
        self, formulation: Formulation | BlockFormulation, classes: Any, results: list[Result]
    ) -> dict[str, Any]:
        """Return the fitted attributes that the results of the problems make."""
        formulation.complete(results)
        coef = self._coef(formulation, [result.w for result in results])
        dual_coef = formulation.dual_coef(results)
        primal, gap = sum(result.primal for result in results), sum(r.gap for r in results)
        for p, result in enumerate(results):
            result.history["problem"] = p
        return {
            "classes_": classes,
            **coef,
            "n_features_in_": coef["coef_"].shape[1],
            "dual_coef_": dual_coef,
            "support_": np.flatnonzero(np.bincount(dual_coef.indices)),
            "primal_objective_": primal,
            "dual_gap_": gap,
            "dual_objective_": primal - gap,
            "relative_gap_": max(result.relative_gap for result in results),
            "converged_": all(result.converged for result in results),
            "n_iter_": max(result.n_iter for result in results),
            "history_": np.concatenate([result.history for result in results]),
        }

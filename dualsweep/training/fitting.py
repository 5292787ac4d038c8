"""`train`: the one way from data and settings to a certified model."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from math import fsum
from operator import itemgetter
from typing import Any

import numpy as np

from .. import _tuning
from .._clock import clock
from .._typing import Array, Sparse
from ..newton.host import newton_on_host
from ..problems.result import ESTIMATES_DTYPE, HISTORY_DTYPE, Progress, Result
from ..solvers.solve import Start, Started, start_run
from .context import Context
from .problems import Data, Problems
from .settings import Settings

logger = logging.getLogger("dualsweep")

# Epochs after which the model of a class is of use beside the others. On 1,000 authors the accuracy
# after one, two and three sweeps of each class is 12.1, 35.4 and 40.7 %; trained to 0.001, 40.8 %.
LEAST_EPOCHS = 3


@dataclass(frozen=True)
class Fitted:
    """The outcome of a training; see the attributes of `LinearSVC` for what its fields mean."""

    problems: Problems
    results: list[Result]  # of the problems
    classes: Array | None  # of regression None
    coef: Array
    intercept: Array
    n_features_in: int
    dual_coef: Sparse
    support: Array
    primal_objective: float
    dual_objective: float
    dual_gap: float
    relative_gap: float
    converged: bool
    n_iter: int
    history: Array
    estimates: Array

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of an estimator, by name; of regression, without classes."""
        found = {f"{field.name}_": getattr(self, field.name) for field in fields(self)[2:]}
        return {name: value for name, value in found.items() if value is not None}


def train(
    data: Data,
    settings: Settings,
    context: Context,
    *,
    before: Fitted | None = None,
    duals: Sparse = None,
) -> Fitted:
    """Solve the problems that data and settings make, and make a model of their solutions.

    It starts from `before`, the model of the same data and settings for another C; or near `duals`,
    signed dual variables of some model, unless they have another shape or are not finite. The
    problems still to be solved share the time that is left, but each that is begun gets at least
    `LEAST_EPOCHS`: less of them all would be worse than enough of some.
    """
    seconds = np.inf if settings.max_time is None else settings.max_time
    deadline = clock() + seconds
    problems: Any = data.problems(settings)
    context.begin(problems.names, problems.attributes)
    estimates: list[Any] = []

    def observe(p: int, progress: Progress) -> bool:
        estimates.append((p, progress.time, progress.epoch, progress.relative_gap))
        return context.epoch(p, progress)

    if before is not None:
        duals = before.dual_coef
    elif duals is not None and not problems.fits(duals):
        duals = None
    results: Any = problems.solve_together(settings, context, seconds, duals, observe)
    if results is not None:
        context.watcher.finish()
        return _fitted(problems, results, estimates)

    n = len(problems.names)
    at_once = min(context.workers.n_threads, n) if problems.side_by_side else 1
    # With a limit on time, a problem would spend its share waiting for others.
    together = problems.newton_together if seconds == np.inf else 1

    def solve_one(p: int) -> Any:
        context.watcher.start(p)
        now = clock()
        share = now + (deadline - now) / -(-(n - p) // at_once)

        def watch(progress: Progress) -> bool:
            over = progress.epoch >= LEAST_EPOCHS and clock() > share
            return observe(p, progress) or over

        saving = problems.saving(p)
        if saving is not None:
            name, tell = problems.names[p], context.bars.tell
            saving = saving._replace(resumed=lambda n: tell(f"{name}: going on from epoch {n}"))
        problem, start = problems.problem(p), Start()
        if before is not None:
            start = problems.start_from(p, problem, before)
        elif duals is not None:
            start = problems.start(p, duals)
        started = start_run(
            problem,
            solver=settings.solver,
            schedule=settings.schedule,
            tol=settings.tol,
            max_iter=settings.max_iter,
            max_time=deadline - now,
            seed=(settings.seed, p),
            start=start,
            stop=context.stop,
            watch=watch,
            stepwise=context.watcher.stepwise,
            saving=saving,
        )
        if started.wants_newton:
            if together > 1:
                return started
            newton_on_host(started.run)
        return finish(p, started)

    def finish(p: int, started: Started) -> Result:
        result = started.finish()
        context.end(p, result)
        logger.info(
            "%s: relative gap %.1e after %d epochs, %d of them Newton steps, and %.2f s",
            problems.names[p],
            result.relative_gap,
            result.n_iter,
            result.n_newton,
            result.history["time"][-1],
        )
        return problems.finished(p, result)

    results = []
    parallel = context.workers.map if at_once > 1 else map
    some = _tuning.MOST_WAITING if together > 1 else n
    for start in range(0, n, some):
        results.extend(parallel(solve_one, range(n)[start : start + some]))
        waiting = [p for p, result in enumerate(results) if isinstance(result, Started)]
        for first in range(0, len(waiting), together):
            newton_on_host(*[results[p].run for p in waiting[first : first + together]])
        finished = parallel(lambda p: finish(p, results[p]), waiting)
        for p, result in zip(waiting, finished, strict=True):
            results[p] = result
    context.watcher.finish()
    return _fitted(problems, results, estimates)


def _fitted(problems: Problems, results: list[Result], estimates: list[Any]) -> Fitted:
    """Return the model that the solutions of the problems make."""
    problems.complete(results)
    model = problems.attributes(*[result.w for result in results])
    dual_coef = problems.dual_coef(results)
    for p, result in enumerate(results):
        result.history["problem"] = p
    return Fitted(
        problems=problems,
        results=results,
        classes=model.get("classes_"),
        coef=model["coef_"],
        intercept=model["intercept_"],
        n_features_in=model["coef_"].shape[-1],
        dual_coef=dual_coef,
        support=problems.support(dual_coef),
        primal_objective=fsum(result.primal for result in results),
        dual_objective=fsum(result.dual for result in results),
        dual_gap=fsum(result.gap for result in results),
        relative_gap=max(result.relative_gap for result in results),
        converged=all(result.converged for result in results),
        n_iter=max(result.n_iter for result in results),
        history=_joined([result.history for result in results]),
        estimates=np.array(sorted(estimates, key=itemgetter(0, 2)), ESTIMATES_DTYPE),
    )


def _joined(histories: list[Array]) -> Array:
    """Return the histories of all problems, one after the other."""
    if len(histories) == 1:
        return histories[0]
    # `np.concatenate` looks for a common type, which takes longer than a small problem.
    joined = np.empty(sum(map(len, histories)), HISTORY_DTYPE)
    start = 0
    for history in histories:
        joined[start : start + len(history)] = history
        start += len(history)
    return joined

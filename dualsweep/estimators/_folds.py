"""Folds of a search: parts of the rows, side by side, each for one C after the other.

A fold is a vector of weights that are 0 on the rows it holds out, so that all folds share X, its
norms and its labels. It keeps its latest solution to start the next from: dual variables, weights
and slacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from copy import copy
from threading import Event
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..problem import Progress
from ..training.common import Steps, TrainingSet
from ..training.interrupt import DeferredInterrupt
from ..training.progress import Bars

__all__ = ["Fold", "Point", "advance_folds"]


class Point(NamedTuple):
    """What came of one C in one fold."""

    score: float
    seconds: float  # of training
    n_support: int
    relative_gap: float
    length: float  # of the weights, without the intercept


class Fold:
    """Rows to train on and rows to score on, for ascending values of C.

    Parameters
    ----------
    svc : LinearSVC
        Its parameters are those of every training; one thread each.
    data : TrainingSet
        All rows.
    train, test : indices, slices or masks
        Which of the rows; a row that is there twice counts twice.
    Cs : sequence of float
        Values of C.
    seed : int
        Of the order of visits.
    """

    def __init__(
        self, svc: Any, data: TrainingSet, train: Any, test: Any, Cs: Sequence[float], seed: int
    ) -> None:
        rows = np.arange(len(data.y))
        part = data.part(np.bincount(rows[train], minlength=len(rows)))
        if isinstance(svc.class_weight, dict):
            missing = set(data.classes.tolist()) - set(part.classes.tolist())
            svc = copy(svc)
            svc.class_weight = {k: w for k, w in svc.class_weight.items() if k not in missing}
        self.steps = Steps(svc, part, seed)
        self.test = rows[test]
        self.Cs = Cs
        self.points: list[Point] = []

    @property
    def finished(self) -> bool:
        """Whether all values of C have been tried."""
        return len(self.points) == len(self.Cs)

    def advance(
        self,
        score: Callable[[Any, Any], float],
        stop: Callable[[], bool],
        show: Callable[..., None],
    ) -> None:
        """Train and score the next C."""
        done, n_problems = len(self.points), len(self.steps.names)
        C = self.Cs[done]
        label = f"C {C:.3g}  "
        started = perf_counter()

        def watch(p: int, progress: Progress) -> bool:
            seen = progress.epoch, progress.relative_gap, progress.active
            show(*seen, step=done + p / n_problems, share=1 / n_problems, label=label)
            return False

        fitted = self.steps.step(C, n_threads=1, max_time=np.inf, stop=stop, watch=watch)
        seconds = perf_counter() - started
        model = copy(self.steps.svc)
        model.__dict__.update(fitted, C=float(C))
        active = int(model.history_["active"][-1])
        show(model.n_iter_, model.relative_gap_, active, step=done, share=1.0, label=label)
        self.points.append(
            Point(
                float("nan") if stop() else score(model, self.test),
                seconds,
                len(model.support_),
                model.relative_gap_,
                float(np.linalg.norm(model.coef_)),
            )
        )


def advance_folds(
    folds: list[Fold],
    score: Callable[[Any, Any], float],
    *,
    n_threads: int,
    interrupt: DeferredInterrupt,
    bars: Bars,
    enough: Callable[[int], bool] = lambda n: False,
) -> int:
    """Advance all folds to their last C, or until `enough`; return how many C all of them tried.

    `enough` is told the number of values of C that all folds have tried, each number once. Folds
    are a C or so ahead of each other, so that no thread waits; what a fold tried in excess is not
    counted, and the result does not depend on the number of threads.
    """
    halt = Event()

    def stop() -> bool:
        return halt.is_set() or interrupt.requested

    def submit(f: int) -> None:
        def show(*seen: Any, **where: Any) -> None:
            bars.update(f, *seen, **where)

        running[pool.submit(folds[f].advance, score, stop, show)] = f

    running: dict[Future[None], int] = {}
    tried = 0
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for f in range(len(folds)):
                submit(f)
            while running and not halt.is_set():
                wait(running, return_when=FIRST_COMPLETED)
                # From the latest back: of what is seen to be done, nothing earlier is missed.
                done = [future for future in reversed(running) if future.done()][::-1]
                ready = [running.pop(future) for future in done]
                for future in done:
                    future.result()
                while not stop() and tried < min(len(fold.points) for fold in folds):
                    tried += 1
                    if enough(tried):
                        halt.set()
                for f in ready:  # only now: a fold that is ahead waits for the verdict on the rest
                    if not folds[f].finished and not stop():
                        submit(f)
        finally:
            halt.set()
            for future in running:
                future.cancel()
    return tried

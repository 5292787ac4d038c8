"""Folds of a search: parts of the rows, side by side, each for one C after the other.

A fold is a vector of weights that are 0 on the rows it holds out, so that all folds share X, its
norms and its labels. It keeps its latest solution to start the next from: dual variables, weights
and slacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from copy import copy
from dataclasses import replace
from threading import Event
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..problems.result import Progress
from ..training import Context, Fitted, Settings, TrainingSet, Watcher, train
from ..training.progress import Bars
from .svc import LinearSVC

__all__ = ["Fold", "FoldWatcher", "Point", "advance_folds"]


class Point(NamedTuple):
    """What came of one C in one fold."""

    score: float
    seconds: float  # of training
    n_support: int
    relative_gap: float
    length: float  # of the weights, without the intercept


class FoldWatcher(Watcher):
    """Moves one of the bars, from `first` on, a step for each C."""

    def __init__(self, bars: Bars, bar: int, first: int = 0) -> None:
        self.bars, self.bar = bars, bar
        self.step, self.label = first - 1, ""

    def next_step(self, C: float) -> None:
        """Begin another C."""
        self.step, self.label = self.step + 1, f"C {C:.3g}  "

    def begin(self, names: list[str], attributes: Any) -> None:
        """Learn among how many problems a step is shared."""
        self.share = 1 / len(names)

    def epoch(self, p: int, progress: Progress) -> bool:
        """Move the bar."""
        self.show(*progress[:3], step=self.step + p * self.share, share=self.share)
        return False

    def show(
        self, epoch: int, relative_gap: float, active: int, step: float, share: float = 1.0
    ) -> None:
        """Move the bar to where it is told."""
        self.bars.update(self.bar, epoch, relative_gap, active, step, share, self.label)


class Fold:
    """Rows to train on and rows to score on, for ascending values of C.

    Parameters
    ----------
    svc : LinearSVC
        What is scored is a copy of it.
    settings : Settings
        Those of every training, but for C.
    data : TrainingSet
        All rows.
    train, test : indices, slices or masks
        Which of the rows; a row that is there twice counts twice.
    Cs : sequence of float
        Values of C.
    context : Context
        Where the fold is trained, with a `FoldWatcher`.
    """

    def __init__(
        self,
        svc: LinearSVC,
        settings: Settings,
        data: TrainingSet,
        train: Any,
        test: Any,
        Cs: Sequence[float],
        context: Context,
    ) -> None:
        rows = np.arange(len(data.y))
        self.data = data.part(np.bincount(rows[train], minlength=len(rows)), context)
        if isinstance(settings.class_weight, dict):
            missing = set(data.classes.tolist()) - set(self.data.classes.tolist())
            weights = {k: w for k, w in settings.class_weight.items() if k not in missing}
            settings = replace(settings, class_weight=weights)
        self.svc, self.settings, self.context = svc, settings, context
        self.test, self.Cs = rows[test], Cs
        self.fitted: Fitted | None = None
        self.points: list[Point] = []

    @property
    def finished(self) -> bool:
        """Whether all values of C have been tried."""
        return len(self.points) == len(self.Cs)

    def advance(self, score: Callable[[Any, Any], float]) -> None:
        """Train and score the next C."""
        C, watcher = float(self.Cs[len(self.points)]), self.context.watcher
        assert isinstance(watcher, FoldWatcher)
        watcher.next_step(C)
        started = perf_counter()
        settings = replace(self.settings, C=C)
        self.fitted = train(self.data, settings, self.context, before=self.fitted)
        seconds = perf_counter() - started
        model = copy(self.svc)
        model.__dict__.update(self.fitted.attributes(), C=C)
        active = int(model.history_["active"][-1])
        watcher.show(model.n_iter_, model.relative_gap_, active, step=watcher.step)
        self.points.append(
            Point(
                float("nan") if self.context.stop() else score(model, self.test),
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
    context: Context,
    halt: Event,
    enough: Callable[[int], bool] = lambda n: False,
) -> int:
    """Advance all folds to their last C, or until `enough`; return how many C all of them tried.

    `enough` is told the number of values of C that all folds have tried, each number once; then
    `halt` is set. Folds are a C or so ahead of each other, so that no thread waits; what a fold
    tried in excess is not counted, and the result does not depend on the number of threads.
    """

    def stop() -> bool:
        return halt.is_set() or context.stop()

    def submit(f: int) -> None:
        running[pool.submit(folds[f].advance, score)] = f

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

"""Folds of a search: parts of the rows, side by side, each for one C after the other.

A fold is a vector of weights that are 0 on the rows it holds out, so that all folds share X, its
norms and its labels. A solution is kept to start others from: dual variables, weights and slacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from copy import copy
from dataclasses import replace
from heapq import heappop, heappush
from threading import Event
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..problems.result import Progress
from ..training import Context, Fitted, Settings, TrainingSet, Watcher, train
from ..training.progress import Bars
from .svc import LinearSVC

__all__ = ["Fold", "FoldBar", "Point", "advance_folds"]


class Point(NamedTuple):
    """What came of one C in one fold."""

    score: float
    seconds: float  # of training
    n_support: int
    relative_gap: float
    length: float  # of the weights, without the intercept


class FoldBar(NamedTuple):
    """One of the bars, from `first` on, a step for each C."""

    bars: Bars
    number: int
    first: int = 0

    def show(self, C: float, progress: Progress, step: float, share: float = 1.0) -> None:
        """Move the bar, on its way from `step` to ``step + share``."""
        step, label = self.first + step, f"C {C:.3g}  "
        self.bars.update(self.number, *progress[:3], step, share, label)


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
        Where the fold is trained.
    bar : FoldBar
        Shows how far it is.
    stride : int
        Every so many values of C, one starts from the solution for the one so many before, and
        those in between from it as well: so many can be tried at once.
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
        bar: FoldBar,
        stride: int = 1,
    ) -> None:
        rows = np.arange(len(data.y))
        self.data = data.part(np.bincount(rows[train], minlength=len(rows)), context.workers)
        if isinstance(settings.class_weight, dict):
            missing = set(data.classes.tolist()) - set(self.data.classes.tolist())
            weights = {k: w for k, w in settings.class_weight.items() if k not in missing}
            settings = replace(settings, class_weight=weights)
        self.svc, self.settings = svc, settings
        self.test, self.Cs = rows[test], Cs
        self.context, self.bar, self.stride = context, bar, stride
        self.points: list[Point | None] = [None] * len(Cs)
        self.seeds: dict[int, Fitted] = {}

    @property
    def tried(self) -> int:
        """How many values of C have been tried, without a gap."""
        return [*self.points, None].index(None)

    def started_by(self, c: int) -> range:
        """Return which values of C start from the c-th."""
        stop = c + 1 + (self.stride if c % self.stride == 0 else 0)
        return range(c + 1, min(stop, len(self.Cs)))

    def advance(self, c: int, score: Callable[[Any, Any], float]) -> None:
        """Train and score the c-th C; all that it starts from have been tried."""
        C, seed = float(self.Cs[c]), c - (c % self.stride or self.stride)
        stop, workers = self.context.stop, self.context.workers
        context = self.context.part(_FoldWatcher(self, c), stop, workers)
        started = perf_counter()
        settings = replace(self.settings, C=C)
        fitted = train(self.data, settings, context, before=self.seeds.get(seed))
        seconds = perf_counter() - started
        model = copy(self.svc)
        model.__dict__.update(fitted.attributes(), C=C)
        if self.started_by(c):
            self.seeds[c] = fitted
        self.points[c] = Point(
            float("nan") if stop() else score(model, self.test),
            seconds,
            len(model.support_),
            model.relative_gap_,
            float(np.linalg.norm(model.coef_)),
        )
        last = Progress(model.n_iter_, model.relative_gap_, model.history_["active"][-1], None)
        self.bar.show(C, last, self.tried - 1.0)
        if c > 0 and all(self.points[other] for other in self.started_by(seed)):
            self.seeds.pop(seed, None)


class _FoldWatcher(Watcher):
    """Moves the bar of a fold; of several C at once, the smallest is shown."""

    def __init__(self, fold: Fold, c: int) -> None:
        self.fold, self.c = fold, c

    def begin(self, names: list[str], attributes: Any) -> None:
        """Learn among how many problems a step is shared."""
        self.share = 1 / len(names)

    def epoch(self, p: int, progress: Progress) -> bool:
        """Move the bar."""
        if self.c == self.fold.tried:
            C, step = float(self.fold.Cs[self.c]), self.c + p * self.share
            self.fold.bar.show(C, progress, step, self.share)
        return False


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
    `halt` is set. The smallest C that can be tried are tried first, so many at once that no thread
    waits; what is tried in excess is not counted, and the result does not depend on the number of
    threads.
    """
    ready = [(0, f) for f in range(len(folds))]
    running: dict[Future[None], tuple[int, int]] = {}
    tried = 0
    try:
        while (ready or running) and not halt.is_set():
            while ready and len(running) < n_threads and not context.stop():
                c, f = heappop(ready)
                running[context.workers.submit(folds[f].advance, c, score)] = (c, f)
            if not running:
                break
            wait(running, return_when=FIRST_COMPLETED)
            for future in [future for future in running if future.done()]:
                c, f = running.pop(future)
                future.result()
                for other in folds[f].started_by(c):
                    heappush(ready, (other, f))
            while not context.stop() and tried < min(fold.tried for fold in folds):
                tried += 1
                if enough(tried):
                    halt.set()
    finally:
        halt.set()
        for future in running:
            future.cancel()
        wait(running)
    return tried

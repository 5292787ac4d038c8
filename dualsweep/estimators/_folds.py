"""Folds of a search: parts of the rows, trained side by side, for one C after the other.

A fold is a vector of weights that are 0 on the rows it holds out, so that all folds share X, its
norms and its labels. Solutions (dual variables, weights, slacks) are kept to start others from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from copy import copy
from heapq import heappop, heappush
from math import sqrt
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from .._clock import clock
from .._host import to_host
from .._threads import wait_for_one
from ..kernels.certificate import squared_length
from ..placements import BlockSet, DeviceSet, TrainingSet
from ..problems.result import Progress
from ..training import Context, Fitted, Settings, Watcher, train
from ..training.progress import Bars
from .certified import CertifiedModel

_ASSESS, _TRAIN = 0, 1  # in order of priority for the same C


class Point(NamedTuple):
    """The result of one C in one fold."""

    score: float
    seconds: float  # of training
    n_support: int
    relative_gap: float
    length: float  # of the weights, without the intercept


class FoldBar(NamedTuple):
    """The bar of a fold: a step for each C, the first of which is step `first`."""

    bars: Bars
    number: int
    first: int = 0

    def show(self, C: float, progress: Progress, step: float, share: float = 1.0) -> None:
        """Show how far training is between `step` and ``step + share``."""
        step, label = self.first + step, f"C {C:.3g}  "
        self.bars.update(self.number, progress, step, share, label)


class Fold:
    """Rows to train on and rows to score on, for ascending values of C.

    A row that is in `train` twice counts twice. Every `stride` values of C, one starts from the
    solution `stride` values before it, and those in between start from it too: that many can be
    trained at once. `goes_on` keeps the solution for the last C, for more values to start from.
    """

    def __init__(
        self,
        model: CertifiedModel,
        settings: Settings,
        data: TrainingSet | BlockSet | DeviceSet,
        train: Any,
        test: Any,
        Cs: Sequence[float],
        context: Context,
        bar: FoldBar,
        stride: int = 1,
        goes_on: bool = False,
    ) -> None:
        rows = np.arange(len(data.y))
        times = np.bincount(rows[train], minlength=len(rows))
        self.data: TrainingSet | BlockSet | DeviceSet = data.part(times, context.workers)
        if isinstance(settings.class_weight, dict):
            missing = set(data.classes.tolist()) - set(self.data.classes.tolist())
            weights = {k: w for k, w in settings.class_weight.items() if k not in missing}
            settings = settings.but(class_weight=weights)
        self.model, self.settings = model, settings
        self.test = test
        self.context, self.bar, self.stride = context, bar, stride
        self.first: Fitted | None = None  # that the first C starts from
        self._begin(Cs, goes_on)

    def _begin(self, Cs: Any, goes_on: bool) -> None:
        self.Cs, self.goes_on = Cs, goes_on
        self.points: list[Point | None] = [None] * len(Cs)
        self.fitted: dict[int, Fitted] = {}  # to be assessed, or for others to start from
        self.seconds: dict[int, float] = {}

    def onwards(self, Cs: Any, *, warm: bool) -> Fold:
        """Return the fold for other C; if `warm`, the first of them starts from the last here."""
        twin = copy(self)
        twin.first = self.fitted.pop(len(self.Cs) - 1, None) if warm else None
        twin.bar = self.bar._replace(first=self.bar.first + len(self.Cs))
        twin._begin(Cs, goes_on=False)
        return twin

    @property
    def tried(self) -> int:
        """The number of smallest C that have all been tried."""
        return [*self.points, None].index(None)

    def started_by(self, c: int) -> range:
        """Return the positions of the C that start from the c-th."""
        stop = c + 1 + (self.stride if c % self.stride == 0 else 0)
        return range(c + 1, min(stop, len(self.Cs)))

    def train(self, c: int) -> None:
        """Train the c-th C; the one that it starts from has been trained."""
        C, seed = float(self.Cs[c]), c - (c % self.stride or self.stride)
        how = self.context
        context = how.part(_FoldWatcher(self, c), how.stop, how.workers)
        started = clock()
        before = self.first if c == 0 else self.fitted.get(seed)
        self.fitted[c] = train(self.data, self.settings.but(C=C), context, before=before)
        if c == 0:
            self.first = None
        self.seconds[c] = clock() - started

    def assess(self, c: int, score: Callable[[Any, Any], float]) -> None:
        """Score the model for the c-th C, and drop solutions that are no longer needed."""
        C, model = float(self.Cs[c]), copy(self.model)
        model.__dict__.update(self.fitted[c].attributes(), C=C)
        self.points[c] = Point(
            float("nan") if self.context.stop() else score(model, self.test),
            self.seconds[c],
            model.support_.shape[0],
            model.relative_gap_,
            sqrt(squared_length(to_host(model.coef_).ravel())),
        )
        last = Progress(model.n_iter_, model.relative_gap_, model.history_["active"][-1], None)
        self.bar.show(C, last, self.tried - 1.0)
        for done in list(self.fitted):
            if self.goes_on and done == len(self.Cs) - 1:
                continue
            if self.points[done] and all(self.points[other] for other in self.started_by(done)):
                self.fitted.pop(done, None)


class _FoldWatcher(Watcher):
    """Moves the bar of a fold; if several C are trained at once, it shows the smallest."""

    def __init__(self, fold: Fold, c: int) -> None:
        self.fold, self.c = fold, c

    def begin(self, names: list[str], attributes: Any) -> None:
        """Note how many problems share a step."""
        self.share = 1 / len(names)

    def epoch(self, p: int, progress: Progress) -> bool:
        """Move the bar."""
        if self.fold.bar.bars.shown and self.c == self.fold.tried:
            C, step = float(self.fold.Cs[self.c]), self.c + p * self.share
            self.fold.bar.show(C, progress, step, self.share)
        return False


def masks_of(splits: Iterable[tuple[Any, Any]], n_rows: int) -> list[tuple[Any, Any]]:
    """Return splits as masks, which take an eighth of the memory of row numbers."""
    found = []
    for parts in splits:
        masks = np.zeros((2, n_rows), bool)
        for mask, part in zip(masks, parts, strict=True):
            mask[part] = True
        if [len(np.arange(n_rows)[part]) for part in parts] != masks.sum(axis=1).tolist():
            raise ValueError(
                "When training block by block, a fold of cv must not have a row twice."
            )
        found.append((masks[0], masks[1]))
    return found


def advance_folds(
    folds: list[Fold],
    score: Callable[[Any, Any], float],
    *,
    n_threads: int,
    context: Context,
    halt: Event,
    enough: Callable[[int], bool] = lambda n: False,
    idle: Callable[[int], None] = lambda n: None,
) -> int:
    """Advance all folds to their last C, or until `enough`; return how many C all of them tried.

    ``enough(n)`` is asked once for each number n of C that all folds have tried; if it is true,
    `halt` is set. ``idle(n)`` is called whenever a thread has nothing to do. The smallest C come
    first, as many at once as there are threads. What is tried beyond the last is not counted, so
    that the result does not depend on the number of threads.
    """
    ready = [(0, _TRAIN, f) for f in range(len(folds))]
    running: dict[Future[None], tuple[int, int, int]] = {}
    begin = context.workers.submit if n_threads > 1 else _done
    tried = 0
    try:
        while (ready or running) and not halt.is_set():
            while ready and len(running) < n_threads and not context.stop():
                c, what, f = heappop(ready)
                task = (folds[f].train, c) if what == _TRAIN else (folds[f].assess, c, score)
                running[begin(*task)] = (c, what, f)
            if not running:
                break
            for future in wait_for_one(running):
                c, what, f = running.pop(future)
                future.result()
                if what == _TRAIN:
                    heappush(ready, (c, _ASSESS, f))
                    for other in folds[f].started_by(c):
                        heappush(ready, (other, _TRAIN, f))
            while not context.stop() and tried < min(fold.tried for fold in folds):
                tried += 1
                if enough(tried):
                    halt.set()
            if len(ready) + len(running) < n_threads and not (halt.is_set() or context.stop()):
                idle(tried)
    finally:
        halt.set()
        for future in running:
            future.cancel()
        wait(running)
    return tried


def _done(function: Callable[..., None], *arguments: Any) -> Future[None]:
    """Call a function in this thread: to hand small work to another takes longer than the work."""
    future: Future[None] = Future()
    function(*arguments)
    future.set_result(None)
    return future

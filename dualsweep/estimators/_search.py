"""The search for C: train all folds, decide when to stop, and train the best C ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Event
from typing import Any

from .._threads import Workers, wait_for_one
from ..placements import BlockSet, DeviceSet, TrainingSet
from ..training import Context, Fitted, Settings, Watcher, train
from ..training.parameters import Choice
from ._folds import Fold, FoldBar, advance_folds
from ._tried import Tried, choose, go_further
from .certified import CertifiedModel

# Where folds times classes are fewer than ENOUGH problems, STRIDE values of C are tried at once:
# threads would wait if each C started from the one before. It takes some 10 % more processor time
# (imdb), since the solution for a much smaller C is a worse start.
STRIDE, ENOUGH = 3, 16


def search(
    model: CertifiedModel,
    settings: Settings,
    data: TrainingSet | BlockSet | DeviceSet,
    splits: Sequence[tuple[Any, Any]],
    Cs: Any,
    score: Callable[[Any, Any], float],
    choice: Choice,
    context: Context,
    *,
    goes_on: bool,
) -> tuple[dict[str, Any], int, Fitted | None]:
    """Try ascending values of C; return what was found, the position of the best, and its model.

    What was found is attributes of `LinearSVCCV`. The model, for all rows, is None unless a thread
    had the time to make it. With `goes_on`, C past an end of the range is tried if that is best.
    """
    patience, selection = choice.patience, choice.selection
    tol = choice.tol_search or settings.tol
    context.bars.tol = tol
    context.bars.open([f"fold {f + 1}" for f in range(len(splits))], "folds")
    halt = Event()

    def stop() -> bool:
        return halt.is_set() or context.stop()

    def enough(n: int) -> bool:
        return patience is not None and Tried.first(folds, n).since_best() >= patience

    def train_ahead(n: int) -> None:
        best = choose(*Tried.first(folds, n).scored()[1:], selection) if n else 0
        if best < n - 1:  # larger C were worse
            ahead.aim(float(Cs[best]))

    def advance(
        folds: list[Fold], enough: Callable[[int], bool], idle: Callable[[int], None] = _do_nothing
    ) -> int:
        halt.clear()
        context.bars.extend(len(folds[0].Cs) + folds[0].bar.first)
        options: Any = {"enough": enough, "idle": idle, "context": part, "halt": halt}
        n = advance_folds(folds, score, n_threads=at_once, **options)
        context.give_up()
        return n

    def make(C: float, dropped: Callable[[], bool]) -> Fitted:
        quiet = context.part(Watcher(), lambda: dropped() or context.stop(), workers)
        return train(data.shared(workers), settings.but(C=C), quiet)  # type: ignore[union-attr]

    searched = settings.but(tol=tol)
    n_classes = len(data.problems(settings).names)
    n_threads = context.workers.n_threads
    alone = n_classes == 1 and isinstance(data, TrainingSet) and not context.bars.shown
    alone = alone and n_threads > 1
    in_blocks = isinstance(data, BlockSet)  # memory is meant for one training
    stride = 1 if len(splits) * n_classes >= ENOUGH or in_blocks else STRIDE
    at_once = 1 if in_blocks else n_threads
    folds: list[Fold] = []
    with Workers(n_threads + (at_once > 1)) as workers:  # this thread waits for the others
        part = context.part(Watcher(), stop, workers)
        ahead = _Ahead(make, workers)
        for f, (train_rows, test_rows) in enumerate(splits):
            try:
                options = part, FoldBar(context.bars, f), stride, goes_on
                fold = Fold(model, searched, data, train_rows, test_rows, Cs, *options)
            except ValueError as error:
                raise ValueError(f"In the training part of fold {f + 1}: {error}") from error
            folds.append(fold)
        try:
            idle = train_ahead if alone else _do_nothing
            tried = Tried.first(folds, advance(folds, enough, idle))
            if goes_on:
                # A score that knows of no weights of classes would have a small C undo them.
                downwards = settings.class_weight is None
                tried = go_further(folds, tried, patience, tol, advance, downwards)
            scores, mean, std_error = tried.scored()
            best = choose(mean, std_error, selection)
            fitted = ahead.result(float(tried.Cs[best]))
        finally:
            ahead.drop()
    found = {
        "Cs_": tried.Cs,
        "scores_": scores,
        "mean_score_": mean,
        "std_error_": std_error,
        "fit_time_": tried.collect("seconds"),
        "n_support_": tried.collect("n_support"),
        "search_gap_": tried.collect("relative_gap"),
    }
    return found, best, fitted


class _Ahead:
    """Trains the model for the C that looks best so far, on a thread with nothing else to do.

    Only a single problem is trained ahead: no other thread can help with its sweeps, which would be
    all that is left when the search ends (imdb: a quarter of the time that 16 threads take). `make`
    returns the model for a C, or something else once it is dropped.
    """

    def __init__(self, make: Callable[[float, Callable[[], bool]], Fitted], workers: Workers):
        self.make, self.workers = make, workers
        self.C, self.dropped = 0.0, Event()
        self.model: Future[Fitted]

    def aim(self, C: float) -> None:
        """Begin the model for this C, unless that is the one being made."""
        if self.C != C:
            self.drop()
            self.C, self.dropped = C, Event()
            self.model = self.workers.submit(self.make, C, self.dropped.is_set)

    def drop(self) -> None:
        """Stop making the model."""
        self.dropped.set()

    def result(self, C: float) -> Fitted | None:
        """Return the model for this C, or None if it was not begun."""
        return wait_for_one([self.model]).pop().result() if self.C == C else None


def _do_nothing(n: int) -> None:
    """Leave a thread that has nothing to do idle."""

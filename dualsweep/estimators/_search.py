"""The search for C: all folds, when to stop raising C, and the model that looks best meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from typing import Any

from .._threads import Workers, wait_for_one
from ..placements import BlockSet, DeviceSet, TrainingSet
from ..training import Context, Fitted, Settings, Watcher, train
from ._folds import Fold, FoldBar, advance_folds
from ._tried import Tried, choose, go_further
from .certified import CertifiedModel

# Where folds and classes make fewer than ENOUGH problems, threads would wait for each other if each
# C started from the one before: then STRIDE of them are tried at once. That takes some 10 % more
# processor time (imdb), since solutions for a smaller C are worth less.
STRIDE, ENOUGH = 3, 16


def search(
    model: CertifiedModel,
    settings: Settings,
    data: TrainingSet | BlockSet | DeviceSet,
    splits: Any,
    Cs: Any,
    score: Callable[[Any, Any], float],
    patience: int | None,
    selection: str,
    tol: float,
    context: Context,
    goes_on: bool = False,
) -> tuple[dict[str, Any], int, Fitted | None]:
    """Return what there is to know of the search, as attributes, and which C to choose.

    And the model of all rows for this C, if a thread had the time to make it.

    Parameters
    ----------
    model : LinearSVC or LinearSVR
        What is scored is a copy of it.
    settings : Settings
        Those of the model, but for C.
    data : TrainingSet, BlockSet or DeviceSet
        All rows.
    splits : list of pairs
        Rows to train and to score on, for each fold.
    Cs : array
        Values of C, ascending.
    score : callable
        Returns the score of a model on some rows.
    patience, selection : int or None, str
        See `LinearSVCCV`.
    tol : float
        That of the trainings of the search.
    context : Context
        Where all folds are trained.
    goes_on : bool
        Whether to try more values of C if the first or the last is best.

    Returns
    -------
    dict
        Attributes of `LinearSVCCV` and `LinearSVRCV`.
    int
        Which of the values of C to choose.
    Fitted or None
        The model.
    """
    context.bars.tol = tol
    context.bars.open([f"fold {f + 1}" for f in range(len(splits))], "folds")
    halt = Event()

    def stop() -> bool:
        return halt.is_set() or context.stop()

    def enough(n: int) -> bool:
        return patience is not None and Tried.first(folds, n).since_best() >= patience

    def idle(n: int) -> None:
        best = choose(*Tried.first(folds, n).scored()[1:], selection) if n else 0
        if best < n - 1:  # larger C were worse
            ahead.aim(float(Cs[best]))

    def advance(
        folds: list[Fold], enough: Callable[[int], bool], idle: Callable[[int], None] = _pass
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

    n_classes = len(data.problems(settings).names)
    n_problems = len(splits) * n_classes
    alone = n_classes == 1 and isinstance(data, TrainingSet) and not context.bars.shown
    searched = settings.but(tol=tol)
    in_blocks = isinstance(data, BlockSet)  # memory is meant for one training
    stride = 1 if n_problems >= ENOUGH or in_blocks else STRIDE
    n_threads = context.workers.n_threads
    at_once = 1 if in_blocks else n_threads
    folds: list[Fold] = []
    with Workers(n_threads + 1) as workers:  # this thread waits for the others
        part = context.part(Watcher(), stop, workers)
        ahead = _Ahead(make, workers)
        for f, (train_rows, test_rows) in enumerate(splits):
            try:
                bar = FoldBar(context.bars, f)
                how = part, bar, stride, goes_on
                fold = Fold(model, searched, data, train_rows, test_rows, Cs, *how)
            except ValueError as error:
                raise ValueError(f"In the training part of fold {f + 1}: {error}") from error
            folds.append(fold)
        try:
            tried = Tried.first(folds, advance(folds, enough, idle if alone else _pass))
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
    """The model for the C that looks best so far, made by a thread that has nothing else to do.

    Of a single problem: nobody can help with its sweeps, and they would be all that is left to do
    when the search is over (imdb: a quarter of the time that 16 threads take).

    Parameters
    ----------
    make : callable
        Returns the model for a C, or something else if told to stop.
    workers : Workers
        Whose threads they are.
    """

    def __init__(self, make: Callable[[float, Callable[[], bool]], Fitted], workers: Workers):
        self.make, self.workers = make, workers
        self.C, self.dropped = 0.0, Event()
        self.model: Future[Fitted]

    def aim(self, C: float) -> None:
        """See to it that it is the model for this C that is made."""
        if self.C != C:
            self.drop()
            self.C, self.dropped = C, Event()
            self.model = self.workers.submit(self.make, C, self.dropped.is_set)

    def drop(self) -> None:
        """Let go of it."""
        self.dropped.set()

    def result(self, C: float) -> Fitted | None:
        """Return the model for this C, if it was begun."""
        return wait_for_one([self.model]).pop().result() if self.C == C else None


def _pass(n: int) -> None:
    """Give a thread that waits nothing to do."""

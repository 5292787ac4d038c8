"""The search for C: scores of all folds, when to stop raising C, and which one to choose."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import numpy as np

from .._threads import Workers
from ..training import BlockSet, Context, DeviceSet, Settings, TrainingSet, Watcher
from ._folds import Fold, FoldBar, advance_folds
from .certified import CertifiedModel

__all__ = ["choose", "search"]

# Weights that grow faster than this power of C: rows are still at their bound, as at C = 0, and the
# scores stand still because nothing but the length of the weights has changed yet.
STILL_GROWING = 0.5

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
    context: Context,
) -> dict[str, Any]:
    """Return scores and what else there is to know of the search, as attributes.

    Parameters
    ----------
    model : LinearSVC or LinearSVR
        What is scored is a copy of it.
    settings : Settings
        Those of every training, but for C.
    data : TrainingSet, BlockSet or DeviceSet
        All rows.
    splits : list of pairs
        Rows to train and to score on, for each fold.
    Cs : array
        Values of C, ascending.
    score : callable
        Returns the score of a model on some rows.
    patience : int or None
        See `LinearSVCCV`.
    context : Context
        Where all folds are trained.

    Returns
    -------
    dict
        Attributes of `LinearSVCCV` and `LinearSVRCV`.
    """
    context.bars.tol = settings.tol
    context.bars.open([f"fold {f + 1}" for f in range(len(splits))], "folds")
    halt = Event()

    def stop() -> bool:
        return halt.is_set() or context.stop()

    def collect(name: str, n: int) -> Any:
        return np.array([[getattr(p, name) for p in fold.points[:n]] for fold in folds])

    def enough(n: int) -> bool:
        return patience is not None and _settled(
            collect("score", n).mean(axis=0), collect("length", n), Cs[:n], patience
        )

    n_problems = len(splits) * len(data.formulate(settings).names)
    in_blocks = isinstance(data, BlockSet)  # memory is meant for one training
    stride = 1 if n_problems >= ENOUGH or in_blocks else STRIDE
    n_threads = context.workers.n_threads
    at_once = 1 if in_blocks else n_threads
    folds = []
    with Workers(n_threads + 1) as workers:  # this thread waits for the others
        part = context.part(Watcher(), stop, workers)
        for f, (train_rows, test_rows) in enumerate(splits):
            try:
                bar = FoldBar(context.bars, f)
                fold = Fold(model, settings, data, train_rows, test_rows, Cs, part, bar, stride)
            except ValueError as error:
                raise ValueError(f"In the training part of fold {f + 1}: {error}") from error
            folds.append(fold)
        n = advance_folds(folds, score, n_threads=at_once, context=part, halt=halt, enough=enough)
    scores = collect("score", n)
    deviation = scores.std(axis=0, ddof=1) if len(folds) > 1 else np.full(n, np.nan)
    return {
        "Cs_": Cs[:n],
        "scores_": scores,
        "mean_score_": scores.mean(axis=0),
        "std_error_": deviation / np.sqrt(len(folds)),
        "fit_time_": collect("seconds", n),
        "n_support_": collect("n_support", n),
        "search_gap_": collect("relative_gap", n),
    }


def choose(mean: Any, std_error: Any, selection: str) -> int:
    """Return the position of the C of choice."""
    best = int(mean.argmax())
    if selection == "best":
        return best
    return int(np.argmax(mean >= mean[best] - std_error[best]))


def _settled(mean: Any, lengths: Any, Cs: Any, patience: int) -> bool:
    """Tell whether the scores have settled; see `patience`."""
    with np.errstate(divide="ignore", invalid="ignore"):  # weights may be 0
        growth = np.diff(np.log(lengths).mean(axis=0)) / np.diff(np.log(Cs))
    since_best = growth[mean.argmax() :]
    return int((since_best < STILL_GROWING).sum()) >= patience

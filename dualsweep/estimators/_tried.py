"""The values of C that a search has tried, their results, and which of them to choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np

from ._folds import Fold, Point

# Where weights grow faster than this power of C, most rows are still at their bound, as at C = 0:
# scores stand still because only the length of the weights changes.
STILL_GROWING = 0.5

# A search goes on past its range in steps of at least STEP, by a factor of at most FURTHEST on
# either side, until PATIENCE values in a row are no better. Columns in different units need it:
# where a few are long, those that matter can be a thousandth of the length of a row.
STEP, FURTHEST, PATIENCE = 4.0, 4.0**10, 3


class Tried(NamedTuple):
    """Ascending values of C, and the points of each fold."""

    Cs: Any
    points: list[list[Point]]

    @classmethod
    def first(cls, folds: Sequence[Fold], n: int) -> Tried:
        """Return the first n values that folds have tried."""
        order = slice(None, None, 1 if n < 2 or folds[0].Cs[0] < folds[0].Cs[1] else -1)
        points: Any = [fold.points[:n][order] for fold in folds]
        return cls(np.asarray(folds[0].Cs[:n], np.float64)[order], points)

    def then(self, larger: Tried) -> Tried:
        """Return these values and larger ones."""
        points = [a + b for a, b in zip(self.points, larger.points, strict=True)]
        return Tried(np.concatenate([self.Cs, larger.Cs]), points)

    def collect(self, name: str) -> Any:
        """Return a field of the points, per fold and C."""
        return np.array([[getattr(point, name) for point in fold] for fold in self.points])

    def scored(self) -> tuple[Any, Any, Any]:
        """Return the scores, their means, and the standard errors of the means."""
        scores, n_folds = self.collect("score"), len(self.points)
        deviation = scores.std(axis=0, ddof=1) if n_folds > 1 else np.full(len(self.Cs), np.nan)
        return scores, scores.mean(axis=0), deviation / np.sqrt(n_folds)

    @property
    def mean(self) -> Any:
        """The mean score of each C."""
        return self.scored()[1]

    def since_best(self) -> int:
        """Return how many values after the best were no better; see `patience`."""
        return _since_best(self.mean, self.collect("length"), self.Cs)

    def proves_last(self, tol: float) -> bool:
        """Return whether all folds have proven this gap at the largest C."""
        return bool(self.collect("relative_gap")[:, -1].max() <= tol)


def _since_best(mean: Any, lengths: Any, Cs: Any) -> int:
    """Count the C after the best at which training has begun."""
    with np.errstate(divide="ignore", invalid="ignore"):  # weights may be 0
        growth = np.diff(np.log(lengths).mean(axis=0)) / np.diff(np.log(Cs))
    return int((growth[mean.argmax() :] < STILL_GROWING).sum())


def choose(mean: Any, std_error: Any, selection: str) -> int:
    """Return the position of the C of choice."""
    best = int(mean.argmax())
    if selection == "best":
        return best
    return int(np.argmax(mean >= mean[best] - std_error[best]))


def go_further(
    folds: list[Fold],
    tried: Tried,
    patience: int | None,
    tol: float,
    advance: Callable[[list[Fold], Callable[[int], bool]], int],
    downwards: bool,
) -> Tried:
    """Try C beyond the range of the folds if its first or last value is best.

    Larger ones are also tried if training has not begun at the last, but only while gaps of `tol`
    are proven: a larger C takes longer still. Smaller ones are tried if `downwards`. `advance`
    lets folds try theirs until there are enough, and returns how many were tried.
    """
    patience = patience or PATIENCE
    Cs = folds[0].Cs
    step = max(Cs[1] / Cs[0], STEP)
    factors = step ** np.arange(1, int(log(FURTHEST) / log(step) + 1e-9) + 1)

    def enough_above(n: int) -> bool:
        both = below.then(Tried.first(folds, n))
        return both.since_best() >= patience or not both.proves_last(tol)

    def enough_below(n: int) -> bool:
        means = [best, *(Tried.first(folds, m).mean[0] for m in range(1, n + 1))]
        return n - int(np.argmax(means)) >= patience

    if len(tried.Cs) == len(Cs) and tried.since_best() == 0 and tried.proves_last(tol):
        below, folds = tried, [fold.onwards(Cs[-1] * factors, warm=True) for fold in folds]
        tried = below.then(Tried.first(folds, advance(folds, enough_above)))
    best = tried.mean.max()
    if downwards and tried.mean.argmax() == 0:
        folds = [fold.onwards(Cs[0] / factors, warm=False) for fold in folds]
        tried = Tried.first(folds, advance(folds, enough_below)).then(tried)
    return tried

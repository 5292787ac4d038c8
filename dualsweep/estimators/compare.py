"""`compare_multiclass`: which formulation to use on some data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations
from threading import Event
from typing import Any

import numpy as np
from scipy.stats import wilcoxon
from sklearn.utils import check_random_state

from ..placements import TrainingSet, load_if_it_fits
from ..training import Context, Watcher
from ..training.formulations import OF_MARGINS
from ._device import refuse_device
from ._folds import Fold, FoldBar, Point
from ._validation import check_Cs, check_data
from .certified import warn_of_gaps
from .svc import LinearSVC

TRAIN, VALIDATE, TEST = range(3)
CUTS = (0.6, 0.8)  # train on 60 % of each class, validate on 20 %, test on 20 %


@dataclass(frozen=True)
class MulticlassComparison:
    """Test accuracies of several methods on the same partitions of the rows.

    ``print`` shows the table.

    Attributes
    ----------
    methods : tuple of str
        Values of `multi_class`.
    accuracy : ndarray of shape (n_repeats, n_methods)
        On the test part, of the model that was trained on the other two with the best C.
    C : ndarray of shape (n_repeats, n_methods)
        The C that was best on the validation part; of equals, the smallest.
    relative_gap : ndarray of shape (n_repeats, n_methods)
        The largest relative duality gap of all trainings that went into an accuracy.
    """

    methods: tuple[str, ...]
    accuracy: Any
    C: Any
    relative_gap: Any

    @property
    def mean(self) -> Any:
        """Mean accuracy of each method."""
        return self.accuracy.mean(axis=0)

    @property
    def deviation(self) -> Any:
        """Standard deviation of the accuracies of each method."""
        return self.accuracy.std(axis=0, ddof=1)

    @property
    def p_values(self) -> dict[tuple[str, str], float]:
        """Two-sided p-value of the Wilcoxon signed-rank test for each pair of methods."""
        pairs = combinations(range(len(self.methods)), 2)
        return {
            (self.methods[i], self.methods[j]): _p_value(self.accuracy[:, i] - self.accuracy[:, j])
            for i, j in pairs
        }

    @property
    def least_p_value(self) -> float:
        """The smallest p-value that so few partitions can give, where one method always wins."""
        return 2.0 ** (1 - len(self.accuracy))

    def chosen(self, m: int) -> str:
        """Return which C were chosen for a method, from the smallest to the largest.

        Parameters
        ----------
        m : int
            Number of the method, as in `methods`.
        """
        low, high = self.C[:, m].min(), self.C[:, m].max()
        return f"C = {low:g}" if low == high else f"C = {low:g} to {high:g}"

    def __str__(self) -> str:
        width = max(map(len, self.methods))
        lines = [f"Test accuracy over {len(self.accuracy)} partitions, mean ± standard deviation"]
        for m, method in enumerate(self.methods):
            figures = f"{100 * self.mean[m]:6.2f} ± {100 * self.deviation[m]:.2f} %"
            lines.append(f"  {method:{width}}  {figures}  {self.chosen(m)}")
        lines.append(
            f"Wilcoxon signed-rank test, p-values (at least {self.least_p_value:.2g} with "
            f"{len(self.accuracy)} partitions)"
        )
        for (one, other), p in self.p_values.items():
            lines.append(f"  {one:{width}}  {other:{width}}  {p:.2g}")
        return "\n".join(lines)


def compare_multiclass(
    X: Any,
    y: Any,
    *,
    Cs: Any = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    n_repeats: int = 10,
    loss: str = "hinge",
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
    **params: Any,
) -> MulticlassComparison:
    """Compare one-versus-rest, Crammer-Singer and Weston-Watkins on the same data.

    The protocol is that of Keerthi et al. (2008, section 4): repeatedly, the rows of each class are
    split at random into 60 % to train on, 20 % to choose C on and 20 % to test on. Each method is
    trained for each C and, with the C that is best, on train and validation rows together; what
    counts is the accuracy on the test rows. All methods see the same partitions.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows; not changed, and not copied where `LinearSVC` does not.
    y : array-like of shape (n_samples,)
        Labels of at least three classes.
    Cs : int or array-like, default=(0.01, 0.03, 0.1, 0.3, 1, 3, 10)
        Values of C to choose from, or how many, from 2^-6 to 2^3 at equal ratios.
    n_repeats : int, default=10
        Number of partitions, at least 2.
    loss : {"hinge", "squared_hinge", "squared", "logistic"}, default="hinge"
        Of one-versus-rest; the other two have losses of their own.
    n_jobs : int, default=None
        Threads that train methods and partitions; they share X. None means 1, -1 all cores. The
        result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the partitions and the order of visits.
    verbose : int, default=0
        1 shows progress.
    **params : dict
        Other parameters of `LinearSVC`, but for `C`, `multi_class`, `warm_start`, `max_time` and
        `memory_limit`.

    Returns
    -------
    MulticlassComparison
        Accuracies, chosen C, and tests of the differences.

    Warns
    -----
    ConvergenceWarning
        If some relative gap is still above `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualsweep import compare_multiclass
    >>> X, y = load_iris(return_X_y=True)
    >>> result = compare_multiclass(X, y, Cs=[0.1, 1.0], n_repeats=4, random_state=0)
    >>> result.accuracy.shape
    (4, 3)
    >>> sorted(result.p_values)[0]
    ('crammer_singer', 'weston_watkins')
    """
    refused = {"C", "multi_class", "warm_start", "max_time", "memory_limit"} & params.keys()
    if refused:
        raise TypeError(f"compare_multiclass takes no {' and no '.join(sorted(refused))}.")
    if n_repeats < 2:
        raise ValueError(f"n_repeats must be at least 2, but is {n_repeats}.")
    Cs = check_Cs(Cs)
    svcs = [
        LinearSVC(multi_class=m, loss=loss, n_jobs=n_jobs, verbose=verbose, **params)
        for m in OF_MARGINS
    ]
    for svc in svcs:
        svc._validate_params()
    refuse_device(X, "compare_multiclass")
    X, y = load_if_it_fits(X, y, memory_limit=None)
    X, y, _ = check_data(LinearSVC(), X, y, None)
    rng = np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    with svcs[0]._context(steps=len(Cs) + 1) as context:
        data = TrainingSet(X, y, None, svcs[0]._settings(), context)
        if len(data.classes) < 3:
            raise ValueError(
                f"compare_multiclass needs at least 3 classes, but y has {len(data.classes)}: with "
                "two, all methods are the same."
            )
        parts = [_partition(data.codes, rng) for _ in range(n_repeats)]
        if len(np.unique(parts[0])) < 3:
            raise ValueError(
                f"{len(y)} rows of {len(data.classes)} classes are too few to train, validate and "
                "test on: some class needs at least 4."
            )
        seed = int(rng.integers(2**31))
        accuracy, best, gaps = _run(svcs, data, X, y, parts, Cs, seed, context)
        context.give_up()
    limits = "max_iter or tol"
    warn_of_gaps("compare_multiclass", gaps, svcs[0].tol, "comparisons", limits)
    return MulticlassComparison(tuple(OF_MARGINS), accuracy, best, gaps)


def _run(
    svcs: list[LinearSVC],
    data: TrainingSet,
    X: Any,
    y: Any,
    parts: Any,
    Cs: Any,
    seed: int,
    context: Context,
) -> Any:
    """Return accuracies, C and relative gaps, each for all partitions and methods."""
    names = [f"{svc.multi_class} {r + 1}" for r in range(len(parts)) for svc in svcs]
    settings = [svc._settings().but(seed=seed) for svc in svcs]
    context.bars.open(names, "trials")
    failed = Event()

    def stop() -> bool:
        return context.stop() or failed.is_set()

    def score(model: LinearSVC, test: Any) -> float:
        return float(np.mean(model.predict(X[test]) == y[test]))

    def points(t: int, train: Any, test: Any, Cs: Any, step: int) -> list[Point]:
        where, bar = context.part(Watcher(), stop, context.workers), FoldBar(context.bars, t, step)
        method = t % len(svcs)
        fold = Fold(svcs[method], settings[method], data, train, test, Cs, where, bar)
        for c in range(len(Cs)):
            if not stop():
                fold.train(c)
                fold.assess(c, score)
        return [point for point in fold.points if point is not None]

    def run(t: int) -> tuple[float, float, float]:
        part = parts[t // len(svcs)]
        try:
            tuned = points(t, part == TRAIN, part == VALIDATE, Cs, 0)
            if stop():
                return np.nan, np.nan, np.nan
            C = float(Cs[int(np.argmax([point.score for point in tuned]))])
            last = points(t, part != TEST, part == TEST, [C], len(Cs))
        except BaseException:
            failed.set()
            raise
        gap = max(point.relative_gap for point in tuned + last)
        return last[-1].score if last else np.nan, C, gap

    trials = np.array(context.workers.map(run, range(len(names))))
    return trials.T.copy().reshape(3, len(parts), len(svcs))


def _partition(codes: Any, rng: np.random.Generator) -> Any:
    """Return TRAIN, VALIDATE or TEST for each row."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    counts = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    part = np.empty(len(codes), np.int8)
    part[order] = np.searchsorted(CUTS, (rank + 0.5) / np.repeat(counts, counts))
    return part


def _p_value(difference: Any) -> float:
    """Return the p-value of the signed-rank test; 1 where nothing differs."""
    if not difference.any():
        return 1.0
    with warnings.catch_warnings():  # older releases tell how they deal with ties
        warnings.simplefilter("ignore")
        return float(wilcoxon(difference).pvalue)

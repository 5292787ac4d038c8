"""What contenders and scripts share, under the name benchopt lets contenders import from."""

import math
import os
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import ClassVar, NamedTuple

import numpy as np
from benchopt import BaseSolver
from scipy.sparse import csr_matrix, hstack
from sklearn.exceptions import ConvergenceWarning

BINARY = ("hinge", "squared_hinge")
MULTICLASS = ("crammer_singer", "weston_watkins")
REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive")
EPSILON = 0.1  # of regression
BUNDLED = ("breast_cancer", "digits", "text")  # data sets that need no files

# The class that binary losses tell from the rest.
POSITIVE = {
    "a9a": 1,
    "w8a": 1,
    "ijcnn1": 1,
    "covtype": 2,
    "imdb": 1,
    "blogs": 34,
    "mnist": 8,
    "dna": None,
    "satimage": None,
    "news20": None,
    "20news": None,
    "letter": None,
    "sector": None,
    "authors1000": None,
}


@lru_cache(maxsize=1)  # every cell and repeat of one data set is a benchopt run of its own
def load_data(name: str) -> tuple[csr_matrix, np.ndarray]:
    """Return X and y of ``NAME.npz`` in the folder DUALSWEEP_DATA."""
    return read_npz(Path(os.environ["DUALSWEEP_DATA"]) / f"{name}.npz")


def read_npz(path: Path) -> tuple[csr_matrix, np.ndarray]:
    """Return X and y of a file."""
    with np.load(path) as z:
        X = csr_matrix((z["data"], z["indices"], z["indptr"]), shape=z["shape"])
        return X, z["y"]


def formulation(loss: str) -> dict[str, object]:
    """Return the loss as the parameters of a LinearSVC or LinearSVR, ours or scikit-learn's."""
    if loss in REGRESSION:
        return {"loss": loss, "epsilon": EPSILON}
    return {"multi_class": loss} if loss in MULTICLASS else {"loss": loss}


class Contender(BaseSolver):
    """A solver that is timed from X and y to a fitted model, at the tolerance it is given."""

    first_tol = 1.0  # the loosest tolerance, in the contender's own measure
    last_tol = 1e-9
    first_max_iter: int | None = 100  # None where the limit is not ours to set
    lower = math.nan  # a proven lower bound on the optimum, from contenders that give one
    losses: ClassVar = BINARY + MULTICLASS + REGRESSION
    fit_intercept = True  # the papers have problems without

    def fit(self, X, y, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """Return coef and intercept, one row per score of a model.

        Warn ConvergenceWarning where tol was not reached.
        """
        raise NotImplementedError

    def with_ones(self, X):
        """Return the rows with a one at the end, for contenders that know no such intercept."""
        if not self.fit_intercept:
            return X
        return hstack([X, np.ones((X.shape[0], 1))], format="csr", dtype=X.dtype)

    def split(self, w) -> tuple[np.ndarray, np.ndarray]:
        """Return coef and intercept of weights of such rows."""
        W = np.atleast_2d(w)
        return (W[:, :-1], W[:, -1]) if self.fit_intercept else (W, np.zeros(len(W)))

    def skip(self, X, y, loss: str, C: float):
        return loss not in self.losses, f"{self.name} does not have {loss}"

    def set_objective(self, X, y, loss: str, C: float):
        self.X, self.y, self.loss, self.C = X, y, loss, C
        self.max_iter = self.first_max_iter

    def warm_up(self):
        """Fit a few rows, of each class: just-in-time compilation is paid once, not per fit.

        At a loose and at a tight tolerance, since a contender may have code for either.
        """
        few = np.arange(40)
        if self.loss not in REGRESSION:
            few = np.concatenate([np.flatnonzero(self.y == c)[:20] for c in np.unique(self.y)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for tol in (1e-3, 1e-6):
                self.fit(self.X[few], self.y[few], tol)

    def run(self, tol: float):
        began = process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            self.coef, self.intercept = self.fit(self.X, self.y, tol)
        self.cpu = process_time() - began
        self.converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)

    def get_result(self) -> dict:
        return {
            "coef": self.coef,
            "intercept": self.intercept,
            "converged": self.converged,
            "lower": self.lower,
            "cpu": self.cpu,
        }


class Point(NamedTuple):
    """Where a system is after some of its work."""

    w: np.ndarray  # weights, of one score or a row for each; the intercept, if any, is the last
    passes: float  # over the data
    steps: int  # updates, counted as the system's paper does
    violation: float  # how far it is from done, in its own measure, which a tolerance bounds


class Iterative(Contender):
    """A system whose weights can be looked at as it goes.

    `iterate` yields a `Point` after each piece of work, for ever. It is given rows of float64 that
    end in a one for the intercept, if there is one, so that a system knows nothing of intercepts.
    `fit` takes the points until one is within the tolerance.
    """

    # The violation at which a run is over. No default: benchopt sets no parameter that is there.
    tol: float

    def iterate(self, X, y) -> Iterator[Point]:
        raise NotImplementedError

    def points(self, X, y) -> Iterator[Point]:
        return self.iterate(self.with_ones(csr_matrix(X, dtype=np.float64)), y)

    def fit(self, X, y, tol):
        self.tol = tol
        for point in self.points(X, y):
            if point.violation <= tol:
                break
            if point.passes >= self.max_iter:
                warnings.warn(f"{self.name}: too few passes", ConvergenceWarning, stacklevel=2)
                break
        return self.split(point.w)

"""What all contenders share; the folder's name is the one benchopt lets solvers import from."""

import math
import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning


class Contender(BaseSolver):
    """A solver that is timed from X and y to a fitted model, at the tolerance it is given."""

    first_tol = 1.0  # the loosest tolerance, in the contender's own measure
    last_tol = 1e-9
    first_max_iter: int | None = 100  # None where the limit is not ours to set
    lower = math.nan  # a proven lower bound on the optimum, from contenders that give one

    def fit(self, X, y, tol: float) -> tuple[np.ndarray, float]:
        """Return coef and intercept; warn ConvergenceWarning where tol was not reached."""
        raise NotImplementedError

    def set_objective(self, X, y, loss: str, C: float):
        self.X, self.y, self.loss, self.C = X, y, loss, C
        self.max_iter = self.first_max_iter

    def warm_up(self):
        """Fit a few rows of each class: just-in-time compilation is paid once, not per fit.

        At a loose and at a tight tolerance, since a contender may have code for either.
        """
        few = np.concatenate([np.flatnonzero(self.y == sign)[:20] for sign in (-1, 1)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for tol in (1e-3, 1e-6):
                self.fit(self.X[few], self.y[few], tol)

    def run(self, tol: float):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            self.coef, self.intercept = self.fit(self.X, self.y, tol)
        self.converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)

    def get_result(self) -> dict:
        return {
            "coef": self.coef,
            "intercept": self.intercept,
            "converged": self.converged,
            "lower": self.lower,
        }

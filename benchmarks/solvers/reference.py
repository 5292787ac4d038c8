import numpy as np
from benchmark_utils import REGRESSION, Contender, formulation

from dualsweep import LinearSVC, LinearSVR


class Solver(Contender):
    """No contender: the optimum, bracketed by long fits and their certificates."""

    name = "reference"
    first_tol = last_tol = 1e-7
    max_time = None  # seconds after which the certificate has to do as it is

    def fit(self, X, y, tol):
        kind = LinearSVR if self.loss in REGRESSION else LinearSVC
        model = kind(
            C=self.C,
            fit_intercept=self.fit_intercept,
            **formulation(self.loss),
            tol=tol,
            max_iter=self.max_iter,
            max_time=self.max_time,
            random_state=0,
        ).fit(X, y)
        self.lower = model.dual_objective_
        return np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)

from typing import ClassVar

import numpy as np
from benchmark_utils import REGRESSION, Contender, formulation

from dualsweep import LinearSVC, LinearSVR


class Solver(Contender):
    """The library as it is (auto), Newton steps (newton), or sweeps alone, by their schedule."""

    name = "dualsweep"
    parameters: ClassVar = {"method": ["auto"]}

    def warm_up(self):
        """Compile sweeps and Newton steps: of few rows, `auto` may need one kind alone."""
        method = self.method
        for self.method in ("adaptive", "newton", method):
            super().warm_up()

    def fit(self, X, y, tol):
        if self.method in ("auto", "newton"):
            method = {"solver": self.method}
        else:
            method = {"solver": "sweep", "schedule": self.method}
        kind = LinearSVR if self.loss in REGRESSION else LinearSVC
        model = kind(
            C=self.C,
            fit_intercept=self.fit_intercept,
            **formulation(self.loss),
            **method,
            tol=tol,
            max_iter=self.max_iter,
            random_state=0,
        ).fit(X, y)
        return np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)

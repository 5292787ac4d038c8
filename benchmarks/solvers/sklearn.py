from typing import ClassVar

import numpy as np
from benchmark_utils import BINARY, REGRESSION, Contender, formulation
from sklearn.svm import LinearSVC, LinearSVR


class Solver(Contender):
    """scikit-learn's: coordinate descent in the dual, or Newton in the primal."""

    name = "sklearn"
    parameters: ClassVar = {"dual": [True]}
    first_tol = 10.0
    losses = (*BINARY, "crammer_singer", *REGRESSION)

    def skip(self, X, y, loss, C):
        if not loss.startswith("squared") and not self.dual:
            return True, f"{loss} is solved in the dual only"
        return super().skip(X, y, loss, C)

    def fit(self, X, y, tol):
        kind = LinearSVR if self.loss in REGRESSION else LinearSVC
        model = kind(
            C=self.C,
            fit_intercept=self.fit_intercept,
            **formulation(self.loss),
            dual=self.dual,
            tol=tol,
            max_iter=self.max_iter,
            random_state=0,
        ).fit(X, y)
        return np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)

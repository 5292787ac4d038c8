from typing import ClassVar

from benchmark_utils import BINARY, Contender, formulation
from sklearn.svm import LinearSVC


class Solver(Contender):
    """scikit-learn's LinearSVC: coordinate descent in the dual, or Newton in the primal."""

    name = "sklearn"
    parameters: ClassVar = {"dual": [True]}
    first_tol = 10.0
    losses = (*BINARY, "crammer_singer")

    def skip(self, X, y, loss, C):
        if loss != "squared_hinge" and not self.dual:
            return True, f"{loss} is solved in the dual only"
        return super().skip(X, y, loss, C)

    def fit(self, X, y, tol):
        model = LinearSVC(
            C=self.C,
            **formulation(self.loss),
            dual=self.dual,
            tol=tol,
            max_iter=self.max_iter,
            random_state=0,
        ).fit(X, y)
        return model.coef_, model.intercept_

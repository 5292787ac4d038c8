from typing import ClassVar

from benchmark_utils import Contender
from sklearn.svm import LinearSVC


class Solver(Contender):
    """scikit-learn's LinearSVC: coordinate descent in the dual, or Newton in the primal."""

    name = "sklearn"
    parameters: ClassVar = {"dual": [True]}
    first_tol = 10.0

    def skip(self, X, y, loss, C):
        if loss == "hinge" and not self.dual:
            return True, "hinge loss is solved in the dual only"
        return False, None

    def fit(self, X, y, tol):
        model = LinearSVC(
            C=self.C,
            loss=self.loss,
            dual=self.dual,
            tol=tol,
            max_iter=self.max_iter,
            random_state=0,
        ).fit(X, y)
        return model.coef_[0], float(model.intercept_[0])

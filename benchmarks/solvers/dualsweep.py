from typing import ClassVar

from benchmark_utils import Contender, formulation

from dualsweep import LinearSVC


class Solver(Contender):
    """The library as it is (auto), Newton steps (newton), or sweeps alone, by their schedule."""

    name = "dualsweep"
    parameters: ClassVar = {"method": ["auto"]}

    def fit(self, X, y, tol):
        if self.method in ("auto", "newton"):
            method = {"solver": self.method}
        else:
            method = {"solver": "sweep", "schedule": self.method}
        model = LinearSVC(
            C=self.C,
            **formulation(self.loss),
            **method,
            tol=tol,
            max_iter=self.max_iter,
            random_state=0,
        ).fit(X, y)
        return model.coef_, model.intercept_

from typing import ClassVar

from benchmark_utils import Contender, formulation

from dualsweep import LinearSVC


class Solver(Contender):
    name = "dualsweep"
    parameters: ClassVar = {"schedule": ["auto"]}

    def fit(self, X, y, tol):
        model = LinearSVC(
            C=self.C,
            **formulation(self.loss),
            schedule=self.schedule,
            tol=tol,
            max_iter=self.max_iter,
            random_state=0,
        ).fit(X, y)
        return model.coef_, model.intercept_

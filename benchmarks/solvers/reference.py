from benchmark_utils import Contender, formulation

from dualsweep import LinearSVC


class Solver(Contender):
    """No contender: the optimum, bracketed by long fits and their certificates."""

    name = "reference"
    first_tol = last_tol = 1e-7

    def fit(self, X, y, tol):
        model = LinearSVC(
            C=self.C, **formulation(self.loss), tol=tol, max_iter=self.max_iter, random_state=0
        ).fit(X, y)
        self.lower = model.dual_objective_
        return model.coef_, model.intercept_

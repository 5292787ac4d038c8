from benchmark_utils import Contender
from skglm import LinearSVC


class Solver(Contender):
    """skglm: working sets and Anderson-accelerated coordinate descent in the dual.

    It has hinge loss only. Its `fit_intercept` is without effect: it gets a column of ones.
    """

    name = "skglm"
    first_max_iter = 50
    losses = ("hinge",)

    def fit(self, X, y, tol):
        model = LinearSVC(C=self.C, tol=tol, max_iter=self.max_iter, fit_intercept=False)
        return self.split(model.fit(self.with_ones(X), y).coef_)

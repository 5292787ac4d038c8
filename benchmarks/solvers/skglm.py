from benchmark_utils import Contender
from skglm import LinearSVC

MOST_FEATURES = 300_000  # on imdb, with 1,460,237, one of 50 iterations was not done after 10 min


class Solver(Contender):
    """skglm: working sets and Anderson-accelerated coordinate descent in the dual.

    It has hinge loss only. Its `fit_intercept` is without effect: it gets a column of ones. The
    limit on working sets bounds the passes over each of them too: by default those are 50,000, and
    one fit of generated text at C = 10 took longer than 5 minutes.
    """

    name = "skglm"
    first_max_iter = 50
    losses = ("hinge",)

    def skip(self, X, y, loss: str, C: float):
        if X.shape[1] > MOST_FEATURES:
            return True, f"a fit takes minutes with more than {MOST_FEATURES:,} features"
        return super().skip(X, y, loss, C)

    def fit(self, X, y, tol):
        limits = {"max_iter": self.max_iter, "max_epochs": self.max_iter}
        model = LinearSVC(C=self.C, tol=tol, fit_intercept=False, **limits)
        return self.split(model.fit(self.with_ones(X), y).coef_)

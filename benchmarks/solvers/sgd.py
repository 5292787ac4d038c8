import math

from benchmark_utils import BINARY, Contender
from sklearn.linear_model import SGDClassifier


class Solver(Contender):
    """scikit-learn's stochastic gradient descent.

    Its objective is ``alpha/2 |w|^2 + 1/n sum_i loss``, ours for ``alpha = 1 / (n C)``, with an
    intercept that is not penalised: it gets a column of ones instead. Its own tolerance says little
    about the objective, so a tolerance here is the inverse of the number of passes over the data.

    Steps are as by default with hinge loss (1 / (alpha t), as in Pegasos). With squared hinge loss
    the first of those throw w so far off that a thousand passes do not bring it back: there they
    begin at half of what the longest row allows, and fall with the root of t.
    """

    name = "sgd"
    last_tol = 1e-4
    first_max_iter = None
    losses = BINARY

    def warm_up(self):
        """There is nothing to compile."""

    def fit(self, X, y, tol):
        X = self.with_ones(X)
        steps = {}
        if self.loss == "squared_hinge":
            longest = X.multiply(X).sum(axis=1).max()
            steps = {"learning_rate": "invscaling", "power_t": 0.5, "eta0": 0.5 / longest}
        model = SGDClassifier(
            loss=self.loss,
            alpha=1.0 / (len(y) * self.C),
            fit_intercept=False,
            max_iter=math.ceil(1.0 / tol),
            tol=None,
            random_state=0,
            **steps,
        ).fit(X, y)
        return self.split(model.coef_)

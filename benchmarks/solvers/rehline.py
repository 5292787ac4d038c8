import numpy as np
from benchmark_utils import BINARY, Contender
from rehline import plq_Ridge_Classifier

LOSS_NAMES = {"hinge": "svm", "squared_hinge": "squared svm"}


class Solver(Contender):
    """ReHLine's classifier, which itself adds the column of ones for the intercept."""

    name = "rehline"
    losses = BINARY

    def fit(self, X, y, tol):
        model = plq_Ridge_Classifier(
            loss={"name": LOSS_NAMES[self.loss]},
            C=self.C,
            fit_intercept=self.fit_intercept,
            tol=tol,
            max_iter=self.max_iter,
        ).fit(X, y)
        return np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)

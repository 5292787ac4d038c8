import warnings

import numpy as np
from benchmark_utils import BINARY, EPSILON, REGRESSION, Contender
from liblinear.liblinear import PRINT_STRING_FUN, parameter, problem
from liblinear.liblinearutil import train
from sklearn.exceptions import ConvergenceWarning

DUAL_SOLVERS = {
    "hinge": 3,
    "squared_hinge": 1,
    "crammer_singer": 4,
    "epsilon_insensitive": 13,
    "squared_epsilon_insensitive": 12,
}


class Solver(Contender):
    """LIBLINEAR's own Python package: coordinate descent in the dual.

    Its limit of iterations cannot be set. With two classes it is 300, at which it goes over to
    Newton in the primal with squared hinge loss, and stops with hinge loss. With Crammer-Singer it
    is 100,000, which can be hours. But fits there took at most 2.4 times as long as the one above
    them on the ladder (letter with C = 0.1 and 10, satimage with 10): the cap holds to that factor.
    Of regression it is 1,000, at which it goes over to Newton with the squared loss.
    """

    name = "liblinear"
    first_tol = 10.0
    first_max_iter = None
    losses = tuple(DUAL_SOLVERS)

    def fit(self, X, y, tol):
        said = []
        solver = DUAL_SOLVERS[self.loss]
        bias = 1 if self.fit_intercept else -1
        options = parameter(f"-s {solver} -c {self.C!r} -p {EPSILON} -e {tol!r} -B {bias}")
        options.print_func = PRINT_STRING_FUN(said.append)
        self.model = train(problem(y, X), options)  # keeps the memory of the weights
        if not self.loss.startswith("squared") and b"max number of iterations" in b"".join(said):
            warnings.warn(
                "LIBLINEAR's iterations were not enough", ConvergenceWarning, stacklevel=2
            )
        n_scores = 1 if self.loss in BINARY + REGRESSION else self.model.nr_class
        n_weights = X.shape[1] + self.fit_intercept
        weights = np.ctypeslib.as_array(self.model.w, (n_weights, n_scores))
        return weights[: X.shape[1]].T, weights[X.shape[1] :].sum(axis=0)

    def get_result(self):
        """Return the weights of the label LIBLINEAR met first for our positive or first class."""
        result = super().get_result()
        if self.loss in REGRESSION:
            return result
        labels = np.array(self.model.label[: self.model.nr_class])
        for name in ("coef", "intercept"):
            weights = result[name]
            result[name] = labels[0] * weights if len(weights) == 1 else weights[labels.argsort()]
        return result

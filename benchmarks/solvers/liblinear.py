import warnings

import numpy as np
from benchmark_utils import Contender
from liblinear.liblinear import PRINT_STRING_FUN, parameter, problem
from liblinear.liblinearutil import train
from sklearn.exceptions import ConvergenceWarning

DUAL_SOLVERS = {"hinge": 3, "squared_hinge": 1}


class Solver(Contender):
    """LIBLINEAR's own Python package: coordinate descent in the dual.

    Its limit of 300 iterations cannot be set. At the limit it goes over to Newton in the primal
    with squared hinge loss, and stops with hinge loss.
    """

    name = "liblinear"
    first_tol = 10.0
    first_max_iter = None

    def fit(self, X, y, tol):
        said = []
        options = parameter(f"-s {DUAL_SOLVERS[self.loss]} -c {self.C!r} -e {tol!r} -B 1")
        options.print_func = PRINT_STRING_FUN(said.append)
        model = train(problem(y, X), options)
        if self.loss == "hinge" and b"max number of iterations" in b"".join(said):
            warnings.warn("300 iterations were not enough", ConvergenceWarning, stacklevel=2)
        # The weights are for the label LIBLINEAR met first.
        weights = model.label[0] * np.ctypeslib.as_array(model.w, (X.shape[1] + 1,))
        return weights[:-1], float(weights[-1])

import ctypes
import warnings

import numpy as np
from benchmark_utils import BINARY, Contender
from sklearn.exceptions import ConvergenceWarning

with warnings.catch_warnings():
    # It asks NumPy for the processor's features in a way that is deprecated; if that is an error it
    # makes do without AVX2.
    warnings.simplefilter("ignore")
    from snapml import SupportVectorMachine

# Loading it has the whole process round subnormal numbers to 0, other contenders included.
ctypes.CDLL(None).fesetenv(ctypes.c_void_p(-1))  # FE_DFL_ENV, of glibc


class Solver(Contender):
    """Snap ML's coordinate descent in the dual: our objective / C, with the intercept as ours."""

    name = "snapml"
    losses = BINARY

    def fit(self, X, y, tol):
        model = SupportVectorMachine(
            loss=self.loss,
            regularizer=1.0 / self.C,
            fit_intercept=self.fit_intercept,
            tol=tol,
            max_iter=self.max_iter,
            n_jobs=1,
            random_state=0,
        ).fit(X, y)
        if model.n_iter_ >= self.max_iter:
            warnings.warn("snapml: too few iterations", ConvergenceWarning, stacklevel=2)
        intercept = np.reshape(model.intercept_, -1) if self.fit_intercept else np.zeros(1)
        return np.atleast_2d(model.coef_), intercept

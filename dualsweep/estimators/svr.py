"""`LinearSVR`: linear regression with a certificate."""

from __future__ import annotations

from typing import Any

from ..training.parameters import Regression
from ._model import LinearRegressor
from .certified import CertifiedModel


class LinearSVR(CertifiedModel, LinearRegressor, Regression):
    """Linear support vector regression with a certificate.

    With ``C_i = C * sample_weight_i``, the model minimises::

        P(w, b) = 1/2 |w|^2 + 1/2 (b / intercept_scaling)^2 + sum_i C_i * loss(y_i - w.x_i - b)

    over w and b, as `LinearSVC` does: by coordinate descent on the dual and Newton steps, until
    ``P - D <= tol * P`` is proven. The dual has one variable per row, signed, in [-C_i, C_i] (or
    anywhere, for the squared loss); it is 0 for rows that are predicted to within epsilon.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {weights}
    {certificate}

    See Also
    --------
    LinearSVRCV : Chooses C.
    svr_path : Models for a sequence of C.

    Notes
    -----
    What `LinearSVC` says of memory, stores and Ctrl-C holds here too.

    References
    ----------
    Ho, Lin (2012). Large-scale linear support vector regression. JMLR 13.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualsweep import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearSVR(C=100.0, epsilon=10.0, tol=1e-6, random_state=0).fit(X, y - y.mean())
    >>> model.converged_, bool(model.relative_gap_ <= 1e-6)
    (True, True)
    >>> outside = abs(y - y.mean() - model.predict(X)) > 10.1
    >>> set(outside.nonzero()[0]) <= set(model.support_)
    True
    """

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.svm.LinearSVR` with the same predictions.

        A free intercept has no counterpart there: trained again, such a model would become another.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from dualsweep import LinearSVR
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = LinearSVR(C=100.0, random_state=0).fit(X, y)
        >>> bool((model.to_sklearn().predict(X) == model.predict(X)).all())
        True
        """
        from sklearn.svm import LinearSVR as SklearnLinearSVR

        shared = ("C", "loss", "epsilon", "fit_intercept", "intercept_scaling", "random_state")
        return self._as(SklearnLinearSVR, shared)

"""`LogisticRegression` for collections of Dask."""

from __future__ import annotations

from typing import Any

from dask import is_dask_collection
from sklearn.utils.validation import check_is_fitted

from ..estimators.logistic import LogisticRegression as InMemory
from .on_cluster import ELSEWHERE, OnCluster


class LogisticRegression(OnCluster, InMemory, without=(*ELSEWHERE, "l1_ratio")):
    """Logistic regression with the l2 penalty and a certificate, on a Dask cluster.

    Minimises, and proves, what `dualsweep.LogisticRegression` does with a penalised intercept::

        P(w, b) = 1/2 |w|^2 + 1/2 (b / intercept_scaling)^2
                  + sum_i C_i * log(1 + exp(-y_i (w.x_i + b)))

    to ``P - D <= tol * P``, over rows in the partitions of a cluster; for more than two classes the
    multinomial objective, or that of each class versus the rest.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {weights}
    {certificate}

    Notes
    -----
    What `dualsweep.distributed.LinearSVC` says of partitions and workers holds here too.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep.distributed import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = da.from_array(scale(X), (200, 30))
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     model = LogisticRegression(C=0.1, random_state=0).fit(X, y)
    ...     probabilities = model.predict_proba(X).compute()
    >>> probabilities.shape
    (569, 2)
    """

    intercept = "penalized"

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, or array-like
            Rows. Probabilities of a collection are in its partitions, and not yet computed.
        """
        return self._probable("predict_proba", X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, or array-like
            Rows. Logarithms of a collection are in its partitions, and not yet computed.
        """
        return self._probable("predict_log_proba", X)

    def _probable(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        if not is_dask_collection(X):
            return getattr(super(), method)(X)
        names = ("coef_", "intercept_", "classes_", "n_features_in_")
        twin: InMemory = InMemory(multi_class=self.multi_class)
        twin.__dict__.update({name: getattr(self, name) for name in names})
        return self._per_class(getattr(twin, method), X)

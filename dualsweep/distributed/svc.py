"""`LinearSVC` for collections of Dask."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask import is_dask_collection
from distributed import Client, get_client
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from .._parameters import Such, parameter, parameters_of
from ..estimators._callbacks import HAS_CALLBACKS, callbacks_of, with_callbacks
from ..estimators.svc import LinearSVC as InMemory
from ..placements.cluster.client import Cluster
from ..placements.cluster.data import ClusterSet, partitions
from ..rows.layouts import check_sparse
from ..training import train

# Parameters of the base class that have no use on a cluster.
ELSEWHERE = ("solver", "intercept", "memory_limit", "warm_start", "penalty", "dual")


class LinearSVC(InMemory, without=ELSEWHERE):
    """Linear support vector classification with a certificate, on a Dask cluster.

    Minimises, and proves, what `dualsweep.LinearSVC` does: for two classes::

        P(w, b) = 1/2 |w|^2 + 1/2 (b / intercept_scaling)^2 + sum_i C_i * loss(y_i (w.x_i + b))

    to ``P - D <= tol * P``, over rows in the partitions of a cluster. Partitions stay on the
    workers that compute them, and so do their dual variables. A round sends weights to the workers,
    where each partition sweeps its own rows, and adds up what comes back: n_features + 1 numbers
    (times n_classes, where all classes are trained at once) either way. Where features are few, or
    rounds are slow, there are Newton steps, whose sums are added up in the same way.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Weights, on the client.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercepts, on the client.
    classes_ : ndarray of shape (n_classes,)
        The classes that have rows of positive weight.
    dual_coef_ : dask.array.Array of shape (1 or n_classes, n_samples)
        Dual variables times labels, CSR blocks on the workers that trained them, in the partitions
        of X but for empty ones. They are lost with their worker.
    support_ : dask.array.Array
        Rows with a nonzero dual variable.
    {certificate}

    Notes
    -----
    How many rounds it takes depends on how the rows are distributed. Partitions that are alike,
    such as those of shuffled rows, take least.

    An integer as `random_state` gives bitwise the same model if the same partitions are on the same
    workers and none is lost.

    Partitions past 0.3 of a worker's memory are kept on its disk, and read when they are needed.
    Those of a store are read from the store.

    If a worker is lost, Dask computes its partitions again elsewhere, their dual variables start
    from 0, and training goes on to the same certificate. What cannot be computed again, or workers
    that are lost again and again, end in an error.

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtarik, Takac (2015). Adding vs. averaging in distributed
    primal-dual optimization. ICML.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep.distributed import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     model = LinearSVC(C=0.1, random_state=0).fit(da.from_array(scale(X), (200, 30)), y)
    >>> bool(model.relative_gap_ <= 1e-3)
    True
    """

    n_jobs: int | None = parameter(
        4,
        *parameters_of(InMemory)["n_jobs"].allowed,
        text="Classes of one-versus-rest that are trained side by side. More keep more workers "
        "busy, and take more memory on each.",
        identifies=False,
    )
    client: Client | None = parameter(
        None,
        Such("distributed.Client", lambda value: isinstance(value, Client)),
        None,
        text="The client of the cluster to train on; None means the current one. Give it where "
        "there are several.",
        identifies=False,
    )

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearSVC:  # type: ignore[override]
        """Train the model.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, list of delayed blocks, or Store
            Rows to learn from: blocks of numbers, dense or CSR, that have all columns; or a list of
            pairs of such blocks and their labels. The blocks of a store are read by the workers.
        y : dask.array.Array, dask.dataframe.Series, list of delayed labels, or array, default=None
            Class labels of any type, in the partitions of X. None means the labels that X has.
        sample_weight : like y, default=None
            Multiplies C per row.

        Returns
        -------
        LinearSVC
            The estimator itself.

        Raises
        ------
        RuntimeError
            If workers were lost too often, or partitions that Dask cannot compute again.

        Warns
        -----
        ConvergenceWarning
            If the relative gap is still above `tol`; the message says by how much.
        """
        client = get_client() if self.client is None else self.client
        settings, callbacks = self._settings(), callbacks_of(self, X, y)
        lazy = partitions(X, y, sample_weight)
        with self._context(watcher=callbacks) as context, Cluster(client, lazy) as cluster:
            fitted = train(ClusterSet(cluster), settings, context)
            self.__dict__.update(fitted.attributes())
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self._warn(stacklevel=4 if HAS_CALLBACKS else 3)
        return self

    def decision_function(self, X: Any) -> Any:
        """Return a score per class for each row; for two classes, one for the second.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, or array-like
            Rows to score. Scores of a collection are in its partitions, and not yet computed.
        """
        check_is_fitted(self)
        if not is_dask_collection(X):
            return super().decision_function(X)
        X, answer = _as_array(X), partial(_of_block, self.to_sklearn().decision_function)
        if len(self.classes_) == 2:
            return X.map_blocks(answer, drop_axis=1, dtype=float, meta=np.empty(0))
        chunks = (X.chunks[0], (len(self.classes_),))
        return X.map_blocks(answer, chunks=chunks, dtype=float, meta=np.empty((0, 0)))

    def predict(self, X: Any) -> Any:
        """Return the class of each row.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, or array-like
            Rows to classify. Classes of a collection are in its partitions, and not yet computed.
        """
        check_is_fitted(self)
        if not is_dask_collection(X):
            return super().predict(X)
        X, answer = _as_array(X), partial(_of_block, self.to_sklearn().predict)
        meta = self.classes_[:0]
        return X.map_blocks(answer, drop_axis=1, dtype=meta.dtype, meta=meta)


def _of_block(answer: Callable[[Any], Any], X: Any) -> Any:
    """Return the answer of scikit-learn's model for a block, whose structure is checked."""
    return answer(check_sparse(X))


def _as_array(X: Any) -> Any:
    return X if isinstance(X, da.Array) else X.to_dask_array()

"""What estimators for collections of Dask have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

import dask.array as da
import numpy as np
from dask import is_dask_collection
from distributed import Client, get_client
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from .._parameters import Parameters, Such, parameter, parameters_of
from ..estimators._callbacks import HAS_CALLBACKS, callbacks_of, with_callbacks
from ..placements.cluster.client import Cluster
from ..placements.cluster.data import ClusterSet, partitions
from ..rows.layouts import check_sparse
from ..training import train
from ..training.parameters import Training

# Parameters that have no use on a cluster.
ELSEWHERE = ("solver", "intercept", "memory_limit", "warm_start", "penalty", "dual")

Model = TypeVar("Model", bound="OnCluster")


class OnCluster(Parameters):
    """A classifier of rows in the partitions of a cluster; mixed into one for rows in memory."""

    # Of the estimator that this is mixed into.
    classes_: Any
    to_sklearn: Any
    _settings: Any
    _context: Any
    _warn: Any
    _texts: ClassVar = {
        "weights": """
coef_ : ndarray of shape (1 or n_classes, n_features)
    Weights, on the client.
intercept_ : ndarray of shape (1 or n_classes,)
    Intercepts, on the client.
classes_ : ndarray of shape (n_classes,)
    The classes that have rows of positive weight.
dual_coef_ : dask.array.Array of shape (1 or n_classes, n_samples)
    Dual variables times labels, CSR blocks on the workers that trained them, in the partitions of X
    but for empty ones. They are lost with their worker.
support_ : dask.array.Array
    Rows with a nonzero dual variable.
"""
    }

    n_jobs: int | None = parameter(
        4,
        *parameters_of(Training)["n_jobs"].allowed,
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
    def fit(self: Model, X: Any, y: Any = None, sample_weight: Any = None) -> Model:
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
        OnCluster
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
            return super().decision_function(X)  # type: ignore[misc]
        answer = self.to_sklearn().decision_function
        if len(self.classes_) > 2:
            return self._per_class(answer, X)
        answer = partial(_of_block, answer)
        return _as_array(X).map_blocks(answer, drop_axis=1, dtype=float, meta=np.empty(0))

    def predict(self, X: Any) -> Any:
        """Return the class of each row.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, or array-like
            Rows to classify. Classes of a collection are in its partitions, and not yet computed.
        """
        check_is_fitted(self)
        if not is_dask_collection(X):
            return super().predict(X)  # type: ignore[misc]
        X, answer = _as_array(X), partial(_of_block, self.to_sklearn().predict)
        meta = self.classes_[:0]
        return X.map_blocks(answer, drop_axis=1, dtype=meta.dtype, meta=meta)

    def _per_class(self, answer: Callable[[Any], Any], X: Any) -> Any:
        """Return what a method of scikit-learn's model answers, a column per class."""
        X, answer = _as_array(X), partial(_of_block, answer)
        chunks = (X.chunks[0], (len(self.classes_),))
        return X.map_blocks(answer, chunks=chunks, dtype=float, meta=np.empty((0, 0)))


def _of_block(answer: Callable[[Any], Any], X: Any) -> Any:
    """Return the answer of scikit-learn's model for a block, whose structure is checked."""
    return answer(check_sparse(X))


def _as_array(X: Any) -> Any:
    return X if isinstance(X, da.Array) else X.to_dask_array()

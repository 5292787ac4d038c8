"""Linear models: how they predict, and what they answer to users of other estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model._base import LinearClassifierMixin, LinearModel, SparseCoefMixin

from .._parameters import InvalidParameterError
from ..rows.blocks import in_blocks
from ..rows.layouts import check_sparse
from ..training.parameters import Habits

# Attributes of every model, for docstrings.
CERTIFICATE = """
primal_objective_ : float
    P of this model, rounded up; the sum over the classes.
dual_objective_ : float
    D, which no model's objective is below, rounded down; the sum over the classes.
dual_gap_ : float
    A bound on P - D, what could be gained at most; the sum over the classes. It is not the
    difference of the two objectives, which are rounded.
relative_gap_ : float
    A bound on (P - D) / P, which `tol` is compared with; the worst of the classes.
converged_ : bool
    Whether ``relative_gap_ <= tol``.
n_iter_ : int
    Sweeps and Newton steps; the largest of the classes. On a cluster, rounds of these.
history_ : ndarray with named fields
    One entry per certificate: problem (the class), time, epoch, primal, dual, gap, active.
estimates_ : ndarray with named fields
    One entry per sweep and Newton step: problem, time, epoch, relative_gap, which is an estimate
    between certificates. `~dualsweep.plotting.ConvergenceDisplay` draws both.
n_features_in_ : int
    Number of features seen in `fit`.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the features, if X had string column names.
"""


class LinearClassifier(LinearClassifierMixin, SparseCoefMixin, Habits, BaseEstimator):
    """A linear classifier with scikit-learn's interface, which predicts for stores too."""

    _texts: ClassVar = {
        "weights": """
coef_ : ndarray of shape (1 or n_classes, n_features)
    Weights, equal to ``dual_coef_ @ X``; of a model that was trained on a device, as near to that
    as the gap says, see the notes of `LinearSVC`.
intercept_ : ndarray of shape (1 or n_classes,)
    Intercepts.
classes_ : ndarray of shape (n_classes,)
    The classes that have rows of positive weight.
dual_coef_ : csr_array of shape (1 or n_classes, n_samples)
    Dual variables times labels; on a device a dense array.
support_ : ndarray of shape (n_support,)
    Rows with a nonzero dual variable.
"""
    }

    def _validate_params(self) -> None:
        if isinstance(self.penalty, str) and self.penalty in ("l1", "elasticnet"):
            raise InvalidParameterError(
                f"penalty={self.penalty!r} is not trained here: {type(self).__name__} has the l2 "
                "penalty only. For weights that are 0 use scikit-learn's LinearSVC(penalty='l1', "
                "dual=False) or SGDClassifier(penalty='elasticnet')."
            )
        super()._validate_params()

    def decision_function(self, X: Any) -> Any:
        """Return the scores of rows; those of a store are read block by block."""
        return _by_block(super().decision_function, X)

    def predict(self, X: Any) -> Any:
        """Return the classes of rows; those of a store are read block by block."""
        return _by_block(super().predict, X)

    @property
    def predict_proba(self) -> Any:
        """Raise AttributeError, which says what gives probabilities."""
        name = type(self).__name__
        if getattr(self, "loss", None) == "logistic":
            raise AttributeError(
                f"{name} has no predict_proba. LogisticRegression(intercept={self.intercept!r}) "  # type: ignore[attr-defined]
                "trains the same model, and has."
            )
        raise AttributeError(
            f"{name} has no predict_proba: a margin is not a probability. LogisticRegression has "
            "probabilities; or calibrate the model: "
            f"CalibratedClassifierCV({name}(...)).fit(X, y).predict_proba(X), from "
            "sklearn.calibration."
        )

    @property
    def partial_fit(self) -> Any:
        """Raise AttributeError, which says how to train on more than memory holds."""
        name = type(self).__name__
        raise AttributeError(
            f"{name} has no partial_fit: a certificate needs all rows. For rows that do not fit "
            "into memory write a store (dualsweep.io.open_writer takes chunks) and fit it with "
            f"{name}(memory_limit=...); for rows that keep coming use scikit-learn's "
            "SGDClassifier."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearRegressor(RegressorMixin, LinearModel):
    """A linear regressor with scikit-learn's interface, which predicts for stores too."""

    _texts: ClassVar = {
        "weights": """
coef_ : ndarray of shape (n_features,)
    Weights, equal to ``dual_coef_ @ X``.
intercept_ : ndarray of shape (1,)
    Intercept.
dual_coef_ : csr_array of shape (1, n_samples)
    Dual variables.
support_ : ndarray of shape (n_support,)
    Rows with a nonzero dual variable.
"""
    }

    def predict(self, X: Any) -> Any:
        """Return the prediction for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
            Rows; those of a store are read block by block.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``x.w + b``.
        """
        return _by_block(super().predict, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def accuracy(model: Any, X: Any, y: Any) -> float:
    """Return the accuracy of a classifier on checked rows in memory.

    scikit-learn's scorer takes half a millisecond to check them, longer than a small fit.
    """
    scores = X @ model.coef_.T + model.intercept_
    chosen = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.intp)
    return float(np.mean(model.classes_[chosen] == y))


def _by_block(method: Callable[[Any], Any], X: Any) -> Any:
    """Return the result of a method for X; for a store, compute it block by block."""
    if not in_blocks(X):
        return method(check_sparse(X))
    filled = np.flatnonzero(np.diff(X.starts)).tolist()  # a part of a store may have empty blocks
    return np.concatenate([method(_alike(X.read(b)[0])) for b in filled])


def _alike(X: Any) -> Any:
    """Return rows whose indices and pointers have one type, as SciPy's products need."""
    if X.nnz <= np.iinfo(X.indices.dtype).max:
        X.indptr = X.indptr.astype(X.indices.dtype, copy=False)
    return X

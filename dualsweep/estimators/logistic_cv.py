"""`LogisticRegressionCV`: `LogisticRegression` that chooses its own C."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..training.parameters import Probable
from ._model import accuracy
from .logistic import LogisticRegression, ProbableClassifier
from .searching import SearchingC


class LogisticRegressionCV(SearchingC, ProbableClassifier, Probable):  # type: ignore[misc]
    """Logistic regression that chooses C by cross-validation.

    Searches as `LinearSVCCV` does: each fold trains ascending values of C, each from the solution
    for a smaller one, and all share X. The model is then trained on all rows with the C of choice.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {search}
    {weights}
    {certificate}

    See Also
    --------
    logistic_path : Models for a sequence of C.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import LogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegressionCV(scoring="neg_log_loss", random_state=0).fit(scale(X), y)
    >>> bool(model.C_ == model.Cs_[model.scores_.mean(axis=0).argmax()])
    True
    >>> bool(model.relative_gap_ <= model.tol)
    True
    """

    _kind = LogisticRegression
    _default_scoring = "accuracy"
    _plain_scorer = staticmethod(accuracy)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.linear_model.LogisticRegression` with the same predictions."""
        check_is_fitted(self)
        return self.best_estimator_.to_sklearn()

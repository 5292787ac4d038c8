"""`LogisticRegression`: probabilities of classes, with a certificate."""

from __future__ import annotations

from copy import copy
from math import inf
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._parameters import InvalidParameterError
from .._typing import Namespace
from ..losses import log_probabilities
from ..solvers.policy import SOLVERS
from ..training import Settings
from ..training.parameters import HabitsOfProbabilities, LogisticClassification
from ._device import DevicePredictions
from ._model import LinearClassifier
from .certified import CertifiedModel

# Who has what is refused here.
OTHERS = {
    None: "For no penalty use scikit-learn's LogisticRegression with C=np.inf, or a large C here",
    "l1": "For weights that are 0 use scikit-learn's LogisticRegression with l1_ratio=1 and "
    "solver='liblinear' or 'saga', or skglm's SparseLogisticRegression",
    "elasticnet": "For an elastic net use scikit-learn's LogisticRegression with solver='saga' and "
    "an l1_ratio between 0 and 1, or its SGDClassifier",
}


class ProbableClassifier(DevicePredictions, LinearClassifier, HabitsOfProbabilities):
    """A linear classifier of the logistic loss, which has probabilities."""

    loss = "logistic"

    def _validate_params(self) -> None:
        ratio = self.l1_ratio
        penalty: str | None = self.penalty
        if ratio is not None and ratio != 0:
            penalty = "l1" if ratio == 1 else "elasticnet"
        if getattr(self, "C", 1.0) == inf:
            penalty = None
        if penalty in OTHERS:
            raise InvalidParameterError(
                f"{type(self).__name__} has the l2 penalty only, not {penalty or 'none'}. "
                f"{OTHERS[penalty]}."
            )
        super()._validate_params()

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
            Rows; see `decision_function` for where.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The logarithms, which are exact where probabilities are 1e-300, in the order of
            ``classes_``.
        """
        check_is_fitted(self)
        scores = self.decision_function(X)
        together = self.multi_class == "multinomial"  # type: ignore[attr-defined]
        return log_probabilities(self._library_of(scores, X), scores, together)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class.

        They are those of the model, ``1 / (1 + exp(-decision))`` for the second of two classes; of
        one versus the rest they are divided by their sum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
            Rows; see `decision_function` for where.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        logs = self.predict_log_proba(X)
        return self._library_of(logs, X).exp(logs)

    def _library_of(self, answer: Any, X: Any) -> Namespace:
        """Return the library of an answer for rows X: NumPy, or that of the rows."""
        space = None if isinstance(answer, np.ndarray) else self._space(X)
        return np if space is None else space.xp


class LogisticRegression(ProbableClassifier, CertifiedModel, LogisticClassification):
    """Logistic regression with the l2 penalty and a certificate.

    For two classes, with labels y_i in {-1, +1} and ``C_i = C * sample_weight_i *
    class_weight[y_i]``, the model minimises::

        P(w, b) = 1/2 |w|^2 + sum_i C_i * log(1 + exp(-y_i (w.x_i + b)))

    over w and b, as `LinearSVC` does: by coordinate descent on the dual and Newton steps, until
    ``P - D <= tol * P`` is proven for the dual objective D. (With ``intercept="penalized"``, P has
    the term ``1/2 (b / intercept_scaling)^2`` as well.) The dual variables are ``C_i`` times the
    probability of the class that a row does not have.

    For more classes, each m has weights w_m and an intercept b_m, and with the row's own class y::

        P(W, b) = 1/2 sum_m |w_m|^2
                  + sum_i C_i * (log sum_m exp(w_m.x_i + b_m) - (w_y.x_i + b_y))

    is minimised (multinomial logistic regression); ``multi_class="ovr"`` minimises P(w, b) for each
    class versus the rest. Intercepts that are free add up to 0.

    It drops in for scikit-learn's `LogisticRegression` with the l2 penalty: the same objective, the
    same model to within `tol`. See docs/guide/logistic.md.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {weights}
    {certificate}

    See Also
    --------
    LogisticRegressionCV : Chooses C.
    logistic_path : Models for a sequence of C.

    Notes
    -----
    What `LinearSVC` says of memory, stores, devices and Ctrl-C holds here too.

    References
    ----------
    Yu, Huang, Lin (2011). Dual coordinate descent methods for logistic regression and maximum
    entropy models. Machine Learning 85.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(C=0.1, tol=1e-6, random_state=0).fit(scale(X), y)
    >>> model.converged_, bool(model.relative_gap_ <= 1e-6)
    (True, True)
    >>> model.predict_proba(scale(X))[:2].round(3).tolist()
    [[1.0, 0.0], [0.996, 0.004]]
    """

    def _settings(self) -> Settings:
        settings = super()._settings()
        return settings if settings.solver in SOLVERS else settings.but(solver="auto")

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.linear_model.LogisticRegression` with the same predictions.

        For one versus the rest of more than two classes, it is a
        `sklearn.multiclass.OneVsRestClassifier` of these. A penalised intercept has a counterpart
        in the solver "liblinear" alone, which the model then names. Multinomial models with one
        have none: such a model predicts, but trained again it would have a free intercept.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dualsweep import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> model = LogisticRegression(random_state=0).fit(X, y)
        >>> bool(abs(model.to_sklearn().predict_proba(X) - model.predict_proba(X)).max() < 1e-9)
        True
        """
        from sklearn.linear_model import LogisticRegression as Peer
        from sklearn.multiclass import OneVsRestClassifier
        from sklearn.preprocessing import LabelBinarizer

        shared = ("C", "fit_intercept", "intercept_scaling", "class_weight", "random_state")
        alone = len(self.classes_) == 2 or self.multi_class == "ovr"
        penalised = alone and self.fit_intercept and self.intercept == "penalized"
        model = self._as(Peer, shared, solver="liblinear" if penalised else "lbfgs")
        model.n_iter_ = np.array([self.n_iter_])
        if len(self.classes_) == 2 or self.multi_class != "ovr":
            return model
        rest = OneVsRestClassifier(clone(model))
        rest.classes_, rest.n_features_in_ = self.classes_, self.n_features_in_
        rest.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(self.classes_)
        rest.estimators_ = []
        for k in range(len(self.classes_)):
            rest.estimators_.append(copy(model))
            of_one = {"coef_": self.coef_[[k]], "intercept_": self.intercept_[[k]]}
            vars(rest.estimators_[k]).update(of_one, classes_=np.array([0, 1]))
        if hasattr(self, "feature_names_in_"):
            rest.feature_names_in_ = self.feature_names_in_
        return rest

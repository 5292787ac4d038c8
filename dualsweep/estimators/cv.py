"""`LinearSVCCV`: `LinearSVC` that chooses its own C."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..training.parameters import ClassificationSearch
from ._device import DevicePredictions
from ._model import LinearClassifier
from .searching import SearchingC
from .svc import LinearSVC


class LinearSVCCV(  # type: ignore[misc]  # score is that of `scoring`
    SearchingC, DevicePredictions, LinearClassifier, ClassificationSearch
):
    """Linear support vector classification that chooses C by cross-validation.

    Each fold trains the values of C in ascending order, each from the solution for a smaller one
    (`svc_path`). A fold is a set of rows of X, never a copy of them: folds, classes and, where
    these are few, values of C run in threads that share X. The model is then trained on all rows
    with the C of choice.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    C_ : float
        The C of choice.
    Cs_ : ndarray of shape (n_Cs,)
        Values of C that were tried, ascending; those past an end as well.
    scores_ : ndarray of shape (n_folds, n_Cs)
        Score of each fold on the rows it held out.
    mean_score_ : ndarray of shape (n_Cs,)
        Mean of the scores.
    std_error_ : ndarray of shape (n_Cs,)
        Standard error of the mean: the deviation of the scores over the square root of their
        number.
    fit_time_ : ndarray of shape (n_folds, n_Cs)
        Seconds of training in the search.
    n_support_ : ndarray of shape (n_folds, n_Cs)
        Support vectors in the search.
    search_gap_ : ndarray of shape (n_folds, n_Cs)
        Relative duality gaps in the search.
    best_estimator_ : LinearSVC
        The model, as a `LinearSVC` with this C.
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Weights of the model, equal to ``dual_coef_ @ X``.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercepts of the model.
    classes_ : ndarray of shape (n_classes,)
        The classes that have rows of positive weight.
    dual_coef_ : csr_array of shape (1 or n_classes, n_samples)
        Dual variables of the model, times labels.
    support_ : ndarray of shape (n_support,)
        Rows with a nonzero dual variable.
    primal_objective_ : float
        P of this model, rounded up; the sum over the classes.
    dual_objective_ : float
        D, which no model's objective is below, rounded down; the sum over the classes.
    dual_gap_ : float
        A bound on P - D, what could be gained at most; the sum over the classes. It is no
        difference of the two objectives, which are rounded.
    relative_gap_ : float
        A bound on (P - D) / P, which `tol` is compared with; the worst of the classes.
    converged_ : bool
        Whether ``relative_gap_ <= tol``.
    n_iter_ : int
        Sweeps and Newton steps of the model; the largest of the classes.
    history_ : ndarray with named fields
        One entry per certificate of the model; see `LinearSVC`.
    estimates_ : ndarray with named fields
        One entry per epoch of the model; see `LinearSVC`.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.

    See Also
    --------
    svc_path : Models for a sequence of C.
    dualsweep.plotting.PathDisplay : Scores, support vectors and times against C.

    Notes
    -----
    The rows that a fold is scored on are copied while it is scored. Beyond that, a fold takes
    memory for a few numbers per row, and per feature, of each class. On a store that does not fit
    into `memory_limit`, one fold is trained at a time, and scored block by block; labels and the
    dual variables of each fold's support vectors come on top of that limit. Weights of "balanced"
    classes count the rows that are trained on.

    Ctrl-C during the search leaves nothing; after it, the model so far with its certificate, as in
    `LinearSVC`. `KeyboardInterrupt` is raised in either case.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import LinearSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVCCV(patience=None, random_state=0).fit(scale(X), y)
    >>> model.scores_.shape
    (5, 10)
    >>> bool(model.C_ == model.Cs_[model.scores_.mean(axis=0).argmax()])
    True
    >>> bool(model.relative_gap_ <= model.tol)
    True
    """

    _kind = LinearSVC
    _default_scoring = "accuracy"

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.svm.LinearSVC` with the same predictions; see `LinearSVC`."""
        check_is_fitted(self)
        return self.best_estimator_.to_sklearn()

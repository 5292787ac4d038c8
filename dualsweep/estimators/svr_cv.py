"""`LinearSVRCV`: `LinearSVR` that chooses its own C."""

from __future__ import annotations

from ..training.parameters import RegressionSearch
from ._model import LinearRegressor
from .searching import SearchingC
from .svr import LinearSVR


class LinearSVRCV(SearchingC, LinearRegressor, RegressionSearch):
    """Linear support vector regression that chooses C by cross-validation.

    Searches as `LinearSVCCV` does: each fold trains ascending values of C, each from the solution
    for a smaller one, and all share X. The model is then trained on all rows with the C of choice.

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
    best_estimator_ : LinearSVR
        The model, as a `LinearSVR` with this C.
    coef_ : ndarray of shape (n_features,)
        Weights of the model, equal to ``dual_coef_ @ X``.
    intercept_ : ndarray of shape (1,)
        Intercept of the model.
    dual_coef_ : csr_array of shape (1, n_samples)
        Dual variables of the model.
    support_ : ndarray of shape (n_support,)
        Rows with a nonzero dual variable.
    primal_objective_ : float
        P of this model, rounded up.
    dual_objective_ : float
        D, which no model's objective is below, rounded down.
    dual_gap_ : float
        A bound on P - D, what could be gained at most. It is no
        difference of the two objectives, which are rounded.
    relative_gap_ : float
        A bound on (P - D) / P, which `tol` is compared with.
    converged_ : bool
        Whether ``relative_gap_ <= tol``.
    n_iter_ : int
        Sweeps and Newton steps of the model.
    history_ : ndarray with named fields
        One entry per certificate of the model; see `LinearSVR`.
    estimates_ : ndarray with named fields
        One entry per epoch of the model; see `LinearSVR`.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.

    See Also
    --------
    svr_path : Models for a sequence of C.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import LinearSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearSVRCV(patience=None, random_state=0).fit(scale(X), scale(y))
    >>> bool(model.C_ == model.Cs_[model.scores_.mean(axis=0).argmax()])
    True
    >>> bool(model.relative_gap_ <= model.tol)
    True
    """

    _kind = LinearSVR
    _default_scoring = "r2"

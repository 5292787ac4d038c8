"""`LinearSVRCV`: `LinearSVR` that chooses its own C."""

from __future__ import annotations

from typing import Any

from ._choices import with_choices
from ._model import LinearRegressor
from .searching import SearchingC
from .svr import LinearSVR

SHARED = (
    "loss",
    "epsilon",
    "solver",
    "schedule",
    "fit_intercept",
    "intercept",
    "intercept_scaling",
    "tol",
    "max_iter",
    "memory_limit",
    "n_jobs",
    "random_state",
    "verbose",
)


@with_choices
class LinearSVRCV(SearchingC, LinearRegressor):
    """Linear support vector regression that chooses C by cross-validation.

    Searches as `LinearSVCCV` does: each fold trains ascending values of C, each from the solution
    for a smaller one, and all share X. The model is then trained on all rows with the C of choice.

    Parameters
    ----------
    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, or how many of them. A number of values spans 2^-6 to 2^3 at equal ratios, in
        units of 1 over the mean squared length of a row; with the epsilon-insensitive loss, times
        the standard deviation of y. If the first or the last of them is best, the search goes on;
        see `LinearSVCCV`. Values that are given are the only ones.
    cv : int, cross-validation generator or iterable, default=5
        Number of folds of a `KFold`, a splitter, or (train, test) pairs of indices. Rows are
        not shuffled: a file that is sorted needs ``KFold(5, shuffle=True)``.
    scoring : str or callable, default=None
        What to choose by: a name scikit-learn knows, or ``f(estimator, X, y)``, which is called in
        several threads if `n_jobs` says so. None means R^2. `sample_weight`, if given, is
        passed on to it.
    selection : {"best", "one_standard_error"}, default="best"
        The C with the largest mean score, or the smallest C whose mean score is at most one
        standard error of the largest below it: a simpler model, as good but for chance. Of equals,
        the smaller C.
    patience : int, default=3
        Stop raising C when this many values in a row have brought no better mean score; see
        `LinearSVCCV`. None tries all values.
    tol_search : float, default=None
        Relative duality gap to prove in the search, where scores need less than the model does:
        1e-2 is quicker. None means `tol`.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        Loss of the deviation; the squared one trains faster, the other minds outliers less. See
        `LinearSVR`, also for what follows.
    epsilon : float, default=0.0
        Deviations up to this cost nothing; in the units of y. Half the noise that you expect is a
        fair start.
    solver : {solver}, default="auto"
        Sweeps of coordinate descent, Newton steps, or both. Change it to compare methods.
    schedule : {schedule}, default="auto"
        Which rows a sweep visits. Change it to compare with those of the papers.
    fit_intercept : bool, default=True
        Whether to train the intercept. False suits targets that are centred.
    intercept : {intercept}, default="penalized"
        Whether the intercept is penalised. Free suits targets far from 0.
    intercept_scaling : float, default=1.0
        Larger values penalise the intercept less; `intercept` is the better way to have that.
    tol : float, default=1e-3
        Relative duality gap to prove for the model. See `tol_search` for those of the search.
    max_iter : int, default=1000
        Sweeps and Newton steps to give up after. Raise it after a warning, if scaling the features
        does not help.
    memory_limit : int, default=None
        Bytes that each training on a store may take; None means no limit. See `LinearSVCCV`.
    n_jobs : int, default=None
        Threads that train folds, and then the model. None means 1, -1 all cores. The result does
        not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the order of visits; the folds are up to `cv`. An integer gives the same model each
        time.
    verbose : int, default=0
        1 shows progress: what the folds are at, and how long it will take.

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
    _shared = SHARED
    _default_scoring = "r2"
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **SearchingC._parameter_constraints,
        **{name: LinearSVR._parameter_constraints[name] for name in SHARED},
    }

    def __init__(
        self,
        *,
        Cs: Any = 10,
        cv: Any = 5,
        scoring: Any = None,
        selection: str = "best",
        patience: int | None = 3,
        tol_search: float | None = None,
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.0,
        solver: str = "auto",
        schedule: str = "auto",
        fit_intercept: bool = True,
        intercept: str = "penalized",
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.patience = patience
        self.tol_search = tol_search
        self.loss = loss
        self.epsilon = epsilon
        self.solver = solver
        self.schedule = schedule
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

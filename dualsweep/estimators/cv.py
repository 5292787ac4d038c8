"""`LinearSVCCV`: `LinearSVC` that chooses its own C."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ._choices import with_choices
from ._device import DevicePredictions
from ._model import LinearClassifier
from .searching import SearchingC
from .svc import LinearSVC

SHARED = (
    "loss",
    "multi_class",
    "solver",
    "schedule",
    "fit_intercept",
    "intercept",
    "intercept_scaling",
    "tol",
    "max_iter",
    "class_weight",
    "memory_limit",
    "n_jobs",
    "random_state",
    "verbose",
    "penalty",
    "dual",
)


@with_choices
class LinearSVCCV(SearchingC, DevicePredictions, LinearClassifier):  # type: ignore[misc]
    """Linear support vector classification that chooses C by cross-validation.

    Each fold trains the values of C in ascending order, each from the solution for a smaller one
    (`svc_path`). A fold is a set of rows of X, never a copy of them: folds, classes and, where
    these are few, values of C run in threads that share X. The model is then trained on all rows
    with the C of choice.

    Parameters
    ----------
    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, or how many of them. A number of values spans 2^-6 to 2^3 at equal ratios, in
        units of 1 over the mean squared length of a row (of typical entries, if columns are in
        different units). If the first or the last of them is best, the search goes on, in steps of
        at least 4 and by a factor of 4^10 at most; with `class_weight`, to larger values only.
        Values that are given are the only ones, and 1 means C = 1.
    cv : int, cross-validation generator or iterable, default=5
        Number of folds of a `StratifiedKFold`, a splitter, or (train, test) pairs of indices. Rows
        are not shuffled: a file that is sorted needs ``StratifiedKFold(5, shuffle=True)``.
    scoring : str or callable, default=None
        What to choose by: a name scikit-learn knows, or ``f(estimator, X, y)``, which is called in
        several threads if `n_jobs` says so. None means accuracy. `sample_weight`, if given, is
        passed on to it.
    selection : {"best", "one_standard_error"}, default="best"
        The C with the largest mean score, or the smallest C whose mean score is at most one
        standard error of the largest below it: a simpler model, as good but for chance. Of equals,
        the smaller C.
    patience : int, default=3
        Stop raising C when this many values in a row have brought no better mean score, not
        counting those at which the weights still grow nearly in proportion to C: there, training
        has hardly begun. None tries all values.
    tol_search : float, default=None
        Relative duality gap to prove in the search, where scores need less than the model does:
        1e-2 is quicker. None means `tol`.
    loss : {loss}, default="squared_hinge"
        Loss of the margin; the default trains fastest. See `LinearSVC`, also for what follows.
    multi_class : {multi_class}, default="ovr"
        What to train for more than two classes: one versus the rest, or all at once.
        `compare_multiclass` tells which is best.
    solver : {solver}, default="auto"
        Sweeps of coordinate descent, Newton steps, or both. Change it to compare methods.
    schedule : {schedule}, default="auto"
        Which rows a sweep visits. Change it to compare with those of the papers.
    fit_intercept : bool, default=True
        Whether to train the intercept. False suits data that are centred.
    intercept : {intercept}, default="penalized"
        Whether the intercept is penalised. Free, shifting the features changes no prediction.
    intercept_scaling : float, default=1.0
        Larger values penalise the intercept less; `intercept` is the better way to have that.
    tol : float, default=1e-3
        Relative duality gap to prove for the model. See `tol_search` for those of the search.
    max_iter : int, default=1000
        Sweeps and Newton steps to give up after, per binary problem. Raise it after a warning, if
        scaling the features does not help.
    class_weight : dict or "balanced", default=None
        Multiplies C per class; None means 1 for all. "balanced" counts the rows that are trained
        on.
    memory_limit : int, default=None
        Bytes that each training on a store may take; labels and what each fold keeps of its latest
        solution, its support vectors' dual variables, come on top. None means no limit. See
        `LinearSVC`.
    n_jobs : int, default=None
        Threads that train folds and classes, and then the model. None means 1, -1 all cores.
        The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the order of visits; the folds are up to `cv`. An integer gives the same model each
        time.
    verbose : int, default=0
        1 shows progress: what the folds are at, and how long it will take.
    penalty : {"l2"}, default="l2"
        Without effect, as `dual`: both are for scripts that set them for scikit-learn's
        `LinearSVC`. "l1" is refused.
    dual : bool or "auto", default="auto"
        Without effect: the dual is what is trained, and the primal solution comes with it.

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
    into `memory_limit`, one fold is trained at a time, and scored block by block.

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
    _shared = SHARED
    _default_scoring = "accuracy"
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **SearchingC._parameter_constraints,
        **{name: LinearSVC._parameter_constraints[name] for name in SHARED},
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
        loss: str = "squared_hinge",
        multi_class: str = "ovr",
        solver: str = "auto",
        schedule: str = "auto",
        fit_intercept: bool = True,
        intercept: str = "penalized",
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        class_weight: Any = None,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        penalty: str = "l2",
        dual: bool | str = "auto",
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.patience = patience
        self.tol_search = tol_search
        self.loss = loss
        self.multi_class = multi_class
        self.solver = solver
        self.schedule = schedule
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.penalty = penalty
        self.dual = dual

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.svm.LinearSVC` with the same predictions; see `LinearSVC`."""
        check_is_fitted(self)
        return self.best_estimator_.to_sklearn()

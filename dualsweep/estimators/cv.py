"""`LinearSVCCV`: `LinearSVC` that chooses its own C."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import _check_method_params, check_is_fitted

from .._host import to_host
from ..training import OnDevice, data_in_memory, train
from ._choices import with_choices
from ._device import DevicePredictions, space_of
from ._on_host import OnHost
from ._search import choose, search
from ._validation import check_Cs, check_data
from .svc import LinearSVC

__all__ = ["LinearSVCCV"]

SHARED = (
    "loss",
    "multi_class",
    "solver",
    "schedule",
    "fit_intercept",
    "intercept_scaling",
    "tol",
    "max_iter",
    "class_weight",
    "n_jobs",
    "random_state",
    "verbose",
)


@with_choices
class LinearSVCCV(DevicePredictions, LinearClassifierMixin, SparseCoefMixin, BaseEstimator):
    """Linear support vector classification that chooses C by cross-validation.

    Each fold trains the values of C in ascending order, each from the solution for a smaller one
    (`svc_path`). A fold is a set of rows of X, never a copy of them: folds, classes and, where
    these are few, values of C run in threads that share X. The model is then trained on all rows
    with the C of choice.

    Parameters
    ----------
    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, or how many of them, from 2^-6 to 2^3 at equal ratios. That range suits rows
        of about unit length; what matters is C times the squared length of a row.
    cv : int, cross-validation generator or iterable, default=5
        Number of folds of a `StratifiedKFold`, a splitter, or (train, test) pairs of indices.
    scoring : str or callable, default=None
        What to choose by: a name scikit-learn knows, or ``f(estimator, X, y)``, which is called in
        several threads if `n_jobs` says so. None means accuracy. `sample_weight`, if given, is
        passed on to it.
    selection : {"best", "one_standard_error"}, default="best"
        The C with the largest mean score, or the smallest C whose mean score is at most one
        standard error of the largest below it. Of equals, the smaller C.
    patience : int, default=3
        Stop raising C when this many values in a row have brought no better mean score, not
        counting those at which the weights still grow nearly in proportion to C: there, training
        has hardly begun. None tries all values.
    tol_search : float, default=None
        Relative duality gap to prove in the search, where scores need less than the model does.
        None means `tol`.
    loss : {loss}, default="squared_hinge"
        See `LinearSVC`, also for what follows.
    multi_class : {multi_class}, default="ovr"
        What to train for more than two classes.
    solver : {solver}, default="auto"
        Sweeps of coordinate descent, Newton steps, or both.
    schedule : {schedule}, default="auto"
        Which rows a sweep visits.
    fit_intercept : bool, default=True
        Whether to train the intercept.
    intercept_scaling : float, default=1.0
        Larger values regularise the intercept less.
    tol : float, default=1e-3
        Relative duality gap to prove for the model.
    max_iter : int, default=1000
        Sweeps and Newton steps to give up after, per binary problem.
    class_weight : dict or "balanced", default=None
        Multiplies C per class. "balanced" counts the rows that are trained on.
    n_jobs : int, default=None
        Threads that train folds and classes, and then the model. None means 1, -1 all cores.
        The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the order of visits; the folds are up to `cv`.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    C_ : float
        The C of choice.
    Cs_ : ndarray of shape (n_Cs,)
        Values of C that were tried, ascending.
    scores_ : ndarray of shape (n_folds, n_Cs)
        Score of each fold on the rows it held out.
    mean_score_, std_error_ : ndarray of shape (n_Cs,)
        Mean of the scores, and its standard error: the deviation of the scores over the square
        root of their number.
    fit_time_ : ndarray of shape (n_folds, n_Cs)
        Seconds of training in the search.
    n_support_ : ndarray of shape (n_folds, n_Cs)
        Support vectors in the search.
    search_gap_ : ndarray of shape (n_folds, n_Cs)
        Relative duality gaps in the search.
    best_estimator_ : LinearSVC
        The model, as a `LinearSVC` with this C.
    coef_, intercept_, classes_, dual_coef_, support_ : ndarray
        Those of the model; see `LinearSVC`.
    primal_objective_, dual_objective_, dual_gap_, relative_gap_ : float
        The model's certificate.
    converged_, n_iter_, history_ : bool, int, ndarray
        How the model was trained.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string column names.

    See Also
    --------
    svc_path : Models for a sequence of C.
    dualsweep.plotting.PathDisplay : Scores, support vectors and times against C.

    Notes
    -----
    The rows that a fold is scored on are copied while it is scored. Beyond that, a fold takes
    memory for a few numbers per row, and per feature, of each class.

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

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "selection": [StrOptions({"best", "one_standard_error"})],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "tol_search": [Interval(Real, 0, None, closed="neither"), None],
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
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        class_weight: Any = None,
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
        self.multi_class = multi_class
        self.solver = solver
        self.schedule = schedule
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> LinearSVCCV:
        """Choose C, and train the model with it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to learn from; not changed, and not copied where `LinearSVC` does not.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C per row, and weighs the scores.
        **params : dict
            `groups` for the splitter; with scikit-learn's metadata routing, whatever splitter and
            scorer ask for.

        Returns
        -------
        LinearSVCCV
            The estimator itself.

        Warns
        -----
        ConvergenceWarning
            If a relative gap is still above `tol_search` or `tol`.
        """
        _raise_for_params(_without("groups", params), self, "fit")
        Cs = check_Cs(self.Cs)
        X, y, sample_weight = check_data(self, X, y, sample_weight)
        routed = self._routed(sample_weight, params)
        rows = X.X if isinstance(X, OnDevice) else X
        splits = list(check_cv(self.cv, y, classifier=True).split(rows, y, **routed.splitter.split))
        if not splits:
            raise ValueError("cv makes no folds; it needs at least one pair (train, test).")
        if self.selection == "one_standard_error" and len(splits) < 2:
            raise ValueError(
                'selection="one_standard_error" needs at least 2 folds to have a standard error, '
                f"but cv makes {len(splits)}."
            )
        model = LinearSVC(**{name: getattr(self, name) for name in SHARED})
        settings = model._settings()
        with model._context(steps=len(Cs)) as context:
            data = data_in_memory(X, y, sample_weight, settings.bias, context)
            score = self._score(X, y, routed.scorer.score)
            tol = self.tol if self.tol_search is None else self.tol_search
            searched = replace(settings, tol=tol)
            found = search(model, searched, data, splits, Cs, score, self.patience, context)
            context.give_up()
            best = choose(found["mean_score_"], found["std_error_"], self.selection)
            model.C = float(found["Cs_"][best])
            context.show_anew()
            fitted = train(data, replace(settings, C=model.C), context)
            model.__dict__.update(fitted.attributes())
            self._adopt(model, found)
        self._warn_of_search()
        model._warn(stacklevel=3)
        return self

    def _adopt(self, model: LinearSVC, found: dict[str, Any]) -> None:
        """Set the fitted attributes from the model and what the search found."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
        self.__dict__.update(found, C_=model.C, best_estimator_=model, **fitted)

    def _routed(self, sample_weight: Any, params: dict[str, Any]) -> Any:
        """Return what goes to the splitter and what to the scorer."""
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return Bunch(splitter=Bunch(split=params), scorer=Bunch(score=weights))

    def _score(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        """Return a function that scores a model on some of the rows."""
        scorer, config = self._get_scorer(), get_config()

        def score(model: LinearSVC, test: Any) -> float:
            chosen = _check_method_params(y, params, indices=test)
            with config_context(**config):  # threads start with scikit-learn's own
                if isinstance(X, OnDevice):
                    value = scorer(OnHost.of(model), X.some(test), y[test], **chosen)
                else:
                    value = scorer(model, X[test], y[test], **chosen)
            if not np.isfinite(value):
                raise ValueError(
                    f"scoring gave {value} for C = {model.C:g} on {len(test)} rows of the classes "
                    f"{np.unique(y[test]).tolist()}. Use folds and a scoring that go together."
                )
            return float(value)

        return score

    def _warn_of_search(self) -> None:
        """Warn if some model of the search has not converged."""
        tol = self.tol if self.tol_search is None else self.tol_search
        short = self.search_gap_ > tol
        if short.any():
            worst = self.Cs_[self.search_gap_.max(axis=0).argmax()]
            warnings.warn(
                f"LinearSVCCV stopped above relative duality gap {tol:.1e} in {short.sum()} of "
                f"{short.size} trainings of the search; the largest gap is "
                f"{self.search_gap_.max():.1e}, at C = {worst:g}. Raise max_iter or tol_search, or "
                "scale the features.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def score(self, X: Any, y: Any, **score_params: Any) -> float:  # type: ignore[override]
        """Return the score of the model by `scoring`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        **score_params : dict
            `sample_weight`; with scikit-learn's metadata routing, whatever the scorer asks for.

        Returns
        -------
        float
            The score; accuracy if `scoring` is None.
        """
        check_is_fitted(self)
        _raise_for_params(_without("sample_weight", score_params), self, "score")
        if _routing_enabled():
            score_params = process_routing(self, "score", **score_params).scorer.score
        given = {name: value for name, value in score_params.items() if value is not None}
        if space_of(X) is not None:
            given = {name: to_host(value) for name, value in given.items()}
            return float(
                self._get_scorer()(OnHost.of(self.best_estimator_), X, to_host(y), **given)
            )
        return float(self._get_scorer()(self, X, y, **given))

    def _get_scorer(self) -> Any:
        return get_scorer("accuracy" if self.scoring is None else self.scoring)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who gets what; see scikit-learn's user guide on metadata routing."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
            .add(
                scorer=self._get_scorer(),
                method_mapping=MethodMapping()
                .add(caller="fit", callee="score")
                .add(caller="score", callee="score"),
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _without(name: str, params: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key != name}

"""What `LinearSVCCV` and `LinearSVRCV` have in common: the search for C, and the model after it."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, _fit_context, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import _check_method_params, check_is_fitted

from .._host import to_host
from .._parameters import InvalidParameterError, parameters_of
from ..placements import OnDevice, PartOfBlocks, load_if_it_fits, training_data
from ..rows.blocks import in_blocks
from ..training import train, unit_cost
from ..training.parameters import Choice, Training
from ._device import space_of
from ._folds import masks_of
from ._model import CERTIFICATE
from ._on_host import on_host
from ._proof import Provable
from ._search import search
from ._validation import check_Cs, check_data, labels_of
from .certified import CertifiedModel, warn_of_gaps


class SearchingC(Provable, Choice, Training, BaseEstimator):
    """A model that chooses its own C, by the score of folds."""

    _kind: ClassVar[type[CertifiedModel]]  # of model
    _default_scoring: ClassVar[str]
    # What scores as that does, without checks of what was checked before.
    _plain_scorer: ClassVar[Any] = None
    _texts: ClassVar = {
        "search": """
C_ : float
    The C of choice.
Cs_ : ndarray of shape (n_Cs,)
    Values of C that were tried, ascending; those past an end as well.
scores_ : ndarray of shape (n_folds, n_Cs)
    Score of each fold on the rows it held out.
mean_score_ : ndarray of shape (n_Cs,)
    Mean of the scores.
std_error_ : ndarray of shape (n_Cs,)
    Standard error of the mean: the deviation of the scores over the square root of their number.
fit_time_ : ndarray of shape (n_folds, n_Cs)
    Seconds of training in the search.
n_support_ : ndarray of shape (n_folds, n_Cs)
    Support vectors in the search.
search_gap_ : ndarray of shape (n_folds, n_Cs)
    Relative duality gaps in the search.
best_estimator_ : LinearSVC or LinearSVR
    The model with this C. The attributes below are its own.
""",
        "certificate": CERTIFICATE,
    }

    def _validate_params(self) -> None:
        super()._validate_params()
        try:
            self._get_scorer()
        except ValueError:
            raise InvalidParameterError(
                f"The 'scoring' parameter of {type(self).__name__} must be one of "
                f"sklearn.metrics.get_scorer_names(), a callable or None, but is {self.scoring!r}."
            ) from None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> SearchingC:
        """Choose C, and train the model with it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
            Rows to learn from; not changed, and not copied where `LinearSVC` does not.
        y : array-like of shape (n_samples,), default=None
            Class labels of any type, or the targets of a regression. None is for stores, and means
            the labels in the store.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C per row, and weighs the scores.
        **params : dict
            `groups` for the splitter; with scikit-learn's metadata routing, whatever splitter and
            scorer ask for.

        Returns
        -------
        SearchingC
            The estimator itself.

        Warns
        -----
        ConvergenceWarning
            If a relative gap is still above `tol_search` or `tol`, or if the best score is at an
            end of the values of C.
        """
        _raise_for_params(_without("groups", params), self, "fit")
        Cs = check_Cs(self.Cs)
        X, y = load_if_it_fits(X, y, self.memory_limit)
        X, y, sample_weight = check_data(self, X, y, sample_weight)
        if y is None:
            y = labels_of(X)
        routed = self._routed(sample_weight, params)
        splitter = check_cv(self.cv, y, classifier=is_classifier(self))
        if in_blocks(X):
            rows = np.empty((len(y), 0))
            splits = masks_of(splitter.split(rows, y, **routed.splitter.split), len(y))
        else:
            rows = X.X if isinstance(X, OnDevice) else X
            splits = list(splitter.split(rows, y, **routed.splitter.split))
        if not splits:
            raise ValueError("cv makes no folds; it needs at least one pair (train, test).")
        if self.selection == "one_standard_error" and len(splits) < 2:
            raise ValueError(
                'selection="one_standard_error" needs at least 2 folds to have a standard error, '
                f"but cv makes {len(splits)}."
            )
        shared = parameters_of(self._kind).keys() & parameters_of(type(self))
        model = self._kind(**{name: getattr(self, name) for name in shared})
        settings = model._settings()
        with model._context(steps=len(Cs)) as context:
            data = training_data(X, y, sample_weight, settings, context)
            default = isinstance(self.Cs, Integral) and int(self.Cs) > 1
            if default:
                Cs = Cs * unit_cost(data, y, settings)
            score = self._score(X, y, routed.scorer.score)
            found, best, fitted = search(
                model, settings, data, splits, Cs, score, self, context, goes_on=default
            )
            model.C = float(found["Cs_"][best])
            if fitted is None:
                context.show_anew()
                fitted = train(data, settings.but(C=model.C), context)
            names = ("n_features_in_", "feature_names_in_")
            features = {name: getattr(self, name) for name in names if hasattr(self, name)}
            attributes = fitted.attributes() | features
            model.__dict__.update(attributes)
            self.__dict__.update(found, C_=model.C, best_estimator_=model, **attributes)
        name, tol = type(self).__name__, self.tol_search or self.tol
        searched, limits = "trainings of the search", "max_iter or tol_search"
        warn_of_gaps(name, self.search_gap_, tol, searched, limits, self.Cs_, stacklevel=3)
        self._warn_of_ends()
        model._warn(stacklevel=3)
        return self

    def _routed(self, sample_weight: Any, params: dict[str, Any]) -> Any:
        """Return what goes to the splitter and what to the scorer."""
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return Bunch(splitter=Bunch(split=params), scorer=Bunch(score=weights))

    def _score(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        """Return a function that scores a model on some of the rows."""
        scorer, config = self._get_scorer(), get_config()
        if self.scoring is None and not (params or in_blocks(X) or isinstance(X, OnDevice)):
            scorer = self._plain_scorer or scorer

        def score(model: CertifiedModel, test: Any) -> float:
            chosen = _check_method_params(y, params, indices=test)
            with config_context(**config):  # threads start with scikit-learn's own
                if isinstance(X, OnDevice):
                    value = scorer(on_host(model), X.some(test), y[test], **chosen)
                else:
                    rows = PartOfBlocks(X, test) if in_blocks(X) else X[test]
                    value = scorer(model, rows, y[test], **chosen)
            if not np.isfinite(value):
                raise ValueError(
                    f"scoring gave {value} for C = {model.C:g} on {len(y[test])} rows with the "
                    f"labels {np.unique(y[test])[:20].tolist()}. Use folds and a scoring that go "
                    "together."
                )
            return float(value)

        return score

    def _warn_of_ends(self) -> None:
        """Warn if the best score is at an end of three or more values: of two, every one is."""
        n, best = len(self.Cs_), int(self.mean_score_.argmax())
        C, name = self.Cs_[best], type(self).__name__
        at_first = best == 0 and self.mean_score_[0] > self.mean_score_[1:].max(initial=-np.inf)
        if n < 3 or not (at_first or best == n - 1):
            return
        end, beyond = ("smallest", "smaller") if at_first else ("largest", "larger")
        advice = f"Add {beyond} values to Cs."
        if isinstance(self.Cs, Integral):
            advice = f"Scale the features, or pass {beyond} values as Cs."
        warnings.warn(
            f"{name} found the best score at C = {C:g}, the {end} of {n} values that it tried; a "
            f"{beyond} one may be better. {advice}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def score(self, X: Any, y: Any, **score_params: Any) -> float:
        """Return the score of the model by `scoring`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels or targets.
        **score_params : dict
            `sample_weight`; with scikit-learn's metadata routing, whatever the scorer asks for.

        Returns
        -------
        float
            The score; if `scoring` is None, accuracy or R^2.
        """
        check_is_fitted(self)
        _raise_for_params(_without("sample_weight", score_params), self, "score")
        if _routing_enabled():
            score_params = process_routing(self, "score", **score_params).scorer.score
        given = {name: value for name, value in score_params.items() if value is not None}
        model: Any = self
        if space_of(X) is not None:
            model, y = on_host(self.best_estimator_), to_host(y)
            given = {name: to_host(value) for name, value in given.items()}
        return float(self._get_scorer()(model, X, y, **given))

    def _get_scorer(self) -> Any:
        return get_scorer(self.scoring or self._default_scoring)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who gets what; see scikit-learn's user guide on metadata routing."""
        splits = MethodMapping().add(caller="fit", callee="split")
        scores = MethodMapping().add(caller="fit", callee="score")
        scores.add(caller="score", callee="score")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(splitter=self.cv, method_mapping=splits)
        return router.add(scorer=self._get_scorer(), method_mapping=scores)


def _without(name: str, params: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key != name}

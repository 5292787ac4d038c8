"""How `LinearSVC` and `LinearSVR` are trained, and what they warn of."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._host import to_host
from .._parameters import parameters_of
from ..placements import DeviceSet, OnDevice, load_if_it_fits, training_data
from ..training import Context, Settings, draw_seed, train
from ..training.parameters import Cost, Training
from ..training.progress import shortfall
from ._callbacks import HAS_CALLBACKS, CallbackSupportMixin, callbacks_of, with_callbacks
from ._model import CERTIFICATE
from ._proof import Provable
from ._validation import check_data

Model = TypeVar("Model", bound="CertifiedModel")

# Smaller relative gaps may be all rounding.
PROVABLE = 1e-13


class CertifiedModel(CallbackSupportMixin, Provable, Cost, Training, BaseEstimator):
    """A linear model that is trained to a certificate; its parameters include `Settings`."""

    _texts: ClassVar = {"certificate": CERTIFICATE}

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self: Model, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None
    ) -> Model:
        """Train the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
            Rows to learn from; not changed, and not copied where the notes above say so.
        y : array-like of shape (n_samples,), default=None
            Class labels of any type, or the targets of a regression. None is for stores, and means
            the labels in the store.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C per row: weight 2 equals the row twice, weight 0 the row left out.
        checkpoint : str or Path, default=None
            A directory for the state of training block by block, written after each pass. If it
            is there already, training goes on from it: a run that was killed is repeated but for
            the pass it was in, to bitwise the same model. Refused if the data or what defines the
            problem differ; `tol`, `max_iter`, `max_time` and `memory_limit` may. Nothing else
            has a use for it, neither an X in memory nor a store that fits.

        Returns
        -------
        CertifiedModel
            The estimator itself.

        Warns
        -----
        ConvergenceWarning
            If the relative gap is still above `tol`; the message says by how much.
        """
        X, y = load_if_it_fits(X, y, self.memory_limit)
        X, y, sample_weight = check_data(self, X, y, sample_weight)
        settings = self._settings()
        callbacks = callbacks_of(self, X.X if isinstance(X, OnDevice) else X, y)
        with self._context(watcher=callbacks) as context:
            data = training_data(X, y, sample_weight, settings, context, checkpoint)
            fitted = train(data, settings, context, duals=self._duals(data))
            self.__dict__.update(fitted.attributes())
        self._warn(stacklevel=4 if HAS_CALLBACKS else 3)
        return self

    def _settings(self) -> Settings:
        """Return the settings of a training; draw its seed from `random_state`."""
        params = {n: getattr(self, n) for n in parameters_of(Settings) if hasattr(self, n)}
        integer = isinstance(self.random_state, Integral)
        params["C"] = float(self.C)
        params["random_state"] = int(self.random_state) if integer else None
        given = self.random_state
        params["seed"] = draw_seed(given if integer else check_random_state(given))
        return Settings(**params)

    def _context(self, **more: Any) -> Context:
        """Return the context of a training."""
        return Context(n_jobs=self.n_jobs, verbose=bool(self.verbose), tol=self.tol, **more)

    def _duals(self, data: Any) -> Any:
        """Return the dual variables to start from, or None for a cold start."""
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        if hasattr(self, "classes_") and not np.array_equal(to_host(self.classes_), data.classes):
            return None
        if isinstance(data, DeviceSet) or sp.issparse(self.dual_coef_):
            return self.dual_coef_
        return sp.csr_array(to_host(self.dual_coef_))  # of a model that was trained on a device

    def _warn(self, stacklevel: int) -> None:
        """Warn if the model has not converged."""
        if not self.converged_:
            warnings.warn(self._shortfall(), ConvergenceWarning, stacklevel=stacklevel + 1)

    def _shortfall(self) -> str:
        limits = "max_iter" if self.max_time is None else "max_iter, max_time"
        advice = f"Raise {limits} or tol, or scale the features"
        if self.relative_gap_ <= PROVABLE:
            advice = "float64 can hardly prove less: raise tol"
        return f"{type(self).__name__} stopped at {shortfall(self)}. {advice}."

    def _as(self, kind: Any, shared: tuple[str, ...], **params: Any) -> Any:
        """Return a fitted estimator of this kind, with some parameters as they are here."""
        check_is_fitted(self)
        model = kind(**{name: getattr(self, name) for name in shared}, **params)
        fitted = ("coef_", "intercept_", "classes_", "n_iter_", "n_features_in_")
        for name in (*fitted, "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        return model


def warn_of_gaps(
    name: str, gaps: Any, tol: float, trained: str, limits: str, Cs: Any = None, stacklevel: int = 2
) -> None:
    """Warn if some of many models have not converged; the last axis of `gaps` is that of `Cs`."""
    short = gaps > tol
    if short.any():
        worst = np.atleast_2d(gaps).max(axis=0).argmax()
        where = "" if Cs is None else f", at C = {Cs[worst]:g}"
        warnings.warn(
            f"{name} stopped above relative duality gap {tol:.1e} in {short.sum()} of {short.size} "
            f"{trained}; the largest gap is {gaps.max():.1e}{where}. Raise {limits}, or scale the "
            "features.",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )

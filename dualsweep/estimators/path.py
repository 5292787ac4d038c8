"""`svc_path`, `svr_path` and `logistic_path`: models for one C after the other."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._clock import clock
from .._host import to_host
from ..placements import load_if_it_fits, training_data
from ..training import Fitted, train
from ._validation import check_Cs, check_data
from .certified import CertifiedModel, warn_of_gaps
from .logistic import LogisticRegression
from .svc import LinearSVC
from .svr import LinearSVR


@dataclass(frozen=True)
class SVCPath:
    """Models for ascending values of C, each with its certificate.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
        The values of C.
    models : list of LinearSVC, of LinearSVR or of LogisticRegression
        A fitted model for each.
    times : ndarray of shape (n_Cs,)
        Seconds that each took, from the model before it.
    """

    Cs: Any
    models: list[Any]
    times: Any

    @property
    def coefs(self) -> Any:
        """Weights, of shape (n_Cs, 1 or n_classes, n_features), or (n_Cs, n_features)."""
        return np.stack([to_host(model.coef_) for model in self.models])

    @property
    def intercepts(self) -> Any:
        """Intercepts, of shape (n_Cs, 1 or n_classes)."""
        return np.stack([to_host(model.intercept_) for model in self.models])

    @property
    def primal_objectives(self) -> Any:
        """Objective of each model."""
        return np.array([model.primal_objective_ for model in self.models])

    @property
    def dual_objectives(self) -> Any:
        """What no model's objective can be below, for each C."""
        return np.array([model.dual_objective_ for model in self.models])

    @property
    def relative_gaps(self) -> Any:
        """Relative duality gap of each model; the worst of the classes."""
        return np.array([model.relative_gap_ for model in self.models])

    @property
    def n_support(self) -> Any:
        """Support vectors of each model."""
        return np.array([model.support_.shape[0] for model in self.models])


def svc_path(
    X: Any, y: Any = None, Cs: Any = 10, *, sample_weight: Any = None, **params: Any
) -> SVCPath:
    """Train a `LinearSVC` for each of several values of C, each from the one before.

    The models are those that a fit for each C would give, to within `tol`, in a fraction of the
    time. The values are trained in ascending order, whatever the order they are given in.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
        Rows to learn from; not changed, and not copied where `LinearSVC` does not.
    y : array-like of shape (n_samples,), default=None
        Class labels of any type. None is for stores, and means the labels in the store.
    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, or how many of them, from 2^-6 to 2^3 at equal ratios.
    sample_weight : array-like of shape (n_samples,), default=None
        Multiplies C per row: weight 2 equals the row twice, weight 0 the row left out.
    **params : dict
        Parameters of `LinearSVC` but for `C` and `warm_start`. `max_time` is for the whole path:
        values of C that it does not suffice for get the model before them, scaled, and the
        certificate of that.

    Returns
    -------
    SVCPath
        Models, certificates, times and numbers of support vectors.

    Warns
    -----
    ConvergenceWarning
        If the relative gap of some model is still above `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import svc_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = svc_path(scale(X), y, [0.01, 0.1, 1.0], loss="hinge", random_state=0)
    >>> path.coefs.shape
    (3, 1, 30)
    >>> bool((path.relative_gaps <= 1e-3).all())
    True
    >>> bool((path.n_support[:-1] > path.n_support[1:]).all())
    True
    """
    return _path("svc_path", LinearSVC, X, y, Cs, sample_weight, params)


def svr_path(X: Any, y: Any, Cs: Any = 10, *, sample_weight: Any = None, **params: Any) -> SVCPath:
    """Train a `LinearSVR` for each of several values of C, each from the one before.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to learn from; not changed, and not copied where `LinearSVC` does not.
    y : array-like of shape (n_samples,)
        Targets.
    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, or how many of them, from 2^-6 to 2^3 at equal ratios.
    sample_weight : array-like of shape (n_samples,), default=None
        Multiplies C per row: weight 2 equals the row twice, weight 0 the row left out.
    **params : dict
        Parameters of `LinearSVR` but for `C` and `warm_start`; see `svc_path`.

    Returns
    -------
    SVCPath
        Models, certificates, times and numbers of support vectors.

    Warns
    -----
    ConvergenceWarning
        If the relative gap of some model is still above `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import svr_path
    >>> X, y = load_diabetes(return_X_y=True)
    >>> path = svr_path(scale(X), scale(y), [0.01, 0.1, 1.0], epsilon=0.5, random_state=0)
    >>> path.coefs.shape
    (3, 10)
    >>> bool((path.relative_gaps <= 1e-3).all())
    True
    """
    return _path("svr_path", LinearSVR, X, y, Cs, sample_weight, params)


def logistic_path(
    X: Any, y: Any = None, Cs: Any = 10, *, sample_weight: Any = None, **params: Any
) -> SVCPath:
    """Train a `LogisticRegression` for each of several values of C, each from the one before.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
        Rows to learn from; not changed, and not copied where `LinearSVC` does not.
    y : array-like of shape (n_samples,), default=None
        Class labels of any type. None is for stores, and means the labels in the store.
    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, or how many of them, from 2^-6 to 2^3 at equal ratios.
    sample_weight : array-like of shape (n_samples,), default=None
        Multiplies C per row: weight 2 equals the row twice, weight 0 the row left out.
    **params : dict
        Parameters of `LogisticRegression` but for `C` and `warm_start`; see `svc_path`.

    Returns
    -------
    SVCPath
        Models, certificates and times.

    Warns
    -----
    ConvergenceWarning
        If the relative gap of some model is still above `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import logistic_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = logistic_path(scale(X), y, [0.01, 0.1, 1.0], random_state=0)
    >>> path.coefs.shape
    (3, 1, 30)
    >>> bool((path.relative_gaps <= 1e-3).all())
    True
    """
    return _path("logistic_path", LogisticRegression, X, y, Cs, sample_weight, params)


def _path(
    name: str,
    kind: type[CertifiedModel],
    X: Any,
    y: Any,
    Cs: Any,
    sample_weight: Any,
    params: dict[str, Any],
) -> SVCPath:
    refused = {"C", "warm_start"} & params.keys()
    if refused:
        raise TypeError(f"{name} takes no {' and no '.join(sorted(refused))}; it takes Cs.")
    Cs = check_Cs(Cs)
    model = kind(**params)
    model._validate_params()
    X, y = load_if_it_fits(X, y, model.memory_limit)
    X, y, sample_weight = check_data(model, X, y, sample_weight)
    settings = model._settings()
    models: list[CertifiedModel] = []
    times: list[float] = []
    fitted: Fitted | None = None
    with model._context(steps=len(Cs)) as context:
        data = training_data(X, y, sample_weight, settings, context)
        deadline = np.inf if model.max_time is None else clock() + model.max_time
        for C in Cs.tolist():
            started = clock()
            context.bars.step, context.bars.label = len(models), f"C {C:.3g}  "
            at_C = settings.but(C=C, max_time=deadline - started)
            fitted = train(data, at_C, context, before=fitted)
            models.append(copy(model))
            models[-1].__dict__.update(fitted.attributes(), C=C)
            times.append(clock() - started)
    path = SVCPath(Cs, models, np.array(times))
    limits = "max_iter, max_time or tol"
    warn_of_gaps(name, path.relative_gaps, model.tol, "values of C", limits, Cs, stacklevel=3)
    return path

"""The certificate of a model that is already there, whoever trained it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, validate_data

from .._host import to_host
from ..problems.result import relative
from ..solvers.run import ROUNDING, primal_and_gap_of
from ..training import Context, Fitted, TrainingSet, train
from ._device import refuse_device
from ._validation import check_weights
from .svc import LinearSVC

__all__ = ["Certificate", "certify"]

# The lower bound is sought to within this part of the tolerance, the rest is for the model.
BOUND_SHARE = 0.25


class Certificate(NamedTuple):
    """How good a model is.

    ``primal`` is its objective and ``dual`` a number that no model's objective is below, both sums
    over the classes if each has a problem of its own. ``relative_gap`` is the part of the objective
    that might be saved at most, in the worst of the classes.
    """

    primal: float
    dual: float
    relative_gap: float
    n_iter: int  # sweeps and Newton steps it took to find the bound

    @property
    def gap(self) -> float:
        """What might be saved at most."""
        return self.primal - self.dual


def certify(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    C: float | None = None,
    loss: str | None = None,
    multi_class: str | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float | None = None,
    n_jobs: int | None = None,
) -> Certificate:
    """Return the certificate of a model on data, recomputed from nothing but its weights.

    The objective is that of the weights as they are, in float64. The lower bound is
    the value of some dual point, and holds whatever point that is: that of the model's own dual
    variables if it has them, X has as many rows, and they prove `tol`; else one that is found by
    solving the problem. (A dual point made of the weights alone, each variable the one that fits
    the row's slack, is no use: on text its bound is far below 0, and it is no better start than 0.)

    Parameters
    ----------
    model : classifier
        A fitted linear classifier with `coef_`, `intercept_` and `classes_`: a `LinearSVC` or
        `LinearSVCCV`, trained here or read from a file of LIBLINEAR, or one of scikit-learn's. Its
        parameters of the names of `LinearSVC`'s (C, loss, multi_class, class_weight, fit_intercept
        and intercept_scaling) say which problem is meant.
    X, y : array-like
        The data the model was trained on, or other data with the same classes: then the
        certificate says how good the model is for those.
    sample_weight : array-like of shape (n_samples,), default=None
        Multiplies C per row, as in `LinearSVC.fit`.
    C, loss, multi_class : default=None
        Of the problem, instead of the model's own. C and loss have to be given where the model has
        none that `LinearSVC` knows.
    tol : float, default=1e-3
        Relative gap to look for.
    max_iter, max_time, n_jobs
        See `LinearSVC`; they limit the search for a lower bound, which is valid wherever it ends.

    Returns
    -------
    Certificate
        The objective, the bound and the relative gap.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualsweep import LinearSVC, certify
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC(tol=1e-4, random_state=0).fit(X, y)
    >>> certify(model, X, y).relative_gap <= 1e-4
    True
    >>> model.coef_ *= 0.9
    >>> certify(model, X, y).relative_gap <= 1e-4
    False
    """
    check_is_fitted(model)
    refuse_device(X, "certify")
    model = getattr(model, "best_estimator_", model)
    problem = _problem(model, C=C, loss=loss, multi_class=multi_class)
    X, y = validate_data(
        model, X, y, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
    )
    settings = replace(
        problem._settings(), tol=BOUND_SHARE * tol, max_iter=max_iter, max_time=max_time
    )
    weights = _weights(model, X.shape[1], settings.bias)
    with Context(n_jobs=n_jobs) as context:
        data = TrainingSet(X, y, check_weights(sample_weight, X), settings.bias, context)
        if not np.array_equal(data.classes, model.classes_):
            raise ValueError(
                f"The model has the classes {_some(model.classes_)}, but y has "
                f"{_some(data.classes)}."
            )
        duals = getattr(model, "dual_coef_", None)
        if duals is not None:
            duals = sp.csr_array(to_host(duals))
        # The certificate of its own dual variables, or of none.
        found = train(data, replace(settings, max_iter=0), context, duals=duals)
        primals = _primals(found, weights)
        lower = np.array([result.dual for result in found.results])
        if not (primals - lower <= tol * primals).all():
            found = train(data, settings, context, duals=duals)
            lower = np.maximum(lower, [result.dual for result in found.results])
    gaps = np.maximum(primals - lower, ROUNDING * primals)
    return Certificate(
        primal=float(primals.sum()),
        dual=float((primals - gaps).sum()),
        relative_gap=max(map(relative, gaps.tolist(), primals.tolist())),
        n_iter=found.n_iter,
    )


def _primals(found: Fitted, weights: Any) -> Any:
    """Return the objectives of the problems at these rows of weights."""
    primals = []
    for p in range(len(found.results)):
        problem = found.formulation.problem(p)
        w, members = found.formulation.problem_weights(p, weights), problem.candidates
        slack = np.empty(len(members))
        primal, _ = primal_and_gap_of(problem, members, problem.zero_alpha(), w, slack)
        primals.append(primal)
    return np.array(primals)


def _problem(model: Any, **given: Any) -> LinearSVC:
    """Return a `LinearSVC` with the parameters of the problem that is meant."""
    params = {}
    for name in ("C", "loss", "multi_class", "class_weight", "fit_intercept", "intercept_scaling"):
        if given.get(name) is not None:
            params[name] = given[name]
        elif hasattr(model, name):
            params[name] = getattr(model, name)
    problem = LinearSVC(**params)
    for name in ("C", "loss"):
        if name not in params:
            raise ValueError(
                f"{type(model).__name__} has no {name} that says which problem is meant: pass "
                f"{name} to certify."
            )
    problem._validate_params()
    return problem


def _weights(model: Any, n_features: int, bias: float) -> Any:
    """Return a row of weights for each row of coefficients, that of the constant feature last."""
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else np.asarray(model.coef_)
    n_rows = 1 if len(model.classes_) == 2 else len(model.classes_)
    if coef.shape != (n_rows, n_features):
        raise ValueError(
            f"A linear classifier of {len(model.classes_)} classes and {n_features} features has "
            f"{n_rows} rows of as many coefficients, but coef_ has the shape {coef.shape}."
        )
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), n_rows)
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("coef_ or intercept_ of the model are not all finite.")
    if not bias and intercept.any():
        raise ValueError(
            "The model has an intercept_ that is not 0, but fit_intercept=False: its problem has "
            "no intercept. Set one of the two right."
        )
    last = intercept / bias if bias else np.zeros(n_rows)
    return np.column_stack([coef, last]).astype(np.float64, copy=False)


def _some(classes: Any) -> str:
    return f"{classes[:5].tolist()}{' ...' if len(classes) > 5 else ''}"

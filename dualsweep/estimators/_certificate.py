"""The certificate of a model that is already there, whoever trained it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from .._threads import count_threads
from ..run import ROUNDING
from ..solve import solve
from ..training.common import TrainingSet, usable_duals
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
    model = getattr(model, "best_estimator_", model)
    problem = _problem(model, C=C, loss=loss, multi_class=multi_class)
    X, y = validate_data(
        model, X, y, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
    )
    data = TrainingSet(X, y, check_weights(sample_weight, X), problem._bias)
    if not np.array_equal(data.classes, model.classes_):
        raise ValueError(
            f"The model has the classes {_some(model.classes_)}, but y has {_some(data.classes)}."
        )
    formulation = data.at(problem.C, problem)
    weights = _weights(model, X.shape[1], problem._bias)
    dual_coef = usable_duals(model, len(weights), len(y))
    n_problems = len(formulation.names(data.classes))
    deadline = np.inf if max_time is None else perf_counter() + max_time

    def check(p: int) -> tuple[float, float, int]:
        """Return objective and lower bound of the p-th problem, and how long it took to find."""
        problem = formulation.problem(p)
        members = np.flatnonzero(problem.cost > 0)
        w = formulation.problem_weights(p, weights)
        primal, _ = problem.certify(members, problem.zero_alpha(), w, np.empty(len(members)))
        alpha, dual = None, 0.0  # 0 is the dual value of no dual variables
        if dual_coef is not None:
            alpha = formulation.start(p, dual_coef)
            dual = solve(problem, alpha=copy(alpha), max_time=0.0).dual
            if primal - dual <= tol * primal:
                return primal, dual, 0
        result = solve(
            problem,
            alpha=alpha,
            tol=BOUND_SHARE * tol,
            max_iter=max_iter,
            max_time=deadline - perf_counter(),
        )
        return primal, max(dual, result.dual), result.n_iter

    with ThreadPoolExecutor(min(count_threads(n_jobs), n_problems)) as pool:
        checks = list(pool.map(check, range(n_problems)))
    primals, duals, n_iters = map(np.array, zip(*checks, strict=True))
    gaps = np.maximum(primals - duals, ROUNDING * primals)
    return Certificate(
        primal=float(primals.sum()),
        dual=float((primals - gaps).sum()),
        relative_gap=float(np.divide(gaps, primals, where=primals > 0, out=0.0 * gaps).max()),
        n_iter=int(n_iters.max()),
    )


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

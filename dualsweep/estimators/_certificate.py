"""The certificate of a fitted linear model, of any library."""

from __future__ import annotations

from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_regressor
from sklearn.linear_model import LogisticRegression as PeerRegression
from sklearn.linear_model import LogisticRegressionCV as PeerRegressionCV
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils.validation import check_is_fitted

from .._host import to_host
from .._parameters import parameters_of
from .._typing import Array, Sparse
from ..io._files import check_target
from ..kernels.certificate import relative
from ..placements import load_if_it_fits, training_data
from ..problems.run import certificate_of
from ..rows.functions import EPS
from ..training import Context, Settings, train
from ..training.problems import SeparateProblems
from ._device import refuse_device
from ._proof import Certificate, prove, vectors_of
from ._validation import check_again, check_weights
from .certified import CertifiedModel
from .logistic import LogisticRegression
from .svc import LinearSVC
from .svr import LinearSVR

# The lower bound is sought to within this part of the tolerance; the rest is for the model.
BOUND_SHARE = 0.25

# The parameters that say which problem is meant, and those of them that name one of several things.
CHOICES = {"loss", "multi_class", "intercept"}
PROBLEM = {"C", "epsilon", "class_weight", "fit_intercept", "intercept_scaling", *CHOICES}


def certify(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    C: float | None = None,
    loss: str | None = None,
    multi_class: str | None = None,
    epsilon: float | None = None,
    intercept: str | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    proof: str | Path | None = None,
    force: bool = False,
) -> Certificate:
    """Return the certificate of a model on data, recomputed from nothing but its weights.

    The objective is that of the weights as they are, in float64. The lower bound is the value of a
    dual point, and holds whatever point that is: the model's own dual variables if X has as many
    rows and they prove `tol`, else one that is found by solving the problem. (A dual point made of
    the weights alone does not help: on text its bound is far below 0, no better than to start from
    0.)

    Parameters
    ----------
    model : classifier or regressor
        Anything with `coef_`, `intercept_` and `classes_`, of any library, or a linear regressor.
        Parameters named as those of `LinearSVC` or `LinearSVR` (C, loss, multi_class, epsilon,
        class_weight, fit_intercept, intercept and intercept_scaling) say which problem is meant.
        scikit-learn's logistic regression is known to have the logistic loss.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
        The rows the model was trained on, or other rows with the same classes: the certificate then
        says how good the model is for those.
    y : array-like of shape (n_samples,), default=None
        Their labels, or targets. None is for stores, and means the labels in the store.
    sample_weight : array-like of shape (n_samples,), default=None
        Multiplies C per row, as in `LinearSVC.fit`.
    C : float, default=None
        Cost of the problem. None means the model's own; give it if the model has none.
    loss : str, default=None
        Loss of the problem. None means the model's own; give it if that is not a loss of
        `LinearSVC` or `LinearSVR`.
    multi_class : str, default=None
        Formulation of the problem, "multinomial" among them. None means the model's own, or one
        versus the rest.
    epsilon : float, default=None
        Deviation of regression that costs nothing. None means the model's own; give it if the model
        has none.
    intercept : str, default=None
        "penalized" or "free". None means the model's own, or penalised; LIBLINEAR's do not tell.
    tol : float, default=1e-3
        Relative gap to look for. The lower bound is sought to within a quarter of that.
    max_iter : int, default=1000
        Sweeps and Newton steps for a lower bound, which is valid wherever they end.
    max_time : float, default=None
        Seconds for it; None means no limit.
    memory_limit : int, default=None
        Bytes for it: a store that does not fit is read block by block. None means no limit.
    n_jobs : int, default=None
        Threads; see `LinearSVC`.
    proof : str or Path, default=None
        A file to write a proof to, which others can check against the data: see docs/proofs.md.
    force : bool, default=False
        Whether to replace a proof that exists.

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
    model = _linear_model(model)
    refuse_device(X, "certify")
    if proof is not None:
        check_target(Path(proof), force=force)
    given = {"C": C, "loss": loss, "multi_class": multi_class, "epsilon": epsilon}
    problem = _problem(model, **given, intercept=intercept)
    X, y = check_again(model, *load_if_it_fits(X, y, memory_limit))
    settings = problem._settings().but(
        tol=BOUND_SHARE * tol, max_iter=max_iter, max_time=max_time, memory_limit=memory_limit
    )
    weights = _weights(model, X.shape[1], settings)
    sample_weight = check_weights(sample_weight, X)
    with Context(n_jobs=n_jobs) as context:
        data = training_data(X, y, sample_weight, settings, context)
        classes: Any = None if _regresses(model) else np.asarray(to_host(model.classes_))
        if classes is not None and not np.array_equal(data.classes, classes):
            raise ValueError(
                f"The model has the classes {_some(classes)}, but y has {_some(data.classes)}."
            )
        duals = getattr(model, "dual_coef_", None)
        if duals is not None:
            duals = sp.csr_array(to_host(duals))
        # The certificate of its own dual variables, or of none. `found` is large: drop it early.
        found = train(data, settings.but(max_iter=0), context, duals=duals)
        problems: Any = found.problems
        n_iter = found.n_iter
        lower = np.array([result.dual for result in found.results])
        kept = None if proof is None else found.dual_coef
        del found
        primals = _primals(problems, weights)
        if not (primals - lower <= tol * primals).all():
            found = train(data, settings, context, duals=duals)
            n_iter = found.n_iter
            duals_found = np.array([result.dual for result in found.results])
            if proof is not None:
                kept = _better(kept, found.dual_coef, duals_found > lower)
            lower = np.maximum(lower, duals_found)
    if proof is not None:
        prove(proof, model, settings, X, y, sample_weight, kept, force=force)
    gaps = np.maximum(primals - lower, 0.0)
    return Certificate(
        primal=fsum(primals),
        dual=fsum(lower),
        relative_gap=max(map(relative, gaps.tolist(), primals.tolist())),
        n_iter=n_iter,
    )


def _better(some: Sparse, others: Sparse, better: Array) -> Sparse:
    """Return the dual variables of each problem, those of `others` where these are better."""
    if len(better) == 1:
        return others if better[0] else some
    return sp.vstack([(others if b else some)[[p]] for p, b in enumerate(better)], format="csr")


def _primals(problems: SeparateProblems, weights: Array) -> Array:
    """Return the objectives of the problems at these rows of weights."""
    primals = []
    for p in range(len(problems.names)):
        problem = problems.problem(p)
        w = problems.formulation.problem_weights(p, weights)
        alpha, slack = problem.zero_alpha(), problem.slack_at_zero()
        primals.append(certificate_of(problem, alpha, w, slack, compensated=True).primal)
    return np.array(primals)


def _regresses(model: Any) -> bool:
    return isinstance(model, BaseEstimator) and is_regressor(model)


def _linear_model(model: Any) -> Any:
    """Return the model that has the weights; raise TypeError if it has none for each class."""
    name = type(model).__name__
    if isinstance(model, Pipeline):
        raise TypeError(
            "A Pipeline has no weights for X as it is. Pass its last step, and X as that sees it: "
            "certify(pipeline[-1], pipeline[:-1].transform(X), y)."
        )
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    model = getattr(model, "best_estimator_", model)
    wanted = ["coef_", "intercept_"] if _regresses(model) else ["coef_", "intercept_", "classes_"]
    missing = [part for part in wanted if not hasattr(model, part)]
    if missing:
        raise TypeError(
            f"{name} has no {' and no '.join(missing)}: certify takes linear classifiers, which "
            "have coef_, intercept_ and classes_, and linear regressors."
        )
    if isinstance(model, SVC | NuSVC) and len(model.classes_) > 2:
        raise TypeError(
            f"{name} has weights for pairs of classes, of more than two; certify takes those of "
            "one versus the rest, Crammer-Singer or Weston-Watkins."
        )
    return model


def _problem(model: Any, **given: Any) -> CertifiedModel:
    """Return an estimator with the parameters of the problem."""
    kind: type[CertifiedModel] = LinearSVR if _regresses(model) else LinearSVC
    table = {name: it for name, it in parameters_of(kind).items() if name in PROBLEM}
    params = {name: getattr(model, name) for name in table if hasattr(model, name)}
    soft = params.get("multi_class") == "multinomial"
    for name in CHOICES & params.keys():  # another library's may be none of ours
        if not table[name].accepts(params[name]):
            del params[name]
    if given["loss"] in (None, "logistic"):
        params |= {"multi_class": "multinomial"} if soft else {}
        params |= _implied(model)
    params |= {name: value for name, value in given.items() if name in table and value is not None}
    if params.get("multi_class") == "multinomial":
        if given["loss"] not in (None, "logistic"):
            raise ValueError(
                f"multi_class='multinomial' has the logistic loss, not {given['loss']!r}. Pass "
                "loss='logistic', or another multi_class."
            )
        kind, table = LogisticRegression, table.copy()
        params = {"intercept": "penalized"} | params
        del table["loss"]
        params.pop("loss", None)
    for name in ("C", "loss", "epsilon"):
        if name in table and name not in params:
            raise ValueError(
                f"{type(model).__name__} has no {name} that tells which problem to judge it by. "
                f"Pass {name} to certify."
            )
    problem = kind(**params)
    problem._validate_params()
    return problem


def _implied(model: Any) -> dict[str, Any]:
    """Return the parameters of the problem that scikit-learn's logistic regression does not name.

    Its intercept is not penalised, and its classes are trained at once, but for one solver.
    """
    if not isinstance(model, PeerRegression | PeerRegressionCV):
        return {}
    params = model.get_params()
    ratio = np.asarray(getattr(model, "l1_ratio_", params.get("l1_ratio")), np.float64)
    sparse = params.get("penalty") in ("l1", "elasticnet") or np.nan_to_num(ratio).any()
    if sparse or params.get("penalty", "l2") is None or params.get("C") == np.inf:
        raise TypeError(
            f"certify judges models of the l2 penalty, but this {type(model).__name__} has another."
        )
    alone = params["solver"] == "liblinear"
    found = {"loss": "logistic", "intercept": "penalized" if alone else "free"}
    if len(model.classes_) > 2:
        separate = alone or params.get("multi_class") == "ovr"
        found["multi_class"] = "ovr" if separate else "multinomial"
    costs = np.unique(getattr(model, "C_", params.get("C")))
    return found | ({"C": float(costs[0])} if len(costs) == 1 else {})


def _weights(model: Any, n_features: int, settings: Settings) -> Array:
    """Return a row of weights for each row of coefficients, that of the constant feature last."""
    coef, intercept = vectors_of(model, n_features, settings)
    bias = settings.bias
    last = intercept / bias if bias else np.zeros(len(coef))
    if (np.abs(bias * last - intercept) > 2.0 * EPS * np.abs(intercept)).any():
        raise ValueError(
            f"intercept_ of the model is too small, or too large, to be divided by "
            f"intercept_scaling={bias:g} in float64. Round it to 0, or use another scaling."
        )
    return np.column_stack([coef, last])


def _some(classes: Any) -> str:
    return f"{classes[:5].tolist()}{' ...' if len(classes) > 5 else ''}"

"""Write proofs of models, which others can check."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._host import to_host
from .._typing import Array, Sparse
from ..io._files import check_target
from ..io.proof import ProvenProblem, write_proof
from ..kernels.certificate import relative
from ..losses import REGRESSION_LOSSES
from ..problems.labels import encode_labels
from ..rows.blocks import in_blocks
from ..training import Settings
from ..training.claims import (
    Claim,
    Duals,
    Vectors,
    binary_duals,
    bounds_of,
    digest,
    joint_duals,
    provable,
)
from ..training.formulations import as_targets, formulation_of
from ._device import space_of
from ._validation import check_again, check_weights, labels_of


class Certificate(NamedTuple):
    """How good a model is.

    Attributes
    ----------
    primal : float
        Its objective; the sum over the classes if each has a problem of its own.
    dual : float
        What no model's objective is below; a sum likewise.
    relative_gap : float
        The part of the objective that might be saved at most, in the worst of the classes.
    n_iter : int
        Sweeps and Newton steps it took to find the bound.
    """

    primal: float
    dual: float
    relative_gap: float
    n_iter: int

    @property
    def gap(self) -> float:
        """What might be saved at most."""
        return self.primal - self.dual


class Provable:
    """A model that can prove its certificate."""

    def save_proof(
        self,
        path: str | Path,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        force: bool = False,
    ) -> Certificate:
        """Write a proof of the certificate, which others can check without this library.

        The proof has the weights, the dual variables, the cost of each row, a digest of the data,
        and bounds on both objectives. ``dualsweep-check PROOF DATA``, a single file of Python's
        standard library, compares it with the data in svmlight text. See docs/proofs.md.

        Parameters
        ----------
        path : str or Path
            Where to write; the file appears complete or not at all. A link is followed.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
            The rows the model was trained on.
        y : array-like of shape (n_samples,), default=None
            Their labels, or targets. None is for stores, and means the labels in the store. Labels
            that are no numbers count as their places in ascending order, from 0 on.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights it was trained with.
        force : bool, default=False
            Whether to replace a file that exists.

        Returns
        -------
        Certificate
            What is proven, computed anew from the model and X. For other rows, labels or weights
            than those of the training it is true too, but worse.
        """
        check_is_fitted(self)
        model: Any = getattr(self, "best_estimator_", self)
        if not hasattr(model, "dual_coef_"):
            raise ValueError(
                f"This {type(model).__name__} has no dual variables, so it proves nothing by "
                "itself. certify(model, X, y, proof=path) looks for some, and writes a proof with "
                "them."
            )
        first = X
        while isinstance(first, list | tuple) and first:
            first = first[0]
        if hasattr(first, "__dask_graph__"):
            raise TypeError(
                f"A proof takes rows in memory or a store, but X is a {type(X).__name__} of Dask. "
                "Pass what its compute() returns."
            )
        check_target(Path(path), force=force)
        if space_of(X) is not None:
            X, y, sample_weight = to_host(X), to_host(y), to_host(sample_weight)
        X, y = check_again(model, X, y)
        weight = check_weights(sample_weight, X)
        duals = sp.csr_array(to_host(model.dual_coef_))
        if duals.shape[1] != X.shape[0]:
            raise ValueError(
                f"The model was trained on {duals.shape[1]} rows, but X has {X.shape[0]}. Pass the "
                "rows it was trained on, or use certify(model, X, y, proof=path)."
            )
        bounds = prove(path, model, model._settings(), X, y, weight, duals, force=force)
        primal, dual = zip(*bounds, strict=True)
        gaps = [relative(_up(upper - lower), upper) for upper, lower in bounds]
        return Certificate(_up(fsum(primal)), -_up(-fsum(dual)), _up(max(gaps)), n_iter=0)


def _up(x: float) -> float:
    return float(np.nextafter(x, np.inf))


def prove(
    path: str | Path,
    model: Any,
    settings: Settings,
    X: Any,
    y: Any,
    weight: Array | None,
    duals: Sparse,
    *,
    force: bool,
) -> list[tuple[float, float]]:
    """Write the proof of a model by signed dual variables; return the bounds of each problem.

    X and y are checked already. If y is None, X is a store with labels.
    """
    if y is None:
        y = labels_of(X)
    regression = settings.loss in REGRESSION_LOSSES
    classes, codes = (None, as_targets(y)) if regression else encode_labels(y, weight)
    if classes is not None and not np.array_equal(classes, to_host(model.classes_)):
        raise ValueError("The classes of y are not those of the model.")
    formulation = formulation_of(settings, classes, settings.class_weight)
    if formulation.together and settings.multi_class == "multinomial":
        raise ValueError(
            "A proof states the losses of support vector machines, not the multinomial one, of "
            "which there is no exact arithmetic. certify without proof takes it."
        )
    cost = formulation.costs(codes, weight)
    vectors = vectors_of(model, X.shape[1], settings)
    if duals.shape[0] != len(vectors.intercept):
        raise ValueError(
            f"The model has {len(vectors.intercept)} rows of weights, but {duals.shape[0]} of dual "
            "variables."
        )
    rows = X.read(0)[0] if in_blocks(X) else X
    intercept = f"penalized {float(settings.bias)!r}" if settings.fit_intercept else "none"
    joint = settings.multi_class if formulation.together else None
    about = {
        "formulation": joint or ("regression" if regression else "one_versus_rest"),
        "loss": "hinge" if joint else settings.loss,
        "epsilon": repr(float(settings.epsilon)),
        "intercept": "free" if settings.free_intercept else intercept,
        "classes": "" if classes is None else " ".join(map(repr, _numbers_of(classes, y))),
        "precision": "32" if rows.dtype == np.float32 else "64",
        "rows": str(X.shape[0]),
        "features": str(X.shape[1]),
        "data": digest(X, codes if regression else np.array(_numbers_of(y, y))),
    }
    problems = _problems(formulation, X, codes, cost, vectors, duals)
    return write_proof(Path(path), about, float(settings.C), cost, problems, force=force)


def _numbers_of(labels: Array, y: Array) -> list[float]:
    """Return labels as numbers; those that are not numbers become their rank among those of y."""
    if y.dtype.kind not in "fiub":
        labels = np.searchsorted(np.unique(y), labels)
    numbers = labels.astype(np.float64)
    with np.errstate(invalid="ignore"):  # 2^63 is no int64
        same = numbers.astype(labels.dtype) == labels
    if not same.all():
        raise ValueError(
            "A proof has labels that float64 has, as svmlight text does, but y has integers beyond "
            "2^53. Use smaller ones."
        )
    return [float(x) for x in (numbers + 0.0).tolist()]


def _problems(
    formulation: Any, X: Any, codes: Array, cost: Array, vectors: Vectors, duals: Sparse
) -> Iterator[ProvenProblem]:
    """Yield the problems of a training with their bounds."""
    settings, classes = formulation.settings, formulation.classes
    loss, target = provable(formulation.loss), codes if classes is None else None
    bias = 0.0 if settings.free_intercept else float(settings.bias)
    model_weights = np.column_stack(vectors)
    for p in range(len(formulation.names)):
        weights = np.atleast_2d(formulation.problem_weights(p, model_weights).T)
        if formulation.together:
            y, joint = codes, settings.multi_class
            found = joint_duals(duals, codes, cost, joint)
        else:
            y, joint = formulation.signs(p, codes), None
            alpha = duals[[p]].toarray()[0] * y
            alpha = binary_duals(alpha, y, cost, loss, settings.free_intercept)
            rows = np.flatnonzero(alpha)
            found = Duals(rows, np.zeros_like(rows), alpha[rows])
        own = Vectors(weights[:, :-1], weights[:, -1])
        bounds = bounds_of(Claim(X, y, target, cost, loss, joint, bias, own, found))
        columns = [found.columns == m for m in range(len(weights))]
        parts = [(found.rows[column], found.values[column]) for column in columns]
        yield ProvenProblem(formulation.positives[p], *bounds, *own, parts)


def vectors_of(model: Any, n_features: int, settings: Settings) -> Vectors:
    """Return the weights and intercepts of a model as float64; raise ValueError if any is wrong."""
    classes = to_host(getattr(model, "classes_", None))
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else to_host(model.coef_)
    coef = np.atleast_2d(np.asarray(coef)).astype(np.float64, copy=False)
    kind = "regressor of" if classes is None else f"classifier of {len(classes)} classes and"
    n_rows = 1 if classes is None or len(classes) == 2 else len(classes)
    if coef.shape != (n_rows, n_features):
        raise ValueError(
            f"A linear {kind} {n_features} features has {n_rows} rows of as many coefficients, "
            f"but coef_ has the shape {coef.shape}."
        )
    intercept = np.broadcast_to(np.asarray(to_host(model.intercept_), dtype=np.float64), n_rows)
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("coef_ or intercept_ of the model has NaN or infinity.")
    if not settings.fit_intercept and intercept.any():
        raise ValueError(
            "The model has an intercept_ that is not 0, but fit_intercept=False: its problem has "
            "no intercept. Correct one of the two."
        )
    return Vectors(coef, intercept)

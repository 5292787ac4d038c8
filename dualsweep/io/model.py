"""Models in files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .._host import to_host
from .._parameters import Parameter, parameters_of
from .._typing import Array, JsonObject
from ..losses import REGRESSION_LOSSES
from ..problems.labels import check_classes
from ..problems.result import HISTORY_DTYPE
from ._checks import blaming, check_weights, checked_csr, is_count, is_number, parse_object, text_of
from ._npz import read_arrays, without_objects, write_arrays
from .liblinear import MAGIC, Attributes, fitted_estimator, fitted_weights, read_liblinear

if TYPE_CHECKING:
    from ..estimators import LinearSVC, LinearSVR, LogisticRegression

FORMAT = 1

ARRAYS = ("coef", "intercept", "header")
OPTIONAL = {"classes": "classes_", "feature_names": "feature_names_in_", "history": "history_"}
DUALS = ("dual_data", "dual_indices", "dual_indptr", "n_samples")
CERTIFICATE = (
    "primal_objective_",
    "dual_objective_",
    "dual_gap_",
    "relative_gap_",
    "converged_",
    "n_iter_",
)


def save_model(model: Any, path: str | Path, *, force: bool = False) -> None:
    """Write a fitted model, its parameters and its certificate to a file.

    The file is a zip of NumPy arrays and a JSON text, without pickles, so reading it runs no code.
    It appears complete or not at all.

    Parameters
    ----------
    model : LinearSVC, LinearSVR, LogisticRegression, or one of these that chose its C
        A fitted model; of a search, its `best_estimator_` is written. A `random_state` that is not
        an integer is lost, and the device that the arrays are on. A `LinearSVC` with the logistic
        loss is read as a `LogisticRegression`, which has probabilities.
    path : str or Path
        Where to write; by custom it ends in .npz. A link is followed.
    force : bool, default=False
        Whether to replace a file that exists. Devices, pipes and directories are never replaced.
    """
    svc = getattr(model, "best_estimator_", model)
    coef, intercept = fitted_weights(svc)
    estimator = _estimator_of(svc)
    params = {name: getattr(svc, name) for name in _tables()[estimator]}
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    if isinstance(params.get("class_weight"), dict):  # JSON knows only text as keys
        params["class_weight"] = list(params["class_weight"].items())
    header: JsonObject = {
        "format": FORMAT,
        "estimator": estimator,
        "params": params,
        "certificate": {n: getattr(svc, n) for n in CERTIFICATE if hasattr(svc, n)},
    }
    arrays = {"coef": coef, "intercept": intercept}
    for name, attribute in OPTIONAL.items():
        if hasattr(svc, attribute):
            arrays[name] = without_objects(to_host(getattr(svc, attribute)))
    if hasattr(svc, "dual_coef_"):
        duals = sp.csr_array(to_host(svc.dual_coef_))
        values = duals.data, duals.indices, duals.indptr, np.array(duals.shape[1])
        arrays |= dict(zip(DUALS, values, strict=True))
    header["arrays"] = list(arrays)
    arrays["header"] = np.array(json.dumps(header, default=_number))
    write_arrays(Path(path), arrays, force=force)


def load_model(path: str | Path) -> LinearSVC | LinearSVR | LogisticRegression:
    """Read a model that `save_model` wrote, or LIBLINEAR; ValueError if it is damaged.

    Parameters
    ----------
    path : str or Path
        The file. Its content tells which format it has; see `load_liblinear` for that of LIBLINEAR.

    Returns
    -------
    LinearSVC, LinearSVR or LogisticRegression
        A fitted model, with its dual variables, certificate and history if the file has them. The
        certificate is not recomputed, which takes the data: see `dualsweep.certify`.
    """
    model = fitted_estimator(*read_model(path))
    with blaming(f"{path} is a damaged model"):
        model._validate_params()
    return model


def read_model(path: str | Path) -> tuple[JsonObject, Attributes]:
    """Return the parameters and attributes of a model, without the import of scikit-learn.

    The values of the parameters are not checked; for the rest, see `load_model`.
    """
    path = Path(path)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                return read_liblinear(path)
    arrays = read_arrays(path)
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        raise ValueError(
            f"{path} is not a model of dualsweep: it lacks {', '.join(missing)}; it has "
            f"{', '.join(list(arrays)[:20]) or 'no arrays'}."
        )
    with blaming(f"{path} is a damaged model"):
        header = parse_object(text_of(arrays["header"], "header"))
        if not is_count(header.get("format")):
            raise ValueError("its header names no format")
        if header["format"] <= FORMAT:
            return _parameters(header), _attributes(header, arrays)
    raise ValueError(
        f"{path} has model format {header['format']}, but this version of dualsweep reads up "
        f"to {FORMAT}. Update dualsweep."
    )


def _estimator_of(model: Any) -> str:
    """Return the estimator that a model is read as: that of its loss."""
    if model.loss in REGRESSION_LOSSES:
        return "LinearSVR"
    probable = model.multi_class == "multinomial" or (
        model.multi_class == "ovr" and model.loss == "logistic"
    )
    return "LogisticRegression" if probable else "LinearSVC"


def _tables() -> dict[str, Mapping[str, Parameter]]:
    """Return the parameters that a file keeps, by estimator."""
    from ..training.parameters import Classification, LogisticClassification, Regression

    kinds = {
        "LinearSVC": Classification,
        "LinearSVR": Regression,
        "LogisticRegression": LogisticClassification,
    }
    return {name: parameters_of(kind) for name, kind in kinds.items()}


def _parameters(header: JsonObject) -> JsonObject:
    """Return the parameters, with `class_weight` as the dict that it was."""
    tables, params, estimator = _tables(), header.get("params"), header.get("estimator")
    if estimator not in list(tables) or not isinstance(params, dict):
        raise ValueError(f"its header names no {' or '.join(tables)}")
    unknown = sorted(set(params) - set(tables[estimator]))
    if unknown:
        raise ValueError(f"its header has unknown parameters: {', '.join(unknown)}")
    for name, value in params.items():
        if isinstance(value, int) and not is_count(abs(value)):
            raise ValueError(f"{name} is beyond 64 bits")
    weights = params.get("class_weight")
    if isinstance(weights, list | dict):
        with blaming("class_weight has no pairs of label and weight"):
            weights = dict(weights)
        if not all(map(is_number, weights.values())):
            raise ValueError(f"class_weight is {weights!r:.100}")
        params["class_weight"] = weights
    if estimator == "LogisticRegression":
        params["loss"] = "logistic"
    return params


def _attributes(header: JsonObject, arrays: dict[str, Array]) -> Attributes:
    """Return the fitted attributes; ValueError if one is not as `save_model` writes it."""
    coef, intercept, classes = arrays["coef"], arrays["intercept"], arrays.get("classes")
    fitted: Attributes = _certificate(header.get("certificate"))
    if (classes is None) != (header["estimator"] == "LinearSVR"):
        has = "lacks" if classes is None else "has"
        raise ValueError(f"it {has} classes, but its header names {header['estimator']}")
    if classes is not None:
        if classes.ndim != 1:
            raise ValueError(f"classes are {classes.dtype} {classes.shape}")
        check_classes(classes)
        fitted["classes_"] = classes
    check_weights(coef, intercept, classes)
    fitted |= {"coef_": coef, "intercept_": intercept, "n_features_in_": coef.shape[-1]}
    if "history" in arrays:
        history = fitted["history_"] = arrays["history"]
        if history.dtype != HISTORY_DTYPE or history.ndim != 1:
            raise ValueError(f"history is {history.dtype} {history.shape}")
    if any(name in arrays for name in DUALS):
        duals = _duals(arrays, len(intercept))
        fitted |= {"dual_coef_": duals, "support_": np.unique(duals.indices)}
    if "feature_names" in arrays:
        names = arrays["feature_names"]
        if names.dtype.kind != "U" or names.shape != (coef.shape[-1],):
            raise ValueError(f"feature_names are {names.dtype} {names.shape}")
        fitted["feature_names_in_"] = names.astype(object)
    listed = header.get("arrays", [])  # which models of earlier versions lack
    if not isinstance(listed, list) or any(name not in arrays for name in listed):
        raise ValueError("it lacks arrays that its header lists")
    return fitted


def _certificate(found: object) -> JsonObject:
    """Return a certificate, which is complete or, for a model of LIBLINEAR, empty."""
    if not isinstance(found, dict) or set(found) not in (set(), set(CERTIFICATE)):
        raise ValueError("its certificate is incomplete")
    for name, value in found.items():
        is_right = is_count if name == "n_iter_" else is_number
        if isinstance(value, bool) != (name == "converged_") or not is_right(value):
            raise ValueError(f"{name.rstrip('_')} is {value!r:.50}")
    return found


def _duals(arrays: dict[str, Array], n_rows: int) -> sp.csr_array:
    missing = [name for name in DUALS if name not in arrays]
    if missing:
        raise ValueError(f"of its dual variables it lacks {', '.join(missing)}")
    data, indices, indptr, n_samples = (arrays[name] for name in DUALS)
    if data.dtype != np.float64 or data.ndim != 1 or data.shape != indices.shape:
        raise ValueError(f"dual_data is {data.dtype} {data.shape}")
    if n_samples.ndim or not is_count(n_samples.item()):
        raise ValueError(f"n_samples is {n_samples!s:.50}")
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(data @ data):
            raise ValueError("its dual variables are not finite, or too large to compute with")
    return checked_csr(data, indices, indptr, (n_rows, n_samples.item()))


def _number(value: object) -> object:
    """Return a NumPy scalar as a Python number, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Cannot save {value!r} of type {type(value).__name__} as a parameter.")

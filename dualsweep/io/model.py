"""Models in files."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ._npz import plain, read_arrays, write_arrays
from .liblinear import MAGIC, load_liblinear

if TYPE_CHECKING:
    from ..estimators import LinearSVC, LinearSVCCV
    from ..training import PlainSVC

__all__ = ["load_model", "save_model"]

FORMAT = 1

ARRAYS = ("coef", "intercept", "classes", "header")
CERTIFICATE = (
    "primal_objective_",
    "dual_objective_",
    "dual_gap_",
    "relative_gap_",
    "converged_",
    "n_iter_",
)


def save_model(model: PlainSVC | LinearSVCCV, path: str | Path, *, force: bool = False) -> None:
    """Write a fitted model, its parameters and its certificate to a file.

    The file is a zip of NumPy arrays and one JSON text, without pickles: reading it runs no code.
    It appears complete or not at all.

    Parameters
    ----------
    model : LinearSVC or LinearSVCCV
        A fitted model; of a `LinearSVCCV`, its `best_estimator_` is written. A `random_state` that
        is not an integer is not kept.
    path : str or Path
        Where to write; by custom it ends in .npz.
    force : bool, default=False
        Whether to replace a file that exists.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from dualsweep import LinearSVC
    >>> from dualsweep.io import load_model, save_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC(random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder, "iris.npz"))
    ...     again = load_model(Path(folder, "iris.npz"))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    if not hasattr(model, "coef_"):
        raise ValueError(f"This {type(model).__name__} is not fitted; call fit before saving it.")
    svc: PlainSVC = getattr(model, "best_estimator_", model)
    params = {name: getattr(svc, name) for name in inspect.signature(type(svc)).parameters}
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    if isinstance(params["class_weight"], dict):  # JSON knows only text as keys
        params["class_weight"] = list(params["class_weight"].items())
    header = {
        "format": FORMAT,
        "estimator": "LinearSVC",
        "params": params,
        "certificate": {n: getattr(svc, n) for n in CERTIFICATE if hasattr(svc, n)},
    }
    arrays = {
        "coef": svc.coef_.toarray() if sp.issparse(svc.coef_) else svc.coef_,
        "intercept": svc.intercept_,
        "classes": plain(svc.classes_),
        "header": np.array(json.dumps(header, default=_number)),
    }
    if hasattr(svc, "feature_names_in_"):
        arrays["feature_names"] = plain(svc.feature_names_in_)
    if hasattr(svc, "history_"):  # a model of LIBLINEAR has none
        arrays["history"] = svc.history_
    if hasattr(svc, "dual_coef_"):
        duals = sp.csr_array(svc.dual_coef_)
        arrays |= {
            "dual_data": duals.data,
            "dual_indices": duals.indices,
            "dual_indptr": duals.indptr,
            "n_samples": np.array(duals.shape[1]),
        }
    write_arrays(Path(path), arrays, force=force)


def load_model(path: str | Path) -> LinearSVC:
    """Read a model that `save_model` wrote, or LIBLINEAR.

    Parameters
    ----------
    path : str or Path
        The file. Its content tells which format it has; see `load_liblinear` for that of LIBLINEAR.

    Returns
    -------
    LinearSVC
        A fitted model, with its dual variables, certificate and history if it was saved with them.
    """
    from ..estimators import LinearSVC  # not needed to write

    path = Path(path)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                return load_liblinear(path)
    arrays = read_arrays(path)
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        raise ValueError(
            f"{path} is not a model of dualsweep: it lacks {', '.join(missing)}; it has "
            f"{', '.join(arrays) or 'no arrays'}."
        )
    header = json.loads(str(arrays["header"]))
    if header["format"] > FORMAT:
        raise ValueError(
            f"{path} has model format {header['format']}, but this version of dualsweep reads up "
            f"to {FORMAT}. Update dualsweep."
        )
    params = header["params"]
    if isinstance(params["class_weight"], list):
        params["class_weight"] = dict(params["class_weight"])
    model = LinearSVC(**params)
    model.__dict__.update(
        header["certificate"],
        coef_=arrays["coef"],
        intercept_=arrays["intercept"],
        classes_=arrays["classes"],
        n_features_in_=arrays["coef"].shape[1],
    )
    if "history" in arrays:
        model.history_ = arrays["history"]
    if "dual_data" in arrays:
        parts = [arrays[f"dual_{name}"] for name in ("data", "indices", "indptr")]
        shape = (len(arrays["coef"]), int(arrays["n_samples"]))
        model.dual_coef_ = sp.csr_array(tuple(parts), shape=shape)
        model.support_ = np.unique(model.dual_coef_.indices)
    if "feature_names" in arrays:
        model.feature_names_in_ = arrays["feature_names"].astype(object)
    return model


def _number(value: Any) -> Any:
    """Return the Python number that a NumPy scalar stands for."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Cannot save {value!r} of type {type(value).__name__} as a parameter.")

"""Models in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..estimators import LinearSVC
from ._npz import plain, read_arrays, write_arrays

__all__ = ["load_model", "save_model"]

FORMAT = 1

ARRAYS = ("coef", "intercept", "classes", "history", "header")
CERTIFICATE = (
    "primal_objective_",
    "dual_objective_",
    "dual_gap_",
    "relative_gap_",
    "converged_",
    "n_iter_",
)


def save_model(model: LinearSVC, path: str | Path, *, force: bool = False) -> None:
    """Write a fitted model, its parameters and its certificate to a file.

    The file is a zip of NumPy arrays and one JSON text, without pickles: reading it runs no code.
    It appears complete or not at all.

    Parameters
    ----------
    model : LinearSVC
        A fitted model. Its dual variables are not kept, nor is a `random_state` that is not an
        integer.
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
    params = model.get_params()
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    if isinstance(params["class_weight"], dict):  # JSON knows only text as keys
        params["class_weight"] = list(params["class_weight"].items())
    header = {
        "format": FORMAT,
        "estimator": "LinearSVC",
        "params": params,
        "certificate": {name: getattr(model, name) for name in CERTIFICATE},
    }
    arrays = {
        "coef": model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_,
        "intercept": model.intercept_,
        "classes": plain(model.classes_),
        "history": model.history_,
        "header": np.array(json.dumps(header, default=_number)),
    }
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = plain(model.feature_names_in_)
    write_arrays(Path(path), arrays, force=force)


def load_model(path: str | Path) -> LinearSVC:
    """Read a model that `save_model` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    LinearSVC
        A fitted model with its certificate and history, but without its dual variables:
        `dual_coef_` and `support_` are missing.
    """
    path = Path(path)
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
        history_=arrays["history"],
        n_features_in_=arrays["coef"].shape[1],
    )
    if "feature_names" in arrays:
        model.feature_names_in_ = arrays["feature_names"].astype(object)
    return model


def _number(value: Any) -> Any:
    """Return the Python number that a NumPy scalar stands for."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Cannot save {value!r} of type {type(value).__name__} as a parameter.")

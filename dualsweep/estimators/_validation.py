"""From what users pass to what the solver takes."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from ..solvers.blocks import Blocks
from ..training import OnDevice
from ._device import check_device_data, space_of

__all__ = ["check_Cs", "check_data", "check_weights"]

# What an integer number of values of C spans: Wang and Scott's grid (2021, section 5), and wide
# enough for rows of about unit length, as text has. It is the same for all data, so that scores of
# different fits can be compared value by value.
FIRST_C, LAST_C = 2.0**-6, 2.0**3


def check_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return X, y and sample weights as they are trained on; note on `estimator` what X looks like.

    X may be a store, with labels that replace its own, or y None; or a matrix on a device. The
    weights are float64, or None if there are none.
    """
    space = space_of(X)
    if space is not None:
        X, y, sample_weight = check_device_data(estimator, X, y, sample_weight, space)
    elif isinstance(X, Blocks):
        if y is not None:
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
            if len(y) != X.shape[0]:
                raise ValueError(f"The store has {X.shape[0]} rows, but y has {len(y)}.")
        estimator.__dict__.pop("feature_names_in_", None)
    else:
        X, y = validate_data(
            estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        check_classification_targets(y)
    return X, y, check_weights(sample_weight, X)


def check_Cs(Cs: Any) -> Any:  # noqa: N802
    """Return the values of C, ascending and each once; an integer is a number of values."""
    if isinstance(Cs, Integral) and int(Cs) >= 1:
        return np.geomspace(FIRST_C, LAST_C, int(Cs)) if int(Cs) > 1 else np.ones(1)
    values = np.unique(np.asarray(Cs, dtype=np.float64))
    if np.ndim(Cs) != 1 or not values.size or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(
            f"Cs must be how many values of C to try, at least 1, or a list of positive values, "
            f"but is {Cs!r}."
        )
    return values


def check_weights(sample_weight: Any, X: Any) -> Any:
    """Return the sample weights as float64, or None if there are none."""
    if sample_weight is None:
        return None
    if isinstance(X, OnDevice):  # the weights are on the host, and there have to be as many
        X = np.broadcast_to(0.0, X.shape)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if weights.min() < 0:
        i = int(weights.argmin())
        raise ValueError(
            f"sample_weight must not be negative, but sample_weight[{i}] is {weights[i]:g}. "
            "Use weight 0 to leave a row out."
        )
    return weights

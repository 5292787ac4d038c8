"""From what users pass to what the solver takes."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

__all__ = [
    "balanced_weights",
    "check_Cs",
    "check_classes",
    "check_data",
    "check_weights",
    "class_codes",
    "encode_labels",
    "row_costs",
]

LEAST_COST = 1e-300  # less is no cost: its reciprocal overflows

# What an integer number of values of C spans: Wang and Scott's grid (2021, section 5), and wide
# enough for rows of about unit length, as text has. It is the same for all data, so that scores of
# different fits can be compared value by value.
FIRST_C, LAST_C = 2.0**-6, 2.0**3


def check_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return X, y and sample weights as they are trained on; note on `estimator` what X looks like.

    The weights are float64, or None if there are none.
    """
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


def encode_labels(y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Return the classes that have weight, and the number of each row's class (-1: none).

    A row of weight 0 is as good as absent, so a class all of whose rows have weight 0 is no class.
    """
    present = slice(None) if sample_weight is None else sample_weight > 0
    classes = np.unique(y[present])
    check_classes(classes)
    return classes, class_codes(y, classes)


def check_classes(classes: Any) -> None:
    """Raise ValueError unless there are at least two classes."""
    if len(classes) < 2:
        raise ValueError(
            f"Training needs at least 2 classes among the rows of positive weight, but found "
            f"{len(classes)} class{'es' * (len(classes) != 1)}: {classes.tolist()}."
        )


def class_codes(y: Any, classes: Any) -> Any:
    """Return the number of each row's class (-1: none)."""
    codes = np.searchsorted(classes, y)
    codes[codes == len(classes)] = 0
    codes[classes[codes] != y] = -1
    return codes


def check_weights(sample_weight: Any, X: Any) -> Any:
    """Return the sample weights as float64, or None if there are none."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if weights.min() < 0:
        i = int(weights.argmin())
        raise ValueError(
            f"sample_weight must not be negative, but sample_weight[{i}] is {weights[i]:g}. "
            "Use weight 0 to leave a row out."
        )
    return weights


def balanced_weights(mass: Any) -> Any:
    """Return the weights with which classes that have so much weight weigh the same."""
    return mass.sum() / (len(mass) * mass)


def row_costs(C: float, class_weight: Any, classes: Any, codes: Any, sample_weight: Any) -> Any:
    """Return ``C_i = C * sample_weight_i * class_weight[y_i]``."""
    weight = np.ones(len(codes)) if sample_weight is None else sample_weight
    if class_weight is None:
        per_class = np.ones(len(classes))
    elif isinstance(class_weight, str):  # "balanced", counted with weights: 2 is the row twice
        mass = np.bincount(codes[codes >= 0], weight[codes >= 0], minlength=len(classes))
        per_class = balanced_weights(mass)
    else:
        per_class = compute_class_weight(class_weight, classes=classes, y=classes)
    if per_class.min() < 0:
        raise ValueError(f"class_weight must not be negative, but is {class_weight!r}.")
    with np.errstate(over="ignore", under="ignore"):
        cost = C * weight * per_class[codes]
        whole = cost.sum() * len(classes)
    if not np.isfinite(whole):
        raise ValueError(
            f"The costs C * sample_weight * class_weight are too large: C is {C:g}, the largest "
            f"cost {cost.max():g}, and their sum overflows. Use smaller numbers."
        )
    cost[cost < LEAST_COST] = 0.0
    return cost

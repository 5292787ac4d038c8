"""Check what users pass, and convert it to what is trained on."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, is_regressor
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_X_y, validate_data

from ..placements import OnDevice
from ..problems.labels import offsets_of
from ..rows.blocks import Blocks, in_blocks
from ..rows.layouts import check_sparse
from ._device import check_device_data, refuse_device, space_of

# Powers of 2 that a number of values of C spans: Wang and Scott's grid (2021, section 5), which is
# wide enough for rows of about unit length, as text has. A search scales it by `unit_cost`.
FIRST, LAST = -6, 3

AS_TRAINED: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
}
PLAIN = frozenset(map(np.dtype, AS_TRAINED["dtype"]))


def check_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return X, y and sample weights as they are trained on; set `n_features_in_` and names.

    X may be a store, whose labels y replaces unless it is None, or a matrix on a device. y has
    numbers for a regressor, else classes. The weights are float64, or None if there are none.
    """
    numeric = isinstance(estimator, RegressorMixin)
    if _are_plain(X, y):
        _set_n_features(estimator, X)
        if not numeric:
            _check_classes(y)
        return X, y, check_weights(sample_weight, X)
    if not numeric:
        _refuse_several_labels(y)
    space = space_of(X)
    if space is not None:
        if numeric:
            refuse_device(X, type(estimator).__name__)
        X, y, sample_weight = check_device_data(estimator, X, y, sample_weight, space)
    elif in_blocks(X):
        y = _check_store_labels(X, y, numeric)
        _set_n_features(estimator, X)
    else:
        try:
            X, y = validate_data(estimator, check_sparse(X), y, y_numeric=numeric, **AS_TRAINED)
        except ValueError as error:
            if "could not convert string to float" not in str(error):
                raise
            raise ValueError(
                f"X has text where numbers are needed ({error}). Make numbers of it first: "
                "TfidfVectorizer, from sklearn.feature_extraction.text, does so for documents, "
                "OneHotEncoder, from sklearn.preprocessing, for categories."
            ) from error
        if not numeric:
            _check_classes(y)
    return X, y, check_weights(sample_weight, X)


def _are_plain(X: Any, y: Any) -> bool:
    """Return whether X and y are arrays that `validate_data` would return as they are.

    It takes 0.1 ms to do so, as long as some hundred rows take to be trained on.
    """
    if not (type(X) is type(y) is np.ndarray and X.ndim == 2 and X.shape[:1] == y.shape):
        return False
    if X.dtype not in PLAIN or not X.flags.c_contiguous or not X.size or y.dtype.kind not in "iub":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum()))


def _set_n_features(estimator: Any, X: Any) -> None:
    """Set `n_features_in_`, and forget the names of other features."""
    estimator.__dict__.pop("feature_names_in_", None)
    estimator.n_features_in_ = X.shape[1]


def _check_classes(y: Any) -> None:
    """Raise ValueError if y has measurements; close whole numbers are classes."""
    if offsets_of(y) is None:
        check_classification_targets(y)


def check_again(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y as they are trained on; refuse what the model cannot have been trained on."""
    numeric = isinstance(model, BaseEstimator) and is_regressor(model)
    if in_blocks(X):
        return X, _check_store_labels(X, y, numeric)
    if isinstance(model, BaseEstimator):
        return validate_data(
            model, check_sparse(X), y, reset=False, y_numeric=numeric, **AS_TRAINED
        )
    return check_X_y(check_sparse(X), y, **AS_TRAINED)


def _check_store_labels(store: Blocks, y: Any, numeric: bool) -> Any:
    """Return labels that replace those of a store, or None."""
    if y is None:
        return None
    y = column_or_1d(y, warn=True)
    if not numeric:
        check_classification_targets(y)
    if len(y) != store.shape[0]:
        raise ValueError(f"The store has {store.shape[0]} rows, but y has {len(y)}.")
    return y


def _refuse_several_labels(y: Any) -> None:
    """Raise ValueError if rows have several labels each; the message names what takes those."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if isinstance(y, list | tuple):
        try:
            shape = np.shape(y)
        except ValueError:  # lists of different lengths
            shape = (len(y), max(map(np.size, y)))
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y has {shape[1]} labels a row, but training takes one. Train a model for each: "
            "MultiOutputClassifier(LinearSVC()).fit(X, y), from sklearn.multioutput; lists of "
            "labels become such a y by MultiLabelBinarizer, from sklearn.preprocessing."
        )


def check_Cs(Cs: Any) -> Any:  # noqa: N802
    """Return the values of C, ascending and each once; an integer is a number of values."""
    if isinstance(Cs, Integral) and int(Cs) >= 1:
        return 2.0 ** np.linspace(FIRST, LAST, int(Cs)) if int(Cs) > 1 else np.ones(1)
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


def labels_of(blocks: Blocks) -> Any:
    """Return the labels of all rows of a store."""
    return np.concatenate([blocks.read_labels(b) for b in range(len(blocks.block_bytes))])

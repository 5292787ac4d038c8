"""What files of several kinds have to be like, before anything is done with what is in them."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

import numpy as np

MOST_TEXT = 64 << 20  # characters of JSON; parsed, they take up to 20 times the memory
LAST_CHARACTER = 0x10FFFF


def parse_object(text: str) -> dict[str, Any]:
    """Return what JSON text says, which has to be an object; ValueError if it is not."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"its {len(text):,} characters are more than {MOST_TEXT:,}")
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def is_count(value: Any) -> bool:
    """Tell whole numbers that fit into int64, with room for a sum of some of them."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def is_number(value: Any) -> bool:
    """Tell finite numbers."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and is_count(abs(value))


def check_indptr(indptr: Any, n_rows: int, n_entries: int) -> None:
    """Raise ValueError unless these are where rows of CSR start, of which loops trust each."""
    if indptr.dtype.kind not in "iu" or indptr.shape != (n_rows + 1,):
        raise ValueError(f"indptr is {indptr.dtype} {indptr.shape}, not {n_rows + 1} integers")
    if indptr[0] != 0 or indptr[-1] > n_entries or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"indptr does not ascend from 0 to at most {n_entries}")


def check_indices(indices: Any, n_columns: int) -> None:
    """Raise ValueError unless these are columns of so many."""
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise ValueError(f"indices are {indices.dtype} {indices.shape}, not a list of integers")
    if len(indices) and not 0 <= np.min(indices) <= np.max(indices) < n_columns:
        raise ValueError(
            f"indices are {np.min(indices)} to {np.max(indices)}, beyond 0 to {n_columns - 1}"
        )


def check_characters(array: Any) -> None:
    """Raise ValueError if an array of text has numbers in it that stand for no character."""
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder + "u4")
        if codes.max() > LAST_CHARACTER:
            raise ValueError(f"it has text with character number {codes.max():,}")


def check_weights(coef: Any, intercept: Any, classes: Any) -> None:
    """Raise ValueError unless these are the weights and intercepts of a model of these classes.

    A model of regression has none: its weights are in one dimension.
    """
    n_rows, of = 1, "regression"
    if classes is not None:
        if not (classes[1:] > classes[:-1]).all():
            raise ValueError("its classes are not in ascending order, each once")
        n_rows, of = 1 if len(classes) == 2 else len(classes), f"{len(classes)} classes"
        if coef.ndim == 2 and len(coef) != n_rows:
            raise ValueError(f"coef has {len(coef)} rows, but {of}")
    shapes = ("coef", coef, 1 if classes is None else 2), ("intercept", intercept, 1)
    for name, array, ndim in shapes:
        if array.dtype not in (np.float32, np.float64) or array.ndim != ndim:
            raise ValueError(f"{name} is {array.dtype} {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"not all of {name} is finite")
    if len(intercept) != n_rows:
        raise ValueError(f"intercept has {len(intercept)} rows, but {of}")

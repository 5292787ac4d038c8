"""Checks of what files hold, before anything is done with it."""

from __future__ import annotations

import json
from math import isfinite
from typing import TypeGuard

import numpy as np

from .. import _tuning
from .._typing import Array, JsonObject

MAX_CHARACTER = 0x10FFFF


def parse_object(text: str) -> JsonObject:
    """Return the JSON object that a text spells; ValueError if it is something else."""
    if len(text) > _tuning.MAX_JSON:
        raise ValueError(f"its {len(text):,} characters are more than {_tuning.MAX_JSON:,}")
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def is_count(value: object) -> TypeGuard[int]:
    """Return True for a whole number that fits into int64, even in a sum of two."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a finite number; False and True count as 0 and 1."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and is_count(abs(value))


def check_indptr(indptr: Array, n_rows: int, n_entries: int) -> None:
    """Raise ValueError unless these are the starts of CSR rows, which loops trust blindly."""
    if indptr.dtype.kind not in "iu" or indptr.shape != (n_rows + 1,):
        raise ValueError(f"indptr is {indptr.dtype} {indptr.shape}, not {n_rows + 1} integers")
    if indptr[0] != 0 or indptr[-1] > n_entries or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"indptr does not ascend from 0 to at most {n_entries}")


def check_indices(indices: Array, n_columns: int) -> None:
    """Raise ValueError unless these are columns from 0 to ``n_columns - 1``."""
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise ValueError(f"indices are {indices.dtype} {indices.shape}, not a list of integers")
    low, high = (indices.min(), indices.max()) if len(indices) else (0, -1)
    if low < 0 or high >= n_columns:
        raise ValueError(f"indices are {low} to {high}, beyond 0 to {n_columns - 1}")


def check_characters(array: Array) -> None:
    """Raise ValueError if an array of text has numbers in it that stand for no character."""
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder + "u4")
        if codes.max() > MAX_CHARACTER:
            raise ValueError(f"it has text with character number {codes.max():,}")


def check_weights(coef: Array, intercept: Array, classes: Array | None) -> None:
    """Raise ValueError unless these are the weights and intercepts of a model of these classes.

    A model of regression has no classes, and weights of one dimension.
    """
    n_rows, of = 1, "regression"
    if classes is not None:
        if not (classes[1:] > classes[:-1]).all():
            raise ValueError("its classes are not in ascending order, each once")
        n_rows, of = 1 if len(classes) == 2 else len(classes), f"{len(classes)} classes"
    for name, array, ndim in (
        ("coef", coef, 1 if classes is None else 2),
        ("intercept", intercept, 1),
    ):
        if array.dtype not in (np.float32, np.float64) or array.ndim != ndim:
            raise ValueError(f"{name} is {array.dtype} {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"not all of {name} is finite")
        if len(array) != n_rows and (name == "intercept" or classes is not None):
            raise ValueError(f"{name} has {len(array)} rows, but {of}")

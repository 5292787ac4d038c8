"""Checks of what files hold, before anything is done with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import TypeGuard

import numpy as np
import scipy.sparse as sp

from .. import _tuning
from .._typing import Array, JsonObject

MAX_CHARACTER = 0x10FFFF


@contextmanager
def blaming(what: str, advice: str = "") -> Iterator[None]:
    """Turn an error about content into a ValueError that begins with what is damaged."""
    try:
        yield
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{what}: {str(error)[:300].rstrip('.')}.{advice}") from error


def text_of(array: Array, name: str) -> str:
    """Return the text that is in an array by itself."""
    if array.dtype.kind != "U" or array.ndim:
        raise ValueError(f"its {name} is not text")
    return str(array)


def parse_object(text: str) -> JsonObject:
    """Return the JSON object that a text spells; ValueError if it is something else."""
    if len(text) > _tuning.MAX_JSON:
        raise ValueError(f"its {len(text):,} characters are more than {_tuning.MAX_JSON:,}")
    found = json.loads(text)
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


def whole_numbers(labels: Array) -> Array | None:
    """Return labels as int64; None if not all are integers."""
    with np.errstate(invalid="ignore"):  # NaN is no integer
        whole = labels.astype(np.int64)
    return whole if np.array_equal(whole, labels) else None


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


def checked_csr(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Return CSR rows; ValueError unless their arrays fit together."""
    check_indptr(indptr, shape[0], len(data))
    check_indices(indices, shape[1])
    return sp.csr_array((data, indices, indptr), shape=shape)


def check_characters(array: Array) -> None:
    """Raise ValueError if an array of text has numbers in it that stand for no character."""
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder + "u4")
        if codes.max() > MAX_CHARACTER:
            raise ValueError(f"it has text with character number {codes.max():,}")


def check_weights(coef: Array, intercept: Array, classes: Array | None) -> None:
    """Raise ValueError unless these are the weights of a model; regression has no classes."""
    kind, n_rows, coef_ndim = "regression", 1, 1
    if classes is not None:
        if not (classes[1:] > classes[:-1]).all():
            raise ValueError("its classes are not in ascending order, each once")
        kind, n_rows, coef_ndim = f"{len(classes)} classes", len(classes), 2
        n_rows = 1 if n_rows == 2 else n_rows
    for name, array, ndim in (("coef", coef, coef_ndim), ("intercept", intercept, 1)):
        if array.dtype not in (np.float32, np.float64) or array.ndim != ndim:
            raise ValueError(f"{name} is {array.dtype} {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"not all of {name} is finite")
        if len(array) != n_rows and (name == "intercept" or classes is not None):
            raise ValueError(f"{name} has {len(array)} rows, but {kind}")

"""Rows of X as the kernels see them: zero-copy, read-only, one type per layout.

The weight vector has ``n_features + 1`` entries: the last one is the weight of a constant feature
of value ``rows.bias`` that X does not store.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from .._jit import jit
from .._threads import Workers

__all__ = ["CSRRows", "DenseRows", "Rows", "as_rows", "n_rows", "n_stored"]

# Indices are looked at in parts of at least so many entries, at most so many: see `Passes`.
PARTS, PART_ENTRIES = 16, 200_000


class CSRRows(NamedTuple):
    """Compressed sparse rows; `indices` is unsigned, so that no access checks for its sign."""

    data: Any
    indices: Any
    indptr: Any
    n_features: int
    bias: float


class DenseRows(NamedTuple):
    """A C-ordered matrix."""

    data: Any
    n_features: int
    bias: float


Rows: TypeAlias = CSRRows | DenseRows


def as_rows(X: Any, bias: float, workers: Workers | None = None) -> Rows:
    """View a validated X as rows: float32 or float64, CSR or C-ordered dense, never copied.

    The one exception is a CSR matrix that stores an entry twice: it is copied and summed, since
    the squared norm of a row needs each entry once. `workers` share a look at all indices.

    Raises
    ------
    ValueError
        If a column index lies outside X.
    """
    if not sp.issparse(X):
        return DenseRows(_read_only(X), X.shape[1], float(bias))
    indices = X.indices.view(f"u{X.indices.dtype.itemsize}")
    indptr = X.indptr.astype(np.int64, copy=False)
    if len(indptr) != X.shape[0] + 1:
        raise ValueError(
            f"X has {X.shape[0]} rows, but X.indptr has {len(indptr)} entries instead of one more: "
            "the CSR structure is corrupt. Rebuild X, for instance from its COO triplets."
        )
    if indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] > min(len(indices), len(X.data)):
        raise ValueError(
            "X.indptr does not ascend from 0 to at most the number of stored entries: the CSR "
            "structure is corrupt. Rebuild X, for instance from its COO triplets."
        )
    largest, increasing = _inspected(_read_only(indices), _read_only(indptr), workers or Workers())
    if largest >= X.shape[1]:
        raise ValueError(
            f"X has a column index outside 0..{X.shape[1] - 1}: the CSR structure is corrupt. "
            "Rebuild X, for instance from its COO triplets."
        )
    if not increasing and _has_duplicates(
        _read_only(indices), _read_only(indptr), np.full(X.shape[1], -1)
    ):
        X = X.copy()
        X.sum_duplicates()
        return as_rows(X, bias, workers)
    arrays = (_read_only(X.data), _read_only(indices), _read_only(indptr))
    return CSRRows(*arrays, X.shape[1], float(bias))


def n_rows(rows: Rows) -> int:
    """Count the rows."""
    return len(rows.indptr) - 1 if isinstance(rows, CSRRows) else len(rows.data)


def n_stored(rows: Rows) -> int:
    """Count the stored entries: what one pass over the rows reads."""
    return int(rows.data.size)


def _read_only(array: Any) -> Any:
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def _inspected(indices: Any, indptr: Any, workers: Workers) -> tuple[int, bool]:
    """Return the largest column index, and whether the indices of every row increase."""
    n = len(indptr) - 1
    count = max(min(PARTS, len(indices) // PART_ENTRIES), 1)
    bounds = [n * part // count for part in range(count + 1)]
    found = workers.map(
        lambda part: _inspect_indices(indices, indptr[part[0] : part[1] + 1]), pairwise(bounds)
    )
    return max(largest for largest, _ in found), all(increasing for _, increasing in found)


@jit
def _inspect_indices(indices: Any, indptr: Any) -> tuple[int, bool]:
    """Return the largest column index, and whether the indices of every row increase."""
    largest: Any = -1
    increasing = True
    for i in range(indptr.shape[0] - 1):
        previous: Any = -1
        for j in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            index = np.int64(indices[j])
            if index <= previous:
                increasing = False
            if index < 0 or index > largest:  # an index of 2**63 or more reads as negative
                largest = index if index >= 0 else np.int64(2**62)
            previous = index
    return largest, increasing


@jit
def _has_duplicates(indices: Any, indptr: Any, last_row: Any) -> bool:
    """Tell whether a row stores some column twice; `last_row` is -1 for every column."""
    for i in range(indptr.shape[0] - 1):
        for j in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            if last_row[indices[j]] == i:
                return True
            last_row[indices[j]] = i
    return False

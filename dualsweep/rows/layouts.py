"""Rows of X as the kernels see them: zero-copy, read-only, one type per layout.

The weight vector has ``n_features + 1`` entries: the last one is the weight of a constant feature
of value ``rows.bias`` that X does not store.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from .._jit import jit
from .._threads import Workers
from .._typing import Array, Given, Int, Matrix, Sparse

# Indices are looked at in parts of at least so many entries, at most so many: see `Passes`.
PARTS, PART_ENTRIES = 16, 200_000


class CSRRows(NamedTuple):
    """Compressed sparse rows; `indices` is unsigned, so that no access checks for its sign."""

    data: Array
    indices: Array
    indptr: Array
    n_features: int
    bias: float


class DenseRows(NamedTuple):
    """A C-ordered matrix."""

    data: Array
    n_features: int
    bias: float


Rows: TypeAlias = CSRRows | DenseRows


class CompensatedRows(NamedTuple):
    """Rows whose responses to some weights are summed in compensated arithmetic."""

    rows: Rows
    # A bound on the error of the intercept: a model's is rounded, as the bias times its weight is.
    intercept_error: float


AnyRows: TypeAlias = Rows | CompensatedRows


def as_rows(X: Matrix, bias: float, workers: Workers | None = None) -> Rows:
    """View a validated X as rows: float32 or float64, CSR or C-ordered dense.

    Nothing is copied but a CSR matrix that stores an entry twice, since the squared norm of a row
    needs each entry once. `workers` share a look at all indices. Raises ValueError where pointers
    or indices are wrong, as `check_sparse` does.
    """
    if not sp.issparse(X):
        return DenseRows(_read_only(X), X.shape[1], float(bias))
    X, d = _native(X), X.shape[1]
    indices, indptr = _compressed(X, X.shape[0], "CSR")
    indices, indptr = _read_only(indices), _read_only(indptr.astype(np.int64, copy=False))
    parts = cut(len(indptr) - 1, max(min(PARTS, len(indices) // PART_ENTRIES), 1))
    inspected = (workers or Workers()).map(
        lambda part: _inspect_indices(indices, indptr[part.start : part.stop + 1], d), parts
    )
    _check_inside(all(inside for inside, _ in inspected), d, "CSR", "column")
    increasing = all(increasing for _, increasing in inspected)
    if not increasing and _has_duplicates(indices, indptr, np.full(d, -1)):
        X = X.copy()
        X.sum_duplicates()
        return as_rows(X, bias, workers)
    return CSRRows(_read_only(X.data), indices, indptr, d, float(bias))


def check_sparse(X: Given) -> Given:
    """Return X; raise ValueError if it is CSR, CSC, BSR or COO with wrong pointers or indices.

    SciPy trusts the indices it is given: products and conversions with wrong ones crash, or answer
    with what they find elsewhere in memory. Indices in another byte order are converted.
    """
    if not sp.issparse(X) or X.ndim != 2:
        return X
    layout = X.format.upper()
    if layout == "COO":
        for name, what, size in (("row", "row", X.shape[0]), ("col", "column", X.shape[1])):
            places = _unsigned(getattr(X, name), name)
            if len(places) != len(X.data):
                lengths = f"X.{name} has {len(places)} entries, but X.data {len(X.data)}"
                raise _corrupt(lengths, layout)
            _check_inside(_largest(places) < size, size, layout, what)
        return X  # conversions make their indices native themselves
    if layout not in ("CSR", "CSC", "BSR"):
        return X
    shape = X.shape[::-1] if layout == "CSC" else X.shape
    blocks = X.blocksize if layout == "BSR" else (1, 1)
    n, d = (size // step for size, step in zip(shape, blocks, strict=True))
    indices, indptr = _compressed(X, n, layout)
    what = "row" if layout == "CSC" else "column"
    _check_inside(_largest(indices[: int(indptr[-1])]) < d, d, layout, what)
    return _native(X)


def n_rows(rows: Rows) -> int:
    """Count the rows."""
    return len(rows.indptr) - 1 if isinstance(rows, CSRRows) else len(rows.data)


def _read_only(array: Array) -> Array:
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def _integers(array: Array, name: str) -> Array:
    """Return integers in the byte order of this machine; raise ValueError if there are others."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        given = f"X.{name} is {array.dtype} {array.shape}"
        raise _corrupt(f"{given}, but must be a list of integers", "sparse")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _unsigned(array: Array, name: str) -> Array:
    """Return integers as unsigned ones, so that those below 0 are too large."""
    return (found := _integers(array, name)).view(f"u{found.dtype.itemsize}")


def _largest(indices: Array) -> int:
    return int(indices.max()) if len(indices) else -1


def _native(X: Sparse) -> Sparse:
    """Return X with its indices in the byte order of this machine; X itself does not change."""
    if X.indices.dtype.isnative and X.indptr.dtype.isnative:
        return X
    twin = copy(X)
    twin.indices, twin.indptr = _integers(X.indices, "indices"), _integers(X.indptr, "indptr")
    return twin


def _compressed(X: Sparse, n: int, layout: str) -> tuple[Array, Array]:
    """Return indices and pointers; raise ValueError unless n rows start at the pointers."""
    indices, indptr = _unsigned(X.indices, "indices"), _integers(X.indptr, "indptr")
    n_entries = min(len(indices), len(X.data))
    what = "columns" if layout == "CSC" else "rows"
    if len(indptr) != n + 1:
        entries = f"X.indptr has {len(indptr)} entries instead of one more"
        raise _corrupt(f"X has {n} {what}, but {entries}", layout)
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any() or indptr[-1] > n_entries:
        end = "at most the number of stored entries"
        raise _corrupt(f"X.indptr does not ascend from 0 to {end}", layout)
    return indices, indptr


def _check_inside(inside: bool, size: int, layout: str, what: str) -> None:
    """Raise ValueError unless all indices are inside."""
    if not inside:
        raise _corrupt(f"X has a {what} index outside 0..{size - 1}", layout)


def _corrupt(problem: str, layout: str) -> ValueError:
    """Return the error that tells of a problem with the arrays of a sparse matrix."""
    advice = "Rebuild X, for instance from its COO triplets."
    return ValueError(f"{problem}: the {layout} structure is corrupt. {advice}")


def cut(n: int, count: int) -> list[slice]:
    """Cut n members into parts of about the same length."""
    return [slice(n * p // count, n * (p + 1) // count) for p in range(count)]


@jit
def _inspect_indices(indices: Array, indptr: Array, d: int) -> tuple[bool, bool]:
    """Return whether all column indices are below d, and whether those of every row increase."""
    inside, increasing = True, True
    for i in range(indptr.shape[0] - 1):
        previous: Int = -1
        for j in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            index = np.int64(indices[j])  # below 0 if it is 2**63 or more
            if index <= previous:
                increasing = False
            if index < 0 or index >= d:
                inside = False
            previous = index
    return inside, increasing


@jit
def _has_duplicates(indices: Array, indptr: Array, last_row: Array) -> bool:
    """Return whether a row stores some column twice; `last_row` is -1 for every column."""
    for i in range(indptr.shape[0] - 1):
        for j in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            if last_row[indices[j]] == i:
                return True
            last_row[indices[j]] = i
    return False

"""Rows on a device: the passes of `dualsweep.rows.passes`, by matrix products.

A pass takes the rows a slice at a time, so that what it makes of them, a number per row and class,
fits into memory. The bias is one extra weight, and never a column of X.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any

from ...rows.functions import EPS
from .arrays import OnHost, Space

# Numbers that an array made of a slice of the rows has at most, on a device and in host memory,
# where it should stay in the cache.
SLICE, HOST_SLICE = 1 << 26, 1 << 20

# Bytes that there have to be for each of these numbers: there are several such arrays at a time.
SLICE_BYTES = 256

# A copy of X in float64 is kept where it takes at most this part of the memory that is free;
# else a slice is converted each time it is needed.
WIDE_PART = 0.125

# Features of a dense row that are multiplied at a time. The error of a sum grows with the number of
# its terms: a sum of shorter sums is more accurate.
FEATURES = 4096


class DeviceRows(ABC):
    """Rows of X on a device.

    Parameters
    ----------
    space : Space
        Where they are.
    X : array or CSR matrix
        float32 or float64.
    bias : float
        Value of the constant feature.
    """

    def __init__(self, space: Space, X: Any, bias: float) -> None:
        self.space, self.X, self.bias = space, X, bias
        self.n_rows, self.n_features = X.shape
        self.n_weights = self.n_features + 1
        self.narrow = X.dtype == space.xp.float32  # whether float32 is of any use
        self.limit, self.spilled = float("inf"), False

    def within(self, limit: float, spilled: bool) -> DeviceRows:
        """Return these rows for training in so many bytes; tables `spilled` are on the host."""
        rows = copy(self)
        rows.limit, rows.spilled = limit, spilled
        return rows

    def table(self, n_classes: int, dtype: Any) -> Any:
        """Return an array of anything with a number per row and class, to be used in slices."""
        shape = (self.n_rows, n_classes)
        return OnHost(self.space, shape, dtype) if self.spilled else self.space.empty(shape, dtype)

    def parts(self, n_classes: int) -> list[slice]:
        """Cut the rows into slices for arrays with so many columns."""
        free = min(self.space.free_bytes(), self.limit)
        most = HOST_SLICE if free == float("inf") else min(SLICE, int(free / SLICE_BYTES))
        width = n_classes + self._width
        if most < width and self.spilled:
            raise MemoryError(
                f"On {self.n_rows:,} rows and {n_classes} classes, {free:,.0f} bytes besides X are "
                f"too little to train in: raise memory_limit to {SLICE_BYTES * width:,} or more."
            )
        step = max(most // width, 1)
        starts = range(0, self.n_rows, step)
        return [slice(start, min(start + step, self.n_rows)) for start in starts]

    def responses(self, part: slice, W: Any) -> Any:
        """Return ``X[part] @ W``, the bias included, in the precision of W."""
        out = self._times(part, W[:-1, :])
        if self.bias:
            out += self.bias * W[-1:, :]
        return out

    def add(self, part: slice, B: Any, out: Any) -> None:
        """Add ``X[part]' @ B`` to the weights `out`, by a product in the precision of B."""
        xp = self.space.xp
        out[:-1, :] += xp.astype(self._transposed_times(part, B), out.dtype, copy=False)
        if self.bias:
            out[-1:, :] += self.bias * xp.sum(B, axis=0, keepdims=True, dtype=out.dtype)

    def columns(self, weight: Any) -> Any:
        """Return the weighted sum of squares and number of nonzero entries per column."""
        out = self.space.zeros((2, self.n_features), weight.dtype)
        for part in self.parts(1):
            B = weight[part][:, None]
            out[0, :] += self.squares(part, B)[:-1, 0]
            out[1, :] += self._counts(part, B)[:, 0]
        return out

    @property
    @abstractmethod
    def _width(self) -> int:
        """Numbers per row of what a slice of X is converted to."""

    @abstractmethod
    def rounding(self, part: slice) -> Any:
        """Return the errors of `responses`, in parts of the lengths of rows and weights."""

    @abstractmethod
    def _times(self, part: slice, W: Any) -> Any:
        """Return ``X[part] @ W``, without the bias."""

    @abstractmethod
    def _transposed_times(self, part: slice, B: Any) -> Any:
        """Return ``X[part]' @ B``, without the bias."""

    @abstractmethod
    def sqnorms(self) -> Any:
        """Return the squared norm of every row, the bias included, in float64."""

    @abstractmethod
    def some(self, places: Any) -> Any:
        """Return some of the rows as a dense matrix in float64, the bias its last column."""

    @abstractmethod
    def squares(self, part: slice, B: Any) -> Any:
        """Return ``(X[part]^2)' @ B``, the bias included, for diagonals of Hessians."""

    @abstractmethod
    def _counts(self, part: slice, B: Any) -> Any:
        """Return ``(X[part] != 0)' @ B``, without the bias."""


class DenseDeviceRows(DeviceRows):
    """Rows of a matrix of any namespace."""

    def __init__(self, space: Space, X: Any, bias: float) -> None:
        super().__init__(space, X, bias)
        self._wide: Any = None

    @property
    def _width(self) -> int:
        return self.n_features

    def _block(self, part: slice, dtype: Any) -> Any:
        """Return a slice of X in another precision."""
        xp, X = self.space.xp, self.X
        if X.dtype == dtype:
            return X[part, :]
        if dtype == xp.float64:
            if self._wide is None and 8 * self.n_rows * self.n_features <= (
                WIDE_PART * min(self.space.free_bytes(), self.limit)
            ):
                self._wide = xp.astype(X, dtype)
            if self._wide is not None:
                return self._wide[part, :]
        return xp.astype(X[part, :], dtype)

    def rounding(self, part: slice) -> Any:
        ones = self.space.xp.ones_like(self.X[part, 0], dtype=self.space.xp.float64)
        summands = min(self.n_features, FEATURES) + -(-self.n_features // FEATURES) + 1
        return summands * EPS * ones

    def _times(self, part: slice, W: Any) -> Any:
        block = self._block(part, W.dtype)
        if self.n_features <= FEATURES:
            return block @ W
        starts = range(0, self.n_features, FEATURES)
        some = [slice(s, min(s + FEATURES, self.n_features)) for s in starts]
        return sum(block[:, features] @ W[features, :] for features in some)

    def _transposed_times(self, part: slice, B: Any) -> Any:
        return self._block(part, B.dtype).T @ B

    def sqnorms(self) -> Any:
        xp = self.space.xp
        out = self.space.empty((self.n_rows,), xp.float64)
        for part in self.parts(1):
            block = xp.astype(self.X[part, :], xp.float64, copy=False)
            out[part] = xp.sum(block * block, axis=1) + self.bias**2
        return out

    def some(self, places: Any) -> Any:
        xp = self.space.xp
        Z = self.space.empty((places.shape[0], self.n_weights), xp.float64)
        Z[:, :-1] = xp.astype(xp.take(self.X, places, axis=0), xp.float64, copy=False)
        Z[:, -1] = self.bias
        return Z

    def squares(self, part: slice, B: Any) -> Any:
        xp = self.space.xp
        block = self._block(part, B.dtype)
        features = (block * block).T @ B
        bias = self.bias**2 * xp.sum(B, axis=0, keepdims=True)
        return xp.concat([features, bias], axis=0)

    def _counts(self, part: slice, B: Any) -> Any:
        return self.space.xp.astype(self.X[part, :] != 0, B.dtype).T @ B


class SparseDeviceRows(DeviceRows):
    """Rows of a CSR matrix: CuPy's, multiplied by cuSPARSE, or SciPy's with NumPy's namespace.

    Products are in float64. Of each slice its transpose is kept as CSR too: X is there twice, and
    multiplying by the transpose of a CSR matrix would take several times as long.
    """

    def __init__(self, space: Space, X: Any, bias: float) -> None:
        wide = X if X.dtype == space.xp.float64 else X.astype(space.xp.float64)
        super().__init__(space, wide, bias)
        self._pieces: dict[tuple[int, int], tuple[Any, Any]] = {}

    @property
    def _width(self) -> int:
        return int(self.X.nnz / max(self.n_rows, 1)) + 1

    def _piece(self, part: slice) -> tuple[Any, Any]:
        """Return a slice of X and its transpose."""
        key = (part.start, part.stop)
        if key not in self._pieces:
            whole = part.start == 0 and part.stop == self.n_rows
            piece = self.X if whole else self.X[part]
            self._pieces[key] = piece, piece.T.tocsr()
        return self._pieces[key]

    def rounding(self, part: slice) -> Any:
        indptr = self.X.indptr[part.start : part.stop + 1]
        return EPS * self.space.xp.astype(indptr[1:] - indptr[:-1] + 1, self.space.xp.float64)

    def _times(self, part: slice, W: Any) -> Any:
        return _product(self._piece(part)[0], W)

    def _transposed_times(self, part: slice, B: Any) -> Any:
        return _product(self._piece(part)[1], B)

    def sqnorms(self) -> Any:
        return self._squared(self.X) @ self.space.xp.ones(self.n_features) + self.bias**2

    def some(self, places: Any) -> Any:
        Z = self.space.empty((places.shape[0], self.n_weights), self.space.xp.float64)
        Z[:, :-1] = self.X[places].toarray()
        Z[:, -1] = self.bias
        return Z

    def squares(self, part: slice, B: Any) -> Any:
        xp = self.space.xp
        features = _product(self._squared(self._piece(part)[1]), B)
        bias = self.bias**2 * xp.sum(B, axis=0, keepdims=True)
        return xp.concat([features, bias], axis=0)

    def _counts(self, part: slice, B: Any) -> Any:
        return _product(abs(self._piece(part)[1].sign()), B)

    def _squared(self, X: Any) -> Any:
        return X.multiply(X).tocsr()


def _product(X: Any, W: Any) -> Any:
    """Return ``X @ W``; a single column is multiplied as a vector, which is faster."""
    return (X @ W[:, 0])[:, None] if W.shape[1] == 1 else X @ W

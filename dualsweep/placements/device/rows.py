"""Rows on a device: the passes of `dualsweep.rows.passes`, by matrix products.

A pass takes a part of the rows at a time, so that a number per row and class fits into memory. The
bias is one extra weight, and never a column of X.
"""

from __future__ import annotations

from copy import copy

from ... import _tuning
from ..._typing import DeviceArray, DeviceDType
from ...rows.functions import EPS
from ...rows.passes import chunks
from .arrays import OnHost, Space

# Numbers that an array made of a part of the rows has at most on a device.
PART = 1 << 26

# A copy of X in float64 is kept if it takes at most this share of the free memory; else parts are
# converted each time they are needed.
WIDE_PART = 0.125

# Features of a dense row that are multiplied at a time. The error of a sum grows with the number of
# its terms: a sum of shorter sums is more accurate.
FEATURES = 4096


class DeviceRows:
    """Rows of X, float32 or float64, on a device; the bias is the value of the constant feature.

    `width` is how many numbers per row a part of X is converted to.
    """

    def __init__(self, space: Space, X: DeviceArray, bias: float, width: int) -> None:
        self.space, self.xp, self.X, self.bias, self.width = space, space.xp, X, bias, width
        self.n_rows, self.n_features = X.shape
        self.n_weights = self.n_features + 1
        self.narrow = X.dtype == space.xp.float32  # whether float32 is of any use
        self.limit, self.spilled = float("inf"), False

    def within(self, limit: float, spilled: bool) -> DeviceRows:
        """Return these rows for training in so many bytes; tables `spilled` are on the host."""
        rows = copy(self)
        rows.limit, rows.spilled = limit, spilled
        return rows

    def table(self, n_classes: int, dtype: DeviceDType) -> DeviceArray:
        """Return an uninitialised array of a number per row and class, to be used in parts."""
        shape = (self.n_rows, n_classes)
        return OnHost(self.space, shape, dtype) if self.spilled else self.space.empty(shape, dtype)

    def parts(self, n_classes: int) -> list[slice]:
        """Cut the rows into parts for arrays with so many columns."""
        free = min(self.space.free_bytes(), self.limit)
        each = _tuning.SLICE_BYTES
        most = _tuning.HOST_SLICE if free == float("inf") else min(PART, int(free / each))
        width = n_classes + self.width
        if most < width and self.spilled:
            raise MemoryError(
                f"On {self.n_rows:,} rows and {n_classes} classes, {free:,.0f} bytes besides X are "
                f"too little to train in: raise memory_limit to {each * width:,} or more."
            )
        return list(chunks(slice(0, self.n_rows), most // width))

    def responses(self, part: slice, W: DeviceArray) -> DeviceArray:
        """Return ``X[part] @ W``, the bias included, in the precision of W."""
        out = self._times(part, W[:-1, :])
        if self.bias:
            out += self.bias * W[-1:, :]
        return out

    def add(self, part: slice, B: DeviceArray, out: DeviceArray) -> None:
        """Add ``X[part]' @ B`` to the weights `out`, by a product in the precision of B."""
        out[:-1, :] += self.xp.astype(self._transposed_times(part, B), out.dtype, copy=False)
        if self.bias:
            out[-1:, :] += self.bias * self.xp.sum(B, axis=0, keepdims=True, dtype=out.dtype)

    def columns(self, weight: DeviceArray) -> DeviceArray:
        """Return the weighted sum of squares and number of nonzero entries per column."""
        out = self.space.zeros((2, self.n_features), weight.dtype)
        for part in self.parts(1):
            B = weight[part][:, None]
            out[0, :] += self._squares(part, B)[:, 0]
            out[1, :] += self._counts(part, B)[:, 0]
        return out

    def some(self, places: DeviceArray) -> DeviceArray:
        """Return some of the rows as a dense matrix in float64, the bias its last column."""
        Z = self.space.empty((places.shape[0], self.n_weights), self.xp.float64)
        Z[:, :-1] = self.xp.astype(self._dense(places), self.xp.float64, copy=False)
        Z[:, -1] = self.bias
        return Z

    def squares(self, part: slice, B: DeviceArray) -> DeviceArray:
        """Return ``(X[part]^2)' @ B``, the bias included, for diagonals of Hessians."""
        bias = self.bias**2 * self.xp.sum(B, axis=0, keepdims=True)
        return self.xp.concat([self._squares(part, B), bias], axis=0)

    def sqnorms(self) -> DeviceArray:
        """Return the squared norm of every row, the bias included, in float64."""

    def rounding(self, part: slice) -> DeviceArray:
        """Return the errors of `responses`, in parts of the lengths of rows and weights."""

    # The rest is without the bias.

    def _times(self, part: slice, W: DeviceArray) -> DeviceArray:
        """Return ``X[part] @ W``."""

    def _transposed_times(self, part: slice, B: DeviceArray) -> DeviceArray:
        """Return ``X[part]' @ B``."""

    def _dense(self, places: DeviceArray) -> DeviceArray:
        """Return some of the rows as a dense matrix."""

    def _squares(self, part: slice, B: DeviceArray) -> DeviceArray:
        """Return ``(X[part]^2)' @ B``."""

    def _counts(self, part: slice, B: DeviceArray) -> DeviceArray:
        """Return ``(X[part] != 0)' @ B``."""


class DenseDeviceRows(DeviceRows):
    """Rows of a matrix of any namespace."""

    def __init__(self, space: Space, X: DeviceArray, bias: float) -> None:
        super().__init__(space, X, bias, width=X.shape[1])
        self._wide: DeviceArray | None = None

    def _block(self, part: slice, dtype: DeviceDType) -> DeviceArray:
        """Return a part of X in another precision."""
        xp, X = self.xp, self.X
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

    def rounding(self, part: slice) -> DeviceArray:
        ones = self.xp.ones_like(self.X[part, 0], dtype=self.xp.float64)
        summands = min(self.n_features, FEATURES) + -(-self.n_features // FEATURES) + 1
        return summands * EPS * ones

    def _times(self, part: slice, W: DeviceArray) -> DeviceArray:
        block = self._block(part, W.dtype)
        if self.n_features <= FEATURES:
            return block @ W
        some = chunks(slice(0, self.n_features), FEATURES)
        return sum(block[:, features] @ W[features, :] for features in some)

    def _transposed_times(self, part: slice, B: DeviceArray) -> DeviceArray:
        return self._block(part, B.dtype).T @ B

    def sqnorms(self) -> DeviceArray:
        xp = self.xp
        out = self.space.empty((self.n_rows,), xp.float64)
        for part in self.parts(1):
            block = xp.astype(self.X[part, :], xp.float64, copy=False)
            out[part] = xp.sum(block * block, axis=1) + self.bias**2
        return out

    def _dense(self, places: DeviceArray) -> DeviceArray:
        return self.xp.take(self.X, places, axis=0)

    def _squares(self, part: slice, B: DeviceArray) -> DeviceArray:
        block = self._block(part, B.dtype)
        return (block * block).T @ B

    def _counts(self, part: slice, B: DeviceArray) -> DeviceArray:
        return self.xp.astype(self.X[part, :] != 0, B.dtype).T @ B


class SparseDeviceRows(DeviceRows):
    """Rows of a CSR matrix: CuPy's, multiplied by cuSPARSE, or SciPy's with NumPy's namespace.

    Products are in float64. The transpose of each part is kept as CSR too, so X is there twice:
    a product with the transpose of a CSR matrix takes several times as long.
    """

    def __init__(self, space: Space, X: DeviceArray, bias: float) -> None:
        wide = X if X.dtype == space.xp.float64 else X.astype(space.xp.float64)
        super().__init__(space, wide, bias, width=int(X.nnz / max(X.shape[0], 1)) + 1)
        self._pieces: dict[tuple[int, int], tuple[DeviceArray, DeviceArray]] = {}

    def _piece(self, part: slice) -> tuple[DeviceArray, DeviceArray]:
        """Return a part of X and its transpose."""
        key = (part.start, part.stop)
        if key not in self._pieces:
            piece = self.X if key == (0, self.n_rows) else self.X[part]
            self._pieces[key] = piece, piece.T.tocsr()
        return self._pieces[key]

    def rounding(self, part: slice) -> DeviceArray:
        indptr = self.X.indptr[part.start : part.stop + 1]
        return EPS * self.xp.astype(indptr[1:] - indptr[:-1] + 1, self.xp.float64)

    def _times(self, part: slice, W: DeviceArray) -> DeviceArray:
        return _product(self._piece(part)[0], W)

    def _transposed_times(self, part: slice, B: DeviceArray) -> DeviceArray:
        return _product(self._piece(part)[1], B)

    def sqnorms(self) -> DeviceArray:
        squared = self.X.multiply(self.X).tocsr()
        return squared @ self.xp.ones(self.n_features) + self.bias**2

    def _dense(self, places: DeviceArray) -> DeviceArray:
        return self.X[places].toarray()

    def _squares(self, part: slice, B: DeviceArray) -> DeviceArray:
        piece = self._piece(part)[1]
        return _product(piece.multiply(piece).tocsr(), B)

    def _counts(self, part: slice, B: DeviceArray) -> DeviceArray:
        return _product(abs(self._piece(part)[1].sign()), B)


def _product(X: DeviceArray, W: DeviceArray) -> DeviceArray:
    """Return ``X @ W``; a single column is multiplied as a vector, which is faster."""
    return (X @ W[:, 0])[:, None] if W.shape[1] == 1 else X @ W

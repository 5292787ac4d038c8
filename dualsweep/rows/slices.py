"""Sparse rows cut into slices of features, so that each thread has weights of its own."""

from __future__ import annotations

from functools import partial
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from .._jit import FUSED_MATH, jit, jit_inline, prefetch
from .._typing import Array
from .layouts import CSRRows
from .passes import Passes

# Slices start at a multiple of so many features: no cache line of weights is in two.
LINE = 16

MOST_SLICES = 256  # their numbers are bytes

# Products are rounded as if margins could be at least this large.
SMALLEST_REACH = 2.0**-900

# Rows to prefetch, since they are copied in a random order.
AHEAD = 4


# Bits of an index that tell the row within its bucket; the others tell the feature.
ROW_BITS = 3


class SlicedRows(NamedTuple):
    """Copies of rows ``y_i x_i`` without their bias, slice after slice."""

    data: Array
    indices: Array  # features, and above them the place of the row in its bucket
    starts: Array  # of slice s and row i: its entries are from starts[s, i] to starts[s, i + 1]


def slices_of(n_entries: Array, n_slices: int) -> Array:
    """Return the slice of each feature, all of about as many entries, given those of features."""
    before = np.cumsum(n_entries[: len(n_entries) // LINE * LINE].reshape(-1, LINE).sum(axis=1))
    slices = before * n_slices // max(int(n_entries.sum()) + 1, 1)
    return np.append(np.repeat(slices, LINE), np.full(LINE, slices[-1:].max(initial=0)))[
        : len(n_entries)
    ].astype(np.uint8)


@jit_inline
def feature_bits(indices: Array) -> np.uint64:
    """Return how many bits of an index tell the feature."""
    return np.uint64(8 * indices.itemsize - ROW_BITS)


@jit_inline
def feature_mask(indices: Array) -> np.uint64:
    """Return what leaves the feature of an index."""
    return (np.uint64(1) << feature_bits(indices)) - np.uint64(1)


def slice_rows(
    passes: Passes, numbers: Array, y: Array, bucket: int, slices: Array, n_slices: int
) -> SlicedRows:
    """Copy rows times y, so that neighbours in `numbers` become neighbours in memory."""
    rows, n = passes.rows, len(numbers)
    assert isinstance(rows, CSRRows)
    given = rows.indices, rows.indptr, numbers, slices
    starts = np.zeros((n_slices, n + 1), np.int64)
    passes.each(lambda part: _count(*given, part.start, part.stop, starts), n)
    np.cumsum(starts, axis=1, out=starts)
    starts[1:] += np.cumsum(starts[:-1, -1])[:, None]
    size = int(starts[-1, -1])
    index = np.uint32 if rows.n_features < 1 << (32 - ROW_BITS) else np.uint64
    copied = SlicedRows(np.empty(size, rows.data.dtype), np.empty(size, index), starts)

    def copy(part: slice) -> None:
        places = np.empty(n_slices, np.int64)
        _copy(rows.data, *given, y, bucket, part.start, part.stop, places, copied)

    passes.each(copy, n)
    return copied


def project_rows(
    passes: Passes, rows: SlicedRows, directions: Array, reach: float, out: Array
) -> None:
    """Fill in the products of rows with three directions, a column each; `reach` bounds them."""
    magic = magic_of(reach)
    passes.each(lambda part: _project(rows, directions, magic, part.start, out[part]), len(out))


def magic_of(reach: float) -> float:
    """Return a number M such that ``(x + M) - M`` is x rounded to a multiple of some grid.

    Sums of such numbers are exact, whatever their order, as long as they are at most `reach`: the
    same for any number of slices. The grid is 2**-50 of `reach`, or somewhat less.
    """
    return 6.0 * 2.0 ** ceil(log2(max(reach, SMALLEST_REACH)))


@jit
def _count(
    indices: Array,
    indptr: Array,
    numbers: Array,
    slices: Array,
    first: int,
    last: int,
    starts: Array,
) -> None:
    """Set ``starts[s, t + 1]`` to the entries of row ``numbers[t]`` in slice s."""
    for t in range(first, last):
        i = numbers[t]
        if starts.shape[0] == 1:
            starts[0, t + 1] = indptr[i + 1] - indptr[i]
            continue
        _prefetch(indices, indptr, numbers, min(t + AHEAD, last - 1))
        for j in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            starts[slices[indices[j]], t + 1] += 1


@jit
def _copy(
    values: Array,
    indices: Array,
    indptr: Array,
    numbers: Array,
    slices: Array,
    y: Array,
    bucket: int,
    first: int,
    last: int,
    places: Array,
    copied: SlicedRows,
) -> None:
    """Copy the rows from `first` to `last`."""
    data, features, starts = copied
    bits = feature_bits(features)
    for t in range(first, last):
        i = numbers[t]
        row, sign = np.uint64(t % bucket) << bits, values.dtype.type(y[i])
        _prefetch(indices, indptr, numbers, min(t + AHEAD, last - 1))
        _prefetch(values, indptr, numbers, min(t + AHEAD, last - 1))
        j, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if starts.shape[0] == 1:
            length, to = stop - j, np.uint64(starts[0, t])
            for e in range(length):
                data[to + e], features[to + e] = sign * values[j + e], indices[j + e] | row
            continue
        for s in range(starts.shape[0]):
            places[s] = starts[s, t]
        for e in range(j, stop):
            s = slices[indices[e]]
            p = np.uint64(places[s])
            places[s] += 1
            data[p], features[p] = sign * values[e], indices[e] | row


@jit
def _prefetch(entries: Array, indptr: Array, numbers: Array, t: int) -> None:
    """Ask for the entries of row ``numbers[t]``."""
    for j in range(indptr[numbers[t]], indptr[numbers[t] + 1], 16):
        prefetch(entries, j)


@partial(jit, fastmath=FUSED_MATH)
def _project(rows: SlicedRows, directions: Array, magic: float, first: int, out: Array) -> None:
    mask = feature_mask(rows.indices)
    for t in range(out.shape[0]):
        i = first + t
        a, b, c = 0.0, 0.0, 0.0
        for s in range(rows.starts.shape[0]):
            for j in range(np.uint64(rows.starts[s, i]), np.uint64(rows.starts[s, i + 1])):
                value, f = np.float64(rows.data[j]), rows.indices[j] & mask
                a += (value * directions[f, 0] + magic) - magic
                b += (value * directions[f, 1] + magic) - magic
                c += (value * directions[f, 2] + magic) - magic
        out[t, 0], out[t, 1], out[t, 2] = a, b, c

"""What kernels do with rows and the weights of many classes; see `dualsweep.rows.functions`."""

from __future__ import annotations

import numpy as np

from .._jit import DOT_MATH, FUSED_MATH, generic, implements, jit
from .._lanes import add_outer_lanes, add_scores_lanes
from .._typing import Array
from .functions import row_count, row_entry
from .layouts import AnyRows, CSRRows, DenseRows, Rows


@generic
def row_scores(rows: AnyRows, i: int, W: Array, out: Array) -> None:
    """Fill `out` with ``X[i] @ W[:-1] + bias * W[-1]``, one number per class.

    Accumulated in float64, or in float32 where X and W both are. W is C-ordered for sparse rows,
    and for dense ones fastest in Fortran's order, where the weights of a class are side by side.
    """


@generic
def row_scores_few(rows: AnyRows, i: int, W: Array, classes: Array, n: int, out: Array) -> None:
    """Fill ``out[c]`` with the score of class ``classes[c]``, for the first n of `classes`."""


@generic
def row_add_few(
    rows: AnyRows, i: int, classes: Array, step: Array, n: int, W: Array, scratch: Array
) -> None:
    """Add ``step[c] * X[i]`` to the weights of class ``classes[c]``, bias included, in place.

    The first n of `classes` are distinct. `scratch` holds a number for each class there is.
    """


# Up to so many classes, some are taken at a time, for all features. With more, all classes for four
# features at a time are faster, since memory is read in sequence.
LANES_CLASSES = 64


@implements(row_scores, CSRRows, fastmath=FUSED_MATH)
def _scores_csr(rows: CSRRows, i: int, W: Array, out: Array) -> None:
    k = out.shape[0]
    data, indices = rows.data, rows.indices
    last = W[W.shape[0] - 1]
    for m in range(k):
        out[m] = rows.bias * np.float64(last[m])
    if k <= LANES_CLASSES:
        start, stop = rows.indptr[i], rows.indptr[i + 1]
        add_scores_lanes(data[start:stop], indices[start:stop], W, out)
        return
    j, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    while j + three < end:
        xa, xb = np.float64(data[j]), np.float64(data[j + one])
        xc, xd = np.float64(data[j + two]), np.float64(data[j + three])
        a, b = W[indices[j]], W[indices[j + one]]
        c, d = W[indices[j + two]], W[indices[j + three]]
        for m in range(k):
            left = xa * np.float64(a[m]) + xb * np.float64(b[m])
            out[m] += left + (xc * np.float64(c[m]) + xd * np.float64(d[m]))
        j += four
    while j < end:
        x, a = np.float64(data[j]), W[indices[j]]
        for m in range(k):
            out[m] += x * np.float64(a[m])
        j += one


@implements(row_scores, DenseRows, fastmath=DOT_MATH)
def _scores_dense(rows: DenseRows, i: int, W: Array, out: Array) -> None:
    row = rows.data[i]
    d, k = row.shape[0], out.shape[0]
    zero = row.dtype.type(0.0) * W.dtype.type(0.0)
    for m in range(0, k, 2):  # an entry is loaded once for two classes
        n = min(m + 1, k - 1)
        a, b = W.T[m], W.T[n]
        one, other = zero, zero
        for j in range(d):
            one += row[j] * a[j]
            other += row[j] * b[j]
        out[m] = one + rows.bias * np.float64(a[d])
        out[n] = other + rows.bias * np.float64(b[d])


@implements(row_scores_few, CSRRows, fastmath=FUSED_MATH)
def _scores_few_csr(rows: CSRRows, i: int, W: Array, classes: Array, n: int, out: Array) -> None:
    data, indices = rows.data, rows.indices
    start, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    k, flat = np.uint64(W.shape[1]), W.reshape(-1)
    last = W[W.shape[0] - 1]
    for c in range(0, n, 2):  # an entry is loaded once for two classes
        d = min(c + 1, n - 1)
        p, q = np.uint64(classes[c]), np.uint64(classes[d])
        one, other = 0.0, 0.0
        for j in range(start, end):
            x, weights = np.float64(data[j]), np.uint64(indices[j]) * k
            one += x * np.float64(flat[weights + p])
            other += x * np.float64(flat[weights + q])
        out[c] = one + rows.bias * np.float64(last[p])
        out[d] = other + rows.bias * np.float64(last[q])


@implements(row_scores_few, DenseRows, fastmath=DOT_MATH)
def _scores_few_dense(
    rows: DenseRows, i: int, W: Array, classes: Array, n: int, out: Array
) -> None:
    row = rows.data[i]
    d = row.shape[0]
    for c in range(n):
        weights = W.T[classes[c]]
        total = row.dtype.type(0.0) * W.dtype.type(0.0)
        for j in range(d):
            total += row[j] * weights[j]
        out[c] = total + rows.bias * np.float64(weights[d])


# If no more than this part of the classes change, only those are written; else it is faster to
# write whole rows of W, which is vectorised.
FEW_CLASSES = 0.25


@implements(row_add_few, CSRRows, fastmath=FUSED_MATH)
def _add_few_csr(
    rows: CSRRows, i: int, classes: Array, step: Array, n: int, W: Array, scratch: Array
) -> None:
    data, indices, number = rows.data, rows.indices, W.dtype.type
    start, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    k, flat = np.uint64(W.shape[1]), W.reshape(-1)
    last = W[W.shape[0] - 1]
    for c in range(n):
        last[classes[c]] += number(rows.bias) * number(step[c])
    if n > FEW_CLASSES * k:
        for m in range(k):
            scratch[m] = 0.0
        for c in range(n):
            scratch[classes[c]] = step[c]
        add_outer_lanes(data[start:end], indices[start:end], scratch, W)
        return
    for c in range(0, n - 1, 2):  # an entry is loaded once for two classes
        p, q = np.uint64(classes[c]), np.uint64(classes[c + 1])
        one, other = number(step[c]), number(step[c + 1])
        for j in range(start, end):
            x, weights = number(data[j]), np.uint64(indices[j]) * k
            flat[weights + p] += one * x
            flat[weights + q] += other * x
    if n % 2 == 1:
        p, one = np.uint64(classes[n - 1]), number(step[n - 1])
        for j in range(start, end):
            flat[np.uint64(indices[j]) * k + p] += one * number(data[j])


@implements(row_add_few, DenseRows, fastmath=FUSED_MATH)
def _add_few_dense(
    rows: DenseRows, i: int, classes: Array, step: Array, n: int, W: Array, scratch: Array
) -> None:
    row, number = rows.data[i], W.dtype.type
    d = row.shape[0]
    for c in range(n):
        weights, s = W.T[classes[c]], number(step[c])
        for j in range(d):
            weights[j] += s * number(row[j])
        weights[d] += s * number(rows.bias)


@jit
def add_outer_many(
    rows: Rows,
    members: Array,
    counts: Array,
    classes: Array,
    M: Array,
    out: Array,
    values: Array,
    places: Array,
) -> None:
    """Add to `out` the blocks of ``sum_i (x_i x_i') (x) M_i``, as far as they differ.

    ``out[a, c]`` is the block of the classes a >= c. Half of this matrix over features is filled
    in: entry (j, l) if j does not come before l in the row; see `whole_gram`.
    """
    for t in range(members.shape[0]):
        if counts[t] == 0:
            continue
        entries = row_count(rows, members[t])
        for e in range(entries):
            values[e], places[e] = row_entry(rows, members[t], e)
        for a in range(counts[t]):
            for c in range(a + 1):
                one, other = classes[t, a], classes[t, c]
                block = out[max(one, other), min(one, other)]
                scale = M[t, a, c]
                for e in range(entries):
                    line = block[places[e]]
                    value = scale * values[e]
                    for f in range(e + 1):
                        line[places[f]] += value * values[f]


def whole_gram(blocks: Array) -> Array:
    """Return the matrix over all weights, in the order of W, from what `add_outer_many` filled.

    Blocks are symmetric, and those of (a, c) and (c, a) the same. An entry was added in one of its
    two places.
    """
    k, _, d, _ = blocks.shape
    diagonal = blocks.diagonal(axis1=2, axis2=3).copy()
    blocks = blocks + blocks.transpose(0, 1, 3, 2)
    blocks[..., np.arange(d), np.arange(d)] = diagonal
    lower = np.tri(k, k=-1, dtype=bool)
    blocks[lower.T] = blocks.transpose(1, 0, 2, 3)[lower.T]
    return np.ascontiguousarray(blocks.transpose(2, 0, 3, 1)).reshape(d * k, d * k)

"""What kernels do with a row; which code that is depends on the type of `rows` alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import DOT_MATH, generic, implements, prefetch
from .._lanes import add_outer_lanes, add_scores_lanes
from .layouts import CSRRows, Rows

__all__ = [
    "row_add_few",
    "row_axpy",
    "row_dot",
    "row_entries",
    "row_outer",
    "row_prefetch",
    "row_prefetch_head",
    "row_scores",
    "row_scores_few",
    "row_sqnorm",
]

CACHE_LINE = 64  # bytes

# Lines of a row to ask for; the hardware finds the rest. All lines of long rows are too many at
# once: 27.0 ms for a sweep over imdb (23 lines a row), 23.9 ms with 4, 30.5 ms with none.
PREFETCH_LINES = 4


@generic
def row_dot(rows: Rows, i: int, w: Any) -> Any:
    """Return ``X[i] @ w[:-1] + bias * w[-1]``, accumulated in float64."""


@generic
def row_axpy(rows: Rows, i: int, step: float, w: Any) -> Any:
    """Add ``step * X[i]`` to ``w[:-1]`` and ``step * bias`` to ``w[-1]``, in place."""


@generic
def row_sqnorm(rows: Rows, i: int) -> Any:
    """Return ``X[i] @ X[i] + bias**2``, accumulated in float64."""


@generic
def row_outer(rows: Rows, i: int, scale: float, out: Any) -> Any:
    """Add half of ``scale * x x'``, x sparse row i with its bias: the whole is ``out + out'``."""


@generic
def row_scores(rows: Rows, i: int, W: Any, out: Any) -> Any:
    """Fill `out` with ``X[i] @ W[:-1] + bias * W[-1]``, one number per class.

    Accumulated in float64, or in float32 where X and W both are. The loop over classes is the inner
    one for sparse rows, whose W is C-ordered, the loop over features for dense ones: there W is
    fastest in Fortran's order, which has the weights of a class side by side.
    """


@generic
def row_scores_few(rows: Rows, i: int, W: Any, classes: Any, n: int, out: Any) -> Any:
    """Fill ``out[c]`` with the score of class ``classes[c]``, for the first n of `classes`."""


@generic
def row_add_few(rows: Rows, i: int, classes: Any, step: Any, n: int, W: Any, scratch: Any) -> Any:
    """Add ``step[c] * X[i]`` to the weights of class ``classes[c]``, bias included, in place.

    For the first n of `classes`, each of which is there once. `scratch` holds as many numbers as
    there are classes in all.
    """


@generic
def row_entries(rows: Rows, i: int, values: Any, places: Any) -> Any:
    """Fill in the entries of row i and where they are, the bias last; return how many."""


@generic
def row_prefetch_head(rows: Rows, i: int) -> Any:
    """Ask for what `row_prefetch` has to read before it knows where row i is."""


@generic
def row_prefetch(rows: Rows, i: int) -> Any:
    """Ask for the start of row i: rows are visited in random order, and DCD waits for memory."""


def _is_csr(rows: Any) -> bool:
    return rows.instance_class is CSRRows  # type: ignore[no-any-return]


def _precision(*arrays: Any) -> Any:
    """Return that of numbers of all these types of arrays together: float32 if all are."""
    return np.float32 if all(array.dtype.bitwidth == 32 for array in arrays) else np.float64


# LLVM would vectorise a sparse dot product with hardware gathers, which are slower than four
# scalar chains on AMD Zen 4 (3.5 against 2.3 ns an entry); hence the accumulators by hand and no
# "reassoc" there. Unsigned positions spare a sign test at every access: 0.041 s -> 0.028 s for a
# sweep over 9 million entries.


@implements(row_dot, fastmath={"contract", "nsz"})
def _row_dot_csr(rows: Any, i: Any, w: Any) -> Any:
    if not _is_csr(rows):
        return None

    def dot(rows, i, w):  # type: ignore[no-untyped-def]
        data, indices = rows.data, rows.indices
        j, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        while j + three < end:
            a += np.float64(data[j]) * np.float64(w[indices[j]])
            b += np.float64(data[j + one]) * np.float64(w[indices[j + one]])
            c += np.float64(data[j + two]) * np.float64(w[indices[j + two]])
            d += np.float64(data[j + three]) * np.float64(w[indices[j + three]])
            j += four
        while j < end:
            a += np.float64(data[j]) * np.float64(w[indices[j]])
            j += one
        return (a + b) + (c + d) + rows.bias * np.float64(w[w.shape[0] - 1])

    return dot


@implements(row_dot, fastmath=DOT_MATH)
def _row_dot_dense(rows: Any, i: Any, w: Any) -> Any:
    if _is_csr(rows):
        return None

    def dot(rows, i, w):  # type: ignore[no-untyped-def]
        row = rows.data[i]
        total = rows.bias * np.float64(w[w.shape[0] - 1])
        for j in range(row.shape[0]):
            total += np.float64(row[j]) * np.float64(w[j])
        return total

    return dot


@implements(row_axpy, fastmath={"contract", "nsz"})
def _row_axpy(rows: Any, i: Any, step: Any, w: Any) -> Any:
    dtype = _precision(w)

    def axpy_csr(rows, i, step, w):  # type: ignore[no-untyped-def]
        data, indices = rows.data, rows.indices
        s = dtype(step)
        for j in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            w[indices[j]] += s * data[j]
        w[w.shape[0] - 1] += s * dtype(rows.bias)

    def axpy_dense(rows, i, step, w):  # type: ignore[no-untyped-def]
        row = rows.data[i]
        s = dtype(step)
        for j in range(row.shape[0]):
            w[j] += s * row[j]
        w[w.shape[0] - 1] += s * dtype(rows.bias)

    return axpy_csr if _is_csr(rows) else axpy_dense


@implements(row_sqnorm, fastmath=DOT_MATH)
def _row_sqnorm(rows: Any, i: Any) -> Any:
    def sqnorm_csr(rows, i):  # type: ignore[no-untyped-def]
        total = rows.bias * rows.bias
        for j in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            total += np.float64(rows.data[j]) * np.float64(rows.data[j])
        return total

    def sqnorm_dense(rows, i):  # type: ignore[no-untyped-def]
        row = rows.data[i]
        total = rows.bias * rows.bias
        for j in range(row.shape[0]):
            total += np.float64(row[j]) * np.float64(row[j])
        return total

    return sqnorm_csr if _is_csr(rows) else sqnorm_dense


# Up to so many classes they are taken some at a time, all features for each; with more of them, all
# classes for four features at a time are faster, since memory is read in sequence.
LANES_CLASSES = 64


@implements(row_scores, fastmath={"contract", "nsz"})
def _row_scores_csr(rows: Any, i: Any, W: Any, out: Any) -> Any:
    if not _is_csr(rows):
        return None

    def scores_csr(rows, i, W, out):  # type: ignore[no-untyped-def]
        k = out.shape[0]
        data, indices = rows.data, rows.indices
        last = W[W.shape[0] - 1]
        for m in range(k):
            out[m] = rows.bias * np.float64(last[m])
        if k <= LANES_CLASSES:
            add_scores_lanes(data, indices, rows.indptr[i], rows.indptr[i + 1], W, out)
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

    return scores_csr


@implements(row_scores, fastmath=DOT_MATH)
def _row_scores_dense(rows: Any, i: Any, W: Any, out: Any) -> Any:
    if _is_csr(rows):
        return None
    number = _precision(rows[0], W)

    def scores_dense(rows, i, W, out):  # type: ignore[no-untyped-def]
        row = rows.data[i]
        d, k = row.shape[0], out.shape[0]
        for m in range(0, k, 2):  # an entry is loaded once for two classes
            n = min(m + 1, k - 1)
            a, b = W.T[m], W.T[n]
            one, other = number(0.0), number(0.0)
            for j in range(d):
                one += number(row[j]) * number(a[j])
                other += number(row[j]) * number(b[j])
            out[m] = one + rows.bias * a[d]
            out[n] = other + rows.bias * b[d]

    return scores_dense


@implements(row_scores_few, fastmath={"contract", "nsz"})
def _row_scores_few_csr(rows: Any, i: Any, W: Any, classes: Any, n: Any, out: Any) -> Any:
    if not _is_csr(rows):
        return None

    def scores_csr(rows, i, W, classes, n, out):  # type: ignore[no-untyped-def]
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

    return scores_csr


@implements(row_scores_few, fastmath=DOT_MATH)
def _row_scores_few_dense(rows: Any, i: Any, W: Any, classes: Any, n: Any, out: Any) -> Any:
    if _is_csr(rows):
        return None
    number = _precision(rows[0], W)

    def scores_dense(rows, i, W, classes, n, out):  # type: ignore[no-untyped-def]
        row = rows.data[i]
        d = row.shape[0]
        for c in range(n):
            weights = W.T[classes[c]]
            total = number(0.0)
            for j in range(d):
                total += number(row[j]) * number(weights[j])
            out[c] = total + rows.bias * weights[d]

    return scores_dense


# Where no more than this part of the classes change, only those are written; where more do, it is
# faster to write whole rows of W, which is vectorised.
FEW_CLASSES = 0.25


@implements(row_add_few, fastmath={"contract", "nsz"})
def _row_add_few(rows: Any, i: Any, classes: Any, step: Any, n: Any, W: Any, scratch: Any) -> Any:
    dtype = _precision(W)

    def add_csr(rows, i, classes, step, n, W, scratch):  # type: ignore[no-untyped-def]
        data, indices = rows.data, rows.indices
        start, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        k, flat = np.uint64(W.shape[1]), W.reshape(-1)
        last = W[W.shape[0] - 1]
        for c in range(n):
            last[classes[c]] += dtype(rows.bias) * dtype(step[c])
        if n > FEW_CLASSES * k:
            for m in range(k):
                scratch[m] = 0.0
            for c in range(n):
                scratch[classes[c]] = step[c]
            add_outer_lanes(data, indices, rows.indptr[i], rows.indptr[i + 1], scratch, W)
            return
        for c in range(0, n - 1, 2):  # an entry is loaded once for two classes
            p, q = np.uint64(classes[c]), np.uint64(classes[c + 1])
            one, other = dtype(step[c]), dtype(step[c + 1])
            for j in range(start, end):
                x, weights = dtype(data[j]), np.uint64(indices[j]) * k
                flat[weights + p] += one * x
                flat[weights + q] += other * x
        if n % 2 == 1:
            p, one = np.uint64(classes[n - 1]), dtype(step[n - 1])
            for j in range(start, end):
                flat[np.uint64(indices[j]) * k + p] += one * dtype(data[j])

    def add_dense(rows, i, classes, step, n, W, scratch):  # type: ignore[no-untyped-def]
        row = rows.data[i]
        d = row.shape[0]
        for c in range(n):
            weights, s = W.T[classes[c]], dtype(step[c])
            for j in range(d):
                weights[j] += s * dtype(row[j])
            weights[d] += s * dtype(rows.bias)

    return add_csr if _is_csr(rows) else add_dense


@implements(row_outer, fastmath={"contract", "nsz"})
def _row_outer(rows: Any, i: Any, scale: Any, out: Any) -> Any:
    if not _is_csr(rows):
        return None

    def outer_csr(rows, i, scale, out):  # type: ignore[no-untyped-def]
        data, indices = rows.data, rows.indices
        start, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        last = out.shape[0] - 1
        for j in range(start, end):
            s = scale * np.float64(data[j])
            target = out[indices[j]]
            for k in range(start, j):
                target[indices[k]] += s * np.float64(data[k])
            target[indices[j]] += 0.5 * s * np.float64(data[j])
            out[last, indices[j]] += s * rows.bias
        out[last, last] += 0.5 * scale * rows.bias * rows.bias

    return outer_csr


@implements(row_entries)
def _row_entries(rows: Any, i: Any, values: Any, places: Any) -> Any:
    def entries_csr(rows, i, values, places):  # type: ignore[no-untyped-def]
        n = 0
        for j in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            values[n] = rows.data[j]
            places[n] = rows.indices[j]
            n += 1
        values[n] = rows.bias
        places[n] = rows.n_features
        return n + 1

    def entries_dense(rows, i, values, places):  # type: ignore[no-untyped-def]
        n = rows.data.shape[1]
        for j in range(n):
            values[j] = rows.data[i, j]
            places[j] = j
        values[n] = rows.bias
        places[n] = n
        return n + 1

    return entries_csr if _is_csr(rows) else entries_dense


@implements(row_prefetch_head)
def _row_prefetch_head(rows: Any, i: Any) -> Any:
    def head_csr(rows, i):  # type: ignore[no-untyped-def]
        prefetch(rows.indptr, i)

    def head_dense(rows, i):  # type: ignore[no-untyped-def]
        pass

    return head_csr if _is_csr(rows) else head_dense


@implements(row_prefetch)
def _row_prefetch(rows: Any, i: Any) -> Any:
    if _is_csr(rows):
        per_line = CACHE_LINE // max(rows[0].dtype.bitwidth // 8, rows[1].dtype.bitwidth // 8)

        def prefetch_csr(rows, i):  # type: ignore[no-untyped-def]
            start = rows.indptr[i]
            end = min(rows.indptr[i + 1], start + PREFETCH_LINES * per_line)
            for j in range(start, end, per_line):
                prefetch(rows.data, j)
                prefetch(rows.indices, j)

        return prefetch_csr
    per_line = CACHE_LINE // (rows[0].dtype.bitwidth // 8)

    def prefetch_dense(rows, i):  # type: ignore[no-untyped-def]
        n = rows.data.shape[1]
        flat = rows.data.reshape(-1)
        for j in range(i * n, i * n + min(n, PREFETCH_LINES * per_line), per_line):
            prefetch(flat, j)

    return prefetch_dense

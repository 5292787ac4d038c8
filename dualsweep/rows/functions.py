"""What kernels do with a row; which code that is depends on the type of `rows` alone.

What they do with the weights of many classes is in `dualsweep.rows.many_classes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import DOT_MATH, FUSED_MATH, generic, implements, prefetch
from .layouts import CSRRows, DenseRows, Rows

# A sum of n products, in any order, fused or not, is off by at most ``n EPS`` times the sum of
# their sizes, which is twice the usual bound (Higham 2002, section 3.1), and by ``n SMALLEST``
# where they underflow.
EPS = float(np.finfo(np.float64).eps)
SMALLEST = float(np.finfo(np.float64).tiny)

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
def row_entries(rows: Rows, i: int, values: Any, places: Any) -> Any:
    """Fill in the entries of row i and where they are, the bias last; return how many."""


@generic
def row_count(rows: Rows, i: int) -> Any:
    """Return the number of stored entries of row i, the bias included."""


@generic
def row_slack(rows: Rows, i: int, w: Any, goal: float, y: float) -> Any:
    """Return ``goal - y * (X[i] @ w)``, the bias included; y is 1 or -1."""


@generic
def row_rounding(rows: Rows, i: int, goal: float, reach: float) -> Any:
    """Return a bound on the error of `row_slack`, beside the rounding of its result.

    `reach` is at least the sum of the sizes of all products. If it is 0, they are exact.
    """


@generic
def row_prefetch_head(rows: Rows, i: int) -> Any:
    """Ask for what `row_prefetch` has to read before it knows where row i is."""


@generic
def row_prefetch(rows: Rows, i: int) -> Any:
    """Ask for the start of row i: rows are visited in random order, and DCD waits for memory."""


def is_csr(rows: Any) -> bool:
    """Tell whether a numba type is that of `CSRRows`."""
    return rows.instance_class is CSRRows  # type: ignore[no-any-return]


def is_dense(rows: Any) -> bool:
    """Tell whether a numba type is that of `DenseRows`."""
    return rows.instance_class is DenseRows  # type: ignore[no-any-return]


def precision(*arrays: Any) -> Any:
    """Return that of numbers of all these types of arrays together: float32 if all are."""
    return np.float32 if all(array.dtype.bitwidth == 32 for array in arrays) else np.float64


# LLVM would vectorise a sparse dot product with hardware gathers, which are slower than four
# scalar chains on AMD Zen 4 (3.5 against 2.3 ns an entry); hence the accumulators by hand and no
# "reassoc" there. Unsigned positions spare a sign test at every access: 0.041 s -> 0.028 s for a
# sweep over 9 million entries.


@implements(row_dot, fastmath=FUSED_MATH)
def _row_dot_csr(rows: Any, i: Any, w: Any) -> Any:
    if not is_csr(rows):
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
    if is_csr(rows):
        return None

    def dot(rows, i, w):  # type: ignore[no-untyped-def]
        row = rows.data[i]
        total = rows.bias * np.float64(w[w.shape[0] - 1])
        for j in range(row.shape[0]):
            total += np.float64(row[j]) * np.float64(w[j])
        return total

    return dot


@implements(row_count)
def _row_count(rows: Any, i: Any) -> Any:
    def count_csr(rows, i):  # type: ignore[no-untyped-def]
        return rows.indptr[i + 1] - rows.indptr[i] + 1

    def count_dense(rows, i):  # type: ignore[no-untyped-def]
        return rows.n_features + 1

    return count_csr if is_csr(rows) else count_dense if is_dense(rows) else None


@implements(row_slack)
def _row_slack(rows: Any, i: Any, w: Any, goal: Any, y: Any) -> Any:
    def slack(rows, i, w, goal, y):  # type: ignore[no-untyped-def]
        return goal - y * row_dot(rows, i, w)

    return slack if is_csr(rows) or is_dense(rows) else None


@implements(row_rounding)
def _row_rounding(rows: Any, i: Any, goal: Any, reach: Any) -> Any:
    def rounding(rows, i, goal, reach):  # type: ignore[no-untyped-def]
        return row_count(rows, i) * (EPS * reach + SMALLEST) if reach > 0.0 else 0.0

    return rounding if is_csr(rows) or is_dense(rows) else None


@implements(row_axpy, fastmath=FUSED_MATH)
def _row_axpy(rows: Any, i: Any, step: Any, w: Any) -> Any:
    dtype = precision(w)

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

    return axpy_csr if is_csr(rows) else axpy_dense


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

    return sqnorm_csr if is_csr(rows) else sqnorm_dense


@implements(row_outer, fastmath=FUSED_MATH)
def _row_outer(rows: Any, i: Any, scale: Any, out: Any) -> Any:
    if not is_csr(rows):
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

    return entries_csr if is_csr(rows) else entries_dense


@implements(row_prefetch_head)
def _row_prefetch_head(rows: Any, i: Any) -> Any:
    def head_csr(rows, i):  # type: ignore[no-untyped-def]
        prefetch(rows.indptr, i)

    def head_dense(rows, i):  # type: ignore[no-untyped-def]
        pass

    return head_csr if is_csr(rows) else head_dense


@implements(row_prefetch)
def _row_prefetch(rows: Any, i: Any) -> Any:
    if is_csr(rows):
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

"""What kernels do with a row; the type of `rows` alone decides which code that is.

What they do with the weights of many classes is in `dualsweep.rows.many_classes`.
"""

from __future__ import annotations

import numpy as np

from .._jit import DOT_MATH, FUSED_MATH, generic, implements, item_size, prefetch
from .._typing import Array, Int
from .layouts import AnyRows, CSRRows, DenseRows, Rows

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
def row_dot(rows: AnyRows, i: int, w: Array) -> float:
    """Return ``X[i] @ w[:-1] + bias * w[-1]``, accumulated in float64."""


@generic
def row_axpy(rows: AnyRows, i: int, step: float, w: Array) -> None:
    """Add ``step * X[i]`` to ``w[:-1]`` and ``step * bias`` to ``w[-1]``, in place."""


@generic
def row_sqnorm(rows: AnyRows, i: int) -> float:
    """Return ``X[i] @ X[i] + bias**2``, accumulated in float64."""


@generic
def row_outer(rows: AnyRows, i: int, scale: float, out: Array) -> None:
    """Add half of ``scale * x x'``, x sparse row i with its bias: the whole is ``out + out'``."""


@generic
def rows_outer(rows: AnyRows, members: Array, scale: Array, out: Array) -> None:
    """Do the same for some rows, sparse or dense."""


@generic
def row_entry(rows: AnyRows, i: int, e: int) -> tuple[float, Int]:
    """Return the e-th entry of row i, in float64, and its place; the bias is the last."""


@generic
def row_count(rows: AnyRows, i: int) -> int:
    """Return the number of stored entries of row i, the bias included."""


@generic
def row_slack(rows: AnyRows, i: int, w: Array, goal: float, y: float) -> float:
    """Return ``goal - y * (X[i] @ w)``, the bias included; y is 1 or -1."""


@generic
def row_rounding(rows: AnyRows, i: int, goal: float, reach: float) -> float:
    """Return a bound on the error of `row_slack`, beside the rounding of its result.

    `reach` is at least the sum of the sizes of all products. If it is 0, they are exact.
    """


@generic
def row_prefetch_head(rows: AnyRows, i: int) -> None:
    """Ask for what `row_prefetch` has to read before it knows where row i is."""


@generic
def row_prefetch(rows: AnyRows, i: int) -> None:
    """Ask for the start of row i: rows are visited in random order, and DCD waits for memory."""


# LLVM would vectorise a sparse dot product with hardware gathers, which are slower than four
# scalar chains on AMD Zen 4 (3.5 against 2.3 ns an entry); hence the accumulators by hand and no
# "reassoc" there. Unsigned positions spare a sign test at every access: 0.041 s -> 0.028 s for a
# sweep over 9 million entries.


@implements(row_dot, CSRRows, fastmath=FUSED_MATH)
def _dot_csr(rows: CSRRows, i: int, w: Array) -> float:
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


@implements(row_dot, DenseRows, fastmath=DOT_MATH)
def _dot_dense(rows: DenseRows, i: int, w: Array) -> float:
    row = rows.data[i]
    total = rows.bias * np.float64(w[w.shape[0] - 1])
    for j in range(row.shape[0]):
        total += np.float64(row[j]) * np.float64(w[j])
    return total


@implements(row_count, CSRRows)
def _count_csr(rows: CSRRows, i: int) -> int:
    return rows.indptr[i + 1] - rows.indptr[i] + 1


@implements(row_count, DenseRows)
def _count_dense(rows: DenseRows, i: int) -> int:
    return rows.n_features + 1


@implements(row_slack, CSRRows, DenseRows)
def _slack(rows: Rows, i: int, w: Array, goal: float, y: float) -> float:
    return goal - y * row_dot(rows, i, w)


@implements(row_rounding, CSRRows, DenseRows)
def _rounding(rows: Rows, i: int, goal: float, reach: float) -> float:
    return row_count(rows, i) * (EPS * reach + SMALLEST) if reach > 0.0 else 0.0


@implements(row_axpy, CSRRows, fastmath=FUSED_MATH)
def _axpy_csr(rows: CSRRows, i: int, step: float, w: Array) -> None:
    data, indices = rows.data, rows.indices
    s = w.dtype.type(step)
    for j in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        w[indices[j]] += s * data[j]
    w[w.shape[0] - 1] += s * w.dtype.type(rows.bias)


@implements(row_axpy, DenseRows, fastmath=FUSED_MATH)
def _axpy_dense(rows: DenseRows, i: int, step: float, w: Array) -> None:
    row = rows.data[i]
    s = w.dtype.type(step)
    for j in range(row.shape[0]):
        w[j] += s * row[j]
    w[w.shape[0] - 1] += s * w.dtype.type(rows.bias)


@implements(row_sqnorm, CSRRows, fastmath=DOT_MATH)
def _sqnorm_csr(rows: CSRRows, i: int) -> float:
    total = rows.bias * rows.bias
    for j in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        total += np.float64(rows.data[j]) * np.float64(rows.data[j])
    return total


@implements(row_sqnorm, DenseRows, fastmath=DOT_MATH)
def _sqnorm_dense(rows: DenseRows, i: int) -> float:
    row = rows.data[i]
    total = rows.bias * rows.bias
    for j in range(row.shape[0]):
        total += np.float64(row[j]) * np.float64(row[j])
    return total


@implements(row_outer, CSRRows, fastmath=FUSED_MATH)
def _outer_csr(rows: CSRRows, i: int, scale: float, out: Array) -> None:
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


@implements(rows_outer, CSRRows)
def _outers_csr(rows: CSRRows, members: Array, scale: Array, out: Array) -> None:
    for t in range(members.shape[0]):
        row_outer(rows, members[t], scale[t], out)


# Four rows at a time load and store the matrix once: 1,797 x 64 take 250 instead of 370
# microseconds, a product of matrices 200.
@implements(rows_outer, DenseRows, fastmath=DOT_MATH)
def _outers_dense(rows: DenseRows, members: Array, scale: Array, out: Array) -> None:
    n, last, bias = members.shape[0], out.shape[0] - 1, rows.bias
    for t in range(0, n, 4):
        two, three, four = min(t + 1, n - 1), min(t + 2, n - 1), min(t + 3, n - 1)
        a, b = rows.data[members[t]], rows.data[members[two]]
        c, d = rows.data[members[three]], rows.data[members[four]]
        p, q = scale[t], scale[two] if two == t + 1 else 0.0  # past the end, the last row again
        r, s = scale[three] if three == t + 2 else 0.0, scale[four] if four == t + 3 else 0.0
        for j in range(last):
            e, f = p * np.float64(a[j]), q * np.float64(b[j])
            g, h = r * np.float64(c[j]), s * np.float64(d[j])
            target = out[j]
            for k in range(j):
                one = e * np.float64(a[k]) + f * np.float64(b[k])
                target[k] += one + (g * np.float64(c[k]) + h * np.float64(d[k]))
            one = e * np.float64(a[j]) + f * np.float64(b[j])
            target[j] += 0.5 * (one + (g * np.float64(c[j]) + h * np.float64(d[j])))
            out[last, j] += ((e + f) + (g + h)) * bias
        out[last, last] += 0.5 * ((p + q) + (r + s)) * bias * bias


@implements(row_entry, CSRRows)
def _entry_csr(rows: CSRRows, i: int, e: int) -> tuple[float, Int]:
    j = np.uint64(rows.indptr[i] + e)
    if j < np.uint64(rows.indptr[i + 1]):
        return np.float64(rows.data[j]), np.int64(rows.indices[j])
    return np.float64(rows.bias), np.int64(rows.n_features)


@implements(row_entry, DenseRows)
def _entry_dense(rows: DenseRows, i: int, e: int) -> tuple[float, Int]:
    if e < rows.n_features:
        return np.float64(rows.data[i, e]), np.int64(e)
    return np.float64(rows.bias), np.int64(rows.n_features)


@implements(row_prefetch_head, CSRRows)
def _prefetch_head_csr(rows: CSRRows, i: int) -> None:
    prefetch(rows.indptr, i)


@implements(row_prefetch_head, DenseRows)
def _prefetch_head_dense(rows: DenseRows, i: int) -> None:
    pass


@implements(row_prefetch, CSRRows)
def _prefetch_csr(rows: CSRRows, i: int) -> None:
    per_line = CACHE_LINE // max(item_size(rows.data), item_size(rows.indices))
    start = rows.indptr[i]
    end = min(rows.indptr[i + 1], start + PREFETCH_LINES * per_line)
    for j in range(start, end, per_line):
        prefetch(rows.data, j)
        prefetch(rows.indices, j)


@implements(row_prefetch, DenseRows)
def _prefetch_dense(rows: DenseRows, i: int) -> None:
    per_line = CACHE_LINE // item_size(rows.data)
    n = rows.data.shape[1]
    flat = rows.data.reshape(-1)
    for j in range(i * n, i * n + min(n, PREFETCH_LINES * per_line), per_line):
        prefetch(flat, j)

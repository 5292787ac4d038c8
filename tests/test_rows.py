"""Rows: the row functions against NumPy, and what `as_rows` does not do to X."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from naive import augment

from dualsweep._threads import Workers
from dualsweep.rows.functions import (
    row_axpy,
    row_count,
    row_dot,
    row_entry,
    row_prefetch,
    row_prefetch_head,
    row_sqnorm,
    rows_outer,
)
from dualsweep.rows.layouts import PART_ENTRIES, CSRRows, as_rows, check_sparse, n_rows
from dualsweep.rows.many_classes import row_add_few, row_scores, row_scores_few
from dualsweep.rows.passes import Passes

N_FEATURES = 12
FLOATS = [np.float32, np.float64]


# Not cached on disk: a cached wrapper would not see a change in the row functions.
@numba.njit
def run_all(rows, steps, w, dots, norms):
    for i in range(steps.shape[0]):
        row_prefetch_head(rows, i)
        row_prefetch(rows, i)
        dots[i] = row_dot(rows, i, w)
        norms[i] = row_sqnorm(rows, i)
    for i in range(steps.shape[0]):
        row_axpy(rows, i, steps[i], w)


@numba.njit
def run_multiclass(rows, classes, steps, W, scores, few, scratch):
    for i in range(steps.shape[0]):
        row_scores(rows, i, W, scores[i])
        row_scores_few(rows, i, W, classes, classes.shape[0], few[i])
    for i in range(steps.shape[0]):
        row_add_few(rows, i, classes, steps[i], classes.shape[0], W, scratch)


@numba.njit
def run_entries(rows, values, places, counts):
    for i in range(counts.shape[0]):
        counts[i] = row_count(rows, i)
        for e in range(counts[i]):
            values[i, e], places[i, e] = row_entry(rows, i, e)


@numba.njit
def run_outer(rows, members, scales, half):
    rows_outer(rows, members, scales, half)


def ragged(dtype=np.float64):
    """Rows of 0 to 9 entries and an empty last one; the first and last column are zero."""
    rng = np.random.default_rng(0)
    X = np.zeros((11, N_FEATURES), dtype)
    for length in range(10):
        columns = 1 + rng.permutation(N_FEATURES - 2)[:length]
        X[length, columns] = rng.normal(size=length)
    return X


def csr(kind=sp.csr_matrix, index=np.int32, dtype=np.float64):
    X = kind(ragged(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def reversed_csr():
    """The same matrix with the entries of each row in descending order of columns."""
    X = csr()
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[start:end] = X.indices[start:end][::-1].copy()
        X.data[start:end] = X.data[start:end][::-1].copy()
    X.has_sorted_indices = False
    return X


def parts(X):
    return X.data, X.indices, X.indptr


def assert_unchanged(X, before):
    """Assert that the arrays of X are as they were when `before` was copied from them."""
    for now, then in zip(parts(X), before, strict=True):
        assert now.flags.writeable
        assert now.dtype == then.dtype
        np.testing.assert_array_equal(now, then)


def on_disk(array, path):
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def assert_same_rows(rows, X, w_dtype=np.float64):
    """Assert that the row functions see the dense matrix X, the bias column included."""
    rng = np.random.default_rng(1)
    w = rng.normal(size=X.shape[1]).astype(w_dtype)
    start = w.astype(np.float64)
    steps = rng.normal(size=len(X))
    dots, norms = np.empty(len(X)), np.empty(len(X))
    run_all(rows, steps, w, dots, norms)
    np.testing.assert_allclose(dots, X @ start, rtol=1e-13, atol=1e-14)
    for found in (norms, Passes(rows, Workers()).sqnorms()):
        np.testing.assert_allclose(found, (X**2).sum(axis=1), rtol=1e-14)
    precision = np.finfo(w_dtype).eps
    np.testing.assert_allclose(w, start + steps @ X, rtol=20 * precision, atol=20 * precision)
    assert w.dtype == w_dtype


@pytest.mark.parametrize("w_dtype", FLOATS)
@pytest.mark.parametrize("bias", [0.0, 2.5])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["dense", "int32", "int64"])
def test_row_functions(layout, dtype, bias, w_dtype):
    dense = ragged(dtype)
    X = dense if layout == "dense" else csr(index=layout, dtype=dtype)
    assert_same_rows(as_rows(X, bias), augment(dense, bias), w_dtype)


@pytest.mark.parametrize(("layout", "order"), [("dense", "C"), ("dense", "F"), ("csr", "C")])
@pytest.mark.parametrize("w_dtype", FLOATS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("k", "few"),
    [
        *[(8, 1), (8, 2), (9, 3), (13, 3)],  # a few, two at a time
        *[(8, 8), (31, 10), (49, 49)],  # all, 16 at a time, then 8, 4, 2 and 1
        (70, 3),  # four features at a time
    ],
)
def test_multiclass_row_functions(layout, k, few, dtype, w_dtype, order):
    X = np.ascontiguousarray(ragged(dtype)[:, 1:])  # 11 columns, no multiple of 4
    Z = augment(X.astype(np.float64), 2.5)
    rows = as_rows(X if layout == "dense" else sp.csr_array(X), 2.5)
    rng = np.random.default_rng(few)
    W = np.asarray(rng.normal(size=(Z.shape[1], k)), w_dtype, order=order)
    start = W.astype(np.float64)
    classes, steps = rng.permutation(k)[:few], rng.normal(size=(len(Z), few))
    scores, scores_few = np.full((len(Z), k), np.nan), np.full((len(Z), few + 1), np.nan)
    run_multiclass(rows, classes, steps, W, scores, scores_few, np.full(k, np.nan))
    narrow = dtype == w_dtype == np.float32
    close = {"rtol": 1e-5, "atol": 2e-6} if narrow else {"rtol": 1e-13, "atol": 1e-14}
    np.testing.assert_allclose(scores, Z @ start, **close)
    np.testing.assert_allclose(scores_few[:, :few], Z @ start[:, classes], **close)
    assert np.isnan(scores_few[:, few]).all()
    expected = start.copy()
    expected[:, classes] += Z.T @ steps
    precision = 20 * np.finfo(w_dtype).eps
    np.testing.assert_allclose(W, expected, rtol=precision, atol=precision)


@pytest.mark.parametrize("layout", ["dense", "csr", "reversed"])
def test_entries(layout):
    bias, Z = 2.5, augment(ragged(), 2.5)
    n, d = Z.shape
    rows = as_rows({"dense": ragged, "csr": csr, "reversed": reversed_csr}[layout](), bias)
    values, places, counts = np.full((n, d), np.nan), np.full((n, d), -1), np.zeros(n, np.int64)
    run_entries(rows, values, places, counts)
    for x, count, value, place in zip(Z, counts, values, places, strict=True):
        found = np.zeros(d)
        found[place[:count]] = value[:count]
        np.testing.assert_array_equal(found, x)
        assert place[count - 1] == d - 1  # the bias is the last one
        assert np.isnan(value[count:]).all()
    assert (n_rows(rows), rows.n_features) == (n, d - 1)
    stored = np.full(n, d) if layout == "dense" else (Z != 0).sum(axis=1)
    np.testing.assert_array_equal(counts, stored)
    assert rows.data.size == stored.sum() - n  # the bias is not stored


@pytest.mark.parametrize("layout", [csr, reversed_csr, ragged])
@pytest.mark.parametrize("n", [0, 1, 4, 10])
def test_outer_products(layout, n):
    members = np.random.default_rng(1).permutation(11)[:n]
    Z, scales = augment(ragged(), 2.5)[members], np.random.default_rng(0).normal(size=n)
    half = np.zeros((Z.shape[1], Z.shape[1]))
    run_outer(as_rows(layout(), 2.5), members, scales, half)
    np.testing.assert_allclose(half + half.T, Z.T @ np.diag(scales) @ Z, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3)], ids=str)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_empty_matrices(kind, shape):
    X = np.zeros(shape)
    assert_same_rows(as_rows(kind(X), 2.5), augment(X, 2.5))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", FLOATS)
def test_csr_is_not_copied_nor_changed(kind, index, dtype):
    X = csr(kind, index, dtype)
    before = [part.copy() for part in parts(X)]
    rows = as_rows(X, 1.0)
    assert np.shares_memory(rows.data, X.data)
    assert np.shares_memory(rows.indices, X.indices)
    assert (rows.data.dtype, rows.indptr.dtype) == (dtype, np.int64)
    assert rows.indices.dtype.itemsize == np.dtype(index).itemsize
    assert not any(part.flags.writeable for part in parts(rows))
    assert_unchanged(X, before)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dense_is_not_copied_nor_changed(dtype):
    X = ragged(dtype)
    rows = as_rows(X, 1.0)
    assert np.shares_memory(rows.data, X)
    assert not rows.data.flags.writeable
    assert X.flags.writeable


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_read_only_memory_map(layout, tmp_path):
    if layout == "dense":
        X = on_disk(ragged(), tmp_path / "X.npy")
        stored, writable = X, as_rows(ragged(), 1.0)
    else:
        arrays = [on_disk(part, tmp_path / f"{k}.npy") for k, part in enumerate(parts(csr()))]
        X = sp.csr_matrix(tuple(arrays), shape=ragged().shape, copy=False)
        stored, writable = arrays[0], as_rows(csr(), 1.0)
    rows = as_rows(X, 1.0)
    assert np.shares_memory(rows.data, stored)
    assert numba.typeof(rows) == numba.typeof(writable)  # no specialisation of its own
    assert_same_rows(rows, augment(ragged(), 1.0))


def test_unsorted_indices_are_not_copied():
    X = reversed_csr()
    rows = as_rows(X, 0.5)
    assert not X.has_sorted_indices
    assert np.shares_memory(rows.data, X.data)
    assert np.shares_memory(rows.indices, X.indices)
    assert_same_rows(rows, augment(ragged(), 0.5))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["sorted", "reversed"])
def test_duplicate_entries_are_summed_in_a_copy(kind, order):
    columns = np.array([1, 4, 4, 7])[order]
    X = kind((np.array([1.0, 2.0, 3.0, 5.0]), columns, [0, 0, 4]), shape=(2, N_FEATURES))
    before = [part.copy() for part in parts(X)]
    rows = as_rows(X, 0.0)
    assert rows.data.size == 3
    assert_same_rows(rows, augment(X.toarray(), 0.0))
    assert_unchanged(X, before)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("wrong", ["negative", "n_features", "largest"])
@pytest.mark.parametrize("position", [0, 20, -1])
def test_wrong_column_indices_raise(index, wrong, position):
    X = csr(index=index)
    values = {"negative": -1, "n_features": N_FEATURES, "largest": np.iinfo(index).max}
    X.indices[position] = values[wrong]
    with pytest.raises(ValueError, match=r"column index outside 0\.\.11"):
        as_rows(X, 1.0)


@pytest.mark.parametrize("row", [0, 7, 12, 19])  # of 20
@pytest.mark.parametrize("n_threads", [1, 3])
def test_indices_are_looked_at_in_parts(row, n_threads):
    n = PART_ENTRIES  # rows, so that there are three parts
    row = row * n // 20
    with Workers(n_threads) as workers:
        indptr = 3 * np.arange(n + 1)
        X = sp.csr_matrix((np.ones(3 * n), np.tile([0, 3, 5], n), indptr), shape=(n, 6))
        assert as_rows(X, 1.0, workers).data is not None
        X.indices[3 * row + 1] = 0  # twice in its row
        rows = as_rows(X, 1.0, workers)
        assert rows.data.size == 3 * n - 1
        np.testing.assert_array_equal(np.diff(rows.indptr), 3 - (np.arange(n) == row))
        start = int(rows.indptr[row])
        np.testing.assert_array_equal(rows.data[start : start + 2], [2.0, 1.0])
        np.testing.assert_array_equal(rows.indices[start : start + 2], [0, 5])
        X.indices[3 * row + 1] = 6
        with pytest.raises(ValueError, match=r"column index outside 0\.\.5"):
            as_rows(X, 1.0, workers)


def test_negative_indices_raise_however_many_columns_there_are():
    X = sp.csr_matrix((np.ones(1), np.array([7]), np.array([0, 1])), shape=(1, 1000))
    X.indices = np.array([-1])
    with pytest.raises(ValueError, match=r"column index outside 0\.\.999"):
        as_rows(X, 1.0)


def small_csr(indptr, n_indices=3, n_data=3):
    X = sp.csr_matrix((np.ones(3), [1, 0, 2], [0, 2, 3]), shape=(2, 3))
    X.indptr = np.array(indptr, dtype=np.int32)
    X.indices, X.data = X.indices[:n_indices], X.data[:n_data]
    return X


def test_a_wrong_column_index_before_right_ones_raises():
    X = small_csr([0, 2, 3])
    X.indices = np.array([3, 0, 2], dtype=np.int32)
    with pytest.raises(ValueError, match=r"column index outside 0\.\.2"):
        as_rows(X, 1.0)


@pytest.mark.parametrize("indptr", [[0, 3], [0, 2, 3, 3]])
def test_a_wrong_number_of_rows_raises(indptr):
    with pytest.raises(ValueError, match=r"2 rows, but X.indptr has \d entries"):
        as_rows(small_csr(indptr), 1.0)


@pytest.mark.parametrize(
    ("indptr", "sizes"),
    [
        *(([1, 2, 3], (3, 3)), ([-1, 2, 3], (3, 3)), ([0, 3, 2], (3, 3)), ([0, 2, 4], (3, 3))),
        *(([0, 2, 3], (2, 3)), ([0, 2, 3], (3, 2))),
    ],
)
def test_wrong_row_ends_raise(indptr, sizes):
    with pytest.raises(ValueError, match="does not ascend from 0 to at most"):
        as_rows(small_csr(indptr, *sizes), 1.0)


def test_entries_after_the_last_row_do_not_count():
    assert_same_rows(
        as_rows(small_csr([0, 2, 2]), 0.5), augment(np.array([[1, 1, 0], [0] * 3]), 0.5)
    )


def test_last_column_is_a_right_index():
    X = csr()
    X.indices[-1] = N_FEATURES - 1
    assert isinstance(as_rows(X, 1.0), CSRRows)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_outside_kernels_row_functions_are_python(layout):
    X = np.array([[0.0, 2.0, 3.0], [1.0, 0.0, -1.0]])
    rows, w = as_rows(layout(X), 1.0), np.array([1.0, 2.0, 3.0, 4.0])
    assert row_dot(rows, 0, w) == 2.0 * 2.0 + 3.0 * 3.0 + 4.0
    assert row_sqnorm(rows, 1) == 3.0
    row_axpy(rows, 1, 2.0, w)
    np.testing.assert_array_equal(w, [3.0, 2.0, 1.0, 6.0])


BROKEN = {
    "negative": ("indices", lambda a: np.where(np.arange(len(a)) == 1, -1, a)),
    "beyond": ("indices", lambda a: np.where(np.arange(len(a)) == 1, 12, a)),
    "far beyond": ("indices", lambda a: np.where(np.arange(len(a)) == 1, 2**31 - 1, a)),
    "too few indices": ("indices", lambda a: a[:-1]),
    "not integers": ("indices", lambda a: a.astype(np.float64)),
    "a table": ("indices", lambda a: a[:, None]),
    "too few pointers": ("indptr", lambda a: a[:-1]),
    "too many pointers": ("indptr", lambda a: np.append(a, a[-1])),
    "no pointers": ("indptr", lambda a: a[:0]),
    "descending": ("indptr", lambda a: np.where(np.arange(len(a)) == 1, a[-1] + 1, a)),
    "a negative pointer": ("indptr", lambda a: np.where(np.arange(len(a)) == 1, -5, a)),
    "not from 0": ("indptr", lambda a: np.where(np.arange(len(a)) == 0, 1, a)),
    "past the end": ("indptr", lambda a: np.where(np.arange(len(a)) == len(a) - 1, 10**6, a)),
    "too few values": ("data", lambda a: a[:-1]),
}


def broken(X, kind):
    """Return X with one of its arrays replaced, which SciPy does not look at."""
    name, change = BROKEN[kind]
    X = X.copy()
    array = change(getattr(X, name))
    setattr(X, name, array.astype(np.int32) if array.dtype.kind == "i" else array)
    return X


def square(layout="csr"):
    X = np.random.default_rng(0).normal(size=(12, 12))
    return sp.csr_array(np.where(np.abs(X) < 0.5, 0.0, X)).asformat(layout)


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
def test_broken_compressed_matrices_are_refused(layout, kind):
    X = square(layout) if layout != "bsr" else square("csr").tobsr((2, 2))
    with pytest.raises(ValueError, match=r"structure is corrupt. Rebuild X"):
        check_sparse(broken(X, kind))


@pytest.mark.parametrize("kind", BROKEN)
def test_what_products_refuse_training_refuses(kind):
    with pytest.raises(ValueError, match=r"structure is corrupt. Rebuild X"):
        as_rows(broken(square(), kind), 1.0)


@pytest.mark.parametrize("name", ["row", "col"])
@pytest.mark.parametrize("index", [-1, 12, 2**31 - 1])
def test_broken_triplets_are_refused(name, index):
    X = square("coo")
    getattr(X, name)[3] = index
    what = {"row": "row", "col": "column"}[name]
    with pytest.raises(ValueError, match=rf"X has a {what} index outside 0\.\.11: the COO"):
        check_sparse(X)


def test_a_matrix_that_holds_is_returned_as_it_is():
    matrices = [square(layout) for layout in ("csr", "csc", "coo", "lil", "dok", "dia")]
    empty = [sp.csr_array((0, 3)), sp.csr_array((3, 0)), sp.coo_array((3, 2))]
    for X in (*matrices, *empty, square().tobsr((3, 4)), np.ones((2, 2)), [[1.0]], None):
        assert check_sparse(X) is X


def test_an_index_where_there_are_no_columns_is_refused():
    X = sp.csr_array((2, 0))
    X.data, X.indices, X.indptr = np.ones(1), np.zeros(1, np.int32), np.array([0, 1, 1], np.int32)
    with pytest.raises(ValueError, match=r"column index outside 0\.\.-1"):
        check_sparse(X)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_indices_in_another_byte_order_mean_what_they_say(layout):
    X = square(layout)
    if layout == "coo":
        X.row, X.col = (places.astype(">i4") for places in (X.row, X.col))
    else:
        X.indices, X.indptr = X.indices.astype(">i4"), X.indptr.astype(">i4")
    converted = check_sparse(X)
    if layout != "coo":
        assert converted.indices.dtype.isnative
        assert converted.indptr.dtype.isnative
        assert not X.indices.dtype.isnative
        assert not X.indptr.dtype.isnative
    np.testing.assert_array_equal(converted.toarray(), square().toarray())
    if layout == "csr":
        assert_same_rows(as_rows(X, 0.5), augment(square().toarray(), 0.5))


def test_duplicates_in_another_byte_order_are_summed():
    X = sp.csr_array((np.array([1.0, 2.0, 3.0]), [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    X.indices, X.indptr = X.indices.astype(">i8"), X.indptr.astype(">i8")
    assert_same_rows(as_rows(X, 0.0), augment(np.array([[0.0, 3.0], [3.0, 0.0]]), 0.0))

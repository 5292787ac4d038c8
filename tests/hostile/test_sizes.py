"""Sizes: empty rows, long rows, many columns, many classes.

What needs gigabytes for real is mapped: pages that nobody touches take no memory.
"""

import mmap
import sys
import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from dualsweep import LinearSVC, LinearSVCCV, LinearSVR, _memory, svc_path
from dualsweep._jit import jit
from dualsweep._threads import Workers
from dualsweep.io import write_store
from dualsweep.placements import memory as data
from dualsweep.rows.functions import row_axpy, row_dot, row_sqnorm
from dualsweep.rows.layouts import CSRRows, as_rows
from dualsweep.rows.passes import Passes

FORMULATIONS = ["ovr", "crammer_singer", "weston_watkins"]
every_formulation = pytest.mark.parametrize("multi_class", FORMULATIONS)


def lazy(n, dtype):
    """An array of zeros, the pages of which are there when they are touched."""
    dtype = np.dtype(dtype)
    return np.frombuffer(mmap.mmap(-1, n * dtype.itemsize), dtype)


@every_formulation
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_million_empty_rows(multi_class, fit_intercept):
    """They count for the intercept and the objective, and cost next to nothing."""
    rng = np.random.default_rng(0)
    few, n = 30, 1_000_000
    X = sp.csr_array(rng.normal(size=(few, 4)))
    X = sp.csr_array(
        (X.data, X.indices, np.append(X.indptr, np.full(n - few, X.indptr[-1]))), shape=(n, 4)
    )
    y = np.zeros(n, dtype=np.int64)
    y[:few] = np.arange(few) % 3
    model = LinearSVC(
        loss="hinge", multi_class=multi_class, fit_intercept=fit_intercept, random_state=0, C=0.1
    )
    model.fit(X, y)
    assert model.converged_
    weight = np.append(np.ones(few), n - few)
    merged = LinearSVC(
        loss="hinge", multi_class=multi_class, fit_intercept=fit_intercept, random_state=0, C=0.1
    )
    merged.fit(np.vstack([X[:few].toarray(), np.zeros((1, 4))]), np.append(y[:few], 0), weight)
    low, high = merged.dual_objective_, merged.primal_objective_
    assert low * (1 - 1e-9) <= model.primal_objective_
    assert model.dual_objective_ <= high * (1 + 1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_one_row_of_ten_million_entries(loss):
    n = 10_000_000
    x = np.full(n, 1e-3, np.float32)
    x[1::2] = -1e-3
    X = sp.csr_array(
        (
            np.concatenate([x, [1.0]]).astype(np.float32),
            np.append(np.arange(n, dtype=np.int32), np.int32(7)),
            np.array([0, n, n + 1]),
        ),
        shape=(2, n),
    )
    model = LinearSVC(loss=loss, tol=1e-6, random_state=0, fit_intercept=False).fit(X, [0, 1])
    assert model.converged_
    # w = -a x + b e_7: a problem of two dual variables, solved in closed form.
    Q = np.array([[float(x.astype(float) @ x.astype(float)), -float(x[7])], [-float(x[7]), 1.0]])
    Q += np.eye(2) * (0.5 if loss == "squared_hinge" else 0.0)
    alpha = np.linalg.solve(Q, np.ones(2))
    assert (alpha > 0).all()
    assert loss == "squared_hinge" or (alpha < 1).all()
    np.testing.assert_allclose(model.dual_objective_, alpha.sum() / 2, rtol=2e-6)


# The dual variables of Weston-Watkins are dense: 10,000 classes of two rows each take 1.6 GB.
@pytest.mark.parametrize(
    ("multi_class", "k"), [("crammer_singer", 10_000), ("weston_watkins", 2000)]
)
def test_thousands_of_classes_at_once(multi_class, k):
    """Certificates recomputed in NumPy, a part of the rows at a time."""
    X = sp.random_array((2 * k, 20), density=0.2, format="csr", rng=np.random.default_rng(0))
    y = np.arange(2 * k) % k
    with pytest.warns(ConvergenceWarning, match="after 2 epochs"):
        model = LinearSVC(multi_class=multi_class, random_state=0, max_iter=2).fit(X, y)
    assert model.coef_.shape == (k, 20)
    losses = 0.0
    for start in range(0, 2 * k, 1000):
        own = y[start : start + 1000]
        t = X[start : start + 1000] @ model.coef_.T + model.intercept_
        t += 1 - t[np.arange(1000), own][:, None]
        t[np.arange(1000), own] = 0.0
        t = np.maximum(t, 0.0)
        losses += (t.max(axis=1) if multi_class == "crammer_singer" else t.sum(axis=1)).sum()
    size = ((model.coef_**2).sum() + (model.intercept_**2).sum()) / 2
    assert model.primal_objective_ == pytest.approx(size + losses, rel=1e-10)
    positive = model.dual_coef_.data[model.dual_coef_.data > 0]  # of a row's own class: their sum
    dual = positive.sum() - size
    assert model.dual_objective_ == pytest.approx(dual, abs=1e-10 * model.primal_objective_)
    np.testing.assert_allclose(model.coef_, (model.dual_coef_ @ X).toarray(), atol=1e-9)


def test_thousands_of_binary_problems():
    k = 2000
    X = sp.random_array((2 * k, 20), density=0.2, format="csr", rng=np.random.default_rng(0))
    y = np.arange(2 * k) % k
    model = LinearSVC(random_state=0, solver="sweep", tol=1e-2, n_jobs=2).fit(X, y)
    assert model.converged_
    assert model.history_["problem"].max() == k - 1
    sign = np.where(y[:, None] == np.arange(k), 1.0, -1.0)
    scores = X @ model.coef_.T + model.intercept_
    primal = (model.coef_**2).sum() + (model.intercept_**2).sum()
    primal = primal / 2 + (np.maximum(1 - sign * scores, 0) ** 2).sum()
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-10)


@jit
def _visit(rows, i, w, step):
    before = row_dot(rows, i, w)
    row_axpy(rows, i, step, w)
    return before, row_dot(rows, i, w), row_sqnorm(rows, i)


@pytest.mark.skipif(sys.maxsize < 2**40, reason="needs 64 bits")
def test_more_entries_than_32_bits_count():
    """Rows that start beyond 2^31 entries: 2^32 bytes of each array, most of them never touched."""
    n = 2**31 + 1000
    data, indices = lazy(n, np.float32), lazy(n, np.uint32)
    data[-3:] = [1.0, 2.0, 3.0]
    indices[-3:] = [1, 3, 4]
    indptr = np.array([0, n - 3, n - 3, n], dtype=np.int64)
    rows = CSRRows(data, indices, indptr, 5, 0.5)
    w = np.arange(6.0)
    before, after, norm = _visit(rows, 2, w, 0.1)
    assert before == pytest.approx(1 * 1 + 2 * 3 + 3 * 4 + 0.5 * 5)
    assert norm == pytest.approx(1 + 4 + 9 + 0.25)
    assert after == pytest.approx(before + 0.1 * norm)
    np.testing.assert_allclose(w, [0, 1.1, 2, 3.2, 4.3, 5.05])


def test_more_columns_than_32_bits_count():
    """Column indices of 64 bits, and weights of 16 GB of which a few pages are touched."""
    d = 2**31 + 7
    X = sp.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([5, d - 1, d - 2], np.int64), np.array([0, 2, 3])),
        shape=(2, d),
    )
    rows = as_rows(X, 1.0)
    np.testing.assert_array_equal(Passes(rows, Workers()).sqnorms(), [1 + 4 + 1, 9 + 1])
    w = lazy(d + 1, np.float64)
    before, after, norm = _visit(rows, 0, w, 0.5)
    assert (before, after, norm) == (0.0, 3.0, 6.0)
    assert (w[5], w[d - 1], w[d - 2], w[d]) == (0.5, 1.0, 0.0, 0.5)
    X.indices[1] = d
    with pytest.raises(ValueError, match=f"outside 0..{d - 1}"):
        as_rows(X, 1.0)
    X.indices[1] = -(2**40)
    with pytest.raises(ValueError, match=f"outside 0..{d - 1}"):
        as_rows(X, 1.0)


def test_weights_that_memory_cannot_hold_are_a_memory_error():
    """Not a crash: 2^45 columns are 256 TB of weights."""
    X = sp.csr_array(
        (np.ones(2), np.array([5, 2**45 - 1], np.int64), np.array([0, 1, 2])), shape=(2, 2**45)
    )
    for model in (LinearSVC(), LinearSVR()):
        with pytest.raises(MemoryError, match="Hash the features to fewer"):
            model.fit(X, [0, 1])
        assert not hasattr(model, "coef_")


def wide(d, k):
    """Two entries a row, of 2 k rows of k classes and d features; not in order, to be looked at."""
    columns = np.column_stack([d - 1 - np.arange(2 * k), np.arange(2 * k)]).ravel()
    indptr = np.arange(0, 4 * k + 1, 2)
    return sp.csr_array((np.ones(4 * k), columns, indptr), shape=(2 * k, d)), np.arange(2 * k) % k


@pytest.mark.parametrize(("k", "least"), [(2, 16), (3, 48)])
def test_weights_are_refused_before_anything_of_their_size_is_there(monkeypatch, k, least):
    """Two vectors of each row of weights, of 8 bytes a feature."""
    d = 2_000_000
    X, y = wide(d, k)
    needed = least * (d + 1)
    models = LinearSVC, partial(LinearSVCCV, cv=2)
    asks = [lambda make=make: make(random_state=0).fit(X, y) for make in models]
    asks += [lambda: svc_path(X, y, Cs=[1.0])]
    monkeypatch.setattr(data, "available_bytes", lambda: needed - 1)
    for ask in asks:
        tracemalloc.start()
        try:
            with pytest.raises(MemoryError, match=r"X has 2,000,000 features.* GiB of memory"):
                ask()
            assert tracemalloc.get_traced_memory()[1] < 4 * d
        finally:
            tracemalloc.stop()
    monkeypatch.setattr(data, "available_bytes", lambda: needed)
    assert LinearSVC(random_state=0).fit(X, y).converged_


def test_what_needs_little_memory_is_not_asked_about(monkeypatch):
    monkeypatch.setattr(data, "available_bytes", lambda: 0)
    X, y = wide(1000, 2)
    assert LinearSVC(random_state=0).fit(X, y).converged_


def test_a_store_in_memory_leaves_room_for_the_weights(tmp_path):
    """They count for `memory_limit`, be the rows ever so few."""
    d = 2_000_000
    store = write_store(tmp_path / "store", *wide(d, 2))
    with pytest.raises(ValueError, match=r"memory limit of 1,000,000 bytes leaves 0 for blocks"):
        LinearSVC(memory_limit=1_000_000).fit(store)
    assert LinearSVC(memory_limit=40_000_000, random_state=0).fit(store).converged_


def test_limits_of_containers_count(monkeypatch, tmp_path):
    groups, membership, meminfo = tmp_path / "groups", tmp_path / "cgroup", tmp_path / "meminfo"
    monkeypatch.setattr(_memory, "GROUPS", groups)
    monkeypatch.setattr(_memory, "MEMBERSHIP", membership)
    monkeypatch.setattr(_memory, "MEMINFO", meminfo)
    physical = _memory.available_bytes()  # nothing is there to tell
    assert physical > 0
    meminfo.write_text("MemTotal: 4096 kB\nMemAvailable:   1024 kB\n")
    assert _memory.available_bytes() == 2**20
    (groups / "outer" / "inner").mkdir(parents=True)
    (groups / "memory.max").write_text("max\n")
    assert _memory.available_bytes() == 2**20
    (groups / "outer" / "memory.max").write_text("4096\n")
    assert _memory.available_bytes() == 2**20
    membership.write_text("0::/outer/inner\n")  # of a group the limit holds inside
    assert _memory.available_bytes() == 4096
    membership.write_text("4:memory:/old\n")
    (groups / "memory" / "old").mkdir(parents=True)
    (groups / "memory" / "old" / "memory.limit_in_bytes").write_text("8192\n")
    assert _memory.available_bytes() == 8192
    membership.write_text("nonsense")
    assert _memory.available_bytes() == 2**20

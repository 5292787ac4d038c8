"""Passes over the rows against NumPy; parts, chunks and threads change nothing but rounding."""

import weakref

import naive
import numpy as np
import pytest
import scipy.sparse as sp

from dualsweep._threads import Workers
from dualsweep.rows.layouts import as_rows
from dualsweep.rows.passes import PARTS, SMALL_SUMS, Passes, passes_over

N_ROWS, N_FEATURES, BIAS = 61, 6, 1.5
MEMBERS = np.random.default_rng(1).permutation(N_ROWS)[:47]
rng = np.random.default_rng(0)
V = {"binary": rng.normal(size=N_FEATURES + 1), "many": rng.normal(size=(N_FEATURES + 1, 4))}
COEF = {"binary": rng.normal(size=47), "many": rng.normal(size=(47, 4))}
COEF["many"][rng.random((47, 4)) < 0.5] = 0.0
for coef in COEF.values():  # numbers that stand for themselves
    coef[:2], coef[2:4] = 1.0, -1.0
every_shape = pytest.mark.parametrize("shape", V)


@pytest.fixture(params=["dense", "csr", "dense float32", "csr float32"])
def data(request):
    """X in some layout, and the rows of the members as they count, with the bias."""
    X, _ = naive.random_data(N_ROWS, N_FEATURES)
    if "float32" in request.param:
        X = X.astype(np.float32)
    return (X if "dense" in request.param else sp.csr_array(X)), naive.augment(X, BIAS)[MEMBERS]


def rounding(X):
    """Of a Gram matrix: that of dense rows is summed in the precision of X."""
    return 1e-11 if X.dtype == np.float64 or sp.issparse(X) else 1e-4


@pytest.fixture(params=["whole", "in parts"])
def cuts(request, tuned):
    """As many parts and chunks as there can be, or one."""
    if request.param == "in parts":
        tuned(PART_ROWS=1, GRAM_ROWS=3, LEAST_GRAM_ROWS=2, MOST_GRAM_ROWS=3)
        tuned(CHUNK=20, CHUNK_ENTRIES=30, PAIRS_PER_CALL=200, ENTRIES_PER_WEIGHT=1)


def in_threads(X, compute):
    """What passes compute, the same for any number of threads."""
    found = []
    for n_threads in (1, 2, 4):
        with Workers(n_threads) as workers:
            found.append(compute(passes_over(as_rows(X, BIAS), workers)))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    return found[0]


def test_squared_norms(data, cuts):
    X, _ = data
    expected = (naive.augment(X, BIAS) ** 2).sum(axis=1)
    np.testing.assert_allclose(in_threads(X, Passes.sqnorms), expected, rtol=1e-13)


@every_shape
def test_responses(data, cuts, shape):
    X, Z = data
    found = in_threads(X, lambda passes: passes.responses(MEMBERS, V[shape]))
    np.testing.assert_allclose(found, Z @ V[shape], atol=1e-12)


@every_shape
def test_a_scan_sees_all_responses_in_order(data, cuts, shape):
    X, Z = data
    expected = Z @ V[shape]
    seen = np.full(len(MEMBERS), np.nan)

    def look(some, scores, totals):
        np.testing.assert_allclose(scores, expected[some], atol=1e-12)
        seen[some] = scores.reshape(len(scores), -1).sum(axis=1)
        totals += [len(scores), scores.sum()]
        scores[:] = np.nan  # it is ours to change

    totals = in_threads(X, lambda passes: passes.scan(MEMBERS, V[shape], look, 2))
    np.testing.assert_allclose(totals, [47, expected.sum()], atol=1e-11)
    np.testing.assert_allclose(seen, expected.reshape(47, -1).sum(axis=1), atol=1e-11)


@every_shape
def test_a_weighted_sum_is_added(data, cuts, shape):
    X, Z = data
    coef = COEF[shape]

    def compute(passes):
        out = np.ones(V[shape].shape)
        passes.add_weighted(MEMBERS, coef.__getitem__, out)
        return out

    np.testing.assert_allclose(in_threads(X, compute), 1 + Z.T @ coef, atol=1e-12)


@every_shape
def test_a_product_is_added(data, cuts, shape):
    X, Z = data
    scale = COEF[shape]

    def compute(passes):
        out = np.ones(V[shape].shape)
        passes.add_product(MEMBERS, V[shape], lambda some, scores: scale[some] * scores, out)
        return out

    expected = 1 + Z.T @ (scale * (Z @ V[shape]))
    np.testing.assert_allclose(in_threads(X, compute), expected, atol=1e-11)


def test_a_gram_matrix(data, cuts):
    X, Z = data
    scale = COEF["binary"]  # some rows are taken away

    def compute(passes):
        out = np.ones((7, 7))
        assert passes.add_gram(MEMBERS, scale, out, lambda: False)
        return np.tril(out)

    expected = np.tril(1 + Z.T @ np.diag(scale) @ Z)
    np.testing.assert_allclose(in_threads(X, compute), expected, atol=rounding(X))


def test_a_gram_matrix_of_many_classes(data, cuts):
    """``sum_i (x_i x_i') (x) M_i`` by `np.kron`, M_i symmetric on some of the classes."""
    X, Z = data
    generator = np.random.default_rng(2)
    counts = generator.integers(0, 4, 47)
    classes = np.array([generator.permutation(4) for _ in range(47)])
    M = generator.normal(size=(47, 4, 4))
    M += M.transpose(0, 2, 1)
    expected = np.zeros((7 * 4, 7 * 4))
    for t, z in enumerate(Z):
        few = classes[t, : counts[t]]
        whole = np.zeros((4, 4))
        whole[np.ix_(few, few)] = M[t, : counts[t], : counts[t]]
        expected += np.kron(np.outer(z, z), whole)

    def factors(some):
        return counts[some], classes[some], M[some]

    found = in_threads(X, lambda passes: passes.gram_many(MEMBERS, factors, 4, lambda: False))
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_matrices_end_when_told_to(data, cuts):
    X, _ = data
    with Workers() as workers:
        passes = passes_over(as_rows(X, BIAS), workers)
    calls = []

    def stop():
        calls.append("stop")
        return True

    def factors(some):
        calls.append("factors")
        return np.zeros(47, np.int64), np.zeros((47, 4), np.int64), np.zeros((47, 4, 4))

    assert not passes.add_gram(MEMBERS, np.ones(47), np.zeros((7, 7)), stop)
    assert len(calls) <= PARTS + 1  # each part ends at once
    assert passes.gram_many(MEMBERS, factors, 4, stop) is None
    assert calls.count("factors") <= PARTS


@pytest.mark.parametrize(("pairs", "of_gram", "of_many"), [(500, 10, 3), (100, 2, 2)])
def test_chunks_are_as_long_as_they_may_be(tuned, pairs, of_gram, of_many):
    """Rows of 7 entries: no more than 12 responses, 60 entries, and so many products at a time."""
    tuned(CHUNK=12, CHUNK_ENTRIES=60, PAIRS_PER_CALL=pairs)
    X = sp.csr_array(np.ones((N_ROWS, N_FEATURES)))
    passes = Passes(as_rows(X, BIAS), Workers())
    lengths = []

    def see(some, *_):
        lengths.append(some.stop - some.start)

    def assert_lengths(longest):
        assert lengths == [longest] * (47 // longest) + [47 % longest] * (47 % longest > 0)
        lengths.clear()

    for shape, responses, product in (("binary", 12, 8), ("many", 3, 3)):
        out = np.zeros(V[shape].shape)
        passes.scan(MEMBERS, V[shape], see, 1)
        assert_lengths(responses)
        passes.add_weighted(MEMBERS, lambda some, c=COEF[shape]: see(some) or c[some], out)
        assert_lengths(responses)
        passes.add_product(MEMBERS, V[shape], lambda some, scores: see(some) or scores, out)
        assert_lengths(product)
    passes.add_gram(MEMBERS, np.ones(47), np.zeros((7, 7)), lambda: lengths.append(0) or False)
    assert len(lengths) == -(-47 // of_gram) + 1
    lengths.clear()
    empty = np.zeros(47, np.int64), np.zeros((47, 2), np.int64), np.zeros((47, 2, 2))
    passes.gram_many(MEMBERS, lambda some: see(some) or empty, 2, lambda: False)
    assert_lengths(of_many)


@pytest.mark.parametrize(
    ("shape", "entries_per_weight", "expected"),
    [("binary", 12, [11, 12, 12, 12]), ("many", 4, [15, 16, 16]), ("many", 12, [47])],
)
def test_sums_have_as_many_parts_as_pay(tuned, shape, entries_per_weight, expected):
    """All rows have 366 entries, for 7 weights or for 28."""
    tuned(PART_ROWS=10, ENTRIES_PER_WEIGHT=entries_per_weight)
    passes = Passes(as_rows(naive.random_data(N_ROWS, N_FEATURES)[0], BIAS), Workers())
    lengths = []

    def coef(some):
        lengths.append(some.stop - some.start)
        return COEF[shape][some]

    passes.add_weighted(MEMBERS, coef, np.zeros(V[shape].shape))
    assert lengths == expected


@pytest.mark.parametrize(
    ("n_rows", "n_features", "expected"),
    [(25_000, 1, 2), (25_000, 400, 10), (1000, 400, 1), (400_000, 1, 16)],
)
def test_parts_are_of_enough_rows_or_entries(n_rows, n_features, expected):
    """10,000 rows or 1,000,000 entries, the bias included, and no more than 16 parts."""
    passes = naive.passes_of(np.zeros((n_rows, n_features)))
    parts = passes.each(lambda part: part, n_rows)
    assert len(parts) == expected
    assert np.array_equal(np.concatenate([np.r_[part] for part in parts]), np.arange(n_rows))
    assert len(passes.each(lambda part: part, n_rows, 5000)) == min(max(n_rows // 5000, 1), 16)


def test_a_sum_adds_in_order_and_keeps_no_more_than_it_must():
    """Parts that are done early wait for those before them; nobody waits for those after."""
    passes = naive.passes_of(np.zeros((16, 1)))
    alive, out = [], np.zeros((2, SMALL_SUMS // 16))

    def add(part, own):
        own[0], own[1] = part.start, 1.0
        alive.append(weakref.ref(own))
        assert sum(ref() is not None for ref in alive) <= 2  # the sum, and this one

    passes.add_parts(add, passes.parts(16, 1), out)
    np.testing.assert_array_equal(out.T, [[sum(range(16)), 16.0]] * (SMALL_SUMS // 16))
    assert len(alive) == 16


def test_no_rows_at_all():
    passes = naive.passes_of(np.empty((0, N_FEATURES)), BIAS)
    assert passes.sqnorms().shape == (0,)
    assert passes.responses(MEMBERS[:0], V["many"]).shape == (0, 4)


def test_nobody_is_nothing(data, cuts):
    X, _ = data
    nobody = MEMBERS[:0]

    def compute(passes):
        out = np.full(7, 2.0)
        passes.add_weighted(nobody, np.empty(0).__getitem__, out)
        assert passes.responses(nobody, out).shape == (0,)
        gram = np.zeros((7, 7))
        assert passes.add_gram(nobody, np.empty(0), gram, lambda: False)
        np.testing.assert_array_equal(gram, 0.0)
        return out

    np.testing.assert_array_equal(in_threads(X, compute), 2.0)

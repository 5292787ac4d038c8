"""Svmlight text gives the floats that Python gives, or an error with line and column."""

import bz2
import gzip
import importlib
import lzma
import os
import re
import threading
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from naive import nearest_float, parse_svmlight
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from dualsweep.io import load_data, load_svmlight
from dualsweep.io.svmlight.kernel import (
    EXPONENTS,
    FIVES,
    MAX_POWER,
    MIN_POWER,
    float_bits,
)
from dualsweep.io.svmlight.loading import DEFERRED

FLOATS = (np.float64, np.float32)
TINY = Decimal("1e-60")

# Everything the format has: comments, blank lines, qid, CRLF, tabs, rows without entries.
TEXT = (
    b"# by hand\r\n"
    b"+1 1:0.5 3:2 12:-1e-3 # a comment with 7:7, or two\r\n"
    b"\n"
    b"  \t \r\n"
    b"-1\tqid:3 2:-1.25\t10:1\n"
    b"3#nothing here\n"
    b" 2.5 4:.5 5:5. 6:+1E+2 7:-0 8:0\x0b9:1\x0c\n"
    b"-1 qid:4\n"
    b"1e0 11:12345678901234567890 13:0.1000000000000000055511151231257827"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.svm"


def load(path, content, **options):
    path.write_bytes(content)
    return load_svmlight(path, **options)


def assert_same(left, right):
    """The same bits: NaN is NaN, and -0 is not 0."""
    (X, y), (X_right, y_right) = left, right
    assert X.shape == X_right.shape
    assert X.dtype == X_right.dtype
    assert X.data.tobytes() == X_right.data.tobytes()
    np.testing.assert_array_equal(X.indices, X_right.indices)
    np.testing.assert_array_equal(X.indptr, X_right.indptr)
    if isinstance(y, list):
        assert y == y_right
    else:
        assert y.tobytes() == y_right.tobytes()


# ------------------------------------------------------------------------------------- numbers


def test_powers_of_five_are_truncated_to_64_bits():
    for q, top, exponent in zip(
        range(MIN_POWER, MAX_POWER + 1), FIVES.tolist(), EXPONENTS.tolist(), strict=True
    ):
        power = Fraction(10) ** q / Fraction(2) ** exponent
        assert 2**63 <= top <= power < top + 1
        assert top < 2**64
        assert (power == top) == (0 <= q <= 27)


@settings(deadline=None, max_examples=2000)
@given(w=st.integers(0, 2**64 - 1), q=st.integers(-345, 310))
@example(w=2**53 + 1, q=0)
@example(w=2**54 - 1, q=0)
@example(w=2**64 - 1, q=0)
@example(w=5, q=-324)
def test_bits_that_are_sure_are_right(w, q):
    bits, sure = float_bits(np.uint64(w), q, 52)
    if sure:
        assert np.uint64(bits).view(np.float64) == float(f"{w}e{q}")


def test_few_numbers_are_unsure():
    rng = np.random.default_rng(0)
    w = rng.integers(10**15, 10**16, 20_000)
    unsure = [not float_bits(np.uint64(v), -16, 52)[1] for v in w]
    assert np.mean(unsure) < 2e-3
    assert all(float_bits(np.uint64(v), -16, 23)[1] for v in w)


def middles(dtype):
    """Decimal numbers in, or just beside, the middle between two floats."""

    def near_middle(low, beside):
        high = np.nextafter(dtype(low), dtype(np.inf))
        with localcontext(prec=3000):
            return str((Decimal(float(low)) + Decimal(float(high))) / 2 * (1 + beside))

    largest = float(np.nextafter(np.finfo(dtype).max, dtype(0)))
    floats = st.floats(-largest, largest, width=8 * np.dtype(dtype).itemsize)
    return st.builds(near_middle, floats, st.sampled_from([Decimal(0), TINY, -TINY]))


def decimals():
    """Text of everything that is a decimal number."""
    digits = st.text("0123456789", max_size=30)
    exponent = st.one_of(st.just(""), st.integers(-400, 400).map("e{}".format))
    parts = st.tuples(st.sampled_from(["", "+", "-"]), digits, st.sampled_from(["", "."]), digits)
    return st.builds(lambda p, e: "".join(p) + e, parts, exponent).filter(
        lambda token: any(c.isdigit() for c in token.partition("e")[0])
    )


def numbers(dtype):
    written = st.floats(allow_nan=False).map(repr) | st.floats(width=32, allow_nan=False).map(repr)
    short = st.integers(-(10**9), 10**9).flatmap(
        lambda n: st.integers(0, 12).map(lambda d: str(Decimal(n).scaleb(-d)))
    )
    return st.one_of(decimals(), written, short, middles(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_are_the_nearest_floats(tmp_path_factory, dtype):
    path = tmp_path_factory.mktemp("numbers") / "data.svm"

    @settings(deadline=None, max_examples=300)
    @given(tokens=st.lists(numbers(dtype), min_size=1, max_size=20))
    @example(
        tokens=["16777217", "16777217.0", "8388608.5", "1e23", "9007199254740993", "-0", "-0.0"]
    )
    @example(
        tokens=[
            "3.4028235677973366e38",
            "340282356779733661637539395458142568447",
            "1e39",
            "1e999",
            "1e-999",
        ]
    )
    @example(
        tokens=["1.401298464324817e-45", "7.006492321624085e-46", "1e-320", "2.5e-324", "1e-40"]
    )
    @example(tokens=["0." + "0" * 400 + "1e400", "1" + "0" * 400 + "e-400", "1e-00000000000000005"])
    def check(tokens):
        entries = " ".join(f"{j}:{token}" for j, token in enumerate(tokens))
        label = tokens[0] if abs(float(tokens[0])) < 2**53 else "1"
        X, y = load(path, f"{label} {entries}\n".encode(), dtype=dtype, zero_based=True)
        expected = np.array([nearest_float(token, dtype) for token in tokens])
        assert X.data.tobytes() == expected.tobytes()
        assert y.tobytes() == np.array([float(label)]).tobytes()

    check()


def test_scikit_learn_rounds_float32_twice(path):
    token = "1.00000005960464477539062500000001"  # just above the middle of 1 and the next float32
    X, _ = load(path, f"1 1:{token}\n".encode(), dtype=np.float32)
    assert X.data[0] == np.nextafter(np.float32(1), np.float32(2))
    assert load_svmlight_file(str(path), dtype=np.float32)[0].data[0] == np.float32(1)


def test_words_that_float_takes(path):
    words = ["nan", "NaN", "-nan", "inf", "-Infinity", "+INF"]
    X, y = load(path, b"nan " + " ".join(f"{j}:{w}" for j, w in enumerate(words)).encode())
    assert np.isnan(y[0])
    np.testing.assert_array_equal(X.data, [float(word) for word in words])


def test_more_hard_numbers_than_expected(path):
    tokens = [f"0.{j:030d}" for j in range(1, DEFERRED + 50)]
    X, _ = load(path, b"1 " + " ".join(f"{j}:{t}" for j, t in enumerate(tokens)).encode())
    np.testing.assert_array_equal(X.data, [float(token) for token in tokens])


# ---------------------------------------------------------------------------------------- rows


def assert_as_naive(result, content, dtype=np.float64, one_based=False, multilabel=False):
    """Compare with the naive parser; columns count from 1 if `one_based`."""
    rows = parse_svmlight(content, one_based=one_based, multilabel=multilabel)
    X, y = result
    entries = [entry for _, row in rows for entry in row]
    np.testing.assert_array_equal(X.indices, [index - one_based for index, _ in entries])
    expected = np.array([nearest_float(value, dtype) for _, value in entries], dtype)
    assert X.data.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(X.indptr, np.cumsum([0, *(len(row) for _, row in rows)]))
    labels = [tuple(sorted(labels)) if multilabel else labels[0] for labels, _ in rows]
    np.testing.assert_array_equal(y, labels) if not multilabel else np.testing.assert_equal(
        y, labels
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_everything_the_format_has(path, dtype):
    X, y = load(path, TEXT, dtype=dtype)
    assert_as_naive((X, y), TEXT, dtype, one_based=True)
    assert X.shape == (6, 13)
    assert (X.dtype, X.indices.dtype, y.dtype) == (dtype, np.int32, np.float64)
    assert y.tolist() == [1, -1, 3, 2.5, -1, 1]
    assert X.has_canonical_format


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("dtype", FLOATS)
def test_bitwise_what_scikit_learn_reads(path, dtype, zero_based):
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 5000), density=0.01, format="csr", random_state=rng)
    X.data = rng.standard_normal(X.nnz) * 10.0 ** rng.integers(-30, 30, X.nnz)
    X = X.astype(dtype)
    y = rng.choice([-1.0, 1.0, 0.1, 7e20], 300)
    dump_svmlight_file(X, y, str(path), zero_based=zero_based, comment="two\nlines")
    expected = load_svmlight_file(str(path), dtype=dtype, zero_based=zero_based)
    assert_same(load_svmlight(path, dtype=dtype, zero_based=zero_based), expected)
    assert_same(load_svmlight(path, dtype=dtype), load_svmlight_file(str(path), dtype=dtype))


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_chunks_and_threads_change_nothing(path, tuned, chunk, n_jobs):
    content = TEXT * 3 + b"\n" + TEXT
    whole = load(path, content)
    tuned(TEXT_CHUNK=chunk)
    assert_same(load_svmlight(path, n_jobs=n_jobs), whole)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# nothing", b" \t\r\n"])
def test_no_rows(path, content):
    X, y = load(path, content)
    assert (X.shape, y.shape) == ((0, 0), (0,))


def test_rows_without_entries(path):
    X, y = load(path, b"1\n-1 \n1 # 1:1")
    assert (X.shape, y.tolist()) == ((3, 0), [1, -1, 1])


def test_the_first_column(path):
    zero, one = b"1 0:1 4:1\n", b"1 1:1 4:1\n"
    assert load(path, zero)[0].indices.tolist() == [0, 4]
    assert load(path, one)[0].indices.tolist() == [0, 3]
    assert load(path, one + zero)[0].indices.tolist() == [1, 4, 0, 4]
    assert load(path, one, zero_based=True)[0].indices.tolist() == [1, 4]
    X, _ = load(path, one, zero_based=False)
    assert (X.indices.tolist(), X.shape) == ([0, 3], (1, 4))


def test_the_number_of_columns(path):
    assert load(path, b"1 3:1\n")[0].shape == (1, 3)
    assert load(path, b"1 3:1\n", n_features=9)[0].shape == (1, 9)
    with pytest.raises(ValueError, match=r"data\.svm has 3 features, but n_features is 2"):
        load(path, b"1 3:1\n", n_features=2)


@pytest.mark.parametrize("index", [2**31 - 1, 2**31, 2**31 + 1, 2**32, 10**18 - 1])
def test_indices_beyond_int32(path, index):
    X, _ = load(path, f"1 5:1 {index}:2\n-1 7:3\n".encode(), zero_based=True)
    assert X.indices.tolist() == [5, index, 7]
    assert X.shape == (2, index + 1)
    assert X.data.tolist() == [1, 2, 3]
    X, _ = load(path, f"1 5:1 {index}:2\n-1 7:3\n".encode())
    assert X.indices.tolist() == [4, index - 1, 6]


def test_a_wide_index_in_some_chunk(path, tuned):
    tuned(TEXT_CHUNK=8)
    X, _ = load(path, b"1 1:1\n1 2:1\n1 3000000000:2\n1 3:1\n", n_jobs=2)
    assert X.indices.tolist() == [0, 1, 2999999999, 2]


MULTILABEL = b"3,1,2 1:1 2:2\n\n1:5\n7\nqid:3 4:1\n-0.5,1e2 qid:1 2:.1 # 1,2\n"


def test_several_labels(path, tuned):
    X, y = load(path, MULTILABEL, multilabel=True)
    assert y == [(1.0, 2.0, 3.0), (), (7.0,), (), (-0.5, 100.0)]
    assert_as_naive((X, y), MULTILABEL, one_based=True, multilabel=True)
    assert_same((X, y), load_svmlight_file(str(path), multilabel=True))
    tuned(TEXT_CHUNK=5)
    assert_same(load_svmlight(path, multilabel=True, n_jobs=2), (X, y))


# --------------------------------------------------------------------------------- compression


@pytest.fixture(params=["gzip", "bzip2", "xz", "Zstandard"])
def compress(request):
    if request.param == "Zstandard":
        try:
            return importlib.import_module("compression.zstd").compress
        except ImportError:
            return pytest.importorskip("backports.zstd").compress
    return {"gzip": gzip, "bzip2": bz2, "xz": lzma}[request.param].compress


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_compressed_text(path, tuned, compress, n_jobs):
    content = TEXT * 50
    whole = load(path, content)
    tuned(TEXT_CHUNK=1000)
    assert_same(load(path, compress(content), n_jobs=n_jobs), whole)
    both = compress(content[:777]) + compress(content[777:])
    assert_same(load(path, both, n_jobs=n_jobs), whole)


def test_compressed_text_that_is_cut_short_or_damaged(path, compress):
    rng = np.random.default_rng(0)
    lines = [f"{i % 2} {i + 1}:{x!r}" for i, x in enumerate(rng.random(20_000).tolist())]
    content = compress("\n".join(lines).encode())
    for keep in (20, len(content) // 2, len(content) - 1):
        with pytest.raises(ValueError, match=r"data\.svm is damaged or cut short"):
            load(path, content[:keep])
    middle = len(content) // 2
    damaged = content[:middle] + bytes(b ^ 0x55 for b in content[middle : middle + 50])
    with pytest.raises(ValueError, match=r"data\.svm"):
        load(path, damaged + content[middle + 50 :])


def test_zstandard_is_not_there(path, monkeypatch):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr("dualsweep.io.svmlight.loading.import_module", fail)
    with pytest.raises(ImportError, match=r'pip install "dualsweep\[zst\]"'):
        load(path, b"\x28\xb5\x2f\xfd")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
@pytest.mark.parametrize("load_pipe", [load_svmlight, load_data])
def test_pipes(path, load_pipe):
    os.mkfifo(path)
    content = b"+1 1:0.5 3:2\n" * 50_000 + b"-1 2:1"
    writer = threading.Thread(target=path.write_bytes, args=[gzip.compress(content)])
    writer.start()
    X, y = load_pipe(path)
    writer.join()
    assert (X.shape, X.nnz, y[-1]) == ((50_001, 3), 100_001, -1)


def test_rows_that_grow_along_the_file(path, tuned):
    tuned(TEXT_CHUNK=100)
    lines = [f"{i} " + " ".join(f"{j}:{j}" for j in range(1, i)) for i in range(200)]
    content = "\n".join([*lines, *reversed(lines)]).encode()
    assert_as_naive(load(path, content), content, one_based=True)


def test_watching(path, tuned):
    tuned(TEXT_CHUNK=10)
    seen = []
    load(path, TEXT, watch=seen.append)
    assert seen == sorted(seen)
    assert len(seen) > 5
    assert seen[-1] == len(TEXT)


# ----------------------------------------------------------------------------------- malformed

BAD = [
    # text, line, column, what is said
    (b"cat 1:1\n", 1, 1, "'cat' is not a label; labels are numbers"),
    (b"1 1:1\n1:2 2:3\n", 2, 1, "'1:2' is not a label, and a line must start with one"),
    (b"1 1:1\n1,2 2:3\n", 2, 1, "'1,2' are several labels where one is expected"),
    (b"1 1:1\n  --1 2:3\n", 2, 3, "'--1' is not a label"),
    (b"1 1\n", 1, 3, "'1' is not index:value"),
    (b"1 1:1 2\n", 1, 7, "'2' is not index:value"),
    (b"1 1:1 a:2\n", 1, 7, "'a:2' is not index:value"),
    (b"1 1:1 -2:2\n", 1, 7, "'-2:2' is not index:value"),
    (b"1 1:1 +2:2\n", 1, 7, "'+2:2' is not index:value"),
    (b"1 1.5:2\n", 1, 3, "'1.5:2' is not index:value"),
    (b"1 :2\n", 1, 3, "':2' is not index:value"),
    (b"1 1 :2\n", 1, 3, "'1' is not index:value"),
    (b"1 1:1 qid:2 3:1\n", 1, 7, "'qid:2' is not index:value"),
    (b"1 qid\n", 1, 3, "'qid' is not index:value"),
    (b"1 sid:2\n", 1, 3, "'sid:2' is not index:value"),
    (b"1 1:\n", 1, 5, "'' is not a number"),
    (b"1 1: 2\n", 1, 5, "'' is not a number"),
    (b"1 1:#2\n", 1, 5, "'' is not a number"),
    (b"1 1:2:3\n", 1, 5, "'2:3' is not a number"),
    (b"1 1:2,3\n", 1, 5, "'2,3' is not a number"),
    (b"1 1:1.2.3\n", 1, 5, "'1.2.3' is not a number"),
    (b"1 1:1e\n", 1, 5, "'1e' is not a number"),
    (b"1 1:1e+\n", 1, 5, "'1e+' is not a number"),
    (b"1 1:.\n", 1, 5, "'.' is not a number"),
    (b"1 1:e5\n", 1, 5, "'e5' is not a number"),
    (b"1 1:+-5\n", 1, 5, "'+-5' is not a number"),
    (b"1 1:1_000\n", 1, 5, "'1_000' is not a number"),
    (b"1_0 1:1\n", 1, 1, "'1_0' is not a label"),
    (b"1 1:0x10\n", 1, 5, "'0x10' is not a number"),
    (b"1 1:1d5\n", 1, 5, "'1d5' is not a number"),
    (b"1 1:1\x1c 2:1\n", 1, 5, r"'1\x1c' is not a number"),
    (b"1 1:1\x00 2:1\n", 1, 5, r"'1\x00' is not a number"),
    (b"\x00\xff not\n", 1, 1, "is not a label"),
    (b"1 1:\xd9\xa1\n", 1, 5, "'\u0661' is not a number"),
    (b"1 1:1\r1 1:1\r", 1, 7, "'1' is not index:value"),
    (b"1 3:1 3:2\n", 1, 7, "Index 3 comes after 3, but indices must increase along a line"),
    (b"1 3:1 12:1\n\n-1 3:1 2:2\n", 3, 8, "Index 2 comes after 3"),
    (b"1 0:1 0:2\n", 1, 7, "Index 0 comes after 0"),
    (b"1 1234567890123456789:1\n", 1, 3, "The index of '1234567890123456789:1' has more than 18"),
    (b"1 99999999999999999999999999:1\n", 1, 3, "has more than 18 digits"),
    (b"1 1:" + b"1" * 60 + b"x", 1, 5, f"'{'1' * 40}...' is not a number"),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("content", "line", "column", "said"), BAD)
def test_malformed_text(path, content, line, column, said, dtype):
    where = f"data.svm, line {line}, column {column}: "
    with pytest.raises(ValueError, match=re.escape(where) + ".*" + re.escape(said)):
        load(path, content, dtype=dtype)
    with pytest.raises(ValueError, match=r"."):
        parse_svmlight(content)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("chunk", [1, 10, 1000])
def test_the_first_bad_line_is_named(path, tuned, chunk, n_jobs):
    tuned(TEXT_CHUNK=chunk)
    content = b"# one\r\n" + b"1 1:1 # fine\n\n" * 40 + b"1 5:x 3:1\n1 2:y\nz"
    with pytest.raises(ValueError, match=r"line 82, column 5: 'x' is not a number"):
        load(path, content, n_jobs=n_jobs)


@pytest.mark.parametrize("n_hard", [2, 2 * DEFERRED])
def test_bad_numbers_come_before_later_bad_entries(path, n_hard):
    fine = "1 " + " ".join(f"{j}:inf" for j in range(n_hard))
    said = rf"line 1, column {len(f'{fine} 999999:') + 1}: 'one' is not a number"
    with pytest.raises(ValueError, match=said):
        load(path, f"{fine} 999999:one 4\n".encode())


def test_index_0_where_1_is_the_first(path):
    with pytest.raises(
        ValueError, match=r"line 2, column 4: Index 0, but the first column is said"
    ):
        load(path, b"1 1:1\n-1 0:1\n", zero_based=False)


def test_labels_where_there_are_several(path):
    for content, column in ((b"1,,2 1:1\n", 3), (b"1, 1:1\n", 3), (b",1 1:1\n", 1)):
        with pytest.raises(ValueError, match=rf"line 1, column {column}: '' is not a label"):
            load(path, content, multilabel=True)


def test_bad_arguments(path):
    path.write_bytes(TEXT)
    with pytest.raises(ValueError, match="dtype is int64, but must be float32 or float64"):
        load_svmlight(path, dtype=np.int64)
    with pytest.raises(ValueError, match="zero_based is 'yes', but must be True, False or"):
        load_svmlight(path, zero_based="yes")
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nowhere"):
        load_svmlight(path.with_name("nowhere"))
    with pytest.raises(IsADirectoryError, match="is a directory"):
        load_svmlight(path.parent)


# ------------------------------------------------------------------------------------ any text

PIECES = [
    *(b" ", b"  ", b"\t", b"\n", b"\r\n", b"\x0b", b"#", b"# x:1\n", b":", b",", b"qid:1", b"-"),
    *(b"1", b"0", b"2:", b"3:1", b"4:0.5", b"10:-1e5", b"\n1 ", b"\n-1 2:1", b"nan", b".", b"e9"),
    *(b"99999999999", b"0.30000000000000004", b"123456789012345678901234567890", b"_", b"\x00"),
]


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("one_based", [False, True])
def test_any_text_is_read_as_the_naive_parser_reads_it(tmp_path_factory, multilabel, one_based):
    path = tmp_path_factory.mktemp("any") / "data.svm"

    @settings(deadline=None, max_examples=500)
    @given(pieces=st.lists(st.sampled_from(PIECES), max_size=30))
    def check(pieces):
        content = b"".join(pieces)
        options = {"one_based": one_based, "multilabel": multilabel}
        try:
            parse_svmlight(content, **options)
        except ValueError:
            with pytest.raises(ValueError, match=r"data\.svm, line \d+, column \d+: "):
                load(path, content, zero_based=not one_based, multilabel=multilabel)
        else:
            read = load(path, content, zero_based=not one_based, multilabel=multilabel)
            assert_as_naive(read, content, **options)

    check()

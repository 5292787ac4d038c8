"""A store gives back what was written, in blocks, or says what is wrong with it."""

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from zlib import crc32

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from dualsweep.datasets import make_text_like
from dualsweep.io import (
    convert_svmlight,
    load_data,
    load_svmlight,
    open_store,
    write_store,
)
from dualsweep.io.store.directory import ARRAYS
from dualsweep.rows.layouts import as_rows


@pytest.fixture(scope="module")
def problem():
    return make_text_like(60, 80, random_state=0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def text(tmp_path, problem):
    X, y = problem
    file = tmp_path / "data.svm"
    dump_svmlight_file(X, y, str(file), zero_based=False)
    return file


def size(X, y):
    return X.data.nbytes + X.indices.nbytes + 8 * X.shape[0] + y.nbytes


def assert_same_rows(X, expected):
    assert X.shape == expected.shape
    assert X.dtype == expected.dtype
    np.testing.assert_array_equal(X.data, expected.data)
    np.testing.assert_array_equal(X.indices, expected.indices)
    np.testing.assert_array_equal(X.indptr, expected.indptr)


def assert_whole(found, X, y, block_bytes, *, full=True):
    """The blocks are X and y, in order, none too large and, if `full`, none too small."""
    assert (found.shape, found.dtype, found.n_entries) == (X.shape, X.dtype, X.nnz)
    sizes = []
    for b, (rows, labels) in enumerate(found):
        a, z = found.starts[b], found.starts[b + 1]
        assert_same_rows(rows, X[a:z])
        np.testing.assert_array_equal(labels, y[a:z])
        assert labels.dtype == y.dtype
        sizes.append(size(rows, labels))
        assert sizes[-1] <= block_bytes or rows.shape[0] == 1
        if full and z < X.shape[0]:
            assert size(X[a : z + 1], y[a : z + 1]) > block_bytes
    assert (found.starts[-1], len(found)) == (X.shape[0], len(sizes))
    np.testing.assert_array_equal(found.y, y)
    found.verify()


@pytest.mark.parametrize("block_bytes", [1, 1000, 10**6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_in_memory(path, problem, dtype, block_bytes):
    X, y = problem[0].astype(dtype), problem[1]
    written = write_store(path, X, y, block_bytes=block_bytes)
    assert_whole(written, X, y, block_bytes)
    assert_whole(open_store(path), X, y, block_bytes)
    assert [item.name for item in path.parent.iterdir()] == [path.name]
    rows, labels = load_data(path)
    assert_same_rows(rows, X)
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("block_bytes", [1, 1000, 10**6])
def test_text(path, text, tuned, block_bytes, n_jobs):
    X, y = load_data(text)
    tuned(TEXT_CHUNK=500)
    written = convert_svmlight(text, path, block_bytes=block_bytes, n_jobs=n_jobs)
    assert y.dtype == np.int64
    assert_whole(written, X, y, block_bytes)


def test_a_block_is_mapped_and_never_copied(path, problem):
    write_store(path, *problem, block_bytes=3000)
    for X, y in open_store(path):
        rows = as_rows(X, 1.0)
        for name in ("data", "indices", "indptr"):
            mapped = getattr(X, name)
            assert isinstance(mapped, np.memmap)
            assert not mapped.flags.writeable
            assert np.shares_memory(getattr(rows, name), mapped)
        assert isinstance(y, np.memmap)


def test_rows_that_are_not_float_csr(path):
    X = np.array([[0, 2, 0], [1, 0, 0]])
    written = write_store(path, X, [1, 2])
    assert_whole(written, sp.csr_array(X.astype(np.float64)), np.array([1, 2]), 10**6)


def test_entries_that_occur_twice_are_summed(path):
    X = sp.csr_array(([1.0, 2.0, 4.0], [1, 0, 1], [0, 3]), shape=(1, 2))
    assert write_store(path, X, [1]).block(0)[0].toarray().tolist() == [[2.0, 5.0]]
    assert X.nnz == 3


@pytest.mark.parametrize(
    "labels",
    [["no", "yes", "perhaps"], np.array(["no", "yes", "no"], object), [0.5, 1.5, 2.0], [True] * 3],
)
def test_labels_of_any_plain_type(path, labels):
    written = write_store(path, np.eye(3), labels, block_bytes=40)
    assert len(written) == 3
    assert written.y.tolist() == list(labels)


def test_labels_of_text_stay_floats_if_one_is_not_whole(path, tmp_path, tuned):
    tuned(TEXT_CHUNK=4)
    file = tmp_path / "data.svm"
    file.write_text("1 1:1\n2 1:1\n0.5 1:1\n")
    written = convert_svmlight(file, path, block_bytes=1)
    assert [labels.tolist() for _, labels in written] == [[1.0], [2.0], [0.5]]
    assert written.y.dtype == np.float64
    file.write_text("1 1:1\nnan 1:1\n")
    assert np.isnan(convert_svmlight(file, path, force=True).y[1])


@pytest.mark.parametrize("columns", [(5, 7), (7, 5)])  # the last column comes late, or early
@pytest.mark.parametrize("block_bytes", [1, 100, 10**6])
def test_text_that_turns_out_to_count_from_0(path, tmp_path, tuned, block_bytes, columns):
    tuned(TEXT_CHUNK=20)
    file = tmp_path / "data.svm"
    early, late = f"1 2:1 {columns[0]}:2\n\n2\n" * 5, f"1 0:3 {columns[1]}:4\n"
    file.write_text(early + "3 3:1\n" * 5 + late + "3 3:1\n" * 5)
    X, y = load_data(file)
    assert X.shape == (21, 8)
    found = convert_svmlight(file, path, block_bytes=block_bytes)
    assert_whole(found, X, y, block_bytes, full=False)


def test_text_whose_first_column_is_said(path, tmp_path):
    file = tmp_path / "data.svm"
    file.write_text("1 1:1 3:2\n")
    for zero_based, shape in ((True, (1, 4)), (False, (1, 3)), ("auto", (1, 3))):
        found = convert_svmlight(file, path, zero_based=zero_based, force=True)
        assert found.shape == shape
        X, _ = load_svmlight(file, zero_based=zero_based, dtype=np.float32)
        assert_same_rows(found.block(0)[0], X)


def test_indices_beyond_int32_in_some_block(path, tmp_path, tuned):
    tuned(TEXT_CHUNK=8)
    file = tmp_path / "data.svm"
    file.write_text("1 1:1\n1 3000000000:2\n1 3:1\n")
    found = convert_svmlight(file, path, block_bytes=1)
    assert found.shape == (3, 3_000_000_000)
    assert [X.indices.tolist() for X, _ in found] == [[0], [2_999_999_999], [2]]


def test_rows_without_entries(path, tmp_path):
    file = tmp_path / "data.svm"
    file.write_text("1\n2\n")
    found = convert_svmlight(file, path)
    assert (found.shape, found.n_entries, found.y.tolist()) == ((2, 0), 0, [1, 2])
    X = sp.csr_array((3, 5))
    assert_whole(write_store(path, X, [1, 2, 3], force=True), X, np.array([1, 2, 3]), 10**9)


def test_memory_is_bounded(path, tmp_path, tuned):
    tuned(TEXT_CHUNK=50_000)
    file = tmp_path / "data.svm"
    line = " ".join(f"{j}:0.{j}" for j in range(1, 60))
    file.write_text(f"1 {line}\n" * 10_000)
    convert_svmlight(file, path, block_bytes=10**9)  # compiles
    tracemalloc.start()
    found = convert_svmlight(file, path, block_bytes=100_000, force=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.n_bytes > 4_000_000
    assert peak < 2_000_000


# -------------------------------------------------------------------------------- what fails


def names(folder):
    return sorted(item.name for item in folder.iterdir())


def test_bad_text_leaves_nothing(path, tmp_path):
    file = tmp_path / "data.svm"
    file.write_text("1 1:1\n" * 1000 + "1 1:x\n")
    with pytest.raises(ValueError, match=r"line 1001, column 5: 'x' is not a number"):
        convert_svmlight(file, path, block_bytes=1000)
    assert names(tmp_path) == ["data.svm"]
    file.write_text("# nothing\n")
    with pytest.raises(ValueError, match=r"data\.svm has no rows"):
        convert_svmlight(file, path)
    assert names(tmp_path) == ["data.svm"]


def test_bad_arguments(path):
    with pytest.raises(ValueError, match=r"X has 3 rows, but y has the shape \(2,\)"):
        write_store(path, np.eye(3), [1, 2])
    with pytest.raises(ValueError, match="X has no rows"):
        write_store(path, np.empty((0, 3)), [])
    with pytest.raises(ValueError, match="block_bytes is 0, but must be positive"):
        write_store(path, np.eye(3), [1, 2, 3], block_bytes=0)
    with pytest.raises(TypeError, match="Only numbers and text can be saved as labels"):
        write_store(path, np.eye(3), np.array([1, None, 2], object))
    assert names(path.parent) == []


def test_what_exists_is_kept_unless_forced(path, problem):
    write_store(path, *problem)
    with pytest.raises(FileExistsError, match="exists already"):
        write_store(path, np.eye(3), [1, 2, 3])
    assert open_store(path).shape == problem[0].shape
    write_store(path, np.eye(3), [1, 2, 3], force=True)
    assert open_store(path).shape == (3, 3)
    assert names(path.parent) == [path.name]


@pytest.mark.parametrize("force", [True, False])
def test_what_is_no_store_is_never_replaced(path, force):
    path.mkdir()
    (path / "precious").write_text("precious")
    with pytest.raises(FileExistsError, match=r"exists already|is not a store"):
        write_store(path, np.eye(3), [1, 2, 3], force=force)
    assert (path / "precious").read_text() == "precious"
    assert names(path.parent) == [path.name]


def test_a_failed_conversion_keeps_the_old_store(path, text, monkeypatch, tuned):
    write_store(path, np.eye(3), [1, 2, 3])
    tuned(TEXT_CHUNK=500)
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 10:
            raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        convert_svmlight(text, path, block_bytes=2000, force=True)
    assert open_store(path).shape == (3, 3)
    assert names(path.parent) == ["data.svm", "store"]


KILLED = """
import sys, time
from dualsweep import _tuning
from dualsweep.io import convert_svmlight

_tuning.TEXT_CHUNK = 500

def watch(n):
    print(n, flush=True)
    time.sleep(0.01)

convert_svmlight("data.svm", "store", block_bytes=2000, watch=watch)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_conversion_leaves_no_store_that_opens(path, text):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=path.parent, stdout=subprocess.PIPE, text=True
    )
    while int(process.stdout.readline()) < 10_000:
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    [left] = path.parent.glob(".dualsweep.*.tmp")
    assert names(path.parent) == [left.name, "data.svm"]
    assert any(name.endswith(".npy") for name in names(left))
    for folder in (path, left):
        with pytest.raises((ValueError, FileNotFoundError), match=r"no header|no directory"):
            open_store(folder)
    X, y = load_data(text)
    assert_whole(convert_svmlight(text, path, block_bytes=2000), X, y, 2000)


# ------------------------------------------------------------------------------------ damage


def change_header(folder, change):
    """Change a header, and its checksum with it."""
    file = folder / "header.json"
    header = json.loads(file.read_text())
    change(header)
    header.pop("crc32")
    header["crc32"] = crc32(json.dumps(header, sort_keys=True).encode())
    file.write_text(json.dumps(header))


def forge(folder, name, content):
    """Change a file, and its checksum with it."""
    (folder / f"{name}.npy").write_bytes(content)
    block, array = name.split(".")
    facts = {"bytes": len(content), "crc32": crc32(content)}
    change_header(folder, lambda header: header["blocks"][int(block)].update({array: facts}))


@pytest.fixture
def damaged(path, problem):
    write_store(path, *problem, block_bytes=4000)
    return path


@pytest.mark.parametrize("name", ARRAYS)
def test_files_that_are_missing_or_of_another_size(damaged, name):
    file = damaged / f"000002.{name}.npy"
    content = file.read_bytes()
    for changed in (content[:-1], content + b"0", b""):
        file.write_bytes(changed)
        with pytest.raises(
            ValueError, match=rf"damaged: .*000002\.{name}\.npy has {len(changed)} bytes instead"
        ):
            open_store(damaged)
    file.unlink()
    with pytest.raises(ValueError, match=rf"000002\.{name}\.npy is missing"):
        open_store(damaged)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("place", [0, 20, 128, -1])
def test_every_changed_byte_is_found(damaged, name, place):
    file = damaged / f"000001.{name}.npy"
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=rf"000001\.{name}\.npy differs from its checksum"):
        open_store(damaged).verify()


@pytest.mark.parametrize("name", ARRAYS)
def test_a_file_that_is_no_array_of_the_right_shape(damaged, name):
    content = (damaged / f"000001.{name}.npy").read_bytes()
    forge(damaged, f"000001.{name}", b"x" * len(content))
    with pytest.raises(ValueError, match=rf"000001\.{name}\.npy: an array starts with something"):
        open_store(damaged).block(1)
    shape = content[: content.index(b"\n")].split(b"(")[1].split(b",")[0]
    other = b"%d" % (int(shape) - 1)
    forge(damaged, f"000001.{name}", content.replace(b"(" + shape + b",", b"(" + other + b",", 1))
    with pytest.raises(ValueError, match=rf"000001\.{name}\.npy: it has shape \({other.decode()},"):
        open_store(damaged).block(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(format="another"), "is not a store"),
        (lambda header: header.update(version=2), "has store version 2, .* reads 1. Update"),
        (lambda header: header.pop("blocks"), "header.json is damaged"),
        (lambda header: header.pop("dtype"), "header.json is damaged"),
        (lambda header: header.update(dtype="float31"), "header.json is damaged"),
        (lambda header: header.update(shape=[5, 80]), "damaged: the blocks have 60 rows"),
        (lambda header: header.update(shape=[60]), "header.json is damaged"),
        (lambda header: header["blocks"].pop(), "damaged: the blocks have"),
        (lambda header: header["blocks"][0].pop("y"), "header.json is damaged"),
        (lambda header: header["blocks"][0].update(rows="many"), "header.json is damaged"),
        (lambda header: header.update(blocks=3), "header.json is damaged"),
    ],
)
def test_headers(damaged, change, message):
    change_header(damaged, change)
    with pytest.raises(ValueError, match=message):
        open_store(damaged)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "\x00\x01"])
def test_headers_that_are_no_header(damaged, content):
    (damaged / "header.json").write_text(content)
    with pytest.raises(ValueError, match=r"is damaged|is not a store"):
        open_store(damaged)


def test_no_store(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        open_store(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        open_store(tmp_path / "file")
    with pytest.raises(ValueError, match="is not a store: it has no header"):
        open_store(tmp_path)

"""Files that are damaged, forged, in the way or not to be had lose nothing and prove nothing."""

import errno
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import tracemalloc
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from zlib import crc32

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from dualsweep import LinearSVC, certify
from dualsweep.cli import app
from dualsweep.datasets import make_text_like
from dualsweep.io import (
    _files,
    convert_svmlight,
    load_data,
    load_liblinear,
    load_model,
    load_svmlight,
    open_store,
    save_liblinear,
    save_model,
    write_store,
)
from dualsweep.io.checkpoint import Checkpoint
from dualsweep.io.store import reading
from dualsweep.io.store.directory import new_store
from dualsweep.placements.blocks.sweeps import BYTES_PER_ROW, room_for_blocks

resource = pytest.importorskip("resource", reason="of limits, pipes, links and signals")

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model():
    return LinearSVC(C=0.5, random_state=0).fit(X, Y)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder):
    return sorted(item.name for item in folder.iterdir())


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def attempt(function, *arguments):
    """What a function returns, or the error with which it refuses."""
    try:
        return function(*arguments)
    except (ValueError, OSError) as error:
        return error


def in_threads(n, function):
    """What n threads that start together return or raise."""
    barrier = threading.Barrier(n)

    def call(i):
        barrier.wait()
        return attempt(function, i)

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(call, range(n)))


# ------------------------------------------------------------------- what is there is not lost


def write_text(path, force):
    with _files.atomic_file(path, force=force) as file:
        file.write(b"new")


def test_a_directory_is_replaced_only_if_it_is_nothing_but_a_store(folder):
    store = folder / "store"
    write_store(store, X, Y, block_bytes=2000)
    for name, make in {
        "thesis.txt": lambda path: path.write_text("precious"),
        "000099.data.npy": lambda path: path.write_text("precious"),  # of no block
        "photos": lambda path: path.mkdir(),
    }.items():
        make(store / name)
        before = names(store)
        with pytest.raises(FileExistsError, match=f"is more than a store, .* it has {name} in it"):
            write_store(store, X[:10], Y[:10], force=True)
        assert names(store) == before
        assert names(folder) == ["store"]
        shutil.rmtree(store / name) if name == "photos" else (store / name).unlink()
    data = store / "000000.data.npy"
    data.unlink()
    data.mkdir()  # has the name of a part, but is none
    (data / "precious").touch()
    with pytest.raises(FileExistsError, match=r"it has 000000\.data\.npy in it"):
        write_store(store, X[:10], Y[:10], force=True)
    assert names(data) == ["precious"]
    shutil.rmtree(data)
    # A store that lacks a part is a store still.
    assert write_store(store, X[:10], Y[:10], force=True).shape == (10, 4)
    assert names(folder) == ["store"]


def replace_too_late(path):
    with new_store(path, True) as folder:
        (folder / "header.json").touch()
        (path / "precious").touch()


def test_what_appears_during_the_work_is_not_lost(folder):
    write_store("store", X, Y)
    before = names(folder / "store")
    with pytest.raises(FileExistsError, match=r"store is more than a store, .* has precious in it"):
        replace_too_late(folder / "store")
    assert names(folder / "store") == sorted([*before, "precious"])
    assert names(folder) == ["store"]


@pytest.mark.parametrize("header", ["", "{}", "[]", '{"format": "dualsweep store"}', "\0"])
def test_a_directory_with_any_header_is_no_store(folder, header):
    (folder / "mine").mkdir()
    (folder / "mine" / "header.json").write_text(header)
    (folder / "mine" / "precious").write_text("precious")
    with pytest.raises(FileExistsError, match="mine is not a store, so it is not replaced even"):
        write_store(folder / "mine", X, Y, force=True)
    assert names(folder / "mine") == ["header.json", "precious"]


def make_directory(path):
    path.mkdir()


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


KINDS = {"pipe": os.mkfifo, "directory": make_directory, "socket": make_socket}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("force", [True, False])
def test_only_files_are_replaced(folder, model, kind, force):
    path = folder / "there.npz"
    KINDS[kind](path)
    before = path.stat()
    for save in (save_model, save_liblinear):
        with pytest.raises(FileExistsError, match=rf"there\.npz is a {kind}, which is never repl"):
            save(model, path, force=force)
    assert path.stat() == before
    assert names(folder) == ["there.npz"]


@pytest.mark.parametrize("option", ["--force", "--quiet"])
@pytest.mark.parametrize("kind", KINDS)
def test_commands_find_out_before_the_work(folder, model, kind, option):
    KINDS[kind](folder / "there")
    save_model(model, "iris.npz")
    work = ["train", "nowhere.svm", "--model"], ["cv", "nowhere.svm", "--model"]
    more = ["predict", "nowhere.npz", "nowhere.svm", "--force", "-o"], ["convert", "nowhere.svm"]
    for command in (*work, *more):
        force = [] if command[0] == "predict" else [option]
        result = run(*command, "there", *force)
        assert result.exit_code == 2
        assert "there" in result.output
        assert "nowhere" not in result.output  # which would be found out next
    assert names(folder) == ["iris.npz", "there"]


def make_device(path):
    """One of our own: whoever breaks this test as root shall not break the machine's."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make devices")


def test_devices_are_refused(folder, model):
    save_model(model, "iris.npz")
    np.savez("x.npz", X=X)
    make_device("null")
    before = os.stat("null")
    with pytest.raises(FileExistsError, match="null is a device, which is never replaced"):
        save_model(model, "null", force=True)
    result = run("predict", "iris.npz", "x.npz", "-o", "null", "--force")
    assert result.exit_code == 2
    assert result.output.startswith("Error: null is a device, which is never replaced")
    assert os.stat("null") == before
    assert names(folder) == ["iris.npz", "null", "x.npz"]


def another_name(folder, name, spelling):
    """Return another name of a file or folder."""
    if spelling == "same":
        return name
    if spelling == "relative":
        return f"./far/../{name}"
    if spelling == "absolute":
        return str(folder / name)
    if spelling == "link":
        (folder / "other").symlink_to(name)
        return "other"
    if spelling == "by a linked folder":
        (folder / "far" / "here").symlink_to(folder)
        return f"far/here/{name}"
    os.link(folder / name, folder / "other")
    return "other"


SPELLINGS = ["same", "relative", "absolute", "link", "by a linked folder", "hard link"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_force_never_replaces_what_a_command_reads(folder, model, spelling):
    (folder / "far").mkdir()
    save_model(model, "iris.npz")
    np.savez("x.npz", X=X, y=Y)
    np.savez("p.png", X=X, y=Y)  # data may have any name
    write_store("iris.store", X, Y)
    x = another_name(folder, "x.npz", spelling)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for command in (
        ["train", "x.npz", "-o", x],
        ["train", x, "-o", "x.npz"],
        ["train", "p.png", "--warm-start", "x.npz", "-o", x],
        ["cv", "x.npz", "-o", x],
        ["cv", "x.npz", "--plot", x],
        ["compare", "x.npz", "--plot", x],
        ["predict", "iris.npz", "x.npz", "-o", x],
        ["predict", "x.npz", "iris.npz", "-o", x],
        ["predict", "iris.npz", "p.png", "--calibrate", "x.npz", "-o", x],
        ["convert", "x.npz", x],
    ):
        result = run(*command, "--force")
        assert result.exit_code == 2, command
        assert "read" in result.output, command
        assert "choose another name" in result.output
    for name, content in before.items():
        assert (folder / name).read_bytes() == content


def test_force_never_replaces_the_file_that_stdin_is(folder):
    dump_svmlight_file(X, Y, "iris.svm", zero_based=False)
    before = (folder / "iris.svm").read_bytes()
    command = [sys.executable, "-m", "dualsweep", "train", "/dev/stdin", "-o", "iris.svm"]
    with open("iris.svm", "rb") as stdin:
        ran = subprocess.run([*command, "--force"], stdin=stdin, capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("Error: iris.svm would replace /dev/stdin, which this command")
    assert (folder / "iris.svm").read_bytes() == before


def test_force_never_writes_into_a_store_that_is_read(folder):
    write_store("iris.store", X, Y)
    (folder / "link").symlink_to("iris.store")
    part = sorted(path.name for path in (folder / "iris.store").iterdir())[0]
    for command in (
        ["train", "iris.store", "-o", f"link/{part}"],
        ["train", "iris.store", "-o", "iris.store/new.npz"],
        ["train", "iris.store", "--memory-limit", "1", "--checkpoint", "link"],
        ["train", "link", "--memory-limit", "1", "--checkpoint", "iris.store/checkpoint"],
        ["convert", "iris.store", "link"],
    ):
        result = run(*command, "--force")
        assert result.exit_code == 2, command
        assert "would replace" in result.output, command
    assert open_store("iris.store").verify() is None
    assert names(folder) == ["iris.store", "link"]


def test_what_is_written_twice_is_refused(folder):
    np.savez("x.npz", X=X, y=Y)
    result = run("cv", "x.npz", "--model", "n.png", "--plot", "./n.png")
    assert result.exit_code == 2
    (folder / "n.png").write_text("old")
    (folder / "m.png").symlink_to("n.png")
    result = run("cv", "x.npz", "--model", "n.png", "--plot", "m.png", "--force")
    assert result.exit_code == 2
    assert "m.png and n.png are the same; choose two names" in result.output
    assert (folder / "n.png").read_text() == "old"


@pytest.mark.parametrize("index", [2**31, 2**40, 10**17])
def test_a_huge_index_is_an_error_and_no_memory(folder, monkeypatch, index):
    """A file of 22 bytes asked for 16 GiB, and more."""
    (folder / "wide.svm").write_text(f"1 {index}:1\n-1 1:1\n" * 2)
    monkeypatch.setattr("dualsweep.placements.memory.available_bytes", lambda: 8 << 30)
    tracemalloc.start()
    try:
        for command in (["train"], ["cv", "--costs", "1", "--folds", "2"]):
            result = run(command[0], "wide.svm", *command[1:])
            assert result.exit_code == 2, command
            assert f"Error: X has {index:,} features" in result.output
            assert "Hash the features" in result.output
        assert run("info", "wide.svm").exit_code == 0
        assert run("convert", "wide.svm", "wide.store").exit_code == 0
        assert tracemalloc.get_traced_memory()[1] < 1 << 27
    finally:
        tracemalloc.stop()
    np.savez("x.npz", X=X, y=Y)
    assert run("train", "x.npz", "-o", "x.model.npz", "-q").exit_code == 0
    assert run("predict", "x.model.npz", "wide.svm").exit_code == 0


def test_another_file_of_the_same_folder_is_replaced(folder):
    np.savez("x.npz", X=X, y=Y)
    (folder / "x.model.npz").write_text("old")
    assert run("train", "x.npz", "--force", "-q").exit_code == 0
    assert load_model("x.model.npz").converged_


def test_the_name_of_stdout_is_refused(folder, model):
    save_model(model, "iris.npz")
    np.savez("x.npz", X=X)
    (folder / "stdout").symlink_to("/dev/fd/1")
    command = [sys.executable, "-m", "dualsweep", "predict", "iris.npz", "x.npz", "-o", "stdout"]
    ran = subprocess.run([*command, "--force"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("Error: stdout is a pipe, which is never replaced")
    assert names(folder) == ["iris.npz", "stdout", "x.npz"]


def test_links_are_followed_and_stay(folder, model):
    (folder / "far").mkdir()
    target, link = folder / "far" / "target.npz", folder / "link.npz"
    link.symlink_to("far/target.npz")
    save_model(model, link)  # a link to nothing
    assert link.is_symlink()
    assert names(folder / "far") == ["target.npz"]
    np.testing.assert_array_equal(load_model(target).coef_, model.coef_)
    with pytest.raises(FileExistsError, match=r"link\.npz exists already"):
        save_model(model, link)
    target.write_text("old")
    save_model(model, link, force=True)
    assert link.is_symlink()
    assert names(folder) == ["far", "link.npz"]
    np.testing.assert_array_equal(load_model(target).coef_, model.coef_)

    store = folder / "store"
    store.symlink_to("far/store")
    for n in (20, 30):
        assert write_store(store, X[:n], Y[:n], force=n == 30).shape == (n, 4)
        assert store.is_symlink()
        assert names(folder / "far") == ["store", "target.npz"]

    (folder / "nowhere.npz").symlink_to("no/such/folder")
    with pytest.raises(FileNotFoundError, match=r"There is no directory .*no/such to write"):
        save_model(model, folder / "nowhere.npz")
    (folder / "round.npz").symlink_to("round.npz")
    with pytest.raises(OSError, match=r"round\.npz"):
        save_model(model, folder / "round.npz", force=True)
    assert (folder / "round.npz").is_symlink()


def test_permissions_are_those_of_the_umask(folder, model):
    before = os.umask(0o027)
    try:
        save_model(model, "model.npz")
        write_store("store", X, Y)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("model.npz").st_mode) == 0o640
    assert stat.S_IMODE(os.stat("store").st_mode) == 0o750


# ----------------------------------------------------------------------------- at the same time


def test_writers_at_the_same_time_all_succeed_with_force(folder, model):
    path = folder / "model.npz"
    for _ in range(10):
        assert in_threads(8, lambda i: save_model(model, path, force=True)) == [None] * 8
    np.testing.assert_array_equal(load_model(path).coef_, model.coef_)
    store = folder / "store"
    for _ in range(5):
        found = in_threads(
            4, lambda i: write_store(store, X[: 20 + i], Y[: 20 + i], force=True).shape[0]
        )
        assert found == [20, 21, 22, 23]
        assert open_store(store).shape[0] in found
        open_store(store).verify()
    assert names(folder) == ["model.npz", "store"]


def test_of_writers_at_the_same_time_one_succeeds_without_force(folder, model):
    for attempt in range(10):
        for write in (
            lambda i, path=folder / f"model{attempt}": save_model(model, path),
            lambda i, path=folder / f"store{attempt}": write_store(path, X[: i + 9], Y[: i + 9]),
        ):
            found = in_threads(6, write)
            failed = [error for error in found if isinstance(error, Exception)]
            assert len(failed) == 5
            for error in failed:
                assert isinstance(error, FileExistsError)
                assert "exists already" in str(error)
        open_store(folder / f"store{attempt}").verify()
    assert len(names(folder)) == 20


def write_too_late(path):
    with _files.atomic_file(path, force=False) as file:
        file.write(b"mine")
        path.write_bytes(b"theirs")


def test_somebody_else_is_faster(folder):
    with pytest.raises(FileExistsError, match="file exists already"):
        write_too_late(folder / "file")
    assert (folder / "file").read_bytes() == b"theirs"
    assert names(folder) == ["file"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_where_there_are_no_hard_links(folder, monkeypatch, code):
    def link(source, target):
        raise OSError(code, os.strerror(code), source, None, target)

    monkeypatch.setattr(os, "link", link)
    write_text(folder / "file", False)
    assert (folder / "file").read_bytes() == b"new"
    with pytest.raises(FileExistsError, match="other exists already"):
        write_too_late(folder / "other")
    assert (folder / "other").read_bytes() == b"theirs"
    assert names(folder) == ["file", "other"]


def test_what_a_killed_process_left_is_in_nobodys_way(folder, monkeypatch):
    pid = os.getpid()
    for name in (f".store.{pid}.tmp", f".store.{pid}.tmp.old"):
        (folder / name).mkdir()
    (folder / f".model.npz.{pid}.tmp").touch()
    write_store(folder / "store", X, Y)
    write_store(folder / "store", X, Y, force=True)
    write_text(folder / "model.npz", False)
    assert names(folder)[3:] == ["model.npz", "store"]


# ------------------------------------------------------------------- full disks, lost permission


@contextmanager
def full_disk(n_bytes):
    """Let writing beyond so many bytes of a file fail, as it does on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def save_picture(path):
    from dualsweep.cli._pictures import new_figure, save_picture

    figure = new_figure(2, 2)
    figure.subplots().plot([0, 1], [0, 1])
    save_picture(figure, path, force=True)


def save_predictions(path):
    result = run("predict", "../model.npz", "../x.npz", "-o", path, "--force")
    if result.exit_code:
        assert result.exit_code == 2
        [line] = result.output.splitlines()
        raise OSError(0, line, str(path) if str(path) in line else "")


def save_checkpoint(path):
    Checkpoint(path.parent, {"C": 1.0}).write(0, {"alpha": np.arange(1000.0)})


def limit(store, n_blocks=4):
    """A memory limit that leaves room for two groups of so many blocks."""
    block = int((store.block_bytes + BYTES_PER_ROW * np.diff(store.starts)).max())
    return 2 * n_blocks * block - room_for_blocks(0, store.shape[0], store.shape[1] + 1)


@pytest.fixture
def writers(folder, model, monkeypatch):
    """Everything that writes: what it writes, and how."""
    save_model(model, "model.npz")
    np.savez("x.npz", X=X)
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    return {
        "model.npz": lambda path: save_model(model, path, force=True),
        "model.txt": lambda path: save_liblinear(model, path, force=True),
        "picture.png": save_picture,
        "labels": save_predictions,
        "000000.npz": save_checkpoint,
        "store": lambda path: write_store(path, X, Y, block_bytes=2000, force=True),
    }


WHAT = ["model.npz", "model.txt", "picture.png", "labels", "000000.npz", "store"]


def content(path):
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    return path.read_bytes()


def largest_file(path):
    files = path.iterdir() if path.is_dir() else [path]
    return max(file.stat().st_size for file in files)


@pytest.mark.parametrize("what", WHAT)
def test_full_disk(folder, writers, what):
    path = folder / "here" / what
    write = writers[what]
    write(path)
    old, size = content(path), largest_file(path)
    for room in (0, 1, size // 3, size - 1):
        with full_disk(room), pytest.raises(OSError, match=r".") as error:
            write(path)
        assert str(path) in str(error.value) or error.value.filename == str(path)
        assert content(path) == old
        assert names(path.parent) == [what]
    with full_disk(size):
        write(path)
    assert names(path.parent) == [what]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("what", [what for what in WHAT if what != "picture.png"])
def test_every_call_to_the_system_fails_once(folder, writers, monkeypatch, what, code):
    path = folder / "here" / what
    write = writers[what]
    write(path)
    old = content(path)
    left = [0]

    def failing(call):
        def fail(*arguments, **options):
            left[0] -= 1
            if left[0] == -1:
                raise OSError(code, os.strerror(code))
            return call(*arguments, **options)

        return fail

    n_failures = 0
    for n in range(1000):
        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "rename", "link", "mkdir"):
                patch.setattr(os, name, failing(getattr(os, name)))
            left[0] = n
            error = attempt(write, path)
        if isinstance(error, Exception):
            n_failures += 1
            assert str(path) in str(error) or error.filename == str(path)
            assert content(path) == old
        elif what == "store":
            assert content(path).keys() == old.keys()
        assert names(path.parent) == [what]
        if left[0] >= 0:
            break
    assert n_failures >= (20 if what == "store" else 2)
    # There is nothing that a next attempt would stumble over.
    write(path)


def test_no_permission(folder, model, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # which root always has
    with pytest.raises(PermissionError, match=r"No permission to write m\.npz to"):
        save_model(model, folder / "m.npz")
    (folder / "x.svm").write_text("1 1:1\n")
    for command in (["train", "nowhere.svm"], ["convert", "nowhere.svm", "store"]):
        result = run(*command)
        assert result.exit_code == 2
        assert "No permission to write" in result.output


# ------------------------------------------------------------------------------- damaged models


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.npz"
    save_model(model, path)
    return path.read_bytes()


def assert_sound(found):
    """A model that predicts, and what it predicts are its classes."""
    rows = np.zeros((2, found.n_features_in_))
    assert np.isfinite(found.decision_function(rows)).all()
    assert np.isin(found.predict(rows), found.classes_).all()


def test_no_flipped_bit_changes_a_model_unnoticed(folder, model, saved):
    path = folder / "model.npz"
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, 8 * len(saved), 600).tolist():
        damaged = bytearray(saved)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        found = attempt(load_model, path)
        if isinstance(found, Exception):
            assert "model.npz" in str(found)
            refused += 1
        else:  # a time stamp, for instance
            np.testing.assert_array_equal(found.decision_function(X), model.decision_function(X))
            np.testing.assert_array_equal(found.dual_coef_.toarray(), model.dual_coef_.toarray())
            assert found.relative_gap_ == model.relative_gap_
    assert refused > 550


def test_commands_say_what_is_wrong_with_a_model(folder, saved):
    path = folder / "model.npz"
    np.savez("x.npz", X=X, y=Y)
    rng = np.random.default_rng(1)
    for place in rng.integers(0, 8 * len(saved), 15).tolist():
        damaged = bytearray(saved)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        for command in (["info", path], ["predict", path, "x.npz"], ["certify", path, "x.npz"]):
            result = run(*command)
            assert result.exit_code in (0, 2), result.output
            if result.exit_code == 2:
                [line] = result.output.splitlines()
                assert line.startswith("Error: ")
                assert "model.npz" in line


def test_truncated_models(folder, saved):
    path = folder / "model.npz"
    for keep in np.random.default_rng(0).integers(0, len(saved), 200).tolist():
        path.write_bytes(saved[:keep])
        with pytest.raises(ValueError, match=r"model\.npz is not an \.npz file, or is damaged"):
            load_model(path)


def resave(path, **changes):
    """Change arrays of a file; None takes one away."""
    with np.load(path) as file:
        arrays = dict(file) | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def change_params(**params):
    return lambda header: header["params"].update(params)


def change_certificate(**facts):
    return lambda header: header["certificate"].update(facts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.pop("format"), "names no format"),
        (lambda header: header.update(format="1"), "names no format"),
        (lambda header: header.update(format=99), "has model format 99, .* Update dualsweep"),
        (lambda header: header.update(estimator="SVR"), "names no LinearSVC"),
        (lambda header: header.pop("params"), "names no LinearSVC"),
        (lambda header: header.update(params=[]), "names no LinearSVC"),
        (change_params(gamma=1), "unknown parameters: gamma"),
        (change_params(C=-1.0), "'C' parameter"),
        (change_params(C="1"), "'C' parameter"),
        (change_params(C=float("nan")), "'C' parameter"),
        (change_params(C=10**400), "C is beyond 64 bits"),
        (change_params(loss="log"), "'loss' parameter"),
        (change_params(loss=["hinge"]), "'loss' parameter"),
        (change_params(tol=None), "'tol' parameter"),
        (change_params(random_state=-1), "'random_state' parameter"),
        (change_params(class_weight=3), "'class_weight' parameter"),
        (change_params(class_weight=[1, 2]), "class_weight has"),
        (change_params(class_weight=[[[], 2]]), "class_weight has"),
        (change_params(class_weight=[[0, "2"]]), "class_weight is"),
        (change_params(class_weight=[[0, float("nan")]]), "class_weight is"),
        (lambda header: header.pop("certificate"), "certificate is incomplete"),
        (lambda header: header["certificate"].pop("n_iter_"), "certificate is incomplete"),
        (change_certificate(more=1), "certificate is incomplete"),
        (change_certificate(dual_gap_=float("nan")), "dual_gap is nan"),
        (change_certificate(relative_gap_="0"), "relative_gap is '0'"),
        (change_certificate(primal_objective_=True), "primal_objective is True"),
        (change_certificate(primal_objective_=10**400), "primal_objective is 1000"),
        (change_certificate(converged_=1), "converged is 1"),
        (change_certificate(n_iter_=-1), "n_iter is -1"),
        (change_certificate(n_iter_=1.5), "n_iter is 1.5"),
    ],
)
def test_forged_headers_of_models(folder, saved, change, message):
    path = folder / "model.npz"
    path.write_bytes(saved)
    with np.load(path) as file:
        header = json.loads(str(file["header"]))
    change(header)
    resave(path, header=np.array(json.dumps(header)))
    with pytest.raises(ValueError, match=rf"model\.npz .*{message}"):
        load_model(path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "3", "[]", "null", "[" * 100_000, '{"a":' * 100_000, "{" + " " * 100],
)
def test_headers_of_models_that_are_none(folder, saved, text):
    path = folder / "model.npz"
    path.write_bytes(saved)
    resave(path, header=np.array(text))
    with pytest.raises(ValueError, match=r"model\.npz is a damaged model: "):
        load_model(path)


NAN = np.full((3, 4), np.nan)
FORGED = {
    "one row for three classes": ({"coef": np.ones((1, 4))}, "coef has 1 rows, but 3 classes"),
    "coef of one dimension": ({"coef": np.ones(3)}, "coef is float64"),
    "coef of text": ({"coef": np.full((3, 4), "1")}, "coef is <U1"),
    "coef of integers": ({"coef": np.ones((3, 4), int)}, "coef is int64"),
    "coef is not finite": ({"coef": NAN}, "not all of coef is finite"),
    "no coef": ({"coef": None}, "lacks coef"),
    "two intercepts": ({"intercept": np.ones(2)}, "intercept has 2 rows"),
    "a single intercept": ({"intercept": np.array(1.0)}, "intercept is float64"),
    "infinite intercept": ({"intercept": np.full(3, np.inf)}, "not all of intercept is finite"),
    "classes reversed": ({"classes": np.array([2, 1, 0])}, "not in ascending order, each once"),
    "classes twice": ({"classes": np.array([0, 1, 1])}, "not in ascending order, each once"),
    "classes of NaN": ({"classes": np.array([0, 1, np.nan])}, "y has nan"),
    "classes not whole": ({"classes": np.array([0, 0.5, 1])}, "y has 0.5"),
    "classes of bytes": ({"classes": np.array([b"a", b"b", b"c"])}, "y has b'a'"),
    "complex classes": ({"classes": np.array([1j, 2j, 3j])}, "y has 1j"),
    "one class": ({"classes": np.array([1])}, "1 class"),
    "two classes": ({"classes": np.array([0, 1])}, "coef has 3 rows, but 2 classes"),
    "a table of classes": ({"classes": np.arange(3)[:, None]}, "classes are int64"),
    "a single class": ({"classes": np.array(3)}, "classes are int64"),
    "history of numbers": ({"history": np.ones(3)}, "history is float64"),
    "indices out of range": ({"dual_indices": np.full(82, 150)}, "indices are 150 to 150, beyond"),
    "negative indices": ({"dual_indices": np.full(82, -1)}, "indices are -1"),
    "indices of floats": ({"dual_indices": np.zeros(82)}, "indices are float64"),
    "too few indices": ({"dual_indices": np.zeros(3, int)}, "dual_data is"),
    "no indices": ({"dual_indices": None}, "lacks dual_indices"),
    "pointers descend": ({"dual_indptr": np.array([0, 9, 5, 82])}, "indptr does not ascend"),
    "pointers beyond": ({"dual_indptr": np.array([0, 9, 15, 10**6])}, "indptr does not ascend"),
    "too few pointers": ({"dual_indptr": np.array([0, 82])}, "indptr is int64"),
    "duals of NaN": ({"dual_data": np.full(82, np.nan)}, "dual variables are not finite"),
    "huge duals": ({"dual_data": np.full(82, 1e200)}, "too large to compute with"),
    "duals of integers": ({"dual_data": np.ones(82, int)}, "dual_data is int64"),
    "negative rows": ({"n_samples": np.array(-1)}, "n_samples is -1"),
    "too few rows": ({"n_samples": np.array(1)}, "indices are"),
    "rows of text": ({"n_samples": np.array("150")}, "n_samples is 150"),
    "names of numbers": ({"feature_names": np.ones(4)}, "feature_names are float64"),
    "a name too few": ({"feature_names": np.array(["a", "b", "c"])}, "feature_names are <U1"),
    "a header of numbers": ({"header": np.array(3)}, "header is not text"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_arrays_of_models(folder, saved, case):
    path = folder / "model.npz"
    path.write_bytes(saved)
    changes, message = FORGED[case]
    with np.load(path) as file:
        n = len(file["dual_data"])
    changes = {
        name: np.resize(array, n) if array is not None and array.shape == (82,) else array
        for name, array in changes.items()
    }
    resave(path, **changes)
    with pytest.raises(ValueError, match=rf"model\.npz .*{message}"):
        load_model(path)


def test_text_that_no_character_stands_for(folder, saved):
    path = folder / "model.npz"
    path.write_bytes(saved)
    classes = np.array(["a", "b", "c"])
    classes.view(np.uint32)[2] = 0x7FFFFFFF
    resave(path, classes=classes)
    with pytest.raises(ValueError, match=r"model\.npz .*character number 2,147,483,647"):
        load_model(path)


def test_a_model_of_the_other_byte_order(folder, model, saved):
    path = folder / "model.npz"
    path.write_bytes(saved)
    with np.load(path) as file:
        arrays = {name: array.astype(array.dtype.newbyteorder()) for name, array in file.items()}
    np.savez(path, **arrays)
    np.testing.assert_array_equal(load_model(path).predict(X), model.predict(X))
    assert certify(load_model(path), X, Y).relative_gap <= 1e-3


def test_models_in_the_wrong_place(folder, model):
    os.mkfifo("pipe")
    for name in ("pipe", ".", "/dev/zero"):
        with pytest.raises(ValueError, match="not a regular file"):  # and does not wait for ever
            load_model(name)
        with pytest.raises(ValueError, match="not a regular file"):
            load_liblinear(name)
    with pytest.raises(FileNotFoundError, match="no directory pipe"):
        open_store("pipe")


class Trap:
    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_no_file_runs_code(folder, saved):
    trap = np.array([Trap()], dtype=object)
    np.savez("data.npz", X=trap, y=trap)
    with pytest.raises(ValueError, match=r"data\.npz .*Python objects, which are not read"):
        load_data("data.npz")
    for name in ("coef", "classes", "header"):
        (folder / "model.npz").write_bytes(saved)
        resave("model.npz", **{name: trap})
        with pytest.raises(ValueError, match="Python objects"):
            load_model("model.npz")
    write_store("store", X, Y)
    np.save("store/000000.y.npy", trap)
    with pytest.raises(ValueError, match="store is damaged"):
        open_store("store").load()
    assert not (folder / "trapped").exists()


@pytest.mark.parametrize("kind", ["L2R_L2LOSS_SVC_DUAL", "MCSVM_CS"])
def test_damaged_models_of_liblinear(folder, kind):
    path = folder / "model.txt"
    rows = "0.5 -0.5 \n-1 2 \n0.25 7 \n" if kind == "MCSVM_CS" else "0.5 \n-1 \n0.25 \n"
    text = f"solver_type {kind}\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 1\nw\n{rows}".encode()
    path.write_bytes(text)
    assert_sound(load_model(path))
    rng = np.random.default_rng(0)
    for _ in range(600):
        damaged = bytearray(text)
        for place in rng.integers(0, len(text), rng.integers(1, 4)).tolist():
            damaged[place] = int(rng.choice(np.frombuffer(b"09.-+eE \n\0x_" + text, np.uint8)))
        keep = rng.integers(0, len(text)) if rng.random() < 0.2 else len(text)
        path.write_bytes(damaged[:keep])
        found = attempt(load_model, path)
        if isinstance(found, Exception):
            assert "model.txt" in str(found)
        else:
            assert_sound(found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.25", "1e308", "not all of"),  # times the bias, infinite
        ("nr_class 2", "nr_class 2\nnr_class 2", "nr_class where one of"),
        ("nr_class 2", f"nr_class {'9' * 5000}", "damaged"),
        ("nr_feature 2", "nr_feature 999999999999999999999", "3 weights instead of"),
        ("nr_feature 2", "rho 2\nnr_feature 2", "rho where one of"),
        ("label 1 -1", "label 1 -1 " + "1 " * 100, "nr_class is 2, label is"),
        ("0.5", "x" * 10_000, "could not convert"),
    ],
)
def test_forged_models_of_liblinear(folder, old, new, message):
    text = "solver_type L2R_L2LOSS_SVC_DUAL\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 10\nw\n"
    text += "0.5 \n-1 \n0.25 \n"
    assert old in text
    (folder / "model.txt").write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"model\.txt .*{message}") as error:
        load_model("model.txt")
    assert len(str(error.value)) < 500


# --------------------------------------------------------------------- bombs, and files that lie


@contextmanager
def at_most(n_bytes):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < n_bytes
    finally:
        tracemalloc.stop()


def npy(array):
    from io import BytesIO

    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def lying_npy(text):
    """A file of NumPy whose start says what it likes."""
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(80)


LIES = {
    "2^60 numbers": "{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,)}",
    "2^200 numbers": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**200},)}}",
    "overflow": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**32}, {2**32})}}",
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-10,)}",
    "an empty giant": f"{{'descr': '<f8', 'fortran_order': False, 'shape': (0, {2**62})}}",
    "not a tuple": "{'descr': '<f8', 'fortran_order': False, 'shape': 10}",
    "nested": "(" * 110,
    "nested, closed": "(" * 55 + ")" * 55,
    "lists": "[" * 110,
    "unary": "-" * 110,
    "quotes": "'''",
    "a call": "__import__('os').mkdir('trapped')",
    "object": "{'descr': '|O', 'fortran_order': False, 'shape': (10,)}",
    "no type": "{'descr': 'nonsense', 'fortran_order': False, 'shape': (10,)}",
    "type of types": "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (10,)}",
    "wide": "{'descr': '|V999999999999', 'fortran_order': False, 'shape': (10,)}",
    "narrow": "{'descr': '<U0', 'fortran_order': False, 'shape': (10,)}",
    "too many dimensions": f"{{'descr':'<f8','fortran_order':False,'shape':({'1,' * 30}10)}}",
    "python 2": "{'descr': '<f8', 'fortran_order': False, 'shape': (10L,",
    "escape": r"{'descr': '\x', 'fortran_order': False, 'shape': (10,)}",
    "nothing": "",
}


@pytest.mark.filterwarnings("ignore")  # NumPy's, of what it makes of some of these
@pytest.mark.parametrize("lie", LIES)
def test_arrays_that_lie(folder, saved, lie):
    content = lying_npy(LIES[lie])
    for name in ("model.npz", "data.npz"):
        with zipfile.ZipFile(name, "w") as archive:
            for array in ("coef", "intercept", "classes", "header", "X", "y"):
                archive.writestr(f"{array}.npy", content)
    write_store("store", X, Y)
    header = json.loads((folder / "store/header.json").read_text())
    facts = {"bytes": len(content), "crc32": crc32(content)}
    header["blocks"][0].update(data=facts, y=facts)
    header.pop("crc32")  # as the first stores
    (folder / "store/header.json").write_text(json.dumps(header))
    (folder / "store/000000.data.npy").write_bytes(content)
    (folder / "store/000000.y.npy").write_bytes(content)
    with at_most(3 << 20):
        with pytest.raises(ValueError, match=r"model\.npz "):
            load_model("model.npz")
        with pytest.raises(ValueError, match=r"data\.npz "):
            load_data("data.npz")
        with pytest.raises(ValueError, match=r"store is damaged: .*000000\.data\.npy"):
            open_store("store").read(0)
        with pytest.raises(ValueError, match=r"store is damaged: .*000000\.y\.npy"):
            _ = open_store("store").y
    assert not (folder / "trapped").exists()


def test_zip_bombs(folder):
    zeros = npy(np.zeros((1000, 2_000)))  # 16 MB
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("coef", "intercept", "classes", "header"):
            archive.writestr(f"{name}.npy", zeros)
    with at_most(3 << 20), pytest.raises(ValueError, match=r"bomb\.npz .*compressed in a way that"):
        load_model("bomb.npz")

    for method in (
        zipfile.ZIP_BZIP2,
        zipfile.ZIP_LZMA,
    ):  # which can make anything of next to nothing
        with zipfile.ZipFile("data.npz", "w", method) as archive:
            archive.writestr("X.npy", zeros)
        with at_most(3 << 20), pytest.raises(ValueError, match="compressed in a way that is not"):
            load_data("data.npz", labelled=False)

    # What deflate cannot have made of so few bytes is a lie.
    with zipfile.ZipFile("data.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy(np.zeros((5, 5))))
    content = (folder / "data.npz").read_bytes()
    directory = content.index(b"PK\x01\x02")
    forged = content[: directory + 24] + b"\xff\xff\xff\x7f" + content[directory + 28 :]
    (folder / "data.npz").write_bytes(forged)
    with at_most(3 << 20), pytest.raises(ValueError, match=r"X\.npy claims 2,147,483,647 bytes"):
        load_data("data.npz", labelled=False)

    # Many names for the same bytes.
    with zipfile.ZipFile("data.npz", "w") as archive:
        archive.writestr("X.npy", zeros[: 1 << 20])
        first = archive.infolist()[0]
        for i in range(100):
            twin = zipfile.ZipInfo(f"X{i}.npy")
            for fact in ("header_offset", "compress_size", "file_size", "CRC"):
                setattr(twin, fact, getattr(first, fact))
            archive.filelist.append(twin)
    with at_most(3 << 20), pytest.raises(ValueError, match="parts are larger than the whole"):
        load_data("data.npz", labelled=False)


def test_archives_that_lie(folder, saved):
    with zipfile.ZipFile("twice.npz", "w") as archive:
        archive.writestr("X.npy", npy(np.eye(3)))
        with pytest.warns(match="Duplicate name"):
            archive.writestr("X.npy", npy(np.eye(3)))
    with pytest.raises(ValueError, match=r"twice\.npz .*an array occurs twice"):
        load_data("twice.npz", labelled=False)
    with zipfile.ZipFile("outside.npz", "w") as archive:
        archive.writestr("X.npy", npy(np.eye(3)))
        archive.writestr("../escaped.npy", npy(np.eye(3)))
        archive.writestr("notes.txt", "not an array")
    assert load_data("outside.npz", labelled=False)[0].shape == (3, 3)
    assert not (folder.parent / "escaped.npy").exists()
    encrypted = bytearray(saved)
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    (folder / "model.npz").write_bytes(encrypted)
    with pytest.raises(ValueError, match=r"model\.npz .*(encrypted|damaged)"):
        load_model("model.npz")


def test_data_compressed_by_numpy(folder):
    np.savez_compressed("data.npz", X=np.zeros((1000, 1000)), y=np.arange(1000) % 2)
    assert (folder / "data.npz").stat().st_size < 20_000
    read, labels = load_data("data.npz")
    assert (read.shape, read.any(), labels.sum()) == ((1000, 1000), False, 500)


@pytest.mark.parametrize(
    "arrays",
    [
        {"indptr": [0, 1, 1000]},
        {"indptr": [0, 2, 1]},
        {"indptr": [1, 1, 1]},
        {"indptr": [0.0, 1.0, 2.0]},
        {"indptr": [[0, 1, 2]]},
        {"indices": [0, -1]},
        {"indices": [0, 2]},
        {"indices": [0, 2**40]},
        {"indices": [0.0, 1.0]},
        {"indices": [0]},
        {"data": [[1.0], [2.0]]},
        {"data": 1.0},
        {"shape": [2]},
        {"shape": 2},
        {"shape": [2, -2]},
        {"shape": [2.0, 2.0]},
        {"shape": [2**62, 2]},
        {"format": ["csr", "csr"]},
        {"format": [1]},
    ],
)
def test_forged_rows(folder, arrays):
    good = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2]}
    np.savez("data.npz", **good, y=[0, 1])
    assert load_data("data.npz")[0].toarray().tolist() == [[1.0, 0.0], [0.0, 2.0]]
    np.savez("data.npz", **good | arrays, y=[0, 1])
    with pytest.raises(
        ValueError, match=r"data\.npz has (arrays that do not make a CSR|the sparse for)"
    ):
        load_data("data.npz")


# ------------------------------------------------------------------------------ damaged stores


@pytest.fixture(scope="module")
def text():
    return make_text_like(120, 60, mean_length=8, noise=0.1, random_state=0)


@pytest.fixture
def store(folder, text):
    return write_store(folder / "store", *text, block_bytes=4000)


def train(store, in_memory=False):
    options = {} if in_memory else {"memory_limit": limit(store, 1)}
    return LinearSVC(tol=0.1, random_state=0, **options).fit(store)


@pytest.mark.parametrize("in_memory", [True, False])
def test_no_flipped_bit_changes_what_is_trained(folder, store, in_memory):
    assert len(store) >= 3
    whole = train(store, in_memory)
    rng = np.random.default_rng(0)
    files = [folder / "store" / name for name in names(folder / "store")]
    refused = 0
    for _ in range(300):
        # As often in the header as in all the others.
        file = files[-1] if rng.random() < 0.3 else files[rng.integers(len(files))]
        before = file.read_bytes()
        place = int(rng.integers(8 * len(before)))
        damaged = bytearray(before)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        found = attempt(lambda: train(open_store(store.path), in_memory))
        if isinstance(found, Exception):
            assert str(store.path) in str(found)
            refused += 1
        else:
            np.testing.assert_array_equal(found.coef_, whole.coef_)
            assert found.relative_gap_ == whole.relative_gap_
        file.write_bytes(before)
    assert refused > 290
    open_store(store.path).verify()


@pytest.mark.parametrize("name", ["data", "indices", "indptr", "y"])
@pytest.mark.parametrize("use", ["block", "read"])
def test_a_file_that_changes_between_passes(folder, store, name, use):
    file = folder / "store" / f"000001.{name}.npy"
    before = file.read_bytes()
    getattr(store, use)(1)
    status = file.stat()
    file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(ValueError, match=rf"000001\.{name}\.npy differs from its checksum"):
        getattr(store, use)(1)
    other = folder / "other"
    other.write_bytes(before[:-1] + bytes([before[-1] ^ 2]))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)  # another file of the same size and time
    with pytest.raises(ValueError, match=rf"000001\.{name}\.npy differs from its checksum"):
        getattr(store, use)(1)
    file.write_bytes(before[:-1])
    with pytest.raises(ValueError, match=rf"000001\.{name}\.npy has .* bytes instead of"):
        getattr(store, use)(1)
    file.unlink()
    with pytest.raises(OSError, match=rf"000001\.{name}\.npy"):
        getattr(store, use)(1)
    file.write_bytes(before)
    assert getattr(store, use)(1)[1].tolist() == store.y[slice(*store.starts[1:3])].tolist()


def test_checksums_are_compared_once(store, monkeypatch):
    compared = []

    def count(content):
        compared.append(len(content))
        return crc32(content)

    monkeypatch.setattr(reading, "crc32", count)
    for _ in range(3):
        for b in range(len(store)):
            store.read(b)
            store.block(b)
            store.read_labels(b)
        _ = store.y
        store.load()
    assert len(compared) == 4 * len(store)
    assert sum(compared) == store.n_bytes


def test_a_store_without_a_checksum_of_its_header(folder, store):
    file = folder / "store/header.json"
    header = json.loads(file.read_text())
    del header["crc32"]
    file.write_text(json.dumps(header))
    assert open_store(store.path).fingerprint == store.fingerprint
    np.testing.assert_array_equal(train(open_store(store.path)).coef_, train(store).coef_)


@pytest.mark.parametrize(
    ("one", "other"),
    [("000000.data", "000001.data"), ("000000.y", "000001.y"), ("000000.indptr", "000000.data")],
)
def test_files_that_are_swapped(folder, store, one, other):
    one, other = (folder / "store" / f"{name}.npy" for name in (one, other))
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    with pytest.raises(ValueError, match="The store is damaged"):
        train(open_store(store.path))


def forge(folder, name, array, **block):
    """Replace an array of a store, with a checksum that fits."""
    content = npy(array)
    (folder / "store" / f"000000.{name}.npy").write_bytes(content)
    file = folder / "store/header.json"
    header = json.loads(file.read_text())
    header["blocks"][0].update({name: {"bytes": len(content), "crc32": crc32(content)}}, **block)
    del header["crc32"]
    header["crc32"] = crc32(json.dumps(header, sort_keys=True).encode())
    file.write_text(json.dumps(header))


@pytest.mark.parametrize("use", ["load", "read", "block"])
def test_forged_stores(folder, store, use):
    def used():
        found = open_store(store.path)
        return found.load() if use == "load" else getattr(found, use)(0)

    rows, y = store.read(0)
    indices, indptr = rows.indices.copy(), rows.indptr.copy()
    for index, said in ((60, "to 60, beyond 0 to 59"), (-1, "indices are -1 to")):
        forge(folder, "indices", np.append(indices[:-1], np.int32(index)))
        with pytest.raises(ValueError, match=rf"000000\.indices\.npy: .*{said}"):
            used()
    forge(folder, "indices", indices)
    for place, pointer in ((-1, 10**9), (0, -1), (3, -5), (5, 10**6)):
        bad = indptr.copy()
        bad[place] = pointer
        forge(folder, "indptr", bad)
        with pytest.raises(ValueError, match=r"000000\.indptr\.npy: indptr does not ascend"):
            used()
    forge(folder, "indptr", indptr)
    for name, array in (
        ("data", rows.data.astype(np.int64)),
        ("data", rows.data.astype(">f8")),
        ("indices", indices.astype(np.int16)),
        ("indptr", indptr.astype(np.int32)),
    ):
        before = (folder / f"store/000000.{name}.npy").read_bytes()
        forge(folder, name, array)
        with pytest.raises(ValueError, match=rf"000000\.{name}\.npy: it has the type"):
            used()
        forge(folder, name, np.load(folder / f"store/000000.{name}.npy").astype(np.float32))
        (folder / f"store/000000.{name}.npy").write_bytes(before)
        forge(folder, name, {"data": rows.data, "indices": indices, "indptr": indptr}[name])
    forge(folder, "y", y[:-1])
    with pytest.raises(ValueError, match=r"000000\.y\.npy: it has shape"):
        used()
    forge(folder, "y", y.astype(str))
    with pytest.raises(ValueError, match=r"\.y\.npy: its labels are .*, and others"):
        _ = open_store(store.path).y
    forge(folder, "y", y)
    used()


@pytest.mark.parametrize(
    "block",
    [
        {"rows": 0},
        {"rows": -1},
        {"rows": 2**63},
        {"rows": True},
        {"rows": 1.0},
        {"entries": -5},
        {"entries": None},
        {"y": {"bytes": 0, "crc32": 0}},
        {"y": {"bytes": 2**70, "crc32": 0}},
        {"y": {"bytes": "many", "crc32": 0}},
        {"y": {"bytes": 10}},
        {"y": []},
    ],
)
def test_forged_blocks(folder, store, block):
    forge(folder, "data", store.read(0)[0].data, **block)
    with pytest.raises(ValueError, match=r"header\.json is damaged: "):
        open_store(store.path)


@pytest.mark.parametrize(
    "header",
    [b"[" * 100_000, b'{"a":' * 100_000, b'{"format": 1}', b"\xff\xfe", b" " * 1000, b"{}" * 10],
)
def test_headers_of_stores_that_are_none(folder, store, header):
    (folder / "store/header.json").write_bytes(header)
    with pytest.raises(ValueError, match=r"is damaged|is not a store"):
        open_store(store.path)


def test_a_header_of_a_gigabyte(folder, store):
    os.truncate("store/header.json", 1 << 30)
    with at_most(1 << 20), pytest.raises(ValueError, match=r"header\.json is damaged: .*more than"):
        open_store(store.path)


def test_a_store_of_more_blocks_than_can_be_read_is_not_written(folder, text, tuned):
    tuned(MAX_JSON=2000)
    with pytest.raises(ValueError, match=r"120 blocks are too many for a store; raise block_bytes"):
        write_store("many", *text, block_bytes=1)
    assert names(folder) == []


def test_text_that_cannot_be_read_to_its_end_is_named(folder, monkeypatch):
    (folder / "data.svm").write_text("1 1:1\n")

    class Broken:
        def peek(self, n):
            return b""

        def readinto(self, memory):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        def seekable(self):
            return False

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            pass

    monkeypatch.setattr(type(folder), "open", lambda path, mode: Broken())
    with pytest.raises(OSError, match=r"data\.svm"):
        convert_svmlight("data.svm", "store")
    monkeypatch.undo()
    assert names(folder) == ["data.svm"]


# --------------------------------------------------------------------------- damaged checkpoints


@pytest.fixture
def checkpoint(folder, store):
    fit_blocks(store, max_iter=3)
    return folder / "c" / "000000.npz"


def fit_blocks(store, **options):
    """Train block by block with a checkpoint."""
    settings = {"tol": 1e-3, "random_state": 0, "loss": "hinge", "max_iter": 6}
    svc = LinearSVC(**settings | options, memory_limit=limit(store, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return svc.fit(store, checkpoint="c")


ADVICE = r"c/000000\.npz is damaged: .*Delete it, or choose another directory"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("alpha", lambda a: a[1:]),
        ("alpha", lambda a: a[:, None]),
        ("alpha", lambda a: a.astype(np.float32)),
        ("alpha", lambda a: np.where(a > 0, np.nan, a)),
        ("alpha", lambda a: np.where(a > 0, np.inf, a)),
        ("alpha", lambda a: None),
        ("w", lambda w: w[1:]),
        ("w", lambda w: np.append(w, 0.0)),
        ("w", lambda w: np.full_like(w, np.nan)),
        ("w", lambda w: None),
        ("rng", lambda rng: rng.astype(np.int64)),
        ("rng", lambda rng: np.zeros(5, np.uint64)),
        ("history", lambda h: np.ones(3)),
        ("history", lambda h: h[:, None]),
        ("epoch", lambda e: e - 100),
        ("epoch", lambda e: np.array("3")),
        ("epoch", lambda e: e + 0.5),
        ("checks", lambda c: c + 100),
        ("dual", lambda d: np.array(np.nan)),
        ("seconds", lambda s: np.ones(2)),
        ("correction", lambda c: None),
        ("settings", lambda s: None),
        ("settings", lambda s: np.array(3)),
        ("settings", lambda s: np.array("[" * 100_000)),
        ("settings", lambda s: np.array("[]")),
    ],
)
def test_forged_checkpoints(store, checkpoint, name, change):
    with np.load(checkpoint) as file:
        changed = change(file[name])
    resave(checkpoint, **{name: changed})
    with pytest.raises(ValueError, match=ADVICE):
        fit_blocks(store)


@pytest.mark.parametrize("max_iter", [3, 6])  # a certificate at once, or after some passes
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(
    "change",
    [
        lambda alpha, w: (alpha * 0.9, w),
        lambda alpha, w: (alpha, 1.1 * w),
        lambda alpha, w: (alpha[::-1].copy(), w),
        lambda alpha, w: (-alpha, -w),
        lambda alpha, w: (10 * alpha, 10 * w),
    ],
    ids=["less alpha", "more w", "other alpha", "negative", "all larger"],
)
def test_checkpoints_that_would_prove_what_is_not_so(
    store, folder, text, loss, change, max_iter, request
):
    fit_blocks(store, max_iter=3, loss=loss)
    path = folder / "c/000000.npz"
    with np.load(path) as file:
        alpha, w = change(file["alpha"], file["w"])
    resave(path, alpha=alpha, w=w)
    model = attempt(lambda: fit_blocks(store, max_iter=max_iter, loss=loss))
    if isinstance(model, Exception):
        assert "c/000000.npz is damaged" in str(model)
        return
    # Sweeps made a dual point of it, or it is one, however bad: without bounds, all are.
    assert max_iter == 6 or (loss == "squared_hinge" and "all larger" in request.node.name)
    rows, y = text
    sign = np.where(y == 1, 1.0, -1.0)
    w = np.append(model.coef_[0], model.intercept_)
    alpha = sign * model.dual_coef_.toarray()[0]
    np.testing.assert_allclose(
        w, np.append(rows.T @ (sign * alpha), sign @ alpha), rtol=1e-8, atol=1e-8
    )
    slack = np.maximum(1 - sign * (rows @ w[:-1] + w[-1]), 0)
    primal = 0.5 * w @ w + (slack if loss == "hinge" else slack**2).sum()
    dual = alpha.sum() - 0.5 * w @ w - (0.0 if loss == "hinge" else 0.25 * alpha @ alpha)
    assert alpha.min() >= 0
    assert loss != "hinge" or alpha.max() <= 1
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9, abs=1e-9 * primal)


def test_no_flipped_bit_in_a_checkpoint_changes_the_model(store, checkpoint):
    content = checkpoint.read_bytes()
    whole = fit_blocks(store)
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, 8 * len(content), 100).tolist():
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        checkpoint.write_bytes(damaged)
        found = attempt(fit_blocks, store)
        if isinstance(found, Exception):
            assert "c/000000.npz" in str(found)
            refused += 1
        else:  # a time stamp, for instance
            np.testing.assert_array_equal(found.coef_, whole.coef_)
    assert refused > 75


def test_checkpoints_of_the_classes_are_not_swapped(folder):
    rows, y = make_text_like(200, 50, mean_length=8, n_classes=3, random_state=0)
    store = write_store("three", rows, y, block_bytes=4000)
    fit_blocks(store, max_iter=2)
    assert names(folder / "c") == [f"00000{p}.npz" for p in range(3)]
    shutil.copy("c/000001.npz", "c/000000.npz")
    with pytest.raises(
        ValueError, match=r"c/000000\.npz is of another run: problem was 1 and is 0"
    ):
        fit_blocks(store)


KILLED = """
import os, signal, sys

at, before = int(sys.argv[1]), sys.argv[2] == "before"
replace, calls = os.replace, 0

def kill(source, target):
    global calls
    calls += 1
    if calls == at and before:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = kill
from dualsweep import LinearSVC
from dualsweep.io import open_store

svc = LinearSVC(tol=1e-3, random_state=0, loss="hinge", max_iter=6, memory_limit=int(sys.argv[3]))
svc.fit(open_store("store"), checkpoint="c")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_while_a_checkpoint_is_written(folder, store, when):
    whole = fit_blocks(store)
    shutil.rmtree(folder / "c")
    command = [sys.executable, "-c", KILLED, "3", when, str(limit(store, 1))]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    left = [name for name in names(folder / "c") if name != "000000.npz"]
    assert len(left) == (1 if when == "before" else 0)
    with np.load("c/000000.npz") as file:
        assert file["epoch"] == (2 if when == "before" else 3)
    again = fit_blocks(store)
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    assert (again.n_iter_, again.relative_gap_) == (whole.n_iter_, whole.relative_gap_)


def test_checkpoints_that_are_no_files(folder, store):
    (folder / "c").mkdir()
    os.mkfifo("c/000000.npz")
    with pytest.raises(ValueError, match=ADVICE):  # and does not wait for ever
        fit_blocks(store)
    (folder / "c/000000.npz").unlink()
    (folder / "c/000000.npz").mkdir()
    with pytest.raises(ValueError, match=ADVICE):
        fit_blocks(store)


# ---------------------------------------------------------------------------- labels and commands


@pytest.mark.parametrize(
    ("label", "line"),
    [("9007199254740993", 3), ("-9007199254740993.0", 3), ("18014398509481985", 3), ("1e23", 3)],
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_labels_that_would_become_others(folder, tuned, label, line, n_jobs):
    tuned(TEXT_CHUNK=16)
    (folder / "data.svm").write_text(f"9007199254740992 1:1\n# none\n {label} 1:2\n1 1:1\n")
    said = rf"data\.svm, line {line}, column 2: float64 does not have the label '{label}'"
    for read in (load_svmlight, load_data):
        with pytest.raises(ValueError, match=said):
            read("data.svm", n_jobs=n_jobs)
    with pytest.raises(ValueError, match=said):
        convert_svmlight("data.svm", "store", n_jobs=n_jobs)
    assert names(folder) == ["data.svm"]


def test_large_labels_that_stay_what_they_are(folder):
    labels = [2**53, 2**53 + 2, -(2**62), 7 * 10**18]
    (folder / "data.svm").write_text("".join(f"{label} 1:1\n" for label in labels))
    assert load_data("data.svm")[1].tolist() == labels
    assert convert_svmlight("data.svm", "store").y.tolist() == labels


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("rcv1.svm.xz", "rcv1"),
        ("rcv1.svm", "rcv1"),
        ("news20.t.bz2", "news20"),
        ("a.b.svm.gz", "a.b"),
        ("heart_scale", "heart_scale"),
        ("data.zst", "data"),
        ("x.npz", "x"),
    ],
)
def test_names_of_models(data, name):
    from pathlib import Path

    from dualsweep.cli.train import destination

    assert destination(Path("far", data), None, None)[0] == Path(f"{name}.model.npz")
    assert destination(Path(data), None, "liblinear")[0] == Path(f"{name}.model")


INTERRUPTED = """
import os, signal, sys
from dualsweep import __main__

events, at = 0, int(sys.argv.pop(1))

def tick(event, arguments):
    global events
    events += 1
    if events == at:
        os.mkdir("hit")
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.addaudithook(tick)
try:
    __main__.main()
finally:
    with open("events", "w") as file:
        file.write(str(events))
"""


def test_ctrl_c_at_any_moment_is_no_traceback(folder):
    """Moments are events that the interpreter tells of: imports, files that are opened, ..."""
    dump_svmlight_file(X, Y, "iris.svm", zero_based=False)

    def interrupted(at):
        command = [sys.executable, "-c", INTERRUPTED, str(at), "train", "iris.svm", "--force"]
        return subprocess.run(command, capture_output=True, text=True)

    for _ in range(2):  # the first one may have to compile
        ran = interrupted(0)
        assert (ran.returncode, ran.stderr) == (0, "")
    n_events = int((folder / "events").read_text())
    assert n_events > 1000
    late = [n_events - 500, n_events - 10]
    for at in [*np.random.default_rng(0).integers(1, n_events, 3).tolist(), *late]:
        ran = interrupted(at)
        assert ran.returncode == 130, (at, ran.stderr)
        assert len(ran.stderr.splitlines()) <= 1, (at, ran.stderr)
        assert "Traceback" not in ran.stderr
        assert names(folder) == ["events", "hit", "iris.model.npz", "iris.svm"]
        (folder / "hit").rmdir()


def test_interrupted_after_the_work_says_what_is_written(folder, monkeypatch):
    from dualsweep.cli._command import Command

    dump_svmlight_file(X, Y, "iris.svm", zero_based=False)

    def interrupt(command, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Command, "show", interrupt)
    result = run("train", "iris.svm", "-q")
    assert result.exit_code == 130
    assert result.output == "Interrupted. iris.model.npz was written.\n"
    assert load_model("iris.model.npz").converged_
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

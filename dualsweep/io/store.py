"""Stores: data on disk in blocks of rows that can be mapped into memory.

A store is a directory of NumPy files, four for each block, and a header::

    header.json            version, shape, and of each block the rows, entries, sizes and checksums;
                           and its own checksum, which the first stores do not have
    000000.data.npy        values, float32 or float64
    000000.indices.npy     columns, int32 or int64, increasing along each row
    000000.indptr.npy      where the block's rows start, int64
    000000.y.npy           labels
    000001.data.npy        ...
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ._checks import (
    MOST_TEXT,
    check_characters,
    check_indices,
    check_indptr,
    is_count,
    parse_object,
)
from ._files import follow, mode_of, naming, taken, temporary_beside
from ._npz import plain, read_npy_header
from .svmlight import chain_pointers, iter_svmlight

__all__ = [
    "Store",
    "check_new_store",
    "convert_svmlight",
    "new_store",
    "open_store",
    "write_store",
]

FORMAT = "dualsweep store"
VERSION = 1
HEADER = "header.json"
ARRAYS = ("data", "indices", "indptr", "y")
BLOCK_BYTES = 64 << 20
LONGEST_START = 1 << 14  # bytes before the numbers in a file of NumPy; it reads no more than 10,000
CRC = "crc32"
OCCUPIED = (errno.EEXIST, errno.ENOTEMPTY)


class Checked(NamedTuple):
    """A file of a block as it was when it was compared with its checksum."""

    stamp: tuple[int, int, int]  # size, time of change and number of the file
    dtype: Any
    start: int  # of the numbers


class Store:
    """Rows and labels on disk, in blocks that can be mapped into memory.

    Everything that a store hands out has been compared with its checksum: a file when it is first
    used, and again if it has been written to since. That takes 0.4 s for each GB, besides the 0.7 s
    to read it from the page cache, in the thread that reads; zlib's crc32 does 3.6 GB/s.

    Parameters
    ----------
    path : str or Path
        The directory. Its header and the sizes of its files are checked.

    Attributes
    ----------
    path : Path
        The directory.
    shape : tuple of int
        Rows and features.
    n_entries : int
        Stored values.
    n_bytes : int
        Size of the arrays.
    dtype : dtype
        Type of the values.
    starts : ndarray of shape (n_blocks + 1,)
        First row of each block, and the number of rows.
    block_bytes : ndarray of shape (n_blocks,)
        Size of the arrays of each block.
    fingerprint : str
        Differs between stores of different content, going by their checksums.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        header = _read_header(self.path)
        n_rows, n_features = header["shape"]
        self.shape = (n_rows, n_features)
        self.dtype = np.dtype(header["dtype"])
        self._blocks: list[dict[str, Any]] = header["blocks"]
        self._checked: dict[Path, Checked] = {}
        self._label_type: Any = None  # not known before labels are read
        for b, block in enumerate(self._blocks):
            for name in ARRAYS:
                file = self._file(b, name)
                if not file.exists():
                    raise ValueError(f"The store is damaged: {file} is missing.")
                _check_size(file, file.stat().st_size, block[name]["bytes"])
        self.starts = np.cumsum([0, *(block["rows"] for block in self._blocks)])
        self.n_entries = sum(block["entries"] for block in self._blocks)
        self.block_bytes = np.array(
            [sum(block[name]["bytes"] for name in ARRAYS) for block in self._blocks]
        )
        self.n_bytes = int(self.block_bytes.sum())
        self.fingerprint = sha256(_canonical(header)).hexdigest()

    def _file(self, b: int, name: str) -> Path:
        return _file(self.path, b, name)

    def __repr__(self) -> str:
        return f"<Store {self.path}: {self.shape[0]} rows, {self.shape[1]} features>"

    def __len__(self) -> int:
        return len(self._blocks)

    def block(self, b: int) -> tuple[sp.csr_array, Any]:
        """Return the rows and labels of block b, mapped into memory and read-only.

        `dualsweep.rows.as_rows` takes the rows without a copy. The first time, all of the block is
        read, for the sake of its checksums; whether it stays in memory is up to the system.
        """
        return self._block(self._map(b, name) for name in ARRAYS)

    def read(self, b: int) -> tuple[sp.csr_array, Any]:
        """Return the rows and labels of block b, read into memory."""
        return self._block(self._read(b, name) for name in ARRAYS)

    def read_labels(self, b: int) -> Any:
        """Return the labels of block b, read into memory."""
        return self._read(b, "y")

    def _block(self, arrays: Iterator[Any]) -> tuple[sp.csr_array, Any]:
        data, indices, indptr, y = arrays
        # As arguments of csr_array, int32 indices would be copied to match int64 pointers.
        X = sp.csr_array((len(indptr) - 1, self.shape[1]), dtype=data.dtype)
        X.data, X.indices, X.indptr = data, indices, indptr
        return X, y

    def _map(self, b: int, name: str) -> Any:
        with self._opened(b, name) as (file, stamp):
            content = np.memmap(file, np.uint8, "r")
            found = self._compared(b, name, content, stamp)
            return content[found.start :].view(found.dtype)

    def _read(self, b: int, name: str) -> Any:
        with self._opened(b, name) as (file, stamp):
            content = _pages(stamp[0])
            if file.readinto(content) != stamp[0]:
                raise ValueError(f"The store is damaged: {self._file(b, name)} is cut short.")
        found = self._compared(b, name, content, stamp)
        return np.frombuffer(content, found.dtype, offset=found.start)

    @contextmanager
    def _opened(self, b: int, name: str) -> Iterator[tuple[Any, tuple[int, int, int]]]:
        path = self._file(b, name)
        with naming(path), path.open("rb") as file:
            status = os.fstat(file.fileno())
            _check_size(path, status.st_size, self._blocks[b][name]["bytes"])
            yield file, (status.st_size, status.st_mtime_ns, status.st_ino)

    def _compared(self, b: int, name: str, content: Any, stamp: tuple[int, int, int]) -> Checked:
        """Tell what is in a file, having compared it with its checksum if that is not done yet."""
        path, block = self._file(b, name), self._blocks[b]
        checked = self._checked.get(path)
        if checked is None or checked.stamp != stamp:
            if crc32(content) != block[name]["crc32"]:
                raise ValueError(f"The store is damaged: {path} differs from its checksum.")
            try:
                checked = Checked(stamp, *self._inspected(name, content, block))
            except ValueError as error:
                raise ValueError(f"The store is damaged: {path}: {error}.") from error
            self._checked[path] = checked
        return checked

    def _inspected(self, name: str, content: Any, block: dict[str, Any]) -> tuple[Any, int]:
        """Return type and start of the numbers, of which a checksum only says who wrote them."""
        head = BytesIO(bytes(content[:LONGEST_START]))
        shape, _, dtype = read_npy_header(head)
        n = {"y": block["rows"], "indptr": block["rows"] + 1}.get(name, block["entries"])
        if shape != (n,) or head.tell() + n * dtype.itemsize != len(content):
            raise ValueError(f"it has shape {shape} and {len(content)} bytes instead of ({n},)")
        types = {"data": [self.dtype], "indices": [np.int32, np.int64], "indptr": [np.int64]}
        if name in types and dtype not in types[name]:
            raise ValueError(f"it has the type {dtype}")
        array = np.frombuffer(content, dtype, offset=head.tell())
        if not array.flags.aligned:
            raise ValueError(f"its numbers start at byte {head.tell()}")
        if name == "indptr":
            check_indptr(array, block["rows"], block["entries"])
        elif name == "indices":
            check_indices(array, self.shape[1])
        elif name == "y":
            check_characters(array)
            self._label_type = self._label_type or dtype
            if dtype != self._label_type:
                raise ValueError(f"its labels are {dtype}, and others {self._label_type}")
        return dtype, head.tell()

    def __iter__(self) -> Iterator[tuple[sp.csr_array, Any]]:
        return map(self.block, range(len(self)))

    @property
    def y(self) -> Any:
        """Labels of all rows, in memory."""
        return np.concatenate([self._map(b, "y") for b in range(len(self))])

    def load(self) -> tuple[sp.csr_array, Any]:
        """Return all rows and labels, in memory."""
        return sp.vstack([X for X, _ in self], format="csr"), self.y

    def verify(self, watch: Callable[[int], None] | None = None) -> None:
        """Compare all files with their checksums; ValueError if one differs.

        Parameters
        ----------
        watch : callable, default=None
            Called, as reading goes on, with the number of bytes that have been read.
        """
        done = 0
        for b, block in enumerate(self._blocks):
            for name in ARRAYS:
                path = self._file(b, name)
                sum_ = 0
                with path.open("rb") as file:
                    while piece := file.read(1 << 20):
                        sum_ = crc32(piece, sum_)
                        done += len(piece)
                        if watch is not None:
                            watch(done)
                if sum_ != block[name]["crc32"]:
                    raise ValueError(f"The store is damaged: {path} differs from its checksum.")


def open_store(path: str | Path) -> Store:
    """Open a store that `write_store` or `convert_svmlight` wrote.

    Parameters
    ----------
    path : str or Path
        The directory. Its header and the sizes of its files are checked, what is in them as it is
        used; `Store.verify` checks all of it.

    Returns
    -------
    Store
        The store.
    """
    return Store(path)


def write_store(
    path: str | Path, X: Any, y: Any, *, block_bytes: int = BLOCK_BYTES, force: bool = False
) -> Store:
    """Write rows and labels to a store.

    Parameters
    ----------
    path : str or Path
        The directory to write. It appears complete or not at all; if the process is killed, what
        it has written is left beside it in ``.dualsweep.*.tmp`` and can be deleted.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows. float32 and float64 are kept, other numbers become float64.
    y : array-like of shape (n_samples,)
        Labels: numbers or text.
    block_bytes : int, default=64 MiB
        Size of a block. Only a single row can be larger.
    force : bool, default=False
        Whether to replace a store that exists. A directory that has anything else in it is not
        replaced.

    Returns
    -------
    Store
        The store, opened.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from dualsweep.io import open_store, write_store
    >>> X, y = load_iris(return_X_y=True)
    >>> with TemporaryDirectory() as folder:
    ...     _ = write_store(Path(folder, "iris"), X, y, block_bytes=4000)
    ...     store = open_store(Path(folder, "iris"))
    ...     store.verify()
    ...     sizes = [rows.shape[0] for rows, labels in store]
    >>> store.shape, sizes
    ((150, 4), [62, 62, 26])
    """
    X = sp.csr_array(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    y = plain(np.asarray(y))
    if y.shape != (X.shape[0],):
        raise ValueError(f"X has {X.shape[0]} rows, but y has the shape {y.shape}.")
    if len(y) == 0:
        raise ValueError("X has no rows.")
    with new_store(Path(path), force) as folder:
        writer = _Writer(folder, block_bytes)
        writer.append(X.data, X.indices, X.indptr.astype(np.int64, copy=False), y)
        store = writer.finish(X.shape[1], X.dtype)
    store.path = Path(path)
    return store


def convert_svmlight(
    file: str | Path,
    path: str | Path,
    *,
    dtype: Any = np.float32,
    zero_based: bool | str = "auto",
    n_jobs: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    force: bool = False,
    watch: Callable[[int], None] | None = None,
) -> Store:
    """Write svmlight text to a store, in one pass and in memory for two blocks.

    Parameters
    ----------
    file : str or Path
        The text, plain or compressed.
    path, block_bytes, force
        See `write_store`.
    dtype, zero_based, n_jobs, watch
        See `load_svmlight`; values are float32 unless said otherwise.

    Returns
    -------
    Store
        The store, opened. Labels are integers if the text has no others.
    """
    with new_store(Path(path), force) as folder:
        writer = _Writer(folder, block_bytes)
        base, highest, integers = int(not zero_based), -1, True
        known = zero_based != "auto"
        n_late = 0
        for block in iter_svmlight(
            file, dtype=dtype, zero_based=zero_based, n_jobs=n_jobs, watch=watch
        ):
            if len(block.data) and not known:
                base, known = int(block.lowest > 0), True
            elif zero_based == "auto" and base == 1 and block.lowest == 0:
                # It counts from 0 after all. What is written is off by one, until the end.
                writer.flush()
                base, n_late = 0, writer.n_blocks
            np.subtract(block.indices, base, out=block.indices)
            if len(block.data):
                highest = max(highest, block.highest - base)
            integers = integers and _are_integers(block.labels)
            writer.append(block.data, block.indices, block.indptr, block.labels)
        writer.flush()
        if writer.n_blocks == 0:
            raise ValueError(f"{file} has no rows.")
        for b in range(n_late):
            writer.change(b, "indices", lambda indices: indices + 1)
        if integers:
            for b in range(writer.n_blocks):
                writer.change(b, "y", lambda y: y.astype(np.int64))
        store = writer.finish(highest + 1, dtype)
    store.path = Path(path)
    return store


def _are_integers(labels: Any) -> bool:
    with np.errstate(invalid="ignore"):
        return bool((labels.astype(np.int64) == labels).all())


class _Writer:
    """Cuts rows into blocks and writes them."""

    def __init__(self, folder: Path, block_bytes: int) -> None:
        if block_bytes < 1:
            raise ValueError(f"block_bytes is {block_bytes}, but has to be positive.")
        self.folder = folder
        self.block_bytes = self.room = block_bytes
        self.pending: list[tuple[Any, ...]] = []
        self.blocks: list[dict[str, Any]] = []

    @property
    def n_blocks(self) -> int:
        return len(self.blocks)

    def append(self, data: Any, indices: Any, indptr: Any, y: Any) -> None:
        """Add rows; `indptr` starts at 0."""
        per_entry, per_row = data.itemsize + indices.itemsize, indptr.itemsize + y.itemsize
        sizes = indptr * per_entry + np.arange(len(indptr)) * per_row  # of the rows before each
        row, end = 0, len(y)
        while row < end:
            stop = int(np.searchsorted(sizes, sizes[row] + self.room, side="right")) - 1
            if stop <= row and self.pending:
                self.flush()
                continue
            stop = max(stop, row + 1)
            a, b = indptr[row], indptr[stop]
            part = data[a:b], indices[a:b], indptr[row : stop + 1] - a, y[row:stop]
            self.pending.append(tuple(array.copy() for array in part))
            self.room -= sizes[stop] - sizes[row]
            row = stop

    def flush(self) -> None:
        """Write the rows at hand as a block."""
        if not self.pending:
            return
        parts = dict(zip(ARRAYS, zip(*self.pending, strict=True), strict=True))
        self.pending, self.room = [], self.block_bytes
        sizes = {"rows": sum(map(len, parts["y"])), "entries": sum(map(len, parts["data"]))}
        self.blocks.append(sizes)
        for name in ARRAYS:  # one after the other, so that only one is in memory twice
            join = chain_pointers if name == "indptr" else np.concatenate
            self._save(len(self.blocks) - 1, name, join(parts.pop(name)))

    def change(self, b: int, name: str, change: Callable[[Any], Any]) -> None:
        """Replace an array of a block that has been written."""
        self._save(b, name, change(np.load(_file(self.folder, b, name), allow_pickle=False)))

    def _save(self, b: int, name: str, array: Any) -> None:
        with _file(self.folder, b, name).open("wb") as file:
            summed = _Summed(file)
            np.lib.format.write_array(summed, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        self.blocks[b][name] = {"bytes": summed.size, "crc32": summed.crc}

    def finish(self, n_features: int, dtype: Any) -> Store:
        """Write the rest and the header, which makes a store of the directory, and open it."""
        self.flush()
        header = {
            "format": FORMAT,
            "version": VERSION,
            "shape": [sum(block["rows"] for block in self.blocks), n_features],
            "dtype": np.dtype(dtype).name,
            "blocks": self.blocks,
        }
        text = json.dumps(header | {CRC: crc32(_canonical(header))}, indent=1)
        if len(text) > MOST_TEXT:
            raise ValueError(
                f"{len(self.blocks):,} blocks are too many for a store; raise block_bytes "
                f"({self.block_bytes:,})."
            )
        with (self.folder / HEADER).open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return Store(self.folder)


class _Summed:
    """A file to write to, and the size and checksum of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.size = self.crc = 0

    def write(self, content: bytes) -> int:
        self.size += len(content)
        self.crc = crc32(content, self.crc)
        return self.file.write(content)


@contextmanager
def new_store(path: Path, force: bool) -> Iterator[Path]:
    """Yield a directory that becomes `path` when the block ends well."""
    target = check_new_store(path, force=force)
    temporary = temporary_beside(target)
    with naming(path, temporary):
        try:
            temporary.mkdir()
            yield temporary
            _sync(temporary)
            _place(temporary, target, path, force)
            with suppress(OSError):  # complete it is in any case
                _sync(target.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_new_store(path: Path, *, force: bool) -> Path:
    """Return the directory that writing a store to `path` makes; OSError if it must not be made.

    A link is followed, and stays. With `force` a store is replaced, if it is nothing but a store.
    """
    if mode_of(path) is not None:
        if not force:
            raise taken(path)
        _refuse_strangers(path, path)
    return follow(path)


def _refuse_strangers(folder: Path, path: Path) -> None:
    """Raise FileExistsError unless a directory is a store and nothing else; `path` is its name."""
    try:
        header = _read_header(folder)
        numbers = range(len(header["blocks"]))
        names = {HEADER, *(_file(folder, b, name).name for b in numbers for name in ARRAYS)}
        with os.scandir(folder) as entries:
            strangers = sorted(
                entry.name
                for entry in entries
                if entry.name not in names or not entry.is_file(follow_symlinks=False)
            )
    except (OSError, ValueError) as error:
        if not folder.exists():  # any more: somebody else is replacing it
            return
        raise FileExistsError(
            f"{path} is not a store, so it is not replaced even with force ({error})"
        ) from error
    if strangers:
        raise FileExistsError(
            f"{path} is more than a store, so it is not replaced even with force: it has "
            f"{', '.join(strangers[:5])}{' ...' if len(strangers) > 5 else ''} in it."
        )


def _place(temporary: Path, target: Path, path: Path, force: bool) -> None:
    """Give a directory the name `target`; with `force`, even if there is a store.

    A directory with files in it cannot be replaced at one stroke: for a moment there is none.
    """
    old = temporary_beside(target)
    try:
        while True:
            try:
                temporary.rename(target)
                break
            except OSError as error:
                if error.errno not in OCCUPIED:
                    raise
                if not force:
                    raise taken(path) from None
            shutil.rmtree(old, ignore_errors=True)  # somebody else put another one in its place
            with suppress(FileNotFoundError):  # somebody else does the same
                target.rename(old)
                _refuse_strangers(old, path)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    try:
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(old, ignore_errors=True)  # should Ctrl-C have come in between


def _sync(folder: Path) -> None:
    """Wait until the names in a directory are on disk."""
    if os.name == "nt":  # which has no such thing
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pages(n_bytes: int) -> Any:
    """Return memory that goes back to the system as soon as it is not used any more.

    malloc keeps what blocks leave behind, in pieces: reading 17 MB blocks again and again, it held
    382 MB where 200 MB were in use.
    """
    if os.name == "nt" or n_bytes == 0:
        return bytearray(n_bytes)
    return memoryview(mmap.mmap(-1, n_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _file(folder: Path, b: int, name: str) -> Path:
    return folder / f"{b:06d}.{name}.npy"


def _check_size(path: Path, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"The store is damaged: {path} has {found} bytes instead of {expected}.")


def _canonical(header: dict[str, Any]) -> bytes:
    """Return a header as bytes to take a checksum of."""
    return json.dumps(header, sort_keys=True).encode()


def _read_header(path: Path) -> dict[str, Any]:
    """Return a header whose parts are all there and of the right kind."""
    if not path.is_dir():
        raise FileNotFoundError(f"There is no directory {path}.")
    file = path / HEADER
    if not file.is_file():
        raise ValueError(f"{path} is not a store: it has no {HEADER}.")
    try:
        if file.stat().st_size > MOST_TEXT:
            raise ValueError(f"it has more than {MOST_TEXT:,} bytes")
        with naming(file):
            header = parse_object(file.read_bytes().decode())
        crc, content = header.pop(CRC, None), _canonical(header)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged ({error}).") from error
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} is not a store: its {HEADER} is something else.")
    if header.get("version") != VERSION:
        raise ValueError(
            f"{path} has store version {header.get('version')!r:.20}, but this version of "
            f"dualsweep reads {VERSION}. Update dualsweep, or convert the data again."
        )
    if crc is not None and crc != crc32(content):
        raise ValueError(f"{file} is damaged: it differs from its checksum.")
    problem = _header_problem(header)
    if problem:
        raise ValueError(f"{file} is damaged: {problem}.")
    return header


def _header_problem(header: dict[str, Any]) -> str | None:
    shape, dtype, blocks = (header.get(name) for name in ("shape", "dtype", "blocks"))
    if not (isinstance(shape, list) and len(shape) == 2 and all(map(is_count, shape))):
        return "it tells no shape"
    if dtype not in ("float32", "float64"):
        return "it tells no type"
    if not (isinstance(blocks, list) and blocks):
        return "it tells no blocks"
    try:
        counts = [
            [block["rows"], block["entries"]]
            + [block[name][fact] for name in ARRAYS for fact in ("bytes", CRC)]
            for block in blocks
        ]
    except (KeyError, TypeError):
        return "it does not tell all of its blocks"
    if not all(is_count(count) for block in counts for count in block) or not all(
        block["rows"] > 0 and block[name]["bytes"] > 0 for block in blocks for name in ARRAYS
    ):
        return "it tells sizes of blocks that are none"
    n_rows = sum(block["rows"] for block in blocks)
    if n_rows != shape[0]:
        return f"the blocks have {n_rows} rows, the store {shape[0]}"
    return None

"""Stores to write, from arrays or svmlight text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from .._checks import MOST_TEXT
from .._npz import plain
from ..svmlight import iter_svmlight
from .directory import new_store
from .format import ARRAYS, CRC, FORMAT, HEADER, VERSION, array_file, canonical
from .reading import Store

BLOCK_BYTES = 64 << 20
FLOATS = (np.float32, np.float64)


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
    block_bytes : int, default=64 << 20
        Size of a block, 64 MiB; only a single row can be larger. A tenth of what training may take,
        or less, is best.
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
    with open_writer(path, block_bytes=block_bytes, force=force) as writer:
        writer.append(X, y)
    store = writer.store
    store.path = Path(path)
    return store


@contextmanager
def open_writer(
    path: str | Path,
    *,
    n_features: int | None = None,
    dtype: Any = None,
    block_bytes: int = BLOCK_BYTES,
    force: bool = False,
) -> Iterator[ChunkWriter]:
    """Write chunks of rows to a store, which there is when the ``with`` block has ended well.

    A block of rows and a chunk are in memory at a time.

    Parameters
    ----------
    path : str or Path
        The directory to write; see `write_store`.
    n_features : int, default=None
        Number of columns; that of the first chunk if None.
    dtype : {float32, float64}, default=None
        Type of the values; that of the first chunk if None, and float64 if that is no float.
    block_bytes : int, default=64 << 20
        Size of a block, 64 MiB. A tenth of what training may take, or less, is best.
    force : bool, default=False
        Whether to replace a store that exists.

    Yields
    ------
    ChunkWriter
        Its method ``append(X, y)`` takes rows, dense or sparse, and their labels.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from dualsweep.io import open_store, open_writer
    >>> rng = np.random.default_rng(0)
    >>> with TemporaryDirectory() as folder:
    ...     with open_writer(Path(folder, "random")) as writer:
    ...         for _ in range(3):
    ...             X = rng.normal(size=(100, 5))
    ...             writer.append(X, X[:, 0] > 0)
    ...     store = open_store(Path(folder, "random"))
    ...     X, y = store.load()
    >>> X.shape, y.dtype
    ((300, 5), dtype('bool'))
    """
    with new_store(Path(path), force) as folder:
        writer = ChunkWriter(Writer(folder, block_bytes), n_features, dtype)
        yield writer
        writer.finish()


class ChunkWriter:
    """Takes chunks of rows and labels, and makes them alike; see `open_writer`."""

    def __init__(self, writer: Writer, n_features: int | None, dtype: Any) -> None:
        if dtype is not None and np.dtype(dtype) not in FLOATS:
            raise ValueError(f"dtype must be float32 or float64, but is {np.dtype(dtype)}.")
        self._writer, self._n_features, self._n_rows = writer, n_features, 0
        self._dtype = None if dtype is None else np.dtype(dtype)
        self._labels: set[Any] = set()  # their types

    def append(self, X: Any, y: Any) -> None:
        """Add rows and their labels: numbers or text, of one kind in all chunks."""
        X, y = sp.csr_array(X), plain(np.asarray(y))
        if y.shape != (X.shape[0],):
            raise ValueError(f"X has {X.shape[0]} rows, but y has the shape {y.shape}.")
        if self._n_features is None:
            self._n_features = X.shape[1]
        if X.shape[1] != self._n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but chunks of this store have {self._n_features}."
            )
        if self._dtype is None:
            self._dtype = X.dtype if X.dtype in FLOATS else np.dtype(np.float64)
        kinds = {dtype.kind in "US" for dtype in (*self._labels, y.dtype)}
        if len(kinds) > 1:
            raise ValueError("Labels of all chunks must be text, or those of all numbers.")
        if len(y) == 0:
            return
        X = X.astype(self._dtype, copy=False)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        self._labels.add(y.dtype)
        self._n_rows += len(y)
        self._writer.append(X.data, X.indices, X.indptr.astype(np.int64, copy=False), y)

    def finish(self) -> None:
        """Write the rest; labels get the type that holds all of them."""
        if self._n_rows == 0:
            raise ValueError("X has no rows.")
        assert self._n_features is not None
        self._writer.flush()
        if len(self._labels) > 1:
            dtype = np.result_type(*self._labels)
            for b in range(len(self._writer.blocks)):
                self._writer.change(b, "y", lambda y: y.astype(dtype))
        self.store = self._writer.finish(self._n_features, self._dtype)


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
    path : str or Path
        The directory to write; see `write_store`.
    dtype : {np.float32, np.float64}, default=np.float32
        Type of the values.
    zero_based : bool or "auto", default="auto"
        Whether the first column has index 0, or 1 as LIBSVM counts. "auto": 0 if that occurs in
        the file.
    n_jobs : int, default=None
        Threads that read text. None means 1, -1 all cores.
    block_bytes : int, default=64 << 20
        Size of a block, 64 MiB. A tenth of what training may take, or less, is best.
    force : bool, default=False
        Whether to replace a store that exists.
    watch : callable, default=None
        Called, as reading goes on, with the number of bytes of the file that have been read.

    Returns
    -------
    Store
        The store, opened. Labels are integers if the text has no others.
    """
    with new_store(Path(path), force) as folder:
        writer = Writer(folder, block_bytes)
        # "auto" takes the first column to have index 1 until an index 0 comes.
        base = 1 if zero_based == "auto" else int(not zero_based)
        highest, integers, n_to_shift = -1, True, 0
        for block in iter_svmlight(
            file, dtype=dtype, zero_based=zero_based, n_jobs=n_jobs, watch=watch
        ):
            if zero_based == "auto" and block.lowest < base:
                writer.flush()  # the blocks so far are off by one, until the end
                base, n_to_shift = 0, len(writer.blocks)
            np.subtract(block.indices, base, out=block.indices)
            if len(block.data):
                highest = max(highest, block.highest)
            integers = integers and _are_integers(block.labels)
            writer.append(block.data, block.indices, block.indptr, block.labels)
        writer.flush()
        if not writer.blocks:
            raise ValueError(f"{file} has no rows.")
        for b in range(n_to_shift):
            writer.change(b, "indices", lambda indices: indices + 1)
        if integers:
            for b in range(len(writer.blocks)):
                writer.change(b, "y", lambda y: y.astype(np.int64))
        store = writer.finish(max(highest + 1 - base, 0), dtype)
    store.path = Path(path)
    return store


def _are_integers(labels: Any) -> bool:
    with np.errstate(invalid="ignore"):
        return bool((labels.astype(np.int64) == labels).all())


class Writer:
    """Cuts rows into blocks and writes them."""

    def __init__(self, folder: Path, block_bytes: int) -> None:
        if block_bytes < 1:
            raise ValueError(f"block_bytes is {block_bytes}, but must be positive.")
        self.folder = folder
        self.block_bytes = self.room = block_bytes
        self.pending: list[tuple[Any, ...]] = []
        self.blocks: list[dict[str, Any]] = []

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
            join = _chain_pointers if name == "indptr" else np.concatenate
            self._save(len(self.blocks) - 1, name, join(parts.pop(name)))

    def change(self, b: int, name: str, change: Callable[[Any], Any]) -> None:
        """Replace an array of a block that has been written."""
        self._save(b, name, change(np.load(array_file(self.folder, b, name), allow_pickle=False)))

    def _save(self, b: int, name: str, array: Any) -> None:
        with array_file(self.folder, b, name).open("wb") as file:
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
        text = json.dumps(header | {CRC: crc32(canonical(header))}, indent=1)
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


def _chain_pointers(pointers: Sequence[Any]) -> Any:
    """Join pointers that each start at 0."""
    starts = np.cumsum([0, *(pointer[-1] for pointer in pointers)])
    parts = [pointer[1:] + start for pointer, start in zip(pointers, starts, strict=False)]
    return np.concatenate([np.zeros(1, np.int64), *parts])

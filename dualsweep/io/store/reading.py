"""Stores to read: blocks of rows mapped or read into memory, compared with their checksums."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from .._checks import check_characters, check_indices, check_indptr
from .._files import naming
from .._npz import read_npy_header
from .format import ARRAYS, array_file, canonical, read_header

LONGEST_START = 1 << 14  # bytes before the numbers in a file of NumPy; it reads no more than 10,000


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
        header = read_header(self.path)
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
        self.fingerprint = sha256(canonical(header)).hexdigest()

    def _file(self, b: int, name: str) -> Path:
        return array_file(self.path, b, name)

    def __repr__(self) -> str:
        return f"<Store {self.path}: {self.shape[0]} rows, {self.shape[1]} features>"

    def __len__(self) -> int:
        return len(self._blocks)

    def block(self, b: int) -> tuple[sp.csr_array, Any]:
        """Return the rows and labels of block b, mapped into memory and read-only.

        `dualsweep.rows.as_rows` takes the rows without a copy. The first time, all of the block is
        read, for the sake of its checksums; whether it stays in memory is up to the system.

        Parameters
        ----------
        b : int
            Number of the block, from 0.
        """
        return self._block(self._map(b, name) for name in ARRAYS)

    def read(self, b: int) -> tuple[sp.csr_array, Any]:
        """Return the rows and labels of block b, read into memory.

        Parameters
        ----------
        b : int
            Number of the block, from 0.
        """
        return self._block(self._read(b, name) for name in ARRAYS)

    def read_labels(self, b: int) -> Any:
        """Return the labels of block b, read into memory.

        Parameters
        ----------
        b : int
            Number of the block, from 0.
        """
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


def _pages(n_bytes: int) -> Any:
    """Return memory that goes back to the system as soon as it is not used any more.

    malloc keeps what blocks leave behind, in pieces: reading 17 MB blocks again and again, it held
    382 MB where 200 MB were in use.
    """
    if os.name == "nt" or n_bytes == 0:
        return bytearray(n_bytes)
    return memoryview(mmap.mmap(-1, n_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _check_size(path: Path, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"The store is damaged: {path} has {found} bytes instead of {expected}.")

"""Read stores: blocks of rows, mapped or read into memory, and compared with their checksums."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..._typing import Array, JsonObject
from .._checks import blaming, check_characters, check_indices, check_indptr
from .._files import naming
from .._npz import read_npy_header
from .directory import ARRAYS, CRC, array_file, canonical, read_header

MAX_HEADER = 1 << 14  # bytes before the numbers of a file; NumPy reads no more than 10,000


class Checked(NamedTuple):
    """What is known of a file that was compared with its checksum."""

    version: tuple[int, int, int]  # size, time of change, and inode: a new file has another
    dtype: np.dtype
    start: int  # of the numbers


class Store:
    """Rows and labels on disk, in blocks that can be mapped into memory.

    A file is compared with its checksum when it is first used, and again after it was changed. That
    takes 0.4 s for each GB, besides 0.7 s to read it from the page cache, in the thread that reads.

    Parameters
    ----------
    path : str or Path
        The directory. Its header and the sizes of its files are checked now, its blocks when they
        are used; `verify` checks all of it.

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
        Differs between stores of different content, according to their checksums.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        header = read_header(self.path)
        n_rows, n_features = header["shape"]
        self.shape = (n_rows, n_features)
        self.dtype = np.dtype(header["dtype"])
        self._blocks: list[JsonObject] = header["blocks"]
        self._checked: dict[Path, Checked] = {}
        self._label_type: np.dtype | None = None  # unknown until labels are read
        for b in range(len(self)):
            for name in ARRAYS:
                file = array_file(self.path, b, name)
                if not file.exists():
                    raise ValueError(f"The store is damaged: {file} is missing.")
                self._check_size(b, name, file.stat().st_size)
        self.starts = np.cumsum([0, *(block["rows"] for block in self._blocks)])
        self.n_entries = sum(block["entries"] for block in self._blocks)
        self.block_bytes = np.array(
            [sum(block[name]["bytes"] for name in ARRAYS) for block in self._blocks]
        )
        self.n_bytes = int(self.block_bytes.sum())
        self.fingerprint = sha256(canonical(header)).hexdigest()

    def __repr__(self) -> str:
        return f"<Store {self.path}: {self.shape[0]} rows, {self.shape[1]} features>"

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[tuple[sp.csr_array, Array]]:
        return map(self.block, range(len(self)))

    def block(self, b: int) -> tuple[sp.csr_array, Array]:
        """Return the rows and labels of block b, mapped into memory and read-only.

        The first time, all of the block is read for its checksums. The system decides whether it
        stays in memory.

        Parameters
        ----------
        b : int
            Number of the block, from 0.
        """
        return self._rows(b, mapped=True)

    def read(self, b: int) -> tuple[sp.csr_array, Array]:
        """Return the rows and labels of block b, read into memory.

        Parameters
        ----------
        b : int
            Number of the block, from 0.
        """
        return self._rows(b, mapped=False)

    def read_labels(self, b: int) -> Array:
        """Return the labels of block b, read into memory.

        Parameters
        ----------
        b : int
            Number of the block, from 0.
        """
        return self._array(b, "y", mapped=False)

    @property
    def y(self) -> Array:
        """Labels of all rows, in memory."""
        return np.concatenate([self._array(b, "y", mapped=True) for b in range(len(self))])

    def load(self) -> tuple[sp.csr_array, Array]:
        """Return all rows and labels, in memory."""
        return sp.vstack([X for X, _ in self], format="csr"), self.y

    def verify(self, watch: Callable[[int], None] | None = None) -> None:
        """Compare all files with their checksums; ValueError if one differs.

        Parameters
        ----------
        watch : callable, default=None
            Called with the number of bytes that have been read, as reading goes on.
        """
        self._checked.clear()
        done = 0
        for b, block in enumerate(self._blocks):
            for name in ARRAYS:
                self._array(b, name, mapped=False)
                done += block[name]["bytes"]
                if watch is not None:
                    watch(done)

    def _rows(self, b: int, *, mapped: bool) -> tuple[sp.csr_array, Array]:
        data, indices, indptr, y = (self._array(b, name, mapped=mapped) for name in ARRAYS)
        # As arguments of csr_array, int32 indices would be copied to match int64 pointers.
        X = sp.csr_array((len(indptr) - 1, self.shape[1]), dtype=data.dtype)
        X.data, X.indices, X.indptr = data, indices, indptr
        return X, y

    def _array(self, b: int, name: str, *, mapped: bool) -> Array:
        """Return an array of a block, after a comparison with its checksum if the file is new."""
        path, block = array_file(self.path, b, name), self._blocks[b]
        with naming(path), path.open("rb") as file:
            status = os.fstat(file.fileno())
            self._check_size(b, name, status.st_size)
            if mapped:
                content: Array = np.memmap(file, np.uint8, "r")
            else:
                content = _pages(status.st_size)
                if file.readinto(content.data) != status.st_size:
                    raise ValueError(f"The store is damaged: {path} is cut short.")
        version = status.st_size, status.st_mtime_ns, status.st_ino
        checked = self._checked.get(path)
        if checked is None or checked.version != version:
            if crc32(content.data) != block[name][CRC]:
                raise ValueError(f"The store is damaged: {path} differs from its checksum.")
            with blaming(f"The store is damaged: {path}"):
                checked = Checked(version, *self._inspect(name, content, block))
            self._checked[path] = checked
        return content[checked.start :].view(checked.dtype)

    def _inspect(self, name: str, content: Array, block: JsonObject) -> tuple[np.dtype, int]:
        """Return type and start of the numbers in a file; ValueError if they cannot be used.

        A checksum proves that a file is as it was written, not that it was written by dualsweep.
        """
        head = BytesIO(content[:MAX_HEADER].tobytes())
        shape, dtype = read_npy_header(head)
        start = head.tell()
        n: int = block["rows" if name in ("indptr", "y") else "entries"] + (name == "indptr")
        if shape != (n,) or start + n * dtype.itemsize != len(content):
            raise ValueError(f"it has shape {shape} and {len(content)} bytes instead of ({n},)")
        types = {"data": [self.dtype.name], "indices": ["int32", "int64"], "indptr": ["int64"]}
        if dtype not in types.get(name, [dtype]):
            raise ValueError(f"it has the type {dtype}")
        array = np.frombuffer(content, dtype, offset=start)
        if not array.flags.aligned:
            raise ValueError(f"its numbers start at byte {start}")
        if name == "indptr":
            check_indptr(array, block["rows"], block["entries"])
        elif name == "indices":
            check_indices(array, self.shape[1])
        elif name == "y":
            check_characters(array)
            self._label_type = self._label_type or dtype
            if dtype != self._label_type:
                raise ValueError(f"its labels are {dtype}, and others {self._label_type}")
        return dtype, start

    def _check_size(self, b: int, name: str, found: int) -> None:
        size, file = self._blocks[b][name]["bytes"], array_file(self.path, b, name)
        if found != size:
            raise ValueError(f"The store is damaged: {file} has {found} bytes instead of {size}.")


def open_store(path: str | Path) -> Store:
    """Open a store that `write_store` or `convert_svmlight` wrote.

    Parameters
    ----------
    path : str or Path
        The directory; see `Store`.
    """
    return Store(path)


def _pages(n_bytes: int) -> Array:
    """Return memory that goes back to the system as soon as it is unused.

    malloc keeps fragments: after many blocks of 17 MB it held 382 MB, with 200 MB in use.
    """
    if os.name == "nt" or n_bytes == 0:
        return np.empty(n_bytes, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, n_bytes, flags), np.uint8)

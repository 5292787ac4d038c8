"""Write stores, from arrays or svmlight text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..._typing import Array, Given, JsonObject
from .._checks import whole_numbers
from .._files import synced_file
from .._npz import without_objects
from ..svmlight import iter_svmlight
from .directory import ARRAYS, CRC, array_file, new_store, write_header
from .reading import Store

BLOCK_BYTES = 64 << 20
FLOATS = (np.float32, np.float64)


def write_store(
    path: str | Path,
    X: Given,
    y: Given,
    *,
    block_bytes: int = BLOCK_BYTES,
    force: bool = False,
) -> Store:
    """Write rows and labels to a store, and open it.

    Parameters
    ----------
    path : str or Path
        The directory to write, which appears complete or not at all. A process that is killed
        leaves ``.dualsweep.*.tmp`` beside it, which can be deleted.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows. float32 and float64 are kept, other numbers become float64.
    y : array-like of shape (n_samples,)
        Labels: numbers or text.
    block_bytes : int, default=64 << 20
        Size of a block, 64 MiB. At most a tenth of the memory for training is best.
    force : bool, default=False
        Whether to replace a store. A directory with anything else in it is never replaced.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from dualsweep.io import write_store
    >>> X, y = load_iris(return_X_y=True)
    >>> with TemporaryDirectory() as folder:
    ...     store = write_store(f"{folder}/iris", X, y, block_bytes=4000)
    ...     store.verify()
    ...     sizes = [rows.shape[0] for rows, labels in store]
    >>> store.shape, sizes
    ((150, 4), [62, 62, 26])
    """
    with open_writer(path, block_bytes=block_bytes, force=force) as writer:
        writer.append(X, y)
    return writer.store


@contextmanager
def open_writer(
    path: str | Path,
    *,
    n_features: int | None = None,
    dtype: npt.DTypeLike | None = None,
    block_bytes: int = BLOCK_BYTES,
    force: bool = False,
) -> Iterator[StoreWriter]:
    """Write chunks of rows to a store, which appears when the ``with`` block ends without an error.

    The writer that it gives has the method ``append(X, y)``, which takes rows, dense or sparse, and
    their labels. A block of rows and a chunk are in memory at a time.

    Parameters
    ----------
    path : str or Path
        The directory to write; see `write_store`.
    n_features : int, default=None
        Number of columns. None means those of the first chunk.
    dtype : {float32, float64}, default=None
        Type of the values. None means that of the first chunk, or float64 if that is no float.
    block_bytes : int, default=64 << 20
        Size of a block, 64 MiB. At most a tenth of the memory for training is best.
    force : bool, default=False
        Whether to replace an existing store.
    """
    with new_store(Path(path), force) as folder:
        writer = StoreWriter(folder, block_bytes, n_features, dtype)
        yield writer
        writer.finish()
    writer.store.path = Path(path)


def convert_svmlight(
    file: str | Path,
    path: str | Path,
    *,
    dtype: npt.DTypeLike = np.float32,
    zero_based: bool | str = "auto",
    n_jobs: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    force: bool = False,
    watch: Callable[[int], None] | None = None,
) -> Store:
    """Write svmlight text to a store in one pass, in memory for two blocks, and open it.

    Labels become integers if the text has no others.

    Parameters
    ----------
    file : str or Path
        The text, plain or compressed.
    path : str or Path
        The directory to write; see `write_store`.
    dtype : {np.float32, np.float64}, default=np.float32
        Type of the values.
    zero_based : bool or "auto", default="auto"
        Whether columns count from 0, or from 1 as LIBSVM does. "auto": from 0 if that occurs.
    n_jobs : int, default=None
        Threads that read text. None means 1, -1 all cores.
    block_bytes : int, default=64 << 20
        Size of a block, 64 MiB. At most a tenth of the memory for training is best.
    force : bool, default=False
        Whether to replace an existing store.
    watch : callable, default=None
        Called with the number of bytes of the file that have been read, as reading goes on.
    """
    with open_writer(path, dtype=dtype, block_bytes=block_bytes, force=force) as writer:
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
            highest = max(highest, block.highest)
            integers = integers and whole_numbers(block.labels) is not None
            writer.add(block.data, block.indices, block.indptr, block.labels)
        writer.flush()
        if not writer.blocks:
            raise ValueError(f"{file} has no rows.")
        for b in range(n_to_shift):
            writer.change(b, "indices", lambda indices: indices + 1)
        writer.n_features = max(highest + 1 - base, 0)
        writer.label_type = np.dtype(np.int64) if integers else None
    return writer.store


class StoreWriter:
    """Cuts rows into blocks and writes them to a directory; see `open_writer`."""

    def __init__(
        self, folder: Path, block_bytes: int, n_features: int | None, dtype: npt.DTypeLike | None
    ) -> None:
        if block_bytes < 1:
            raise ValueError(f"block_bytes is {block_bytes}, but must be positive.")
        self._dtype = None if dtype is None else np.dtype(dtype)
        if self._dtype not in (None, *FLOATS):
            raise ValueError(f"dtype must be float32 or float64, but is {self._dtype}.")
        self._folder, self.n_features = folder, n_features
        self._block_bytes = self._room = block_bytes
        self._pending: list[tuple[Array, ...]] = []  # rows of the next block, as in `ARRAYS`
        self._label_types: set[np.dtype] = set()  # of the chunks
        self.label_type: np.dtype | None = None  # that labels are to have; None keeps theirs
        self.blocks: list[JsonObject] = []  # those written, as in the header
        self.store: Store  # once it is complete

    def append(self, X: Given, y: Given) -> None:
        """Add rows and their labels: numbers or text, of one kind in all chunks."""
        rows, labels = sp.csr_array(X), without_objects(np.asarray(y))
        n_rows, n_features = rows.shape
        if labels.shape != (n_rows,):
            raise ValueError(f"X has {n_rows} rows, but y has the shape {labels.shape}.")
        if self.n_features is None:
            self.n_features = n_features
        if n_features != self.n_features:
            raise ValueError(
                f"X has {n_features} features, but chunks of this store have {self.n_features}."
            )
        if self._dtype is None:
            self._dtype = rows.dtype if rows.dtype in FLOATS else np.dtype(np.float64)
        if len({dtype.kind in "US" for dtype in (*self._label_types, labels.dtype)}) > 1:
            raise ValueError("Labels of all chunks must be text, or those of all numbers.")
        if n_rows == 0:
            return
        rows = rows.astype(self._dtype, copy=False)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self._label_types.add(labels.dtype)
        self.add(rows.data, rows.indices, rows.indptr.astype(np.int64, copy=False), labels)

    def add(self, data: Array, indices: Array, indptr: Array, y: Array) -> None:
        """Add rows without a check; `indptr` starts at 0."""
        per_entry, per_row = data.itemsize + indices.itemsize, indptr.itemsize + y.itemsize
        sizes = indptr * per_entry + np.arange(len(indptr)) * per_row  # of the rows before each
        row, end = 0, len(y)
        while row < end:
            stop = int(np.searchsorted(sizes, sizes[row] + self._room, side="right")) - 1
            if stop <= row and self._pending:
                self.flush()
                continue
            stop = max(stop, row + 1)
            a, b = indptr[row], indptr[stop]
            lengths = np.diff(indptr[row : stop + 1])
            entries = data[a:b].copy(), indices[a:b].copy()
            self._pending.append((*entries, lengths, y[row:stop].copy()))
            self._room -= sizes[stop] - sizes[row]
            row = stop

    def flush(self) -> None:
        """Write the pending rows as a block."""
        if not self._pending:
            return
        parts = dict(zip(ARRAYS, zip(*self._pending, strict=True), strict=True))
        self._pending, self._room = [], self._block_bytes
        sizes = {"rows": sum(map(len, parts["y"])), "entries": sum(map(len, parts["data"]))}
        self.blocks.append(sizes)
        for name in ARRAYS:  # one after the other, so that only one is in memory twice
            array = np.concatenate(parts.pop(name))
            if name == "indptr":  # so far the length of each row
                array = np.concatenate([np.zeros(1, np.int64), np.cumsum(array)])
            self._save(len(self.blocks) - 1, name, array)

    def change(self, b: int, name: str, change: Callable[[Array], Array]) -> None:
        """Replace an array of a block that has been written."""
        self._save(b, name, change(np.load(array_file(self._folder, b, name), allow_pickle=False)))

    def _save(self, b: int, name: str, array: Array) -> None:
        head = BytesIO()
        np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
        size = crc = 0
        with synced_file(array_file(self._folder, b, name), "wb") as file:
            for part in (head.getvalue(), array.view(np.uint8).data):
                size += file.write(part)
                crc = crc32(part, crc)
        self.blocks[b][name] = {"bytes": size, CRC: crc}

    def finish(self) -> None:
        """Write the last block and the header, with labels of one type, and open the store."""
        self.flush()
        if self.n_features is None or self._dtype is None or not self.blocks:
            raise ValueError("X has no rows.")
        if len(self._label_types) > 1:
            self.label_type = np.result_type(*self._label_types)
        if self.label_type is not None:
            for b in range(len(self.blocks)):
                self.change(b, "y", lambda y: y.astype(self.label_type))
        n_rows = sum(block["rows"] for block in self.blocks)
        write_header(self._folder, (n_rows, self.n_features), self._dtype.name, self.blocks)
        self.store = Store(self._folder)

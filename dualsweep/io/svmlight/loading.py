"""Read rows from svmlight (LIBSVM) text, or say what is wrong with it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from importlib import import_module
from io import BufferedIOBase, BufferedReader
from itertools import pairwise
from math import copysign, isfinite
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ... import _tuning
from ..._threads import count_threads
from ..._typing import Array
from .._files import naming
from .kernel import DONE, HUGE_INDEX, MAX_INDEX_DIGITS, NEWLINE, NO_ENTRY, Scan, scan_lines

PADDING = 8  # bytes for a newline, and for what the kernel may read after it
DEFERRED = 4096  # numbers left to Python that a chunk has room for at first
SHOWN = 40  # characters of bad text in an error
EXACT = 2.0**53  # below, float64 has every integer

TABLES = {".csv", ".tsv", ".parquet", ".feather"}
ABOUT_TABLES = (
    "Files of text are read in svmlight format, label index:value index:value; for tables use "
    "Python: LinearSVC takes the frames that pandas and polars read."
)


class Block(NamedTuple):
    """Consecutive rows of a text, as CSR whose indices count as the text does."""

    data: Array
    indices: Array
    indptr: Array
    labels: Array
    label_ptr: Array | None  # where a row's labels start; None if each has one
    lowest: int  # index; 2**63 if there are none
    highest: int  # index; -1 if there are none
    n_lines: int


class MalformedError(Exception):
    """Text that is not svmlight, by line and column of its chunk."""

    def __init__(self, chars: Array, at: int, problem: str) -> None:
        super().__init__(problem)
        text = chars[:at].tobytes()
        self.line = text.count(b"\n") + 1
        self.column = at - text.rfind(b"\n")


class Memory:
    """Arrays for a chunk of text and its rows, used again for later chunks.

    Reading 238 MB has 2,000 to 5,000 page faults; with new arrays for each chunk it had 48,000.
    """

    def __init__(self) -> None:
        self._bytes: dict[str, Array] = {}

    def array(self, name: str, n: int, dtype: npt.DTypeLike) -> Array:
        """Return an uninitialised array, in place of the last one of that name."""
        size = n * np.dtype(dtype).itemsize
        if name not in self._bytes or len(self._bytes[name]) < size:
            self._bytes[name] = np.empty(size, np.uint8)
        return self._bytes[name][:size].view(dtype)


def load_svmlight(
    path: str | Path,
    *,
    dtype: npt.DTypeLike = np.float64,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    multilabel: bool = False,
    n_jobs: int | None = None,
    watch: Callable[[int], None] | None = None,
) -> tuple[sp.csr_array, Array | list[tuple[float, ...]]]:
    r"""Read svmlight (LIBSVM) text: ``label index:value index:value ...``, one row per line.

    Parameters
    ----------
    path : str or Path
        The file: text, or text compressed by gzip, bzip2, xz or Zstandard, as its first bytes say.
        Zstandard needs Python 3.14 or the extra ``dualsweep[zst]``.
    dtype : {np.float64, np.float32}, default=np.float64
        Type of the values.
    n_features : int, default=None
        Number of columns, at least as many as the file has. None means as many.
    zero_based : bool or "auto", default="auto"
        Whether columns count from 0, or from 1 as LIBSVM does. "auto": from 0 if that occurs.
    multilabel : bool, default=False
        Whether lines have any number of labels, separated by commas.
    n_jobs : int, default=None
        Threads. None means 1, -1 all cores. The result does not depend on it.
    watch : callable, default=None
        Called with the number of bytes of the file that have been read, as reading goes on.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Rows, with int32 indices if those suffice. Zeros that are written out are stored.
    y : ndarray of shape (n_samples,) or list of tuples
        Labels; the sorted labels of each row if `multilabel`.

    Notes
    -----
    Malformed text is a ValueError, whose message has file, line, column and the text.

    A value is the `dtype` nearest to the decimal number, as Python's `float` gives it
    (scikit-learn rounds float32 twice, by way of float64, and so sometimes wrongly). The words nan
    and inf are read as `float` does, numbers that are too large as inf; `fit` refuses them. Labels
    are float64. A label from 2^53 on that float64 does not have is refused, since it would become
    another label. Indices must increase along a line, as in scikit-learn and LIBLINEAR, and have up
    to 18 digits. ``qid:`` after the label, comments after ``#`` and blank lines are skipped.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dualsweep.io import load_svmlight
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.svm")
    ...     _ = path.write_text("+1 1:0.5 3:1  # a comment\n-1 2:2\n")
    ...     X, y = load_svmlight(path)
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]], [1.0, -1.0])
    """
    n_read = 0

    def note(n: int) -> None:
        nonlocal n_read
        n_read = n
        if watch is not None:
            watch(n)

    data, indices, labels = _Growing(dtype), _Growing(np.int32), _Growing(np.float64)
    indptr, label_ptr = _Growing(np.int64), _Growing(np.int64)
    lowest, highest = 1, -1
    for block in iter_svmlight(
        path, dtype=dtype, zero_based=zero_based, multilabel=multilabel, n_jobs=n_jobs, watch=note
    ):
        share = n_read / max(Path(path).stat().st_size, n_read) if n_read else 1.0
        indptr.append(block.indptr[1:] + data.n, share)
        if block.label_ptr is not None:
            label_ptr.append(block.label_ptr[1:] + labels.n, share)
        for whole, part in ((data, block.data), (indices, block.indices), (labels, block.labels)):
            whole.append(part, share)
        lowest, highest = min(lowest, block.lowest), max(highest, block.highest)
    base = lowest if zero_based == "auto" else int(not zero_based)
    found = max(highest + 1 - base, 0)
    if n_features is None:
        n_features = found
    elif n_features < found:
        raise ValueError(
            f"{path} has {found} features, but n_features is {n_features}. The first column was "
            f"taken to have index {base}; if that is wrong, pass zero_based."
        )
    y = labels.array()
    columns = indices.array()
    columns -= base
    starts = np.append(0, indptr.array())
    if data.n <= np.iinfo(columns.dtype).max:  # SciPy wants both of the same type
        starts = starts.astype(columns.dtype)
    X = sp.csr_array((data.array(), columns, starts), shape=(len(starts) - 1, n_features))
    if not multilabel:
        return X, y
    ends = [0, *label_ptr.array().tolist()]
    return X, [tuple(sorted(y[a:b].tolist())) for a, b in pairwise(ends)]


class _Growing:
    """An array to append to. Collecting parts to join them at the end takes twice the memory."""

    MARGIN = 1.1  # more room than is expected to be needed
    MAX_GROWTH = 64  # the first rows may be unlike the others

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._room = np.empty(0, dtype)
        self.n = 0

    def append(self, part: Array, share: float) -> None:
        """Append an array; the whole is then about this share of what it will be."""
        n = self.n + len(part)
        dtype = np.result_type(self._room, part)
        if n > len(self._room) or dtype != self._room.dtype:
            room = np.empty(int(min(self.MARGIN / share, self.MAX_GROWTH) * n) + 1, dtype)
            room[: self.n] = self._room[: self.n]
            self._room = room
        self._room[self.n : n] = part
        self.n = n

    def array(self) -> Array:
        """Return the whole, without the room that is left."""
        self._room.resize(self.n, refcheck=False)
        return self._room


def iter_svmlight(
    path: str | Path,
    *,
    dtype: npt.DTypeLike = np.float64,
    zero_based: bool | str = "auto",
    multilabel: bool = False,
    n_jobs: int | None = None,
    watch: Callable[[int], None] | None = None,
) -> Iterator[Block]:
    """Yield the blocks of a text, in bounded memory; for the parameters see `load_svmlight`.

    Indices are as in the text: only its end shows whether it counts from 0. Copy what you keep:
    later blocks use the arrays again.
    """
    path = Path(path)
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype is {dtype}, but must be float32 or float64.")
    if zero_based not in (True, False, "auto"):
        raise ValueError(f'zero_based is {zero_based!r}, but must be True, False or "auto".')
    parse = partial(_parse_chunk, dtype=dtype, one_based=not zero_based, multilabel=multilabel)
    spare: list[Memory] = []
    n_lines = 0
    try:
        chunks = _read_chunks(path, _tuning.TEXT_CHUNK, spare, watch)
        for memory, block in _parse_ahead(parse, chunks, count_threads(n_jobs)):
            n_lines += block.n_lines
            yield block
            spare.append(memory)
    except MalformedError as error:
        about = f" {ABOUT_TABLES}" if TABLES & {end.lower() for end in path.suffixes} else ""
        raise ValueError(
            f"{path}, line {n_lines + error.line}, column {error.column}: {error}{about}"
        ) from None


def _read_chunks(
    path: Path, size: int, spare: list[Memory], watch: Callable[[int], None] | None
) -> Iterator[tuple[Memory, Array]]:
    """Yield chunks of about `size` bytes that end with a newline, each in spare or new memory.

    Text is read, not mapped: that is as fast, and a file cut short meanwhile is no crash.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory, not a file.")
    with path.open("rb") as file:
        stream, damages = _decompressed(file, path)
        rest = b""  # the start of a line that goes on
        while True:
            memory = spare.pop() if spare else Memory()
            start = len(rest)
            room = start + max(size, start)  # doubles as long as a line does not end
            text = memory.array("text", room + PADDING, np.uint8)
            view = memoryview(text.data)
            view[:start] = rest
            try:
                with naming(path):
                    end = start + stream.readinto(view[start:room])
            except damages as error:
                raise ValueError(f"{path} is damaged or cut short ({error}).") from error
            if watch is not None and file.seekable():  # a pipe has no position
                watch(file.tell())
            if end == start:
                break
            cut = _after_last_newline(view[:end])
            rest = bytes(view[cut:end])
            if cut:
                yield memory, text[:cut]
        if rest:
            text[end] = NEWLINE
            yield memory, text[: end + 1]


def _after_last_newline(view: memoryview, step: int = 1 << 16) -> int:
    """Return the end of the last whole line; 0 if there is none."""
    for end in range(len(view), 0, -step):
        start = max(end - step, 0)
        found = bytes(view[start:end]).rfind(b"\n")
        if found >= 0:
            return start + found + 1
    return 0


def _decompressed(
    file: BufferedReader, path: Path
) -> tuple[BufferedIOBase, tuple[type[Exception], ...]]:
    """Return the text of a file, and the errors of reading a damaged compressed file."""
    start = file.peek(8)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file), (OSError, EOFError, zlib.error)
    if start.startswith(b"BZh"):
        return bz2.BZ2File(file), (OSError, EOFError)
    if start.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(file), (lzma.LZMAError, EOFError)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        zstd = _zstd(path)
        return zstd.ZstdFile(file), (zstd.ZstdError, EOFError)
    return file, ()


def _zstd(path: Path) -> ModuleType:
    """Import Python's module, or its backport for Python before 3.14."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            pass
    raise ImportError(
        f"{path} is compressed by Zstandard, which Python before 3.14 does not read by itself. "
        'Get it with pip install "dualsweep[zst]", or decompress the file.'
    )


def _parse_ahead(
    parse: Callable[[Memory, Array], Block], chunks: Iterator[tuple[Memory, Array]], n_threads: int
) -> Iterator[tuple[Memory, Block]]:
    """Yield the block of each chunk, in order, while threads parse the next ones."""
    if n_threads == 1:
        yield from ((memory, parse(memory, text)) for memory, text in chunks)
        return
    waiting: deque[tuple[Memory, Future[Block]]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        for memory, text in chunks:
            waiting.append((memory, pool.submit(parse, memory, text)))
            if len(waiting) > n_threads:
                memory, future = waiting.popleft()
                yield memory, future.result()
        for memory, future in waiting:
            yield memory, future.result()


def _parse_chunk(
    memory: Memory, chars: Array, dtype: np.dtype, one_based: bool, multilabel: bool
) -> Block:
    """Return the rows of some whole lines, in arrays of `memory`."""
    # The shortest entry that the kernel counts is "1: ", the shortest row "1\n", and the shortest
    # list of labels ",\n", which are two.
    n = len(chars)
    data = memory.array("data", n // 3, f"u{dtype.itemsize}")
    indptr = memory.array("indptr", n // 2 + 1, np.int64)
    labels = memory.array("labels", n if multilabel else n // 2, np.uint64)
    label_ptr = memory.array("label_ptr", n // 2 + 1 if multilabel else 1, np.int64)
    indptr[0] = label_ptr[0] = 0
    int32_max = np.iinfo(np.int32).max
    room, wide = DEFERRED, False  # wide: some index needs int64
    while True:
        indices = memory.array("indices", n // 3, np.int64 if wide else np.int32)
        deferred = memory.array("deferred", 3 * room, np.int64).reshape(room, 3)
        arrays = data, indices, indptr, labels, label_ptr, deferred
        scan = Scan(*map(int, scan_lines(chars, multilabel, one_based, *arrays)))
        if scan.n_deferred <= room and (wide or scan.highest <= int32_max):
            break
        room, wide = max(room, scan.n_deferred), scan.highest > int32_max

    data, labels = data.view(dtype), labels.view(np.float64)
    for place, start, end in deferred[: scan.n_deferred].tolist():
        token = chars[start:end].tobytes()
        try:
            if place >= 0:
                data[place] = _read_value(token, dtype)
            else:
                labels[~place] = _read_label(token)
        except ValueError as error:
            raise MalformedError(chars, start, str(error)) from None
    if scan.status != DONE:
        previous = int(indices[scan.n_entries - 1]) if scan.n_entries else None
        raise MalformedError(chars, scan.at, _entry_problem(chars, scan, one_based, previous))
    return Block(
        data[: scan.n_entries],
        indices[: scan.n_entries],
        indptr[: scan.n_rows + 1],
        labels[: scan.n_labels],
        label_ptr[: scan.n_rows + 1] if multilabel else None,
        scan.lowest,
        scan.highest,
        scan.n_lines,
    )


def _read_value(token: bytes, dtype: np.dtype) -> float | np.floating:
    """Return the float nearest to a decimal number of any form that Python takes."""
    try:
        if b"_" in token:  # which Python takes between digits
            raise ValueError
        number = float(token)
    except ValueError:
        raise ValueError(f"{_shown(token)} is not a number.") from None
    if dtype == np.float64 or not isfinite(number):
        return number
    with np.errstate(over="ignore"):
        rounded: np.floating = dtype.type(number)
        # Rounded twice, a number next to the middle between two float32 can end on the wrong side.
        one = float(rounded) if np.isfinite(rounded) else copysign(2.0**128, number)
        other = 2.0 * number - one
        if one != other and float(dtype.type(other)) == other:
            exact, middle = Decimal(token.decode()), Decimal(number)
            if exact != middle:
                rounded = dtype.type(max(one, other) if exact > middle else min(one, other))
    return rounded


def _read_label(token: bytes) -> float:
    """Return a label, if float64 has it: the nearest that it has may be another label."""
    try:
        label = float(_read_value(token, np.dtype(np.float64)))
    except ValueError:
        problem = "is not a label; labels are numbers"
        if b":" in token:
            problem = "is not a label, and a line must start with one"
        elif b"," in token:
            problem = "are several labels where one is expected"
        raise ValueError(f"{_shown(token)} {problem}.") from None
    if isfinite(label):
        exact = abs(label) < EXACT or Decimal(token.decode()) == Decimal(label)
    else:
        exact = token.strip(b"+-").isalpha()  # inf or nan, and not a number too large
    if not exact:
        raise ValueError(
            f"float64 does not have the label {_shown(token)}; the nearest that it has is "
            f"{label:.17g}."
        )
    return label


def _entry_problem(chars: Array, scan: Scan, one_based: bool, previous: int | None) -> str:
    """Return what is wrong with the entry that ended the scan."""
    token = chars[scan.at : scan.at + 1000].tobytes().split(maxsplit=1)[0].partition(b"#")[0]
    if scan.status == NO_ENTRY:
        return f"{_shown(token)} is not index:value."
    if scan.status == HUGE_INDEX:
        return f"The index of {_shown(token)} has more than {MAX_INDEX_DIGITS} digits."
    index = int(token.partition(b":")[0])
    if index == 0 and one_based:
        return "Index 0, but the first column is said to have index 1."
    return f"Index {index} comes after {previous}, but indices must increase along a line."


def _shown(token: bytes) -> str:
    text = token[: SHOWN + 1].decode(errors="replace")
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")

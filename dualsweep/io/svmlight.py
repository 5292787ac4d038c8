"""Svmlight (LIBSVM) text, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from importlib import import_module
from itertools import pairwise
from math import copysign, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._threads import count_threads
from ..kernels.svmlight import (
    DONE,
    HUGE_INDEX,
    MOST_INDEX_DIGITS,
    NEWLINE,
    NO_ENTRY,
    Walk,
    parse_lines,
)
from ._files import naming

__all__ = ["Block", "chain_pointers", "iter_svmlight", "load_svmlight"]

CHUNK = 4 << 20  # bytes of text that a thread parses at a time
HARD = 4096  # numbers left to Python that a chunk has room for at first
PADDING = 8  # a newline, and what the kernel may read after it
SHOWN = 40  # characters of bad text in an error
EXACT = 2.0**53  # below, float64 has every integer


class Block(NamedTuple):
    """Consecutive rows of a text, as CSR whose indices count as the text does."""

    data: Any
    indices: Any
    indptr: Any
    labels: Any
    label_ptr: Any  # where a row's labels start; None if each has one
    lowest: int  # index, 2**63 if there are none
    highest: int  # index, 0 if there are none
    n_lines: int


def load_svmlight(
    path: str | Path,
    *,
    dtype: Any = np.float64,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    multilabel: bool = False,
    n_jobs: int | None = None,
    watch: Callable[[int], None] | None = None,
) -> tuple[sp.csr_array, Any]:
    r"""Read svmlight (LIBSVM) text: ``label index:value index:value ...``, one row per line.

    Parameters
    ----------
    path : str or Path
        The file: text, or text compressed by gzip, bzip2, xz or Zstandard, which its first bytes
        tell. Zstandard needs Python 3.14 or the extra ``dualsweep[zst]``.
    dtype : {np.float64, np.float32}, default=np.float64
        Type of the values.
    n_features : int, default=None
        Number of columns, at least as many as the file has; those, if None.
    zero_based : bool or "auto", default="auto"
        Whether the first column has index 0, or 1 as LIBSVM counts. "auto": 0 if that occurs in
        the file.
    multilabel : bool, default=False
        Whether lines have any number of labels, with commas between.
    n_jobs : int, default=None
        Threads. None means 1, -1 all cores. The result does not depend on it.
    watch : callable, default=None
        Called, as reading goes on, with the number of bytes of the file that have been read.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Rows, with int32 indices if those suffice. Zeros that are written out are stored.
    y : ndarray of shape (n_samples,) or list of tuples
        Labels; the sorted labels of each row if `multilabel`.

    Raises
    ------
    ValueError
        If the text is malformed; the message has file, line, column and the text.

    Notes
    -----
    A value is the `dtype` nearest to the decimal number, and so is what Python's `float` gives
    (`scikit-learn` rounds float32 twice, by way of float64, and thereby sometimes wrongly). The
    words that `float` takes, nan and inf, are taken too, and too large numbers are inf; `fit`
    refuses them. Labels are float64; from 2^53 on, where that does not have every integer any more,
    a label that it does not have is refused: it would become another. Indices have to increase
    along a line, as scikit-learn and LIBLINEAR want it, and have up to 18 digits. ``qid:`` after
    the label, comments after ``#`` and blank lines are skipped.

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

    data, indices, labels = _Joined(dtype), _Joined(np.int32), _Joined(np.float64)
    indptr, label_ptr = _Joined(np.int64), _Joined(np.int64)
    lowest, highest = 1, -1
    for block in iter_svmlight(
        path, dtype=dtype, zero_based=zero_based, multilabel=multilabel, n_jobs=n_jobs, watch=note
    ):
        share = n_read / max(Path(path).stat().st_size, n_read) if n_read else 1.0
        indptr.append(block.indptr[1:] + data.n, share)
        if multilabel:
            label_ptr.append(block.label_ptr[1:] + labels.n, share)
        if len(block.data):
            lowest, highest = min(lowest, block.lowest), max(highest, block.highest)
        for joined, part in ((data, block.data), (indices, block.indices), (labels, block.labels)):
            joined.append(part, share)
    base = lowest if zero_based == "auto" else int(not zero_based)
    found = highest + 1 - base if data.n else 0
    if n_features is None:
        n_features = found
    elif n_features < found:
        raise ValueError(
            f"{path} has {found} features, but n_features is {n_features}. The first column has "
            f"index {base}, or is that wrong? Then give zero_based."
        )
    y = labels.array()
    columns = indices.array()
    columns -= base
    starts = np.concatenate([np.zeros(1, np.int64), indptr.array()])
    if data.n <= np.iinfo(columns.dtype).max:  # SciPy wants both of the same type
        starts = starts.astype(columns.dtype)
    X = sp.csr_array((data.array(), columns, starts), shape=(len(starts) - 1, n_features))
    if not multilabel:
        return X, y
    ends = [0, *label_ptr.array().tolist()]
    return X, [tuple(sorted(y[a:b].tolist())) for a, b in pairwise(ends)]


class _Joined:
    """Arrays one after the other, in room for as many as there will be by the look of it.

    Collected and joined at the end, they would take twice the memory.
    """

    MARGIN = 1.1
    MOST_GROWTH = 64  # the first rows may be unlike the others

    def __init__(self, dtype: Any) -> None:
        self._room = np.empty(0, dtype)
        self.n = 0

    def append(self, part: Any, share: float) -> None:
        """Add an array; what there is then is about this share of all."""
        n = self.n + len(part)
        dtype = np.result_type(self._room, part)
        if n > len(self._room) or dtype != self._room.dtype:
            growth = min(self.MARGIN / share, self.MOST_GROWTH)
            room = np.empty(int(growth * n) + 1, dtype)
            room[: self.n] = self._room[: self.n]
            self._room = room
        self._room[self.n : n] = part
        self.n = n

    def array(self) -> Any:
        """Return the whole, and no more room than it needs."""
        self._room.resize(self.n, refcheck=False)
        return self._room


def iter_svmlight(
    path: str | Path,
    *,
    dtype: Any = np.float64,
    zero_based: bool | str = "auto",
    multilabel: bool = False,
    n_jobs: int | None = None,
    watch: Callable[[int], None] | None = None,
) -> Iterator[Block]:
    """Read svmlight text block by block, in bounded memory; see `load_svmlight`.

    The blocks have indices as the text does: whether it counts from 0 or 1 is not known before the
    last of them. The arrays of a block are used again for later ones: copy what is to last.
    """
    path = Path(path)
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype is {dtype}, but has to be float32 or float64.")
    if zero_based not in (True, False, "auto"):
        raise ValueError(f'zero_based is {zero_based!r}, but has to be True, False or "auto".')
    parse = partial(_parse, dtype=dtype, one_based=not zero_based, multilabel=multilabel)
    spare: list[_Slot] = []
    n_lines = 0
    try:
        for slot, block in _in_order(
            parse, _chunks(path, CHUNK, spare, watch), count_threads(n_jobs)
        ):
            n_lines += block.n_lines
            yield block
            spare.append(slot)
    except MalformedError as error:
        line = n_lines + error.line
        raise ValueError(f"{path}, line {line}, column {error.column}: {error}") from None


class _Slot:
    """Memory for a chunk of text and its rows, used for one chunk after the other.

    A first read of 238 MB of text had 48,000 page faults with memory allocated for every chunk, and
    has 2,000 to 5,000 with slots.
    """

    def __init__(self) -> None:
        self._memory: dict[str, Any] = {}

    def array(self, name: str, n: int, dtype: Any) -> Any:
        """Return an array with anything in it; that of the same name is gone."""
        size = n * np.dtype(dtype).itemsize
        if name not in self._memory or len(self._memory[name]) < size:
            self._memory[name] = np.empty(size, np.uint8)
        return self._memory[name][:size].view(dtype)


def _in_order(
    parse: Callable[[_Slot, Any], Block], chunks: Iterator[tuple[_Slot, Any]], n_threads: int
) -> Iterator[tuple[_Slot, Block]]:
    """Yield what `parse` makes of the chunks, a few of which are being parsed ahead."""
    if n_threads == 1:
        for slot, text in chunks:
            yield slot, parse(slot, text)
        return
    waiting: deque[tuple[_Slot, Any]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        for slot, text in chunks:
            waiting.append((slot, pool.submit(parse, slot, text)))
            if len(waiting) > n_threads:
                slot, future = waiting.popleft()
                yield slot, future.result()
        for slot, future in waiting:
            yield slot, future.result()


def _chunks(
    path: Path, size: int, spare: list[_Slot], watch: Callable[[int], None] | None
) -> Iterator[tuple[_Slot, Any]]:
    """Yield the text in pieces of whole lines, of about `size` bytes, each in a spare or new slot.

    Text is read and not mapped into memory: that is as fast, and a file that somebody cuts short
    meanwhile is no crash. The last line gets a newline if it has none.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory, not a file.")
    with path.open("rb") as file:
        stream, damages = _decompressed(file, path)
        rest = b""  # of the last line
        while True:
            slot = spare.pop() if spare else _Slot()
            start = len(rest)
            room = start + max(size, start)  # twice as much each time in a long line
            text = slot.array("text", room + PADDING, np.uint8)
            view = memoryview(text.data)
            view[:start] = rest
            try:
                with naming(path):
                    end = start + stream.readinto(view[start:room])
            except damages as error:
                raise ValueError(f"{path} is damaged or cut short ({error}).") from error
            if watch is not None and file.seekable():  # a pipe has no place in it
                watch(file.tell())
            if end == start:
                break
            cut = _after_last_newline(view[:end])
            rest = bytes(view[cut:end])
            if cut:
                yield slot, text[:cut]
        if rest:
            text[end] = NEWLINE
            yield slot, text[: end + 1]


def _after_last_newline(view: memoryview, step: int = 1 << 16) -> int:
    """Return the end of the last whole line; 0 if there is none."""
    for end in range(len(view), 0, -step):
        start = max(end - step, 0)
        found = bytes(view[start:end]).rfind(b"\n")
        if found >= 0:
            return start + found + 1
    return 0


def _decompressed(file: Any, path: Path) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return the text of a file, and what reading raises if the compressed file is damaged."""
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


def _zstd(path: Path) -> Any:
    """Import Python's module, or what brings it to Python before 3.14."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            pass
    raise ImportError(
        f"{path} is compressed by Zstandard, which Python before 3.14 does not read by itself. "
        'Get it with pip install "dualsweep[zst]", or decompress the file.'
    )


def _parse(slot: _Slot, chars: Any, dtype: Any, one_based: bool, multilabel: bool) -> Block:
    """Return the rows of some whole lines, in the memory of the slot."""
    # The shortest entry that the walk counts is "1: ", the shortest row "1\n", and the shortest
    # list of labels ",\n", which are two.
    n = len(chars)
    data = slot.array("data", n // 3, f"u{dtype.itemsize}")
    indptr = slot.array("indptr", n // 2 + 1, np.int64)
    labels = slot.array("labels", n if multilabel else n // 2, np.uint64)
    label_ptr = slot.array("label_ptr", n // 2 + 1 if multilabel else 1, np.int64)
    indptr[0] = label_ptr[0] = 0
    index_type: Any = np.int32
    n_hard = HARD
    while True:
        indices = slot.array("indices", n // 3, index_type)
        hard = slot.array("hard", 3 * n_hard, np.int64).reshape(n_hard, 3)
        walk = parse_lines(
            chars, multilabel, one_based, data, indices, indptr, labels, label_ptr, hard
        )
        if walk.n_hard <= n_hard and walk.highest <= np.iinfo(index_type).max:
            break
        if walk.highest > np.iinfo(index_type).max:
            index_type = np.int64
        n_hard = max(n_hard, walk.n_hard)

    data, labels = data.view(dtype), labels.view(np.float64)
    for place, start, end in hard[: walk.n_hard].tolist():
        token = chars[start:end].tobytes()
        try:
            if place >= 0:
                data[place] = _nearest(token, dtype)
            else:
                labels[~place] = _nearest(token, labels.dtype)
        except ValueError:
            problem = "is no number" if place >= 0 else _label_problem(token)
            raise MalformedError(chars, start, f"{_shown(token)} {problem}.") from None
    if walk.status != DONE:
        previous = indices[walk.n_entries - 1] if walk.n_entries else None
        raise MalformedError(chars, walk.at, _entry_problem(chars, walk, one_based, previous))
    labels = labels[: walk.n_labels]
    if (np.abs(labels) >= EXACT).any():
        _refuse_inexact(chars, labels, multilabel)
    return Block(
        data[: walk.n_entries],
        indices[: walk.n_entries],
        indptr[: walk.n_rows + 1],
        labels,
        label_ptr[: walk.n_rows + 1] if multilabel else None,
        walk.lowest,
        walk.highest,
        walk.n_lines,
    )


def _nearest(token: bytes, dtype: Any) -> Any:
    """Return the float that is nearest to a decimal number of any form that Python takes."""
    if b"_" in token:
        raise ValueError("an underscore is no digit here")
    number = float(token)
    if dtype == np.float64 or not isfinite(number):
        return number
    with np.errstate(over="ignore"):
        rounded = dtype.type(number)
        # Rounded twice, a number next to the middle between two float32 can end on the wrong side.
        one = float(rounded) if np.isfinite(rounded) else copysign(2.0**128, number)
        other = 2.0 * number - one
        if one != other and float(dtype.type(other)) == other:
            exact, middle = Decimal(token.decode()), Decimal(number)
            if exact > middle:
                return dtype.type(max(one, other))
            if exact < middle:
                return dtype.type(min(one, other))
    return rounded


def _refuse_inexact(chars: Any, labels: Any, multilabel: bool) -> None:
    """Refuse a label so large that the float64 nearest to it may be another label."""
    start, numbers = 0, iter(labels.tolist())
    for line in chars.tobytes().split(b"\n"):
        first = line.partition(b"#")[0].split(maxsplit=1)[:1]
        if first and not (multilabel and b":" in first[0]):
            at = start + line.index(first[0])
            for label in first[0].split(b",") if multilabel else first:
                number = next(numbers)
                if abs(number) >= EXACT and not _is_exactly(label, number):
                    raise MalformedError(
                        chars,
                        at,
                        f"float64 does not have the label {_shown(label)}; the nearest that it has "
                        f"is {number:.17g}.",
                    )
                at += len(label) + 1
        start += len(line) + 1


def _is_exactly(token: bytes, number: float) -> bool:
    if not isfinite(number):
        return token.strip(b"+-").isalpha()  # inf, and not a number too large
    return Decimal(token.decode()) == Decimal(number)


class MalformedError(Exception):
    """Text that is not svmlight, by line and column of some chunk."""

    def __init__(self, chars: Any, at: int, problem: str) -> None:
        super().__init__(problem)
        text = chars[:at].tobytes()
        self.line = text.count(b"\n") + 1
        self.column = at - text.rfind(b"\n")


def _label_problem(token: bytes) -> str:
    if b":" in token:
        return "is no label, with which a line has to start"
    if b"," in token:
        return "are several labels where one is expected"
    return "is no label; labels are numbers"


def _entry_problem(chars: Any, walk: Walk, one_based: bool, previous: Any) -> str:
    """Say what is wrong with an entry."""
    token = chars[walk.at : walk.at + 1000].tobytes().split(maxsplit=1)[0].partition(b"#")[0]
    if walk.status == NO_ENTRY:
        return f"{_shown(token)} is not index:value."
    if walk.status == HUGE_INDEX:
        return f"The index of {_shown(token)} has more than {MOST_INDEX_DIGITS} digits."
    index = int(token.partition(b":")[0])
    if index == 0 and one_based:
        return "Index 0, but the first column is said to have index 1."
    return f"Index {index} comes after {previous}, but indices have to increase along a line."


def _shown(token: bytes) -> str:
    text = token[: SHOWN + 1].decode(errors="replace")
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def chain_pointers(pointers: Sequence[Any]) -> Any:
    """Join pointers that each start at 0."""
    starts = np.cumsum([0, *(pointer[-1] for pointer in pointers)])
    parts = [pointer[1:] + start for pointer, start in zip(pointers, starts, strict=False)]
    return np.concatenate([np.zeros(1, np.int64), *parts])

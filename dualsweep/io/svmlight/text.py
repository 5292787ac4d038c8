"""Text of a file, plain or compressed, in chunks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt

from ..._typing import Array
from .._files import naming
from .kernel import NEWLINE

PADDING = 8  # bytes for a newline, and for what the kernel may read after it


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


def read_chunks(
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

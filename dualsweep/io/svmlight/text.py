"""Text of a file, plain or compressed, in chunks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .._files import naming
from .kernel import NEWLINE

PADDING = 8  # a newline, and what the kernel may read after it


class Slot:
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


def read_chunks(
    path: Path, size: int, spare: list[Slot], watch: Callable[[int], None] | None
) -> Iterator[tuple[Slot, Any]]:
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
            slot = spare.pop() if spare else Slot()
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

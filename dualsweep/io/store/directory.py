"""What a store is on disk: it appears complete or not at all, and replaces nothing but stores.

A store is a directory of NumPy files, four for each block, and a header::

    header.json            version, shape; rows, entries, sizes and checksums of each block; and
                           its own checksum, except in the first stores
    000000.data.npy        values, float32 or float64
    000000.indices.npy     columns, int32 or int64, increasing along each row
    000000.indptr.npy      where the block's rows start, int64
    000000.y.npy           labels
    000001.data.npy        ...
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

from ... import _tuning
from ..._typing import JsonObject
from .._checks import blaming, is_count, parse_object
from .._files import (
    already_exists,
    mode_of,
    naming,
    resolve_target,
    synced_file,
    temporary_beside,
)

FORMAT = "dualsweep store"
VERSION = 1
HEADER = "header.json"
ARRAYS = ("data", "indices", "indptr", "y")
CRC = "crc32"

OCCUPIED = (errno.EEXIST, errno.ENOTEMPTY)  # why a directory cannot be renamed


def array_file(folder: Path, b: int, name: str) -> Path:
    """Return the file of an array of block b."""
    return folder / f"{b:06d}.{name}.npy"


def canonical(header: JsonObject) -> bytes:
    """Return a header as bytes to take a checksum of."""
    return json.dumps(header, sort_keys=True).encode()


def write_header(path: Path, shape: tuple[int, int], dtype: str, blocks: list[JsonObject]) -> None:
    """Write the header, which makes a store of a directory."""
    header: JsonObject = {"format": FORMAT, "version": VERSION, "shape": list(shape)}
    header |= {"dtype": dtype, "blocks": blocks}
    text = json.dumps(header | {CRC: crc32(canonical(header))}, indent=1)
    if len(text) > _tuning.MAX_JSON:
        raise ValueError(f"{len(blocks):,} blocks are too many for a store; raise block_bytes.")
    with synced_file(path / HEADER, "wb") as file:
        file.write(text.encode())


def read_header(path: Path) -> JsonObject:
    """Return the header of a store; ValueError unless it is complete and consistent."""
    if not path.is_dir():
        raise FileNotFoundError(f"There is no directory {path}.")
    file = path / HEADER
    if not file.is_file():
        raise ValueError(f"{path} is not a store: it has no {HEADER}.")
    with naming(file), blaming(f"{file} is damaged"):
        if file.stat().st_size > _tuning.MAX_JSON:
            raise ValueError(f"it has more than {_tuning.MAX_JSON:,} bytes")
        header = parse_object(file.read_bytes().decode())
        crc, content = header.pop(CRC, None), canonical(header)
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} is not a store: its {HEADER} is something else.")
    if header.get("version") != VERSION:
        raise ValueError(
            f"{path} has store version {header.get('version')!r:.20}, but this version of "
            f"dualsweep reads {VERSION}. Update dualsweep, or convert the data again."
        )
    with blaming(f"{file} is damaged"):
        if crc is not None and crc != crc32(content):
            raise ValueError("it differs from its checksum")
        _check_header(header)
    return header


def _check_header(header: JsonObject) -> None:
    """Raise ValueError unless a header is complete and consistent."""
    shape, dtype, blocks = (header.get(name) for name in ("shape", "dtype", "blocks"))
    if not (isinstance(shape, list) and len(shape) == 2 and all(map(is_count, shape))):
        raise ValueError("it has no shape")
    if dtype not in ("float32", "float64"):
        raise ValueError("it has no type")
    if not (isinstance(blocks, list) and blocks):
        raise ValueError("it has no blocks")
    try:
        positive = [block["rows"] for block in blocks]
        positive += [block[name]["bytes"] for block in blocks for name in ARRAYS]
        others = [block["entries"] for block in blocks]
        others += [block[name][CRC] for block in blocks for name in ARRAYS]
    except (KeyError, TypeError):
        raise ValueError("it does not list all of its blocks") from None
    if not all(map(is_count, positive + others)) or min(positive) < 1:
        raise ValueError("its sizes of blocks are not positive numbers")
    n_rows = sum(block["rows"] for block in blocks)
    if n_rows != shape[0]:
        raise ValueError(f"the blocks have {n_rows} rows, the store {shape[0]}")


@contextmanager
def new_store(path: Path, force: bool) -> Iterator[Path]:
    """Yield a directory that becomes `path` when the block ends without an error."""
    target = check_new_store(path, force=force)
    temporary = temporary_beside(target)
    with naming(path, temporary):
        try:
            temporary.mkdir()
            yield temporary
            _sync(temporary)
            _rename(temporary, target, path, force)
            with suppress(OSError):  # the store is complete in any case
                _sync(target.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_new_store(path: Path, *, force: bool) -> Path:
    """Return the directory that a store at `path` is written to; OSError if it must not be.

    A link is followed, and stays. With `force` a store is replaced, if it is nothing but a store.
    """
    if mode_of(path) is not None:
        if not force:
            raise already_exists(path)
        _check_only_store(path, path)
    return resolve_target(path)


def _check_only_store(folder: Path, path: Path) -> None:
    """Raise FileExistsError, about `path`, unless a directory is a store and nothing else."""
    try:
        numbers = range(len(read_header(folder)["blocks"]))
        names = {HEADER, *(array_file(folder, b, name).name for b in numbers for name in ARRAYS)}
        with os.scandir(folder) as entries:
            others = sorted(
                entry.name
                for entry in entries
                if entry.name not in names or not entry.is_file(follow_symlinks=False)
            )
    except (OSError, ValueError) as error:
        if not folder.exists():  # another process has just replaced it
            return
        raise FileExistsError(
            f"{path} is not a store, so it is not replaced even with force ({error})"
        ) from error
    if others:
        raise FileExistsError(
            f"{path} is more than a store, so it is not replaced even with force: it has "
            f"{', '.join(others[:5])}{' ...' if len(others) > 5 else ''} in it."
        )


def _rename(temporary: Path, target: Path, path: Path, force: bool) -> None:
    """Give a directory the name `target`; with `force`, even if a store has it.

    A directory with files in it cannot be replaced in one step: for a moment there is none.
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
                    raise already_exists(path) from None
            shutil.rmtree(old, ignore_errors=True)  # another process put its store there
            with suppress(FileNotFoundError):  # another process moved the old one
                target.rename(old)
                _check_only_store(old, path)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    try:
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(old, ignore_errors=True)  # if Ctrl-C came in between


def _sync(folder: Path) -> None:
    """Wait until the disk has the names in a directory."""
    if os.name == "nt":  # Windows cannot
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

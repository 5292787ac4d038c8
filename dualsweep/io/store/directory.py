"""Directories that become stores: complete or not at all, and in place of nothing but stores."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .._files import follow, mode_of, naming, taken, temporary_beside
from .format import ARRAYS, HEADER, array_file, read_header

OCCUPIED = (errno.EEXIST, errno.ENOTEMPTY)


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
        header = read_header(folder)
        numbers = range(len(header["blocks"]))
        names = {HEADER, *(array_file(folder, b, name).name for b in numbers for name in ARRAYS)}
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

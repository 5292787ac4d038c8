"""Directories that appear as stores, complete or not at all, and replace nothing but stores."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .._files import already_exists, mode_of, naming, resolve_target, temporary_beside
from .format import ARRAYS, HEADER, array_file, read_header

OCCUPIED = (errno.EEXIST, errno.ENOTEMPTY)


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

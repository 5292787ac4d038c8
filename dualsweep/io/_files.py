"""Files that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "pipe",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFSOCK: "socket",
}
NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def atomic_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of `path` when the block ends without an error.

    If two write at the same time without `force`, the second to finish gets FileExistsError.
    """
    target = check_target(path, force=force)
    temporary = temporary_beside(target)
    with naming(path, temporary):
        try:
            with synced_file(temporary, "xb") as file:
                yield file
            if force:
                temporary.replace(target)
            else:
                _rename(temporary, target, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def synced_file(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """Open a binary file for writing, and wait at the end until the disk has it."""
    with path.open(mode) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def check_target(path: Path, *, force: bool) -> Path:
    """Return the file that writing to `path` makes, or raise the OSError that it would end in.

    A link is followed, and stays. A regular file is replaced only if `force`, anything else never.
    """
    mode = mode_of(path)
    if mode is not None:
        if not stat.S_ISREG(mode):
            what = f"a {KINDS.get(stat.S_IFMT(mode), 'special file')}, which is never replaced"
            raise FileExistsError(f"{path} is {what}; choose the name of a file.")
        if not force:
            raise already_exists(path)
    return resolve_target(path)


def overlap(one: Path, other: Path) -> bool:
    """Return True if two paths are the same file, by whatever name, or one is inside the other."""
    first, second = (Path(os.path.realpath(path)) for path in (one, other))
    return any(_same(first, path) for path in (second, *second.parents)) or any(
        _same(second, path) for path in first.parents
    )


def _same(one: Path, other: Path) -> bool:
    """Return True if two paths are one file; if one does not exist, if they are equal."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one == other


def mode_of(path: Path) -> int | None:
    """Return the mode of what a path leads to, through links; None if there is nothing."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def resolve_target(path: Path) -> Path:
    """Return where the links of a path lead; OSError if nothing can be written there."""
    target = Path(os.path.realpath(path))
    folder = target.parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no directory {folder} to write {target.name} to.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"No permission to write {target.name} to {folder}.")
    return target


def already_exists(path: Path) -> FileExistsError:
    """Return the error for a path that is not to be replaced."""
    return FileExistsError(f"{path} exists already; choose another name, or pass force=True.")


def temporary_beside(path: Path) -> Path:
    """Return an unused hidden name in the same directory, so that renaming it to `path` is atomic.

    The name is random, since processes in containers can have the same number.
    """
    return path.with_name(f".dualsweep.{os.urandom(8).hex()}.tmp")


@contextmanager
def naming(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Put `path` into an OSError that names no file, or a `temporary` one or a file inside it."""
    try:
        yield
    except OSError as error:
        ours = temporary is not None and str(error.filename).startswith(str(temporary))
        if error.errno is None or not (ours or error.filename is None):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _rename(temporary: Path, target: Path, path: Path) -> None:
    """Give a file the name `target`, unless something has it."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise already_exists(path) from None
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        if target.exists():
            raise already_exists(path) from None
        temporary.replace(target)  # the best that FAT and some network drives allow

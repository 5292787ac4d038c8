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
    """Open a file for writing that takes the place of `path` when the block ends well.

    Of two that write at the same time without `force`, one succeeds and the other is told that the
    file exists. See `check_target` for what can be written.
    """
    target = check_target(path, force=force)
    temporary = temporary_beside(target)
    with naming(path, temporary):
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if force:
                temporary.replace(target)
            else:
                _place(temporary, target, path)
        finally:
            temporary.unlink(missing_ok=True)


def check_target(path: Path, *, force: bool) -> Path:
    """Return the file that writing to `path` makes, or raise the OSError that it would end in.

    A link is followed and stays: its target is what is written, whether it exists already or not.
    A regular file is replaced only if `force`, and nothing else ever is.
    """
    mode = mode_of(path)
    if mode is not None and not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "special file")
        raise FileExistsError(
            f"{path} is a {kind}, which is never replaced; choose the name of a file."
        )
    if mode is not None and not force:
        raise taken(path)
    return follow(path)


def overlap(one: Path, other: Path) -> bool:
    """Tell whether two paths are the same file or folder, or one of them is inside the other.

    However they are spelled: relative, by links, by another name of the same file.
    """
    first, second = (Path(os.path.realpath(path)) for path in (one, other))
    return any(
        _same(folder, path)
        for path, other in ((first, second), (second, first))
        for folder in (other, *other.parents)
    )


def _same(one: Path, other: Path) -> bool:
    """Tell whether two paths are one thing; of one that is not there, whether they are equal."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one == other


def mode_of(path: Path) -> int | None:
    """Return the mode of what is there, through links; None if there is nothing."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def follow(path: Path) -> Path:
    """Return where links lead; OSError if nothing can be written there."""
    target = Path(os.path.realpath(path))
    folder = target.parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no directory {folder} to write {target.name} to.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"No permission to write {target.name} to {folder}.")
    return target


def taken(path: Path) -> FileExistsError:
    """Return what to raise where something is not to be replaced."""
    return FileExistsError(f"{path} exists already; choose another name or force.")


def temporary_beside(path: Path) -> Path:
    """Return a hidden name in the same directory, so that renaming it to `path` is atomic.

    Nobody else has it: not another thread, and not a process that was killed long ago and had the
    same number, as processes in containers do.
    """
    return path.with_name(f".dualsweep.{os.urandom(8).hex()}.tmp")


@contextmanager
def naming(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Let an OSError tell the file it is about: those of reading and writing tell none.

    Nor is the temporary name of a file, or of one in a temporary directory, of use to anybody.
    """
    try:
        yield
    except OSError as error:
        about = error.filename
        if error.errno is None or not (
            about is None or (temporary is not None and str(about).startswith(str(temporary)))
        ):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _place(temporary: Path, target: Path, path: Path) -> None:
    """Give a file the name `target`, unless something has it."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise taken(path) from None
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        if target.exists():
            raise taken(path) from None
        temporary.replace(target)  # on FAT and some network drives, as good as it gets

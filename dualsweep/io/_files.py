"""Files that appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["atomic_file", "refuse_to_replace", "temporary_beside"]


@contextmanager
def atomic_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of `path` when the block ends well."""
    refuse_to_replace(path, force=force)
    temporary = temporary_beside(path)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        refuse_to_replace(path, force=force)  # somebody else may have written it meanwhile
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def refuse_to_replace(path: Path, *, force: bool) -> None:
    """Raise FileExistsError if there is something at `path`, unless `force`."""
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already; it is replaced only with force.")


def temporary_beside(path: Path) -> Path:
    """Return a hidden name in the same directory, so that renaming it to `path` is atomic."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")

"""Arrays in one file: NumPy's zip of arrays, without pickles."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_arrays", "write_arrays"]


def read_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays in a file by name; ValueError if it is no such file or damaged."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with path.open("rb") as stream:  # np.load leaves it open if the zip is damaged
            if not zipfile.is_zipfile(stream):
                raise ValueError("no zip archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is not an .npz file, or is damaged ({error}).") from error


def write_arrays(path: Path, arrays: dict[str, Any], *, force: bool) -> None:
    """Write arrays to a file that appears complete or not at all."""
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already; it is replaced only with force.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

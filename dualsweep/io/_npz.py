"""Arrays in one file: NumPy's zip of arrays, without pickles."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ._files import atomic_file

__all__ = ["plain", "read_arrays", "write_arrays"]


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
    with atomic_file(path, force=force) as file:
        np.savez(file, allow_pickle=False, **arrays)


def plain(labels: Any) -> Any:
    """Return labels of a type that needs no pickle: text in object arrays becomes plain text."""
    if labels.dtype.kind not in "OT":
        return labels
    others = [label for label in labels if not isinstance(label, str)]
    if others:
        raise TypeError(f"Only numbers and text can be saved as labels, but one is {others[0]!r}.")
    return labels.astype(str)

"""Arrays in one file: NumPy's zip of arrays, without pickles."""

from __future__ import annotations

import errno
import math
import os
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from .._typing import Array
from ._checks import check_characters
from ._files import atomic_file, naming

MAX_RATIO = 1032  # bytes that one of deflate can stand for


def read_arrays(path: Path, *, compressed: bool = False) -> dict[str, Array]:
    """Return the arrays in a file by name; ValueError if it is no such file or damaged.

    Whatever the file says, reading takes no more memory than the file has bytes; or could expand
    to, if arrays may be `compressed`. Members that are not called .npy are ignored.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is not an .npz file: it is not a regular file.")
    try:
        with naming(path), path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = [item for item in archive.infolist() if item.filename.endswith(".npy")]
            _check_sizes(members, os.fstat(file.fileno()).st_size, compressed)
            if len({item.filename for item in members}) < len(members):
                raise ValueError("an array occurs twice")
            return {item.filename[: -len(".npy")]: _read_array(archive, item) for item in members}
    except Exception as error:  # damaged bytes raise almost anything in zipfile and NumPy
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a seek to nowhere
            raise
        raise ValueError(f"{path} is not an .npz file, or is damaged ({_said(error)}).") from error


def _check_sizes(members: list[zipfile.ZipInfo], size: int, compressed: bool) -> None:
    """Raise ValueError if a file of this size cannot hold what it claims."""
    if sum(item.compress_size for item in members) > size:
        raise ValueError("its parts are larger than the whole")
    ratio = {zipfile.ZIP_STORED: 1} | ({zipfile.ZIP_DEFLATED: MAX_RATIO} if compressed else {})
    for item in members:
        if item.compress_type not in ratio:
            raise ValueError(f"{item.filename} is compressed in a way that is not read")
        if item.file_size > ratio[item.compress_type] * item.compress_size:
            raise ValueError(f"{item.filename} claims {item.file_size:,} bytes")


def _read_array(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> Array:
    with archive.open(item) as stream:
        shape, dtype = read_npy_header(stream)
        if stream.tell() + math.prod(shape) * dtype.itemsize != item.file_size:
            raise ValueError(f"{item.filename} is {dtype} {shape} in {item.file_size} bytes")
    with archive.open(item) as stream:  # a stream that is wound back may not compare its checksum
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # at the end, where the checksum is compared
    check_characters(array)
    return array.astype(dtype.newbyteorder("="), copy=False)


def read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and type of the array that follows in a stream."""
    try:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read(stream)
    except OSError:
        raise
    except Exception as error:  # NumPy evaluates the header as a Python expression
        raise ValueError(f"an array starts with something else ({_said(error)})") from error
    if min(shape, default=0) < 0:
        raise ValueError(f"an array has the shape {shape}")
    if dtype.hasobject:
        raise ValueError("an array is of Python objects, which are not read")
    return shape, dtype


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def write_arrays(path: Path, arrays: dict[str, Array], *, force: bool) -> None:
    """Write arrays to a file, atomically."""
    with atomic_file(path, force=force) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)


def without_objects(labels: Array) -> Array:
    """Return labels of a type that needs no pickle: text in object arrays becomes NumPy's text."""
    if labels.dtype.kind not in "OT":
        return labels
    others = [label for label in labels if not isinstance(label, str)]
    if others:
        raise TypeError(f"Only numbers and text can be saved as labels, but one is {others[0]!r}.")
    return labels.astype(str)

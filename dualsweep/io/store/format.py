"""What a store is on disk.

A store is a directory of NumPy files, four for each block, and a header::

    header.json            version, shape, and of each block the rows, entries, sizes and checksums;
                           and its own checksum, which the first stores do not have
    000000.data.npy        values, float32 or float64
    000000.indices.npy     columns, int32 or int64, increasing along each row
    000000.indptr.npy      where the block's rows start, int64
    000000.y.npy           labels
    000001.data.npy        ...
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

from .._checks import MOST_TEXT, is_count, parse_object
from .._files import naming

FORMAT = "dualsweep store"
VERSION = 1
HEADER = "header.json"
ARRAYS = ("data", "indices", "indptr", "y")
CRC = "crc32"


def array_file(folder: Path, b: int, name: str) -> Path:
    """Return the file of an array of block b."""
    return folder / f"{b:06d}.{name}.npy"


def canonical(header: dict[str, Any]) -> bytes:
    """Return a header as bytes to take a checksum of."""
    return json.dumps(header, sort_keys=True).encode()


def read_header(path: Path) -> dict[str, Any]:
    """Return a header whose parts are all there and of the right kind."""
    if not path.is_dir():
        raise FileNotFoundError(f"There is no directory {path}.")
    file = path / HEADER
    if not file.is_file():
        raise ValueError(f"{path} is not a store: it has no {HEADER}.")
    try:
        if file.stat().st_size > MOST_TEXT:
            raise ValueError(f"it has more than {MOST_TEXT:,} bytes")
        with naming(file):
            header = parse_object(file.read_bytes().decode())
        crc, content = header.pop(CRC, None), canonical(header)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged ({error}).") from error
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} is not a store: its {HEADER} is something else.")
    if header.get("version") != VERSION:
        raise ValueError(
            f"{path} has store version {header.get('version')!r:.20}, but this version of "
            f"dualsweep reads {VERSION}. Update dualsweep, or convert the data again."
        )
    if crc is not None and crc != crc32(content):
        raise ValueError(f"{file} is damaged: it differs from its checksum.")
    problem = _header_problem(header)
    if problem:
        raise ValueError(f"{file} is damaged: {problem}.")
    return header


def _header_problem(header: dict[str, Any]) -> str | None:
    shape, dtype, blocks = (header.get(name) for name in ("shape", "dtype", "blocks"))
    if not (isinstance(shape, list) and len(shape) == 2 and all(map(is_count, shape))):
        return "it tells no shape"
    if dtype not in ("float32", "float64"):
        return "it tells no type"
    if not (isinstance(blocks, list) and blocks):
        return "it tells no blocks"
    try:
        counts = [
            [block["rows"], block["entries"]]
            + [block[name][fact] for name in ARRAYS for fact in ("bytes", CRC)]
            for block in blocks
        ]
    except (KeyError, TypeError):
        return "it does not list all of its blocks"
    if not all(is_count(count) for block in counts for count in block) or not all(
        block["rows"] > 0 and block[name]["bytes"] > 0 for block in blocks for name in ARRAYS
    ):
        return "its sizes of blocks are not positive numbers"
    n_rows = sum(block["rows"] for block in blocks)
    if n_rows != shape[0]:
        return f"the blocks have {n_rows} rows, the store {shape[0]}"
    return None

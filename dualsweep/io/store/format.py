"""What a store is on disk.

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

import json
from pathlib import Path
from zlib import crc32

from ... import _tuning
from ..._typing import JsonObject
from .._checks import damaged, is_count, parse_object
from .._files import naming

FORMAT = "dualsweep store"
VERSION = 1
HEADER = "header.json"
ARRAYS = ("data", "indices", "indptr", "y")
CRC = "crc32"


def array_file(folder: Path, b: int, name: str) -> Path:
    """Return the file of an array of block b."""
    return folder / f"{b:06d}.{name}.npy"


def canonical(header: JsonObject) -> bytes:
    """Return a header as bytes to take a checksum of."""
    return json.dumps(header, sort_keys=True).encode()


def read_header(path: Path) -> JsonObject:
    """Return the header of a store; ValueError unless it is complete and consistent."""
    if not path.is_dir():
        raise FileNotFoundError(f"There is no directory {path}.")
    file = path / HEADER
    if not file.is_file():
        raise ValueError(f"{path} is not a store: it has no {HEADER}.")
    with naming(file), damaged(f"{file} is damaged"):
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
    with damaged(f"{file} is damaged"):
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

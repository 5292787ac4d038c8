"""The dual variables of a problem in blocks, all of which stay in memory.

They are an array, with a number per row or a column per class, or `SlottedBlocks`. Those of a block
are ``alpha[rows]``, which sweeps change in place.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import numpy as np

from ..._typing import Array
from ...kernels.duals import MOST_SLOTS, SlottedDuals

PACKED = np.dtype([("row", np.int64), ("class", np.int64), ("value", np.float64)])


class SlottedBlocks:
    """Slots for the rows of each block, which are widened block by block."""

    def __init__(self, starts: Array, n_classes: int) -> None:
        self.starts, self.n_classes = starts, n_classes
        bounds = pairwise(starts.tolist())
        self.parts = {start: SlottedDuals(stop - start, n_classes) for start, stop in bounds}

    def __getitem__(self, rows: slice) -> SlottedDuals:
        return self.parts[int(rows.start)]

    def __setitem__(self, rows: slice, part: SlottedDuals) -> None:
        self.parts[int(rows.start)] = part

    def __copy__(self) -> SlottedBlocks:
        twin = object.__new__(SlottedBlocks)
        twin.starts, twin.n_classes = self.starts, self.n_classes
        twin.parts = {start: part.__copy__() for start, part in self.parts.items()}
        return twin

    def packed(self) -> Array:
        """Return the nonzero dual variables, those of a row in the order of its slots."""
        found = []
        for start, part in self.parts.items():
            rows, classes, values = part.nonzero()
            packed = np.empty(len(rows), PACKED)
            packed["row"], packed["class"], packed["value"] = start + rows, classes, values
            found.append(packed)
        return np.concatenate(found)

    def fill(self, packed: Array, name: str) -> None:
        """Set packed dual variables where all are 0; ValueError if they cannot be right."""
        rows, classes, values = packed["row"], packed["class"], packed["value"]
        if len(packed):
            if (np.diff(rows) < 0).any() or rows[0] < 0 or rows[-1] >= self.starts[-1]:
                raise ValueError(f"{name} has rows that do not exist")
            if classes.min() < 0 or classes.max() >= self.n_classes:
                raise ValueError(f"{name} has classes that do not exist")
            if len(np.unique(rows * self.n_classes + classes)) < len(packed):
                raise ValueError(f"{name} has a dual variable twice")
        bounds = pairwise(np.searchsorted(rows, self.starts).tolist())
        for (start, part), (a, b) in zip(self.parts.items(), bounds, strict=True):
            part.fill(rows[a:b] - start, classes[a:b], values[a:b])


BlockDuals: TypeAlias = Array | SlottedBlocks


def dual_bytes(columns: tuple[int, ...], slotted: bool) -> int:
    """Return how many bytes the dual variables of a row take, at most."""
    k = int(np.prod(columns))
    return 4 + 12 * min(k, MOST_SLOTS) if slotted else 8 * k


def packed_duals(alpha: BlockDuals) -> Array:
    """Return dual variables as an array for a file."""
    return alpha.packed() if isinstance(alpha, SlottedBlocks) else alpha


def unpacked_duals(name: str, array: Array | None, zero: BlockDuals) -> BlockDuals:
    """Return dual variables from a file in place of `zero`; ValueError if they cannot be right."""
    if array is None:
        raise ValueError(f"{name} is missing")
    like = packed_duals(zero)
    shape = like.shape if like is zero else (array.size,)
    if array.dtype != like.dtype or array.shape != shape:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, not {like.dtype} {shape}")
    if not np.isfinite(array if like is zero else array["value"]).all():
        raise ValueError(f"{name} is not finite")
    if not isinstance(zero, SlottedBlocks):
        return array
    zero.fill(array, name)
    return zero

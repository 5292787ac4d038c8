"""What the blocks of a problem have in common, where its rows are read block by block.

The dual variables of all rows stay in memory. Those of a block are ``alpha[rows]``, which sweeps
change in place.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ...kernels.duals import MOST_SLOTS, SlottedDuals


class BlockDuals(Protocol):
    """What a problem in blocks asks for, whatever the formulation of its blocks."""

    weights_shape: tuple[int, ...]
    dual_bytes: int  # that the dual variables of a row take, at most

    def zero_alpha(self, starts: Any) -> Any:
        """Return dual variables to start from, for blocks that start at these rows."""

    def joined(self, parts: list[Any], starts: Any) -> Any:
        """Return the dual variables of all rows, from those of the blocks."""

    def packed(self, alpha: Any) -> Any:
        """Return dual variables as an array, to be written to a file."""

    def unpacked(self, array: Any, starts: Any) -> Any:
        """Return what was packed; ValueError, about "it", if it cannot have been that."""


class BinaryDuals:
    """Of a binary problem: a number per row."""

    dual_bytes = 8

    def __init__(self, n_weights: int) -> None:
        self.weights_shape: tuple[int, ...] = (n_weights,)

    def zero_alpha(self, starts: Any) -> Any:
        """Return dual variables to start from."""
        return np.zeros(int(starts[-1]))

    def joined(self, parts: list[Any], starts: Any) -> Any:
        """Return the dual variables of all rows."""
        return np.concatenate(parts)

    def packed(self, alpha: Any) -> Any:
        """Return dual variables as an array."""
        return alpha

    def unpacked(self, array: Any, starts: Any) -> Any:
        """Return what was packed."""
        return _checked(array, (int(starts[-1]),))


class MulticlassDuals:
    """Of a problem of many classes: slots of Crammer-Singer (`joint`), a column per class else."""

    def __init__(self, n_weights: int, n_classes: int, joint: bool) -> None:
        self.weights_shape: tuple[int, ...] = (n_weights, n_classes)
        self.n_classes, self.joint = n_classes, joint
        self.dual_bytes = 4 + 12 * min(n_classes, MOST_SLOTS) if joint else 8 * n_classes

    def zero_alpha(self, starts: Any) -> Any:
        """Return dual variables to start from."""
        if not self.joint:
            return np.zeros((int(starts[-1]), self.n_classes))
        sizes = np.diff(starts).tolist()
        return SlottedBlocks([SlottedDuals(n, self.n_classes) for n in sizes], starts)

    def joined(self, parts: list[Any], starts: Any) -> Any:
        """Return the dual variables of all rows."""
        return SlottedBlocks(parts, starts) if self.joint else np.concatenate(parts)

    def packed(self, alpha: Any) -> Any:
        """Return dual variables as an array."""
        return alpha.packed() if self.joint else alpha

    def unpacked(self, array: Any, starts: Any) -> Any:
        """Return what was packed."""
        if not self.joint:
            return _checked(array, (int(starts[-1]), self.n_classes))
        alpha = self.zero_alpha(starts)
        alpha.fill(_checked(array, None), self.n_classes)
        return alpha


PACKED = np.dtype([("row", np.int64), ("class", np.int64), ("value", np.float64)])


class SlottedBlocks:
    """Slots of the rows of each block, which are widened block by block."""

    def __init__(self, parts: list[SlottedDuals], starts: Any) -> None:
        self.starts = starts
        self.parts = dict(zip(starts[:-1].tolist(), parts, strict=True))

    def __getitem__(self, rows: slice) -> SlottedDuals:
        return self.parts[int(rows.start)]

    def __copy__(self) -> SlottedBlocks:
        return SlottedBlocks([part.__copy__() for part in self.parts.values()], self.starts)

    def packed(self) -> Any:
        """Return the nonzero dual variables, those of a row in the order of its slots."""
        found = []
        for start, part in self.parts.items():
            rows, classes, values = part.nonzero()
            packed = np.empty(len(rows), PACKED)
            packed["row"], packed["class"], packed["value"] = start + rows, classes, values
            found.append(packed)
        return np.concatenate(found)

    def fill(self, packed: Any, n_classes: int) -> None:
        """Set what was packed, all being 0; ValueError if it cannot have been."""
        rows, classes, values = packed["row"], packed["class"], packed["value"]
        if len(packed):
            if (np.diff(rows) < 0).any() or rows[0] < 0 or rows[-1] >= self.starts[-1]:
                raise ValueError("it has rows that do not exist")
            if classes.min() < 0 or classes.max() >= n_classes:
                raise ValueError("it has classes that do not exist")
            if len(np.unique(rows * n_classes + classes)) < len(packed):
                raise ValueError("it has a dual variable twice")
        bounds = np.searchsorted(rows, self.starts)
        for (start, part), a, b in zip(
            self.parts.items(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True
        ):
            part.fill(rows[a:b] - start, classes[a:b], values[a:b])


def _checked(array: Any, shape: tuple[int, ...] | None) -> Any:
    """Return an array if it has this shape, or is packed if that is None, and is finite."""
    dtype = np.dtype(np.float64 if shape else PACKED)
    wanted = shape or (getattr(array, "size", 0),)
    if array is None:
        raise ValueError("it is missing")
    if array.dtype != dtype or array.shape != wanted:
        raise ValueError(f"it is {array.dtype} {array.shape}, not {dtype} {wanted}")
    if not np.isfinite(array if shape else array["value"]).all():
        raise ValueError("it is not finite")
    return array

"""Rows and labels in blocks, wherever these are kept."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

from .._typing import Array, Sparse


@runtime_checkable
class Blocks(Protocol):
    """Rows and labels in blocks, as `dualsweep.io.Store` has them; read by another thread."""

    shape: tuple[int, int]
    starts: Array  # first row of each block, and the number of rows
    block_bytes: Array  # size of each block in memory
    fingerprint: str  # identifies the content of all blocks

    def read(self, b: int) -> tuple[Sparse, Array]:
        """Return the rows (CSR, float32 or float64) and labels of block b, in ordinary memory."""

    def read_labels(self, b: int) -> Array:
        """Return the labels of block b."""

    def load(self) -> tuple[Any, Array]:
        """Return all rows and labels."""


def in_blocks(X: object) -> TypeGuard[Blocks]:
    """Return whether X is rows in blocks; `isinstance` alone takes 20 microseconds to say no."""
    return hasattr(X, "read_labels") and isinstance(X, Blocks)

"""Dual variables of many classes: a dense matrix, or only the nonzero ones of each row.

A Crammer-Singer row has nonzero dual variables for the few classes it is confused with, so with
many classes a dense matrix is nearly all zeros (Keerthi et al. 2008, section 2). Kernels read and
write a row through `load_duals` and `store_duals`, whichever of the two it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._jit import overload_rows

__all__ = ["Slots", "SlottedDuals", "load_duals", "store_duals"]

FIRST_SLOTS = 8


class Slots(NamedTuple):
    """Up to ``values.shape[1]`` nonzero dual variables per row."""

    classes: Any  # int32
    values: Any  # float64
    counts: Any  # int32, how many of a row's slots are used


class SlottedDuals:
    """Slots that can be widened when some row needs more of them."""

    def __init__(self, n_rows: int, n_classes: int) -> None:
        self.n_classes = n_classes
        self.slots = _slots(n_rows, min(FIRST_SLOTS, n_classes))

    def __copy__(self) -> SlottedDuals:
        twin = object.__new__(SlottedDuals)
        twin.n_classes = self.n_classes
        twin.slots = Slots(*(array.copy() for array in self.slots))
        return twin

    def widen(self) -> None:
        """Double the slots of every row."""
        old = self.slots
        n_rows, width = old.values.shape
        self.slots = _slots(n_rows, min(2 * width, self.n_classes))
        self.slots.classes[:, :width] = old.classes
        self.slots.values[:, :width] = old.values
        self.slots.counts[:] = old.counts

    def fill(self, rows: Any, classes: Any, values: Any) -> None:
        """Set the given values, each row and class at most once; all rows are empty before."""
        counts = np.bincount(rows, minlength=len(self.slots.counts))
        while counts.max(initial=0) > self.slots.values.shape[1]:
            self.widen()
        order = np.argsort(rows, kind="stable")
        starts = np.cumsum(counts) - counts
        slot = np.arange(len(rows)) - starts[rows[order]]
        self.slots.classes[rows[order], slot] = classes[order]
        self.slots.values[rows[order], slot] = values[order]
        self.slots.counts[:] = counts

    def nonzero(self) -> tuple[Any, Any, Any]:
        """Return rows, classes and values of the nonzero dual variables."""
        classes, values, counts = self.slots
        used = np.arange(values.shape[1]) < counts[:, None]
        rows = np.repeat(np.arange(len(counts)), counts)
        return rows, classes[used], values[used]


def _slots(n_rows: int, width: int) -> Slots:
    shape = (n_rows, width)
    return Slots(np.zeros(shape, np.int32), np.zeros(shape), np.zeros(n_rows, np.int32))


def load_duals(beta: Any, i: int, out: Any) -> None:
    """Fill `out` with the dual variables of row i, one per class."""
    raise TypeError("load_duals runs inside kernels only")


def store_duals(beta: Any, i: int, row: Any) -> bool:
    """Replace the dual variables of row i; return false, having done nothing, if they don't fit."""
    raise TypeError("store_duals runs inside kernels only")


def _is_slots(beta: Any) -> bool:
    return getattr(beta, "instance_class", None) is Slots


@overload_rows(load_duals)
def _load_duals(beta: Any, i: Any, out: Any) -> Any:
    def load_dense(beta, i, out):  # type: ignore[no-untyped-def]
        for m in range(out.shape[0]):
            out[m] = beta[i, m]

    def load_slots(beta, i, out):  # type: ignore[no-untyped-def]
        for m in range(out.shape[0]):
            out[m] = 0.0
        for s in range(beta.counts[i]):
            out[beta.classes[i, s]] = beta.values[i, s]

    return load_slots if _is_slots(beta) else load_dense


@overload_rows(store_duals)
def _store_duals(beta: Any, i: Any, row: Any) -> Any:
    def store_dense(beta, i, row):  # type: ignore[no-untyped-def]
        for m in range(row.shape[0]):
            beta[i, m] = row[m]
        return True

    def store_slots(beta, i, row):  # type: ignore[no-untyped-def]
        needed = 0
        for m in range(row.shape[0]):
            needed += 1 if row[m] != 0.0 else 0
        if needed > beta.values.shape[1]:
            return False
        s = 0
        for m in range(row.shape[0]):
            if row[m] != 0.0:
                beta.classes[i, s] = m
                beta.values[i, s] = row[m]
                s += 1
        beta.counts[i] = s
        return True

    return store_slots if _is_slots(beta) else store_dense

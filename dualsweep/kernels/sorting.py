"""Sorting in place, without allocation, for arrays from a handful to thousands of entries."""

from __future__ import annotations

import numpy as np

from .._jit import jit
from .._typing import Array, Int

INSERTION = 24  # entries up to which insertion sort is faster


@jit
def sort_descending(values: Array, n: Int) -> None:
    """Sort ``values[:n]`` in place, largest first."""
    if n > INSERTION:
        for root in range(n // 2 - 1, -1, -1):
            _sift_down(values, root, n)
        for end in range(n - 1, 0, -1):
            values[0], values[end] = values[end], values[0]
            _sift_down(values, np.int64(0), end)
        return
    for i in range(1, n):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] < value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@jit
def _sift_down(values: Array, root: Int, n: Int) -> None:
    """Restore the heap with its smallest entry on top, below `root`."""
    value = values[root]
    child = 2 * root + 1
    while child < n:
        if child + 1 < n and values[child + 1] < values[child]:
            child += 1
        if value <= values[child]:
            break
        values[root] = values[child]
        root = child
        child = 2 * root + 1
    values[root] = value

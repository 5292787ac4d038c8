"""Sums over the columns of X."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._typing import Array
from .layouts import CSRRows, Rows, n_rows
from .passes import chunks

CHUNK_ENTRIES = 1 << 22


def column_sums(rows: Rows, weight: Array) -> Iterator[Array]:
    """Yield weighted sums of squares and numbers of nonzero entries per column, part by part."""
    d, n = rows.n_features, n_rows(rows)
    per_row = rows.data.size / max(n, 1)
    for part in chunks(slice(0, n), CHUNK_ENTRIES / max(per_row, 1.0)):
        if isinstance(rows, CSRRows):
            stored = slice(rows.indptr[part.start], rows.indptr[part.stop])
            times = np.repeat(weight[part], np.diff(rows.indptr[part.start : part.stop + 1]))
            values, columns = rows.data[stored], rows.indices[stored]
            squares = np.bincount(columns, times * np.square(values, dtype=np.float64), d)
            yield np.stack([squares, np.bincount(columns, times * (values != 0.0), d)])
        else:
            values, times = rows.data[part], weight[part]
            squares = times @ np.square(values, dtype=np.float64)
            yield np.stack([squares, times @ (values != 0.0)])

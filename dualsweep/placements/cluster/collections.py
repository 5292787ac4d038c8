"""Partitions that are still to be computed, from collections of Dask and from stores."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da

from ...io.store import Store
from .worker import StoreBlock, as_block, as_column

# Delayed rows, labels and weights of a partition; rows may be a `StoreBlock`, weights None.
Lazy = tuple[Any, Any, Any]


def is_collection(X: Any) -> bool:
    """Return whether X is a collection of Dask."""
    return bool(dask.is_dask_collection(X))


def partitions(X: Any, y: Any, sample_weight: Any) -> list[Lazy]:
    """Return the partitions of X with labels and weights; ValueError if they do not fit."""
    rows, sizes, own = _rows(X)
    if not rows:
        raise ValueError("X has no partitions: there is nothing to learn from.")
    labels = own if y is None else _columns(y, "y", len(rows), sizes)
    if labels is None:
        raise ValueError("y is missing: only stores and pairs of rows and labels have their own.")
    weights: list[Any] = [None] * len(rows)
    if sample_weight is not None:
        weights = _columns(sample_weight, "sample_weight", len(rows), sizes)
    return list(zip(rows, labels, weights, strict=True))


def _rows(X: Any) -> tuple[list[Any], Any, list[Any] | None]:
    """Return delayed blocks of rows; their numbers of rows and their labels, or None."""
    block = dask.delayed(as_block)
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X must have rows and columns, but has shape {X.shape}.")
        if X.numblocks[1] != 1:
            raise ValueError(
                f"X is divided into {X.numblocks[1]} columns of blocks, but a partition must have "
                "all features of its rows. Pass X.rechunk({1: -1})."
            )
        return [block(x) for x in X.to_delayed()[:, 0]], X.chunks[0], None
    if isinstance(X, Store):
        path = str(X.path.resolve())
        blocks = [StoreBlock(path, X.fingerprint, b) for b in range(len(X))]
        sizes = tuple((X.starts[1:] - X.starts[:-1]).tolist())
        labels = [dask.delayed(StoreBlock.labels)(block) for block in blocks]
        return blocks, sizes, labels
    if hasattr(X, "to_delayed") and hasattr(X, "columns"):
        return [block(x) for x in X.to_delayed()], None, None
    if isinstance(X, list | tuple) and X and all(map(is_collection, X)):
        return [block(x) for x in X], None, None
    if isinstance(X, list | tuple) and X and all(isinstance(x, tuple) and len(x) == 2 for x in X):
        return [block(x) for x, _ in X], None, [dask.delayed(as_column)(y) for _, y in X]
    raise ValueError(
        "X must be a Dask array, a Dask DataFrame, a list of delayed blocks of rows (or of pairs "
        f"of blocks and labels) or a store, but is {type(X).__name__}. For rows in memory there is "
        "dualsweep.LinearSVC."
    )


def _columns(y: Any, name: str, n: int, sizes: Any) -> list[Any]:
    """Return labels or weights, delayed, in the partitions of X."""
    column = dask.delayed(as_column)
    if isinstance(y, list | tuple) and y and all(map(is_collection, y)):
        parts = list(y)
    elif hasattr(y, "to_delayed") and not isinstance(y, da.Array):
        parts = list(y.to_delayed())
    else:
        known = sizes is not None and not any(size != size for size in sizes)
        if not isinstance(y, da.Array):
            if not known:
                raise ValueError(
                    f"{name} is in memory, but how many rows each partition of X has is not known. "
                    f"Pass {name} in the partitions of X."
                )
            y = as_column(y)
            if len(y) != sum(sizes):
                raise ValueError(f"X has {sum(sizes)} rows, but {name} has {len(y)}.")
            y = da.from_array(y, chunks=(tuple(sizes),))
        elif known and y.shape[0] == sum(sizes):
            y = y.rechunk({0: tuple(sizes)})
        parts = list(y.to_delayed().ravel())
    if len(parts) != n:
        raise ValueError(f"X has {n} partitions, but {name} has {len(parts)}.")
    return [column(part) for part in parts]

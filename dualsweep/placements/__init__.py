"""Where rows are: in memory, in blocks on disk, on a device, on a cluster.

A placement has data (rows, labels and weights, checked), whose `problems` for some settings are
those of a formulation, with passes over the rows wherever they are. The placement of a cluster,
`dualsweep.placements.cluster`, needs Dask, and is not imported here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array
from ..rows.blocks import in_blocks
from ..training.context import Context
from ..training.settings import Settings
from .blocks.data import BlockSet, PartOfBlocks
from .device.data import DeviceSet, OnDevice
from .memory import TrainingSet, weight_bytes

__all__ = [
    "BlockSet",
    "DeviceSet",
    "OnDevice",
    "PartOfBlocks",
    "TrainingSet",
    "load_if_it_fits",
    "training_data",
]

# What training in memory takes a row besides its entries, at most.
IN_MEMORY_ROW = 128


def load_if_it_fits(X: Any, y: Any, memory_limit: int | None) -> tuple[Any, Any]:
    """Return a store as rows and labels if these fit into memory, and anything else as it is.

    While a store is loaded its arrays exist twice; later the weights are beside them. A store has
    labels of its own, for y = None.
    """
    if in_blocks(X):
        rows = int(np.sum(X.block_bytes))
        n_bytes = rows + max(rows, weight_bytes(X.shape[1])) + IN_MEMORY_ROW * X.shape[0]
        if memory_limit is None or n_bytes <= memory_limit:
            X, labels = X.load()
            return X, labels if y is None else y
    return X, y


def training_data(
    X: Any,
    y: Any,
    weight: Array | None,
    settings: Settings,
    context: Context,
    checkpoint: Any = None,
) -> TrainingSet | BlockSet | DeviceSet:
    """Return checked rows as they are trained on, in memory, in blocks or on a device."""
    if in_blocks(X):
        return BlockSet(X, y, weight, checkpoint, context)
    if isinstance(X, OnDevice):
        return DeviceSet(X, y, weight, settings.bias)
    return TrainingSet(X, y, weight, settings, context)

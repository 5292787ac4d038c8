"""Rows in blocks, as they are trained on where they do not fit into memory."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from .._threads import Workers
from ..problems.labels import add_counts, count_classes
from ..problems.losses import REGRESSION_LOSSES
from ..solvers.blocks import Blocks
from .block_formulations import BLOCK_FORMULATIONS, BlockRegression
from .context import Context
from .data import TrainingSet, check_room, weight_bytes
from .device import DeviceSet, OnDevice
from .formulations import Formulation
from .regression import training_set
from .settings import Settings

# What training in memory takes a row besides its entries, at most.
IN_MEMORY_ROW = 128


def load_if_it_fits(X: Any, y: Any, memory_limit: int | None) -> tuple[Any, Any]:
    """Return a store as rows and labels if these fit into memory, and anything else as it is.

    The arrays are there twice while a store is loaded, and then the weights beside them. Its own
    labels are used if y is None.
    """
    if isinstance(X, Blocks):
        rows = int(np.sum(X.block_bytes))
        n_bytes = rows + max(rows, weight_bytes(X.shape[1])) + IN_MEMORY_ROW * X.shape[0]
        if memory_limit is None or n_bytes <= memory_limit:
            X, labels = X.load()
            return X, labels if y is None else y
    return X, y


def training_data(
    X: Any, y: Any, weight: Any, settings: Settings, context: Context, checkpoint: Any = None
) -> TrainingSet | BlockSet | DeviceSet:
    """Return what was checked as it is trained on, in memory, in blocks or on a device."""
    if isinstance(X, Blocks):
        return BlockSet(X, y, weight, checkpoint, context)
    if isinstance(X, OnDevice):
        return DeviceSet(X, y, weight, settings.bias)
    return training_set(X, y, weight, settings, context)


class BlockSet:
    """Rows in blocks, and how much each of them counts.

    Parameters
    ----------
    blocks : Blocks
        The blocks.
    y : array or None
        Labels; those of the blocks if None.
    weight : array or None
        Of each row, float64.
    checkpoint : str, Path or None
        Where the state of a training is kept, if anywhere.
    context : Context
        Where it is trained on.
    """

    def __init__(self, blocks: Blocks, y: Any, weight: Any, checkpoint: Any, context: Context):
        if blocks.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.blocks, self.y, self.weight = blocks, y, weight
        self.times: Any = None  # how often each row occurs, if not once
        self.checkpoint, self.workers = checkpoint, context.workers
        self.n_blocks = len(blocks.block_bytes)

    def part(self, times: Any, workers: Workers) -> BlockSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = copy(self)
        part.__dict__.pop("_counted", None)
        part.times = times.astype(np.min_scalar_type(int(times.max(initial=0))))
        part.workers = workers
        return part

    def rows(self, b: int) -> slice:
        """Return which rows block b has."""
        return slice(int(self.blocks.starts[b]), int(self.blocks.starts[b + 1]))

    def labels_of(self, b: int) -> Any:
        """Return the labels of block b."""
        return self.blocks.read_labels(b) if self.y is None else self.y[self.rows(b)]

    def weight_of(self, b: int) -> Any:
        """Return the weights of the rows of block b, or None."""
        rows = self.rows(b)
        if self.times is None:
            return None if self.weight is None else self.weight[rows]
        times = self.times[rows].astype(np.float64)
        return times if self.weight is None else times * self.weight[rows]

    @property
    def classes(self) -> Any:
        """The classes that have weight."""
        return self._counted[0]

    @property
    def mass(self) -> Any:
        """How much weight each of them has."""
        return self._counted[1]

    @cached_property
    def _counted(self) -> tuple[Any, Any]:
        numbers = range(self.n_blocks)
        return add_counts([count_classes(self.labels_of(b), self.weight_of(b)) for b in numbers])

    def formulate(self, settings: Settings) -> Formulation:
        """Return the problems to solve."""
        check_room(self.blocks.shape[1])
        more = (
            f"Use another, or raise memory_limit ({settings.memory_limit:,} bytes) until the "
            "store fits"
        )
        if settings.free_intercept:
            raise ValueError(f"intercept='free' is not available block by block. {more}.")
        if settings.solver == "newton":
            raise ValueError(f"solver='newton' is not available block by block. {more}.")
        if settings.loss in REGRESSION_LOSSES:
            return BlockRegression(self, settings)
        return BLOCK_FORMULATIONS[settings.multi_class](self, settings)


class PartOfBlocks:
    """Some of the rows in blocks, by a mask or by increasing numbers, as blocks."""

    def __init__(self, blocks: Blocks, chosen: Any) -> None:
        self.blocks, self.chosen = blocks, np.zeros(blocks.shape[0], bool)
        self.chosen[chosen] = True
        counts = [np.count_nonzero(self.chosen[rows]) for rows in map(self._rows, self._numbers())]
        self.starts = np.cumsum([0, *counts])
        self.shape = (int(self.starts[-1]), blocks.shape[1])
        self.block_bytes, self.fingerprint = blocks.block_bytes, blocks.fingerprint

    def _numbers(self) -> range:
        return range(len(self.blocks.block_bytes))

    def _rows(self, b: int) -> slice:
        return slice(int(self.blocks.starts[b]), int(self.blocks.starts[b + 1]))

    def read(self, b: int) -> tuple[Any, Any]:
        """Return the rows and labels of block b that are chosen."""
        X, y = self.blocks.read(b)
        chosen = self.chosen[self._rows(b)]
        return X[chosen], y[chosen]

    def read_labels(self, b: int) -> Any:
        """Return the labels of block b that are chosen."""
        return self.blocks.read_labels(b)[self.chosen[self._rows(b)]]

    def load(self) -> tuple[Any, Any]:
        """Return all that are chosen."""
        X, y = self.blocks.load()
        return X[self.chosen], y[self.chosen]

"""Rows in blocks, as they are trained on where they do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from pathlib import Path

import numpy as np

from ..._threads import Workers
from ..._typing import Array, Given, Matrix, Sparse
from ...losses import REGRESSION_LOSSES
from ...problems.labels import add_counts, count_classes
from ...rows.blocks import Blocks
from ...rows.columns import column_sums
from ...rows.layouts import as_rows
from ...training.context import Context
from ...training.settings import Settings
from ..memory import check_room
from .problems import BlockProblems


class BlockSet:
    """Rows in blocks, and how much each of them counts.

    Parameters
    ----------
    blocks : Blocks
        The blocks.
    y : array or None
        Labels; those of the blocks if None.
    weight : array or None
        The weight of each row, float64.
    checkpoint : str, Path or None
        Where the state of a training is kept, if anywhere.
    context : Context
        Where it is trained.
    """

    def __init__(
        self,
        blocks: Blocks,
        y: Array | None,
        weight: Array | None,
        checkpoint: str | Path | None,
        context: Context,
    ) -> None:
        if blocks.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.blocks, self.weight = blocks, weight
        self.y: Given = y
        self.times: Array | None = None  # how often each row occurs, if not once
        self.checkpoint, self.workers = checkpoint, context.workers
        self.n_blocks = len(blocks.block_bytes)

    def part(self, times: Array, workers: Workers) -> BlockSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = copy(self)
        part.__dict__.pop("_counted", None)
        part.times = times.astype(np.min_scalar_type(int(times.max(initial=0))))
        part.workers = workers
        return part

    def rows(self, b: int) -> slice:
        """Return which rows block b has."""
        return slice(int(self.blocks.starts[b]), int(self.blocks.starts[b + 1]))

    def labels_of(self, b: int) -> Array:
        """Return the labels of block b."""
        return self.blocks.read_labels(b) if self.y is None else self.y[self.rows(b)]

    def weight_of(self, b: int) -> Array | None:
        """Return the weights of the rows of block b, or None."""
        rows = self.rows(b)
        if self.times is None:
            return None if self.weight is None else self.weight[rows]
        times = self.times[rows].astype(np.float64)
        return times if self.weight is None else times * self.weight[rows]

    @property
    def classes(self) -> Array:
        """The classes that have weight."""
        return self._counted[0]

    @property
    def mass(self) -> Array:
        """How much weight each of them has."""
        return self._counted[1]

    @cached_property
    def _counted(self) -> tuple[Array, Array]:
        numbers = range(self.n_blocks)
        return add_counts([count_classes(self.labels_of(b), self.weight_of(b)) for b in numbers])

    def column_sums(self, weight: Array) -> Iterator[Array]:
        """Yield sums over the columns; see `dualsweep.rows.columns`."""
        for b in range(self.n_blocks):
            yield from column_sums(as_rows(self.blocks.read(b)[0], 0.0), weight[self.rows(b)])

    def problems(self, settings: Settings) -> BlockProblems:
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
        regression = settings.loss in REGRESSION_LOSSES
        return BlockProblems(self, settings, None if regression else self.classes)


class PartOfBlocks:
    """Some of the rows in blocks, by a mask or by increasing numbers, as blocks."""

    def __init__(self, blocks: Blocks, chosen: Array) -> None:
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

    def read(self, b: int) -> tuple[Sparse, Array]:
        """Return the chosen rows and labels of block b."""
        X, y = self.blocks.read(b)
        chosen = self.chosen[self._rows(b)]
        return X[chosen], y[chosen]

    def read_labels(self, b: int) -> Array:
        """Return the chosen labels of block b."""
        return self.blocks.read_labels(b)[self.chosen[self._rows(b)]]  # type: ignore[no-any-return]

    def load(self) -> tuple[Matrix, Array]:
        """Return all chosen rows and labels."""
        X, y = self.blocks.load()
        return X[self.chosen], y[self.chosen]

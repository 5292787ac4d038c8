"""Rows on a device, and how much each of them counts."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from ..._threads import Workers
from ..._typing import Array, DeviceArray
from ...problems.labels import encode_labels
from ...training.settings import Settings
from ..memory import check_finite
from .arrays import Space
from .problems import DeviceProblems
from .rows import DenseDeviceRows, DeviceRows, SparseDeviceRows


class OnDevice(NamedTuple):
    """A matrix on a device, and whether labels are there as well; else they are on the host."""

    X: DeviceArray
    space: Space
    labels_there: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape  # type: ignore[no-any-return]

    def some(self, rows: Array) -> DeviceArray:
        """Return some of the rows, a copy, by their numbers on the host."""
        with self.space.current():
            places = self.space.asarray(rows)
            if hasattr(self.X, "indptr"):
                return self.X[places]
            return self.space.xp.take(self.X, places, axis=0)


class DeviceSet:
    """Rows on a device, and how much each of them counts; labels and weights are on the host."""

    def __init__(self, matrix: OnDevice, y: Array, weight: Array | None, bias: float) -> None:
        if matrix.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.space, self.labels_there = matrix.space, matrix.labels_there
        self.y, self.weight, self.bias = y, weight, bias
        self.classes, self.codes = encode_labels(y, weight)
        kind = SparseDeviceRows if hasattr(matrix.X, "indptr") else DenseDeviceRows
        with self.space.current():
            self.rows: DeviceRows = kind(self.space, matrix.X, bias)
            self.sqnorm = self.rows.sqnorms()
            if not bool(self.space.xp.all(self.space.xp.isfinite(self.sqnorm))):
                check_finite(self.space.numpy(self.sqnorm))

    def part(self, times: Array, workers: Workers) -> DeviceSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = copy(self)
        part.weight = times.astype(np.float64) if self.weight is None else times * self.weight
        part.classes, part.codes = encode_labels(part.y, part.weight)
        return part

    def column_sums(self, weight: Array) -> Iterator[Array]:
        """Yield sums over the columns; see `dualsweep.rows.passes`."""
        with self.space.current():
            given = self.space.asarray(weight, self.space.xp.float64)
            yield self.space.numpy(self.rows.columns(given))

    def problems(self, settings: Settings) -> DeviceProblems:
        """Return the problems to solve."""
        if settings.free_intercept:
            raise ValueError(
                "intercept='free' is not available on a device. Use intercept='penalized' with a "
                "large intercept_scaling, or train on the host."
            )
        return DeviceProblems(self, settings)

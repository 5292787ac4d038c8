"""What devices, and NumPy, ask of a loss: the functions of `protocol`, for whole arrays.

Arrays are of any library with the array API. Costs are a column, or one number per row; slacks and
dual variables may have a column per problem. Rows of cost 0 are not part of the problem: their
bounds are 0, and what is returned for them is finite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import singledispatch
from math import inf
from typing import Any, NamedTuple

import numpy as np

from .._typing import DeviceArray
from .protocol import Loss


class Bracket(NamedTuple):
    """What `certified_share` returns; see `dualsweep.losses.protocol`."""

    loss: DeviceArray
    spread: DeviceArray
    seen: DeviceArray
    share: DeviceArray


class ArrayLoss(ABC):
    """A loss on arrays of one library."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    @abstractmethod
    def bounds(self, cost: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return the bounds of dual variables; an infinite bound is a number."""

    @abstractmethod
    def best_dual(self, cost: DeviceArray, slack: DeviceArray) -> DeviceArray:
        """Return the dual variables that fit slacks."""

    @abstractmethod
    def losses(self, cost: DeviceArray, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return the losses, times the costs; of a smooth loss, b are the best dual variables."""

    @abstractmethod
    def proven(self, cost: DeviceArray, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return ``b slack - conjugate(b)``, which is at most the loss."""

    @abstractmethod
    def conjugate_parts(self, cost: DeviceArray, b: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return p and q such that ``conjugate(s b) = s p + s^2 q / 2``, at least for s = 1."""

    @abstractmethod
    def proximal_dual(
        self, cost: DeviceArray, v: DeviceArray, rho: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray]:
        """Return the b that maximise ``b v - conjugate(b) - rho b^2 / 2``, and how they move."""

    @abstractmethod
    def certified_share(
        self, cost: DeviceArray, b: DeviceArray, slack: DeviceArray, error: DeviceArray
    ) -> Bracket:
        """Return bounds on losses and shares where slacks are off by at most `error`."""

    def clipped(self, cost: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return the nearest dual variables within their bounds."""
        lower, upper = self.bounds(cost)
        b = b if _is_number(lower) else self.xp.maximum(b, lower)
        return b if _is_number(upper) else self.xp.minimum(b, upper)

    def rounded(self, cost: DeviceArray, b: DeviceArray, dtype: Any) -> DeviceArray:
        """Return dual variables within their bounds in a lower precision, and still within."""
        xp, rounded = self.xp, self.xp.astype(b, dtype)
        if dtype == b.dtype:
            return rounded
        lower, upper = self.bounds(cost)
        if not _is_number(lower):
            rounded = xp.maximum(rounded, -rounded_down(xp, -lower, dtype))
        return rounded if _is_number(upper) else xp.minimum(rounded, rounded_down(xp, upper, dtype))

    def room(self, cost: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return the largest number by which each dual variable may be multiplied."""
        xp = self.xp
        room = xp.full_like(b, inf)
        for bound in self.bounds(cost):
            if not _is_number(bound):
                towards = b * bound > 0  # at a bound of 0 there are only zeros
                room = xp.where(towards, bound / xp.where(towards, b, xp.ones_like(b)), room)
        return room


@singledispatch
def on_arrays(loss: Loss, xp: Any) -> ArrayLoss:
    """Return a loss on arrays of the library with the namespace `xp`."""
    raise TypeError(f"{type(loss).__name__} has no functions on arrays; see dualsweep.losses.")


def of_numpy(loss: Loss) -> ArrayLoss:
    """Return a loss on arrays of NumPy."""
    return on_arrays(loss, np)


def rounded_down(xp: Any, values: DeviceArray, dtype: Any) -> DeviceArray:
    """Return numbers in a lower precision that are not larger."""
    rounded = xp.astype(values, dtype)
    below = rounded * (1 - float(xp.finfo(dtype).eps))
    return xp.where(xp.astype(rounded, values.dtype) > values, below, rounded)


def _is_number(bound: Any) -> bool:
    return isinstance(bound, float)

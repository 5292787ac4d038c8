"""What Newton's method asks of a placement: slacks of the rows, and what follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, TypeVar

import numpy as np

from .._typing import Array, DeviceArray, DeviceDType, Namespace
from .tuning import Tuning

Made = TypeVar("Made")


class StartOverError(Exception):
    """The slacks of some rows were lost; they have to be computed again from the weights."""


class Measured(NamedTuple):
    """What `Backend.measure` finds at the weights w; numbers per problem are on the host."""

    gradient: DeviceArray  # of the inner problem
    inner_gap: Array  # the gap of the inner problem, half the square of its gradient
    size: Array  # the square of the penalised weights
    losses: Array
    excess: Array  # of the losses over what b proves


class Arrays(ABC):
    """Arrays of one library, here NumPy, and how they are made of the host's."""

    xp: Namespace = np

    def asarray(self, values: Array, dtype: DeviceDType = None) -> DeviceArray:
        """Return an array of the host as one of this library."""
        return np.asarray(values, dtype)

    def numpy(self, array: DeviceArray) -> Array:
        """Return an array on the host."""
        return np.asarray(array)

    def take(self, array: DeviceArray, places: Array, axis: int) -> DeviceArray:
        """Return some rows or columns."""
        return self.xp.take(array, self.asarray(places), axis=axis)

    @abstractmethod
    def dots(self, A: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Return the dot product of each problem's columns."""


class Hessian(Arrays):
    """A product and a preconditioner, for conjugate gradients."""

    @abstractmethod
    def product(self, p: DeviceArray) -> DeviceArray:
        """Return the Hessian, its ridge included, times p."""

    def precondition(self, residual: DeviceArray) -> DeviceArray:
        """Return about the inverse of the Hessian times a residual."""
        return residual

    def rounded(self, gradient: DeviceArray) -> DeviceArray:
        """Return a gradient in the precision and the order of the products."""
        return gradient

    def keep(self, stay: Array) -> Hessian:
        """Return the Hessians of the problems that stay: of a single problem, its own."""
        return self

    def close(self) -> None:
        """Release the threads."""


class Backend(Arrays):
    """The rows of some problems: their slacks, their anchors, and the dual points b they imply.

    Weights, directions and gradients are arrays of the backend's library, of shape (n_weights,
    n_columns). A problem has a column, or is all columns. Numbers per problem are NumPy arrays.
    Where rows are, and how passes over them run, is the backend's business.
    """

    apart = True  # whether problems are searched along their directions one by one
    weights_of_b = True  # whether a certificate is about the weights of b, not about w

    @property
    @abstractmethod
    def tuning(self) -> Tuning:
        """The constants."""

    @property
    @abstractmethod
    def n_problems(self) -> int:
        """How many problems there are."""

    @property
    @abstractmethod
    def direct_worth(self) -> float:
        """How many steps of conjugate gradients take as long as a direct step."""

    @abstractmethod
    def begin(self) -> tuple[DeviceArray, Array]:
        """Return the weights and the penalties rho to start from; compute the slacks."""

    @abstractmethod
    def measure(self, w: DeviceArray, rho: Array, step: Array, settled: Array) -> Measured:
        """Let slacks take a step along the direction, to w; then compute b and what it proves.

        Where the inner problem was settled, b becomes the anchor first.
        """

    @abstractmethod
    def along(self, w: DeviceArray, p: DeviceArray, gradient: DeviceArray) -> Array:
        """Return per problem the products of w, p and the gradient with p, w and p penalised."""

    @abstractmethod
    def aim(self, p: DeviceArray, rho: Array) -> Array:
        """Let p be a whole step; return `slope` at its end."""

    @abstractmethod
    def slope(self, t: Array, rho: Array, part: slice) -> Array:
        """Return ``sum_i b_i q_i`` where slacks have changed by t q, and its derivative in t.

        For the problems `part`; q is how slacks change in a whole step.
        """

    @abstractmethod
    def move(self, w: DeviceArray, p: DeviceArray, t: Array) -> DeviceArray:
        """Return ``w + t p``, which may be w itself; p need not be finite where t is 0."""

    @abstractmethod
    def direct(self, gradient: DeviceArray, rho: Array, wanted: Array) -> DeviceArray:
        """Return ``-Hessian^-1 gradient`` by factorisation.

        Where that is not wanted, or if told to stop, it is no direction: NaN or 0.
        """

    @abstractmethod
    def hessian(self, rho: Array) -> Hessian:
        """Return the Hessians for conjugate gradients."""

    def roughly(self) -> AbstractContextManager[None]:
        """Return a block in which products may be rough."""
        return nullcontext()

    @abstractmethod
    def adopt(self, w: DeviceArray, rho: Array, chosen: Array) -> None:
        """Certify the dual points of the chosen problems; their runs keep what is better."""

    @abstractmethod
    def keep(self, stay: Array) -> None:
        """Drop all problems but some."""

    def column(self, w: DeviceArray, j: int) -> DeviceArray:
        """Return the weights of the j-th problem, for people to look at."""
        return w if self.n_problems == 1 else w[:, j : j + 1]

    def map(self, function: Callable[[int], Made], items: Iterable[int]) -> list[Made]:
        """Return what a function makes of each item."""
        return list(map(function, items))

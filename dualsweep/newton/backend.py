"""What Newton's method asks of a placement: slacks of the rows, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import numpy as np

from .._host import to_host
from .._typing import Array, DeviceArray, DeviceDType, Namespace
from ..problems.run import Run
from .tuning import Tuning


class StartOverError(Exception):
    """The slacks of some rows were lost: the method begins again from the runs' points."""


class Measured(NamedTuple):
    """What `Backend.measure` finds at the weights w; numbers per problem are on the host."""

    gradient: DeviceArray  # of the inner problem
    inner_gap: Array  # the gap of the inner problem, half the square of its gradient
    size: Array  # the square of the penalised weights
    losses: Array
    excess: Array  # of the losses over what b proves


class Arrays:
    """A library of arrays, by its namespace; here NumPy."""

    def __init__(self, xp: Namespace = np) -> None:
        self.xp = xp

    def asarray(self, values: Array, dtype: DeviceDType = None) -> DeviceArray:
        """Return an array of the host as one of this library."""
        return np.asarray(values, dtype)

    def numpy(self, array: DeviceArray) -> Array:
        """Return an array on the host."""
        return to_host(array)

    def take(self, array: DeviceArray, places: DeviceArray, axis: int) -> DeviceArray:
        """Return the rows or columns at these places, which are an array of this library."""
        return self.xp.take(array, places, axis=axis)


class Hessian(Protocol):
    """A product and a preconditioner, for conjugate gradients."""

    space: Arrays = Arrays()

    def in_use(self) -> AbstractContextManager[None]:
        """Return a ``with`` block for products, which lets threads go at its end."""
        return nullcontext()

    def product(self, p: DeviceArray) -> DeviceArray:
        """Return the Hessian, its ridge included, times p."""

    def dots(self, A: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Return the dot product of each problem's columns."""

    def precondition(self, residual: DeviceArray) -> DeviceArray:
        """Return an approximate inverse of the Hessian, times a residual."""
        return residual

    def rounded(self, gradient: DeviceArray) -> DeviceArray:
        """Return a gradient in the precision and the order of the products."""
        return gradient

    def keep(self, stay: DeviceArray) -> Hessian:
        """Return the Hessians of the problems at these places; a single problem stays."""
        return self


class Backend(Protocol):
    """The rows of some problems: their slacks, their anchors, and the dual points b they imply.

    Weights, directions and gradients are arrays of the backend's library, of shape (n_weights,
    n_columns). A problem has a column, or is all columns. Numbers per problem are NumPy arrays.
    """

    space: Arrays = Arrays()
    weights_of_b: bool = True  # whether a certificate is about the weights of b, not about w
    runs: Sequence[Run]  # limits, certificates and history of each problem
    tuning: Tuning  # the constants, after `begin`
    direct_worth: float  # steps of conjugate gradients that take as long as a direct step

    def begin(self) -> tuple[DeviceArray, Array]:
        """Return the weights and the penalties rho to start from; compute the slacks."""

    def measure(self, w: DeviceArray, rho: Array, step: Array, settled: Array) -> Measured:
        """Let slacks take a step along the direction, to w; then compute b and what it proves.

        Where the inner problem was settled, b becomes the anchor first.
        """

    def along(self, w: DeviceArray, p: DeviceArray, gradient: DeviceArray) -> Array:
        """Return per problem the dot products of w, p and the gradient with p.

        In the first two, weights count as far as they are penalised.
        """

    def aim(self, p: DeviceArray, rho: Array) -> Array:
        """Let p be a whole step; return `slope` at its end."""

    def slope(self, t: Array, rho: Array, part: slice) -> Array:
        """Return ``sum_i b_i q_i`` where slacks have changed by t q, and its derivative in t.

        For the problems `part`; q is how slacks change in a whole step.
        """

    def search(self, line_search: Callable[[slice], Array]) -> Array:
        """Return the steps that a line search finds, here for all problems at once."""
        return line_search(slice(0, len(self.runs)))

    def move(self, w: DeviceArray, p: DeviceArray, t: Array) -> DeviceArray:
        """Return ``w + t p``, which may be w itself; p need not be finite where t is 0."""

    def direct(self, gradient: DeviceArray, rho: Array, wanted: Array) -> DeviceArray:
        """Return ``-Hessian^-1 gradient`` by factorisation; NaN or 0 if not wanted or stopped."""

    def hessian(self, rho: Array) -> Hessian:
        """Return the Hessians for conjugate gradients."""

    def adopt(self, w: DeviceArray, rho: Array, chosen: Array) -> None:
        """Certify the dual points of the chosen problems; their runs keep what is better."""

    def keep(self, stay: Array) -> None:
        """Drop all problems but some."""

    def column(self, w: DeviceArray, j: int) -> DeviceArray:
        """Return the weights of the j-th problem, for people to look at."""

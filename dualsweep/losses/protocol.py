"""What a loss is: functions of one row, picked by numba from the type of `loss`, and of arrays.

Row i with cost ``C_i > 0``, target ``t_i`` (1 for classes) and ``z_i = y_i w.x_i`` has the slack
``s = t_i - z_i`` and loses

    C_i * loss(z_i) = max over b of  b s - conjugate(b),    b between `dual_bounds`,

where ``conjugate(0) = 0``. The maximiser is the dual variable that fits the slack. In the dual

    min_a  1/2 a'Q a - t'a + sum_i conjugate_i(a_i),   Q_ij = y_i y_j x_i.x_j,

these functions are all that depends on the loss. They are inlined: kernels are compiled for each
type of loss, and have no branch on it. A loss is a NamedTuple in a module of its own. It implements
`Loss` and the functions of a row; devices and NumPy use its `ArrayLoss`.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import inf
from typing import Protocol

from .._jit import generic
from .._typing import DeviceArray, DeviceDType, Namespace


class Loss(Hashable, Protocol):
    """What Python code asks of a loss."""

    @property
    def smooth(self) -> bool:
        """Whether the loss has a second derivative nearly everywhere.

        Newton steps then need no anchor, and the penalty rho may be 0.
        """

    @property
    def bounded(self) -> bool:
        """Whether all dual variables are at most a multiple of their cost."""

    @property
    def quadratic(self) -> bool:
        """Whether `conjugate_parts` are exact for all multiples of a dual variable."""

    def on_arrays(self, xp: Namespace) -> ArrayLoss:
        """Return the loss on arrays of the library with the namespace `xp`."""


@generic
def dual_bounds(loss: Loss, cost: float) -> tuple[float, float]:
    """Return the bounds of a dual variable; 0 is between them."""


@generic
def row_loss(loss: Loss, cost: float, slack: float) -> float:
    """Return what a row loses, times its cost; 0 only if it loses nothing."""


@generic
def best_dual(loss: Loss, cost: float, slack: float) -> float:
    """Return the dual variable that fits a slack."""


@generic
def conjugate_parts(loss: Loss, cost: float, a: float) -> tuple[float, float]:
    """Return p and q such that ``conjugate(s a) = s p + s^2 q / 2``, at least for s = 1."""


@generic
def gap_share(loss: Loss, cost: float, a: float, slack: float) -> float:
    """Return a row's share of the gap: its loss minus ``a slack - conjugate(a)``, the lower bound.

    It is negative by rounding only.
    """


@generic
def certified_share(
    loss: Loss, cost: float, a: float, slack: float, error: float
) -> tuple[float, float, float, float]:
    """Return bounds on the loss and the share of a row whose slack is off by at most `error`.

    Returns the loss as computed and a bound on its error, then the share as computed (not negative)
    and a bound on the share. Both allow for the rounding of this arithmetic too.
    """


@generic
def dual_step(
    loss: Loss, cost: float, a: float, slack: float, sqnorm: float
) -> tuple[float, float, float]:
    """Return the new dual variable of a visit, the gradient seen, and what the dual gains.

    The new value minimises ``sqnorm (b - a)^2 / 2 - b slack + conjugate(b)`` over b. The gradient
    is the derivative at ``a``, on the side that a moves to; where a stays because the objective has
    a kink there, it is the distance from leaving the kink. The gain is 0 where ``b = a``.
    """


@generic
def proximal_dual(loss: Loss, cost: float, v: float, rho: float) -> tuple[float, float]:
    """Return the b that maximises ``b v - conjugate(b) - rho b^2 / 2``, and its derivative in v.

    With ``v = slack + rho anchor`` these are the dual variables of Newton's inner problem.
    """


@generic
def is_settled(loss: Loss, cost: float, a: float, slack: float, reach: float) -> bool:
    """Return whether `a` is optimal for all slacks within `reach` of this one."""


@generic
def tube(loss: Loss) -> float:
    """Return the size up to which slacks of either sign lose nothing."""


class ArrayLoss(Protocol):
    """The functions of a row, on arrays of a library with the array API.

    Slacks and dual variables may have a column per problem; then costs are a column. Rows of cost 0
    are not part of the problem: their bounds are 0, and what is returned for them is finite.
    """

    xp: Namespace

    def bounds(self, cost: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return `dual_bounds`; an infinite bound is a number."""

    def best_dual(self, cost: DeviceArray, slack: DeviceArray) -> DeviceArray:
        """Return the dual variables that fit slacks."""

    def losses(self, cost: DeviceArray, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return each `row_loss`. If the loss is smooth, b are the best dual variables."""

    def proven(self, cost: DeviceArray, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return ``b slack - conjugate(b)``, which is at most the loss."""

    def conjugate_parts(self, cost: DeviceArray, b: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return `conjugate_parts` of each row."""

    def proximal_dual(
        self, cost: DeviceArray, v: DeviceArray, rho: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray]:
        """Return `proximal_dual` of each row."""

    def certified_share(
        self, cost: DeviceArray, b: DeviceArray, slack: DeviceArray, error: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
        """Return `certified_share` of each row."""

    def clipped(self, cost: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return the nearest dual variables within their bounds."""
        lower, upper = self.bounds(cost)
        b = b if isinstance(lower, float) else self.xp.maximum(b, lower)
        return b if isinstance(upper, float) else self.xp.minimum(b, upper)

    def rounded(self, cost: DeviceArray, b: DeviceArray, dtype: DeviceDType) -> DeviceArray:
        """Return dual variables in a lower precision; those within their bounds stay within."""
        xp, rounded = self.xp, self.xp.astype(b, dtype)
        if dtype == b.dtype:
            return rounded
        lower, upper = self.bounds(cost)
        if not isinstance(lower, float):
            rounded = xp.maximum(rounded, -rounded_down(xp, -lower, dtype))
        return (
            rounded
            if isinstance(upper, float)
            else xp.minimum(rounded, rounded_down(xp, upper, dtype))
        )

    def room(self, cost: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return the largest number by which each dual variable may be multiplied."""
        xp = self.xp
        room = xp.full_like(b, inf)
        for bound in self.bounds(cost):
            if not isinstance(bound, float):
                towards = b * bound > 0  # at a bound of 0 there are only zeros
                room = xp.where(towards, bound / xp.where(towards, b, xp.ones_like(b)), room)
        return room


def rounded_down(xp: Namespace, values: DeviceArray, dtype: DeviceDType) -> DeviceArray:
    """Return numbers in a lower precision that are not larger."""
    rounded = xp.astype(values, dtype)
    below = rounded * (1 - float(xp.finfo(dtype).eps))
    return xp.where(xp.astype(rounded, values.dtype) > values, below, rounded)

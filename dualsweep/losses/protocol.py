"""What kernels ask of a loss: functions that numba picks by the type of `loss`.

Row i with cost ``C_i > 0``, target ``t_i`` (1 for classes) and ``z_i = y_i w.x_i`` has the slack
``s = t_i - z_i`` and loses

    C_i * loss(z_i) = max over b of  b s - conjugate(b),    b between `dual_bounds`,

where ``conjugate(0) = 0``. The maximiser is the dual variable that fits the slack. In the dual

    min_a  1/2 a'Q a - t'a + sum_i conjugate_i(a_i),   Q_ij = y_i y_j x_i.x_j,

these functions are all that depends on the loss. They are scalar, inlined, and compiled without a
branch on the kind of loss. A loss is a NamedTuple in a module of its own, which implements them,
`Loss` and, for devices, `dualsweep.losses.arrays.ArrayLoss`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from .._jit import generic


class Loss(Hashable, Protocol):
    """What the rest asks of a loss before any row is looked at."""

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
    """Return a row's share of the gap: its loss minus the lower bound that `a` proves.

    That is the maximum over b of ``b slack - conjugate(b)``, minus the same at ``b = a``: never
    negative, but for rounding.
    """


@generic
def certified_share(
    loss: Loss, cost: float, a: float, slack: float, error: float
) -> tuple[float, float, float, float]:
    """Return bounds on the loss and the share of a row whose slack is off by at most `error`.

    These are the loss as computed, a bound on how far off it is, the share as computed (not
    negative), and a bound on the share. They allow for the rounding of this arithmetic too.
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

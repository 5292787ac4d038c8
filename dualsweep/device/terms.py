"""The part of the objective that depends on the rows, slice by slice: one versus the rest.

The formulas are those of `dualsweep.kernels.newton` and `dualsweep.kernels.certificate`, for all
classes at once: arrays have a row per row of a slice and a column per class. What is added up over
the rows is added up per problem: for each column here, for all of them together where all classes
are one problem (`dualsweep.device.multiclass`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from ..kernels.certificate import OF_DUAL, OF_SLACK, UNDERFLOW
from ..kernels.loss import Loss
from ..problems.losses import loss_of
from ..rows.functions import EPS
from .arrays import Space

INF = float("inf")


class Implied(NamedTuple):
    """The dual variables b that belong to some slacks, and how they move with these.

    `free` is by how much b changes with its own slack, 0 where it is at a bound. `bound` tells, of
    Crammer-Singer, where the sum of a row's dual variables is at its bound.
    """

    b: Any
    free: Any
    bound: Any = None


class Sums(NamedTuple):
    """What a certificate adds up; see `dualsweep.kernels.certificate`, for the order too."""

    losses: Any
    spread: Any
    shares: Any
    seen: Any
    lengths: Any
    drift: Any


class Terms(ABC):
    """Losses and dual variables of all rows.

    Parameters
    ----------
    space : Space
        Where the arrays are.
    codes : array of int64
        Number of each row's class.
    cost : array of float64
        Cost of each row, 0 for those that are not part of the problem.
    n_classes : int
        Columns.
    """

    smooth = False  # whether Newton steps need no anchor
    n_problems: int

    def __init__(self, space: Space, codes: Any, cost: Any, n_classes: int) -> None:
        self.space, self.codes, self.cost, self.n_classes = space, codes, cost, n_classes
        self._costs = {cost.dtype: cost[:, None]}

    def costs(self, part: slice, dtype: Any) -> Any:
        """Return the costs of a slice as a column."""
        if dtype not in self._costs:
            self._costs[dtype] = self.space.xp.astype(self.cost, dtype)[:, None]
        return self._costs[dtype][part, :]

    @abstractmethod
    def primal_at_zero(self) -> Any:
        """Return the objective of each problem where all weights are 0."""

    def some(self, places: Any) -> Terms:
        """Return the terms of some of several problems."""
        raise NotImplementedError

    def pair(self, free: Any, bound: Any, a: int, c: int) -> Any:
        """Return, of each row, how the dual variable of class a changes with the response of c."""
        raise NotImplementedError

    @abstractmethod
    def dots(self, A: Any, B: Any) -> Any:
        """Return the dot products of the columns of each problem."""

    @abstractmethod
    def slack(self, part: slice, Z: Any) -> Any:
        """Return the slacks of rows with these responses."""

    @abstractmethod
    def change(self, part: slice, Z: Any) -> Any:
        """Return by how much slacks change where responses change by Z."""

    @abstractmethod
    def implied(self, part: slice, slack: Any, anchor: Any, rho: Any) -> Implied:
        """Return the dual variables that belong to slacks; see `dualsweep.solvers.newton`."""

    @abstractmethod
    def losses(self, part: slice, slack: Any, b: Any) -> tuple[Any, Any]:
        """Return the losses, and their excess over what b proves."""

    @abstractmethod
    def signed(self, part: slice, b: Any) -> Any:
        """Return by how much of each row the weights of each class are made up."""

    @abstractmethod
    def unsigned(self, part: slice, signed: Any) -> Any:
        """Return the dual variables that make up so much of each row."""

    @abstractmethod
    def clipped(self, part: slice, b: Any) -> Any:
        """Return dual variables that are feasible, and others as near as that is simple."""

    @abstractmethod
    def room(self, part: slice, b: Any) -> Any:
        """Return the largest number by which all of these dual variables may be multiplied."""

    @abstractmethod
    def curvature(self, part: slice, free: Any, bound: Any, Z: Any) -> Any:
        """Return by how much signed dual variables change, but for sign, with responses Z.

        `free` and `bound` are those of the slice.
        """

    @abstractmethod
    def diagonal(self, part: slice, free: Any, bound: Any) -> Any:
        """Return by how much a dual variable changes with the response of its own class."""

    def square(self, part: slice, b: Any) -> Any:
        """Return ``sum_i D_i b_i^2``."""
        return self.dots(self.space.xp.zeros_like(b), b)

    @abstractmethod
    def feasible(self, part: slice, b: Any, dtype: Any) -> Any:
        """Return dual variables rounded to a precision, and still feasible."""

    @abstractmethod
    def certify(
        self, part: slice, slack: Any, b: Any, norm: Any, rounding: Any, length: Any
    ) -> Sums:
        """Return what a certificate adds up, in float64.

        `norm` are the lengths of the rows, `length` that of the weights of each problem, and
        `rounding` the errors of responses in parts of both.
        """


class OneVersusRest(Terms):
    """A binary problem per column.

    Parameters
    ----------
    space, codes, cost
        See `Terms`.
    columns : array of int64
        The class that each column is about.
    loss : Loss
        The loss, without a kink.
    """

    def __init__(self, space: Space, codes: Any, cost: Any, columns: Any, loss: Loss) -> None:
        super().__init__(space, codes, cost, columns.shape[0])
        if loss.kink:
            raise ValueError(
                f"A loss with a kink, {loss.kink:g}, cannot be trained on a device. Train on the "
                "host, or with a loss whose kink is 0."
            )
        self.columns, self.loss = columns, loss
        self.n_problems, self.smooth = self.n_classes, loss.diag > 0.0
        self.bounded = any(0.0 < abs(bound) < INF for bound in (loss.lower, loss.upper))

    def some(self, places: Any) -> OneVersusRest:
        columns = self.space.xp.take(self.columns, places, axis=0)
        return OneVersusRest(self.space, self.codes, self.cost, columns, self.loss)

    def primal_at_zero(self) -> Any:
        xp = self.space.xp
        total = xp.sum(self.cost) * loss_of(1.0, self.loss)
        return total * xp.ones_like(self.columns, dtype=xp.float64)

    def _boxed(self, b: Any, cost: Any) -> Any:
        """Return the nearest numbers in the box, for costs as a column."""
        xp, (lower, upper, _, _) = self.space.xp, self.loss
        if lower > -INF:  # a bound of INF times a cost of 0 is none
            b = xp.maximum(b, lower * cost)
        return xp.minimum(b, upper * cost) if upper < INF else b

    def _inside(self, b: Any, cost: Any) -> Any:
        """Tell where numbers are between the bounds."""
        lower, upper, _, _ = self.loss
        above = b > lower * cost if lower > -INF else b == b
        return above & (b < upper * cost) if upper < INF else above

    def _own(self, part: slice) -> Any:
        """Tell where a row is of the class of the column."""
        return self.codes[part][:, None] == self.columns[None, :]

    def dots(self, A: Any, B: Any) -> Any:
        return self.space.xp.sum(A * B, axis=0)

    def slack(self, part: slice, Z: Any) -> Any:
        return 1 + self.change(part, Z)

    def change(self, part: slice, Z: Any) -> Any:
        return self.space.xp.where(self._own(part), -Z, Z)

    def implied(self, part: slice, slack: Any, anchor: Any, rho: Any) -> Implied:
        xp, cost = self.space.xp, self.costs(part, slack.dtype)
        if not self.smooth:
            u, scale = slack / rho + anchor, 1 / rho
        else:
            scale = cost / self.loss.diag  # 1 / D
            u = slack * scale
            if self.loss.lower == -INF and self.loss.upper == INF:
                return Implied(u, xp.broadcast_to(scale, u.shape))
        free = xp.where(self._inside(u, cost), scale, xp.zeros_like(u))
        return Implied(self._boxed(u, cost), free)

    def losses(self, part: slice, slack: Any, b: Any) -> tuple[Any, Any]:
        xp, proven = self.space.xp, self.dots(b, slack)
        if self.smooth:  # b is the maximiser: the loss is b s - D b^2/2, with b = s/D, 0 or a bound
            square = self.square(part, b) if self.bounded else proven
            return proven - 0.5 * square, xp.zeros_like(proven)
        cost, zero = self.costs(part, slack.dtype), xp.zeros_like(slack)
        losses = self.loss.upper * xp.sum(xp.maximum(slack, zero) * cost, axis=0)
        if self.loss.lower:
            losses = losses + self.loss.lower * xp.sum(xp.minimum(slack, zero) * cost, axis=0)
        return losses, losses - proven

    def signed(self, part: slice, b: Any) -> Any:
        return self.space.xp.where(self._own(part), b, -b)

    def unsigned(self, part: slice, signed: Any) -> Any:
        return self.signed(part, signed)

    def clipped(self, part: slice, b: Any) -> Any:
        cost = self.costs(part, b.dtype)
        return self._boxed(self.space.xp.where(cost > 0, b, self.space.xp.zeros_like(b)), cost)

    def room(self, part: slice, b: Any) -> Any:
        xp, cost = self.space.xp, self.costs(part, b.dtype)
        room = xp.full_like(b, INF)
        for bound in (self.loss.lower, self.loss.upper):
            if 0.0 < abs(bound) < INF:  # at a bound of 0 there are only zeros
                towards = b * bound > 0
                most = bound * cost / xp.where(towards, b, xp.ones_like(b))
                room = xp.where(towards, most, room)
        return xp.min(room, axis=0)

    def square(self, part: slice, b: Any) -> Any:
        return self.dots(self._diag(self.costs(part, b.dtype)) * b, b)

    def curvature(self, part: slice, free: Any, bound: Any, Z: Any) -> Any:
        return free * Z

    def diagonal(self, part: slice, free: Any, bound: Any) -> Any:
        return free

    def feasible(self, part: slice, b: Any, dtype: Any) -> Any:
        xp, cost = self.space.xp, self.costs(part, b.dtype)
        rounded = xp.astype(b, dtype)
        if dtype == b.dtype or not self.bounded:
            return rounded
        if -INF < self.loss.lower < 0.0:
            rounded = xp.maximum(rounded, -rounded_down(xp, -self.loss.lower * cost, dtype))
        if self.loss.upper < INF:
            rounded = xp.minimum(rounded, rounded_down(xp, self.loss.upper * cost, dtype))
        return rounded

    def certify(
        self, part: slice, slack: Any, b: Any, norm: Any, rounding: Any, length: Any
    ) -> Sums:
        xp, cost = self.space.xp, self.costs(part, slack.dtype)
        zero = xp.zeros_like(b)
        error = (rounding * norm)[:, None] * length[None, :] + UNDERFLOW
        error += EPS * xp.abs(slack)
        wider = error
        if self.smooth:
            wider = error + OF_SLACK * xp.abs(slack) + OF_DUAL * self._diag(cost) * xp.abs(b)
        start, end = slack - wider, slack + wider
        steepest = xp.maximum(xp.abs(self._best(start, cost)), xp.abs(self._best(end, cost)))
        wobble = steepest * error
        losses = self._share(slack, zero, cost) + wobble
        seen = xp.maximum(self._share(slack, b, cost), zero)
        share = xp.maximum(self._share(start, b, cost), self._share(end, b, cost))
        lengths = xp.abs(b) * norm[:, None]
        found = (losses, wobble, xp.maximum(share, seen), seen, lengths, zero)
        return Sums(*(xp.sum(each, axis=0) for each in found))

    def _diag(self, cost: Any) -> Any:
        """Return the diagonal of each row. A row without a cost gets that of a cost of 1."""
        xp = self.space.xp
        return self.loss.diag / xp.where(cost > 0, cost, xp.ones_like(cost))

    def _best(self, slack: Any, cost: Any) -> Any:
        """Return the dual variables that belong to slacks."""
        if self.smooth:
            return self._boxed(slack * (cost / self.loss.diag), cost)
        return self.space.xp.where(slack > 0, self.loss.upper * cost, self.loss.lower * cost)

    def _share(self, slack: Any, b: Any, cost: Any) -> Any:
        """Return by how much the losses exceed what b proves; of b = 0 that is the losses.

        That is ``(best - b) (slack - D (best + b) / 2)``, best being the dual variable that
        belongs to the slack, and ``D = diag / cost``.
        """
        best = self._best(slack, cost)
        if not self.smooth:
            return (best - b) * slack
        return (best - b) * (slack - 0.5 * self._diag(cost) * (best + b))


def rounded_down(xp: Any, values: Any, dtype: Any) -> Any:
    """Return numbers in a lower precision that are not larger."""
    rounded = xp.astype(values, dtype)
    below = rounded * (1 - float(xp.finfo(dtype).eps))
    return xp.where(xp.astype(rounded, values.dtype) > values, below, rounded)

"""What the objective and its dual need of the rows, by formulation, for a part of the rows.

Arrays have a row per row of a part and a column per class. Sums over the rows are per problem: of
each column if classes have problems of their own (`BinaryTerms`), of all columns if all classes are
one problem (`MulticlassTerms`). The formulas are those of `dualsweep.kernels`, which go row by row,
and of `dualsweep.losses`; devices need them for whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..._typing import Array, DeviceArray, DeviceDType
from ...kernels.certificate import UNDERFLOW
from ...kernels.multiclass import OF_SUMS, OF_VIOLATION, SQRT_2
from ...kernels.multinomial import OF_ENTROPY, OF_SOFTMAX
from ...losses import LOSSES, Loss
from ...rows.functions import EPS, SMALLEST
from .arrays import Space

# The least probability of the own class that the choice of a start reckons with.
LEAST_OWN = 1e-3


class Moves(NamedTuple):
    """How the dual variables b move with their slacks.

    `free` is the derivative of each in its own slack, 0 at a bound. `bound` says, for
    Crammer-Singer, where the sum of a row's dual variables is at its bound.
    """

    free: DeviceArray
    bound: DeviceArray | None = None


class Sizes(NamedTuple):
    """What rounding is in proportion to, in a certificate."""

    norm: DeviceArray  # of each row of a part
    rounding: DeviceArray  # error of the responses of each, relative to both lengths
    length: DeviceArray  # of the weights of each problem


T = TypeVar("T", bound="Columns")


class Columns:
    """Classes (`codes`) and costs of all rows, and the class that each column is about.

    The cost of a row that is not part of the problem is 0. `loss` has the bounds of dual variables.
    """

    separate = False  # whether each column is a problem of its own

    def __init__(
        self, space: Space, codes: DeviceArray, cost: DeviceArray, columns: Array, loss: Loss
    ) -> None:
        self.space, self.xp, self.codes, self.cost = space, space.xp, codes, cost
        self.columns, self.n_columns = space.asarray(columns), len(columns)
        self.n_problems = self.n_columns if self.separate else 1
        self.loss, self.on = loss, loss.on_arrays(space.xp)
        self.smooth = loss.smooth  # whether Newton steps need no anchor
        self.n_used = int(space.xp.sum(space.xp.astype(cost > 0, space.xp.int64)))
        self._costs = {cost.dtype: cost[:, None]}

    @property
    def mean_cost(self) -> float:
        """The mean cost of the rows that have one."""
        return float(self.xp.sum(self.cost)) / max(self.n_used, 1)

    def costs(self, part: slice, dtype: DeviceDType) -> DeviceArray:
        """Return the costs of a part as a column."""
        if dtype not in self._costs:
            self._costs[dtype] = self.xp.astype(self.cost, dtype)[:, None]
        return self._costs[dtype][part, :]

    def own(self, part: slice) -> DeviceArray:
        """Return where the column is that of the row's class."""
        return self.codes[part][:, None] == self.columns[None, :]

    def some(self: T, places: DeviceArray) -> T:
        """Return the terms of the problems at these places, in ascending order."""
        if not self.separate:
            return self
        twin = copy(self)
        twin.columns = self.space.take(self.columns, places, 0)
        twin.n_columns = twin.n_problems = places.shape[0]
        return twin

    def columns_of(self, places: DeviceArray, table: DeviceArray) -> DeviceArray:
        """Return the columns of these problems; if it is all, the table itself."""
        if places.shape[0] == self.n_problems:
            return table
        return self.space.take(table, places, 1)

    def column(self, w: DeviceArray, j: int) -> DeviceArray:
        """Return the weights of the j-th problem."""
        return w[:, j : j + 1] if self.separate else w

    def each(self, reduce: Callable[..., DeviceArray], values: DeviceArray) -> DeviceArray:
        """Return the sum, or the minimum, of each problem."""
        if self.separate:
            return reduce(values, axis=0)
        return self.xp.reshape(reduce(values), (1,))

    def dots(self, A: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Return the dot products of the columns of each problem."""
        return self.each(self.xp.sum, A * B)

    def clipped(self, part: slice, b: DeviceArray) -> DeviceArray:
        """Return feasible dual variables: the nearest, or for Crammer-Singer a shrunk row."""
        xp, cost = self.xp, self.costs(part, b.dtype)
        return self.on.clipped(cost, xp.where(cost > 0, b, xp.zeros_like(b)))

    def feasible(self, part: slice, b: DeviceArray, dtype: DeviceDType) -> DeviceArray:
        """Return dual variables rounded to a precision, and still feasible."""
        return self.on.rounded(self.costs(part, b.dtype), b, dtype)

    def room(self, part: slice, b: DeviceArray) -> DeviceArray:
        """Return the largest number by which all of these dual variables may be multiplied."""
        return self.each(self.xp.min, self.on.room(self.costs(part, b.dtype), b))

    def conjugates(self, part: slice, b: DeviceArray) -> list[DeviceArray]:
        """Return the sums of the `conjugate_parts` of the loss."""
        parts = self.on.conjugate_parts(self.costs(part, b.dtype), b)
        return [self.each(self.xp.sum, values) for values in parts]


class BinaryTerms(Columns):
    """A binary problem per column."""

    separate = True

    def slack(self, part: slice, Z: DeviceArray) -> DeviceArray:
        """Return the slacks of rows with these responses."""
        return 1 + self.change(part, Z)

    def change(self, part: slice, Z: DeviceArray) -> DeviceArray:
        """Return how slacks change where responses change by Z."""
        return self.xp.where(self.own(part), -Z, Z)

    def implied(
        self, part: slice, slack: DeviceArray, anchor: DeviceArray | None, rho: DeviceArray
    ) -> tuple[DeviceArray, Moves]:
        """Return the b of Newton's inner problem, and how they move; see `dualsweep.newton`."""
        v = slack if anchor is None else slack + rho * anchor
        b, free = self.on.proximal_dual(self.costs(part, slack.dtype), v, rho)
        return b, Moves(free)

    def losses(self, part: slice, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        """Return the losses of each problem, and their excess over what b proves."""
        xp, cost = self.xp, self.costs(part, slack.dtype)
        losses = self.each(xp.sum, self.on.losses(cost, slack, b))
        if self.smooth:
            return xp.stack([losses, xp.zeros_like(losses)])
        return xp.stack([losses, losses - self.each(xp.sum, self.on.proven(cost, slack, b))])

    def signed(self, part: slice, b: DeviceArray) -> DeviceArray:
        """Return the coefficients of rows in the weights of each column."""
        return self.xp.where(self.own(part), b, -b)

    def unsigned(self, part: slice, signed: DeviceArray) -> DeviceArray:
        """Return the dual variables that belong to coefficients."""
        return self.signed(part, signed)

    def curvature(self, part: slice, moves: Moves, Z: DeviceArray) -> DeviceArray:
        """Return how coefficients change, but for their sign, with responses Z."""
        return moves.free * Z

    def diagonal(self, part: slice, moves: Moves) -> DeviceArray:
        """Return how a dual variable changes with the response of its own class."""
        return moves.free

    def pair(self, moves: Moves, a: int, c: int) -> DeviceArray:
        """Return how coefficients in column a change with responses in c, of all rows."""
        return moves.free[:, a]

    def certify(self, part: slice, slack: DeviceArray, b: DeviceArray, sizes: Sizes) -> DeviceArray:
        """Return what a certificate adds up, in float64; see `kernels.certificate`."""
        xp, (norm, rounding, length), cost = self.xp, sizes, self.costs(part, slack.dtype)
        error = (rounding * norm)[:, None] * length[None, :] + UNDERFLOW
        error += EPS * xp.abs(slack)
        lost, spread, seen, share = self.on.certified_share(cost, b, slack, error)
        found = (lost + spread, spread, share, seen, xp.abs(b) * norm[:, None], xp.zeros_like(b))
        return xp.stack([self.each(xp.sum, values) for values in found])


class MulticlassTerms(Columns):
    """Crammer-Singer (`joint`) or Weston-Watkins: one problem over all columns.

    Methods are described in `BinaryTerms`. The slack of a row's own class is 0, and so is its dual
    variable: nothing else leaves it out.
    """

    def __init__(
        self, space: Space, codes: DeviceArray, cost: DeviceArray, n_classes: int, joint: bool
    ) -> None:
        super().__init__(space, codes, cost, np.arange(n_classes), LOSSES["hinge"])
        self.joint = joint
        self._levels = space.zeros((codes.shape[0], 1), cost.dtype)  # of the latest projections

    def slack(self, part: slice, Z: DeviceArray) -> DeviceArray:
        return self.change(part, Z) + self.xp.astype(~self.own(part), Z.dtype)

    def change(self, part: slice, Z: DeviceArray) -> DeviceArray:
        return Z - self.xp.take_along_axis(Z, self.codes[part][:, None], axis=1)

    def implied(
        self, part: slice, slack: DeviceArray, anchor: DeviceArray | None, rho: DeviceArray
    ) -> tuple[DeviceArray, Moves]:
        xp, cost = self.xp, self.costs(part, slack.dtype)
        u = slack / rho + anchor
        zero = xp.zeros_like(u)
        if not self.joint:
            b = xp.minimum(xp.maximum(u, zero), cost)
            return b, Moves(xp.where((u > 0) & (u < cost), 1 / rho, zero))
        b, bound = self._projected(part, u, cost)
        return b, Moves(xp.where(b > 0, 1 / rho, zero), bound)

    def _projected(
        self, part: slice, u: DeviceArray, cost: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray]:
        """Return the projection of each row of u to ``b >= 0, sum b <= cost``, and where it is =.

        A kernel projects row by row (`kernels.newton_multiclass`); a device projects all rows at
        once. That is b = max(u - level, 0), with level > 0 where the sum is at its bound. With the
        largest entry of u taken away, which keeps huge numbers exact, the level is at least -cost.
        The sum is convex and decreasing in the level: the first Newton step (Michelot 1986), from
        where the level was before, ends below it, and then each drops entries until none does.
        """
        xp, zero = self.xp, self.xp.zeros_like(u)
        top = xp.max(u, axis=1, keepdims=True)
        least = xp.maximum(-cost, -top)  # -top is a level of 0
        u = u - top
        level = xp.maximum(xp.astype(self._levels[part, :], u.dtype) - top, least)
        first = True
        while True:
            above = u > level
            counts = xp.sum(xp.astype(above, u.dtype), axis=1, keepdims=True)
            sums = xp.sum(xp.where(above, u, zero), axis=1, keepdims=True)
            better = (sums - cost) / xp.maximum(counts, xp.ones_like(counts))
            better = xp.maximum(better, least if first else level)  # never less, by rounding
            if not first and not bool(xp.any(better > level)):
                break
            level, first = better, False
        self._levels[part, :] = xp.astype(level + top, self._levels.dtype)
        return xp.maximum(u - level, zero), level > -top

    def losses(self, part: slice, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        cost = self.costs(part, slack.dtype)[:, 0]
        losses = self.each(self.xp.sum, self._loss(slack) * cost)
        return self.xp.stack([losses, losses - self.dots(b, slack)])

    def _loss(self, slack: DeviceArray) -> DeviceArray:
        """Return the loss of each row; the slack of its own class is 0."""
        if self.joint:
            return self.xp.max(slack, axis=1)
        return self.xp.sum(self.xp.maximum(slack, self.xp.zeros_like(slack)), axis=1)

    def signed(self, part: slice, b: DeviceArray) -> DeviceArray:
        return self.xp.where(self.own(part), self.xp.sum(b, axis=1, keepdims=True), -b)

    def unsigned(self, part: slice, signed: DeviceArray) -> DeviceArray:
        return self.xp.where(self.own(part), self.xp.zeros_like(signed), -signed)

    def clipped(self, part: slice, b: DeviceArray) -> DeviceArray:
        b = super().clipped(part, b)
        if not self.joint:
            return b
        xp, cost = self.xp, self.costs(part, b.dtype)
        total = xp.maximum(xp.sum(b, axis=1, keepdims=True), cost)
        return b * (cost / xp.where(total > 0, total, xp.ones_like(total)))

    def room(self, part: slice, b: DeviceArray) -> DeviceArray:
        return super().room(part, self.xp.sum(b, axis=1, keepdims=True) if self.joint else b)

    def curvature(self, part: slice, moves: Moves, Z: DeviceArray) -> DeviceArray:
        xp, (free, bound) = self.xp, moves
        moved = free * Z
        total, whole = (xp.sum(each, axis=1, keepdims=True) for each in (moved, free))
        level = xp.take_along_axis(Z, self.codes[part][:, None], axis=1)
        if bound is not None:  # the sum stays what it is
            mean = total / xp.where(whole > 0, whole, xp.ones_like(whole))
            level = xp.where(bound, mean, level)
        moved -= free * level
        return xp.where(self.own(part), level * whole - total, moved)

    def diagonal(self, part: slice, moves: Moves) -> DeviceArray:
        xp, (free, bound) = self.xp, moves
        own = total = xp.sum(free, axis=1, keepdims=True)
        if bound is not None:
            share = free / xp.where(total > 0, total, xp.ones_like(total))
            free = xp.where(bound, free * (1 - share), free)
            own = xp.where(bound, xp.zeros_like(total), total)
        return xp.where(self.own(part), own, free)

    def pair(self, moves: Moves, a: int, c: int) -> DeviceArray:
        xp, (free, bound) = self.xp, moves
        zero = xp.zeros_like(free[:, 0])
        total = xp.sum(free, axis=1)
        sums = xp.where(total > 0, total, xp.ones_like(total))
        at_bound = xp.zeros_like(self.codes, dtype=xp.bool) if bound is None else bound[:, 0]
        one, other = free[:, a], free[:, c]
        first, second = self.codes == a, self.codes == c
        out = xp.where(at_bound, -one * other / sums, zero)
        out -= xp.where(~at_bound & second, one, zero) + xp.where(~at_bound & first, other, zero)
        if a == c:
            out += one + xp.where(~at_bound & first, total, zero)
        return out

    def feasible(self, part: slice, b: DeviceArray, dtype: DeviceDType) -> DeviceArray:
        if not self.joint:
            return super().feasible(part, b, dtype)
        xp, cost, b = self.xp, self.costs(part, b.dtype), self.xp.astype(b, dtype)
        total = xp.sum(xp.astype(b, cost.dtype), axis=1, keepdims=True)
        over = total > cost
        factor = xp.astype(cost / xp.where(over, total, xp.ones_like(total)), dtype)
        factor = factor * (1 - 4 * float(xp.finfo(dtype).eps))
        return xp.where(over, b * factor, b)

    def certify(self, part: slice, slack: DeviceArray, b: DeviceArray, sizes: Sizes) -> DeviceArray:
        xp, (norm, rounding, length) = self.xp, sizes
        cost = self.costs(part, slack.dtype)[:, 0]
        reach = SQRT_2 * length * norm
        error = rounding * reach + OF_VIOLATION * EPS * (1 + reach)  # more than underflow
        sums = (self.n_columns + OF_SUMS) * EPS
        own, total = cost * self._loss(slack), xp.sum(b, axis=1)
        product = xp.sum(b * slack, axis=1)
        seen = xp.maximum(own - product, xp.zeros_like(own))
        active = ((slack > -error[:, None]) & ~self.own(part)) | (b > 0)
        active = xp.sum(xp.astype(active, slack.dtype), axis=1)
        excess = xp.zeros_like(own)
        if self.joint:
            active = xp.minimum(active, xp.ones_like(active))
            excess = xp.maximum((1 + sums) * total - cost, excess)
        wobble = cost * error * active + sums * own
        part_over = excess / xp.where(excess > 0, total, xp.ones_like(total))
        share = (1 + sums) * seen + 2 * wobble + part_over * xp.abs(product)
        lengths, drift = SQRT_2 * total * norm, SQRT_2 * (excess + sums * total) * norm
        found = (own + wobble, wobble, share, seen, lengths, drift)
        return xp.stack([self.each(xp.sum, values) for values in found])


class MultinomialTerms(MulticlassTerms):
    """Multinomial logistic regression: one problem over all columns.

    A slack is the difference t of a score to that of the own class. Newton steps need no anchor:
    the dual variables b that fit slacks are C_i times the probabilities, and `Moves.free` are these
    with that of the own class.
    """

    def __init__(
        self, space: Space, codes: DeviceArray, cost: DeviceArray, n_classes: int, joint: bool
    ) -> None:
        super().__init__(space, codes, cost, n_classes, joint)
        self.smooth = True

    def slack(self, part: slice, Z: DeviceArray) -> DeviceArray:
        return self.change(part, Z)

    def _softmax(
        self, part: slice, slack: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        """Return probabilities, what the own class leaves to the others, and losses, as columns.

        The last two are precise relative to themselves where they are small.
        """
        xp = self.xp
        top = xp.max(slack, axis=1, keepdims=True)
        q = xp.exp(slack - top)
        others = xp.sum(xp.where(self.own(part), xp.zeros_like(q), q), axis=1, keepdims=True)
        total = xp.exp(-top) + others
        loss = xp.where(top > 0, top + xp.log(total), xp.log1p(others))
        return q / total, others / total, loss

    def implied(
        self, part: slice, slack: DeviceArray, anchor: DeviceArray | None, rho: DeviceArray
    ) -> tuple[DeviceArray, Moves]:
        xp = self.xp
        free = self._softmax(part, slack)[0] * self.costs(part, slack.dtype)
        return xp.where(self.own(part), xp.zeros_like(free), free), Moves(free)

    def losses(self, part: slice, slack: DeviceArray, b: DeviceArray) -> DeviceArray:
        losses = self._softmax(part, slack)[2] * self.costs(part, slack.dtype)
        losses = self.each(self.xp.sum, losses)
        return self.xp.stack([losses, self.xp.zeros_like(losses)])

    def conjugates(self, part: slice, b: DeviceArray) -> list[DeviceArray]:
        """Return the parts of the parabola through the conjugates of the multiples of b, at b.

        The entropy of s p has the derivatives ``-sum_m p_m log(p_m / p_y)`` and ``-x / p_y`` at
        s = 1, with the sum x of the p_m of other classes.
        """
        xp, cost = self.xp, self._positive_costs(part, b.dtype)
        p = b / cost
        x = xp.sum(p, axis=1, keepdims=True)
        own = xp.maximum(1 - x, xp.full_like(x, LEAST_OWN))
        ratio = xp.where(p > 0, p / own, xp.ones_like(p))
        curved = self.each(xp.sum, cost * (x / own))
        return [self.each(xp.sum, b + b * xp.log(ratio)) - curved, curved]

    def _positive_costs(self, part: slice, dtype: DeviceDType) -> DeviceArray:
        """Return the costs of a part as a column, 1 for rows without."""
        cost = self.costs(part, dtype)
        return self.xp.where(cost > 0, cost, self.xp.ones_like(cost))

    def curvature(self, part: slice, moves: Moves, Z: DeviceArray) -> DeviceArray:
        xp, free = self.xp, moves.free
        moved = free * Z
        mean = xp.sum(moved, axis=1, keepdims=True) / self._positive_costs(part, free.dtype)
        return moved - free * mean

    def diagonal(self, part: slice, moves: Moves) -> DeviceArray:
        return moves.free * (1 - moves.free / self._positive_costs(part, moves.free.dtype))

    def pair(self, moves: Moves, a: int, c: int) -> DeviceArray:
        one, other = moves.free[:, a], moves.free[:, c]
        moved = -one * (other / self._positive_costs(slice(None), one.dtype)[:, 0])
        return moved + one if a == c else moved

    def certify(self, part: slice, slack: DeviceArray, b: DeviceArray, sizes: Sizes) -> DeviceArray:
        """Do what `kernels.multinomial.certify_rows_multinomial` does, whose names these are."""
        xp, (norm, rounding, length), k = self.xp, sizes, self.n_columns
        cost = self._positive_costs(part, slack.dtype)[:, 0]
        reach = SQRT_2 * length * norm
        error = rounding * reach + OF_VIOLATION * EPS * reach + UNDERFLOW
        sums = (k + OF_SOFTMAX) * EPS
        q, others, loss = self._softmax(part, slack)
        p, zero = b / cost[:, None], xp.zeros_like(b)
        log_p = xp.log(xp.where(p > 0, p, xp.ones_like(p)))
        apart = xp.sum(xp.where(self.own(part), zero, xp.abs(q - p)), axis=1)
        seen = xp.sum(p * (log_p + (loss - slack)), axis=1)
        size = xp.sum(p * (xp.abs(log_p) + loss + xp.abs(slack)), axis=1)
        others, loss, total = others[:, 0], loss[:, 0], xp.sum(b, axis=1)
        x = xp.minimum(total / cost, xp.ones_like(total))
        below = x < 1
        own = xp.log1p(-xp.where(below, x, xp.zeros_like(x))) + loss
        seen = xp.maximum(xp.where(below, seen + (1 - x) * own, seen), xp.zeros_like(seen))
        size += loss + x * (OF_ENTROPY + loss + 2)
        excess = xp.maximum((1 + sums) * total - cost, xp.zeros_like(total))
        size *= 1 + excess / xp.where(excess > 0, total, xp.ones_like(total)) / sums
        rough = 4 * EPS * reach * others + 4 * k * SMALLEST
        wobble = (1 + sums) * error * (others + error) + 2 * sums * loss + rough
        share = seen + error * (apart + sums * (x + others) + error) + 2 * sums * size + rough
        cost = self.costs(part, slack.dtype)[:, 0]
        excess = xp.where(cost > 0, excess, xp.zeros_like(excess))
        lengths, drift = SQRT_2 * total * norm, SQRT_2 * (excess + sums * total) * norm
        share = (1 + sums) * cost * share
        found = (cost * (loss + wobble), cost * wobble, share, cost * seen, lengths, drift)
        return xp.stack([self.each(xp.sum, values) for values in found])


Terms: TypeAlias = BinaryTerms | MulticlassTerms

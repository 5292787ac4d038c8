"""The part of the objective that depends on the rows: all classes at once.

The formulas are those of `dualsweep.kernels.newton_multiclass` and `certify_rows_multiclass`. The
slack of a row's own class is 0, so is its dual variable: nothing else is done to leave it out.
"""

from __future__ import annotations

from typing import Any

from ..kernels.multiclass import OF_SUMS, OF_VIOLATION, SQRT_2
from ..rows.functions import EPS
from .arrays import Space
from .terms import Implied, Sums, Terms, rounded_down


class AllAtOnce(Terms):
    """Crammer-Singer (`joint`) or Weston-Watkins: one problem over all columns."""

    n_problems = 1

    def __init__(self, space: Space, codes: Any, cost: Any, n_classes: int, joint: bool) -> None:
        super().__init__(space, codes, cost, n_classes)
        self.joint = joint
        self.columns = space.xp.arange(n_classes, dtype=codes.dtype, device=space.device)
        self._levels = space.zeros((codes.shape[0], 1), cost.dtype)  # of the latest projections

    def primal_at_zero(self) -> Any:
        total = self.space.xp.sum(self.cost) * (1 if self.joint else self.n_classes - 1)
        return self.space.xp.reshape(total, (1,))

    def _own(self, part: slice) -> Any:
        """Tell which column is that of the row's class."""
        return self.codes[part][:, None] == self.columns[None, :]

    def dots(self, A: Any, B: Any) -> Any:
        return self.space.xp.reshape(self.space.xp.sum(A * B), (1,))

    def slack(self, part: slice, Z: Any) -> Any:
        xp = self.space.xp
        return self.change(part, Z) + xp.astype(~self._own(part), Z.dtype)

    def change(self, part: slice, Z: Any) -> Any:
        return Z - self.space.xp.take_along_axis(Z, self.codes[part][:, None], axis=1)

    def implied(self, part: slice, slack: Any, anchor: Any, rho: Any) -> Implied:
        xp, cost = self.space.xp, self.costs(part, slack.dtype)
        u = slack / rho + anchor
        zero = xp.zeros_like(u)
        if not self.joint:
            b = xp.minimum(xp.maximum(u, zero), cost)
            return Implied(b, xp.where((u > 0) & (u < cost), 1 / rho, zero))
        b, bound = self._projected(part, u, cost)
        return Implied(b, xp.where(b > 0, 1 / rho, zero), bound)

    def _projected(self, part: slice, u: Any, cost: Any) -> tuple[Any, Any]:
        """Return the projection of each row of u to ``b >= 0, sum b <= cost``, and where it is =.

        That is b = max(u - level, 0), with level > 0 where the sum is at its bound. With the
        largest entry of u taken away, which keeps huge numbers exact, the level is at least -cost.
        The sum is convex and decreasing in the level: the first Newton step (Michelot 1986), from
        where the level was before, ends below it, and then each drops entries until none does.
        """
        xp = self.space.xp
        zero = xp.zeros_like(u)
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

    def losses(self, part: slice, slack: Any, b: Any) -> tuple[Any, Any]:
        losses = self._loss(slack) * self.costs(part, slack.dtype)[:, 0]
        losses = self.space.xp.reshape(self.space.xp.sum(losses), (1,))
        return losses, losses - self.dots(b, slack)

    def _loss(self, slack: Any) -> Any:
        """Return the loss of each row; the slack of its own class is 0."""
        xp = self.space.xp
        if self.joint:
            return xp.max(slack, axis=1)
        return xp.sum(xp.maximum(slack, xp.zeros_like(slack)), axis=1)

    def signed(self, part: slice, b: Any) -> Any:
        xp = self.space.xp
        return xp.where(self._own(part), xp.sum(b, axis=1, keepdims=True), -b)

    def unsigned(self, part: slice, signed: Any) -> Any:
        xp = self.space.xp
        return xp.where(self._own(part), xp.zeros_like(signed), -signed)

    def clipped(self, part: slice, b: Any) -> Any:
        xp, cost = self.space.xp, self.costs(part, b.dtype)
        b = xp.minimum(xp.maximum(b, xp.zeros_like(b)), cost)
        if not self.joint:
            return b
        total = xp.maximum(xp.sum(b, axis=1, keepdims=True), cost)
        return b * (cost / xp.where(total > 0, total, xp.ones_like(total)))

    def room(self, part: slice, b: Any) -> Any:
        xp = self.space.xp
        used = xp.sum(b, axis=1, keepdims=True) if self.joint else b
        ratio = self.costs(part, b.dtype) / xp.where(used > 0, used, xp.ones_like(used))
        room = xp.where(used > 0, ratio, xp.full_like(used, float("inf")))
        return xp.reshape(xp.min(room), (1,))

    def curvature(self, part: slice, free: Any, bound: Any, Z: Any) -> Any:
        xp = self.space.xp
        moved = free * Z
        total, whole = (xp.sum(each, axis=1, keepdims=True) for each in (moved, free))
        level = xp.take_along_axis(Z, self.codes[part][:, None], axis=1)
        if bound is not None:  # the sum stays what it is
            mean = total / xp.where(whole > 0, whole, xp.ones_like(whole))
            level = xp.where(bound, mean, level)
        moved -= free * level
        return xp.where(self._own(part), level * whole - total, moved)

    def diagonal(self, part: slice, free: Any, bound: Any) -> Any:
        xp = self.space.xp
        total = xp.sum(free, axis=1, keepdims=True)
        own = total
        if bound is not None:
            share = free / xp.where(total > 0, total, xp.ones_like(total))
            free = xp.where(bound, free * (1 - share), free)
            own = xp.where(bound, xp.zeros_like(total), total)
        return xp.where(self._own(part), own, free)

    def pair(self, free: Any, bound: Any, a: int, c: int) -> Any:
        xp = self.space.xp
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

    def feasible(self, part: slice, b: Any, dtype: Any) -> Any:
        xp, cost = self.space.xp, self.costs(part, b.dtype)
        b = xp.astype(b, dtype)
        if not self.joint:
            return b if dtype == cost.dtype else xp.minimum(b, rounded_down(xp, cost, dtype))
        total = xp.sum(xp.astype(b, cost.dtype), axis=1, keepdims=True)
        over = total > cost
        factor = xp.astype(cost / xp.where(over, total, xp.ones_like(total)), dtype)
        factor = factor * (1 - 4 * float(xp.finfo(dtype).eps))
        return xp.where(over, b * factor, b)

    def certify(
        self, part: slice, slack: Any, b: Any, norm: Any, rounding: Any, length: Any
    ) -> Sums:
        xp, cost = self.space.xp, self.costs(part, slack.dtype)[:, 0]
        reach = SQRT_2 * length * norm
        error = rounding * reach + OF_VIOLATION * EPS * (1 + reach)  # more than underflow
        sums = (self.n_classes + OF_SUMS) * EPS
        own, total = cost * self._loss(slack), xp.sum(b, axis=1)
        product = xp.sum(b * slack, axis=1)
        seen = xp.maximum(own - product, xp.zeros_like(own))
        active = ((slack > -error[:, None]) & ~self._own(part)) | (b > 0)
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
        return Sums(*(xp.reshape(xp.sum(each), (1,)) for each in found))

"""Newton's iterate for many problems at once: weights, slacks, and the dual point they imply.

See `dualsweep.solvers.newton` for the method. Arrays of a number per row and class are in the
precision of the steps, float32 or float64; weights are float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Rows
from .terms import OneVersusRest, Terms

# What `dualsweep.solvers.iterates` has of the same name. Conjugate gradients take the longer the
# smaller rho is, so it falls less: products of the Hessian to a gap of 1e-6, of 2,000 x 200 pixels
# of mnist at C = 1, hinge / Weston-Watkins / Crammer-Singer: 771 / 2888 / 3332; with a factor of
# 1.5, 965 / 3525 / 4291, of 2.5, 1489 / > 6494 / > 6944.
RHO_FACTOR = 1.2
INNER_GAP = 0.3

LINE_SEARCH = 0.05  # part of the first slope that may be left
LINE_STEPS = 30


class Iterate:
    """Weights w, the slacks they leave, and the dual point b that belongs to these.

    Parameters
    ----------
    rows : Rows
        The rows.
    terms : Terms
        Losses.
    parts : list of slice
        How the rows are cut.
    w : array of shape (n_weights, n_classes)
        Where to start.
    anchor : array of shape (n_rows, n_classes) or None
        Dual variables to start from; None if Newton steps need no anchor.
    rho : array of float64, one number per problem
        The penalty; ignored if Newton steps need no anchor.
    dtype : dtype
        Precision of the steps.
    """

    def __init__(
        self,
        rows: Rows,
        terms: Terms,
        parts: list[slice],
        w: Any,
        anchor: Any,
        rho: Any,
        dtype: Any,
    ) -> None:
        self.rows, self.terms, self.parts, self.dtype = rows, terms, parts, dtype
        self.space = rows.space
        xp = self.space.xp
        self.w, self.anchor = w, anchor
        self.rho: Any = None if terms.smooth else xp.astype(rho, dtype)
        self.zero = self.space.zeros((1, 1), dtype)
        self.slack, self.free = (rows.table(terms.n_classes, dtype) for _ in range(2))
        self.bound: Any = None
        start = xp.astype(w, dtype)
        for part in parts:
            self.slack[part, :] = terms.slack(part, rows.responses(part, start))
        self.n_products = 0  # of the Hessian

    def _anchor(self, part: slice) -> Any:
        return None if self.anchor is None else self.anchor[part, :]

    def _bound(self, part: slice) -> Any:
        return None if self.bound is None else self.bound[part, :]

    def measure(self) -> None:
        """Compute b, the gradient, and the gaps they prove; those on the host."""
        xp, terms = self.space.xp, self.terms
        w_of_b = xp.zeros_like(self.w)
        losses = self.space.zeros((terms.n_problems,), xp.float64)
        excess = xp.zeros_like(losses)
        bounds = []
        for part in self.parts:
            slack = self.slack[part, :]
            b, self.free[part, :], bound = terms.implied(part, slack, self._anchor(part), self.rho)
            lost, more = terms.losses(part, slack, b)
            losses += xp.astype(lost, xp.float64, copy=False)
            excess += xp.astype(more, xp.float64, copy=False)
            self.rows.add(part, terms.signed(part, b), w_of_b)
            bounds.append(bound)
        self.bound = None if bounds[0] is None else xp.concat(bounds, axis=0)
        self.gradient = self.w - w_of_b
        half = 0.5 * xp.stack(
            [terms.dots(self.gradient, self.gradient), terms.dots(self.w, self.w)]
        )
        found = self.space.numpy(xp.concat([half, xp.stack([losses, excess])], axis=0))
        self.inner_gap, size, lost, more = found
        self.primal = size + lost
        self.gap = self.inner_gap + np.maximum(more, 0.0)

    @property
    def settled(self) -> Any:
        """Whether the inner problems are solved well enough for the next anchor."""
        if self.rho is None:
            return np.zeros(self.terms.n_problems, bool)
        return self.inner_gap <= INNER_GAP * self.gap

    def next_anchor(self, settled: Any) -> None:
        """Take the proximal point step on the dual of some problems."""
        xp = self.space.xp
        chosen = self.space.asarray(settled)
        for part in self.parts:
            anchor, slack = self._anchor(part), self.slack[part, :]
            b = self.terms.implied(part, slack, anchor, self.rho).b
            self.anchor[part, :] = xp.where(chosen, b, anchor)
        self.rho = xp.where(chosen, self.rho / RHO_FACTOR, self.rho)

    def hessian_product(self, terms: Terms, free: Any, V: Any) -> Any:
        """Return the product of the Hessians of some problems with V."""
        out = self.space.xp.asarray(V, copy=True)
        for part in self.parts:
            Z = self.rows.responses(part, V)
            Z = terms.curvature(part, free[part, :], self._bound(part), Z)
            self.rows.add(part, Z, out)
        return out

    def diagonal(self) -> Any:
        """Return the diagonals of the Hessians, to precondition with."""
        out = self.space.xp.ones_like(self.w, dtype=self.dtype)
        for part in self.parts:
            free = self.free[part, :]
            out += self.rows.squares(part, self.terms.diagonal(part, free, self._bound(part)))
        return out

    def columns(self, array: Any, places: Any) -> Any:
        """Return some columns of an array with a row per row, a slice at a time."""
        xp = self.space.xp
        out = self.space.empty((array.shape[0], places.shape[0]), array.dtype)
        for part in self.parts:
            out[part, :] = xp.take(array[part, :], places, axis=1)
        return out

    def move(self, direction: Any, wanted: Any) -> Any:
        """Take a step along the directions; return how far, 0 where that led nowhere."""
        xp, terms = self.space.xp, self.terms
        p = xp.astype(direction, xp.float64, copy=False)
        q = self.rows.table(terms.n_classes, self.dtype)
        narrow = xp.astype(p, self.dtype, copy=False)
        for part in self.parts:
            q[part, :] = terms.change(part, self.rows.responses(part, narrow))
        t = self._line_search(p, q, wanted)
        # Where it led nowhere, the direction may not be finite, and 0 times that is not 0.
        far = self.space.asarray(t)
        self.w = xp.where(far > 0, self.w + far * p, self.w)
        far = xp.astype(far, self.dtype)
        for part in self.parts:
            slack = self.slack[part, :]
            self.slack[part, :] = xp.where(far > 0, slack + far * q[part, :], slack)
        return t

    def _line_search(self, p: Any, q: Any, wanted: Any) -> Any:
        """Return t > 0 with ``phi'(t)`` near 0, which is increasing and piecewise linear; or 0."""
        xp, terms = self.space.xp, self.terms
        wp, pp, first = self.space.numpy(
            xp.stack([terms.dots(self.w, p), terms.dots(p, p), terms.dots(self.gradient, p)])
        )
        todo = wanted & np.isfinite(pp) & (first < 0)
        t, low, high = np.where(todo, 1.0, 0.0), np.zeros_like(wp), np.full_like(wp, np.inf)
        for _ in range(LINE_STEPS):
            if not todo.any():
                break
            total, curvature = self._slopes(q, t)
            value, curvature = wp + t * pp + total, pp + curvature
            todo &= ~(np.abs(value) <= LINE_SEARCH * np.abs(first))
            t[todo & ~(curvature > 0)] = 0.0
            todo &= curvature > 0
            low, high = np.where(value < 0, t, low), np.where(value < 0, high, t)
            with np.errstate(invalid="ignore", divide="ignore"):
                better = t - value / curvature
                middle = np.where(high < np.inf, 0.5 * (low + high), 2.0 * low)
                better = np.where((low < better) & (better < high), better, middle)
            t = np.where(todo, better, t)
        t[todo] = low[todo]
        return t

    def _slopes(self, q: Any, t: Any) -> tuple[Any, Any]:
        """Return ``sum_i b_i q_i`` where the slacks have changed by t q, and its derivative."""
        xp, terms = self.space.xp, self.terms
        far = self.space.asarray(t, self.dtype)
        sums = self.space.zeros((2, terms.n_problems), xp.float64)
        for part in self.parts:
            along = q[part, :]
            slack = self.slack[part, :] + far * along
            b, free, bound = terms.implied(part, slack, self._anchor(part), self.rho)
            curved = terms.curvature(part, free, bound, along)
            both = xp.stack([terms.dots(b, along), terms.dots(curved, along)])
            sums += xp.astype(both, xp.float64, copy=False)
        total, curvature = self.space.numpy(sums)
        return total, curvature

    def some(self, stay: Any) -> None:
        """Let problems leave, all but some; of one-versus-rest only."""
        assert isinstance(self.terms, OneVersusRest)
        xp, index = self.space.xp, self.space.asarray(stay)
        self.terms = self.terms.some(index)
        self.slack = self.columns(self.slack, index)
        self.free = self.columns(self.free, index)
        self.w, self.gradient = (xp.take(each, index, axis=1) for each in (self.w, self.gradient))
        if self.rho is not None:
            self.anchor = self.columns(self.anchor, index)
            self.rho = xp.take(self.rho, index, axis=0)
        self.inner_gap, self.primal, self.gap = (
            each[stay] for each in (self.inner_gap, self.primal, self.gap)
        )

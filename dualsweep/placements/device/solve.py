"""Problems on a device, from a start to certificates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._typing import Array, DeviceArray, DeviceDType
from ...kernels.certificate import CALLS, DRIFT, N_TOTALS, certified
from ...kernels.scaling import best_multiple
from ...newton.core import newton, silent
from ...problems.result import Result
from ...problems.run import Run, poll_all
from ...rows.functions import EPS, SMALLEST
from .backend import DeviceBackend
from .rows import DeviceRows
from .terms import Sizes, Terms

# Rows in float32 are multiplied in float32 where no smaller gap than this has to be proven.
FLOAT32_TOL = 1e-4


def is_narrow(rows: DeviceRows, tol: float) -> bool:
    """Return whether Newton steps are in float32, to begin with."""
    return rows.narrow and tol >= FLOAT32_TOL


def bytes_per_class(rows: DeviceRows, terms: Terms, tol: float) -> float:
    """Return how much memory training takes per class, at most, besides the rows and their slices.

    With a number per row and class there are slacks, changes of them, how free dual variables are
    (and again for some classes), dual variables of the best point and of another, and anchors.
    """
    arrays = 6 if terms.smooth else 7
    return rows.n_rows * arrays * (4 if is_narrow(rows, tol) else 8)


class DeviceSolver:
    """The best weights and dual variables so far of several problems, and their runs.

    Both are on the device, with a column per class. Squared norms of the rows include the bias;
    `alpha` are feasible dual variables to start from, if there are any.
    """

    def __init__(
        self,
        rows: DeviceRows,
        terms: Terms,
        sqnorm: DeviceArray,
        runs: list[Run],
        alpha: DeviceArray | None,
    ) -> None:
        self.rows, self.terms, self.runs, self.space = rows, terms, runs, rows.space
        self.parts = rows.parts(terms.n_columns)
        xp = self.space.xp
        self.norm = xp.sqrt(sqnorm + rows.n_weights * SMALLEST)
        self.w = self.space.zeros((rows.n_weights, terms.n_columns), xp.float64)
        self.alpha: DeviceArray | None = None  # zeros
        if alpha is not None:  # and the weights that they make up
            w = self.space.zeros(self.w.shape, xp.float64)
            for part in self.parts:
                b = xp.astype(alpha[part, :], xp.float64, copy=False)
                rows.add(part, terms.signed(part, b), w)
            every = np.arange(len(runs))
            self.certify(every, terms, w, lambda part, slack: alpha[part, :], alpha.dtype)
        for run in runs:
            if not run.history:
                run.record()

    @silent
    def solve(self) -> None:
        """Take Newton steps, in float32 first if X has no more and `tol` needs no more."""
        xp, narrow = self.space.xp, is_narrow(self.rows, self.runs[0].tol)
        with self.space.products():
            for dtype in [xp.float32, xp.float64] if narrow else [xp.float64]:
                left = np.flatnonzero([not run.over for run in self.runs])
                if poll_all(self.runs) or not len(left):
                    break
                newton(DeviceBackend(self, left, dtype))

    def filled(
        self, n_columns: int, dtype: DeviceDType, values: Callable[[slice], DeviceArray]
    ) -> DeviceArray:
        """Return a table of a number per row and column, filled in slice by slice."""
        out = self.rows.table(n_columns, dtype)
        for part in self.parts:
            out[part, :] = self.space.xp.astype(values(part), dtype, copy=False)
        return out

    def dual_columns(self, places: Array, dtype: DeviceDType) -> DeviceArray:
        """Return a copy of the dual variables of some problems, in some precision."""
        n_columns = self.terms.some(places).n_columns

        def values(part: slice) -> DeviceArray:
            if self.alpha is None:
                return self.space.zeros((part.stop - part.start, n_columns), dtype)
            return self.terms.columns_of(places, self.alpha[part, :])

        return self.filled(n_columns, dtype, values)

    @silent
    def certify(
        self,
        problems: Array,
        terms: Terms,
        w: DeviceArray,
        dual_point: Callable[[slice, DeviceArray], DeviceArray],
        dtype: DeviceDType,
    ) -> None:
        """Compute the certificate of weights of some problems, and keep them where it is better.

        It is ``P(w) - D(alpha)``, all in float64 from w and the dual variables as they are kept.
        """
        xp, n = self.space.xp, terms.n_problems
        alpha = self.rows.table(terms.n_columns, dtype)
        w_of_alpha = xp.zeros_like(w)
        # Squares of weights are summed in any order, and so are losses: each is rounded that often.
        summands = self.rows.n_weights * terms.n_columns
        size = (1.0 + summands * EPS) * terms.dots(w, w)
        length = xp.sqrt(size + summands * SMALLEST)  # squares may underflow
        size = self.space.numpy(size)
        totals = self.space.zeros((DRIFT + 1, n), xp.float64)
        for part in self.parts:
            slack = terms.slack(part, self.rows.responses(part, w))
            alpha[part, :] = dual_point(part, slack)
            b = xp.astype(alpha[part, :], xp.float64, copy=False)
            self.rows.add(part, terms.signed(part, b), w_of_alpha)
            sizes = Sizes(self.norm[part], self.rows.rounding(part), length)
            totals += terms.certify(part, slack, b, sizes)
        w_of_alpha -= w
        squared = self.space.numpy(terms.dots(w_of_alpha, w_of_alpha))
        distance = (1.0 + summands * EPS) * np.sqrt(squared)
        sums = np.zeros((N_TOTALS, n))
        sums[: DRIFT + 1], sums[CALLS] = self.space.numpy(totals), summands + self.rows.n_rows
        better = []
        for j, p in enumerate(problems.tolist()):
            length_squared, away = float(size[j]), float(distance[j])
            found = certified(length_squared, sums[:, j], terms.n_used, distance=away)
            if found.gap < self.runs[p].gap:
                better.append((j, p))
                self.runs[p].note(found)
        if len(better) == self.terms.n_problems:
            self.w, self.alpha = w, alpha
            return
        if better and (self.alpha is None or self.alpha.dtype != alpha.dtype):
            self.alpha = self.dual_columns(np.arange(len(self.runs)), alpha.dtype)
        for j, p in better:
            self.w[:, p] = w[:, j]
            self.alpha[:, p] = alpha[:, j]  # type: ignore[index]

    def results(self) -> list[Result]:
        """Return what has been reached, without the dual variables, which are `alpha`."""
        if self.alpha is None:
            self.alpha = self.dual_columns(np.arange(len(self.runs)), self.rows.X.dtype)
        return [
            run.result(w=self.terms.columns_of(np.array([p]), self.w), alpha=None, slack=None)
            for p, run in enumerate(self.runs)
        ]


@silent
def best_start(rows: DeviceRows, terms: Terms, alpha: DeviceArray) -> DeviceArray:
    """Return the best feasible multiple of dual variables, in place; see `solvers.path`."""
    xp, space = rows.space.xp, rows.space
    w = space.zeros((rows.n_weights, terms.n_columns), xp.float64)
    total, square = (space.zeros((terms.n_problems,), xp.float64) for _ in range(2))
    room = space.asarray(np.full(terms.n_problems, np.inf))
    parts = rows.parts(terms.n_columns)
    for part in parts:
        b = terms.clipped(part, xp.astype(alpha[part, :], xp.float64))
        alpha[part, :] = xp.astype(b, alpha.dtype)
        rows.add(part, terms.signed(part, b), w)
        linear, curved = terms.conjugates(part, b)
        total += terms.dots(b, xp.ones_like(b)) - linear
        square += curved
        room = xp.minimum(room, terms.room(part, b))
    found = space.numpy(xp.stack([total, square + terms.dots(w, w), room]))
    best = space.asarray(np.array([best_multiple(*each) for each in found.T]))
    for part in parts:
        b = terms.clipped(part, best * xp.astype(alpha[part, :], xp.float64))
        alpha[part, :] = terms.feasible(part, b, alpha.dtype)
    return alpha

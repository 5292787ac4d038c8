"""Newton's method on a device, from a start to certificates, by matrix products.

Arrays of a number per row and class are in the precision of the steps, float32 or float64; weights
are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from math import inf

import numpy as np

from ..._typing import Array, DeviceArray, DeviceDType
from ...kernels.certificate import CALLS, DRIFT, N_TOTALS, certified
from ...kernels.scaling import best_multiple
from ...newton.backend import Backend, Hessian, Measured
from ...newton.core import newton, silent
from ...newton.tuning import DEVICE, DEVICE_MULTICLASS
from ...problems.result import Result
from ...problems.run import Run, poll_all
from ...rows.functions import EPS, SMALLEST
from ...rows.passes import chunks
from .arrays import Space
from .rows import DeviceRows
from .terms import Moves, Sizes, Terms

# Rows in float32 are multiplied in float32 where no smaller gap than this has to be proven.
FLOAT32_TOL = 1e-4

# Products of a matrix with fewer columns take as long as with this many: they wait for memory.
FEW_COLUMNS = 50

# Rows of a Gram matrix that are gathered at a time hold so many numbers.
GATHERED = 1 << 26

# Where features repeat each other and costs are large, the identity drowns in the rounding of the
# Hessian. These multiples of its diagonal are added, one after the other, until it is regular.
REGULAR = 1e-14, 1e-11, 1e-8

# A Hessian is made only of so many weights: of a class, or of all where they are one problem.
DIRECT_WEIGHTS, DIRECT_WEIGHTS_TOGETHER = 4096, 10_000

# Steps in float32 to give up after; they go on in float64.
NARROW_STEPS = 100


def is_narrow(rows: DeviceRows, tol: float) -> bool:
    """Return whether Newton steps are in float32, to begin with."""
    return rows.narrow and tol >= FLOAT32_TOL


def bytes_per_class(rows: DeviceRows, terms: Terms, tol: float) -> float:
    """Return how much memory training takes per class, at most, besides the rows and their parts.

    Tables of rows and classes: slacks, their changes, how dual variables move (and again for some
    classes), dual variables of the best point and of another, and anchors.
    """
    arrays = 6 if terms.smooth else 7
    return rows.n_rows * arrays * (4 if is_narrow(rows, tol) else 8)


class DeviceSolver:
    """The best weights and dual variables so far of several problems, and their runs.

    Both are on the device, with a column per class: certificates of all problems come from the same
    products, so a `PointRun` for each would not do. Squared norms of the rows include the bias;
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
        no_duals = self.space.zeros((1, 1), rows.X.dtype)
        self.alpha = self.filled(terms.n_columns, no_duals.dtype, lambda part: no_duals)
        if alpha is not None:  # certify it with its weights
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
        """Return a table of a number per row and column, filled part by part."""
        out = self.rows.table(n_columns, dtype)
        for part in self.parts:
            out[part, :] = self.space.xp.astype(values(part), dtype, copy=False)
        return out

    def columns(
        self, terms: Terms, places: DeviceArray, table: DeviceArray, dtype: DeviceDType
    ) -> DeviceArray:
        """Return a copy of the columns of some of the problems of a table, in some precision."""
        n_columns = places.shape[0] if terms.separate else terms.n_columns
        return self.filled(n_columns, dtype, lambda part: terms.columns_of(places, table[part, :]))

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
        if better and self.alpha.dtype != alpha.dtype:
            before, width = self.alpha, self.terms.n_columns
            self.alpha = self.filled(width, alpha.dtype, lambda part: before[part, :])
        for j, p in better:
            self.w[:, p] = w[:, j]
            self.alpha[:, p] = alpha[:, j]

    def results(self) -> list[Result]:
        """Return what has been reached, without the dual variables, which are `alpha`."""
        return [
            run.result(w=self.terms.column(self.w, p), alpha=None, slack=None)
            for p, run in enumerate(self.runs)
        ]


@silent
def best_start(rows: DeviceRows, terms: Terms, alpha: DeviceArray) -> DeviceArray:
    """Return the best feasible multiple of dual variables, in place; see `start_from`."""
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


class DeviceBackend(Backend):
    """Some problems of a solver, by their numbers there, for steps in the precision `dtype`."""

    space: Space
    weights_of_b = False  # certificates are about w itself

    def __init__(self, solver: DeviceSolver, numbers: Array, dtype: DeviceDType) -> None:
        self.solver, self.rows, self.parts = solver, solver.rows, solver.parts
        self.numbers, self.dtype = numbers, dtype
        self.space, self.xp = solver.space, solver.space.xp
        places = self.space.asarray(numbers)
        self.terms, self.runs = solver.terms.some(places), [solver.runs[p] for p in numbers]
        self.anchor: DeviceArray | None = None
        if not self.terms.smooth:
            self.anchor = solver.columns(solver.terms, places, solver.alpha, dtype)
        self.tuning = DEVICE if self.terms.separate else DEVICE_MULTICLASS
        if dtype == self.xp.float32:
            self.tuning = replace(self.tuning, max_steps=NARROW_STEPS)

    @property
    def direct_worth(self) -> float:  # type: ignore[override]
        """Steps of conjugate gradients that take as long as a direct step of every problem.

        A direct step multiplies n x d with d x n entries per class, or, for all classes at once,
        per pair of classes that share rows, about as many; then it factorises. Conjugate gradients
        multiply n x d with d x k entries twice, but for few classes wait for memory.
        """
        n, d, k = self.rows.n_rows, self.rows.n_weights, self.terms.n_columns
        together = not self.terms.separate
        most = DIRECT_WEIGHTS_TOGETHER if together else DIRECT_WEIGHTS
        if (d * k if together else d) > most or self.rows.spilled:  # a Hessian takes whole columns
            return inf
        product = 2.0 * n * d * max(k, FEW_COLUMNS)
        factor = (d * k) ** 3 / 3 if together else k * d**3 / 3
        return (n * d**2 * k + factor) / product

    def begin(self) -> tuple[DeviceArray, Array]:
        xp, terms, rows = self.xp, self.terms, self.rows
        places = self.space.asarray(self.numbers)
        w = xp.asarray(self.solver.terms.columns_of(places, self.solver.w), copy=True)
        start = xp.astype(w, self.dtype, copy=False)
        self.slack = self.solver.filled(
            terms.n_columns, self.dtype, lambda part: terms.slack(part, rows.responses(part, start))
        )
        self.along_slack, self.free = (rows.table(terms.n_columns, self.dtype) for _ in range(2))
        self.bound: DeviceArray | None = None
        if terms.smooth:
            return w, np.zeros(len(self.runs))
        before = np.array([run.rho for run in self.runs])
        return w, np.where(before > 0, before, self.tuning.first_rho / terms.mean_cost)

    def _anchor(self, part: slice) -> DeviceArray | None:
        return None if self.anchor is None else self.anchor[part, :]

    def moves(self, part: slice, free: DeviceArray) -> Moves:
        """Return how the dual variables of a part move, given which are free."""
        return Moves(free[part, :], None if self.bound is None else self.bound[part, :])

    def measure(self, w: DeviceArray, rho: Array, step: Array, settled: Array) -> Measured:
        xp, terms = self.xp, self.terms
        w_of_b, sums = xp.zeros_like(w), self.space.zeros((2, len(self.runs)), xp.float64)
        bounds = []
        before = np.where(settled, rho * self.tuning.rho_factor, rho)
        far, penalty, before = (self.space.asarray(a, self.dtype) for a in (step, rho, before))
        chosen = self.space.asarray(settled)
        for part in self.parts:
            slack, anchor = self.slack[part, :], self._anchor(part)
            if step.any():  # where a step led nowhere, its direction may not be finite
                slack = xp.where(far > 0, slack + far * self.along_slack[part, :], slack)
                self.slack[part, :] = slack
            if settled.any():
                b, _ = terms.implied(part, slack, anchor, before)
                anchor = xp.where(chosen, b, anchor)
                self.anchor[part, :] = anchor  # type: ignore[index]
            b, (self.free[part, :], bound) = terms.implied(part, slack, anchor, penalty)
            sums += xp.astype(terms.losses(part, slack, b), xp.float64, copy=False)
            self.rows.add(part, terms.signed(part, b), w_of_b)
            bounds.append(bound)
        self.bound = None if bounds[0] is None else xp.concat(bounds, axis=0)
        gradient = w - w_of_b
        sizes = xp.stack([0.5 * terms.dots(gradient, gradient), terms.dots(w, w)])
        return Measured(gradient, *self.space.numpy(sizes), *self.space.numpy(sums))

    def along(self, w: DeviceArray, p: DeviceArray, gradient: DeviceArray) -> Array:
        p = self.xp.astype(p, self.xp.float64, copy=False)
        products = [self.terms.dots(each, p) for each in (w, p, gradient)]
        return self.space.numpy(self.xp.stack(products))

    def aim(self, p: DeviceArray, rho: Array) -> Array:
        narrow = self.xp.astype(p, self.dtype, copy=False)
        for part in self.parts:
            self.along_slack[part, :] = self.terms.change(part, self.rows.responses(part, narrow))
        return self.slope(np.ones(len(self.runs)), rho, slice(None))

    def slope(self, t: Array, rho: Array, part: slice) -> Array:
        xp, terms = self.xp, self.terms
        far, penalty = (self.space.asarray(a, self.dtype) for a in (t, rho))
        sums = self.space.zeros((2, len(self.runs)), xp.float64)
        for rows in self.parts:
            along = self.along_slack[rows, :]
            slack = self.slack[rows, :] + far * along
            b, moves = terms.implied(rows, slack, self._anchor(rows), penalty)
            curved = terms.curvature(rows, moves, along)
            both = xp.stack([terms.dots(b, along), terms.dots(curved, along)])
            sums += xp.astype(both, xp.float64, copy=False)
        return self.space.numpy(sums)

    def move(self, w: DeviceArray, p: DeviceArray, t: Array) -> DeviceArray:
        far = self.space.asarray(t)
        return self.xp.where(far > 0, w + far * self.xp.astype(p, w.dtype, copy=False), w)

    def direct(self, gradient: DeviceArray, rho: Array, wanted: Array) -> DeviceArray:
        """Return ``-Hessian^-1 gradient`` by factorisations, in float64; 0 if it is not wanted."""
        out, c = self.xp.zeros_like(gradient), self.terms.n_columns // len(self.runs)
        for j in np.flatnonzero(wanted).tolist():
            own = slice(j * c, (j + 1) * c)
            hessian = self._hessian_of(range(own.start, own.stop))
            if poll_all(self.runs):
                break
            direction = self._solved(hessian, self.xp.reshape(gradient[:, own].T, (-1,)))
            out[:, own] = self.xp.reshape(direction, (c, -1)).T
        return out

    def _hessian_of(self, columns: range) -> DeviceArray:
        """Return the Hessian of a problem without its identity; anything if told to stop."""
        d, moves = self.rows.n_weights, Moves(self.free, self.bound)
        hessian = self.space.empty((len(columns) * d,) * 2, self.xp.float64)
        for a, one in enumerate(columns):
            for c, other in enumerate(columns[: a + 1]):
                block = self._gram(self.terms.pair(moves, one, other))
                hessian[a * d : (a + 1) * d, c * d : (c + 1) * d] = block
                hessian[c * d : (c + 1) * d, a * d : (a + 1) * d] = block
                if poll_all(self.runs):
                    return hessian
        return hessian

    def _gram(self, scale: DeviceArray) -> DeviceArray:
        """Return ``sum_i scale_i x_i x_i'`` in float64; anything if told to stop."""
        xp, d = self.xp, self.rows.n_weights
        places = xp.nonzero(scale)[0]
        out = self.space.zeros((d, d), xp.float64)
        for some in chunks(slice(0, places.shape[0]), GATHERED // d):
            chunk = places[some]
            Z = self.rows.some(chunk)
            factors = xp.astype(xp.take(scale, chunk, axis=0), xp.float64, copy=False)
            out += (Z * factors[:, None]).T @ Z
            if poll_all(self.runs):
                break
        return out

    def _solved(self, hessian: DeviceArray, gradient: DeviceArray) -> DeviceArray:
        """Overwrite the Hessian; return ``-(I + hessian)^-1 gradient``, or what else descends.

        Where it is singular, or the direction leads up, more is added to its diagonal. If nothing
        helps, the direction is the negative gradient.
        """
        xp = self.xp
        eye = xp.eye(hessian.shape[0], dtype=xp.float64, device=self.space.device)
        diagonal = xp.asarray(xp.linalg.diagonal(hessian), copy=True)
        hessian += eye
        for more in (0.0, *REGULAR):
            if more:
                hessian += eye * (more * diagonal)
            try:
                direction = -xp.linalg.solve(hessian, gradient[:, None])[:, 0]
            except Exception as error:  # each library has an error of its own, or none at all
                if "LinAlgError" not in type(error).__name__:
                    raise
                continue
            if bool(xp.all(xp.isfinite(direction))) and bool(xp.sum(gradient * direction) <= 0):
                return direction
        return -gradient

    def hessian(self, rho: Array) -> Hessian:
        diagonal = 1 + self.space.zeros((self.rows.n_weights, self.terms.n_columns), self.dtype)
        for part in self.parts:
            free = self.terms.diagonal(part, self.moves(part, self.free))
            diagonal += self.rows.squares(part, free)
        return DeviceHessian(self, self.terms, self.free, diagonal)

    def adopt(self, w: DeviceArray, rho: Array, chosen: Array) -> None:
        xp, every = self.xp, self.terms
        places, penalty = self.space.asarray(chosen), self.space.asarray(rho[chosen], xp.float64)
        terms = every.some(places)

        def dual_point(part: slice, slack: DeviceArray) -> DeviceArray:
            near = self._anchor(part)
            if near is not None:
                near = xp.astype(every.columns_of(places, near), xp.float64, copy=False)
            return terms.feasible(part, terms.implied(part, slack, near, penalty)[0], self.dtype)

        w = every.columns_of(places, w)
        self.solver.certify(self.numbers[chosen], terms, w, dual_point, self.dtype)

    def keep(self, stay: Array) -> None:
        places = self.space.asarray(stay)
        for name in ("slack", "along_slack", "free", "anchor"):
            if getattr(self, name) is not None:
                kept = self.solver.columns(self.terms, places, getattr(self, name), self.dtype)
                setattr(self, name, kept)
        self.terms = self.terms.some(places)
        self.numbers, self.runs = self.numbers[stay], [self.runs[j] for j in stay]

    def column(self, w: DeviceArray, j: int) -> DeviceArray:
        return self.terms.column(w, j)


class DeviceHessian(Hessian):
    """The Hessians of some problems, with their diagonals as preconditioners."""

    space: Space

    def __init__(
        self, backend: DeviceBackend, terms: Terms, free: DeviceArray, diagonal: DeviceArray
    ) -> None:
        self.backend, self.space = backend, backend.space
        self.terms, self.free, self.diagonal = terms, free, diagonal

    def in_use(self) -> AbstractContextManager[None]:
        return self.space.products(rough=True)

    def dots(self, A: DeviceArray, B: DeviceArray) -> DeviceArray:
        return self.terms.dots(A, B)

    def product(self, p: DeviceArray) -> DeviceArray:
        backend, out = self.backend, self.space.xp.asarray(p, copy=True)
        for part in backend.parts:
            Z = backend.rows.responses(part, p)
            Z = self.terms.curvature(part, backend.moves(part, self.free), Z)
            backend.rows.add(part, Z, out)
        return out

    def precondition(self, residual: DeviceArray) -> DeviceArray:
        return residual / self.diagonal

    def rounded(self, gradient: DeviceArray) -> DeviceArray:
        return self.space.xp.astype(gradient, self.backend.dtype)

    def keep(self, stay: DeviceArray) -> Hessian:
        free = self.backend.solver.columns(self.terms, stay, self.free, self.free.dtype)
        diagonal = self.space.take(self.diagonal, stay, 1)
        return DeviceHessian(self.backend, self.terms.some(stay), free, diagonal)

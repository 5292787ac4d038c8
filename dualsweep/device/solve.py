"""Problems on a device, from a start to a certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._clock import clock
from ..kernels.certificate import CALLS, DRIFT, N_TOTALS, OF_OBJECTIVE, certified, relative
from ..problems.result import HISTORY_DTYPE, Progress
from ..rows.functions import EPS, SMALLEST
from ..solvers.run import FLOOR
from .directions import conjugate_gradients, direct, direct_worth
from .iterate import Iterate
from .rows import Rows
from .terms import Terms

# A certificate is computed where the gap seems to be at most this part of what is to be proven.
TRY_AT = 0.95

# As in `dualsweep.solvers.iterates`.
FIRST_RHO, FIRST_RHO_MULTICLASS = 10.0, 0.5

# Steps to give up after: in float32, after which they go on in float64, and there.
MAX_STEPS = {"float32": 100, "float64": 500}

# Rows in float32 are multiplied in float32 where no smaller gap than this has to be proven.
FLOAT32_TOL = 1e-4

# Steps of conjugate gradients to give up after.
CG_STEPS = 300

# Problems that are done leave where at most this part of them is not.
LEAVE = 0.8

# What overflows is a step that leads nowhere, or a certificate that is not adopted.
_silent = np.errstate(over="ignore", invalid="ignore", divide="ignore")


@dataclass
class Solution:
    """Dual points of several problems, their weights, and how good they are.

    Weights and dual variables are on the device, with a column per class, the rest on the host with
    an entry per problem.
    """

    w: Any  # float64
    alpha: Any
    primal: Any
    dual: Any
    gap: Any
    relative_gap: Any
    converged: Any
    n_iter: Any
    n_products: int  # of Hessians, all problems at once
    history: list[Any]


@_silent
def solve(
    rows: Rows,
    terms: Terms,
    *,
    sqnorm: Any,
    tol: float,
    max_iter: int,
    max_time: float,
    alpha: Any = None,
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[int, Progress], bool] = lambda problem, progress: False,
) -> Solution:
    """Minimise the duals until the relative gap of each problem is proven to be at most `tol`.

    Parameters
    ----------
    rows : Rows
        The rows.
    terms : Terms
        Labels, costs and formulation.
    sqnorm : array
        Squared norms of the rows, the bias included.
    tol, max_iter, max_time, stop, watch
        As in `dualsweep.solvers.solve.solve`; `watch` is told which of the problems.
    alpha : array of shape (n_rows, n_classes), optional
        Feasible dual variables to start from.

    Returns
    -------
    Solution
        Facts only.
    """
    xp = rows.space.xp
    with rows.space.products():
        run = _Run(rows, terms, sqnorm, tol, max_iter, max_time, stop, watch, alpha)
        for dtype in [xp.float32, xp.float64] if _narrow(rows, tol) else [xp.float64]:
            problems = np.flatnonzero(~run.over)
            if run.poll() or not len(problems):
                break
            run.newton(problems, dtype)
        return run.solution()


def bytes_per_class(rows: Rows, terms: Terms, tol: float) -> float:
    """Return how much memory `solve` takes per class, at most, besides the rows and slices of them.

    Of a number per row and class there are slacks, changes of them, how free dual variables are
    (and again of some classes), dual variables of the best point and of another, and anchors.
    """
    arrays = 6 if terms.smooth else 7
    return rows.n_rows * arrays * (4 if _narrow(rows, tol) else 8)


def _narrow(rows: Rows, tol: float) -> bool:
    """Tell whether Newton steps are in float32, to begin with."""
    return rows.narrow and tol >= FLOAT32_TOL


@_silent
def best_start(rows: Rows, terms: Terms, alpha: Any) -> Any:
    """Return the best feasible multiple of dual variables, in place; see `solvers.path`."""
    xp, space = rows.space.xp, rows.space
    w = space.zeros((rows.n_weights, terms.n_classes), xp.float64)
    total, square = (space.zeros((terms.n_problems,), xp.float64) for _ in range(2))
    room = space.asarray(np.full(terms.n_problems, np.inf))
    parts = rows.parts(terms.n_classes)
    for part in parts:
        b = terms.clipped(part, xp.astype(alpha[part, :], xp.float64))
        alpha[part, :] = xp.astype(b, alpha.dtype)
        rows.add(part, terms.signed(part, b), w)
        total += terms.dots(b, xp.ones_like(b))
        square += terms.square(part, b)
        room = xp.minimum(room, terms.room(part, b))
    curvature = square + terms.dots(w, w)
    positive = curvature > 0
    best = xp.where(positive, total / xp.where(positive, curvature, xp.ones_like(total)), 0 * total)
    best = xp.minimum(best, room)
    for part in parts:
        b = terms.clipped(part, best * xp.astype(alpha[part, :], xp.float64))
        alpha[part, :] = terms.feasible(part, b, alpha.dtype)
    return alpha


class _Run:
    """The best dual points so far, and when to stop."""

    def __init__(
        self,
        rows: Rows,
        terms: Terms,
        sqnorm: Any,
        tol: float,
        max_iter: int,
        max_time: float,
        stop: Callable[[], bool],
        watch: Callable[[int, Progress], bool],
        alpha: Any,
    ) -> None:
        self.rows, self.terms, self.space = rows, terms, rows.space
        self.tol, self.max_iter, self.stop, self.watch = tol, max_iter, stop, watch
        self.started = clock()
        self.deadline = self.started + max_time
        self.parts = rows.parts(terms.n_classes)
        xp, n = self.space.xp, terms.n_problems
        self.norm = xp.sqrt(sqnorm + rows.n_weights * SMALLEST)
        self.n_members = int(xp.sum(xp.astype(terms.cost > 0, xp.int64)))
        self.w = self.space.zeros((rows.n_weights, terms.n_classes), xp.float64)
        rounding = (rows.n_rows + OF_OBJECTIVE) * EPS  # of losses, and their sum in any order
        self.primal = (1.0 + rounding) * self.space.numpy(terms.primal_at_zero())
        self.gap = self.primal.copy()
        self.dual = np.zeros(n)
        self.relative_gap = np.where(self.gap > 0.0, 1.0, 0.0)
        self.at_floor = np.zeros(n, bool)  # whether no smaller gap can be proven
        self.epoch = np.zeros(n, np.int64)
        self.halted = np.zeros(n, bool)
        self.rho = np.zeros(n)  # where Newton steps ended, if they began
        self.n_products = 0
        self.history: list[list[Any]] = [[] for _ in range(n)]
        self.alpha: Any = None  # zeros
        if alpha is not None:
            self._certify_start(alpha)
        if self.alpha is None:
            self._record(np.arange(n))

    @property
    def converged(self) -> Any:
        """Whether the latest certificates prove `tol`."""
        return self.relative_gap <= self.tol

    @property
    def over(self) -> Any:
        """Whether there is nothing more to do for a problem."""
        return self.converged | self.halted | (self.epoch >= self.max_iter) | self.at_floor

    def poll(self) -> bool:
        """Return whether to stop at once: asked to, or out of time."""
        if not self.halted.all() and (self.stop() or clock() > self.deadline):
            self.halted[:] = True
        return bool(self.halted.all())

    def _record(self, problems: Any) -> None:
        seconds = clock() - self.started
        for p in problems.tolist():
            found = self.primal[p], self.dual[p], self.gap[p]
            self.history[p].append((0, seconds, self.epoch[p], *found, self.n_members))

    def newton(self, problems: Any, dtype: Any) -> None:
        """Take Newton steps for some problems until they are over or get stuck."""
        it = self._first_iterate(problems, dtype)
        worth = direct_worth(it)
        tried = np.full(len(problems), np.inf)
        stuck = np.zeros(len(problems), bool)
        by_factors = np.zeros(len(problems), bool)
        for _ in range(MAX_STEPS[_name(self.space.xp, dtype)]):
            if self.poll():
                break
            it.measure()
            # A gap that fell since a failed attempt makes another one worthwhile.
            ready = (it.gap <= TRY_AT * self.tol * it.primal) & (it.gap < 0.7 * tried)
            ready &= ~self.over[problems]
            if ready.any():
                tried[ready] = it.gap[ready]
                self._adopt(it, problems, np.flatnonzero(ready))
            going = ~(self.over[problems] | stuck)
            if not going.any():
                break
            if going.sum() <= LEAVE * len(problems):
                self._adopt(it, problems, np.flatnonzero(~self.over[problems] & stuck))
                stay = np.flatnonzero(going)
                it.some(stay)
                problems, tried, by_factors = problems[stay], tried[stay], by_factors[stay]
                stuck, going = stuck[stay], going[stay]
            settled = it.settled & going
            if settled.any():
                it.next_anchor(settled)
                it.measure()
            t = self._step(it, going, by_factors, worth)
            stuck |= going & ~(t > 0)
            self._tick(it, problems, going & (t > 0))
        self.n_products += it.n_products
        if it.rho is not None:
            self.rho[problems] = self.space.numpy(it.rho)
        left = np.flatnonzero(~self.converged[problems])
        if len(left):
            it.measure()
            self._adopt(it, problems, left)

    def _first_iterate(self, problems: Any, dtype: Any) -> Iterate:
        xp, terms, w, anchor = self.space.xp, self.terms, self.w, self.alpha
        if len(problems) < terms.n_problems:
            index = self.space.asarray(problems)
            terms, w = terms.some(index), xp.take(w, index, axis=1)
            anchor = None if anchor is None else xp.take(anchor, index, axis=1)
        w = xp.asarray(w, copy=True)
        anchor = None if terms.smooth else self._copy(anchor, terms.n_classes, dtype)
        first = FIRST_RHO if terms.n_problems == terms.n_classes else FIRST_RHO_MULTICLASS
        mean = float(xp.sum(terms.cost)) / max(self.n_members, 1)
        rho = np.where(self.rho[problems] > 0, self.rho[problems], first / mean)
        rho = self.space.asarray(rho)
        return Iterate(self.rows, terms, self.parts, w, anchor, rho, dtype)

    def _step(self, it: Iterate, going: Any, by_factors: Any, worth: float) -> Any:
        """Take a step of the problems that go on; return how far they went."""
        xp = self.space.xp
        direction: Any = 0.0
        iterative = going & ~by_factors
        if iterative.any():
            most = min(CG_STEPS, max(worth, 1.0))
            found, short = conjugate_gradients(it, iterative, most, self.poll)
            direction = xp.astype(found, xp.float64, copy=False)
            if np.isfinite(worth):
                by_factors |= short
        if (going & by_factors & ~iterative).any():
            direction = direction + direct(it, going & ~iterative, self.poll)
        return it.move(direction, going)

    def _tick(self, it: Iterate, problems: Any, moved: Any) -> None:
        """Count a step of the problems that took one, and tell the watcher."""
        self.epoch[problems[moved]] += 1
        single = it.terms.n_problems < it.terms.n_classes or len(problems) == 1
        seconds = clock() - self.started
        for j in np.flatnonzero(moved).tolist():
            gap = relative(float(it.gap[j]), float(it.primal[j]))
            w = it.w if single else it.w[:, j : j + 1]
            p = int(problems[j])
            if self.watch(p, Progress(int(self.epoch[p]), gap, self.n_members, w, seconds)):
                self.halted[p] = True

    def _adopt(self, it: Iterate, problems: Any, chosen: Any) -> None:
        """Certify the weights of some problems of an iterate, and keep what is better."""
        if not len(chosen):
            return
        xp, terms, w, anchor, rho = self.space.xp, it.terms, it.w, it.anchor, it.rho
        some = len(chosen) < terms.n_problems
        index = self.space.asarray(chosen)
        if some:
            terms, w = terms.some(index), xp.take(w, index, axis=1)
        if rho is not None:
            rho = xp.astype(xp.take(rho, index, axis=0) if some else rho, xp.float64)

        def dual_point(part: slice, slack: Any) -> Any:
            near = None
            if anchor is not None:
                near = xp.take(anchor[part, :], index, axis=1) if some else anchor[part, :]
                near = xp.astype(near, xp.float64, copy=False)
            return terms.feasible(part, terms.implied(part, slack, near, rho).b, it.dtype)

        self._certify(problems[chosen], terms, w, dual_point, it.dtype)

    def _certify_start(self, alpha: Any) -> None:
        """Certify dual variables to start from, with the weights that they make up."""
        w = self.space.zeros(self.w.shape, self.w.dtype)
        for part in self.parts:
            b = self.space.xp.astype(alpha[part, :], w.dtype, copy=False)
            self.rows.add(part, self.terms.signed(part, b), w)
        everything = np.arange(self.terms.n_problems)
        self._certify(everything, self.terms, w, lambda part, slack: alpha[part, :], alpha.dtype)

    def _certify(
        self,
        problems: Any,
        terms: Terms,
        w: Any,
        dual_point: Callable[[slice, Any], Any],
        dtype: Any,
    ) -> None:
        """Compute the certificate of weights of some problems, and keep them where it is better.

        That is ``P(w) - D(alpha)``, all in float64 from w and the dual variables as they are kept.
        """
        xp, n = self.space.xp, terms.n_problems
        alpha = self.rows.table(terms.n_classes, dtype)
        w_of_alpha = xp.zeros_like(w)
        # Squares of weights are summed in any order, and so are losses: each is rounded that often.
        summands = self.rows.n_weights * terms.n_classes
        size = (1.0 + summands * EPS) * terms.dots(w, w)
        length = xp.sqrt(size + summands * SMALLEST)  # squares may underflow
        totals = self.space.zeros((DRIFT + 1, n), xp.float64)
        for part in self.parts:
            slack = terms.slack(part, self.rows.responses(part, w))
            alpha[part, :] = dual_point(part, slack)
            b = xp.astype(alpha[part, :], xp.float64, copy=False)
            self.rows.add(part, terms.signed(part, b), w_of_alpha)
            rounding = self.rows.rounding(part)
            totals += xp.stack(
                list(terms.certify(part, slack, b, self.norm[part], rounding, length))
            )
        away = w - w_of_alpha
        distance = (1.0 + summands * EPS) * np.sqrt(self.space.numpy(terms.dots(away, away)))
        sums = np.zeros((N_TOTALS, n))
        sums[: DRIFT + 1], sums[CALLS] = self.space.numpy(totals), summands + self.rows.n_rows
        size = self.space.numpy(size)
        found = [
            certified(float(size[j]), sums[:, j], self.n_members, distance=float(distance[j]))
            for j in range(n)
        ]
        primal, dual, gap, relative_gap, seen = np.array(found).T
        better = np.flatnonzero(gap < self.gap[problems])
        places = problems[better]
        self._keep(problems, better, w, alpha)
        self.primal[places], self.dual[places] = primal[better], dual[better]
        self.gap[places], self.relative_gap[places] = gap[better], relative_gap[better]
        self.at_floor[places] = (seen <= FLOOR)[better]
        self._record(places)

    def _keep(self, problems: Any, better: Any, w: Any, alpha: Any) -> None:
        """Take over weights and dual variables of the problems that got better."""
        if not len(better):
            return
        if len(better) == self.terms.n_problems:
            self.w, self.alpha = w, alpha
            return
        if self.alpha is None or self.alpha.dtype != alpha.dtype:
            self.alpha = self._copy(self.alpha, self.terms.n_classes, alpha.dtype)
        for j in better.tolist():
            p = int(problems[j])
            self.w[:, p] = w[:, j]
            self.alpha[:, p] = alpha[:, j]

    def _copy(self, table: Any, n_classes: int, dtype: Any) -> Any:
        """Return a copy of dual variables in some precision; zeros of None."""
        out = self.rows.table(n_classes, dtype)
        for part in self.parts:
            if table is None:
                out[part, :] = self.space.zeros((part.stop - part.start, n_classes), dtype)
            else:
                out[part, :] = self.space.xp.astype(table[part, :], dtype, copy=False)
        return out

    def solution(self) -> Solution:
        """Return the best that has been reached."""
        if self.alpha is None:
            self.alpha = self._copy(None, self.terms.n_classes, self.rows.X.dtype)
        return Solution(
            w=self.w,
            alpha=self.alpha,
            primal=self.primal,
            dual=self.dual,
            gap=self.gap,
            relative_gap=self.relative_gap,
            converged=self.converged,
            n_iter=self.epoch,
            n_products=self.n_products,
            history=[np.array(entries, HISTORY_DTYPE) for entries in self.history],
        )


def _name(xp: Any, dtype: Any) -> str:
    return "float32" if dtype == xp.float32 else "float64"

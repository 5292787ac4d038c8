"""A second-order method for the same problems: semismooth Newton on the augmented Lagrangian.

With slack ``s = 1 - y Xw``, an anchor a and a penalty rho >= 0, the inner problem in w alone is

    phi(w) = 1/2 |w|^2 + sum_i max over lower <= b <= upper_i of
                         b s_i - D_i b^2 / 2 - rho (b - a_i)^2 / 2,

whose maximisers are ``b_i = clip(u_i)``, ``u_i = (s_i + rho a_i) / (D_i + rho)``. phi is smooth:

    gradient  w - X'(y b),      generalised Hessian  I + X_J' diag(1 / (D_J + rho)) X_J,

J the rows with ``lower < u_i < upper_i``. Its minimiser is the proximal point step ``a <- b`` on
the dual (Rockafellar 1976; Li, Sun and Toh 2018 with semismooth Newton steps inside). Each b is
feasible, so each step has a dual bound. Squared hinge and squared loss have D > 0 and take rho = 0:
their inner problem is the primal itself, and there is no outer iteration.

With many classes a row has a slack and a dual variable per class, and clip becomes the projection
onto the row's feasible set; see `dualsweep.kernels.newton_multiclass`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg.lapack import dposv

from .kernels.newton import add_rows, gram, hessian_product, implied_dual, margins, slope
from .kernels.newton_multiclass import (
    gram_multiclass,
    implied_dual_multiclass,
    product_multiclass,
    responses,
    slope_multiclass,
    whole_gram,
)
from .problem import AnyProblem, MulticlassProblem, Problem, relative
from .rows import n_stored
from .run import Run

__all__ = ["newton", "newton_cost"]

# Up to this many weights the Hessian is built and factorised; above, conjugate gradients.
DIRECT_WEIGHTS = 2000

# Outer iterations of the hinge loss: rho starts at FIRST_RHO / C and is divided by RHO_FACTOR each
# time; an inner problem counts as solved when its gap is INNER_GAP of the whole gap. Steps to a gap
# of 1e-6: 27, 34 and 49 on covtype at C = 1, 100 and 1000, 145 on w8a at C = 100 (with 5 and 0.03
# instead: 23, 41, 48 and 187).
FIRST_RHO = 10.0
FIRST_RHO_MULTICLASS = 0.5  # letter, C = 10: 40 steps to 1e-3 instead of 47, in 4/5 of the time
RHO_FACTOR = 3.0
INNER_GAP = 0.1

# A certificate is tried when the gap between P(w) and the dual of b is this part of tol: the model
# is the w of b, whose primal is a little larger than that of the w Newton works on.
TRY_AT = 0.5

MAX_STEPS = 500

# Products of two entries computed between two looks at the clock: some 0.1 s.
PAIRS_PER_CALL = 100_000_000

# Passes over the rows are cut into so many parts, which threads can share, from so many rows on.
# Parts are summed up one after the other, so the result does not depend on who did them.
PARTS, PARTS_FROM = 4, 20_000

LINE_SEARCH = 0.01  # part of the first slope that may be left
CG_STEPS = 200


def newton_cost(problem: AnyProblem) -> float:
    """Return what a Newton solution costs, in entries of X read; inf if it cannot be foreseen.

    An entry read in sequence takes about a nanosecond. Steps and their costs are those of a9a, w8a,
    ijcnn1, covtype and mnist at C = 1 and 100, within a factor of two or three, and of letter.
    """
    d = int(np.prod(problem.weights_shape))
    if d > DIRECT_WEIGHTS:
        return np.inf
    stored, n = n_stored(problem.rows), len(problem.y)
    pairs = 0.5 * stored * (stored / n)
    factor = d**3 / 3 / 10  # ten multiplications of LAPACK in the time of one entry
    if isinstance(problem, Problem):
        steps, free = (10, 0.5) if problem.loss.diag > 0 else (35, 0.08)  # part of the rows in J
        return steps * (3 * stored + 0.6 * free * pairs + factor + 40 * n + 30_000)
    classes = problem.n_classes
    steps = 40 if problem.joint else 20
    # As many pairs of classes as there are classes, the free ones of a row being few.
    pairs *= 0.4 * classes
    return steps * (stored * classes + pairs + factor + 20 * n * classes + 30_000)


@np.errstate(over="ignore", invalid="ignore")  # a direction that is not finite ends the method
def newton(run: Run) -> None:
    """Take Newton steps until the run is over or they get stuck."""
    if isinstance(run.problem, MulticlassProblem):
        _newton(run, _MulticlassSteps(run, run.problem))
    elif run.n_threads == 1 or len(run.candidates) < PARTS_FROM:
        _newton(run, _BinarySteps(run, run.problem, map))
    else:
        with ThreadPoolExecutor(min(run.n_threads, PARTS)) as pool:
            _newton(run, _BinarySteps(run, run.problem, pool.map))


def _newton(run: Run, step: _Steps) -> None:
    tried = np.inf
    for _ in range(MAX_STEPS):
        if run.poll():
            break
        step.measure()
        # An inner gap that fell a lot since a failed attempt makes another one worthwhile.
        if step.gap <= TRY_AT * run.tol * step.primal and step.inner_gap < 0.1 * tried:
            tried = step.inner_gap
            if _adopt(run, step.b) or run.over:
                return
        if step.settled:
            step.next_anchor()
            step.measure()
        if not step.move():
            break
        run.n_newton += 1
        run.tick(relative(step.gap, step.primal), step.w)
        if run.epoch >= run.max_iter:
            break
    step.measure()
    _adopt(run, step.b)


def _adopt(run: Run, b: Any) -> bool:
    """Make b the run's dual point if its certificate is better; return whether that proves tol."""
    before, gap = run.alpha, run.gap
    run.alpha = run.problem.alpha_of(run.candidates, b)
    run.check()
    if not run.gap <= gap:
        run.alpha = before
        run.history.pop()
        run.check()
    return run.converged


class _Steps(ABC):
    """Newton's iterate: the weights w, the slacks, and the dual point b they imply.

    What depends on the formulation is in the subclasses.
    """

    rho: float
    w_of_b: Any

    def __init__(self, run: Run) -> None:
        self.run, self.members = run, run.candidates
        self.cost = run.problem.cost[self.members]
        self.w = run.w.copy()
        if run.primal > run.problem.primal_at_zero:  # worse than no model at all
            self.w[:] = 0.0
        self.anchor = run.problem.rows_of(run.alpha, self.members)
        self.slack = self.first_slack() + self.response(self.w)
        self.u, self.b = np.empty_like(self.slack), np.empty_like(self.slack)

    @abstractmethod
    def first_slack(self) -> Any:
        """Return the slacks of w = 0."""

    @abstractmethod
    def response(self, v: Any) -> Any:
        """Return by how much the slacks change along v."""

    @abstractmethod
    def implied_dual(self) -> tuple[float, float]:
        """Fill in u and b; return the losses and their excess over what b proves."""

    @abstractmethod
    def weights_of_b(self) -> None:
        """Fill in the weights of b."""

    @abstractmethod
    def slope(self, q: Any, t: float) -> tuple[float, float]:
        """Return ``sum_i b_i q_i`` where the slacks have changed by t q, and its derivative."""

    @abstractmethod
    def hessian(self) -> Any:
        """Return the Hessian without its identity; None if told to stop."""

    @abstractmethod
    def add_hessian_product(self, v: Any, out: Any) -> None:
        """Add the product of the Hessian, without its identity, with v."""

    def measure(self) -> None:
        """Compute b, the gradient, and the gaps they prove."""
        losses, excess = self.implied_dual()
        self.weights_of_b()
        self.gradient = (self.w - self.w_of_b).ravel()
        self.inner_gap = 0.5 * float(self.gradient @ self.gradient)
        self.primal = 0.5 * float(self.w.ravel() @ self.w.ravel()) + losses
        self.gap = self.inner_gap + excess

    @property
    def settled(self) -> bool:
        """Whether the inner problem is solved well enough for the next anchor."""
        return self.rho > 0.0 and self.inner_gap <= INNER_GAP * self.gap

    def next_anchor(self) -> None:
        """Take the proximal point step on the dual."""
        self.anchor = self.b.copy()
        self.rho /= RHO_FACTOR

    def move(self) -> bool:
        """Take a Newton step with line search; return whether it led anywhere."""
        p = self._direction()
        if p is None or not np.isfinite(p).all():
            return False
        p = p.reshape(self.w.shape)
        q = self.response(p)
        t = self._line_search(p.ravel(), q)
        if t == 0.0:
            return False
        self.w += t * p
        self.slack += t * q
        return True

    def _direction(self) -> Any:
        """Solve ``Hessian p = -gradient``; return None if told to stop."""
        d = self.w.size
        if d > DIRECT_WEIGHTS:
            return self._conjugate_gradients()
        hessian = self.hessian()
        if hessian is None:
            return None
        diagonal = hessian.diagonal().copy()
        # The identity drowns in rounding where the features are huge; then as much as is needed.
        for ridge in (0.0, 1e-14, 1e-11, 1e-8):
            hessian.flat[:: d + 1] = diagonal + (1.0 + ridge * diagonal.max())
            _, p, failed = dposv(hessian, self.gradient)
            if not failed:
                return -p
        return -self.gradient

    def _conjugate_gradients(self) -> Any:
        residual = -self.gradient
        p, solution = residual.copy(), np.zeros_like(residual)
        size = residual @ residual
        enough = size * min(0.01, float(np.sqrt(size))) ** 2
        for _ in range(CG_STEPS):
            product = p.copy()
            self.add_hessian_product(p, product)
            length = size / (p @ product)
            solution += length * p
            residual -= length * product
            before, size = size, residual @ residual
            if size <= enough or self.run.poll():
                break
            p = residual + (size / before) * p
        return solution

    def _line_search(self, p: Any, q: Any) -> float:
        """Return t > 0 with ``phi'(t)`` near 0; phi' is increasing and piecewise linear."""
        wp, pp = float(self.w.ravel() @ p), float(p @ p)
        first = float(self.gradient @ p)
        t, low, high = 1.0, 0.0, np.inf
        for _ in range(100):
            total, curvature = self.slope(q, t)
            value = wp + t * pp + total
            if abs(value) <= LINE_SEARCH * abs(first):
                return t
            low, high = (t, high) if value < 0 else (low, t)
            if pp + curvature == 0.0:
                return 0.0
            t -= value / (pp + curvature)
            if not low < t < high:
                t = 0.5 * (low + high) if high < np.inf else 2.0 * low
        return low


class _BinarySteps(_Steps):
    def __init__(self, run: Run, problem: Problem, map: Callable[..., Any]) -> None:
        self.problem = problem
        self.map = map  # the built-in one, or that of a pool of threads
        super().__init__(run)
        self.rho = 0.0 if problem.loss.diag > 0 else FIRST_RHO / float(self.cost.mean())

    def _parts(self, function: Callable[[slice], Any], n: int) -> Iterator[Any]:
        """Return what `function` returns for each part of n rows, in their order."""
        count = PARTS if len(self.members) >= PARTS_FROM else 1
        bounds = [n * part // count for part in range(count + 1)]
        return iter(self.map(function, (slice(*pair) for pair in pairwise(bounds))))

    def _sum(self, function: Callable[[slice], Any], n: int) -> Any:
        """Return the sum of the arrays that `function` returns for the parts of n rows."""
        parts = self._parts(function, n)
        total = next(parts)
        for part in parts:
            total += part
        return total

    def first_slack(self) -> Any:
        return np.ones(len(self.members))

    def response(self, v: Any) -> Any:
        rows, y = self.problem.rows, self.problem.y
        out = np.empty(len(self.members))
        list(self._parts(lambda p: margins(rows, y, self.members[p], v, out[p]), len(out)))
        return -out

    def implied_dual(self) -> tuple[float, float]:
        loss = self.problem.loss

        def part(p: slice) -> Any:
            data = self.slack[p], self.anchor[p], self.cost[p]
            return np.array(implied_dual(*data, loss, self.rho, self.u[p], self.b[p]))

        losses, excess = self._sum(part, len(self.u))
        free = (self.u > loss.lower) & (self.u < self.cost * loss.upper)
        self.free = self.members[free]
        self.scale = 1.0 / (loss.diag / self.cost[free] + self.rho)
        return float(losses), float(excess)

    def weights_of_b(self) -> None:
        rows, y = self.problem.rows, self.problem.y

        def part(p: slice) -> Any:
            w = np.zeros_like(self.w)
            add_rows(rows, y, self.members[p], self.b[p], w)
            return w

        self.w_of_b = self._sum(part, len(self.b))

    def slope(self, q: Any, t: float) -> tuple[float, float]:
        loss = self.problem.loss

        def part(p: slice) -> Any:
            return np.array(slope(self.u[p], q[p], self.cost[p], loss, self.rho, t))

        total, curvature = self._sum(part, len(self.u))
        return float(total), float(curvature)

    def hessian(self) -> Any:
        rows, d = self.problem.rows, self.w.size
        per_row = n_stored(rows) / len(self.problem.y) + 1

        def part(p: slice) -> Any:
            half = np.zeros((d, d))
            free, scale = self.free[p], self.scale[p]
            for some in _slices(len(free), per_row**2):
                gram(rows, free[some], scale[some], half)
                if self.run.poll():
                    break
            return half

        half = self._sum(part, len(self.free))
        return None if self.run.halted else half + half.T

    def add_hessian_product(self, v: Any, out: Any) -> None:
        hessian_product(self.problem.rows, self.free, self.scale, v, out)


class _MulticlassSteps(_Steps):
    def __init__(self, run: Run, problem: MulticlassProblem) -> None:
        self.problem = problem
        self.y = problem.y[run.candidates]
        self.beta = np.zeros((len(problem.y), problem.n_classes))
        self.w_of_b = np.empty(problem.weights_shape)
        super().__init__(run)
        self.rho = FIRST_RHO_MULTICLASS / float(self.cost.mean())

    def first_slack(self) -> Any:
        return (np.arange(self.problem.n_classes) != self.y[:, None]).astype(np.float64)

    def response(self, v: Any) -> Any:
        out = np.empty((len(self.members), self.problem.n_classes))
        responses(self.problem.rows, self.problem.y, self.members, v, out)
        return out

    def implied_dual(self) -> tuple[float, float]:
        return implied_dual_multiclass(
            self.slack,
            self.anchor,
            self.y,
            self.cost,
            self.problem.joint,
            self.rho,
            self.u,
            self.b,
        )

    def weights_of_b(self) -> None:
        self.beta[self.members] = self.b
        self.problem.weights(self.beta, self.w_of_b)

    def slope(self, q: Any, t: float) -> tuple[float, float]:
        scratch = np.empty(self.problem.n_classes)
        return slope_multiclass(
            self.u, q, self.y, self.cost, self.problem.joint, self.rho, t, scratch
        )

    def hessian(self) -> Any:
        d, k = self.w.shape
        blocks = np.zeros((k, k, d, d))
        scratch = np.empty((k, k)), np.empty(k, np.int64), np.empty(d), np.empty(d, np.int64)
        per_row = n_stored(self.problem.rows) / len(self.problem.y) + 1
        for part in _slices(len(self.members), (per_row * k / 2) ** 2):
            gram_multiclass(
                self.problem.rows,
                self.members[part],
                self.y[part],
                self.cost[part],
                self.problem.joint,
                self.rho,
                self.u[part],
                blocks,
                *scratch,
            )
            if self.run.poll():
                return None
        return whole_gram(blocks)

    def add_hessian_product(self, v: Any, out: Any) -> None:
        k = self.problem.n_classes
        product_multiclass(
            self.problem.rows,
            self.members,
            self.y,
            self.cost,
            self.problem.joint,
            self.rho,
            self.u,
            v.reshape(self.w.shape),
            out.reshape(self.w.shape),
            np.empty((3, k)),
            np.empty(k, np.int64),
        )


def _slices(n: int, pairs: float) -> Iterator[slice]:
    """Cut n rows with so many pairs of entries each."""
    length = max(int(PAIRS_PER_CALL / pairs), 1)
    return (slice(start, start + length) for start in range(0, n, length))

"""A second-order method for the same problems: semismooth Newton on the augmented Lagrangian.

With slack ``s = 1 - y Xw``, an anchor a and a penalty rho >= 0, the inner problem in w alone is

    phi(w) = 1/2 |w|^2 + sum_i max over lower <= b <= upper_i of
                         b s_i - kink |b| - D_i b^2 / 2 - rho (b - a_i)^2 / 2,

whose maximisers are ``b_i = clip(u_i)``, ``u_i = (s_i + rho a_i) / (D_i + rho)``, less what of it
is within ``kink / (D_i + rho)`` of 0. phi is smooth:

    gradient  w - X'(y b),      generalised Hessian  I + X_J' diag(1 / (D_J + rho)) X_J,

J the rows whose b_i is between its bounds and not at the kink. Its minimiser is the proximal point
step ``a <- b`` on the dual (Rockafellar 1976; Li, Sun and Toh 2018 with semismooth Newton steps
inside). Each b is feasible, so each step has a dual bound. Squared losses have D > 0 and take
rho = 0: their inner problem is the primal itself, and there is no outer iteration.

With many classes a row has a slack and a dual variable per class, and clip becomes the projection
onto the row's feasible set; see `dualsweep.kernels.newton_multiclass`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dposv

from ..problems.free import FreeProblem
from ..problems.multiclass import MulticlassProblem
from ..problems.result import relative
from .iterates import slacks_of
from .parts import PartLostError, PartsProblem, RemoteSlacks
from .policy import DIRECT_WEIGHTS
from .run import Run

__all__ = ["newton"]

# Outer iterations of losses without a diagonal: rho starts at FIRST_RHO / C, times the size of a
# target (1 for classes), and is divided by RHO_FACTOR each time; an inner problem counts as solved
# when its gap is INNER_GAP of the whole gap. Steps of the hinge loss to 1e-6: 27, 34 and 49
# on covtype at C = 1, 100 and 1000, 145 on w8a at C = 100 (with 5 and 0.03 instead: 23, 41, 48 and
# 187).
FIRST_RHO = 10.0
FIRST_RHO_MULTICLASS = 0.5  # letter, C = 10: 40 steps to 1e-3 instead of 47, in 4/5 of the time
RHO_FACTOR = 3.0
INNER_GAP = 0.1

LINE_SEARCH = 0.01  # part of the first slope that may be left

# Conjugate gradients end with this part of the gradient, of rows in parts with the second.
CG_STEPS = 200
CG_LEFT, CG_LEFT_PARTS = 0.01, 0.1

# A certificate is tried when the gap between P(w) and the dual of b is this part of tol: the model
# is the w of b, whose primal is a little larger than that of the w Newton works on.
TRY_AT = 0.5

MAX_STEPS = 500


@np.errstate(over="ignore", invalid="ignore")  # a direction that is not finite ends the method
def newton(run: Run) -> None:
    """Take Newton steps until the run is over or they get stuck."""
    step = Iterate(run)
    while True:
        try:
            return _newton(run, step)
        except PartLostError:
            step.begin()


def _newton(run: Run, step: Iterate) -> None:
    tried = np.inf
    while run.n_newton < MAX_STEPS:
        if run.poll():
            break
        step.measure()
        # An inner gap that fell a lot since a failed attempt makes another one worthwhile.
        if step.gap <= TRY_AT * run.tol * step.primal and step.inner_gap < 0.1 * tried:
            tried = step.inner_gap
            if _adopt(run, step) or run.over:
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
    _adopt(run, step)


def _adopt(run: Run, step: Iterate) -> bool:
    """Make b the run's dual point if its certificate is better; return whether that proves tol.

    Parts of a problem take it in any case: the run knows the best of their points.
    """
    before, gap = run.alpha, run.gap
    run.alpha = step.rows.duals()
    run.check()
    if isinstance(run.problem, PartsProblem):
        run.problem.recheck(run)
    elif not run.gap <= gap:
        run.alpha = before
        run.history.pop()
        run.check()
    return run.converged


class Iterate:
    """Newton's iterate: the weights w, wherever the slacks of the rows are.

    Parameters
    ----------
    run : Run
        The run, from whose point to start.
    """

    def __init__(self, run: Run) -> None:
        problem: Any = run.problem
        self.run = run
        self.w = run.w.copy("K")
        if run.primal > problem.primal_at_zero:  # worse than no model at all
            self.w[:] = 0.0
        like = problem.like if isinstance(problem, PartsProblem) else problem
        self.cg_left = CG_LEFT_PARTS if like is not problem else CG_LEFT
        self.ridge, self.free_intercept = like.ridge, isinstance(like, FreeProblem)
        if isinstance(like, MulticlassProblem):
            self.rho = FIRST_RHO_MULTICLASS / problem.mean_cost
        else:
            self.bias, self.typical = like.passes.rows.bias, like.scale
            self.rho = 0.0 if like.loss.diag > 0 else FIRST_RHO * self.typical / problem.mean_cost
        self.begin()

    def begin(self) -> None:
        """Compute the slacks of w; the run's dual variables become the anchor."""
        problem = self.run.problem
        self.step, self.anchored = 0.0, False  # since slacks and anchor were last computed
        self.rows: Any = (
            RemoteSlacks(problem, self.w)
            if isinstance(problem, PartsProblem)
            else slacks_of(problem, self.w, self.run.alpha, self.run.poll)
        )

    def measure(self) -> None:
        """Compute b, the gradient, and the gaps they prove."""
        w_of_b, sums = self.rows.measure(rho=self.rho, step=self.step, settled=self.anchored)
        self.step, self.anchored = 0.0, False
        losses, excess = sums.tolist()
        penalised = self.ridge * self.w
        self.gradient = (penalised - w_of_b).ravel()
        self.inner_gap = self.gap_of_gradient()
        self.primal = 0.5 * float(penalised.ravel() @ self.w.ravel()) + losses
        self.gap = self.inner_gap + excess

    def gap_of_gradient(self) -> float:
        """Return what of the gap is due to weights that are not those of b."""
        if not self.free_intercept:
            return 0.5 * float(self.gradient @ self.gradient)
        # The last derivative is by how much sum_i y_i b_i is off 0, times the bias.
        features, unbalanced = self.gradient[:-1], abs(float(self.gradient[-1]))
        return 0.5 * float(features @ features) + unbalanced / self.bias * self.typical

    @property
    def settled(self) -> bool:
        """Whether the inner problem is solved well enough for the next anchor."""
        return self.rho > 0.0 and self.inner_gap <= INNER_GAP * self.gap

    def next_anchor(self) -> None:
        """Take the proximal point step on the dual."""
        self.anchored = True
        self.rho /= RHO_FACTOR

    def move(self) -> bool:
        """Take a Newton step with line search; return whether it led anywhere."""
        p = self._direction()
        if p is None or not np.isfinite(p).all():
            return False
        self.step = self._line_search(p)
        if self.step == 0.0:
            return False
        self.w += self.step * p.reshape(self.w.shape)
        return True

    def _direction(self) -> Any:
        """Solve ``Hessian p = -gradient``; return None if told to stop."""
        d = self.w.size
        if d > DIRECT_WEIGHTS:
            return self._conjugate_gradients()
        hessian = self.rows.hessian()
        if hessian is None:
            return None
        diagonal = hessian.diagonal().copy()
        # The identity drowns in rounding where the features are huge; then as much as is needed.
        for more in (0.0, 1e-14, 1e-11, 1e-8):
            hessian.flat[:: d + 1] = diagonal + (self.ridge + more * diagonal.max())
            _, p, failed = dposv(hessian, self.gradient)
            if not failed:
                return -p
        return -self.gradient

    def _conjugate_gradients(self) -> Any:
        residual = -self.gradient
        p, solution = residual.copy(), np.zeros_like(residual)
        size = residual @ residual
        enough = size * min(self.cg_left, float(np.sqrt(size))) ** 2
        for _ in range(CG_STEPS):
            product = self.ridge * p + self.rows.product(p.reshape(self.w.shape)).ravel()
            curvature = p @ product
            if curvature == 0.0:  # along an intercept that no row holds
                return solution if solution.any() else p
            length = size / curvature
            solution += length * p
            residual -= length * product
            before, size = size, residual @ residual
            if size <= enough or self.run.poll():
                break
            p = residual + (size / before) * p
        return solution

    def _line_search(self, p: Any) -> float:
        """Return t > 0 with ``phi'(t)`` near 0; phi' is increasing and piecewise linear."""
        penalised = self.ridge * p
        wp, pp = float(self.w.ravel() @ penalised), float(p @ penalised)
        first = float(self.gradient @ p)
        t, low, high = 1.0, 0.0, np.inf
        sums = self.rows.aim(p.reshape(self.w.shape), t=t)
        for _ in range(100):
            total, curvature = sums.tolist()
            value = wp + t * pp + total
            if abs(value) <= LINE_SEARCH * abs(first):
                return t
            low, high = (t, high) if value < 0 else (low, t)
            if pp + curvature > 0.0:
                t -= value / (pp + curvature)
            if not low < t < high:
                t = 0.5 * (low + high) if high < np.inf else 2.0 * low
            sums = self.rows.slope(t=t)
        return low

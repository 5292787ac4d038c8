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

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._symmetric import cholesky_solve, regular_cholesky
from .._threads import Workers
from ..kernels.certificate import relative
from ..problems.free import FreeProblem
from ..problems.multiclass import MulticlassProblem
from .iterates import DIRECT_WEIGHTS, has_blocks, slacks_of
from .parts import PartLostError, PartsProblem, RemoteSlacks
from .run import Run
from .slacks import aim_together, measure_together

# Outer iterations of losses without a diagonal: rho starts at FIRST_RHO / C, times the size of a
# target (1 for classes), and is divided by RHO_FACTOR each time; an inner problem counts as solved
# when its gap is INNER_GAP of the whole gap. Steps of the hinge loss to 1e-6: 27, 34 and 49
# on covtype at C = 1, 100 and 1000, 145 on w8a at C = 100 (with 5 and 0.03 instead: 23, 41, 48 and
# 187).
FIRST_RHO = 10.0
FIRST_RHO_MULTICLASS = 0.5  # letter, C = 10: 40 steps to 1e-3 instead of 47, in 4/5 of the time
RHO_FACTOR = 3.0
INNER_GAP = 0.1

# The same where conjugate gradients are preconditioned by blocks: they are the fewer the less the
# problem changes from one step to the next. mnist, Crammer-Singer at C = 1 and 10: 360 and 599 in
# 45 and 67 steps; with a factor of 2 and a part of 0.7, 515 and 1045 in 57 and 93.
BLOCKS_RHO, BLOCKS_RHO_FACTOR, BLOCKS_INNER_GAP = 5.0, 1.3, 0.8

# There is no other anchor where all but this part of tol is the inner problem's: its solution then
# proves tol. Before that, w is much better than the weights of b, which are what a certificate is
# of. mnist, Crammer-Singer at C = 1: 46 steps instead of 86 (with 1.4 and 0.7 above).
LAST_ANCHOR = 0.3

LINE_SEARCH = 0.01  # part of the first slope that may be left

# Conjugate gradients end with this part of the gradient, of rows in parts with the second. Where
# the classes' own blocks of the Hessian precondition them it is the third, and the fourth at the
# last anchor; blocks are made anew where as many steps were needed as they are worth. mnist, C = 1,
# Crammer-Singer and Weston-Watkins: 11.7 and 8.1 s on one core, with 0.2 and 0.01 12.4 and 9.5. On
# two cores, with blocks worth 12 instead of 8 steps, 4.8 instead of 5.7 s and 3.9 both, at C = 10
# Crammer-Singer 8.7 instead of 9.8.
CG_STEPS = 200
CG_LEFT, CG_LEFT_PARTS, CG_LEFT_BLOCKS, CG_LEFT_LAST = 0.01, 0.1, 0.3, 0.05
BLOCKS_WORTH = 12

# A certificate is tried when the gap between P(w) and the dual of b is this part of tol: the model
# is the w of b, whose primal is a little larger than that of the w Newton works on.
TRY_AT = 0.5

MAX_STEPS = 500


# A direction that is not finite ends the method. (Each thread has settings of its own.)
_silent = np.errstate(over="ignore", invalid="ignore")


@_silent
def newton(*runs: Run) -> None:
    """Take Newton steps until each run is over or they get stuck.

    Several runs are of problems that share their rows and costs; see `shares_passes`.
    """
    steps = _map_of(runs[0])(Iterate, runs)
    if len(steps) > 1:  # threads share the problems, and not what is light of one
        for step in steps:
            step.rows.helped = False
    while True:
        try:
            return _in_step(steps)
        except PartLostError:
            steps[0].begin()


def _in_step(steps: list[Iterate]) -> None:
    """Let all go on until they ask for the same, and answer that for all of them at once."""
    going = [(step, _newton(step)) for step in steps]
    parallel = _map_of(steps[0].run)

    @_silent
    def go_on(one: tuple[Iterate, Iterator[str]]) -> None:
        step, questions = one
        step.asks = next(questions, "")

    parallel(go_on, going)
    while going:
        for question, answer in _ANSWERS.items():
            while asking := [one for one in going if one[0].asks == question]:
                answer([step for step, _ in asking])
                parallel(go_on, asking)
        going = [one for one in going if one[0].asks]


def _newton(step: Iterate) -> Iterator[str]:
    """Take the steps of one run; yields what it needs next, one of `_ANSWERS`."""
    run, tried = step.run, np.inf
    while run.n_newton < MAX_STEPS:
        if run.poll():
            break
        yield "measure"
        # An inner gap that fell a lot since a failed attempt makes another one worthwhile.
        if step.gap <= TRY_AT * run.tol * step.primal and step.inner_gap < 0.1 * tried:
            tried = step.inner_gap
            if _adopt(run, step) or run.over:
                return
        if step.settled:
            step.next_anchor()
            yield "measure"
        yield "direction"
        if step.p is None or not np.isfinite(step.p).all():
            break
        yield "aim"
        if not step.move():
            break
        run.n_newton += 1
        run.tick(relative(step.gap, step.primal), step.w)
        if run.epoch >= run.max_iter:
            break
    yield "measure"
    _adopt(run, step)


def _map_of(run: Run) -> Callable[..., list[Any]]:
    """Return a map that shares its work among the threads of a problem's passes."""
    passes = getattr(run.problem, "passes", None)
    return Workers().map if passes is None else passes.workers.map


def _measure(steps: list[Iterate]) -> None:
    """Compute b, the gradient, and the gaps they prove."""
    how = [{"rho": step.rho, "step": step.step, "settled": step.anchored} for step in steps]
    if len(steps) == 1:
        found = [steps[0].rows.measure(**how[0])]
    else:
        found = measure_together([step.rows for step in steps], how)
    for step, (w_of_b, sums) in zip(steps, found, strict=True):
        step.measured(w_of_b, sums)


def _direct(steps: list[Iterate]) -> None:
    """Compute directions."""
    _map_of(steps[0].run)(Iterate.direct, steps)


def _aim(steps: list[Iterate]) -> None:
    """Compute how the slacks change along directions."""
    if len(steps) == 1:
        steps[0].slopes = steps[0].rows.aim(steps[0].p.reshape(steps[0].w.shape), t=1.0)
        return
    found = aim_together([step.rows for step in steps], [step.p for step in steps], 1.0)
    for step, slopes in zip(steps, found, strict=True):
        step.slopes = slopes


_ANSWERS = {"measure": _measure, "direction": _direct, "aim": _aim}


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

    asks = ""  # what `_newton` needs next
    p: Any  # the direction
    slopes: Any  # what `Slacks.slope` returns of a whole step along it

    def __init__(self, run: Run) -> None:
        problem: Any = run.problem
        self.run = run
        self.w = run.w.copy("K")
        if run.primal > problem.primal_at_zero:  # worse than no model at all
            self.w[:] = 0.0
        like = problem.like if isinstance(problem, PartsProblem) else problem
        self.cg_left = CG_LEFT_PARTS if like is not problem else CG_LEFT
        self.ridge, self.free_intercept = like.ridge, isinstance(like, FreeProblem)
        self.rho_factor, self.inner_part = RHO_FACTOR, INNER_GAP
        self.in_blocks = has_blocks(problem) and self.w.size > DIRECT_WEIGHTS
        if self.in_blocks:
            self.rho = BLOCKS_RHO / problem.mean_cost
            self.rho_factor, self.inner_part = BLOCKS_RHO_FACTOR, BLOCKS_INNER_GAP
        elif isinstance(like, MulticlassProblem):
            self.rho = FIRST_RHO_MULTICLASS / problem.mean_cost
        else:
            self.bias, self.typical = like.passes.rows.bias, like.scale
            self.rho = 0.0 if like.loss.diag > 0 else FIRST_RHO * self.typical / problem.mean_cost
        self.begin()

    def begin(self) -> None:
        """Compute the slacks of w; the run's dual variables become the anchor."""
        problem = self.run.problem
        self.exact = False  # whether Hessians are to be
        self.factors: Any = None  # of the Hessian's blocks of single classes
        self.cg_steps = 0  # with them, in the latest direction
        self.step, self.anchored = 0.0, False  # since slacks and anchor were last computed
        self.rows: Any = (
            RemoteSlacks(problem, self.w)
            if isinstance(problem, PartsProblem)
            else slacks_of(problem, self.w, self.run.alpha, self.run.poll)
        )

    def measured(self, w_of_b: Any, sums: Any) -> None:
        """Compute the gradient and the gaps, from the weights of b and sums over the rows."""
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
    def at_last_anchor(self) -> bool:
        """Whether the solution of the inner problem proves enough."""
        return self.gap - self.inner_gap <= LAST_ANCHOR * self.run.tol * self.primal

    @property
    def settled(self) -> bool:
        """Whether the inner problem is solved well enough for the next anchor."""
        enough = self.inner_gap <= self.inner_part * self.gap
        return self.rho > 0.0 and enough and not self.at_last_anchor

    def next_anchor(self) -> None:
        """Take the proximal point step on the dual."""
        self.anchored = True
        self.rho /= self.rho_factor

    @_silent
    def direct(self) -> None:
        """Solve ``Hessian p = -gradient``; p is None if told to stop."""
        if self.w.size <= DIRECT_WEIGHTS:
            self.p = self._direction()
        elif self.in_blocks:
            self.p = self._in_class_blocks()
        else:
            self.p = self._conjugate_gradients()

    def move(self) -> bool:
        """Go along the direction; return whether it led anywhere."""
        self.step = self._line_search(self.p)
        if self.step == 0.0:
            return False
        self.w += self.step * self.p.reshape(self.w.shape)
        return True

    def _direction(self) -> Any:
        matrix, scale = self.rows.hessian(self.exact)
        if matrix is None:
            return None
        factor = regular_cholesky(matrix, self.ridge, scale)
        if factor is None and not self.exact:  # with a small rho, sums in float32 are too rough
            self.exact = True
            return self._direction()
        return -self.gradient if factor is None else -cholesky_solve(factor, self.gradient)

    def _conjugate_gradients(self) -> Any:
        residual = -self.gradient
        solution, p, size = np.zeros_like(residual), residual.copy(), residual @ residual
        enough = size * min(self.cg_left**2, size)
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

    def _in_class_blocks(self) -> Any:
        """Let conjugate gradients be preconditioned by the blocks of single classes."""
        left = CG_LEFT_LAST if self.at_last_anchor else CG_LEFT_BLOCKS
        if self.factors is None or self.cg_steps >= BLOCKS_WORTH:
            self.factors = self.rows.block_factors(self.factors)
            if self.factors is None:
                return None
        right = -self.gradient.reshape(self.w.shape).T
        found, self.cg_steps = self.rows.solve(self.factors, right, left, CG_STEPS)
        return found.T.ravel()

    def _line_search(self, p: Any) -> float:
        """Return t > 0 with ``phi'(t)`` near 0; phi' is increasing and piecewise linear."""
        penalised = self.ridge * p
        wp, pp = float(self.w.ravel() @ penalised), float(p @ penalised)
        first = float(self.gradient @ p)
        t, low, high = 1.0, 0.0, np.inf
        slopes = self.slopes
        for _ in range(100):
            total, curvature = slopes.tolist()
            value = wp + t * pp + total
            if abs(value) <= LINE_SEARCH * abs(first):
                return t
            low, high = (t, high) if value < 0 else (low, t)
            if pp + curvature > 0.0:
                t -= value / (pp + curvature)
            if not low < t < high:
                t = 0.5 * (low + high) if high < np.inf else 2.0 * low
            slopes = self.rows.slope(t=t)
        return low

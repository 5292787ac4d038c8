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

from ..problems.binary import BinaryProblem
from ..problems.multiclass import MulticlassProblem
from ..problems.result import relative
from .iterates import first_iterate
from .run import Run

__all__ = ["newton"]

# A certificate is tried when the gap between P(w) and the dual of b is this part of tol: the model
# is the w of b, whose primal is a little larger than that of the w Newton works on.
TRY_AT = 0.5

MAX_STEPS = 500


@np.errstate(over="ignore", invalid="ignore")  # a direction that is not finite ends the method
def newton(run: Run) -> None:
    """Take Newton steps until the run is over or they get stuck."""
    step = first_iterate(run)
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
    problem = run.problem
    assert isinstance(problem, BinaryProblem | MulticlassProblem)
    before, gap = run.alpha, run.gap
    run.alpha = problem.alpha_of(run.candidates, b)
    run.check()
    if not run.gap <= gap:
        run.alpha = before
        run.history.pop()
        run.check()
    return run.converged

"""Newton steps of a small binary problem, taken inside a kernel."""

from __future__ import annotations

import numpy as np

from ..kernels.certificate import N_TOTALS, certified
from ..kernels.small import CLOSE, GOING, RHO, SmallNewton, newton_small
from ..problems.run import PointRun
from .core import silent
from .tuning import DIRECT

# A problem that needs more steps is left to the general method.
MOST_STEPS = 100

# Entries read between two looks at the clock and the stop flag: some 0.05 s.
ENTRIES_PER_CALL = 5e7


@silent
def newton_of_small(run: PointRun, step_entries: float) -> None:
    """Take Newton steps until the run is over or gets stuck; each reads so many entries."""
    problem, n, d = run.problem, len(run.candidates), len(run.w)
    if run.primal > problem.primal_at_zero:  # worse than no weights at all
        run.w[:] = 0.0
    y, cost, slack, along, anchor, b, scale, weight, change, slacks = np.empty((10, n))
    direction, gradient, weights = np.empty((3, d))
    gram, factor = np.empty((2, d, d))
    left = min(MOST_STEPS, run.max_iter - run.epoch)
    work = SmallNewton(
        data=problem.data,
        bias=problem.passes.rows.bias,
        members=run.candidates,
        tol=run.tol,
        tuning=DIRECT,
        y=y,
        cost=cost,
        slack=slack,
        along=along,
        anchor=anchor,
        b=b,
        scale=scale,
        weight=weight,
        change=change,
        picked=np.empty(n, np.int64),
        w=run.w,
        direction=direction,
        gradient=gradient,
        gram=gram,
        factor=factor,
        state=np.zeros(3),
        gaps=np.empty(left),
        alpha=run.alpha.copy(),
        weights=weights,
        slacks=slacks,
        totals=np.empty(N_TOTALS),
    )
    if not problem.smooth:
        work.state[RHO] = DIRECT.first_rho * problem.scale / problem.mean_cost
    at_once = 1 if run.stepwise else max(int(ENTRIES_PER_CALL / step_entries), 1)
    ends, begin = GOING, True
    while ends == GOING and left > 0 and not run.poll():
        ends, taken = newton_small(work, begin, min(at_once, left))
        left, begin = left - taken, False
        for gap in work.gaps[:taken].tolist():
            run.n_newton += 1
            run.tick(gap, work.w)
    run.rho = float(work.state[RHO])
    if ends == CLOSE:
        found = certified(problem.size(work.weights), work.totals, n)
        if found.relative_gap <= run.tol:
            run.alpha, run.w, run.slack = work.alpha, work.weights, work.slacks
            run.certified = True
            return run.note(found)
    run.adopt(work.alpha)

"""Newton steps of a small binary problem, taken inside a kernel."""

from __future__ import annotations

import numpy as np

from ..kernels.small import (
    N_NUMBERS,
    N_STATE,
    N_VECTORS,
    READY,
    RHO,
    STUCK,
    WEIGHTS,
    Limits,
    SmallNewton,
    W,
    newton_small,
)
from ..problems.run import PointRun
from .core import silent
from .tuning import DIRECT

LIMITS = Limits(0.0, *(getattr(DIRECT, name) for name in Limits._fields[1:]))

# A problem that needs more steps is left to the general method.
MOST_STEPS = 100

# Entries read between two looks at the clock and the stop flag: some 0.05 s.
ENTRIES_PER_CALL = 5e7


@silent
def newton_of_small(run: PointRun, step_entries: float) -> None:
    """Take Newton steps until the run is over or gets stuck.

    A step costs as much as reading `step_entries` entries of X.
    """
    problem, n, d = run.problem, len(run.candidates), len(run.w)
    vectors, state = np.zeros((N_VECTORS, d)), np.zeros(N_STATE)
    if run.primal <= problem.primal_at_zero:  # else no weights at all are better
        vectors[W] = run.w
    if not problem.smooth:
        state[RHO] = DIRECT.first_rho * problem.scale / problem.mean_cost
    left = min(MOST_STEPS, run.max_iter - run.epoch)
    work = SmallNewton(
        data=problem.data,
        members=run.candidates,
        limits=LIMITS._replace(tol=run.tol),
        numbers=np.empty((N_NUMBERS, n)),
        picked=np.empty(n, np.int64),
        vectors=vectors,
        matrices=np.empty((2, d, d)),
        state=state,
        gaps=np.empty(left),
        alpha=run.alpha.copy(),
    )
    at_once = 1 if run.stepwise else max(int(ENTRIES_PER_CALL / step_entries), 1)
    begin = True
    while True:
        ends, taken = newton_small(work, begin, min(at_once, left))
        left, begin = left - taken, False
        for gap in work.gaps[:taken].tolist():
            run.n_newton += 1
            run.tick(gap, vectors[W])
        if ends == READY:
            run.adopt(work.alpha.copy(), vectors[WEIGHTS].copy())
        if ends == STUCK or left == 0 or run.over or run.poll():
            break
    if ends != READY:
        run.adopt(work.alpha)
    run.rho = float(state[RHO])

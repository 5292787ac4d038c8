"""When sweeps, when momentum, when Newton steps: all that is decided during a run.

Newton steps come first if they are cheap (`Costs.newton_first`). Otherwise they begin when the
sweeps that are left, at the rate at which the gap falls, would cost more. Momentum begins after
`FIRST_MOMENTUM` plain sweeps if more than `WORTH_MOMENTUM` are left (see `_tuning`).
"""

from __future__ import annotations

import numpy as np

from .. import _tuning
from ..problems.result import Result
from .costs import Costs

SOLVERS = {
    "auto": "the one after the other, where that is expected to be cheaper",
    "sweep": "coordinate descent",
    "newton": "a second-order method",
}

# A run that starts from the solution for another C begins with Newton steps if that solution took
# Newton steps, or more sweeps than this part of what Newton steps are expected to cost. Sweeps
# become slower with C, and from such a start Newton needs half its steps. mnist, one class, squared
# hinge: Newton steps were expected to cost 103 sweeps, but 62 sweeps took as long as 12 steps, and
# seven suffice. The gap falls fast at first, so that sweeps look better than they are: on mnist,
# hinge, C from 0.01 to 1000, this saves two fifths of the time to a relative gap of 1e-5.
SWEEPS_AGAIN = 0.5

# Momentum has the larger scale if more than FAR sweeps are left. It ends when the gap of w and
# alpha is ENOUGH times tol: a few plain sweeps then make it the gap of alpha and its weights. If
# these are slow again, momentum comes back for longer, and finally not at all. The LAST_SWEEPS
# before max_iter are plain, too: the result is alpha with its weights.
SCALE, SCALE_FAR, FAR = 4.0, 8.0, 800.0
ENOUGH = (10.0, 3.0, 1.0, 0.3, 0.1, np.inf)
LAST_SWEEPS = 16

# Momentum is judged every TRIAL sweeps: in decades, the best gap has to have fallen by at least
# HELPS times what plain sweeps would have done at their rate. If not, momentum is given up, and
# comes back after twice as many plain sweeps. A shorter trial is too short for blogs (hinge,
# C = 1000): the second time, the gap stands still for 25 sweeps, and is ahead after 60.
TRIAL, HELPS = 64, 0.5


class Policy:
    """Decides what a run does next, from the expected costs and the gap after each sweep."""

    def __init__(
        self,
        costs: Costs,
        solver: str,
        tol: float,
        max_iter: int,
        momentum: bool,  # whether sweeps may have momentum
        before: Result | None = None,  # the solution for other costs that the run starts from
    ) -> None:
        self.tol, self.max_iter, self.momentum = tol, max_iter, momentum
        self.all_gaps: list[float] = []  # after each sweep
        self.gaps: list[float] = []  # after each sweep since momentum last ended
        self.n_momentum = 0  # how often momentum has reached its goal
        self.plain_sweeps = _tuning.FIRST_MOMENTUM  # before momentum begins
        self.plain_rate = 0.0  # rate of the plain sweeps before momentum, see `_rate`
        self.momentum_from = 0  # index in `gaps` of the first sweep with momentum
        self.newton_allowed = solver == "newton" or (solver == "auto" and costs.newton < np.inf)
        self.newton_in_sweeps = costs.newton / costs.sweep
        self.least_sweeps = costs.least_sweeps
        newton_first = costs.newton_first
        if before is not None:
            slow = SWEEPS_AGAIN * self.newton_in_sweeps < before.n_iter
            newton_first = newton_first or before.n_newton > 0 or slow
        self.newton_first = solver == "newton" or (self.newton_allowed and newton_first)

    def observe(self, relative_gap: float) -> None:
        """Note the gap after a sweep."""
        self.all_gaps.append(relative_gap)
        self.gaps.append(relative_gap)

    def wants_newton(self) -> bool:
        """Return whether Newton steps are expected to finish sooner than sweeps."""
        if not self.newton_allowed or len(self.all_gaps) < self.least_sweeps:
            return False
        return sweeps_left(self.all_gaps, self.tol) > self.newton_in_sweeps

    def wants_momentum(self, epoch: int) -> bool:
        """Return whether plain sweeps are so slow that momentum is expected to help."""
        return (
            self.momentum
            and len(self.gaps) >= self.plain_sweeps
            and not self.nears_max_iter(epoch)
            and self.gaps[-1] > self.momentum_goal
            and sweeps_left(self.gaps, self.tol) > _tuning.WORTH_MOMENTUM
        )

    @property
    def momentum_goal(self) -> float:
        """Relative gap at which momentum ends."""
        return ENOUGH[min(self.n_momentum, len(ENOUGH) - 1)] * self.tol

    def nears_max_iter(self, epoch: int) -> bool:
        """Return whether the sweeps that are left have to be plain."""
        return epoch >= self.max_iter - LAST_SWEEPS

    def begin_momentum(self) -> float:
        """Begin momentum; return its scale, see `Momentum`."""
        self.plain_rate = _rate(self.gaps)
        self.momentum_from = len(self.gaps)
        return SCALE if sweeps_left(self.gaps, self.tol) < FAR else SCALE_FAR

    def momentum_helps(self) -> bool:
        """Return False if a trial has just shown momentum to be slower than plain sweeps."""
        gaps = self.gaps[self.momentum_from :]
        if not gaps or len(gaps) % TRIAL:
            return True
        then, now = min(gaps[: max(len(gaps) - TRIAL, 1)]), min(gaps)
        return now == 0.0 or not np.log(then / now) <= HELPS * TRIAL * self.plain_rate

    def end_momentum(self) -> None:
        """Go back to plain sweeps."""
        if self.gaps[-1] <= self.momentum_goal:
            self.n_momentum += 1
        else:
            self.plain_sweeps *= 2
        self.gaps = []

    def forbid_newton(self) -> None:
        """Go back to sweeps for good."""
        self.newton_allowed = False
        self.n_momentum = 0
        self.gaps = []


def sweeps_left(gaps: list[float], tol: float) -> float:
    """Guess how many more sweeps prove tol, from the gaps so far."""
    now = gaps[-1]
    if not now > tol:
        return 0.0
    rate = _rate(gaps)
    return float(np.log(now / tol)) / rate if rate > 0.0 else np.inf


def _rate(gaps: list[float]) -> float:
    """Return the fall of log(gap) per sweep, over the second half of the sweeps."""
    n = len(gaps)
    then, now = gaps[n // 2 - 1], gaps[-1]
    return float(np.log(then / now)) / (n - n // 2) if then > now else 0.0

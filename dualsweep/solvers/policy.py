"""When sweeps, when momentum, when Newton steps: all that is decided on the way."""

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

# From a solution for another C, sweeps are not tried again if that took more than this part of
# those that Newton steps are thought to be worth: they become slower with C, and Newton from a seed
# needs about half its steps. mnist, one class, squared hinge: thought to be worth 103 sweeps, but
# 62 took as long as 12 steps, and seven do. Nor are they if it took Newton steps: the gap of a seed
# falls fast at first, and sweeps look better than they are. On mnist, hinge loss, C from 0.01 to
# 1000, this saves two fifths of the time to a relative gap of 1e-5.
SWEEPS_AGAIN = 0.5

# Momentum has the larger scale if more than FAR sweeps are left. It lets go when the gap of w and
# alpha is ENOUGH times tol: a few sweeps without then make it that of alpha and its weights. Where
# these are slow again, it comes back for longer, and at last no more. The LAST_SWEEPS before
# max_iter are without, too: what counts in the end are alpha and its weights.
SCALE, SCALE_FAR, FAR = 4.0, 8.0, 800.0
ENOUGH = (10.0, 3.0, 1.0, 0.3, 0.1, np.inf)
LAST_SWEEPS = 16

# Momentum is judged every TRIAL sweeps: in decades, the best gap has to have fallen by at least
# HELPS times what plain sweeps would have done at the rate of before. If not, momentum is given up,
# and comes back after twice as many plain sweeps. A shorter trial is too short for blogs (hinge,
# C = 1000): the second time, the gap stands still for 25 sweeps, and is ahead after 60.
TRIAL, HELPS = 64, 0.5


class Policy:
    """Decides what a run does next, from what is foreseen and the gaps after its sweeps.

    Parameters
    ----------
    costs : Costs
        What is foreseen for the problem.
    solver : str
        One of `SOLVERS`.
    tol : float
        Relative duality gap to prove.
    max_iter : int
        Sweeps and Newton steps to give up after.
    momentum : bool
        Whether sweeps may have momentum.
    before : Result, optional
        The solution for other costs that the run starts from.
    """

    def __init__(
        self,
        costs: Costs,
        solver: str,
        tol: float,
        max_iter: int,
        momentum: bool,
        before: Result | None = None,
    ) -> None:
        self.tol, self.max_iter, self.momentum = tol, max_iter, momentum
        self.all_gaps: list[float] = []  # after each sweep
        self.gaps: list[float] = []  # after each sweep since momentum was last let go
        self.times = 0  # that momentum was taken up
        self.plain = _tuning.FIRST_MOMENTUM  # sweeps that come before momentum
        self.rate = 0.0  # at which the logarithm of the gap fell in a sweep without it
        self.first = 0  # of `gaps` that is with it
        self.newton_allowed = solver == "newton" or (solver == "auto" and costs.newton < np.inf)
        self.sweeps_worth = costs.newton / costs.sweep  # Newton steps
        at_once = costs.at_once
        if before is not None:
            again = SWEEPS_AGAIN * self.sweeps_worth < before.n_iter
            at_once = at_once or before.n_newton > 0 or again
        self.newton_first = solver == "newton" or (self.newton_allowed and at_once)
        self.first_look = costs.first_look

    def observe(self, relative_gap: float) -> None:
        """Note the gap after a sweep."""
        self.all_gaps.append(relative_gap)
        self.gaps.append(relative_gap)

    def wants_newton(self) -> bool:
        """Tell whether Newton steps are expected to finish sooner than more sweeps would."""
        if not self.newton_allowed or len(self.all_gaps) < self.first_look:
            return False
        return sweeps_left(self.all_gaps, self.tol) > self.sweeps_worth

    def wants_momentum(self, epoch: int) -> bool:
        """Tell whether plain sweeps are so slow that momentum is expected to help."""
        return (
            self.momentum
            and len(self.gaps) >= self.plain
            and not self.nears_end(epoch)
            and self.gaps[-1] > self.enough
            and sweeps_left(self.gaps, self.tol) > _tuning.WORTH_MOMENTUM
        )

    @property
    def enough(self) -> float:
        """Relative gap at which to let go of momentum."""
        return ENOUGH[min(self.times, len(ENOUGH) - 1)] * self.tol

    def nears_end(self, epoch: int) -> bool:
        """Tell whether the sweeps that are left have to be without momentum."""
        return epoch >= self.max_iter - LAST_SWEEPS

    def take_up(self) -> float:
        """Begin with momentum; return its scale, see `dualsweep.solvers.momentum`."""
        self.rate = _rate(self.gaps)
        self.first = len(self.gaps)
        return SCALE if sweeps_left(self.gaps, self.tol) < FAR else SCALE_FAR

    def helps(self) -> bool:
        """Tell whether momentum is as good as plain sweeps, as far as that has been judged."""
        gaps = self.gaps[self.first :]
        if not gaps or len(gaps) % TRIAL:
            return True
        then, now = min(gaps[: max(len(gaps) - TRIAL, 1)]), min(gaps)
        return now == 0.0 or not np.log(then / now) <= HELPS * TRIAL * self.rate

    def let_go(self) -> None:
        """Start over with plain sweeps."""
        if self.gaps[-1] <= self.enough:
            self.times += 1
        else:
            self.plain *= 2
        self.gaps = []

    def start_over(self) -> None:
        """Start over with sweeps, without Newton steps."""
        self.newton_allowed = False
        self.times = 0
        self.gaps = []


def sweeps_left(gaps: list[float], tol: float) -> float:
    """Guess how many more sweeps prove tol, from the gaps after those that were done.

    By how fast the gap fell over the second half of them.
    """
    now = gaps[-1]
    if not now > tol:
        return 0.0
    rate = _rate(gaps)
    return float(np.log(now / tol)) / rate if rate > 0.0 else np.inf


def _rate(gaps: list[float]) -> float:
    """Return by how much the logarithm of the gap fell per sweep, over the second half of them."""
    n = len(gaps)
    then, now = gaps[n // 2 - 1], gaps[-1]
    return float(np.log(then / now)) / (n - n // 2) if then > now else 0.0

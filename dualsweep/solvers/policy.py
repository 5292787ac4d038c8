"""When sweeps, when momentum, when Newton steps: all that is decided along the way, in one place.

Costs are counted in entries of X read, never in seconds, so that runs are reproducible. An entry
read in sequence takes about a nanosecond.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..problems.binary import BinaryProblem
from ..problems.multiclass import MulticlassProblem
from ..problems.result import Result
from .iterates import DIRECT_WEIGHTS, SAMPLE, has_blocks, has_room
from .parts import PartsProblem
from .run import Problem

SOLVERS = {
    "auto": "the one after the other, where that is expected to be cheaper",
    "sweep": "coordinate descent",
    "newton": "a second-order method",
}

# Newton steps that cost less than so many entries, some milliseconds, or less than so many sweeps
# need no sweeps first; less than so many if the problem is stiff, C |x|^2 being at least STIFF on
# average, and has so many rows per weight that the steps are nothing but passes, which threads can
# share. Time of the hinge loss at tol = 1e-3 and C >= 1, without sweeps over with: covtype 0.7 to
# 0.9, ijcnn1 0.8 to 1.1 (worth 22 and 23 sweeps); at C <= 0.1 1.3 to 2.6.
AT_ONCE, AT_ONCE_SWEEPS = 5e6, 10.0
STIFF, ROWS_PER_WEIGHT, AT_ONCE_STIFF = 2.0, 1000.0, 25.0

# What a sweep costs: before it has visited a row, per row, and per block step of many classes. (Per
# entry: see `Passes`.)
SWEEP_CALL, SWEEP_ROW, SWEEP_BLOCK = 10_000.0, 100.0, 250.0

# Newton steps with blocks of classes need so many rows per weight of a class. Fewer can be
# separated at large C, where sweeps with momentum are soon done, and the steps hundreds: usps,
# Crammer-Singer, 28 rows per weight, at C = 1, 10 and 100: 2.7, 9 and over 25 s instead of 0.9, 2.5
# and 2.3.
BLOCKS_ROWS_PER_WEIGHT = 50.0

# Sweeps that have to be done to judge their rate, and as a part of what Newton is worth, unless
# they are known to be slow. (mnist dense, C = 10: 13 sweeps less of each class.) Those of many
# classes are slow sooner.
FIRST_LOOK, FIRST_PART, VERY_STIFF, VERY_STIFF_MULTICLASS = 3.0, 1 / 8, 300.0, 50.0

# From a solution for another C, sweeps are not tried again if that took more than this part of
# those that Newton steps are thought to be worth: they become slower with C, and Newton from a seed
# needs about half its steps. mnist, one class, squared hinge: thought to be worth 103 sweeps, but
# 62 took as long as 12 steps, and seven do. Nor are they if it took Newton steps: the gap of a seed
# falls fast at first, and sweeps look better than they are. On mnist, hinge loss, C from 0.01 to
# 1000, this saves two fifths of the time to a relative gap of 1e-5.
SWEEPS_AGAIN = 0.5

# Momentum is taken up after FIRST_MOMENTUM sweeps if more than WORTH_MOMENTUM are left, with the
# larger scale if there are FAR more. It lets go when the gap of w and alpha is ENOUGH times tol: a
# few sweeps without then make it that of alpha and its weights. Where these are slow again, it
# comes back for longer, and at last no more. The LAST_SWEEPS before max_iter are without, too: what
# counts in the end are alpha and its weights.
#
# Sweeps to a gap of 1e-3 on blogs: 395 become 211 at C = 100 (hinge), 208 become 118 (squared
# hinge), at C = 1000 more than 1,900 become 577. Where the guess is wrong it costs: 99 instead of
# 87 on separable rows; and with FIRST_MOMENTUM = 24, to a gap of 1e-6, 254 instead of 151.
FIRST_MOMENTUM = 32
WORTH_MOMENTUM = 40.0
SCALE, SCALE_FAR, FAR = 4.0, 8.0, 800.0
ENOUGH = (10.0, 3.0, 1.0, 0.3, 0.1, np.inf)
LAST_SWEEPS = 16

# Momentum is judged every TRIAL sweeps: in decades, the best gap has to have fallen by at least
# HELPS times what plain sweeps would have done at the rate of before. If not, momentum is given up,
# and comes back after twice as many plain sweeps. A shorter trial is too short for blogs (hinge,
# C = 1000): the second time, the gap stands still for 25 sweeps, and is ahead after 60.
TRIAL, HELPS = 64, 0.5

# Rows in parts count rounds. Direct Newton steps take one each, and a Gram matrix: below
# PARTS_AT_ONCE weights that is nothing, and no sweeps are tried before. Above, 15 to 40 steps are
# worth ROUNDS_DIRECT: those of one class of mnist took minutes at C = 0.01, where rounds of sweeps
# take seconds. Conjugate gradients take a round each: about so many, whatever the parts, where the
# loss is smooth, and where it is not. Rates are judged after PARTS_LOOK rounds.
PARTS_AT_ONCE = 200
ROUNDS_DIRECT, ROUNDS_SMOOTH, ROUNDS_KINKED = 100.0, 200.0, 800.0
PARTS_LOOK = 30.0


class Policy:
    """Decides what a run does next, from the problem and the gaps after its sweeps.

    Parameters
    ----------
    problem : BinaryProblem, MulticlassProblem, BlockProblem or PartsProblem
        The problem.
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
        problem: Problem,
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
        self.plain = FIRST_MOMENTUM  # sweeps that come before momentum
        self.rate = 0.0  # at which the logarithm of the gap fell in a sweep without it
        self.first = 0  # of `gaps` that is with it
        if isinstance(problem, PartsProblem):
            self.newton_allowed = solver != "sweep"
            n_weights = prod(problem.weights_shape)
            self.sweeps_worth = ROUNDS_SMOOTH if problem.smooth else ROUNDS_KINKED
            if n_weights <= DIRECT_WEIGHTS:
                self.sweeps_worth = ROUNDS_DIRECT
            at_once = n_weights <= PARTS_AT_ONCE
            self.newton_first = solver == "newton" or (self.newton_allowed and at_once)
            self.first_look = PARTS_LOOK
            return
        cost = newton_cost(problem)
        self.newton_allowed = solver == "newton" or (solver == "auto" and np.isfinite(cost))
        self.sweeps_worth = cost / _sweep_cost(problem)  # Newton steps
        stiffness = _stiffness(problem) if np.isfinite(cost) else 0.0  # it is about Newton steps
        many_rows = problem.n_rows >= ROWS_PER_WEIGHT * prod(problem.weights_shape)
        few = AT_ONCE_STIFF if stiffness >= STIFF and many_rows else AT_ONCE_SWEEPS
        at_once = cost <= AT_ONCE or self.sweeps_worth <= few
        if before is not None:
            again = SWEEPS_AGAIN * self.sweeps_worth < before.n_iter
            at_once = at_once or before.n_newton > 0 or again
        self.newton_first = solver == "newton" or (self.newton_allowed and at_once)
        self.first_look = FIRST_LOOK
        multiclass = isinstance(problem, MulticlassProblem)
        if stiffness < (VERY_STIFF_MULTICLASS if multiclass else VERY_STIFF):
            self.first_look = max(FIRST_LOOK, FIRST_PART * self.sweeps_worth)

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
            and sweeps_left(self.gaps, self.tol) > WORTH_MOMENTUM
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


@np.errstate(over="ignore")
def _stiffness(problem: Problem) -> float:
    """Return the mean of C |x|^2, which says how hard sweeps find it; 0 if that is not known.

    What a row can change its response by, next to a slack that is large.
    """
    if not isinstance(problem, BinaryProblem | MulticlassProblem):
        return 0.0
    mean = float(problem.cost @ problem.sqnorm) / max(int(np.count_nonzero(problem.cost)), 1)
    if isinstance(problem, BinaryProblem) and problem.loss.diag == 0.0:
        mean /= problem.scale
    return mean


def newton_cost(problem: Problem) -> float:
    """Return what a Newton solution costs, in entries of X read; inf if it cannot be foreseen.

    Steps and their costs are those of a9a, w8a, ijcnn1, covtype and mnist at C = 1 and 100, within
    a factor of two or three, and of letter.
    """
    d = prod(problem.weights_shape)
    if isinstance(problem, MulticlassProblem) and not has_room(problem):
        return np.inf
    if isinstance(problem, MulticlassProblem) and d > DIRECT_WEIGHTS and has_blocks(problem):
        many_rows = problem.n_rows >= BLOCKS_ROWS_PER_WEIGHT * problem.passes.n_weights
        return _blocks_cost(problem) if many_rows else np.inf
    if d > DIRECT_WEIGHTS or not isinstance(problem, BinaryProblem | MulticlassProblem):
        return np.inf
    stored, n = problem.passes.n_stored, problem.n_rows
    pairs = 0.5 * stored * (stored / n)
    factor = d**3 / 3 / 10  # ten multiplications of LAPACK in the time of one entry
    if isinstance(problem, BinaryProblem):
        steps, free = (10, 0.5) if problem.loss.diag > 0 else (35, 0.08)  # part of the rows in J
        pairs *= free * problem.passes.pair_time
        passes = problem.passes.newton_time * stored
        return steps * (passes + pairs + factor + 40 * n + 30_000)
    classes = problem.n_classes
    steps = 40 if problem.joint else 20
    # As many pairs of classes as there are classes, the free ones of a row being few.
    pairs *= 0.4 * classes
    return steps * (stored * classes + pairs + factor + 20 * n * classes + 30_000)


def _blocks_cost(problem: MulticlassProblem) -> float:
    """Return what Newton steps with conjugate gradients cost that blocks of classes precondition.

    Those of mnist at C = 1. They are passes and little else, so that threads can share them, which
    a sweep can not: half of them are counted.
    """
    passes, classes = problem.passes, problem.n_classes
    d = passes.n_weights
    pairs = 0.5 * SAMPLE * d * passes.per_row**2 * passes.pair_time
    blocks = classes * (pairs + d**3 / 3 / 10)
    step = 0.4 * passes.n_stored * classes + blocks / 2 + 20 * problem.n_rows * classes
    return 0.5 * 45 * step


def _sweep_cost(problem: Problem) -> float:
    if isinstance(problem, BinaryProblem):
        sweep = problem.passes.entry_time * problem.passes.n_stored + SWEEP_ROW * problem.n_rows
    elif isinstance(problem, MulticlassProblem):
        sweep = problem.passes.class_time * problem.n_classes * problem.passes.n_stored
        sweep += SWEEP_BLOCK * problem.n_rows
    else:
        sweep = 0.0  # of blocks there is nothing to compare it with
    return sweep + SWEEP_CALL

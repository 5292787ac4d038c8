"""The state of a run, whatever its method: the dual point, its certificate, when to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, dataclass, fields
from math import sqrt
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from .._clock import clock
from .._typing import Array, DualPoint, Members
from ..kernels.certificate import OF_OBJECTIVE, Certified, certified, feature_length, relative
from ..rows.functions import EPS
from .result import HISTORY_DTYPE, Known, Progress, Result

# A gap of at most this part of the primal, before allowances, is only rounding.
FLOOR = 4 * EPS

# The gap falls during a sweep, below what its visits saw. The guess is that it falls half as far as
# since the sweep before, in logarithms and within these limits. That is fair on the benchmarks'
# data, and certificates correct it.
LEAST_LEFT, MOST_LEFT = 0.2, 0.8


class Problem(Protocol):
    """What a run asks of a problem; sweepers and Newton's method ask for more."""

    in_place: ClassVar[bool] = False  # whether a new dual point overwrites the old one
    takes_momentum: ClassVar[bool] = False  # whether slow sweeps may have momentum

    @property
    def candidates(self) -> Members:
        """Numbers of the rows that are part of the problem."""

    @property
    def outdated(self) -> bool:
        """Whether rows and their dual variables were lost since weights were last summed."""
        return False

    def zero_weights(self) -> Array:
        """Return weights to start from."""

    @property
    def primal_at_zero(self) -> float:
        """Objective where all weights are 0."""

    def zero_alpha(self) -> DualPoint:
        """Return dual variables to start from."""

    def slack_at_zero(self) -> Array | None:
        """Return what a certificate of zero weights sees of each candidate; None if not kept."""

    def fill_weights(self, alpha: DualPoint, w: Array, *, compensated: bool = False) -> None:
        """Overwrite w with the weights of `alpha`, which is 0 on rows that are no candidates."""

    def size(self, w: Array) -> float:
        """Return the squared length of the weights that are penalised, or slightly more."""

    def totals(
        self, alpha: DualPoint, w: Array, length: float, slack: Array, *, compensated: bool = False
    ) -> Array:
        """Return the sums of a certificate, given the `feature_length` of w; fill in slacks."""

    def best_scale(self, alpha: DualPoint, slack: Array, w: Array) -> float:
        """Return the s in [0, 1] for which the gap of ``s * alpha`` is smallest, 1 if unknown."""
        return 1.0

    def check_rows(self) -> None:
        """Raise ValueError if rows are not finite any more."""


class Saving(NamedTuple):
    """How the state of a run is kept."""

    read: dict[str, Array] | None  # what was written, if anything was
    write: Callable[[dict[str, Array]], None]
    damaged: Callable[[object], Exception]  # the error for a state that no run can have written
    resumed: Callable[[int], None] = lambda epoch: None  # told where a run goes on


@dataclass
class Estimate:
    """What sweeps see of the gap, from one certificate to the next."""

    seen: float  # sum of the rows' shares of the gap in the latest sweep
    dual: float  # the objective, as gains add up
    gap: float = np.inf
    correction: float = 1.0  # the factor by which certificates differed so far
    visits: int = 0
    visits_at_check: int = 0
    checks: int = 0

    def observe(self, seen: float, gain: float, visits: int) -> float:
        """Take over what a sweep saw, gained and did; return the relative gap."""
        self.gap = self.correction * gap_left(seen, self.seen)
        self.seen = seen
        self.dual += gain
        self.visits += visits
        return self.relative_gap

    @property
    def relative_gap(self) -> float:
        """The gap relative to the primal."""
        return relative(self.gap, self.dual + self.gap)

    def correct(self, gap: float, dual: float, limit: float) -> None:
        """Take over a certificate; the correction stays within a factor of `limit`."""
        if 0.0 < self.gap < np.inf:
            self.correction *= gap / self.gap
            self.correction = min(max(self.correction, 1.0 / limit), limit)
        self.dual = dual
        self.checks += 1
        self.visits_at_check = self.visits


class Run:
    """How far a problem has come: its limits, its certificate and its history.

    A run proves the relative gap `tol`, or gives up after `max_iter` epochs or `max_time` seconds,
    plus the time for a last certificate. Threads poll `stop` some ten times a second; `watch` is
    called after each epoch, or after some if it is not `stepwise`, that is, if it does not look at
    the weights of each. If either returns true, the run ends with what there is.
    """

    def __init__(
        self,
        *,
        n_rows: int,
        primal_at_zero: float,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float = np.inf,
        stop: Callable[[], bool] = lambda: False,
        watch: Callable[[Progress], bool] = lambda progress: False,
        stepwise: bool = True,
    ) -> None:
        self.tol, self.max_iter = tol, max_iter
        self.started = clock()
        self.deadline = self.started + max_time
        self.stop, self.watch, self.stepwise = stop, watch, stepwise
        self.save: Callable[[], None] | None = None  # called after each whole epoch
        self.halted = False
        self.epoch = 0
        self.n_newton = 0
        self.rho = 0.0  # the penalty that Newton steps ended with
        self.active = n_rows  # rows whose dual variables are not yet proven optimal
        self.at_floor = False  # whether no smaller gap can be proven
        self.history: list[tuple[float, ...]] = []
        rounding = (n_rows + OF_OBJECTIVE) * EPS  # of losses, and their sum in any order
        self.primal = self.gap = (1.0 + rounding) * primal_at_zero
        self.dual, self.relative_gap = 0.0, relative(self.gap, self.primal)

    @property
    def converged(self) -> bool:
        """Whether the latest certificate proves `tol`."""
        return self.relative_gap <= self.tol

    @property
    def over(self) -> bool:
        """Whether the run ends: converged, stopped, out of epochs, or nothing more to prove."""
        return self.converged or self.halted or self.epoch >= self.max_iter or self.at_floor

    def note(self, found: Certified) -> None:
        """Take over a certificate."""
        self.primal, self.dual, self.gap, self.relative_gap, seen = found
        self.at_floor = seen <= FLOOR
        self.record()

    def record(self) -> None:
        """Write the certificate to the history."""
        seconds = clock() - self.started
        self.history.append((0, seconds, self.epoch, self.primal, self.dual, self.gap, self.active))

    def poll(self) -> bool:
        """Return whether to stop at once: asked to, or out of time."""
        return poll_all([self])

    def tick(self, relative_gap: float, w: Array) -> None:
        """Count an epoch, save it if it is whole, and call `watch`."""
        self.epoch += 1
        if self.save is not None and not self.halted:
            self.save()
        seconds = clock() - self.started
        if self.watch(Progress(self.epoch, relative_gap, self.active, w, seconds)):
            self.halted = True

    def result(self, **point: Any) -> Result:
        """Return the result of a point, with its certificate."""
        return Result(
            **point,
            primal=self.primal,
            dual=self.dual,
            gap=self.gap,
            relative_gap=self.relative_gap,
            converged=self.converged,
            n_iter=self.epoch,
            n_newton=self.n_newton,
            history=np.array(self.history, HISTORY_DTYPE),
        )


def poll_all(runs: Sequence[Run]) -> bool:
    """Poll each of the runs, by one clock reading; return whether all of them are to stop."""
    going = [run for run in runs if not run.halted]
    now = clock() if going else 0.0
    for run in going:
        if run.stop() or now > run.deadline:
            run.halted = True  # never set back: several threads poll
    return all(run.halted for run in runs)


class PointRun(Run):
    """A run with a dual point `alpha`, its weights `w`, and the certificate of both.

    Methods change `alpha`, then call `check`, which recomputes everything else from it.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        alpha: DualPoint = None,
        known: Known | None = None,
        **limits: Any,
    ) -> None:
        self.problem: Any = problem
        self.candidates = problem.candidates
        super().__init__(
            n_rows=len(self.candidates), primal_at_zero=problem.primal_at_zero, **limits
        )
        self.resumed = False
        self.narrow = False  # whether sweeps keep w in float32
        # A certificate fills in the slacks of a known point; None if they are not kept.
        self.slack: Any = problem.slack_at_zero() if known is None else np.empty(self.active)
        self.w = problem.zero_weights() if known is None else known.w
        self.best_alpha: DualPoint = None  # that of the smallest certified gap
        self.best_gap = np.inf
        self.certified = True
        self.alpha = problem.zero_alpha() if alpha is None else alpha
        if alpha is None:
            self.record()
        elif known is None:
            self.check()
            if not np.isfinite(self.gap):  # too large to start from
                self._start_over()
        else:
            self.primal, self.gap = known.primal, known.gap
            self.dual = known.primal - known.gap
            self.relative_gap = relative(self.gap, self.primal)
            self.certified = False
            if self.converged:  # nothing is proven by what was not computed from alpha
                self.check()
            else:
                self.record()
        self.estimate = Estimate(self.gap, self.dual)

    def check(self, *, weights_known: bool = False) -> None:
        """Recompute w from alpha, unless w is known, and then the certificate.

        Sums are compensated if plain ones are too rough to prove `tol`.
        """
        problem, alpha = self.problem, self.alpha
        if not weights_known:
            problem.fill_weights(alpha, self.w)
        found = certificate_of(problem, alpha, self.w, self.slack)
        rounded = found.seen <= max(self.tol, FLOOR) or found.relative_gap == np.inf
        if rounded and not found.relative_gap <= self.tol:
            problem.fill_weights(alpha, self.w, compensated=True)
            found = certificate_of(problem, alpha, self.w, self.slack, compensated=True)
        self.certified = True
        self.note(found)
        if self.gap < self.best_gap and not self.converged:
            self.best_gap = self.gap
            self.best_alpha = copy(self.alpha)
        if problem.outdated:  # rows were lost meanwhile
            self.check()

    def adopt(self, alpha: DualPoint, w: Array | None = None) -> None:
        """Make `alpha` the dual point if its certificate is better, or if it overwrote the old.

        `w` are its weights, if they are known.
        """
        before, gap = self.alpha, self.gap
        self.alpha = alpha
        if w is not None:
            self.w = w
        self.check(weights_known=w is not None)
        if not self.gap <= gap and not self.problem.in_place:
            self.alpha = before
            self.history.pop()
            self.check()

    def _start_over(self) -> None:
        self.alpha = self.problem.zero_alpha()
        self.check()
        if self.gap > self.primal:  # D(0) is 0, without rounding
            self.dual, self.gap, self.relative_gap = 0.0, self.primal, 1.0

    def finish(self) -> Result:
        """Return the result: if the run did not converge, its best certified point.

        That is scaled down if the gap gets smaller: early sweeps can find weights that are too long
        but otherwise right.
        """
        if not self.certified:
            self.check()
        if self.epoch > 0 and not self.converged:
            if self.best_alpha is not None and not self.gap <= self.best_gap:
                self.alpha = self.best_alpha
                self.check()
            if not self.gap <= self.problem.primal_at_zero:  # worse than no model, or overflow
                self._start_over()
            scale = self.problem.best_scale(self.alpha, self.slack, self.w)
            if scale < 1.0:
                unscaled, gap = copy(self.alpha), self.gap
                self.alpha *= scale
                self.check()
                if not self.gap <= gap:  # by rounding
                    self.alpha = unscaled
                    self.check()
        if not np.isfinite(self.gap):  # even where all weights are 0
            self.problem.check_rows()
            raise ValueError(
                "The objective, or a weight squared, is beyond float64 even where all dual "
                "variables are 0. Scale X and the targets, and use C, sample_weight and "
                "intercept_scaling nearer to 1."
            )
        return self.result(w=self.w, alpha=self.alpha, slack=self.slack)

    def snapshot(self) -> dict[str, Array]:
        """Return as arrays what the rest of a run of sweeps depends on, besides dual variables."""
        return {
            "w": self.w,
            "best_gap": np.array(self.best_gap),
            "epoch": np.array(self.epoch),
            "seconds": np.array(clock() - self.started),
            "history": np.array(self.history, HISTORY_DTYPE),
        } | {name: np.array(value) for name, value in asdict(self.estimate).items()}

    def restore(self, arrays: dict[str, Any], alpha: DualPoint, best_alpha: DualPoint) -> None:
        """Resume from a snapshot; ValueError if no run of this shape can have made it.

        Whether alpha is feasible and w its weights cannot be checked without the rows.
        """
        for name, like in self.snapshot().items():
            found = arrays.get(name)
            if found is None:
                raise ValueError(f"{name} is missing")
            shape = like.shape
            if name == "history" and found.ndim == 1 and len(found):
                shape = found.shape
            if found.dtype != like.dtype or found.shape != shape:
                raise ValueError(f"{name} is {found.dtype} {found.shape}, not {like.dtype} {shape}")
            if found.dtype == np.float64 and np.isnan(found).any():
                raise ValueError(f"{name} is not a number")
            if name == "w" and not np.isfinite(found).all():
                raise ValueError(f"{name} is not finite")
        self.alpha, self.w, self.best_alpha = alpha, arrays["w"], best_alpha
        self.best_gap = float(arrays["best_gap"])
        self.epoch = int(arrays["epoch"])
        self.started -= float(arrays["seconds"])
        self.history = arrays["history"].tolist()
        self.resumed, self.certified = True, False
        self.estimate = Estimate(*(arrays[field.name].item() for field in fields(Estimate)))
        if not 0 <= self.estimate.checks <= self.epoch:
            raise ValueError(f"there are {self.estimate.checks} checks, but {self.epoch} epochs")


def certificate_of(
    problem: Problem, alpha: DualPoint, w: Array, slack: Array, *, compensated: bool = False
) -> Certified:
    """Return what w and `alpha` prove; fill in the slacks of the candidates."""
    length = feature_length(w)
    totals = problem.totals(alpha, w, length, slack, compensated=compensated)
    return certified(problem.size(w), totals, len(problem.candidates), compensated=compensated)


def gap_left(seen: float, before: float) -> float:
    """Guess the gap after a sweep from what its visits saw, and those of the sweep before."""
    seen = max(seen, 0.0)  # shares are negative by rounding only
    left = sqrt(seen / before) if before > 0 else 1.0
    return min(max(left, LEAST_LEFT), MOST_LEFT) * seen

"""The state of a run that all methods share: the dual point, its certificate, when to stop."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from time import perf_counter
from typing import Any

import numpy as np

from .problem import HISTORY_DTYPE, AnyProblem, Known, Progress, Result

__all__ = ["Run"]

ROUNDING = float(np.finfo(np.float64).eps)


class Run:
    """A dual point `alpha` with its weights `w`, and the certificate of the two.

    Methods change `alpha`, then call `check`, which recomputes everything else from it.
    """

    def __init__(
        self,
        problem: AnyProblem,
        *,
        tol: float,
        max_iter: int,
        max_time: float,
        alpha: Any,
        stop: Callable[[], bool],
        watch: Callable[[Progress], bool],
        known: Known | None = None,
        n_threads: int = 1,
    ) -> None:
        self.problem = problem
        self.n_threads = n_threads
        self.tol = tol
        self.max_iter = max_iter
        self.started = perf_counter()
        self.deadline = self.started + max_time
        self.stop, self.watch = stop, watch
        self.halted = False
        self.epoch = 0
        self.n_newton = 0
        self.narrow = False  # whether sweeps keep w in float32
        self.history: list[Any] = []
        self.candidates = np.flatnonzero(problem.cost > 0)
        self.slack = np.ones(len(self.candidates))  # where w = 0
        self.active = len(self.candidates)
        self.w = np.zeros(problem.weights_shape)
        # The dual point of the smallest gap that a certificate found.
        self.best_alpha: Any = None
        self.best_gap = np.inf
        self.certified = True
        if alpha is None:
            self.alpha = problem.zero_alpha()
            self.primal = self.gap = problem.primal_at_zero
            self._record()
        elif known is None:
            self.alpha = alpha
            self.check()
            if not np.isfinite(self.gap):  # too large to start from
                self._start_over()
        else:
            self.alpha = alpha
            self.w, self.primal, self.gap = known
            self.certified = False
            if self.converged:  # nothing is proven by what was not computed from alpha
                self.check()
            else:
                self._record()

    @property
    def dual(self) -> float:
        """Dual objective at the latest certificate."""
        return self.primal - self.gap

    @property
    def converged(self) -> bool:
        """Whether the latest certificate proves `tol`."""
        return self.gap <= self.tol * self.primal < np.inf

    @property
    def over(self) -> bool:
        """Whether there is nothing more to do, or no more time to do it in."""
        at_floor = self.gap <= ROUNDING * self.primal  # nothing smaller can be proven
        return self.converged or self.halted or self.epoch >= self.max_iter or at_floor

    def check(self) -> None:
        """Recompute w from alpha, then the certificate."""
        self.problem.weights(self.alpha, self.w)
        self.primal, self.gap = self.problem.certify(
            self.candidates, self.alpha, self.w, self.slack
        )
        # The objectives are rounded too: no gap is proven to be smaller than that.
        self.gap = max(self.gap, ROUNDING * self.primal)
        self.certified = True
        self._record()
        if self.gap < self.best_gap and not self.converged:
            self.best_gap = self.gap
            self.best_alpha = copy(self.alpha)

    def _start_over(self) -> None:
        self.alpha = self.problem.zero_alpha()
        self.check()

    def _record(self) -> None:
        seconds = perf_counter() - self.started
        self.history.append((0, seconds, self.epoch, self.primal, self.dual, self.gap, self.active))

    def poll(self) -> bool:
        """Return whether to stop at once: asked to, or out of time."""
        if not self.halted and (self.stop() or perf_counter() > self.deadline):
            self.halted = True  # threads may ask at once: it is never taken back
        return self.halted

    def tick(self, relative_gap: float, w: Any) -> None:
        """Count an epoch and tell the watcher."""
        self.epoch += 1
        if self.watch(Progress(self.epoch, relative_gap, self.active, w)):
            self.halted = True

    def result(self) -> Result:
        """Return the best that has been reached.

        A run that did not converge returns its best certified point, scaled down where that makes
        the gap smaller: early on, sweeps can lead to weights that are right but for their length.
        """
        if not self.certified:
            self.check()
        if self.epoch > 0 and not self.converged:
            if self.best_alpha is not None and not self.gap <= self.best_gap:
                self.alpha = self.best_alpha
                self.check()
            if not np.isfinite(self.gap):  # overflow: no certificate was ever finite
                self._start_over()
            scale = self.problem.best_scale(self.candidates, self.alpha, self.slack, self.w)
            if scale < 1.0:
                self.alpha *= scale
                self.check()
        if not np.isfinite(self.gap):  # of weights that are 0
            raise ValueError(
                "X has NaN or infinity that it did not have when training began. It must not "
                "change meanwhile: train on a copy."
            )
        return Result(
            w=self.w,
            alpha=self.alpha,
            cost=self.problem.cost,
            slack=self.slack,
            primal=self.primal,
            gap=self.gap,
            converged=self.converged,
            n_iter=self.epoch,
            n_newton=self.n_newton,
            history=np.array(self.history, HISTORY_DTYPE),
        )

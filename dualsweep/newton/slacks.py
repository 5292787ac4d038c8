"""The slacks of one problem, and the dual point they imply, for weights on the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, Protocol

import numpy as np

from .._typing import Array
from ..kernels.duals import SlottedDuals
from ..problems.binary import BinaryProblem
from ..problems.multiclass import MulticlassProblem
from .backend import Hessian
from .tuning import Tuning

# A problem whose rows are in this memory.
AnyMemoryProblem = BinaryProblem | MulticlassProblem


class Slacks(Protocol):
    """The slacks of some rows, their anchor, and the dual point b that they imply.

    What methods return is summed over the rows, so that rows may be in several places.
    """

    tuning: Tuning

    def measure(self, rho: float, step: float, settled: bool) -> tuple[Array, Array]:
        """Take a step, then compute b; return its weights, the losses, and what b fails to prove.

        If the inner problem was settled, b becomes the anchor before that.
        """

    def aim(self, p: Array, rho: float, t: float) -> Array:
        """Let p be a whole step; return `slope`."""

    def slope(self, rho: float, t: float) -> Array:
        """Return ``sum_i b_i q_i`` where slacks have changed by t q, and its derivative in t."""

    def hessian(self, rho: float, exact: bool) -> tuple[Array | None, float]:
        """Return a matrix, not to be changed, and a factor: the Hessian without its ridge.

        The lower half of the matrix counts; it is None if told to stop. Rows in float32 may be
        multiplied so, unless it has to be `exact`.
        """

    def product(self, v: Array, rho: float) -> Array:
        """Return the Hessian, without its ridge, times v."""

    def preconditioned(self, rho: float) -> Hessian | None:
        """Return the Hessian with a preconditioner of its own, if there is one."""
        return None

    def ahead_gap(self, gap: float) -> float:
        """Return the gap that a dual point is expected to prove, where b has this one."""
        return gap

    def duals(self) -> Any:
        """Return b, or what proves more, as dual variables of the problem."""


class MemorySlacks(Slacks):
    """The slacks at the weights w of rows in memory, with dual variables as the first anchor."""

    def __init__(
        self,
        problem: AnyMemoryProblem,
        w: Array,
        alpha: Array | SlottedDuals,
        stop: Callable[[], bool],
    ) -> None:
        self.stop = stop
        self.attach(problem)
        self.members: Array = problem.candidates
        whole = len(self.members) == len(problem.y)  # then nothing is copied
        self.y, self.cost = (a if whole else a[self.members] for a in (problem.y, problem.cost))
        self.anchor: Array = problem.duals_of(alpha)
        self.slack = self.first_slack()
        self.along = np.zeros_like(self.slack)  # how slacks change in a whole step
        self.b = np.empty_like(self.slack)

        def start(part: slice, scores: Array, totals: Array) -> None:
            self.slack[part] += self.change(part, scores)

        self.passes.scan(self.members, w, start, 0)
        self.prepare()

    def attach(self, problem: AnyMemoryProblem) -> None:
        """Take the rows, as a problem."""
        self.problem, self.passes = problem, problem.passes

    def detach(self) -> None:
        """Drop the rows until they are needed again."""
        del self.problem, self.passes

    def first_slack(self) -> Array:
        """Return the slacks of w = 0, in an array of their own."""

    def prepare(self) -> None:
        """Make the arrays that the formulation needs besides."""

    def change(self, part: slice, scores: Array) -> Array:
        """Return how the slacks of a part change, from its responses."""

    def duals(self) -> Array | SlottedDuals:
        return self.problem.alpha_of(self.b)


@singledispatch
def slacks_of(problem: object, w: Array, alpha: Any, stop: Callable[[], bool]) -> Slacks:
    """Return the slacks of w, with dual variables as the first anchor."""
    raise TypeError(f"Newton's method has no slacks of a {type(problem).__name__}.")

"""The slacks of rows and the dual point they imply, as Newton steps see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np


class Slacks(ABC):
    """The slacks of rows, their anchor, and the dual point b that they imply.

    What depends on the formulation is in the subclasses. All they do with the rows are passes.
    Sums over the rows are what methods return, so that rows may be in several places.
    """

    rho, step = 0.0, 0.0

    def __init__(self, problem: Any, w: Any, alpha: Any, stop: Callable[[], bool]) -> None:
        self.stop = stop
        self.visit(problem)
        self.members = problem.candidates
        self.cost = part_of(problem.cost, self.members)
        self.anchor = problem.duals_of(alpha, self.members)
        self.slack = self.first_slack()
        self.along = np.zeros_like(self.slack)  # by how much slacks change in a whole step
        self.passes.scan(self.members, w, self._start, 0)
        self.u, self.b = np.empty_like(self.slack), np.empty_like(self.slack)

    def visit(self, problem: Any) -> None:
        """Take the rows, as a problem."""
        self.problem, self.passes = problem, problem.passes

    def leave(self) -> None:
        """Let go of the rows until they are needed again."""
        self.problem = self.passes = None

    @abstractmethod
    def first_slack(self) -> Any:
        """Return the slacks of w = 0, in an array of their own."""

    @abstractmethod
    def change(self, part: slice, scores: Any) -> Any:
        """Return by how much the slacks of a part change, from its responses."""

    @abstractmethod
    def measured(self, part: slice, signed: Any) -> tuple[float, float]:
        """Take the step of a part, and fill in its u and b.

        And by how much of each row the weights of b are made up. Returns the losses, and their
        excess over what b proves.
        """

    @abstractmethod
    def aimed(self, part: slice, scores: Any, t: float) -> tuple[float, float]:
        """Do what `aim` does for a part, from its responses to p."""

    @abstractmethod
    def hessian(self, exact: bool) -> tuple[Any, float]:
        """Return a matrix, not to be changed, and a factor: the Hessian without its identity.

        Of the matrix, which is None if told to stop, the lower half counts. Rows in float32 may be
        multiplied so, unless it is to be exact.
        """

    @abstractmethod
    def product(self, v: Any) -> Any:
        """Return the product of the Hessian, without its identity, with v."""

    @abstractmethod
    def measure(self, rho: float, step: float, settled: bool) -> tuple[Any, Any]:
        """Take a step, then compute b; return its weights, the losses, and what b fails to prove.

        If settled, b has become the anchor before that.
        """

    @abstractmethod
    def aim(self, p: Any, t: float) -> Any:
        """Let p be a whole step; return `slope`."""

    @abstractmethod
    def slope(self, t: float) -> Any:
        """Return ``sum_i b_i q_i`` where slacks have changed by t q, and its derivative in t."""

    def begin_measure(self, rho: float, step: float, settled: bool) -> None:
        """Begin what `measure` does."""
        if settled:  # b is filled anew
            self.anchor, self.b = self.b, self.anchor
        self.rho, self.step = rho, step

    def _start(self, part: slice, scores: Any, totals: Any) -> None:
        self.slack[part] += self.change(part, scores)

    def duals(self) -> Any:
        """Return b as dual variables of the problem."""
        return self.problem.alpha_of(self.members, self.b)


def part_of(array: Any, members: Any) -> Any:
    """Return the numbers of some rows, not to be changed: those of all are not copied."""
    return array if len(members) == len(array) else array[members]


def measure_together(slacks: list[Slacks], how: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Return what `Slacks.measure` does, of several problems in one pass.

    What a problem does for itself, a thread does for all rows at once: in parts of them, for each
    problem, most of the time would be Python's.
    """
    passes, members = slacks[0].passes, slacks[0].members
    signed = np.empty((len(members), len(slacks)), order="F")

    def measure(j: int) -> Any:
        slacks[j].begin_measure(**how[j])
        return np.array(slacks[j].measured(slice(0, len(members)), signed[:, j]))

    sums = passes.workers.map(measure, range(len(slacks)))
    weights = np.zeros((passes.n_weights, len(slacks)), order=passes.order)
    passes.add_weighted(members, signed.__getitem__, weights)
    return list(zip(weights.T, sums, strict=True))


def aim_together(slacks: list[Slacks], directions: list[Any], t: float) -> list[Any]:
    """Return what `Slacks.aim` does, of several problems in one pass."""
    passes, members = slacks[0].passes, slacks[0].members
    by_problem = np.empty((len(slacks), len(members)))

    def turn(part: slice, scores: Any, totals: Any) -> None:
        by_problem[:, part] = scores.T

    passes.scan(members, np.stack(directions, axis=1), turn, 0)

    def aim(j: int) -> Any:
        return np.array(slacks[j].aimed(slice(0, len(members)), by_problem[j], t))

    return passes.workers.map(aim, range(len(slacks)))

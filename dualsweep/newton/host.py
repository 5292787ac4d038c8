"""Problems on the host for Newton's method: one with any slacks, or several that share passes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import cast

import numpy as np

from .. import _tuning
from .._symmetric import cholesky_solve, regular_cholesky
from .._threads import Workers
from .._typing import Array
from ..problems.run import PointRun
from ..rows.passes import Passes
from . import multinomial  # noqa: F401  (registers its slacks, and those of multiclass)
from .backend import Backend, Hessian, Measured
from .binary import BinarySlacks
from .core import newton
from .slacks import Slacks, slacks_of


class HostBackend(Backend):
    """Problems whose weights are on the host, and whose rows are wherever their slacks are.

    There is one run, or there are several of binary problems that share their dense rows and costs.
    """

    runs: list[PointRun]

    def __init__(self, *runs: PointRun) -> None:
        self.runs = list(runs)
        problem = runs[0].problem
        passes: Passes | None = getattr(problem, "passes", None)
        self.workers = Workers() if passes is None else passes.workers
        self.ridge, self.shape = problem.ridge, problem.weights_shape
        self.direct_worth = 0.0 if prod(self.shape) <= _tuning.DIRECT_WEIGHTS else inf

    def begin(self) -> tuple[Array, Array]:
        def start(run: PointRun) -> tuple[Array, Slacks]:
            w = run.w.copy("K")
            if run.primal > run.problem.primal_at_zero:  # worse than no weights at all
                w[:] = 0.0
            return w, slacks_of(run.problem, w, run.alpha, run.poll)

        weights, slacks = zip(*self.workers.map(start, self.runs), strict=True)
        self.slacks = list(slacks)
        if len(self.runs) > 1:
            for each in self._together:
                each.shared = True
        self.tuning, self.exact = self.slacks[0].tuning, [False] * len(self.runs)
        rho = [
            0.0 if each.smooth else float(self.tuning.first_rho * each.scale / each.mean_cost)
            for each in (run.problem for run in self.runs)
        ]
        w = weights[0] if weights[0].ndim == 2 else np.array(weights).T
        return w, np.array(rho)

    @property
    def _together(self) -> list[BinarySlacks]:
        return cast("list[BinarySlacks]", self.slacks)

    def _own(self, A: Array, j: int) -> Array:
        """Return the columns of the j-th problem, a view."""
        return A if len(self.runs) == 1 else A[:, j]

    def _flat(self, A: Array, j: int) -> Array:
        return self._own(A, j).reshape(-1)

    def measure(self, w: Array, rho: Array, step: Array, settled: Array) -> Measured:
        how = list(zip(rho.tolist(), step.tolist(), settled.tolist(), strict=True))
        if len(self.runs) == 1:
            w_of_b, sums = self.slacks[0].measure(*how[0])
            w_of_b, sums = w_of_b.reshape(w.shape), sums[:, None]
        else:
            w_of_b, sums = measure_together(self._together, how)
        penalised = self.ridge * w
        gradient = penalised - w_of_b
        inner = [
            run.problem.gap_of_gradient(self._flat(gradient, j)) for j, run in enumerate(self.runs)
        ]
        if self.direct_worth == 0.0:  # directions are exact
            pairs = zip(self.slacks, inner, strict=True)
            inner = [slacks.ahead_gap(gap) for slacks, gap in pairs]
        return Measured(gradient, np.array(inner), self._dots(penalised, w), *sums)

    def _dots(self, A: Array, B: Array) -> Array:
        return np.array([self._flat(A, j) @ self._flat(B, j) for j in range(len(self.runs))])

    def along(self, w: Array, p: Array, gradient: Array) -> Array:
        p_penalised = self.ridge * p
        return np.array(
            [self._dots(w, p_penalised), self._dots(p, p_penalised), self._dots(gradient, p)]
        )

    def aim(self, p: Array, rho: Array) -> Array:
        if len(self.runs) > 1:
            return aim_together(self._together, p, rho)
        return self.slacks[0].aim(p.reshape(self.shape), float(rho[0]), 1.0)[:, None]

    def slope(self, t: Array, rho: Array, part: slice) -> Array:
        return self.slacks[part.start].slope(float(rho[0]), float(t[0]))[:, None]

    def search(self, line_search: Callable[[slice], Array]) -> Array:
        parts = [slice(j, j + 1) for j in range(len(self.runs))]
        return np.concatenate(self.workers.map(line_search, parts))

    def move(self, w: Array, p: Array, t: Array) -> Array:
        for j in np.flatnonzero(t).tolist():
            own = self._own(w, j)
            own += t[j] * self._own(p, j)
        return w

    def direct(self, gradient: Array, rho: Array, wanted: Array) -> Array:
        out = np.full_like(gradient, np.nan)

        def solve(j: int) -> None:
            factor = None
            while factor is None:
                matrix, scale = self.slacks[j].hessian(float(rho[j]), self.exact[j])
                if matrix is None:
                    return
                factor = regular_cholesky(matrix, np.ravel(self.ridge), scale)
                if self.exact[j]:
                    break
                self.exact[j] = factor is None  # sums in float32 are too rough for a small rho
            own, right = self._own(out, j), self._flat(gradient, j)
            solution = right if factor is None else cholesky_solve(factor, right)
            own[...] = -solution.reshape(own.shape)

        self.workers.map(solve, np.flatnonzero(wanted).tolist())
        return out

    def hessian(self, rho: Array) -> Hessian:
        [slacks], penalty = self.slacks, float(rho[0])  # several problems take direct steps
        plain = PlainHessian(slacks, self.ridge, penalty, self.shape)
        return slacks.preconditioned(penalty) or plain

    def adopt(self, w: Array, rho: Array, chosen: Array) -> None:
        self.workers.map(lambda j: self.runs[j].adopt(self.slacks[j].duals()), chosen.tolist())

    def keep(self, stay: Array) -> None:
        self.runs = [self.runs[j] for j in stay]
        self.slacks = [self.slacks[j] for j in stay]
        self.exact = [self.exact[j] for j in stay]
        for each in self._together:
            each.shared = len(stay) > 1

    def column(self, w: Array, j: int) -> Array:
        return self._own(w, j).reshape(self.shape)


class PlainHessian(Hessian):
    """The Hessian of one problem on the host, without a preconditioner."""

    def __init__(
        self, slacks: Slacks, ridge: Array | float, rho: float, shape: tuple[int, ...]
    ) -> None:
        self.slacks, self.ridge, self.rho, self.shape = slacks, ridge, rho, shape

    def product(self, p: Array) -> Array:
        product = self.slacks.product(p.reshape(self.shape), self.rho)
        return self.ridge * p + product.reshape(p.shape)

    def dots(self, A: Array, B: Array) -> Array:
        return np.array([A.ravel() @ B.ravel()])


def shares_passes(passes: Passes) -> bool:
    """Return whether Newton steps of several binary problems gain by passes over the same rows.

    Dense rows respond to the weights of ten classes in three times the time for one.
    """
    return passes.gram_by_products and passes.n_weights <= _tuning.DIRECT_WEIGHTS


def measure_together(
    slacks: list[BinarySlacks], how: list[tuple[float, float, bool]]
) -> tuple[Array, Array]:
    """Return what `BinarySlacks.measure` does, for several problems in one pass.

    One thread does a problem's own work for all rows: with parts of the rows for each problem,
    Python would take most of the time.
    """
    passes, members = slacks[0].passes, slacks[0].members
    coef = np.empty((len(members), len(slacks)), order="F")
    sums = passes.workers.map(lambda j: slacks[j].imply(*how[j], coef[:, j]), range(len(slacks)))
    weights = np.zeros((passes.n_weights, len(slacks)), order=passes.order)
    passes.add_weighted(members, coef.__getitem__, weights)
    return weights, np.array(sums).T


def aim_together(slacks: list[BinarySlacks], p: Array, rho: Array) -> Array:
    """Return what `BinarySlacks.aim` does for whole steps, for several problems in one pass."""
    passes, members = slacks[0].passes, slacks[0].members
    by_problem = np.empty((len(slacks), len(members)))

    def turn(part: slice, scores: Array, totals: Array) -> None:
        by_problem[:, part] = scores.T

    passes.scan(members, p, turn, 0)
    found = passes.workers.map(
        lambda j: slacks[j].aim_by_scores(by_problem[j], float(rho[j]), 1.0), range(len(slacks))
    )
    return np.array(found).T


def newton_on_host(*runs: PointRun) -> None:
    """Take Newton steps until each run is over or gets stuck.

    Several runs are of binary problems that share their rows and their costs; see `shares_passes`.
    """
    newton(HostBackend(*runs))

"""Problems on the host for Newton's method: one with any slacks, or several that share passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import numpy as np

from .._symmetric import cholesky_solve, regular_cholesky
from .._threads import Workers
from .._typing import Array
from ..problems.run import PointRun
from ..rows.dense import DensePasses
from ..rows.passes import Passes
from . import binary, multiclass  # noqa: F401  (they register their slacks)
from .backend import Backend, Hessian, Measured
from .core import newton
from .slacks import Slacks, slacks_of
from .tuning import DIRECT_WEIGHTS, Tuning


class HostBackend(Backend):
    """Problems whose weights are on the host, and whose rows are wherever their slacks are.

    Parameters
    ----------
    runs : sequence of PointRun
        One run, or several of binary problems that share their dense rows and their costs.
    """

    def __init__(self, runs: Sequence[PointRun]) -> None:
        self.runs = list(runs)
        problem = runs[0].problem
        passes: Passes | None = getattr(problem, "passes", None)
        self._map = Workers().map if passes is None else passes.workers.map
        self.ridge = problem.ridge
        self.n_weights = int(np.prod(problem.weights_shape))

    @property
    def direct_worth(self) -> float:
        """How many steps of conjugate gradients take as long as a direct step."""
        return 0.0 if self.n_weights <= DIRECT_WEIGHTS else inf

    @property
    def n_problems(self) -> int:
        """How many problems there are."""
        return len(self.runs)

    @property
    def tuning(self) -> Tuning:
        """The constants."""
        return self.slacks[0].tuning

    def begin(self) -> tuple[Array, Array]:
        """Return the weights and the penalties rho to start from; compute the slacks."""
        weights = [_first_weights(run) for run in self.runs]
        self.slacks: list[Any] = self._map(
            lambda j: slacks_of(
                self.runs[j].problem, weights[j], self.runs[j].alpha, self.runs[j].poll
            ),
            range(len(self.runs)),
        )
        if len(self.runs) > 1:
            for each in self.slacks:
                each.workers = Workers()  # small work within one problem stays on one thread
        self.exact = [False] * len(self.runs)
        rho = [self._first_rho(run.problem) for run in self.runs]
        w = weights[0] if weights[0].ndim == 2 else np.array(weights).T
        return w, np.array(rho)

    def _first_rho(self, problem: Any) -> float:
        if problem.smooth:
            return 0.0
        return float(self.tuning.first_rho * problem.scale / problem.mean_cost)

    def measure(self, w: Array, rho: Array, step: Array, settled: Array) -> Measured:
        """Take steps, then compute b and what it proves."""
        how = list(zip(rho.tolist(), step.tolist(), settled.tolist(), strict=True))
        if len(self.runs) == 1:
            w_of_b, sums = self.slacks[0].measure(*how[0])
            w_of_b, sums = w_of_b.reshape(w.shape), sums[:, None]
        else:
            w_of_b, sums = measure_together(self.slacks, how)
        penalised = self.ridge * w
        gradient = penalised - w_of_b
        inner = [
            run.problem.gap_of_gradient(self.of(gradient, j)) for j, run in enumerate(self.runs)
        ]
        return Measured(gradient, np.array(inner), self.dots(penalised, w), *sums)

    def of(self, A: Array, j: int) -> Array:
        """Return the numbers of the j-th problem, flat."""
        return A.ravel() if len(self.runs) == 1 else A[:, j]

    def dots(self, A: Array, B: Array) -> Array:
        """Return the dot product of each problem."""
        return np.array([self.of(A, j) @ self.of(B, j) for j in range(len(self.runs))])

    def along(self, w: Array, p: Array, gradient: Array) -> Array:
        """Return per problem the products of w, p and the gradient with p, w and p penalised."""
        penalised = self.ridge * p
        return np.array([self.dots(w, penalised), self.dots(p, penalised), self.dots(gradient, p)])

    def aim(self, p: Array, rho: Array) -> Array:
        """Let p be a whole step; return the slope at its end."""
        if len(self.runs) > 1:
            return aim_together(self.slacks, p, rho)
        shape = self.runs[0].problem.weights_shape
        return self.slacks[0].aim(p.reshape(shape), float(rho[0]), 1.0)[:, None]

    def slope(self, t: Array, rho: Array, part: slice) -> Array:
        """Return the slope of one problem."""
        slacks = self.slacks[part.start]
        alone = slacks.slope if len(self.runs) == 1 else slacks.slope_alone
        return alone(float(rho[0]), float(t[0]))[:, None]

    def move(self, w: Array, p: Array, t: Array) -> Array:
        """Return ``w + t p``."""
        for j in np.flatnonzero(t).tolist():
            if len(self.runs) == 1:
                w += t[j] * p
            else:
                w[:, j] += t[j] * p[:, j]
        return w

    def direct(self, gradient: Array, rho: Array, wanted: Array) -> Array:
        """Return ``-Hessian^-1 gradient`` by factorisation; NaN if told to stop, or not wanted."""
        out = np.full_like(gradient, np.nan)

        def solve(j: int) -> None:
            right = gradient if len(self.runs) == 1 else gradient[:, j]
            solution = self._direct_one(j, float(rho[j]), right.ravel())
            if solution is not None:
                right = out if len(self.runs) == 1 else out[:, j]
                right[...] = solution.reshape(right.shape)

        self.map(solve, np.flatnonzero(wanted).tolist())
        return out

    def _direct_one(self, j: int, rho: float, gradient: Array) -> Array | None:
        matrix, scale = self.slacks[j].hessian(rho, self.exact[j])
        if matrix is None:
            return None
        factor = regular_cholesky(matrix, np.ravel(self.ridge), scale)
        if factor is None and not self.exact[j]:  # sums in float32 are too rough for a small rho
            self.exact[j] = True
            return self._direct_one(j, rho, gradient)
        return -gradient if factor is None else -cholesky_solve(factor, gradient)

    def hessian(self, rho: Array) -> Hessian:
        """Return the Hessian for conjugate gradients, of a single problem."""
        [slacks], penalty = self.slacks, float(rho[0])
        return slacks.preconditioned(penalty) or PlainHessian(slacks, self.ridge, penalty)

    def adopt(self, w: Array, rho: Array, chosen: Array) -> None:
        """Certify the dual points of the chosen problems; their runs keep what is better."""
        self.map(lambda j: self.runs[j].adopt(self.slacks[j].duals()), chosen.tolist())

    def keep(self, stay: Array) -> None:
        """Let all problems but some go."""
        self.runs = [self.runs[j] for j in stay]
        self.slacks = [self.slacks[j] for j in stay]
        self.exact = [self.exact[j] for j in stay]

    def column(self, w: Array, j: int) -> Array:
        """Return the weights of the j-th problem, for people to look at."""
        return w.reshape(self.runs[0].problem.weights_shape) if len(self.runs) == 1 else w[:, j]

    def map(self, function: Callable[[int], Any], items: Iterable[int]) -> list[Any]:
        """Return what a function makes of each item, by the threads of the passes."""
        return self._map(function, items)


class PlainHessian(Hessian):
    """The Hessian of one problem on the host, without a preconditioner."""

    def __init__(self, slacks: Slacks, ridge: Any, rho: float) -> None:
        self.slacks, self.ridge, self.rho = slacks, ridge, rho
        self.shape = slacks.problem.weights_shape

    def product(self, p: Array) -> Array:
        """Return the Hessian, its ridge included, times p."""
        product = self.slacks.product(p.reshape(self.shape), self.rho)
        return self.ridge * p + product.reshape(p.shape)  # type: ignore[no-any-return]

    def dots(self, A: Array, B: Array) -> Array:
        """Return the dot product."""
        return np.array([A.ravel() @ B.ravel()])


def _first_weights(run: PointRun) -> Array:
    """Return the weights to start from: the run's, unless these are worse than none at all."""
    w = run.w.copy("K")
    if run.primal > run.problem.primal_at_zero:
        w[:] = 0.0
    return w


def shares_passes(passes: Passes) -> bool:
    """Return whether Newton steps of several binary problems gain by passes over the same rows.

    Dense rows respond to the weights of ten classes in three times the time for one.
    """
    return isinstance(passes, DensePasses) and passes.n_weights <= DIRECT_WEIGHTS


def measure_together(slacks: list[Any], how: list[Any]) -> tuple[Array, Array]:
    """Return what `BinarySlacks.measure` does, for several problems in one pass.

    What a problem does for itself, one thread does for all rows: in parts of the rows, for each
    problem, most of the time would be Python's.
    """
    passes, members = slacks[0].passes, slacks[0].members
    coef = np.empty((len(members), len(slacks)), order="F")
    sums = passes.workers.map(lambda j: slacks[j].imply(*how[j], coef[:, j]), range(len(slacks)))
    weights = np.zeros((passes.n_weights, len(slacks)), order=passes.order)
    passes.add_weighted(members, coef.__getitem__, weights)
    return weights, np.array(sums).T


def aim_together(slacks: list[Any], p: Array, rho: Array) -> Array:
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
    newton(HostBackend(runs), runs)

"""The slacks of a Crammer-Singer or Weston-Watkins problem: tables of rows and classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import prod

import numpy as np

from .. import _tuning
from .._symmetric import add_lower, regular_cholesky
from .._team import Team
from .._typing import Array
from ..kernels import newton_multiclass as kernel
from ..kernels.newton_multiclass import ClassSlacks, CurvedRows
from ..problems.multiclass import MulticlassProblem
from .backend import Hessian
from .slacks import MemorySlacks, slacks_of
from .tuning import BLOCKS, BLOCKS_WORTH, MULTICLASS

TABLES = 6  # of rows and classes, that Newton steps have


def has_blocks(problem: MulticlassProblem) -> bool:
    """Return whether the Hessian has blocks of single classes that are small enough to factorise.

    All factors together are to take no more memory than X does.
    """
    d = problem.passes.n_weights
    few = problem.n_classes * d**2 <= max(problem.passes.n_stored, _tuning.SMALL_TABLES)
    return d <= _tuning.DIRECT_WEIGHTS and few


def has_room(problem: MulticlassProblem) -> bool:
    """Return whether slacks and dual variables of all rows and classes take at most X's memory."""
    numbers = TABLES * problem.n_rows * problem.n_classes
    return numbers <= max(problem.passes.n_stored, _tuning.SMALL_TABLES)


class MulticlassSlacks(MemorySlacks):
    """The slacks of a problem of many classes."""

    problem: MulticlassProblem

    def prepare(self) -> None:
        self.light = max(_tuning.LIGHT_ROWS // self.n_classes, 1)
        self.u = np.empty_like(self.slack)  # what b is the projection of
        self.free = np.empty(self.slack.shape, bool)  # which dual variables move with their slacks
        self.bound = np.empty(len(self.y), bool)  # whether their sum does not
        self.curved: CurvedRows | None = None  # once it is known
        few = prod(self.problem.weights_shape) <= _tuning.DIRECT_WEIGHTS
        self.tuning = MULTICLASS if few or not has_blocks(self.problem) else BLOCKS
        self.factors: Array | None = None  # of the Hessian's blocks of single classes
        self.cg_steps = 0  # that the latest direction took with them

    def first_slack(self) -> Array:
        self.joint, self.n_classes = self.problem.joint, self.problem.n_classes
        return (np.arange(self.n_classes) != self.y[:, None]).astype(np.float64)

    def change(self, part: slice, scores: Array) -> Array:
        return scores - np.take_along_axis(scores, self.y[part, None], axis=1)

    def measure(self, rho: float, step: float, settled: bool) -> tuple[Array, Array]:
        if settled:  # b is filled anew
            self.anchor, self.b = self.b, self.anchor
        self.curved = None
        sums: dict[int, tuple[float, float]] = {}  # by first row, to be added up in order
        weights = self.problem.zero_weights()

        def coef(part: slice) -> Array:
            signed = np.empty((part.stop - part.start, self.n_classes))
            sums[part.start] = self.imply(part, rho, step, signed)
            return signed

        self.passes.add_weighted(self.members, coef, weights)
        in_order = [sums[first] for first in sorted(sums)]
        return weights, np.array(in_order).reshape(-1, 2).sum(axis=0)

    def aim(self, p: Array, rho: float, t: float) -> Array:
        def look(part: slice, scores: Array, totals: Array) -> None:
            self.along[part] = self.change(part, scores)
            totals += self.slope_of(part, rho, t)

        return self.passes.scan(self.members, p, look, 2)

    def slope(self, rho: float, t: float) -> Array:
        def add(part: slice, sums: Array) -> None:
            sums[:] = self.slope_of(part, rho, t)

        sums = np.zeros(2)
        self.passes.add_parts(add, self.passes.parts(len(self.members), self.light), sums)
        return sums

    def imply(self, part: slice, rho: float, step: float, signed: Array) -> tuple[float, float]:
        """Take a step with the slacks of a part; see `implied_dual_multiclass`."""
        rows = self._rows(part)
        return kernel.implied_dual_multiclass(rows, self.joint, rho, step, signed)

    def slope_of(self, part: slice, rho: float, t: float) -> tuple[float, float]:
        """Return `slope` of a part."""
        v = np.empty(self.n_classes)
        return kernel.slope_multiclass(self._rows(part), self.joint, rho, t, v)

    def _rows(self, part: slice) -> ClassSlacks:
        tables = self.slack, self.along, self.anchor, self.u, self.b, self.free, self.bound
        return ClassSlacks(*(a[part] for a in (self.y, self.cost, *tables)))

    def curved_rows(self) -> CurvedRows:
        """Return the rows whose dual variables move with their slacks."""

        def curved_of(part: slice) -> Array:  # a single free one does not move if the sum cannot
            numbers = np.count_nonzero(self.free[part], axis=1)
            return part.start + np.flatnonzero(numbers > self.bound[part])

        if self.curved is None:
            rows = np.concatenate(self.passes.each(curved_of, len(self.y), self.light))
            arrays = self.members, self.y, self.free, self.bound
            self.curved = CurvedRows(*(a[rows] for a in arrays))
        return self.curved

    def hessian(self, rho: float, exact: bool) -> tuple[Array | None, float]:
        k, curved = self.n_classes, self.curved_rows()

        def factors(some: slice) -> tuple[Array, Array, Array]:
            n = some.stop - some.start
            counts, classes = np.empty(n, np.int64), np.empty((n, k), np.int64)
            M = np.empty((n, k, k))
            part = CurvedRows(*(a[some] for a in curved))
            kernel.curvature_factors(part, rho, counts, classes, M)
            return counts, classes, M

        return self.passes.gram_many(curved.members, factors, k, self.stop), 1.0

    def diagonal(self, rho: float) -> Array:
        """Return how each dual variable of the curved rows moves with the score of its class."""
        return kernel.curvature_diagonal(self.curved_rows(), rho)

    def product(self, v: Array, rho: float) -> Array:
        rows, curved, k = self.passes.rows, self.curved_rows(), self.n_classes
        V = v.astype(rows.data.dtype, order=self.passes.order)  # the direction need not be exact

        def add(part: slice, W: Array) -> None:
            some = type(curved)(*(a[part] for a in curved))
            classes, scratch = np.empty(k, np.int64), np.empty((2, k))
            kernel.add_curvature(rows, some, rho, V, W, classes, scratch)

        out: Array = self.problem.zero_weights()
        parts = self.passes.parts_to_add(len(curved.members), out.size, _tuning.CURVED_ROWS)
        self.passes.add_parts(add, parts, out)
        return out

    def preconditioned(self, rho: float) -> Hessian | None:
        if self.tuning is not BLOCKS:
            return None
        if self.factors is None or self.cg_steps >= BLOCKS_WORTH:
            self._factorise(rho)
        self.cg_steps = 0
        return BlockHessian(self, rho)

    def _factorise(self, rho: float) -> None:
        """Make approximate factors of the Hessian's blocks of one class each.

        For a preconditioner, a sample of many rows and float32 are enough.
        """
        curved, d = self.curved_rows(), self.passes.n_weights
        diagonal = self.diagonal(rho)
        if self.factors is None:
            self.factors = np.empty((self.n_classes, d, d), np.float32)
        factors = self.factors

        def factorise(m: int) -> None:
            own = np.flatnonzero(diagonal[:, m])
            every = max(len(own) // (_tuning.SAMPLE * d), 1)
            own = own[::every]
            members, scale = curved.members[own], every * diagonal[own, m]
            for exact in (False, True):
                gram, factor = np.zeros((d, d)), None
                if self.passes.add_gram(members, scale, gram, self.stop, exact):
                    factor = regular_cholesky(gram)
                if factor is not None or self.stop():
                    break
            factors[m] = 0.0
            add_lower(np.eye(d) if factor is None else factor, 1.0, factors[m])

        self.passes.workers.map(factorise, range(self.n_classes))


class BlockHessian(Hessian):
    """The Hessian of many classes, preconditioned by its blocks of single classes.

    Arrays of all weights are Fortran-ordered: the weights of a class are side by side.
    """

    def __init__(self, slacks: MulticlassSlacks, rho: float) -> None:
        curved = slacks.curved_rows()
        passes, k, factors = slacks.passes, slacks.n_classes, slacks.factors
        assert factors is not None
        d = passes.n_weights
        parts = passes.parts_to_add(len(curved.members), d * k, _tuning.CURVED_ROWS)
        n, flat = len(parts), np.empty((len(parts), d * k))
        by_class = flat.reshape(n, k, d).transpose(0, 2, 1)
        direction, product, residual, solved = np.zeros((4, k, d))
        self.slacks, self.n_parts = slacks, n
        self.phases = kernel.ClassPhases(
            rows=passes.rows,
            curved=curved,
            rho=rho,
            bounds=np.array([0, *(part.stop for part in parts)]),
            factors=factors,
            direction=direction,
            product=product,
            residual=residual,
            solved=solved,
            V=np.empty((d, k), passes.rows.data.dtype, passes.order),
            sums=flat.reshape(n, d, k) if passes.order == "C" else by_class,
            flat=flat,
            classes=np.empty((n, k), np.int64),
            scratch=np.empty((n, 2, k)),
        )
        self.team = Team(passes.workers, partial(kernel.class_phases, self.phases))

    def product(self, p: Array) -> Array:
        self.slacks.cg_steps += 1
        self.phases.direction[...] = p.T
        self.phases.V[...] = p
        self.team.do(kernel.PRODUCT, self.n_parts)
        self.team.do(kernel.SUM, len(self.phases.product))
        return self.phases.product.T.copy("F")

    def precondition(self, residual: Array) -> Array:
        """Solve with the blocks.

        The weights of all classes add up to 0 in every gradient: only their differences count in
        losses. A block knows of no other class and breaks that constraint; project back.
        """
        self.phases.residual[...] = residual.T
        self.team.do(kernel.SOLVE, len(self.phases.solved))
        return (self.phases.solved - self.phases.solved.mean(axis=0)).T

    def rounded(self, gradient: Array) -> Array:
        return np.asfortranarray(gradient)

    def dots(self, A: Array, B: Array) -> Array:
        return np.array([A.ravel("F") @ B.ravel("F")])

    @contextmanager
    def in_use(self) -> Iterator[None]:
        yield  # after an error, threads leave by themselves within a millisecond
        self.team.dismiss()


slacks_of.register(MulticlassProblem, MulticlassSlacks)

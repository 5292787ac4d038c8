"""Rows on a device, and their problems, all of which are solved together by Newton steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from ..._clock import clock
from ..._threads import Workers
from ..._typing import Array, DeviceArray, Sparse
from ...problems.labels import encode_labels
from ...problems.result import Progress, Result
from ...problems.run import Run
from ...training.context import Context
from ...training.formulations import formulation_of
from ...training.problems import Problems
from ...training.settings import Settings
from ..memory import check_finite
from .arrays import Space
from .newton import DeviceSolver, best_start, bytes_per_class
from .rows import DenseDeviceRows, DeviceRows, SparseDeviceRows
from .terms import BinaryTerms, MulticlassTerms, MultinomialTerms, Terms

logger = logging.getLogger("dualsweep")

Duals: TypeAlias = Sparse | DeviceArray | None  # signed, of another model
Watch: TypeAlias = Callable[[int, Progress], bool]

# The part of a device's free memory that training takes if there is no limit.
MEMORY_PART = 0.9


class OnDevice(NamedTuple):
    """A matrix on a device, and whether labels are there as well; else they are on the host."""

    X: DeviceArray
    space: Space
    labels_there: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape  # type: ignore[no-any-return]

    def some(self, rows: Array) -> DeviceArray:
        """Return some of the rows, a copy, by their numbers on the host."""
        with self.space.current():
            places = self.space.asarray(rows)
            if hasattr(self.X, "indptr"):
                return self.X[places]
            return self.space.xp.take(self.X, places, axis=0)


class DeviceSet:
    """Rows on a device, and how much each of them counts; labels and weights are on the host."""

    def __init__(self, matrix: OnDevice, y: Array, weight: Array | None, bias: float) -> None:
        if matrix.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.space, self.labels_there = matrix.space, matrix.labels_there
        self.y, self.weight, self.bias = y, weight, bias
        self.classes, self.codes = encode_labels(y, weight)
        kind = SparseDeviceRows if hasattr(matrix.X, "indptr") else DenseDeviceRows
        with self.space.current():
            self.rows: DeviceRows = kind(self.space, matrix.X, bias)
            self.sqnorm = self.rows.sqnorms()
            if not bool(self.space.xp.all(self.space.xp.isfinite(self.sqnorm))):
                check_finite(self.space.numpy(self.sqnorm))

    def part(self, times: Array, workers: Workers) -> DeviceSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = copy(self)
        part.weight = times.astype(np.float64) if self.weight is None else times * self.weight
        part.classes, part.codes = encode_labels(part.y, part.weight)
        return part

    def column_sums(self, weight: Array) -> Iterator[Array]:
        """Yield sums over the columns; see `dualsweep.rows.passes`."""
        with self.space.current():
            given = self.space.asarray(weight, self.space.xp.float64)
            yield self.space.numpy(self.rows.columns(given))

    def problems(self, settings: Settings) -> DeviceProblems:
        """Return the problems to solve."""
        if settings.free_intercept:
            raise ValueError(
                "intercept='free' is not available on a device. LogisticRegression has it by "
                "default: pass intercept='penalized', with a large intercept_scaling to penalise "
                "it less, or move X to the host."
            )
        return DeviceProblems(self, settings)


class DeviceProblems(Problems):
    """All problems of a training, which are solved together."""

    def __init__(self, data: DeviceSet, settings: Settings) -> None:
        formulation: Any = formulation_of(settings, data.classes, settings.class_weight)
        super().__init__(formulation, len(data.codes))
        self.data, self.space = data, data.space
        cost, k = formulation.costs(data.codes, data.weight), len(data.classes)
        self.primal_at_zero = formulation.primal_at_zero(cost)
        # Two classes as one problem have a model of one row, but weights and duals of two.
        self.doubled = formulation.together and k == 2
        with self.space.current():
            codes = self.space.asarray(np.maximum(data.codes, 0), self.space.xp.int64)
            of_rows = self.space, codes, self.space.asarray(cost)
            self.terms: Terms
            if formulation.together:
                kind = MultinomialTerms if formulation.soft else MulticlassTerms
                self.terms = kind(*of_rows, k, formulation.joint)
            else:
                positives = np.array(formulation.positives)
                self.terms = BinaryTerms(*of_rows, positives, formulation.loss)
            self.shown = self.space.asarray(data.classes) if data.labels_there else data.classes

    def fits(self, duals: Any) -> bool:
        """Return whether signed dual variables are of as many rows, and finite."""
        if sp.issparse(duals):
            return super().fits(duals)
        shape, xp = (self.formulation.n_weight_rows, self.n_rows), self.space.xp
        here = type(duals) is type(self.terms.cost) and tuple(duals.shape) == shape
        return here and bool(xp.all(xp.isfinite(duals)))

    def solve_together(
        self, settings: Settings, context: Context, seconds: float, duals: Duals, watch: Watch
    ) -> list[Result]:
        """Solve all problems, from the dual variables of another model if there are any."""
        try:
            return self._solve(settings, context, clock() + seconds, duals, watch)
        except Exception as error:
            if "OutOfMemory" not in type(error).__name__:
                raise
            reason = str(error)
        # Not inside the block: there, the error keeps all arrays alive.
        self.space.release()
        raise MemoryError(
            f"The device ran out of memory while training: {reason} Set memory_limit to what may "
            "be used besides X, or train on the host, from a store or with Dask."
        )

    def _solve(
        self, settings: Settings, context: Context, deadline: float, duals: Duals, watch: Watch
    ) -> list[Result]:
        """Solve in groups of classes, if one-versus-rest has no room for all of them at once."""
        rows, groups = self._plan(settings)
        signed: list[Any] = []
        results: list[Result] = []
        for p in range(len(self.names)):
            context.watcher.start(p)
        for g, group in enumerate(groups):
            with self.space.current():
                whole, now, alpha = len(groups) == 1, clock(), None
                terms = self.terms if whole else self.terms.some(self.space.asarray(group))
                if duals is not None:
                    alpha = self._alpha(rows, terms, duals if whole else duals[group])
                    alpha = best_start(rows, terms, alpha)
                runs = [
                    Run(
                        n_rows=terms.n_used,
                        primal_at_zero=self.primal_at_zero,
                        tol=settings.tol,
                        max_iter=settings.max_iter,
                        max_time=(deadline - clock()) / (len(groups) - g),
                        stop=context.stop,
                        watch=partial(watch, len(results) + p),
                    )
                    for p in range(terms.n_problems)
                ]
                solver = DeviceSolver(rows, terms, self.data.sqnorm, runs, alpha)
                solver.solve()
                results += solver.results()
                logger.info(
                    "%d problems: relative gap %.1e after %d Newton steps and %.2f s",
                    terms.n_problems,
                    max(result.relative_gap for result in results),
                    max(result.n_iter for result in results),
                    clock() - now,
                )
                signed.append(self._signed(rows, terms, solver.alpha, keep=whole))
        self.signed = signed[0] if len(signed) == 1 else sp.vstack(signed, format="csr")
        for p, result in enumerate(results):
            context.end(p, result)
        return results

    def _plan(self, settings: Settings) -> tuple[DeviceRows, list[Any]]:
        """Return the rows, and which columns are solved at once.

        Where there is no room for a number per row and class, such numbers are kept on the host.
        """
        n, rows = self.terms.n_columns, self.data.rows
        limit = settings.memory_limit or MEMORY_PART * self.space.free_bytes()
        each = bytes_per_class(rows, self.terms, settings.tol)
        room = n if limit == np.inf else int(limit // each)
        at_once = n if self.formulation.together else min(max(room, 1), n)
        if room < at_once:
            rows = rows.within(limit, spilled=True)
        return rows, np.array_split(np.arange(n), -(-n // at_once))

    def _alpha(self, rows: DeviceRows, terms: Terms, duals: Any) -> Any:
        """Return the dual variables that signed ones of a model stand for."""
        xp, sparse = self.space.xp, sp.issparse(duals)
        out = rows.table(terms.n_columns, getattr(xp, duals.dtype.name) if sparse else duals.dtype)
        for part in rows.parts(terms.n_columns):
            some = duals[:, part]
            signed = (self.space.asarray(some.toarray()) if sparse else some).T
            if self.doubled:
                signed = 0.5 * xp.concat([-signed, signed], axis=1)
            out[part, :] = terms.unsigned(part, signed)
        return out

    def _signed(self, rows: DeviceRows, terms: Terms, alpha: Any, keep: bool) -> Any:
        """Return signed dual variables, a row per class: where they are, or else on the host."""
        for part in rows.parts(terms.n_columns):
            alpha[part, :] = terms.signed(part, alpha[part, :])
        values = alpha.values if rows.spilled else alpha
        if self.doubled:
            values = 2 * values[:, 1:]
        if keep and not rows.spilled:
            return values.T
        return sp.csr_array(self.space.numpy(values).T)

    def attributes(self, *ws: DeviceArray) -> dict[str, Any]:
        """Return classes, coefficients and intercepts for the weights of the problems."""
        xp = self.space.xp
        W = ws[0] if len(ws) == 1 else xp.concat(list(ws), axis=1)
        if self.doubled:
            W = W[:, 1:] - W[:, :1]
        coef, last = xp.asarray(W[:-1, :].T, copy=True), xp.asarray(W[-1, :], copy=True)
        return {"classes_": self.shown, "coef_": coef, "intercept_": self.data.bias * last}

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables."""
        return self.signed

    def support(self, dual_coef: Any) -> Any:
        """Return the rows with a dual variable that is not 0."""
        if sp.issparse(dual_coef):
            return super().support(dual_coef)
        xp = self.space.xp
        used = [
            xp.any(dual_coef[:, part] != 0, axis=0)
            for part in self.data.rows.parts(self.terms.n_columns)
        ]
        return xp.nonzero(xp.concat(used, axis=0))[0]

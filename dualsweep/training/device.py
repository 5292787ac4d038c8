"""Training where the rows are, on a device: all problems at once, by Newton steps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._clock import clock
from ..device.arrays import Space
from ..device.multiclass import AllAtOnce
from ..device.rows import DenseRows, Rows, SparseRows
from ..device.solve import Solution, best_start, bytes_per_class, solve
from ..device.terms import OneVersusRest, Terms
from ..problems.labels import encode_labels, row_costs
from ..problems.losses import LOSSES
from ..problems.result import Progress, Result
from .context import Context
from .data import check_finite
from .formulations import Formulation
from .settings import Settings

logger = logging.getLogger("dualsweep")

# The part of a device's free memory that training takes if there is no limit.
MEMORY_PART = 0.9


class OnDevice(NamedTuple):
    """A matrix on a device, and whether labels are there as well; else they are on the host."""

    X: Any
    space: Space
    labels_there: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape  # type: ignore[no-any-return]

    def some(self, rows: Any) -> Any:
        """Return some of the rows, a copy, by their numbers on the host."""
        with self.space.current():
            places = self.space.asarray(rows)
            if hasattr(self.X, "indptr"):
                return self.X[places]
            return self.space.xp.take(self.X, places, axis=0)


class DeviceSet:
    """Rows on a device, and how much each of them counts: as `TrainingSet`.

    Labels and weights, a number per row, are on the host.
    """

    def __init__(self, matrix: OnDevice, y: Any, weight: Any, bias: float) -> None:
        if matrix.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.space, self.labels_there = matrix.space, matrix.labels_there
        self.y, self.weight, self.bias = y, weight, bias
        self.classes, self.codes = encode_labels(y, weight)
        kind = SparseRows if hasattr(matrix.X, "indptr") else DenseRows
        with self.space.current():
            self.rows: Rows = kind(self.space, matrix.X, bias)
            self.sqnorm = self.rows.sqnorms()
            if not bool(self.space.xp.all(self.space.xp.isfinite(self.sqnorm))):
                check_finite(self.space.numpy(self.sqnorm))

    def part(self, times: Any, workers: Any) -> DeviceSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = copy(self)
        part.weight = times.astype(np.float64) if self.weight is None else times * self.weight
        part.classes, part.codes = encode_labels(part.y, part.weight)
        return part

    def formulate(self, settings: Settings) -> DeviceFormulation:
        """Return the problems to solve."""
        if settings.free_intercept:
            raise ValueError(
                "intercept='free' is not available on a device. Use intercept='penalized' with a "
                "large intercept_scaling, or train on the host."
            )
        return DeviceFormulation(self, settings)


class DeviceFormulation(Formulation):
    """All problems of a training, which are solved together."""

    def __init__(self, data: DeviceSet, settings: Settings) -> None:
        super().__init__(data.classes, len(data.codes), data.bias)
        self.data, self.space = data, data.space
        cost = row_costs(settings.C, settings.class_weight, data.classes, data.codes, data.weight)
        xp, k = self.space.xp, len(data.classes)
        self.ovr = settings.multi_class == "ovr"
        self.binary = k == 2
        with self.space.current():
            codes = self.space.asarray(np.maximum(data.codes, 0), xp.int64)
            costs = self.space.asarray(cost)
            if self.ovr:
                positives = np.array([1]) if self.binary else np.arange(k)
                self.names = [f"class {data.classes[p]}" for p in positives]
                columns, loss = self.space.asarray(positives), LOSSES[settings.loss]
                self.terms: Terms = OneVersusRest(self.space, codes, costs, columns, loss)
            else:
                joint = settings.multi_class == "crammer_singer"
                self.names = [f"{k} classes"]
                self.terms = AllAtOnce(self.space, codes, costs, k, joint)
            self.shown = self.space.asarray(data.classes) if data.labels_there else data.classes

    def fits(self, duals: Any) -> bool:
        """Tell whether signed dual variables are of as many rows, and finite."""
        shape = (self.n_weight_rows, self.n_rows)
        if tuple(duals.shape) != shape:
            return False
        if sp.issparse(duals):
            return bool(np.isfinite(duals.data).all())
        return type(duals) is type(self.terms.cost) and bool(
            self.space.xp.all(self.space.xp.isfinite(duals))
        )

    def solve(
        self,
        settings: Settings,
        context: Context,
        seconds: float,
        duals: Any,
        watch: Callable[[int, Progress], bool],
    ) -> list[Result]:
        """Solve all problems, from the dual variables of another model if there are any."""
        try:
            return self._solve(settings, context, seconds, duals, watch)
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
        self,
        settings: Settings,
        context: Context,
        seconds: float,
        duals: Any,
        watch: Callable[[int, Progress], bool],
    ) -> list[Result]:
        """Solve in groups of classes, if one-versus-rest has no room for all of them at once."""
        deadline = clock() + seconds
        rows, groups = self._plan(settings)
        signed: list[Any] = []
        results: list[Result] = []
        for p in range(len(self.names)):
            context.watcher.start(p)
        for g, group in enumerate(groups):
            first = len(results)

            def watch_group(p: int, progress: Progress, first: int = first) -> bool:
                return watch(first + p, progress)

            with self.space.current():
                terms, whole = self.terms, len(groups) == 1
                if not whole:
                    assert isinstance(terms, OneVersusRest)
                    terms = terms.some(self.space.asarray(group))
                alpha = None
                if duals is not None:
                    alpha = self._alpha(rows, terms, duals if whole else duals[group])
                    alpha = best_start(rows, terms, alpha)
                now = clock()
                solution = solve(
                    rows,
                    terms,
                    sqnorm=self.data.sqnorm,
                    tol=settings.tol,
                    max_iter=settings.max_iter,
                    max_time=(deadline - now) / (len(groups) - g),
                    alpha=alpha,
                    stop=context.stop,
                    watch=watch_group,
                )
                results += _results(solution)
                logger.info(
                    "%d problems: relative gap %.1e after %d Newton steps, %d products and %.2f s",
                    terms.n_problems,
                    max(result.relative_gap for result in results),
                    solution.n_iter.max(),
                    solution.n_products,
                    clock() - now,
                )
                signed.append(self._signed(rows, terms, solution.alpha, keep=whole))
        self.signed = signed[0] if len(signed) == 1 else sp.vstack(signed, format="csr")
        for p, result in enumerate(results):
            context.end(p, result)
        return results

    def _plan(self, settings: Settings) -> tuple[Rows, list[Any]]:
        """Return the rows, and which columns are solved at once.

        Where there is no room for a number per row and class, such numbers are kept on the host.
        """
        n, rows = self.terms.n_classes, self.data.rows
        limit = settings.memory_limit or MEMORY_PART * self.space.free_bytes()
        each = bytes_per_class(rows, self.terms, settings.tol)
        room = n if limit == np.inf else int(limit // each)
        at_once = min(max(room, 1), n) if self.ovr else n
        if room < at_once:
            rows = rows.within(limit, spilled=True)
        return rows, np.array_split(np.arange(n), -(-n // at_once))

    def _alpha(self, rows: Rows, terms: Terms, duals: Any) -> Any:
        """Return the dual variables that signed ones of a model stand for."""
        xp, sparse = self.space.xp, sp.issparse(duals)
        out = rows.table(terms.n_classes, getattr(xp, duals.dtype.name) if sparse else duals.dtype)
        for part in rows.parts(terms.n_classes):
            some = duals[:, part]
            signed = (self.space.asarray(some.toarray()) if sparse else some).T
            if not self.ovr and self.binary:
                signed = 0.5 * xp.concat([-signed, signed], axis=1)
            out[part, :] = terms.unsigned(part, signed)
        return out

    def _signed(self, rows: Rows, terms: Terms, alpha: Any, keep: bool) -> Any:
        """Return signed dual variables, a row per class: where they are, or else on the host."""
        for part in rows.parts(terms.n_classes):
            alpha[part, :] = terms.signed(part, alpha[part, :])
        values = alpha.values if rows.spilled else alpha
        if not self.ovr and self.binary:
            values = 2 * values[:, 1:]
        if keep and not rows.spilled:
            return values.T
        return sp.csr_array(self.space.numpy(values).T)

    def problem(self, p: int) -> Any:
        """Raise: problems are solved together."""
        raise NotImplementedError

    def problem_weights(self, p: int, weights: Any) -> Any:
        """Raise: problems are solved together."""
        raise NotImplementedError

    def attributes(self, *ws: Any) -> dict[str, Any]:
        """Return classes, coefficients and intercepts of the weights of the problems."""
        return {**super().attributes(*ws), "classes_": self.shown}

    def coef(self, ws: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the model's rows of coefficients, and the weights of the bias."""
        xp = self.space.xp
        W = ws[0] if len(ws) == 1 else xp.concat(list(ws), axis=1)
        if not self.ovr and self.binary:
            W = W[:, 1:] - W[:, :1]
        return xp.asarray(W[:-1, :].T, copy=True), xp.asarray(W[-1, :], copy=True)

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
            for part in self.data.rows.parts(self.terms.n_classes)
        ]
        return xp.nonzero(xp.concat(used, axis=0))[0]


def _results(solution: Solution) -> list[Result]:
    """Return what is known of each problem."""
    n = len(solution.primal)
    single = n == 1
    return [
        Result(
            w=solution.w if single else solution.w[:, p : p + 1],
            alpha=None,
            slack=None,
            primal=float(solution.primal[p]),
            dual=float(solution.dual[p]),
            gap=float(solution.gap[p]),
            relative_gap=float(solution.relative_gap[p]),
            converged=bool(solution.converged[p]),
            n_iter=int(solution.n_iter[p]),
            n_newton=int(solution.n_iter[p]),
            history=solution.history[p],
        )
        for p in range(n)
    ]

"""How many classes become problems, and their solutions a model.

A model has one row of weights per class, or a single one for two classes; so have its signed dual
variables, of which the weights are the products with X.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.binary import copy_nonzero, count_support, fill_labels, fill_support
from ..kernels.certificate import OF_OBJECTIVE
from ..kernels.loss import Loss, bounds, sum_losses
from ..problems.binary import BinaryProblem
from ..problems.free import FreeProblem
from ..problems.losses import LOSSES
from ..problems.multiclass import MulticlassProblem
from ..problems.result import Result
from ..rows.functions import EPS
from ..rows.passes import Passes
from ..solvers.iterates import shares_passes
from ..solvers.path import start_from
from ..solvers.solve import Start
from .settings import Settings

# Problems whose Newton steps are taken together, at most: more gain little.
MOST_TOGETHER = 16


class Formulation(ABC):
    """What all formulations have in common.

    Parameters
    ----------
    classes : array or None
        The classes, if there are any.
    n_rows : int
        Rows of X.
    bias : float
        Value of the constant feature.
    """

    names: list[str]  # of the problems
    side_by_side = True  # whether several problems may be solved at once
    newton_together = 1  # how many problems take Newton steps together

    def __init__(self, classes: Any, n_rows: int, bias: float) -> None:
        self.classes, self.n_rows, self.bias = classes, n_rows, bias

    @property
    def n_weight_rows(self) -> int:
        """Rows of weights that a model has."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def fits(self, duals: Any) -> bool:
        """Tell whether signed dual variables are of as many rows, and finite."""
        shape = (self.n_weight_rows, self.n_rows)
        return duals.shape == shape and bool(np.isfinite(duals.data).all())

    @abstractmethod
    def problem(self, p: int) -> Any:
        """Return the p-th problem."""

    def start(self, p: int, dual_coef: Any) -> Any:
        """Return feasible dual variables near those of another model."""
        raise NotImplementedError

    def start_from(self, p: int, problem: Any, before: Any) -> Start:
        """Return where to start the p-th problem from the model of the same data for another C."""
        return start_from(problem, before.formulation.problem(p), before.results[p])

    def saving(self, p: int) -> Any:
        """Return how the state of the p-th problem is kept: not at all."""
        return None

    def finished(self, p: int, result: Result) -> Result:
        """Return what to keep of the solution of the p-th problem."""
        return result

    def complete(self, results: list[Result]) -> None:  # noqa: B027
        """Give problems that were not begun weights of some use beside the others, in place."""

    def attributes(self, *ws: Any) -> dict[str, Any]:
        """Return classes, coefficients and intercepts of the weights of the problems."""
        coef, last = self.coef(ws)
        classes = {} if self.classes is None else {"classes_": self.classes}
        return {**classes, "coef_": coef, "intercept_": self.bias * last}

    @abstractmethod
    def coef(self, ws: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the model's rows of coefficients, and the weights of the bias."""

    @abstractmethod
    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables."""

    def support(self, dual_coef: Any) -> Any:
        """Return the rows with a nonzero dual variable."""
        if dual_coef.shape[0] == 1 and dual_coef.has_sorted_indices:
            return dual_coef.indices.astype(np.int64)
        return np.flatnonzero(np.bincount(dual_coef.indices))

    @abstractmethod
    def problem_weights(self, p: int, weights: Any) -> Any:
        """Return the weights of the p-th problem that the model's rows stand for."""


class PerClass(Formulation):
    """A binary problem per class; for two classes, only the second against the first."""

    def __init__(
        self, classes: Any, n_rows: int, bias: float, loss: str, free: bool = False
    ) -> None:
        super().__init__(classes, n_rows, bias)
        self.loss = LOSSES[loss]
        self.kind = FreeProblem if free else BinaryProblem
        self.positives = [1] if len(classes) == 2 else list(range(len(classes)))
        self.names = [f"class {classes[k]}" for k in self.positives]

    def labels(self, p: int, codes: Any) -> Any:
        """Return which rows are of the class of the p-th problem: 1 or -1, from class codes."""
        y = np.empty(len(codes))
        fill_labels(codes, self.positives[p], y)
        return y

    def coef(self, ws: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the model's rows of coefficients, and the weights of the bias.

        A single row is a view of its weights, which may be all that memory holds. Of several,
        memory for weights that are 0 is never touched: a thousand classes that were not begun have
        a lot of it.
        """
        if len(ws) == 1:
            w = ws[0].astype(np.float64, copy=False)
            return w[None, :-1], w[-1:]
        coef = np.zeros((len(ws), len(ws[0]) - 1))
        for row, w in zip(coef, ws, strict=True):
            copy_nonzero(w[:-1], row)
        return coef, np.array([w[-1] for w in ws], dtype=np.float64)

    def problem_weights(self, p: int, weights: Any) -> Any:
        """Return the weights of the p-th problem that the model's rows stand for."""
        return weights[p]

    def fill_in(self, results: list[Result], costs: Any, n_rows: int) -> None:
        """Let classes that were not begun score as often as they come up, in place.

        `costs` are those of the classes, summed over their rows, of which there are `n_rows`. A
        score s for every row, of the constant feature alone, has the least squared loss where it is
        the mean label, shrunk. (The score of no weights, 0, would be above those of nearly all
        classes that have been trained.)
        """
        for p in self.not_begun(results) if self.bias else ():
            positive = costs[self.positives[p]]
            negative = costs.sum() - positive
            score = (positive - negative) / (positive + negative + 0.5 / self.bias**2)
            w = np.zeros(len(results[p].w))
            w[-1] = score / self.bias
            slack, cost = np.array([1.0 - score, 1.0 + score]), np.array([positive, negative])
            slack, cost = slack[cost > 0], (1.0 + n_rows * EPS) * cost[cost > 0]
            self.give(results[p], w, slack, 4.0 * EPS * (1.0 + abs(score)), cost)

    def not_begun(self, results: list[Result]) -> list[int]:
        """Return which of several problems have no weights yet."""
        if len(results) == 1:
            return []
        return [p for p, r in enumerate(results) if not (r.converged or r.n_iter or r.w.any())]

    def give(self, result: Result, w: Any, slack: Any, error: Any, cost: Any) -> None:
        """Put weights into a result whose dual variables are 0, and prove nothing but P of them.

        Slacks are off by `error` at most. The loss is least where the slack is 0.
        """
        penalised = w[:-1] if self.kind is FreeProblem else w
        primal = 0.5 * float(penalised @ penalised)
        primal += sum_losses(np.maximum(slack + error, 0.0), cost, self.loss)
        primal += sum_losses(np.minimum(slack - error, 0.0), cost, self.loss)
        primal *= 1.0 + (len(slack) + len(w) + 2 * OF_OBJECTIVE) * EPS  # sums, in any order
        result.w, result.primal, result.dual, result.gap = w, primal, 0.0, primal
        result.relative_gap = 1.0
        last = result.history[-1]
        last["primal"], last["dual"], last["gap"] = primal, 0.0, primal


class OneVersusRest(PerClass):
    """A binary problem per class, of rows in memory."""

    def __init__(
        self,
        *,
        passes: Passes,
        sqnorm: Any,
        classes: Any,
        codes: Any,
        cost: Any,
        bias: float,
        loss: str,
        free: bool,
    ) -> None:
        super().__init__(classes, len(codes), bias, loss, free)
        self.passes, self.sqnorm = passes, sqnorm
        self.codes, self.cost = codes, cost
        # What the problems have in common is found out once.
        self.common = self.kind(passes, sqnorm, None, cost, self.loss)

    @property
    def newton_together(self) -> int:  # type: ignore[override]
        """How many problems take Newton steps together, in about the memory that X takes.

        Besides its Hessian, a problem has some ten numbers per row.
        """
        if self.kind is not BinaryProblem or not shares_passes(self.passes):
            return 1
        numbers = self.passes.n_weights**2 + 10 * self.n_rows
        return max(min(self.passes.rows.data.nbytes // (8 * numbers), MOST_TOGETHER), 1)

    def problem(self, p: int) -> BinaryProblem:
        """Return the p-th problem."""
        rest = self.cost, self.loss, 1.0, self.common.candidates
        return self.kind(self.passes, self.sqnorm, self.labels(p, self.codes), *rest)

    def start_from(self, p: int, problem: Any, before: Any) -> Start:
        """Return where to start the p-th problem from the model of the same data for another C."""
        return start_from(problem, before.formulation.common, before.results[p])

    def start(self, p: int, dual_coef: Any) -> Any:
        """Return feasible dual variables near those of another model."""
        return clipped(
            dual_coef[[p]].toarray()[0] * self.labels(p, self.codes), self.cost, self.loss
        )

    def complete(self, results: list[Result]) -> None:
        """Let classes that were not begun score below those that were, in place.

        Without an intercept they get the mean of the others' weights.
        """
        if not self.not_begun(results):
            return
        used = self.common.candidates
        costs = np.bincount(self.codes[used], self.cost[used], minlength=len(self.classes))
        self.fill_in(results, costs, self.n_rows)
        idle = self.not_begun(results)
        trained = [result.w for result in results if result.w.any()]
        if idle and trained:
            w = np.mean(trained, axis=0)
            scores = self.passes.responses(used, w)
            reach = np.sqrt(self.sqnorm[used]) * np.linalg.norm(w)
            error = (len(w) + 2) * EPS * (1.0 + reach)
            for p in idle:
                y = self.labels(p, self.codes[used])
                self.give(results[p], w, 1.0 - y * scores, error, self.cost[used])

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables."""
        starts = np.cumsum([0, *(count_support(result.alpha) for result in results)])
        rows, values = np.empty(starts[-1], np.int64), np.empty(starts[-1])
        for k, result, (start, stop) in zip(
            self.positives, results, pairwise(starts.tolist()), strict=True
        ):
            fill_support(result.alpha, self.codes, k, rows[start:stop], values[start:stop])
        return sp.csr_array((values, rows, starts), shape=(len(results), self.n_rows))


class Joint(Formulation):
    """One problem over all classes."""

    def __init__(self, classes: Any, n_rows: int, bias: float) -> None:
        super().__init__(classes, n_rows, bias)
        self.names = [f"{len(classes)} classes"]

    def coef(self, ws: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the model's rows of coefficients, and the weights of the bias."""
        W = ws[0].T
        if len(W) == 2:
            W = W[1:] - W[:1]
        return W[:, :-1].astype(np.float64, order="C"), W[:, -1].astype(np.float64)

    def problem_weights(self, p: int, weights: Any) -> Any:
        """Return the weights of the problem that the model's rows stand for."""
        if len(weights) == 1:  # of all with this difference, those of the smallest norm
            weights = np.concatenate([-0.5 * weights, 0.5 * weights])
        return weights.T


class AllAtOnce(Joint):
    """Crammer-Singer (`joint`) or Weston-Watkins, of rows in memory."""

    def __init__(
        self,
        *,
        joint: bool,
        passes: Passes,
        sqnorm: Any,
        classes: Any,
        codes: Any,
        cost: Any,
        bias: float,
        loss: str,
        free: bool,
    ) -> None:
        super().__init__(classes, len(codes), bias)  # `loss` and `free` are for one-versus-rest
        y = np.maximum(codes, 0).astype(np.int64)  # rows without a class have no cost either
        self.whole = MulticlassProblem(passes, sqnorm, y, cost, joint, len(classes))

    def problem(self, p: int) -> MulticlassProblem:
        """Return the problem."""
        return self.whole

    def start(self, p: int, dual_coef: Any) -> Any:
        """Return feasible dual variables near those of another model."""
        return near(self.whole, dual_coef)

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables."""
        return signed(self.whole, results[0].alpha)


def clipped(alpha: Any, cost: Any, loss: Loss) -> Any:
    """Return the feasible dual variables of a binary problem that are nearest."""
    used, feasible = np.flatnonzero(cost > 0), np.zeros(len(cost))
    lower, upper, _ = bounds(loss, cost[used])
    feasible[used] = np.clip(alpha[used], lower, upper)
    return feasible


def near(problem: MulticlassProblem, dual_coef: Any) -> Any:
    """Return feasible dual variables near signed ones."""
    y, cost = problem.y, problem.cost
    if problem.n_classes == 2:
        rows, columns = np.arange(len(y)), 1 - y
        values = 0.5 * np.abs(dual_coef.toarray()[0])
    else:
        found = dual_coef.tocoo()
        chosen = found.data < 0
        rows, columns, values = found.col[chosen], found.row[chosen], -found.data[chosen]
    values = np.minimum(values, cost[rows])
    if problem.joint:
        total = np.bincount(rows, values, minlength=len(y))
        beyond = total[rows] > cost[rows]
        values[beyond] *= cost[rows[beyond]] / total[rows[beyond]]
    values[columns == y[rows]] = 0.0
    return problem.alpha_from(rows, columns, values)


def signed(problem: MulticlassProblem, alpha: Any) -> Any:
    """Return the signed dual variables that dual variables stand for."""
    y, k = problem.y, problem.n_classes
    rows, columns, values = problem.nonzero(alpha)
    total = np.bincount(rows, values, minlength=len(y))
    if k == 2:
        return sp.csr_array((2.0 * total * np.where(y == 1, 1.0, -1.0))[None, :])
    support = np.flatnonzero(total)
    values = np.concatenate([-values, total[support]])
    places = np.concatenate([columns, y[support]]), np.concatenate([rows, support])
    return sp.csr_array((values, places), shape=(k, len(y)))


def formulation(
    settings: Settings, passes: Passes, sqnorm: Any, classes: Any, codes: Any, cost: Any
) -> Formulation:
    """Return the problems of rows in memory, by their squared norms, class codes and costs."""
    return FORMULATIONS[settings.multi_class](
        passes=passes,
        sqnorm=sqnorm,
        classes=classes,
        codes=codes,
        cost=cost,
        bias=settings.bias,
        loss=settings.loss,
        free=settings.free_intercept,
    )


FORMULATIONS: dict[str, Callable[..., Formulation]] = {
    "ovr": OneVersusRest,
    "crammer_singer": partial(AllAtOnce, joint=True),
    "weston_watkins": partial(AllAtOnce, joint=False),
}

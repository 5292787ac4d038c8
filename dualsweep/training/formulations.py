"""How many classes become problems, and their solutions a model.

A model has one row of weights per class, or a single one for two classes; so have its signed dual
variables, of which the weights are the products with X.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.newton import margins
from ..losses import LOSSES
from ..problem import MulticlassProblem, Problem, Result, sum_losses
from ..rows import Rows

__all__ = ["FORMULATIONS", "Formulation", "PerClass", "formulate"]

FORMULATIONS = ("ovr", "crammer_singer", "weston_watkins")


def formulate(
    multi_class: str, loss: str, rows: Rows, sqnorm: Any, codes: Any, cost: Any, n_classes: int
) -> Formulation:
    """Return the formulation called `multi_class`; see `LinearSVC`."""
    if multi_class == "ovr":
        return OneVersusRest(loss, rows, sqnorm, codes, cost, n_classes)
    return Direct(multi_class == "crammer_singer", rows, sqnorm, codes, cost, n_classes)


class PerClass:
    """A binary problem per class; for two classes, only the second against the first."""

    def __init__(self, loss: str, n_classes: int) -> None:
        self.loss, self.n_classes = LOSSES[loss], n_classes
        self.positives = [1] if n_classes == 2 else list(range(n_classes))

    def names(self, classes: Any) -> list[str]:
        """Return a name for each problem."""
        return [f"class {classes[k]}" for k in self.positives]

    def coef(self, ws: list[Any]) -> tuple[Any, Any]:
        """Return the model's rows of coefficients, and the weights of the bias.

        A single row is a view of its weights, which may be all that memory holds. Of several,
        memory for weights that are 0 is never touched: a thousand classes that were not begun have
        a lot of it.
        """
        if len(ws) == 1:
            return ws[0][None, :-1], ws[0][-1:]
        coef = np.zeros((len(ws), len(ws[0]) - 1))
        for row, w in zip(coef, ws, strict=True):
            if w[:-1].any():
                row[:] = w[:-1]
        return coef, np.array([w[-1] for w in ws], dtype=np.float64)

    def fill_in(self, results: list[Result], costs: Any, bias: float) -> None:
        """Let classes that were not begun score as often as they come up, in place.

        `costs` are those of the classes, summed over their rows. A score s for every row, of the
        constant feature alone, has the least squared loss where it is the mean label, shrunk. (The
        score of no weights, 0, would be above those of nearly all classes that have been trained.)
        """
        for p in self.not_begun(results) if bias else ():
            positive = costs[self.positives[p]]
            negative = costs.sum() - positive
            score = (positive - negative) / (positive + negative + 0.5 / bias**2)
            w = np.zeros(len(results[p].w))
            w[-1] = score / bias
            slack, cost = np.array([1.0 - score, 1.0 + score]), np.array([positive, negative])
            self.give(results[p], w, slack[cost > 0], cost[cost > 0])

    def not_begun(self, results: list[Result]) -> list[int]:
        """Return which of several problems have no weights yet."""
        if len(results) == 1:
            return []
        return [p for p, r in enumerate(results) if not (r.converged or r.n_iter or r.w.any())]

    def give(self, result: Result, w: Any, slack: Any, cost: Any) -> None:
        """Put weights into a result whose dual variables are 0, and prove nothing of them."""
        primal = 0.5 * float(w @ w) + sum_losses(slack, self.loss, cost)
        result.w, result.primal, result.gap = w, primal, primal
        last = result.history[-1]
        last["primal"], last["dual"], last["gap"] = primal, 0.0, primal


class OneVersusRest(PerClass):
    """A binary problem per class, of rows in memory."""

    def __init__(
        self, loss: str, rows: Rows, sqnorm: Any, codes: Any, cost: Any, n_classes: int
    ) -> None:
        super().__init__(loss, n_classes)
        self.data = rows, sqnorm
        self.codes, self.cost = codes, cost

    def problem(self, p: int) -> Problem:
        """Return the p-th problem."""
        y = np.where(self.codes == self.positives[p], 1.0, -1.0)
        return Problem(*self.data, y, self.cost, self.loss)

    def start(self, p: int, dual_coef: Any) -> Any:
        """Return feasible dual variables near those of another model."""
        problem = self.problem(p)
        used = self.cost > 0
        lower = np.where(used, self.loss.lower, 0.0)
        upper = np.where(used, self.loss.upper, 0.0)
        upper[used] *= self.cost[used]
        return np.clip(dual_coef[[p]].toarray()[0] * problem.y, lower, upper)

    def problem_weights(self, p: int, weights: Any) -> Any:
        """Return the weights of the p-th problem that the model's rows stand for."""
        return weights[p]

    def complete(self, results: list[Result]) -> None:
        """Let classes that were not begun score below those that were, in place.

        Without an intercept they get the mean of the others' weights.
        """
        rows, used = self.data[0], np.flatnonzero(self.cost > 0)
        costs = np.bincount(self.codes[used], self.cost[used], minlength=self.n_classes)
        self.fill_in(results, costs, rows.bias)
        idle = self.not_begun(results)
        if 0 < len(idle) < len(results):
            w = np.mean([result.w for result in results if result.w.any()], axis=0)
            scores = np.empty(len(used))
            margins(rows, np.ones(len(self.codes)), used, w, scores)
            for p in idle:
                y = np.where(self.codes[used] == self.positives[p], 1.0, -1.0)
                self.give(results[p], w, 1.0 - y * scores, self.cost[used])

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables."""
        support = [np.flatnonzero(result.alpha) for result in results]
        values = [
            np.where(self.codes[i] == k, result.alpha[i], -result.alpha[i])
            for k, i, result in zip(self.positives, support, results, strict=True)
        ]
        starts = np.cumsum([0, *map(len, support)])
        shape = (len(support), len(self.codes))
        return sp.csr_array((np.concatenate(values), np.concatenate(support), starts), shape=shape)


class Direct:
    """One problem over all classes: Crammer-Singer (`joint`) or Weston-Watkins."""

    def __init__(
        self, joint: bool, rows: Rows, sqnorm: Any, codes: Any, cost: Any, n_classes: int
    ) -> None:
        y = np.maximum(codes, 0).astype(np.int64)  # rows without a class have no cost either
        self.whole = MulticlassProblem(rows, sqnorm, y, cost, joint, n_classes)

    def names(self, classes: Any) -> list[str]:
        """Return a name for the problem."""
        return [f"{self.whole.n_classes} classes"]

    def problem(self, p: int) -> MulticlassProblem:
        """Return the problem."""
        return self.whole

    def start(self, p: int, dual_coef: Any) -> Any:
        """Return feasible dual variables near those of another model."""
        y, cost = self.whole.y, self.whole.cost
        if self.whole.n_classes == 2:
            rows, columns = np.arange(len(y)), 1 - y
            values = 0.5 * np.abs(dual_coef.toarray()[0])
        else:
            signed = dual_coef.tocoo()
            chosen = signed.data < 0
            rows, columns, values = signed.col[chosen], signed.row[chosen], -signed.data[chosen]
        values = np.minimum(values, cost[rows])
        if self.whole.joint:
            total = np.bincount(rows, values, minlength=len(y))
            values *= np.minimum(cost[rows] / np.maximum(total[rows], 1e-300), 1.0)
        values[columns == y[rows]] = 0.0
        return self.whole.alpha_from(rows, columns, values)

    def complete(self, results: list[Result]) -> None:
        """Do nothing: there is one problem, which has weights wherever it ends."""

    def coef(self, ws: list[Any]) -> tuple[Any, Any]:
        """Return the model's rows of coefficients, and the weights of the bias."""
        W = ws[0].T
        if len(W) == 2:
            W = W[1:] - W[:1]
        return W[:, :-1].astype(np.float64, order="C"), W[:, -1].astype(np.float64)

    def problem_weights(self, p: int, weights: Any) -> Any:
        """Return the weights of the problem that the model's rows stand for."""
        if len(weights) == 1:  # of all with this difference, those of the smallest norm
            weights = np.concatenate([-0.5 * weights, 0.5 * weights])
        return np.ascontiguousarray(weights.T)

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables."""
        y = self.whole.y
        rows, columns, values = self.whole.nonzero(results[0].alpha)
        total = np.bincount(rows, values, minlength=len(y))
        if self.whole.n_classes == 2:
            return sp.csr_array((2.0 * total * np.where(y == 1, 1.0, -1.0))[None, :])
        support = np.flatnonzero(total)
        values = np.concatenate([-values, total[support]])
        places = np.concatenate([columns, y[support]]), np.concatenate([rows, support])
        return sp.csr_array((values, places), shape=(self.whole.n_classes, len(y)))


Formulation = OneVersusRest | Direct

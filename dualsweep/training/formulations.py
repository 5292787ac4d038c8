"""How many classes become problems, and their solutions a model.

A model has one row of weights per class, or a single one for two classes; so have its signed dual
variables, of which the weights are the products with X.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..losses import LOSSES
from ..problem import MulticlassProblem, Problem, Result
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
        self.loss = LOSSES[loss]
        self.positives = [1] if n_classes == 2 else list(range(n_classes))

    def names(self, classes: Any) -> list[str]:
        """Return a name for each problem."""
        return [f"class {classes[k]}" for k in self.positives]

    def weights(self, ws: list[Any]) -> Any:
        """Return the model's rows of weights, the bias last."""
        return np.stack(ws)


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

    def weights(self, ws: list[Any]) -> Any:
        """Return the model's rows of weights, the bias last."""
        W = np.ascontiguousarray(ws[0].T)
        return W if len(W) > 2 else W[1:] - W[:1]

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

"""Training on a cluster: the problems of `dualsweep.training`, their rows in partitions."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from .._threads import Workers
from ..problems.labels import add_counts, class_costs
from ..problems.losses import LOSSES
from ..problems.result import Result
from ..rows.dense import passes_over
from ..rows.layouts import as_rows
from ..solvers.parts import PartsProblem
from ..training.data import check_room
from ..training.formulations import Formulation, PerClass, formulation
from ..training.settings import Settings
from ._cluster import Cluster, ClusterParts
from ._work import Recipe


class ClusterSet:
    """Rows in the partitions of a cluster, and how much each of them counts.

    Parameters
    ----------
    cluster : Cluster
        Where they are.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        described = [cluster.held[k] for k in cluster.used]
        if not described:
            raise ValueError("All partitions of X are empty: there is nothing to learn from.")
        widths = sorted({known.n_features for known in described})
        if len(widths) > 1:
            raise ValueError(f"Partitions of X have different numbers of features: {widths}.")
        self.n_features = widths[0]
        if self.n_features == 0:
            raise ValueError("There are no features to learn from.")
        self.classes, self.mass = add_counts([known.counts for known in described])
        check_room(self.n_features, 1 if len(self.classes) == 2 else len(self.classes))

    def formulate(self, settings: Settings) -> ClusterFormulation:
        """Return the problems to solve."""
        return ClusterFormulation(self, settings)


class ClusterFormulation(Formulation):
    """The problems of a formulation whose rows are in partitions.

    What a model is made of is up to the formulation itself, of no rows.
    """

    def __init__(self, data: ClusterSet, settings: Settings) -> None:
        cluster = data.cluster
        super().__init__(data.classes, int(cluster.n_rows.sum()), settings.bias)
        class_weight, self.costs = class_costs(
            settings.C, settings.class_weight, data.classes, data.mass
        )
        self.cluster = cluster
        loss = LOSSES[settings.loss]
        cluster.open(Recipe(cluster.token, settings, data.classes, class_weight, loss))
        no_rows = as_rows(np.empty((0, data.n_features)), settings.bias)
        none = np.empty(0)
        self.like = formulation(
            settings, passes_over(no_rows, Workers()), none, data.classes, none.astype(int), none
        )
        self.names = self.like.names

    def coef(self, ws: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the model's rows of coefficients, and the weights of the bias."""
        return self.like.coef(ws)

    def problem_weights(self, p: int, weights: Any) -> Any:
        """Return the weights of the p-th problem that the model's rows stand for."""
        return self.like.problem_weights(p, weights)

    def problem(self, p: int) -> PartsProblem:
        """Return the p-th problem."""
        like = self.like.problem(p)
        # Of one row per class: the costs of all rows, and what each of them loses where w is 0.
        whole = like.with_costs(self.costs)
        return PartsProblem(
            ClusterParts(self.cluster, p), like, primal_at_zero=whole.primal_at_zero
        )

    def complete(self, results: list[Result]) -> None:
        """Let classes that were not begun score below those that were, in place."""
        if isinstance(self.like, PerClass):
            self.like.fill_in(results, self.costs, self.n_rows)

    def finished(self, p: int, result: Result) -> Result:
        """Keep the dual variables on the workers, with signs."""
        duals = result.alpha
        born = {} if duals.problem.outdated else duals.problem.parts.born
        result.alpha = self.cluster.duals(p, duals.which, born)
        return result

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables, in the partitions of X."""
        stack = dask.delayed(sp.vstack)
        blocks = [
            da.from_delayed(
                stack([result.alpha[t] for result in results], format="csr"),
                (self.n_weight_rows, int(self.cluster.n_rows[k])),
                float,
                meta=sp.csr_array((0, 0)),
            )
            for t, k in enumerate(self.cluster.used)
        ]
        return da.concatenate(blocks, axis=1)

    def support(self, dual_coef: Any) -> Any:
        """Return the rows with a nonzero dual variable, to be computed."""
        firsts = [int(self.cluster.firsts[k]) for k in self.cluster.used]
        rows = dask.delayed(_support)
        blocks = dual_coef.to_delayed()[0]
        return da.concatenate(
            [
                da.from_delayed(rows(block, first), (np.nan,), np.int64)
                for block, first in zip(blocks, firsts, strict=True)
            ]
        )


def _support(duals: Any, first: int) -> Any:
    return first + np.unique(duals.indices)

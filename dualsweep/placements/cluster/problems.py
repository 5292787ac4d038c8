"""The problems of rows in the partitions of a cluster."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from ..._threads import Workers
from ..._typing import Array, Sparse
from ...losses import LOSSES
from ...problems.labels import add_counts, class_costs
from ...problems.result import Result
from ...rows.layouts import as_rows
from ...rows.passes import passes_over
from ...training.formulations import LabelledRows
from ...training.problems import SeparateProblems
from ...training.settings import Settings
from ..memory import check_room
from .client import Cluster, ClusterPartitions
from .partitions import PartitionedProblem
from .rounds import PartitionSweeper  # noqa: F401  (registers itself)
from .worker import Assignment


class ClusterSet:
    """Rows in the partitions of a cluster, checked."""

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
        check_room(self.n_features, len(self.classes))

    def problems(self, settings: Settings) -> ClusterProblems:
        """Return the problems to solve."""
        return ClusterProblems(self, settings)


class ClusterProblems(SeparateProblems):
    """The problems of a formulation whose rows are in partitions."""

    def __init__(self, data: ClusterSet, settings: Settings) -> None:
        self.cluster = cluster = data.cluster
        given = settings.C, settings.class_weight, data.classes
        class_weight, self.class_costs = class_costs(*given, data.mass)
        loss = LOSSES[settings.loss]
        task = Assignment(cluster.token, settings, data.classes, class_weight, loss)
        super().__init__(task.formulation(), sum(cluster.n_rows))
        cluster.open(task)
        no_rows = passes_over(as_rows(np.empty((0, data.n_features)), settings.bias), Workers())
        none = np.empty(0)
        self.no_rows = LabelledRows(no_rows, none, none.astype(int), none)

    def problem(self, p: int) -> PartitionedProblem:
        like = self.formulation.problem(p, self.no_rows)
        primal_at_zero = self.formulation.primal_at_zero(self.class_costs)
        return PartitionedProblem(ClusterPartitions(self.cluster, p), like, primal_at_zero)

    def complete(self, results: list[Result]) -> None:
        self.formulation.fill_in(results, self.class_costs, self.n_rows)

    def finished(self, p: int, result: Result) -> Result:
        """Keep the signed dual variables, on the workers."""
        duals = result.alpha
        born = {} if duals.problem.outdated else duals.problem.parts.born
        result.alpha = self.cluster.duals(p, duals.kept, born)
        return result

    def dual_coef(self, results: list[Result]) -> da.Array:
        """Return the model's signed dual variables, in the partitions of X with rows."""
        stack = dask.delayed(sp.vstack)
        height, blocks = self.formulation.n_weight_rows, []
        for k, *duals in zip(self.cluster.used, *(result.alpha for result in results), strict=True):
            shape = height, self.cluster.n_rows[k]
            block = stack(duals, format="csr")
            blocks.append(da.from_delayed(block, shape, float, meta=sp.csr_array((0, 0))))
        return da.concatenate(blocks, axis=1)

    def support(self, dual_coef: da.Array) -> da.Array:
        """Return the rows with a nonzero dual variable, to be computed."""
        rows, blocks = dask.delayed(_support), []
        for k, block in zip(self.cluster.used, dual_coef.to_delayed()[0], strict=True):
            support = rows(block, self.cluster.firsts[k])
            blocks.append(da.from_delayed(support, (np.nan,), np.int64))
        return da.concatenate(blocks)


def _support(duals: Sparse, first: int) -> Array:
    return first + np.unique(duals.indices)  # type: ignore[no-any-return]

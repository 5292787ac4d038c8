"""Data on a cluster: partitions of collections and stores, and their problems."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from ..._threads import Workers
from ..._typing import Array, Sparse
from ...io.store import Store
from ...problems.labels import add_counts, class_costs
from ...problems.result import Result
from ...rows.layouts import as_rows
from ...rows.passes import passes_over
from ...training.formulations import LabelledRows, formulation_of
from ...training.problems import SeparateProblems
from ...training.settings import Settings
from ..memory import check_room
from .client import Cluster, ClusterPartitions, Lazy
from .partitions import PartitionedProblem
from .worker import StoreBlock, as_block, as_column


def partitions(X: Any, y: Any, sample_weight: Any) -> list[Lazy]:
    """Return the partitions of X with labels and weights; ValueError if they do not fit."""
    rows, sizes, own = _rows(X)
    if not rows:
        raise ValueError("X has no partitions: there is nothing to learn from.")
    labels = own if y is None else _columns(y, "y", len(rows), sizes)
    if labels is None:
        raise ValueError("y is missing: only stores and pairs of rows and labels have their own.")
    weights: list[Any] = [None] * len(rows)
    if sample_weight is not None:
        weights = _columns(sample_weight, "sample_weight", len(rows), sizes)
    return list(zip(rows, labels, weights, strict=True))


def _rows(X: Any) -> tuple[list[Any], Any, list[Any] | None]:
    """Return delayed blocks of rows; their numbers of rows and their labels, or None."""
    block = dask.delayed(as_block)
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X must have rows and columns, but has shape {X.shape}.")
        if X.numblocks[1] != 1:
            raise ValueError(
                f"X is divided into {X.numblocks[1]} columns of blocks, but a partition must have "
                "all features of its rows. Pass X.rechunk({1: -1})."
            )
        return [block(x) for x in X.to_delayed()[:, 0]], X.chunks[0], None
    if isinstance(X, Store):
        path = str(X.path.resolve())
        blocks = [StoreBlock(path, X.fingerprint, b) for b in range(len(X))]
        labels = [dask.delayed(StoreBlock.labels)(block) for block in blocks]
        return blocks, tuple(np.diff(X.starts).tolist()), labels
    if hasattr(X, "to_delayed") and hasattr(X, "columns"):
        X = X.to_delayed()
    if isinstance(X, list | tuple) and X and all(map(dask.is_dask_collection, X)):
        return [block(x) for x in X], None, None
    if isinstance(X, list | tuple) and X and all(isinstance(x, tuple) and len(x) == 2 for x in X):
        return [block(x) for x, _ in X], None, [dask.delayed(as_column)(y) for _, y in X]
    raise ValueError(
        "X must be a Dask array, a Dask DataFrame, a list of delayed blocks of rows (or of pairs "
        f"of blocks and labels) or a store, but is {type(X).__name__}. For rows in memory there is "
        "dualsweep.LinearSVC."
    )


def _columns(y: Any, name: str, n: int, sizes: Any) -> list[Any]:
    """Return labels or weights, delayed, in the partitions of X."""
    column = dask.delayed(as_column)
    if isinstance(y, list | tuple) and y and all(map(dask.is_dask_collection, y)):
        parts = list(y)
    elif hasattr(y, "to_delayed") and not isinstance(y, da.Array):
        parts = list(y.to_delayed())
    else:
        known = sizes is not None and not any(size != size for size in sizes)
        if not isinstance(y, da.Array):
            if not known:
                raise ValueError(
                    f"{name} is in memory, but how many rows each partition of X has is not known. "
                    f"Pass {name} in the partitions of X."
                )
            y = as_column(y)
            if len(y) != sum(sizes):
                raise ValueError(f"X has {sum(sizes)} rows, but {name} has {len(y)}.")
            y = da.from_array(y, chunks=(tuple(sizes),))
        elif known and y.shape[0] == sum(sizes):
            y = y.rechunk({0: tuple(sizes)})
        parts = list(y.to_delayed().ravel())
    if len(parts) != n:
        raise ValueError(f"X has {n} partitions, but {name} has {len(parts)}.")
    return [column(part) for part in parts]


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
        if settings.free_intercept:
            raise ValueError(
                "intercept='free' is not available on a cluster, where intercepts are penalised: "
                "the larger intercept_scaling, the less."
            )
        return ClusterProblems(self, settings)


class ClusterProblems(SeparateProblems):
    """The problems of a formulation whose rows are in partitions."""

    def __init__(self, data: ClusterSet, settings: Settings) -> None:
        self.cluster = data.cluster
        given = settings.C, settings.class_weight, data.classes, data.mass
        class_weight, self.class_costs = class_costs(*given)
        formulation = formulation_of(settings, data.classes, class_weight)
        super().__init__(formulation, sum(self.cluster.n_rows))
        self.cluster.open(formulation)
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

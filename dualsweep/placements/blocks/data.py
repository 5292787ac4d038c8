"""Rows in blocks, and their problems, for training where rows do not fit into memory.

One-versus-rest reads the blocks once per class and pass, and keeps the dual variables of one class.
(All classes side by side would read them once, but keep the dual variables of all.) One problem
over all classes reads the blocks once per pass, and keeps the dual variables of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..._threads import Workers
from ..._typing import Array, Given, JsonObject, Matrix, Sparse
from ...io.checkpoint import Checkpoint
from ...kernels.certificate import sum_losses
from ...kernels.scaling import best_multiple
from ...losses import REGRESSION_LOSSES
from ...problems.labels import add_counts, class_codes, class_costs, count_classes
from ...problems.result import Result
from ...problems.run import Saving
from ...rows.blocks import Blocks
from ...rows.layouts import as_rows
from ...rows.passes import Passes, column_sums
from ...solvers.solve import Start
from ...training.context import Context
from ...training.formulations import LabelledRows, Problem, check_scale, formulation_of
from ...training.problems import SeparateProblems
from ...training.settings import Settings
from ..memory import check_finite, check_room
from .sweeps import BlockProblem


class BlockSet:
    """Rows in blocks, with labels and weights; the labels are those of the blocks if y is None."""

    def __init__(
        self,
        blocks: Blocks,
        y: Array | None,
        weight: Array | None,
        checkpoint: str | Path | None,
        context: Context,
    ) -> None:
        if blocks.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.blocks, self.weight = blocks, weight
        self.y: Given = y
        self.times: Array | None = None  # how often each row occurs, if not once
        self.checkpoint, self.workers = checkpoint, context.workers
        self.n_blocks = len(blocks.block_bytes)

    def part(self, times: Array, workers: Workers) -> BlockSet:
        """Return the set in which row i occurs ``times[i]`` times."""
        part = copy(self)
        part.__dict__.pop("counts", None)
        part.times = times.astype(np.min_scalar_type(int(times.max(initial=0))))
        part.workers = workers
        return part

    def rows(self, b: int) -> slice:
        """Return the rows of block b."""
        return slice(*self.blocks.starts[b : b + 2].tolist())

    def labels_of(self, b: int) -> Array:
        """Return the labels of block b."""
        return self.blocks.read_labels(b) if self.y is None else self.y[self.rows(b)]

    def weight_of(self, b: int) -> Array | None:
        """Return the weights of the rows of block b, or None."""
        rows = self.rows(b)
        if self.times is None:
            return None if self.weight is None else self.weight[rows]
        times = self.times[rows].astype(np.float64)
        return times if self.weight is None else times * self.weight[rows]

    @cached_property
    def counts(self) -> tuple[Array, Array]:
        """The classes that have weight, and how much each has."""
        numbers = range(self.n_blocks)
        return add_counts([count_classes(self.labels_of(b), self.weight_of(b)) for b in numbers])

    @property
    def classes(self) -> Array:
        """The classes that have weight."""
        return self.counts[0]

    def column_sums(self, weight: Array) -> Iterator[Array]:
        """Yield sums over the columns; see `dualsweep.rows.passes`."""
        for b in range(self.n_blocks):
            yield from column_sums(as_rows(self.blocks.read(b)[0], 0.0), weight[self.rows(b)])

    def problems(self, settings: Settings) -> BlockProblems:
        """Return the problems to solve."""
        check_room(self.blocks.shape[1])
        more = f"or raise memory_limit ({settings.memory_limit:,} bytes) until the store fits"
        if settings.free_intercept:
            raise ValueError(
                "intercept='free' is not available block by block. LogisticRegression has it by "
                f"default: pass intercept='penalized', {more}."
            )
        if settings.solver == "newton":
            raise ValueError(
                f"solver='newton' is not available block by block. Use another, {more}."
            )
        return BlockProblems(self, settings)


class BlockProblems(SeparateProblems):
    """The problems of rows in blocks, solved one after the other."""

    side_by_side = False

    def __init__(self, data: BlockSet, settings: Settings) -> None:
        self.data, self.settings = data, settings
        n_rows, self._labels_seen = data.blocks.shape[0], sha256()
        if settings.loss in REGRESSION_LOSSES:
            super().__init__(formulation_of(settings), n_rows)
            self.primal_at_zero = self._read_targets()
        else:
            classes, mass = data.counts
            given = settings.C, settings.class_weight, classes, mass
            class_weight, self.class_costs = class_costs(*given)
            super().__init__(formulation_of(settings, classes, class_weight), n_rows)
            self.primal_at_zero = self.formulation.primal_at_zero(self.class_costs)
        self.checkpoint: Checkpoint | None = None
        if data.checkpoint is not None:
            absent = Settings().identity()
            self.checkpoint = Checkpoint(data.checkpoint, self._facts(), absent)

    def _read_targets(self) -> float:
        """Check all targets; return the objective of w = 0."""
        primal, positive, loss = 0.0, False, self.formulation.loss
        for b in range(self.data.n_blocks):
            rows = self.labelled(b)
            used = rows.cost > 0
            primal += sum_losses(rows.labels[used], rows.cost[used], loss)
            positive = positive or bool(used.any())
            self._labels_seen.update(rows.labels.tobytes())
        check_scale(primal)
        if not positive:
            raise ValueError("Training needs rows of positive weight, but all weights are 0.")
        return primal

    def _facts(self) -> JsonObject:
        """Return what identifies a checkpoint."""
        data, classes = self.data, self.formulation.classes
        if classes is not None and data.y is not None:
            for b in range(data.n_blocks):
                self._labels_seen.update(class_codes(data.labels_of(b), classes).tobytes())
        if data.weight is not None:
            self._labels_seen.update(data.weight.tobytes())
        return self.settings.identity() | {
            "data": data.blocks.fingerprint,
            "y and sample_weight": self._labels_seen.hexdigest(),
            "classes": None if classes is None else classes.tolist(),
        }

    def labelled(self, b: int) -> LabelledRows:
        """Return the labels and costs of block b, without its rows."""
        labels = self.formulation.encode(self.data.labels_of(b))
        cost = self.formulation.costs(labels, self.data.weight_of(b), all_rows=False)
        return LabelledRows(None, None, labels, cost)

    def read(self, p: int, b: int) -> Problem:
        """Return block b of the p-th problem."""
        X, _ = self.data.blocks.read(b)
        passes = Passes(as_rows(X, self.settings.bias), self.data.workers)
        sqnorm = passes.sqnorms()
        check_finite(sqnorm, self.data.rows(b).start)
        rows = replace(self.labelled(b), passes=passes, sqnorm=sqnorm)
        return self.formulation.problem(p, rows)

    def problem(self, p: int) -> BlockProblem:
        blocks, settings, together = self.data.blocks, self.settings, self.formulation.together
        assert settings.memory_limit is not None
        columns = (len(self.formulation.classes),) if together else ()
        return BlockProblem(
            partial(self.read, p),
            blocks.starts,
            blocks.block_bytes,
            weights_shape=(blocks.shape[1] + 1, *columns),
            slotted=together and settings.multi_class == "crammer_singer",
            primal_at_zero=self.primal_at_zero,
            memory=settings.memory_limit,
        )

    def saving(self, p: int) -> Saving | None:
        kept = self.checkpoint
        if kept is None:
            return None
        return Saving(kept.read(p), partial(kept.write, p), partial(kept.damaged, p))

    def start(self, p: int, duals: Sparse) -> Start:
        alpha = self.problem(p).zero_alpha()
        for b, piece in enumerate(_column_blocks(duals, self.data.blocks.starts)):
            alpha[self.data.rows(b)] = self.formulation.near(p, self.labelled(b), piece)
        return Start(alpha)

    def start_from(self, p: int, problem: Any, before: Any) -> Start:
        """Return a start near the best multiple of the model for another C.

        As in `start_from`, but without reading a row. At the solution before, with
        ``q = sum_i D_i alpha_i^2`` (0 for losses without D), a gap of 0 implies
        ``sum alpha = D + (|w|^2 + q) / 2`` and ``q = 2 P - |w|^2``. With these numbers, the
        parabola has the value and the slope of the logistic loss's dual, too.
        """
        result, ratio = before.results[p], self.settings.C / before.problems.settings.C
        bounded = self.formulation.loss.bounded
        size = float(np.vdot(result.w, result.w))
        q = max(2.0 * result.primal - size, 0.0) if self.formulation.loss.smooth else 0.0
        total, curvature = result.dual + 0.5 * (size + q), size + q / ratio
        scale = best_multiple(total, curvature, ratio if bounded else np.inf)
        return self.start(p, scale * before.dual_coef)

    def finished(self, p: int, result: Result) -> Result:
        """Keep the signed dual variables that are not 0."""
        signed, rows = self.formulation.signed, self.data.rows
        numbers = range(self.data.n_blocks)
        parts = [signed(self.labelled(b), [result.alpha[rows(b)]], p) for b in numbers]
        result.alpha = parts[0] if len(parts) == 1 else sp.hstack(parts, format="csr")
        return result

    def complete(self, results: list[Result]) -> None:
        if self.formulation.classes is not None:
            self.formulation.fill_in(results, self.class_costs, self.n_rows)

    def dual_coef(self, results: list[Result]) -> Sparse:
        """Return the model's signed dual variables, which results give up: they may be large."""
        alphas = [result.alpha for result in results]
        for result in results:
            result.alpha = None
        return alphas[0] if len(alphas) == 1 else sp.vstack(alphas, format="csr")


def _column_blocks(matrix: Sparse, starts: Array) -> Iterator[Sparse]:
    """Yield the columns of a CSR matrix from each start to the next, without a copy of all."""
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    ends = list(pairwise(matrix.indptr.tolist()))
    cuts = [a + np.searchsorted(matrix.indices[a:b], starts) for a, b in ends]
    for c, (first, last) in enumerate(pairwise(starts.tolist())):
        chosen = [slice(cut[c], cut[c + 1]) for cut in cuts]
        data = np.concatenate([matrix.data[part] for part in chosen])
        indices = np.concatenate([matrix.indices[part] for part in chosen]) - first
        indptr = np.cumsum([0, *(part.stop - part.start for part in chosen)])
        yield sp.csr_array((data, indices, indptr), shape=(len(ends), last - first))


class PartOfBlocks:
    """Some of the rows in blocks, by a mask or by increasing numbers, as blocks."""

    def __init__(self, blocks: Blocks, chosen: Array) -> None:
        self.blocks, self.chosen = blocks, np.zeros(blocks.shape[0], bool)
        self.chosen[chosen] = True
        counts = [np.count_nonzero(self._chosen(b)) for b in range(len(blocks.block_bytes))]
        self.starts = np.cumsum([0, *counts])
        self.shape = (int(self.starts[-1]), blocks.shape[1])
        self.block_bytes, self.fingerprint = blocks.block_bytes, blocks.fingerprint

    def _chosen(self, b: int) -> Array:
        return self.chosen[slice(*self.blocks.starts[b : b + 2].tolist())]

    def read(self, b: int) -> tuple[Sparse, Array]:
        """Return the chosen rows and labels of block b."""
        X, y = self.blocks.read(b)
        return X[self._chosen(b)], y[self._chosen(b)]

    def read_labels(self, b: int) -> Array:
        """Return the chosen labels of block b."""
        return self.blocks.read_labels(b)[self._chosen(b)]  # type: ignore[no-any-return]

    def load(self) -> tuple[Matrix, Array]:
        """Return all chosen rows and labels."""
        X, y = self.blocks.load()
        return X[self.chosen], y[self.chosen]

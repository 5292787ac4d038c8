"""The problems of rows in blocks.

A problem per class takes the memory of one of them, and reads the blocks once per class and pass.
(All classes side by side would read them once for all, but keep the dual variables of all.) One
problem over all classes reads them once per pass, and keeps the dual variables of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..._typing import Array, JsonObject, Sparse
from ...io.checkpoint import Checkpoint
from ...kernels.certificate import sum_losses
from ...kernels.scaling import best_multiple
from ...problems.labels import class_codes, class_costs
from ...problems.result import Result
from ...problems.run import Saving
from ...rows.layouts import as_rows
from ...rows.passes import Passes
from ...solvers.solve import Start
from ...training.formulations import LabelledRows, Problem, check_scale, formulation_of
from ...training.problems import SeparateProblems
from ...training.settings import Settings
from ..memory import check_finite
from .sweeps import BlockProblem

if TYPE_CHECKING:
    from .data import BlockSet


class BlockProblems(SeparateProblems):
    """The problems of rows in blocks, solved one after the other.

    Parameters
    ----------
    data : BlockSet
        The rows.
    settings : Settings
        What to train.
    classes : array or None
        The classes; None for regression.
    """

    side_by_side = False

    def __init__(self, data: BlockSet, settings: Settings, classes: Array | None) -> None:
        self.data, self.settings = data, settings
        class_weight, self.class_costs = None, np.zeros(0)
        if classes is not None:
            given = settings.C, settings.class_weight, classes
            class_weight, self.class_costs = class_costs(*given, data.mass)
        super().__init__(formulation_of(settings, classes, class_weight), data.blocks.shape[0])
        self._labels_seen = sha256()
        if classes is None:
            self.primal_at_zero = self._read_targets()
        else:
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
        """Return what a checkpoint is worthless without."""
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

    def labelled(
        self, b: int, passes: Passes | None = None, sqnorm: Array | None = None
    ) -> LabelledRows:
        """Return the labels and costs of block b, with its rows if they are given."""
        labels = self.formulation.encode(self.data.labels_of(b))
        cost = self.formulation.costs(labels, self.data.weight_of(b), all_rows=False)
        return LabelledRows(passes, sqnorm, labels, cost)

    def read(self, p: int, b: int) -> Problem:
        """Return block b of the p-th problem."""
        X, _ = self.data.blocks.read(b)
        passes = Passes(as_rows(X, self.settings.bias), self.data.workers)
        sqnorm = passes.sqnorms()
        check_finite(sqnorm, self.data.rows(b).start)
        return self.formulation.problem(p, self.labelled(b, passes, sqnorm))

    def problem(self, p: int) -> BlockProblem:
        """Return the p-th problem."""
        blocks, settings = self.data.blocks, self.settings
        assert settings.memory_limit is not None
        columns = (len(self.formulation.classes),) if self.formulation.together else ()
        return BlockProblem(
            partial(self.read, p),
            blocks.starts,
            blocks.block_bytes,
            weights_shape=(blocks.shape[1] + 1, *columns),
            slotted=self.formulation.together and settings.multi_class == "crammer_singer",
            primal_at_zero=self.primal_at_zero,
            memory=settings.memory_limit,
        )

    def saving(self, p: int) -> Saving | None:
        """Return how the state of the p-th problem is kept, if it is."""
        checkpoint = self.checkpoint
        if checkpoint is None:
            return None
        return Saving(
            checkpoint.read(p),
            write=partial(checkpoint.write, p),
            damaged=partial(checkpoint.damaged, p),
        )

    def start(self, p: int, duals: Sparse) -> Start:
        """Return where to start near signed dual variables of some model."""
        alpha = self.problem(p).zero_alpha()
        for b, piece in enumerate(_column_blocks(duals, self.data.blocks.starts)):
            alpha[self.data.rows(b)] = self.formulation.near(p, self.labelled(b), piece)
        return Start(alpha)

    def start_from(self, p: int, problem: Any, before: Any) -> Start:
        """Return where to start from the model for another C: near the best multiple of it.

        As in `dualsweep.solvers.path`, going by what is known without reading a row. At the
        solution before, with ``q = sum_i D_i alpha_i^2`` (0 for losses without D), a gap of 0 says
        ``sum alpha = D + (|w|^2 + q) / 2`` and ``q = 2 P - |w|^2``.
        """
        result, ratio = before.results[p], self.settings.C / before.problems.settings.C
        bounded = self.formulation.loss.bounded
        size = float(np.vdot(result.w, result.w))
        q = 0.0 if bounded else max(2.0 * result.primal - size, 0.0)
        total, curvature = result.dual + 0.5 * (size + q), size + q / ratio
        scale = best_multiple(total, curvature, np.array([ratio if bounded else np.inf]))
        return self.start(p, scale * before.dual_coef)

    def finished(self, p: int, result: Result) -> Result:
        """Keep the signed dual variables that are not 0."""
        parts = [
            self.formulation.signed(self.labelled(b), [result.alpha[self.data.rows(b)]], p)
            for b in range(self.data.n_blocks)
        ]
        result.alpha = parts[0] if len(parts) == 1 else sp.hstack(parts, format="csr")
        return result

    def complete(self, results: list[Result]) -> None:
        """Give classes that were not begun weights of some use beside the others, in place."""
        self.formulation.fill_in(results, self.class_costs, self.n_rows)

    def dual_coef(self, results: list[Result]) -> Sparse:
        """Return the model's signed dual variables, which results have been reduced to.

        They give theirs up: for many rows, dual variables of all classes are large.
        """
        alphas = [result.alpha for result in results]
        for result in results:
            result.alpha = None
        return alphas[0] if len(alphas) == 1 else sp.vstack(alphas, format="csr")


def _column_blocks(matrix: Sparse, starts: Array) -> Iterator[Sparse]:
    """Yield the columns of a CSR matrix from one of the starts to the next, never all copied."""
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

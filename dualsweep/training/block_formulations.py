"""How classes become problems whose rows are read block by block, and their solutions a model.

A problem per class takes the memory of one of them, and reads the blocks once per class and pass.
(All classes side by side would read them once for all, but keep the dual variables of all.) One
problem over all classes reads them once per pass, and keeps the dual variables of all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..io.checkpoint import Checkpoint
from ..kernels.loss import Loss, sum_losses
from ..problems.binary import BinaryProblem
from ..problems.in_blocks import BinaryInBlocks, MulticlassInBlocks
from ..problems.labels import class_codes, class_costs, row_costs
from ..problems.losses import loss_numbers, loss_of
from ..problems.multiclass import MulticlassProblem
from ..problems.result import Result
from ..rows.layouts import as_rows
from ..rows.passes import Passes
from ..solvers.blocks import BlockProblem, Saving
from ..solvers.solve import Start
from .data import check_finite
from .formulations import Formulation, Joint, PerClass, clipped, near, signed
from .regression import Regression, as_targets, check_scale, costs_of_rows
from .settings import Settings

if TYPE_CHECKING:
    from .blocks import BlockSet


class _Rows:
    """The rows of blocks, under some settings."""

    def __init__(self, data: BlockSet, settings: Settings) -> None:
        self.data, self.settings = data, settings
        self.numbers = range(data.n_blocks)
        self.checkpoint: Checkpoint | None = None

    def keep(self, facts: dict[str, Any]) -> None:
        """Keep the state where it is asked for, of the problem that facts make out."""
        data, settings = self.data, self.settings
        problem = {
            "data": data.blocks.fingerprint,
            **facts,
            "C": float(settings.C),
            "loss": settings.loss,
            "intercept_scaling": float(settings.bias),
            "schedule": settings.schedule,
            "random_state": settings.random_state,
        }
        if settings.multi_class != "ovr":
            problem["multi_class"] = settings.multi_class
        self.checkpoint = Checkpoint(data.checkpoint, problem)

    def read(self, b: int) -> tuple[Passes, Any]:
        """Return the rows of block b, and their squared norms."""
        X, _ = self.data.blocks.read(b)
        passes = Passes(as_rows(X, self.settings.bias), self.data.workers)
        sqnorm = passes.sqnorms()
        check_finite(sqnorm, self.data.rows(b).start)
        return passes, sqnorm


class _ClassRows(_Rows):
    """Rows with labels."""

    def __init__(self, data: BlockSet, settings: Settings) -> None:
        super().__init__(data, settings)
        self.classes = data.classes
        self.class_weight, self.costs = class_costs(
            settings.C, settings.class_weight, data.classes, data.mass
        )
        if data.checkpoint is not None:
            self.keep(self._facts())

    def _facts(self) -> dict[str, Any]:
        data, rows = self.data, sha256()
        if data.y is not None:
            for b in self.numbers:
                rows.update(class_codes(data.labels_of(b), self.classes).tobytes())
        if data.weight is not None:
            rows.update(data.weight.tobytes())
        return {
            "y and sample_weight": rows.hexdigest(),
            "classes": self.classes.tolist(),
            "class_weight": None if self.class_weight is None else repr(self.class_weight),
        }

    def labels(self, b: int) -> tuple[Any, Any]:
        """Return the class codes and costs of block b."""
        codes = class_codes(self.data.labels_of(b), self.classes)
        given = (self.settings.C, self.class_weight, self.classes)
        return codes, row_costs(*given, codes, self.data.weight_of(b), all_rows=False)


class _TargetRows(_Rows):
    """Rows with targets of regression."""

    def __init__(self, data: BlockSet, settings: Settings, loss: Loss) -> None:
        super().__init__(data, settings)
        rows, self.primal_at_zero, positive = sha256(), 0.0, False
        for b in self.numbers:
            target, cost = self.labels(b)
            self.primal_at_zero += sum_losses(target[cost > 0], cost[cost > 0], loss)
            positive = positive or bool(cost.any())
            rows.update(target.tobytes())
        check_scale(self.primal_at_zero)
        if not positive:
            raise ValueError("Training needs rows of positive weight, but all weights are 0.")
        if data.weight is not None:
            rows.update(data.weight.tobytes())
        if data.checkpoint is not None:
            facts = {"y and sample_weight": rows.hexdigest(), "epsilon": float(settings.epsilon)}
            self.keep(facts)

    def labels(self, b: int) -> tuple[Any, Any]:
        """Return the targets and costs of block b."""
        target, weight = as_targets(self.data.labels_of(b)), self.data.weight_of(b)
        return target, costs_of_rows(self.settings, len(target), weight, all_rows=False)


class _InBlocks(Formulation):
    """What all have in common."""

    side_by_side = False
    rows: Any  # _ClassRows or _TargetRows
    kind: Any  # BinaryInBlocks or MulticlassInBlocks
    bounded: bool  # whether dual variables are at most their cost

    def primal_at_zero(self) -> float:
        """Return the objective where all weights are 0, if each row loses its cost there."""
        return float(self.rows.costs.sum())

    @abstractmethod
    def read(self, p: int, b: int) -> Any:
        """Return block b of the p-th problem."""

    def problem(self, p: int) -> BlockProblem:
        """Return the p-th problem."""
        blocks, memory = self.rows.data.blocks, self.rows.settings.memory_limit
        assert memory is not None
        return BlockProblem(
            partial(self.read, p),
            blocks.starts,
            blocks.block_bytes,
            kind=self.kind,
            primal_at_zero=self.primal_at_zero(),
            memory=memory,
        )

    def saving(self, p: int) -> Saving | None:
        """Return how the state of the p-th problem is kept."""
        checkpoint = self.rows.checkpoint
        if checkpoint is None:
            return None
        return Saving(
            checkpoint.read(p),
            write=partial(checkpoint.write, p),
            damaged=partial(checkpoint.damaged, p),
        )

    def start(self, p: int, dual_coef: Any) -> Any:
        """Return feasible dual variables near those of another model."""
        starts = self.rows.data.blocks.starts
        pieces = zip(self.rows.numbers, _column_blocks(dual_coef, starts), strict=True)
        return self.kind.joined([self.block_start(p, b, piece) for b, piece in pieces], starts)

    @abstractmethod
    def block_start(self, p: int, b: int, dual_coef: Any) -> Any:
        """Return those of block b."""

    def start_from(self, p: int, problem: Any, before: Any) -> Start:
        """Return where to start from the model for another C: near the best multiple of it.

        As in `dualsweep.solvers.path`, going by what is known without reading a row. At the
        solution before, with ``q = sum_i D_i alpha_i^2`` (0 of losses without D), the gap of 0 says
        ``sum alpha = D + (|w|^2 + q) / 2`` and ``q = 2 P - |w|^2``.
        """
        result, old = before.results[p], before.formulation.rows.settings.C
        ratio = self.rows.settings.C / old
        size = float(np.vdot(result.w, result.w))
        q = 0.0 if self.bounded else max(2.0 * result.primal - size, 0.0)
        total, curvature = result.dual + 0.5 * (size + q), size + q / ratio
        scale = total / curvature if curvature > 0.0 else 1.0
        if self.bounded:
            scale = min(scale, ratio)
        return Start(self.start(p, scale * before.dual_coef))

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables, which results have been reduced to.

        They give theirs up: of many rows, dual variables of all classes are large.
        """
        alphas = [result.alpha for result in results]
        for result in results:
            result.alpha = None
        return alphas[0] if len(alphas) == 1 else sp.vstack(alphas, format="csr")


def _column_blocks(matrix: Any, starts: Any) -> Iterator[Any]:
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


class BlockPerClass(_InBlocks, PerClass):
    """A binary problem per class, of rows in blocks, one after the other."""

    def __init__(self, data: BlockSet, settings: Settings) -> None:
        self.rows = _ClassRows(data, settings)
        super().__init__(data.classes, data.blocks.shape[0], settings.bias, settings.loss)
        self.kind = BinaryInBlocks(data.blocks.shape[1] + 1)
        self.bounded = np.isfinite(self.loss.upper)

    def primal_at_zero(self) -> float:
        """Return the objective where all weights are 0."""
        return super().primal_at_zero() * loss_of(1.0, self.loss)

    def read(self, p: int, b: int) -> BinaryProblem:
        """Return block b of the p-th problem."""
        passes, sqnorm = self.rows.read(b)
        codes, cost = self.rows.labels(b)
        return BinaryProblem(passes, sqnorm, self.labels(p, codes), cost, self.loss)

    def block_start(self, p: int, b: int, dual_coef: Any) -> Any:
        """Return feasible dual variables of block b near those of another model."""
        codes, cost = self.rows.labels(b)
        return clipped(dual_coef[[p]].toarray()[0] * self.labels(p, codes), cost, self.loss)

    def finished(self, p: int, result: Result) -> Result:
        """Keep of the dual variables those that are not 0, with signs."""
        for b in self.rows.numbers:
            codes, _ = self.rows.labels(b)
            result.alpha[self.rows.data.rows(b)] *= self.labels(p, codes)
        result.alpha = sp.csr_array(result.alpha[None, :])
        return result

    def complete(self, results: list[Result]) -> None:
        """Let classes that were not begun score below those that were, in place."""
        self.fill_in(results, self.rows.costs, self.n_rows)


class BlockJoint(_InBlocks, Joint):
    """One problem over all classes, of rows in blocks."""

    bounded = True

    def __init__(self, data: BlockSet, settings: Settings, joint: bool) -> None:
        self.rows = _ClassRows(data, settings)
        super().__init__(data.classes, data.blocks.shape[0], settings.bias)
        self.kind = MulticlassInBlocks(data.blocks.shape[1] + 1, len(data.classes), joint)

    def primal_at_zero(self) -> float:
        """Return the objective where all weights are 0: a row loses 1, or 1 per other class."""
        return super().primal_at_zero() * (1 if self.kind.joint else len(self.classes) - 1)

    def read(self, p: int, b: int) -> MulticlassProblem:
        """Return block b of the problem."""
        return self._block(b, *self.rows.read(b))

    def _block(self, b: int, passes: Any = None, sqnorm: Any = None) -> MulticlassProblem:
        """Return block b; for what takes labels only, without its rows."""
        codes, cost = self.rows.labels(b)
        y = np.maximum(codes, 0).astype(np.int64)  # rows without a class have no cost either
        return MulticlassProblem(passes, sqnorm, y, cost, self.kind.joint, len(self.classes))

    def block_start(self, p: int, b: int, dual_coef: Any) -> Any:
        """Return feasible dual variables of block b near those of another model."""
        return near(self._block(b), dual_coef)

    def finished(self, p: int, result: Result) -> Result:
        """Keep of the dual variables those that are not 0, with signs."""
        data, alpha = self.rows.data, result.alpha
        parts = [signed(self._block(b), alpha[data.rows(b)]) for b in self.rows.numbers]
        result.alpha = sp.hstack(parts, format="csr")
        return result


class BlockRegression(_InBlocks, Regression):
    """The problem of regression, of rows in blocks."""

    def __init__(self, data: BlockSet, settings: Settings) -> None:
        loss = loss_numbers(settings.loss, settings.epsilon)
        self.rows = _TargetRows(data, settings, loss)
        super().__init__(data.blocks.shape[0], settings.bias, loss)
        self.kind = BinaryInBlocks(data.blocks.shape[1] + 1)
        self.bounded = np.isfinite(loss.upper)

    def primal_at_zero(self) -> float:
        """Return the objective where all weights are 0."""
        return float(self.rows.primal_at_zero)

    def read(self, p: int, b: int) -> BinaryProblem:
        """Return block b."""
        passes, sqnorm = self.rows.read(b)
        target, cost = self.rows.labels(b)
        return BinaryProblem(passes, sqnorm, np.ones(len(target)), cost, self.loss, target)

    def block_start(self, p: int, b: int, dual_coef: Any) -> Any:
        """Return feasible dual variables of block b near those of another model."""
        _, cost = self.rows.labels(b)
        return clipped(dual_coef.toarray()[0], cost, self.loss)

    def finished(self, p: int, result: Result) -> Result:
        """Keep of the dual variables those that are not 0."""
        result.alpha = sp.csr_array(result.alpha[None, :])
        return result


BLOCK_FORMULATIONS: dict[str, Callable[..., Formulation]] = {
    "ovr": BlockPerClass,
    "crammer_singer": partial(BlockJoint, joint=True),
    "weston_watkins": partial(BlockJoint, joint=False),
}

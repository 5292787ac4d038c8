"""Training on a store: one-versus-rest problems whose rows are read block by block."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..io.checkpoint import Checkpoint
from ..problems.binary import BinaryProblem
from ..problems.labels import balanced_weights, check_classes, class_codes, row_costs
from ..problems.result import Result
from ..rows.layouts import as_rows
from ..rows.passes import Passes
from ..solvers.blocks import BlockProblem, Blocks, Saving
from .context import Context
from .data import TrainingSet, check_finite
from .device import DeviceSet, data_in_memory
from .formulations import PerClass
from .settings import Settings

__all__ = ["BlockFormulation", "BlockSet", "load_if_it_fits", "training_data"]

# What training in memory takes a row besides its entries, at most.
IN_MEMORY_ROW = 128


def load_if_it_fits(X: Any, y: Any, memory_limit: int | None) -> tuple[Any, Any]:
    """Return a store as rows and labels if these fit into memory, and anything else as it is.

    The arrays are there twice while a store is loaded. Its own labels are used if y is None.
    """
    if isinstance(X, Blocks):
        n_bytes = 2 * int(np.sum(X.block_bytes)) + IN_MEMORY_ROW * X.shape[0]
        if memory_limit is None or n_bytes <= memory_limit:
            X, labels = X.load()
            return X, labels if y is None else y
    return X, y


def training_data(
    X: Any, y: Any, weight: Any, settings: Settings, context: Context, checkpoint: Any = None
) -> TrainingSet | BlockSet | DeviceSet:
    """Return what was checked as it is trained on, in memory, in blocks or on a device."""
    if isinstance(X, Blocks):
        return BlockSet(X, y, weight, checkpoint, context)
    return data_in_memory(X, y, weight, settings.bias, context)


class BlockSet:
    """Rows in blocks, and how much each of them counts.

    Parameters
    ----------
    blocks : Blocks
        The blocks.
    y : array or None
        Labels; those of the blocks if None.
    weight : array or None
        Of each row, float64.
    checkpoint : str, Path or None
        Where the state of a training is kept, if anywhere.
    context : Context
        Where it is trained on.
    """

    def __init__(self, blocks: Blocks, y: Any, weight: Any, checkpoint: Any, context: Context):
        if blocks.shape[1] == 0:
            raise ValueError("There are no features to learn from.")
        self.blocks, self.y, self.weight = blocks, y, weight
        self.checkpoint, self.workers = checkpoint, context.workers
        self.n_blocks = len(blocks.block_bytes)

    def rows(self, b: int) -> slice:
        """Return which rows block b has."""
        return slice(int(self.blocks.starts[b]), int(self.blocks.starts[b + 1]))

    def labels_of(self, b: int) -> Any:
        """Return the labels of block b."""
        return self.blocks.read_labels(b) if self.y is None else self.y[self.rows(b)]

    def weight_of(self, b: int) -> Any:
        """Return the weights of the rows of block b, or None."""
        return None if self.weight is None else self.weight[self.rows(b)]

    def count(self) -> tuple[Any, Any]:
        """Return the classes that have weight, and how much."""
        found: dict[Any, float] = {}
        kinds = []
        for b in range(self.n_blocks):
            labels, weight = self.labels_of(b), self.weight_of(b)
            present = slice(None) if weight is None else weight > 0
            classes, places = np.unique(labels[present], return_inverse=True)
            mass = np.bincount(places, None if weight is None else weight[present])
            for label, m in zip(classes.tolist(), mass.tolist(), strict=True):
                found[label] = found.get(label, 0.0) + m
            kinds.append(classes)
        classes = np.unique(np.concatenate(kinds))
        check_classes(classes)
        return classes, np.array([found[label] for label in classes.tolist()])

    def formulate(self, settings: Settings) -> BlockFormulation:
        """Return the problems to solve."""
        more = (
            f"Use another, or raise memory_limit ({settings.memory_limit:,} bytes) until the "
            "store fits"
        )
        if settings.multi_class != "ovr":
            raise ValueError(
                "Block by block there is only multi_class='ovr', not "
                f"{settings.multi_class!r}. {more}."
            )
        if settings.solver == "newton":
            raise ValueError(f"Block by block there are sweeps only, not solver='newton'. {more}.")
        return BlockFormulation(self, settings)


class BlockFormulation(PerClass):
    """A binary problem per class, of rows in blocks, one after the other.

    That takes the memory of one problem, and reads the blocks once per class and pass. (All
    classes side by side would read them once for all, but keep the dual variables of all.)
    """

    side_by_side = False

    def __init__(self, data: BlockSet, settings: Settings) -> None:
        classes, mass = data.count()
        super().__init__(classes, data.blocks.shape[0], settings.bias, settings.loss)
        self.data, self.settings = data, settings
        self.class_weight = settings.class_weight
        if isinstance(self.class_weight, str):
            balanced = balanced_weights(mass).tolist()
            self.class_weight = dict(zip(classes.tolist(), balanced, strict=True))
        # The costs of one row per class, of the weight of all its rows: refuses if they overflow.
        codes = np.arange(len(classes))
        self.costs = row_costs(settings.C, self.class_weight, classes, codes, mass)
        self.checkpoint = self._checkpoint() if data.checkpoint is not None else None

    def _checkpoint(self) -> Checkpoint:
        data, settings = self.data, self.settings
        rows = sha256()
        if data.y is not None:
            for b in range(data.n_blocks):
                rows.update(class_codes(data.labels_of(b), self.classes).tobytes())
        if data.weight is not None:
            rows.update(data.weight.tobytes())
        problem = {
            "data": data.blocks.fingerprint,
            "y and sample_weight": rows.hexdigest(),
            "classes": self.classes.tolist(),
            "C": float(settings.C),
            "loss": settings.loss,
            "class_weight": None if self.class_weight is None else repr(self.class_weight),
            "intercept_scaling": float(self.bias),
            "schedule": settings.schedule,
            "random_state": settings.random_state,
        }
        return Checkpoint(data.checkpoint, problem)

    def read(self, p: int, b: int) -> BinaryProblem:
        """Return block b of the p-th problem."""
        X, labels = self.data.blocks.read(b)
        passes = Passes(as_rows(X, self.bias), self.data.workers)
        sqnorm = passes.sqnorms()
        check_finite(sqnorm, self.data.rows(b).start)
        codes = class_codes(labels if self.data.y is None else self.data.labels_of(b), self.classes)
        weight = self.data.weight_of(b)
        cost = row_costs(self.settings.C, self.class_weight, self.classes, codes, weight)
        return BinaryProblem(passes, sqnorm, self.labels(p, codes), cost, self.loss)

    def problem(self, p: int) -> BlockProblem:
        """Return the p-th problem."""
        blocks, memory = self.data.blocks, self.settings.memory_limit
        assert memory is not None
        return BlockProblem(
            partial(self.read, p),
            blocks.starts,
            blocks.block_bytes,
            n_weights=blocks.shape[1] + 1,
            primal_at_zero=float(self.costs.sum()),
            memory=memory,
        )

    def saving(self, p: int) -> Saving | None:
        """Return how the state of the p-th problem is kept."""
        if self.checkpoint is None:
            return None
        return Saving(
            self.checkpoint.read(p),
            write=partial(self.checkpoint.write, p),
            damaged=partial(self.checkpoint.damaged, p),
        )

    def finished(self, p: int, result: Result) -> Result:
        """Keep of the dual variables those that are not 0, with signs."""
        for b in range(self.data.n_blocks):
            positive = class_codes(self.data.labels_of(b), self.classes) == self.positives[p]
            result.alpha[self.data.rows(b)][~positive] *= -1.0
        result.alpha = sp.csr_array(result.alpha[None, :])
        return result

    def complete(self, results: list[Result]) -> None:
        """Let classes that were not begun score below those that were, in place."""
        self.fill_in(results, self.costs)

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables."""
        alphas = [result.alpha for result in results]
        return alphas[0] if len(alphas) == 1 else sp.vstack(alphas, format="csr")

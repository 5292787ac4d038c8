"""Training on a store: one-versus-rest problems whose rows are read block by block."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..io.checkpoint import Checkpoint
from ..outofcore import Blocks, DamagedStateError, State, solve_blocks
from ..problem import HISTORY_DTYPE, Problem, Result
from ..rows import as_rows, sqnorms
from .common import check_finite
from .formulations import PerClass
from .labels import balanced_weights, check_classes, class_codes, row_costs

__all__ = ["BlockFormulation", "check_trainable", "load_if_it_fits"]

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


def check_trainable(svc: Any) -> None:
    """Raise ValueError if `svc`, a `PlainSVC`, asks for what needs all rows at once."""
    more = f"Use another, or raise memory_limit ({svc.memory_limit:,} bytes) until the store fits"
    if svc.multi_class != "ovr":
        raise ValueError(
            f"Block by block there is only multi_class='ovr', not {svc.multi_class!r}. {more}."
        )
    if svc.solver == "newton":
        raise ValueError(f"Block by block there are sweeps only, not solver='newton'. {more}.")
    if svc.warm_start and hasattr(svc, "dual_coef_"):
        raise ValueError(
            "Block by block there is no warm start. Set warm_start=False, or pass a checkpoint."
        )


class BlockFormulation(PerClass):
    """A binary problem per class, of rows in blocks, one after the other.

    That takes the memory of one problem, and reads the blocks once per class and pass. (All
    classes side by side would read them once for all, but keep the dual variables of all.)
    """

    def __init__(self, svc: Any, data: Blocks, y: Any, weight: Any, checkpoint: Any) -> None:
        self.svc, self.data, self.y, self.weight = svc, data, y, weight
        self.bias = svc._bias
        self.classes, mass = self._count()
        super().__init__(svc.loss, len(self.classes))
        self.class_weight = svc.class_weight
        if isinstance(svc.class_weight, str):
            balanced = balanced_weights(mass).tolist()
            self.class_weight = dict(zip(self.classes.tolist(), balanced, strict=True))
        # The costs of one row per class, of the weight of all its rows: refuses if they overflow.
        codes = np.arange(len(self.classes))
        self.costs = row_costs(svc.C, self.class_weight, self.classes, codes, mass)
        self.checkpoint = None if checkpoint is None else self._checkpoint(checkpoint)

    def _rows(self, b: int) -> slice:
        return slice(int(self.data.starts[b]), int(self.data.starts[b + 1]))

    def _labels(self, b: int) -> Any:
        return self.data.read_labels(b) if self.y is None else self.y[self._rows(b)]

    def _weight(self, b: int) -> Any:
        return None if self.weight is None else self.weight[self._rows(b)]

    def _count(self) -> tuple[Any, Any]:
        """Return the classes that have weight, and how much."""
        found: dict[Any, float] = {}
        kinds = []
        for b in range(len(self.data.block_bytes)):
            labels, weight = self._labels(b), self._weight(b)
            present = slice(None) if weight is None else weight > 0
            classes, places = np.unique(labels[present], return_inverse=True)
            mass = np.bincount(places, None if weight is None else weight[present])
            for label, m in zip(classes.tolist(), mass.tolist(), strict=True):
                found[label] = found.get(label, 0.0) + m
            kinds.append(classes)
        classes = np.unique(np.concatenate(kinds))
        check_classes(classes)
        return classes, np.array([found[label] for label in classes.tolist()])

    def _checkpoint(self, path: str | Path) -> Any:
        svc = self.svc
        rows = sha256()
        if self.y is not None:
            for b in range(len(self.data.block_bytes)):
                rows.update(class_codes(self._labels(b), self.classes).tobytes())
        if self.weight is not None:
            rows.update(self.weight.tobytes())
        random_state = svc.random_state
        settings = {
            "data": self.data.fingerprint,
            "y and sample_weight": rows.hexdigest(),
            "classes": self.classes.tolist(),
            "C": float(svc.C),
            "loss": svc.loss,
            "class_weight": None if self.class_weight is None else repr(self.class_weight),
            "intercept_scaling": float(self.bias),
            "schedule": svc.schedule,
            "random_state": int(random_state)
            if isinstance(random_state, int | np.integer)
            else None,
        }
        return Checkpoint(path, settings)

    def read(self, p: int, b: int) -> Problem:
        """Return block b of the p-th problem."""
        X, labels = self.data.read(b)
        rows = as_rows(X, self.bias)
        sqnorm = sqnorms(rows)
        check_finite(sqnorm, self._rows(b).start)
        codes = class_codes(labels if self.y is None else self._labels(b), self.classes)
        cost = row_costs(self.svc.C, self.class_weight, self.classes, codes, self._weight(b))
        y = np.where(codes == self.positives[p], 1.0, -1.0)
        return Problem(rows, sqnorm, y, cost, self.loss)

    def solve(self, p: int, *, solver: str, n_threads: int, **options: Any) -> Result:
        """Solve the p-th problem; of its dual variables keep those that are not 0, with signs."""
        checkpoint: Any = self.checkpoint
        n_weights = self.data.shape[1] + 1
        state = None
        if checkpoint is not None:
            state = checkpoint.read(
                p, lambda arrays: State.from_arrays(arrays, self.data.shape[0], n_weights)
            )
        if state is None and (options["stop"]() or options["max_time"] <= 0.0):
            return self._not_begun()

        def save(state: State) -> None:
            if checkpoint is not None:
                checkpoint.write(p, state.arrays())

        try:
            result = solve_blocks(
                lambda b: self.read(p, b),
                self.data.starts,
                self.data.block_bytes,
                n_weights,
                memory=self.svc.memory_limit,
                state=state,
                save=save,
                **options,
            )
        except DamagedStateError as error:
            raise checkpoint.damaged(p, error) from error
        for b in range(len(self.data.block_bytes)):
            positive = class_codes(self._labels(b), self.classes) == self.positives[p]
            result.alpha[self._rows(b)][~positive] *= -1.0
        result.alpha = sp.csr_array(result.alpha[None, :])
        return result

    def _not_begun(self) -> Result:
        """Return the model of weight 0, which takes no reading of the blocks."""
        n_rows, n_features = self.data.shape
        primal = float(self.costs.sum())
        return Result(
            w=np.zeros(n_features + 1),
            alpha=sp.csr_array((1, n_rows)),
            cost=None,
            slack=None,
            primal=primal,
            gap=primal,
            converged=False,
            n_iter=0,
            n_newton=0,
            history=np.array([(0, 0.0, 0, primal, 0.0, primal, n_rows)], HISTORY_DTYPE),
        )

    def complete(self, results: list[Result]) -> None:
        """Let classes that were not begun score below those that were, in place."""
        self.fill_in(results, self.costs, self.bias)

    def dual_coef(self, results: list[Result]) -> Any:
        """Return the model's signed dual variables."""
        alphas = [result.alpha for result in results]
        return alphas[0] if len(alphas) == 1 else sp.vstack(alphas, format="csr")

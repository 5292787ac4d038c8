"""What workers do: the dual variables of their partitions stay here, from round to round."""

from __future__ import annotations

from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from distributed import get_worker

from .._threads import Workers
from ..problems.labels import class_codes, count_classes, row_costs
from ..rows.dense import passes_over
from ..rows.layouts import as_rows
from ..solvers.parts import Part
from ..training.data import check_finite
from ..training.formulations import Formulation, PerClass, formulation
from ..training.settings import Settings

__all__ = ["Partition", "Recipe", "add", "answer", "as_block", "describe", "forget", "signed_duals"]


class Recipe(NamedTuple):
    """What makes problems of partitions."""

    token: str  # of the training
    settings: Settings
    classes: Any
    class_weight: Any  # by class; None if all weigh the same


class Partition(NamedTuple):
    """Rows, labels and weights of a partition, as Dask has them."""

    number: int
    first: int  # its first row among those of all partitions
    X: Any
    y: Any
    weight: Any  # or None


class _Shard:
    """What is kept of a partition between two tasks; the rows are Dask's to keep, or to spill."""

    def __init__(self, recipe: Recipe, partition: Partition) -> None:
        settings = recipe.settings
        self.codes = class_codes(partition.y, recipe.classes)
        weight = None if partition.weight is None else partition.weight.astype(np.float64)
        given = (settings.C, recipe.class_weight, recipe.classes)
        self.cost = row_costs(*given, self.codes, weight, all_rows=False)
        passes = passes_over(as_rows(partition.X, settings.bias), Workers())
        self.sqnorm = passes.sqnorms()
        check_finite(self.sqnorm, partition.first)
        self.parts: dict[int, Part] = {}
        self.born = uuid4().hex

    def formulation(self, recipe: Recipe, X: Any) -> Formulation:
        passes = passes_over(as_rows(X, recipe.settings.bias), Workers())
        given = (recipe.classes, self.codes, self.cost)
        return formulation(recipe.settings, passes, self.sqnorm, *given)


Answer = tuple[Any, Any, dict[int, str]]

_shards: dict[tuple[str, int], _Shard] = {}
_lock = Lock()


def answer(
    recipe: Recipe, p: int, name: str, w: Any, how: dict[str, Any], *partitions: tuple[Any, ...]
) -> Answer:
    """Let partitions' parts of the p-th problem do something; see `dualsweep.solvers.parts.Part`.

    Returns the sums of their answers, and which dual variables they were done with. Those of a
    partition differ from the answer before if the worker was lost meanwhile, and they with it.
    """
    return add(*(_answer(recipe, p, name, w, how, Partition(*here)) for here in partitions))


def _answer(
    recipe: Recipe, p: int, name: str, w: Any, how: dict[str, Any], here: Partition
) -> Answer:
    key = (recipe.token, here.number)
    with _lock:
        if key not in _shards:
            _shards[key] = _Shard(recipe, here)
        shard = _shards[key]
    problem = shard.formulation(recipe, here.X).problem(p)
    if p not in shard.parts:
        seed = (recipe.settings.seed, p, here.number)
        shard.parts[p] = Part(problem, recipe.settings.schedule, seed)
    sent = () if w is None else (w,)
    weights, numbers = getattr(shard.parts[p], name)(problem, *sent, **how)
    return weights, numbers, {here.number: shard.born}


def add(*answers: Answer) -> Answer:
    """Return the sums of answers."""
    weights, numbers, born = answers[0]
    for more, others, births in answers[1:]:
        weights = None if weights is None else weights + more
        numbers = None if numbers is None else numbers + others
        born = born | births
    return weights, numbers, born


def signed_duals(recipe: Recipe, p: int, which: str, born: str | None, *partition: Any) -> Any:
    """Return the p-th problem's signed dual variables of a partition's rows, and let go of them.

    CSR, one row for a binary problem, else one for each row of the model's weights.

    Raises
    ------
    RuntimeError
        If they were lost with the worker that had them.
    """
    here = Partition(*partition)
    shard = _shards.get((recipe.token, here.number))
    if shard is None or shard.born != born or p not in shard.parts:
        raise RuntimeError(
            "A worker was lost, and with it dual variables of the model. Fit again to have them; "
            "the model itself and its certificate stand."
        )
    problems = shard.formulation(recipe, here.X)
    alpha = shard.parts.pop(p).duals(problems.problem(p), which)
    if isinstance(problems, PerClass):
        return sp.csr_array((alpha * problems.labels(p, shard.codes))[None, :])
    found: Any = SimpleNamespace(alpha=alpha)
    return sp.csr_array(problems.dual_coef([found]))


def forget(token: str) -> None:
    """Let go of all that a training kept on this worker."""
    with _lock:
        for key in [key for key in _shards if key[0] == token]:
            del _shards[key]


def as_block(X: Any) -> Any:
    """Return a block of rows as it is trained on: float32 or float64, CSR or C-ordered."""
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if sp.issparse(X):
        X = X.tocsr()
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"A block of X must have rows and columns, but has shape {X.shape}.")
    return np.ascontiguousarray(X, X.dtype if X.dtype in (np.float32, np.float64) else np.float64)


def as_column(y: Any) -> Any:
    """Return labels or weights as a one-dimensional array."""
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"Labels and weights must be one column, but have shape {y.shape}.")
    return y


class Description(NamedTuple):
    """What the client knows of a partition."""

    n_rows: int
    n_features: int
    n_bytes: int
    memory: int  # that its worker may use; 0 if there is no limit
    counts: tuple[Any, Any]  # its classes, and how much weight they have


def describe(X: Any, y: Any, weight: Any) -> Description:
    """Check a partition and say what is in it."""
    if len(y) != X.shape[0]:
        raise ValueError(f"A partition of X has {X.shape[0]} rows, but that of y {len(y)}.")
    if weight is not None:
        if len(weight) != X.shape[0]:
            raise ValueError(
                f"A partition of X has {X.shape[0]} rows, but that of sample_weight {len(weight)}."
            )
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise ValueError("sample_weight must not be negative, NaN or infinite.")
    arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    n_bytes = sum(array.nbytes for array in arrays)
    memory = get_worker().memory_manager.memory_limit or 0
    return Description(X.shape[0], X.shape[1], n_bytes, memory, count_classes(y, weight))

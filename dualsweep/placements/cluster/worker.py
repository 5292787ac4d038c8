"""What workers do: partitions and their dual variables stay here from round to round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import finalize

import joblib
import numpy as np
import scipy.sparse as sp
from distributed import get_worker

from ..._threads import Workers
from ..._typing import Array, Given, Matrix, Sparse
from ...io.store import Store, open_store
from ...newton.slacks import AnyMemoryProblem
from ...problems.labels import count_classes
from ...rows.layouts import as_rows, check_sparse
from ...rows.passes import passes_over
from ...training.formulations import Formulation, LabelledRows
from ..memory import check_finite
from .partitions import WITHOUT_ROWS, Answer, Partition, Question

# Share of a worker's memory for its partitions. Past it, rows are read from disk each time, one
# partition after the other. Dask gives a worker no more tasks at 0.8 of its memory. Python and its
# libraries take 0.25 of 1 GB, and a partition that is read needs room: with 0.35 and partitions of
# 50 MB, workers came to 0.8 now and then.
FITS = 0.3
ROW_BYTES = 150  # what training keeps of a row besides its entries


class Description(NamedTuple):
    """What the client knows of a partition."""

    home: str  # address of the worker that holds it
    n_rows: int
    n_features: int
    counts: tuple[Array, Array]  # its classes, and the weight of each


class Asked(NamedTuple):
    """A question to partitions of the p-th problem, without the weights that are sent with it."""

    p: int
    question: Question[...]
    numbers: dict[str, object]


class StoreBlock(NamedTuple):
    """A block of a store; the worker that holds it opens the store itself."""

    path: str
    fingerprint: str
    b: int

    def read(self, mapped: bool = False) -> Sparse:
        """Return the rows, only mapped if nothing reads them."""
        store = _store(self.path, self.fingerprint)
        return (store.block if mapped else store.read)(self.b)[0]

    def labels(self) -> Array:
        """Return the labels."""
        return _store(self.path, self.fingerprint).read_labels(self.b)


@lru_cache(maxsize=4)  # a store remembers which of its files it has compared with their checksums
def _store(path: str, fingerprint: str) -> Store:
    store = open_store(path)
    if store.fingerprint != fingerprint:
        raise ValueError(f"The store {path} is not what it was when training began.")
    return store


@dataclass(eq=False)
class _Held:
    """A partition that this worker holds, and what training keeps of it."""

    X: Matrix | None  # None if it is read each time
    y: Array
    weight: Array | None
    read: Callable[[bool], Matrix] | None
    home: str
    born: str = field(default_factory=lambda: uuid4().hex)
    parts: dict[int, Partition] = field(default_factory=dict)  # by problem
    known: LabelledRows | None = None  # passes only over rows in memory

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes in memory."""
        X: Matrix = self.X
        arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else () if X is None else (X,)
        return ROW_BYTES * len(self.y) + sum(array.nbytes for array in arrays)

    def problem(
        self, formulation: Formulation, p: int, first: int, with_rows: bool
    ) -> AnyMemoryProblem:
        """Return the p-th problem of these rows; `first` is the number of the first one."""
        rows = self.known
        if rows is None or rows.passes is None:
            X = self.X
            if X is None:
                assert self.read is not None
                X = self.read(rows is not None and not with_rows)
            passes = passes_over(as_rows(X, formulation.bias), Workers())
            if rows is None:
                labels = formulation.encode(self.y)
                weight = None if self.weight is None else self.weight.astype(np.float64)
                cost = formulation.costs(labels, weight, all_rows=False)
                rows = LabelledRows(passes, passes.sqnorms(), labels, cost)
                check_finite(rows.sqnorm, first)
            rows = replace(rows, passes=passes)
            self.known = replace(rows, passes=None) if self.X is None else rows
        return formulation.problem(p, rows)


_held: dict[tuple[str, int], _Held] = {}  # by training and number of the partition
# Reentrant: garbage collection may call `forget` in the thread that has the lock.
_lock = RLock()


def hold(
    token: str, k: int, block: Matrix | StoreBlock, y: Array, weight: Array | None
) -> Description:
    """Check partition k, keep it on this worker and describe it."""
    read: Callable[[bool], Matrix] | None = None
    if isinstance(block, StoreBlock):
        read, block = block.read, block.read()
    X = as_block(block)
    for column, name in (y, "y"), (weight, "sample_weight"):
        if column is not None and len(column) != X.shape[0]:
            raise ValueError(
                f"A partition of X has {X.shape[0]} rows, but that of {name} {len(column)}."
            )
    if weight is not None and not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError("sample_weight must not be negative, NaN or infinite.")
    worker = get_worker()
    memory = worker.memory_manager.memory_limit
    held = _Held(X, y, weight, read, worker.address)
    with _lock:
        in_use = held.n_bytes + sum(other.n_bytes for other in list(_held.values()))
        if memory and in_use > FITS * memory:
            held.X = None
            if read is None:
                path = Path(worker.local_directory) / f"dualsweep-{held.born}"
                joblib.dump(X, path)
                held.read = lambda mapped: joblib.load(path, "r" if mapped else None)
                finalize(held, path.unlink, missing_ok=True)
        _held[token, k] = held
    n_rows, n_features = X.shape
    return Description(held.home, n_rows, n_features, count_classes(y, weight))


class PartitionActor:
    """What answers for a worker's partitions; `firsts` are the first rows of all partitions."""

    def __init__(self, token: str, formulation: Formulation, firsts: list[int]) -> None:
        self.token, self.formulation, self.firsts = token, formulation, firsts
        # Once nobody refers to this any more, even if the client just disappeared.
        finalize(self, forget, token, get_worker().address)

    def answer(self, asked: Asked, chosen: list[int], *sent: Array) -> Answer:
        """Ask the chosen partitions; return the sum of their answers."""
        n_threads = get_worker().state.nthreads
        left = iter(chosen)
        total: list[Answer] = []
        with Workers(n_threads) as workers:
            # As many at a time as there are threads: each answer may have weights.
            while some := list(islice(left, n_threads)):
                answers = workers.map(lambda k: self._answer(asked, k, sent), some)
                total = [reduce(Answer.plus, [*total, *answers])]
        return total[0]

    def _answer(self, asked: Asked, k: int, sent: tuple[Array, ...]) -> Answer:
        held, p = _held[self.token, k], asked.p
        with_rows = asked.question not in WITHOUT_ROWS
        problem = held.problem(self.formulation, p, self.firsts[k], with_rows)
        if p not in held.parts:
            settings = self.formulation.settings
            held.parts[p] = Partition(problem, settings.schedule, (settings.seed, p, k))
        answer = asked.question(held.parts[p], problem, *sent, **asked.numbers)
        return answer._replace(born={k: held.born})


def ask(actor: Any, *arguments: object) -> Answer:
    """Ask an actor in a task."""
    answer: Answer = actor.answer(*arguments).result()
    return answer


def signed_duals(
    token: str, formulation: Formulation, p: int, kept: bool, born: str | None, k: int
) -> Sparse:
    """Return the p-th problem's signed dual variables of partition k as CSR, and drop them here.

    Raises RuntimeError if they were lost with the worker that had them.
    """
    held = _held.get((token, k))
    if held is None or held.born != born or p not in held.parts:
        raise RuntimeError(
            "A worker was lost, and with it dual variables of the model. Fit again to have them; "
            "the model itself and its certificate stand."
        )
    rows = held.known
    assert rows is not None
    alpha = held.parts.pop(p).duals(formulation.problem(p, rows), kept)
    return formulation.signed(rows, [alpha], p)


def forget(token: str, home: str | None = None) -> None:
    """Drop all partitions of a training; those of one worker if several share this process."""
    with _lock:
        for key, held in list(_held.items()):
            if key[0] == token and home in (None, held.home):
                del _held[key]


def as_block(X: Matrix | Given) -> Matrix:
    """Return rows as they are trained on: float32 or float64, CSR or C-ordered."""
    X = check_sparse(X).tocsr() if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"A block of X must have rows and columns, but has shape {X.shape}.")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return X if sp.issparse(X) else np.ascontiguousarray(X)


def as_column(y: Given) -> Array:
    """Return labels or weights as a one-dimensional array."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"Labels and weights must be one column, but have shape {y.shape}.")
    return y

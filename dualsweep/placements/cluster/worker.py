"""What workers do: partitions and their dual variables stay here, from round to round."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from threading import RLock
from typing import Literal, NamedTuple
from uuid import uuid4
from weakref import finalize

import numpy as np
import scipy.sparse as sp
from distributed import get_worker

from ..._threads import Workers
from ..._typing import Array, ClassWeight, Given, Matrix, Sparse
from ...io.store import Store, open_store
from ...losses import LOSSES, Loss
from ...newton.slacks import MemoryProblem
from ...problems.labels import count_classes
from ...rows.layouts import as_rows, check_sparse
from ...rows.passes import passes_over
from ...training.formulations import Formulation, LabelledRows, formulation_of
from ...training.settings import Settings
from ..memory import check_finite
from .partitions import WITHOUT_ROWS, Answer, Partition, Question

# Part of a worker's memory that its partitions may take; the rows of those past it are read from
# disk each time, one partition after the other. Dask stops giving tasks to a worker at 0.8 of its
# memory. Of 1 GB, Python and its libraries take 0.25, and a partition that is read needs room: with
# 0.35 and partitions of 50 MB, workers came to 0.8 now and then.
FITS = 0.3
ROW_BYTES = 150  # what training keeps of a row besides its entries


class Assignment(NamedTuple):
    """What is trained: what makes problems of partitions."""

    token: str  # of the training
    settings: Settings
    classes: Array
    class_weight: ClassWeight  # by class; None if all weigh the same
    loss: Loss  # what the settings' name of it means: it may be the client's own

    def formulation(self) -> Formulation:
        """Return the formulation."""
        return formulation_of(self.settings, self.classes, self.class_weight)


class Description(NamedTuple):
    """What the client knows of a partition."""

    home: str  # address of the worker that holds it
    born: str  # differs each time that it is taken over
    n_rows: int
    n_features: int
    counts: tuple[Array, Array]  # its classes, and how much weight they have


class Asked(NamedTuple):
    """A question to partitions of the p-th problem, but for the weights that are sent with it."""

    p: int
    question: Question[...]
    numbers: dict[str, object]


class Reply(NamedTuple):
    """The sum of some partitions' answers, and which dual variables it is of."""

    answer: Answer
    born: dict[int, str]  # by partition; see `Description`


class StoreBlock(NamedTuple):
    """A block of a store, which the worker that holds it opens itself."""

    path: str
    fingerprint: str
    b: int

    def read(self, mapped: bool = False) -> Sparse:
        """Return the rows; `mapped` if nobody may look at them."""
        store = _store(self.path, self.fingerprint)
        return (store.block if mapped else store.read)(self.b)[0]

    def labels(self) -> Array:
        """Return the labels."""
        return _store(self.path, self.fingerprint).read_labels(self.b)

    def remove(self) -> None:
        """Do nothing: the store is the user's."""


@lru_cache(maxsize=4)  # a store remembers which of its files it has compared with their checksums
def _store(path: str, fingerprint: str) -> Store:
    store = open_store(path)
    if store.fingerprint != fingerprint:
        raise ValueError(f"The store {path} is not what it was when training began.")
    return store


class _Files:
    """Rows in files of this worker, to be read when they are needed."""

    def __init__(self, folder: Path, X: Matrix) -> None:
        self.folder, self.shape = folder, X.shape
        self.folder.mkdir(parents=True)
        for name, array in _arrays(X).items():
            np.save(self.folder / f"{name}.npy", array)

    def read(self, mapped: bool = False) -> Matrix:
        """Return the rows; `mapped` if nobody may look at them."""
        mode: Literal["r"] | None = "r" if mapped else None
        arrays = {file.stem: np.load(file, mode) for file in self.folder.iterdir()}
        if "X" in arrays:
            return arrays["X"]
        X = sp.csr_array(self.shape, dtype=arrays["data"].dtype)
        X.data, X.indices, X.indptr = arrays["data"], arrays["indices"], arrays["indptr"]
        return X

    def remove(self) -> None:
        """Remove the files."""
        rmtree(self.folder, ignore_errors=True)


class _Held:
    """A partition that this worker holds, and what training has come to know of it."""

    def __init__(
        self,
        home: str,
        X: Matrix | None,
        files: StoreBlock | _Files | None,
        y: Array,
        weight: Array | None,
    ) -> None:
        self.home = home
        self.X = X  # None if it is to be read each time
        self.files = files  # where it is read from
        self.n_bytes = ROW_BYTES * len(y) + (0 if X is None else _n_bytes(X))
        self.y, self.weight = y, weight
        self.born = uuid4().hex
        self.parts: dict[int, Partition] = {}  # by problem
        self.rows: LabelledRows | None = None  # what is known of the rows, if they are in memory
        self.known: LabelledRows | None = None  # the same without the rows

    def labelled(self, task: Assignment, first: int, looks: bool = True) -> LabelledRows:
        """Return the rows with labels and costs; `first` is the number of the first row.

        Unless anybody `looks` at them, rows on disk are not read.
        """
        if self.rows is not None:
            return self.rows
        X = self.X
        if X is None:
            assert self.files is not None
            X = self.files.read(mapped=not looks and self.known is not None)
        passes = passes_over(as_rows(X, task.settings.bias), Workers())
        if self.known is None:
            formulation, weight = task.formulation(), self.weight
            labels = formulation.encode(self.y)
            weight = None if weight is None else weight.astype(np.float64)
            cost = formulation.costs(labels, weight, all_rows=False)
            sqnorm = passes.sqnorms()
            check_finite(sqnorm, first)
            self.known = LabelledRows(None, sqnorm, labels, cost)
        rows = replace(self.known, passes=passes)
        if self.X is not None:
            self.rows = rows
        return rows

    def problem(self, task: Assignment, p: int, first: int, looks: bool = True) -> MemoryProblem:
        """Return the p-th problem of these rows."""
        return task.formulation().problem(p, self.labelled(task, first, looks))

    def remove(self) -> None:
        """Remove what is on disk."""
        if self.files is not None:
            self.files.remove()


_held: dict[tuple[str, int], _Held] = {}  # by training and number of the partition
# Taken again where garbage is collected while it is held: `forget` may be called by that.
_lock = RLock()


def hold(
    token: str, k: int, block: Matrix | StoreBlock, y: Array, weight: Array | None
) -> Description:
    """Check partition k and keep it on this worker; say what is in it."""
    files: StoreBlock | _Files | None = None
    if isinstance(block, StoreBlock):
        files, block = block, block.read()
    X = as_block(block)
    if len(y) != X.shape[0]:
        raise ValueError(f"A partition of X has {X.shape[0]} rows, but that of y {len(y)}.")
    if weight is not None:
        if len(weight) != X.shape[0]:
            raise ValueError(
                f"A partition of X has {X.shape[0]} rows, but that of sample_weight {len(weight)}."
            )
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise ValueError("sample_weight must not be negative, NaN or infinite.")
    worker = get_worker()
    memory = worker.memory_manager.memory_limit
    with _lock:
        in_use = sum(held.n_bytes for held in list(_held.values()))
        fits = not memory or in_use + _n_bytes(X) + ROW_BYTES * len(y) <= FITS * memory
        if not fits and files is None:
            files = _Files(Path(worker.local_directory) / f"dualsweep-{uuid4().hex}", X)
        held = _Held(worker.address, X if fits else None, files, y, weight)
        _held[token, k] = held
    n_rows, n_features = X.shape
    counts = count_classes(y, weight)
    return Description(worker.address, held.born, n_rows, n_features, counts)


class PartitionActor:
    """Answers for the partitions of a worker."""

    def __init__(self, task: Assignment) -> None:
        self.task = task
        LOSSES[task.settings.loss] = task.loss
        # When nobody refers to this any more, be it that the client is gone.
        finalize(self, forget, task.token, get_worker().address)

    def answer(self, asked: Asked, firsts: dict[int, int], *sent: Array) -> Reply:
        """Ask partitions; see `Partition` for the questions.

        `firsts` are the partitions to ask, with the numbers of their first rows.
        """
        numbers = list(firsts)
        n_threads = get_worker().state.nthreads

        def one(k: int) -> Reply:
            return self._answer(asked, k, firsts[k], sent)

        total: list[Reply] = []
        with Workers(n_threads) as workers:
            for t in range(0, len(numbers), n_threads):  # so that few weights are there at a time
                total = [add(*total, *workers.map(one, numbers[t : t + n_threads]))]
        return total[0]

    def _answer(self, asked: Asked, k: int, first: int, sent: tuple[Array, ...]) -> Reply:
        held = _held[self.task.token, k]
        problem = held.problem(self.task, asked.p, first, asked.question not in WITHOUT_ROWS)
        if asked.p not in held.parts:
            settings = self.task.settings
            seed = settings.seed, asked.p, k
            held.parts[asked.p] = Partition(problem, settings.schedule, seed)
        answer = asked.question(held.parts[asked.p], problem, *sent, **asked.numbers)
        return Reply(answer, {k: held.born})


def add(*replies: Reply) -> Reply:
    """Return the sums of answers; the first may be overwritten."""
    (weights, numbers), born = replies[0]
    for (more, others), births in replies[1:]:
        if weights is not None and more is not None:
            same = weights.dtype == more.dtype
            weights = np.add(weights, more, out=weights if same else None)
        if numbers is not None and others is not None:
            numbers = numbers + others
        born = born | births
    return Reply(Answer(weights, numbers), born)


def signed_duals(
    task: Assignment, p: int, kept: bool, born: str | None, k: int, first: int
) -> Sparse:
    """Return the p-th problem's signed dual variables of partition k, and let go of them.

    CSR, one row for a binary problem, else one for each row of the model's weights.

    Raises
    ------
    RuntimeError
        If they were lost with the worker that had them.
    """
    held = _held.get((task.token, k))
    if held is None or held.born != born or p not in held.parts:
        raise RuntimeError(
            "A worker was lost, and with it dual variables of the model. Fit again to have them; "
            "the model itself and its certificate stand."
        )
    formulation, rows = task.formulation(), held.labelled(task, first, looks=False)
    alpha = held.parts.pop(p).duals(formulation.problem(p, rows), kept)
    return formulation.signed(rows, [alpha], p)


def forget(token: str, home: str | None = None) -> None:
    """Let go of all that a training kept here; if workers share a process, on one of them."""
    with _lock:
        for key, held in list(_held.items()):
            if key[0] == token and home in (None, held.home):
                _held.pop(key).remove()


def as_block(X: Matrix | Given) -> Matrix:
    """Return a block of rows as it is trained on: float32 or float64, CSR or C-ordered."""
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if sp.issparse(X):
        X = check_sparse(X).tocsr()
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"A block of X must have rows and columns, but has shape {X.shape}.")
    return np.ascontiguousarray(X, X.dtype if X.dtype in (np.float32, np.float64) else np.float64)


def as_column(y: Given) -> Array:
    """Return labels or weights as a one-dimensional array."""
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"Labels and weights must be one column, but have shape {y.shape}.")
    return y


def _arrays(X: Matrix) -> dict[str, Array]:
    if sp.issparse(X):
        return {"data": X.data, "indices": X.indices, "indptr": X.indptr}
    return {"X": X}


def _n_bytes(X: Matrix) -> int:
    return sum(array.nbytes for array in _arrays(X).values())

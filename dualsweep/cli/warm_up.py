"""Compilation ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import product
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

from .. import _tuning
from .._parameters import either
from .._threads import count_cores
from .._typing import Array
from ..io import load_data
from ..kernels.certificate import long_square
from ..losses import REGRESSION_LOSSES, loss_named
from ..placements import TrainingSet
from ..problems.run import certificate_of
from ..rows.passes import FEW_ENTRIES
from ..solvers.momentum import Momentum
from ..solvers.sliced import LEAST_THREADS
from ..training import Context, Settings, train
from ..training.claims import Claim, Duals, Vectors, bounds_of, provable
from ..training.formulations import OF_MARGINS
from ..training.progress import on_each_compilation
from ._command import Command
from ._options import Json, Quiet


def _with_long_indices(X: Any) -> Any:
    """Return a sparse matrix whose indices have 64 bits."""
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


LAYOUTS = {"sparse": sp.csr_array, "sparse64": _with_long_indices, "dense": np.asarray}
TYPES = {"float32": np.float32, "float64": np.float64}

_lines: SimpleQueue[str | None]  # of a process that compiles beside others

# What is trained for each layout and type, by the name on the screen.
OF_TWO_CLASSES = [{"loss": loss} for loss in ("hinge", "squared_hinge", "logistic")]
FREE = {"intercept": "free"}
KINDS: dict[str, list[dict[str, Any]]] = {
    method: OF_TWO_CLASSES if method == "ovr" else [{"loss": "hinge", "multi_class": method}]
    for method in OF_MARGINS
}
MULTINOMIAL = {"loss": "logistic", "multi_class": "multinomial"}
KINDS["multinomial"] = [MULTINOMIAL, MULTINOMIAL | FREE]
KINDS["free intercept"] = [loss | FREE for loss in OF_TWO_CLASSES]
KINDS["regression"] = [
    {"loss": loss} | intercept for loss in REGRESSION_LOSSES for intercept in ({}, FREE)
]


def warm_up(
    layouts: Annotated[
        str, typer.Option(metavar="LAYOUTS", help=f"Some of {', '.join(LAYOUTS)}, with commas.")
    ] = "sparse,dense",
    types: Annotated[
        str, typer.Option(metavar="TYPES", help=f"Some of {', '.join(TYPES)}, with commas.")
    ] = "float32,float64",
    jobs: Annotated[
        int, typer.Option(min=0, help="Processes that compile side by side; 0: one per core.")
    ] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compile all kernels now rather than when they are first needed.

    They are compiled when the first data of a kind come up, and kept on disk: in the package's own
    directory if it can be written, else in the user's cache, or where NUMBA_CACHE_DIR says. This
    trains on a few generated rows of each kind, with each formulation, intercept and solver, and
    regression, which takes a minute or two and nothing the next time. Rows of text are sparse
    float32; sparse64 are sparse matrices whose indices have 64 bits.

    In a container image, run it where the package is installed. Kernels are compiled for the
    processor at hand, and compiled again on another kind: for an image that is to run anywhere, set
    NUMBA_CPU_NAME=generic, there and in the image.

    For example:
      dualsweep warm-up
      dualsweep warm-up --layouts sparse --types float32
    """
    chosen = _parsed("--layouts", layouts, LAYOUTS), _parsed("--types", types, TYPES)
    with Command(json, quiet) as command:
        started, cpu = perf_counter(), process_time()
        kinds = list(product(*chosen))
        n_jobs = min(jobs or count_cores(), len(kinds))
        if n_jobs > 1:
            compiled, cpu = _side_by_side(kinds, n_jobs, command.tell)
        else:
            compiled = sum([_compile(step, command.tell) for step in _steps(kinds)])
            cpu = process_time() - cpu
        facts = {"compiled": compiled, "seconds": perf_counter() - started}
        command.show("All kernels are there", facts | {"processor_seconds": cpu})


def _side_by_side(
    kinds: list[tuple[str, str]], n_jobs: int, tell: Callable[[str], None]
) -> tuple[int, float]:
    """Compile for each kind of rows in a process; return the number of kernels, and CPU seconds."""
    spawn = get_context("spawn")
    lines: SimpleQueue[str | None] = spawn.SimpleQueue()
    with ProcessPoolExecutor(n_jobs, spawn, initializer=_tell_by, initargs=(lines,)) as pool:
        futures = [pool.submit(_compile_kind, kind) for kind in kinds]
        for future in futures:
            future.add_done_callback(lambda _: lines.put(None))
        left = len(futures)
        while left:
            line = lines.get()
            if line is None:
                left -= 1
            else:
                tell(line)
        compiled, seconds = zip(*[future.result() for future in futures], strict=True)
    return sum(compiled), sum(seconds)


def _tell_by(lines: SimpleQueue[str | None]) -> None:
    """Let this process tell what it does by way of a queue."""
    global _lines
    _lines = lines


def _compile_kind(kind: tuple[str, str]) -> tuple[int, float]:
    """Compile for a kind of rows; return the number of kernels, and CPU seconds."""
    started = process_time()
    compiled = sum([_compile(step, _lines.put) for step in _steps([kind])])
    return compiled, process_time() - started


def _compile(step: tuple[str, Callable[[], object]], tell: Callable[[str], None]) -> int:
    """Do what needs some kernels; return how many were compiled."""
    name, need = step
    compiled: list[None] = []
    with on_each_compilation(lambda: compiled.append(None)):
        need()
    tell(f"{name}: {len(compiled)} kernels compiled")
    return len(compiled)


def _parsed(option: str, text: str, known: dict[str, Any]) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(known):
        raise typer.BadParameter(
            f"{option} must be {either(known)}, or several with commas, but is {text}."
        )
    return names


def _steps(kinds: list[tuple[str, str]]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is compiled, and what needs that."""
    yield "reading text", _read_text
    yield "proofs", _prove
    yield "many weights", partial(long_square, np.ones(3))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6)) * 10.0 ** np.arange(-2, 4)  # badly scaled: sweeps are slow
    many = np.tile(X, (1 + FEW_ENTRIES // X.size, 1))
    for layout, dtype in kinds:
        rows = LAYOUTS[layout](X.astype(TYPES[dtype]))
        for kind, options in KINDS.items():
            yield f"{layout} {dtype}, {kind}", partial(_train, rows, options)
        yield f"{layout} {dtype}, momentum", partial(_move_centres, rows)
        more = LAYOUTS[layout](many.astype(TYPES[dtype]))
        yield f"{layout} {dtype}, many rows", partial(_move_centres, more)


def _train(X: Any, kinds: list[dict[str, Any]]) -> None:
    """Train by each solver, with weights of either precision (see `tol`), and from a solution."""
    runs = [("sweep", "auto", 1e-3), ("sweep", "auto", 1e-9), ("newton", "auto", 1e-6)]
    runs.append(("sweep", "shrinking", 1e-3))
    for options, (solver, schedule, tol) in product(kinds, runs):
        how = {"solver": solver, "schedule": schedule, "tol": tol, "max_iter": 60}
        settings = Settings(**how, **options)
        y = np.arange(X.shape[0]) % 3
        if settings.loss in REGRESSION_LOSSES:
            y = y - 0.3 * X[:, [0]].sum(axis=1)
        with Context(suggest=False) as context:
            data = TrainingSet(X, y, None, settings, context)
            before = train(data, settings, context)
            train(data, settings.but(C=2.0), context, before=before)
            if solver == "newton":
                with _nothing_is_small():
                    train(data, settings, context)
        if (solver, schedule) == ("sweep", "auto") and sp.issparse(X):
            _slice(X, y % 2, settings)
    _certify(data.problems(settings).problem(0))


def _slice(X: Any, y: Array, settings: Settings) -> None:
    """Train by sweeps that threads share."""
    before, _tuning.SLICED_ENTRIES = _tuning.SLICED_ENTRIES, 0
    try:
        with Context(n_jobs=LEAST_THREADS, suggest=False) as context:
            train(TrainingSet(X, y, None, settings, context), settings, context)
    finally:
        _tuning.SLICED_ENTRIES = before


@contextmanager
def _nothing_is_small() -> Iterator[None]:
    """Leave Newton steps inside the ``with`` block to the kernels of larger problems."""
    before, _tuning.SMALL_NEWTON = _tuning.SMALL_NEWTON, 0.0
    try:
        yield
    finally:
        _tuning.SMALL_NEWTON = before


def _certify(problem: Any) -> None:
    """Compute a certificate that plain sums are too rough for."""
    alpha, w = problem.zero_alpha(), problem.zero_weights()
    problem.fill_weights(alpha, w, compensated=True)
    certificate_of(problem, alpha, w, np.empty(len(problem.candidates)), compensated=True)


def _move_centres(X: Any) -> None:
    """Move the centre of momentum in each precision, which sweeps may not come to."""
    with Context(suggest=False) as context:
        data = TrainingSet(X, np.arange(X.shape[0]) % 2, None, Settings(), context)
        problem = data.problems(Settings()).problem(0)
        for dtype in (X.dtype, np.float64):
            w = np.zeros(problem.weights_shape, dtype)
            Momentum(problem, scale=2.0, w=w, dual=0.0).advance(w)


def _prove() -> None:
    """Compute the bounds of a proof."""
    ones = np.ones(2)
    loss = provable(loss_named("epsilon_insensitive"))
    vectors = Vectors(np.ones((1, 1)), np.ones(1))
    duals = Duals(np.arange(2), np.zeros(2, np.int64), ones)
    bounds_of(Claim(ones[:, None], ones, ones, ones, loss, None, 1.0, vectors, duals))


def _read_text() -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "rows.svm")
        path.write_text("+1 1:0.5 3:2\n-1 2:-1.25\n")
        load_data(path)

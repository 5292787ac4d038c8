"""Compilation ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

from ..io import load_data
from ..losses import REGRESSION_LOSSES, loss_named
from ..placements import TrainingSet
from ..problems.run import certificate_of
from ..solvers.momentum import Momentum
from ..training import Context, Settings, train
from ..training.claims import Claim, Duals, Vectors, bounds_of, provable
from ..training.formulations import FORMULATIONS
from ..training.progress import on_each_compilation
from ._command import Command
from ._options import Json, Quiet

LAYOUTS = {"sparse": sp.csr_array, "dense": np.asarray}
TYPES = {"float32": np.float32, "float64": np.float64}

# What is trained for each layout and type, by the name on the screen.
TWO_LOSSES = [{"loss": "hinge"}, {"loss": "squared_hinge"}]
FREE = {"intercept": "free"}
KINDS: dict[str, list[dict[str, Any]]] = {
    method: TWO_LOSSES if method == "ovr" else [{"loss": "hinge", "multi_class": method}]
    for method in FORMULATIONS
}
KINDS["free intercept"] = [loss | FREE for loss in TWO_LOSSES]
KINDS["regression"] = [
    {"loss": loss} | intercept for loss in REGRESSION_LOSSES for intercept in ({}, FREE)
]


def warm_up(
    layouts: Annotated[
        str, typer.Option(metavar="LAYOUTS", help="sparse, dense, or both with a comma.")
    ] = "sparse,dense",
    types: Annotated[
        str, typer.Option(metavar="TYPES", help="float32, float64, or both with a comma.")
    ] = "float32,float64",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compile all kernels now rather than when they are first needed.

    They are compiled when the first data of a kind come up, and kept on disk: in the package's own
    directory if it can be written, else in the user's cache, or where NUMBA_CACHE_DIR says. This
    trains on a few generated rows of each kind, with each formulation, intercept and solver, and
    regression, which takes some two minutes and nothing the next time. Rows of text are sparse
    float32.

    In a container image, run it where the package is installed. Kernels are compiled for the
    processor at hand, and compiled again on another kind: for an image that is to run anywhere, set
    NUMBA_CPU_NAME=generic, there and in the image.

    For example:
      dualsweep warm-up
      dualsweep warm-up --layouts sparse --types float32
    """
    chosen = [_parsed("--layouts", layouts, LAYOUTS), _parsed("--types", types, TYPES)]
    with Command(json, quiet) as command:
        compiled = 0

        def count() -> None:
            nonlocal compiled
            compiled += 1

        started, cpu = perf_counter(), process_time()
        with on_each_compilation(count):
            for kind, need in _steps(*chosen):
                before = compiled
                need()
                command.tell(f"{kind}: {compiled - before} kernels compiled")
        command.show(
            "All kernels are there",
            {
                "compiled": compiled,
                "seconds": perf_counter() - started,
                "processor_seconds": process_time() - cpu,
            },
        )


def _parsed(option: str, text: str, known: dict[str, Any]) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(known):
        raise typer.BadParameter(
            f"{option} must be {' or '.join(known)}, or both with a comma, but is {text}."
        )
    return names


def _steps(layouts: list[str], types: list[str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what is compiled, and what needs that."""
    yield "reading text", _read_text
    yield "proofs", _prove
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6)) * 10.0 ** np.arange(-2, 4)  # badly scaled: sweeps are slow
    for layout, dtype in product(layouts, types):
        rows = LAYOUTS[layout](X.astype(TYPES[dtype]))
        for kind, options in KINDS.items():
            yield f"{layout} {dtype}, {kind}", partial(_train, rows, options)
        yield f"{layout} {dtype}, momentum", partial(_move_centres, rows)


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
    _certify(data.problems(settings).problem(0))


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

"""Training."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import typer

from .._interrupt import INTERRUPTED
from ..io import Store, save_liblinear, save_model
from ..io._files import check_target
from ..io.liblinear import integer_classes
from ..io.model import read_model
from ..placements import load_if_it_fits, training_data
from ..training import Context, Settings, draw_seed
from ..training import train as train_model
from ..training.verdict import shortfall
from ._command import FAILED, Command, classes_of, in_bytes
from ._options import (
    AnyLoss,
    Bias,
    ClassWeight,
    Data,
    Epsilon,
    Force,
    Intercept,
    Json,
    MaxIter,
    MemoryLimit,
    ModelFormat,
    MultiClass,
    NoIntercept,
    Quiet,
    Schedule,
    Seed,
    Solver,
    Task,
    Tol,
    TrainJobs,
    ZeroBased,
    check_task,
    class_weights,
    positive,
)

WRITERS = {"npz": save_model, "liblinear": save_liblinear}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
SUFFIXES = {".model": "liblinear", ".liblinear": "liblinear", ".txt": "liblinear"}


def train(
    file: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-o",
            help="Where to write the model.",
            show_default="DATA's name with .model.npz, in the current directory",
        ),
    ] = None,
    model_format: ModelFormat = None,
    force: Force = False,
    cost: Annotated[
        float,
        typer.Option(
            "--cost",
            "-C",
            callback=positive,
            help="Cost of errors: a larger C fits the rows more closely.",
        ),
    ] = 1.0,
    task: Task = "classification",
    loss: AnyLoss = None,
    epsilon: Epsilon = 0.0,
    tol: Tol = 1e-3,
    max_iter: MaxIter = 1000,
    max_time: Annotated[
        float | None,
        typer.Option(callback=positive, metavar="SECONDS", help="Most seconds to train."),
    ] = None,
    no_intercept: NoIntercept = False,
    intercept: Intercept = "penalized",
    bias: Bias = 1.0,
    class_weight: ClassWeight = None,
    schedule: Schedule = "auto",
    multi_class: MultiClass = "ovr",
    solver: Solver = "auto",
    memory_limit: MemoryLimit = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="With --memory-limit: save the state here after each pass over the blocks, and "
            "go on from it if there is one.",
        ),
    ] = None,
    warm_start: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Start from this model of the same rows, perhaps with another C.",
        ),
    ] = None,
    n_jobs: TrainJobs = -1,
    seed: Seed = 0,
    zero_based: ZeroBased = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model and write it to a file, with its certificate.

    Ends with exit code 0 if the relative duality gap is proven to be at most --tol, and with 1 if
    it is not: then the model is written too, and the message says how far from the best it can be.
    Ctrl-C writes the model so far, if there is one, and ends with 130.

    For example:
      dualsweep train a1a.svm
      dualsweep train rcv1.npz -C 0.5 --loss hinge --tol 1e-4 -o rcv1.model.npz
      dualsweep train news20.svm.bz2 --max-time 60 --format liblinear --force
      dualsweep train skewed.svm --class-weight 1=10 --bias 10
      dualsweep train rcv1.npz -C 1 --warm-start rcv1.model.npz -o rcv1.C1.npz
      dualsweep train huge.store --memory-limit 1500 --checkpoint huge.checkpoint
      dualsweep train prices.svm --task regression --epsilon 0.1
    """
    settings = Settings(
        C=cost,
        loss=check_task(task, loss, epsilon, multi_class=multi_class, class_weight=class_weight),
        epsilon=epsilon,
        multi_class=multi_class,
        schedule=schedule,
        solver=solver,
        fit_intercept=not no_intercept,
        intercept=intercept,
        intercept_scaling=bias,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        memory_limit=in_bytes(memory_limit),
        seed=draw_seed(seed),
        random_state=seed,
    )
    verbose = not (quiet or json)
    path, model_format = destination(file, output, model_format)
    if checkpoint is not None and memory_limit is None:
        raise typer.BadParameter("--checkpoint needs --memory-limit.")

    with Command(json, quiet, reads=(file, warm_start)) as command:
        command.writes(path)
        check_target(path, force=force)  # rather now than after the work
        if checkpoint is not None:
            command.spare_inputs(checkpoint)
        X, y = command.load_or_open(file, memory_limit, zero_based=zero_based, n_jobs=n_jobs)
        classes = classes_of(X, y) if task == "classification" else None
        if model_format == "liblinear" and classes is not None:  # rather now than after the work
            integer_classes(classes)
        settings = settings.but(class_weight=class_weights(class_weight, classes))
        # What there is to know of the model, by an estimator's names.
        model = SimpleNamespace(
            **vars(settings), warm_start=False, n_jobs=n_jobs, verbose=int(verbose)
        )
        duals = None if warm_start is None else _duals(warm_start, X.shape[0], classes)
        started = perf_counter()
        interrupted = False
        try:
            X, y = load_if_it_fits(X, y, settings.memory_limit)
            with Context(n_jobs=n_jobs, verbose=verbose, tol=tol) as context:
                data = training_data(_as_floats(X), y, None, settings, context, checkpoint)
                fitted = train_model(data, settings, context, duals=duals)
                vars(model).update(fitted.attributes())
        except KeyboardInterrupt:
            if not hasattr(model, "coef_"):
                raise
            interrupted = True
        seconds = perf_counter() - started
        WRITERS[model_format](model, path, force=force)

        command.show("Certificate", certificate(model) | {"seconds": seconds})
        command.facts |= {"model": str(path), "format": model_format, "interrupted": interrupted}
        command.tell(f"Model written to {path}")
        if interrupted:
            command.say(f"Interrupted. The model so far was written: {shortfall(model)}.")
            command.code = INTERRUPTED
        elif not model.converged_:
            command.say(
                f"Not converged. The model was written: {shortfall(model)}. Raise --max-iter, "
                "--max-time or --tol, or scale the features."
            )
            command.code = FAILED


def _duals(path: Path, n_rows: int, classes: Any) -> Any:
    """Return the dual variables of a model of as many rows and the same classes, or of none."""
    _, model = read_model(path)
    duals = model.get("dual_coef_")
    theirs: Any = model.get("classes_")
    if duals is None:
        raise ValueError(
            f"{path} has no dual variables to start from. Use a model that train wrote as npz."
        )
    if duals.shape[1] != n_rows or not np.array_equal(theirs, classes):
        the = "" if theirs is None else "the classes "
        raise ValueError(
            f"{path} cannot be used as a start: it was trained on {duals.shape[1]:,} rows of "
            f"{the}{_some(theirs)}, but these are {n_rows:,} rows of {_some(classes)}."
        )
    return duals


def _some(classes: Any) -> str:
    if classes is None:
        return "regression"
    return ", ".join(map(str, classes[:5])) + (" ..." if len(classes) > 5 else "")


def _as_floats(X: Any) -> Any:
    """Return X, which may be any table of numbers, as it is trained on."""
    if isinstance(X, Store):
        return X
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X


def destination(file: Path, output: Path | None, model_format: str | None) -> tuple[Path, str]:
    """Return where to write the model, and in which format."""
    if model_format is None:
        model_format = "npz" if output is None else SUFFIXES.get(output.suffix, "npz")
    if model_format not in WRITERS:
        raise typer.BadParameter(f"--format must be npz or liblinear, but is {model_format}.")
    suffix = ".model.npz" if model_format == "npz" else ".model"
    name = Path(file.stem).stem if file.suffix in COMPRESSED else file.stem
    return output or Path(f"{name}{suffix}"), model_format


def certificate(model: Any) -> dict[str, Any]:
    """Return what is known of a model."""
    return {
        "primal_objective": model.primal_objective_,
        "dual_objective": model.dual_objective_,
        "relative_gap": model.relative_gap_,
        "tol": model.tol,
        "converged": model.converged_,
        "epochs": model.n_iter_,
        "support_vectors": len(model.support_),
    }

"""Training."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from .._interrupt import INTERRUPTED
from .._parameters import parameters_of
from ..io import Store, save_liblinear, save_model
from ..io.liblinear import classes_there
from ..io.model import read_model
from ..placements import load_if_it_fits, training_data
from ..training import Context, Settings, draw_seed
from ..training import train as train_model
from ..training.parameters import Choice
from ..training.progress import shortfall
from ._command import FAILED, Command, classes_of
from ._options import (
    ANY_FORMULATION,
    ANY_LOSS,
    PARAMETERS,
    TASKS,
    Data,
    Force,
    Json,
    ModelFormat,
    Quiet,
    Task,
    ZeroBased,
    class_weights,
    parameters_of_task,
    some,
    takes,
)

WRITERS = {"npz": save_model, "liblinear": save_liblinear}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
SUFFIXES = {".model": "liblinear", ".liblinear": "liblinear", ".txt": "liblinear"}


@takes(PARAMETERS.keys() - parameters_of(Choice), loss=ANY_LOSS, multi_class=ANY_FORMULATION)
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
    task: Task = "classification",
    *,
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
    zero_based: ZeroBased = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Train a model and write it to a file, with its certificate.

    Ends with exit code 0 if the relative duality gap is proven to be at most --tol, and with 1 if
    it is not: then the model is written too, and the message says how far from the best it can be.
    Ctrl-C writes the model so far, if there is one, and ends with 130.

    For example:
      dualsweep train a1a.svm
      dualsweep train news20.svm --multi-class multinomial --intercept free
      dualsweep train rcv1.npz -C 0.5 --loss hinge --tol 1e-4 -o rcv1.model.npz
      dualsweep train news20.svm.bz2 --max-time 60 --format liblinear --force
      dualsweep train skewed.svm --class-weight 1=10 --bias 10
      dualsweep train rcv1.npz -C 1 --warm-start rcv1.model.npz -o rcv1.C1.npz
      dualsweep train huge.store --memory-limit 1500 --checkpoint huge.checkpoint
      dualsweep train prices.svm --task regression --epsilon 0.1
    """
    given = parameters_of_task(task, given)
    model: Any = TASKS[task](**given, verbose=int(not (quiet or json)))
    path, model_format = destination(file, output, model_format)
    if checkpoint is not None and model.memory_limit is None:
        raise typer.BadParameter("--checkpoint needs --memory-limit.")

    with Command(json, quiet, reads=(file, warm_start)) as command:
        command.will_write(path, force)
        if checkpoint is not None:
            command.refuse_inputs(checkpoint)
        X, y, classes = read_data(command, file, zero_based, model, model_format)
        duals = None if warm_start is None else _duals(warm_start, X.shape[0], classes)
        started = perf_counter()
        interrupted = False
        try:
            _fit(model, X, y, duals, checkpoint)
        except KeyboardInterrupt:
            if not hasattr(model, "coef_"):
                raise
            interrupted = True
        seconds = perf_counter() - started
        WRITERS[model_format](model, path, force=force)

        command.show("Certificate", certificate(model) | {"seconds": seconds})
        command.facts |= {"format": model_format, "interrupted": interrupted}
        command.wrote("model", path)
        if interrupted:
            command.say(f"Interrupted. The model so far was written: {shortfall(model)}.")
            command.code = INTERRUPTED
        elif not model.converged_:
            command.say(
                f"Not converged. The model was written: {shortfall(model)}. Raise --max-iter, "
                "--max-time or --tol, or scale the features."
            )
            command.code = FAILED


def read_data(
    command: Command, file: Path, zero_based: bool | None, model: Any, model_format: str | None
) -> tuple[Any, Any, Any]:
    """Return rows, labels and classes to train on; None for what there is not.

    Weights of classes are the model's own then, and classes are refused that its format lacks.
    """
    X, y = command.load_or_open(
        file, model.memory_limit, zero_based=zero_based, n_jobs=model.n_jobs
    )
    if not hasattr(model, "class_weight"):
        return X, y, None
    classes = classes_of(X, y)
    model.class_weight = class_weights(model.class_weight, classes)
    if model_format == "liblinear":
        classes_there(model, classes)
    return X, y, classes


def _fit(model: Any, X: Any, y: Any, duals: Any, checkpoint: Path | None) -> None:
    """Train as an estimator's `fit` does, but without scikit-learn."""
    X, y = load_if_it_fits(X, y, model.memory_limit)
    if not isinstance(X, Store):  # any table of numbers
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X
    shared = {name: value for name, value in vars(model).items() if name in parameters_of(Settings)}
    settings = Settings(**shared, seed=draw_seed(model.random_state))
    verbose = bool(model.verbose)
    with Context(n_jobs=model.n_jobs, verbose=verbose, tol=model.tol) as context:
        data = training_data(X, y, None, settings, context, checkpoint)
        vars(model).update(train_model(data, settings, context, duals=duals).attributes())


def _duals(path: Path, n_rows: int, classes: Any) -> Any:
    """Return the dual variables of a model of as many rows and the same classes, or of none."""
    model = read_model(path)[1]
    duals: Any = model.get("dual_coef_")
    theirs: Any = model.get("classes_")
    if duals is None:
        raise ValueError(
            f"{path} has no dual variables to start from. Use a model that train wrote as npz."
        )
    if duals.shape[1] != n_rows or not np.array_equal(theirs, classes):
        before = "regression" if theirs is None else f"the classes {some(theirs, 5)}"
        now = "regression" if classes is None else some(classes, 5)
        raise ValueError(
            f"{path} cannot be used as a start: it was trained on {duals.shape[1]:,} rows of "
            f"{before}, but these are {n_rows:,} rows of {now}."
        )
    return duals


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

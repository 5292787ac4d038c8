"""The choice of C."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._command import FAILED, Command
from ._options import (
    ANY_FORMULATION,
    ANY_LOSS,
    PARAMETERS,
    Data,
    Force,
    Json,
    ModelFormat,
    Quiet,
    Task,
    ZeroBased,
    parameters_of_task,
    takes,
)
from ._pictures import Plot, check_picture, new_figure, save_picture
from .train import WRITERS, certificate, destination, read_data

if TYPE_CHECKING:
    from ..estimators.searching import SearchingC


@takes(PARAMETERS.keys() - {"C", "max_time"}, loss=ANY_LOSS, multi_class=ANY_FORMULATION)
def cv(
    file: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-o",
            help="Where to write the model that is trained with the chosen C.",
            show_default="nowhere",
        ),
    ] = None,
    model_format: ModelFormat = None,
    plot: Plot = None,
    force: Force = False,
    task: Task = "classification",
    *,
    zero_based: ZeroBased = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Choose C by cross-validation, and train with it.

    Each fold trains ascending values of C, each from the solution of the one before, and is scored
    on the rows it holds out. Then a model is trained on all rows with the best C. Rows are shuffled
    first, the same way for the same --seed, and each fold gets its share of every class.

    Ends with exit code 0 if every relative duality gap is proven to be at most its tolerance, and
    with 1 if not: then C is chosen and the model written too. If the best C is the smallest or the
    largest, a warning says so. Ctrl-C writes nothing and ends with 130.

    For example:
      dualsweep cv a1a.svm
      dualsweep cv rcv1.npz --costs 0.1,1,10 --scoring f1 --model rcv1.model.npz
      dualsweep cv huge.store --memory-limit 1500 --costs 0.1,1
      dualsweep cv news20.svm.bz2 --selection one_standard_error --plot news20.png
      dualsweep cv prices.svm --task regression --scoring neg_mean_absolute_error
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    from ..estimators import LinearSVCCV, LinearSVRCV, LogisticRegressionCV

    given = parameters_of_task(task, given)
    kind: type[SearchingC] = LinearSVCCV
    if given.get("multi_class") == "multinomial":
        kind = LogisticRegressionCV
        del given["loss"]  # is its own
    splitter: type[KFold | StratifiedKFold] = StratifiedKFold
    if task == "regression":
        kind, splitter = LinearSVRCV, KFold
    given["cv"] = splitter(given["cv"], shuffle=True, random_state=given["random_state"])
    model = kind(**given, verbose=0 if quiet or json else 1)
    path, model_format = destination(file, output, model_format)
    if output is not None and output == plot:
        raise typer.BadParameter(f"--model and --plot are both {plot}.")

    with Command(json, quiet, reads=[file]) as command:
        model._validate_params()  # rather refused now than after the work
        command.will_write(output, force)
        command.will_write(plot, force, check_picture)
        X, y, _ = read_data(command, file, zero_based, model, model_format if output else None)
        started = perf_counter()
        with command.warnings():
            model.fit(X, y)
        seconds = perf_counter() - started
        if output is not None:
            WRITERS[model_format](model, path, force=force)
            command.facts["format"] = model_format

        _report(command, model)
        facts = certificate(model) | {"seconds_with_search": seconds}
        command.show(f"Model with C = {model.C_:g}", facts)
        if output is not None:
            command.wrote("model", path)
        if plot is not None:
            save_picture(_draw(model), plot, force)
            command.wrote("picture", plot)
        tol = model.tol if model.tol_search is None else model.tol_search
        if not model.converged_ or (model.search_gap_ > tol).any():
            command.code = FAILED


def _report(command: Command, model: SearchingC) -> None:
    """Note what the search found, and show a row for each C."""
    scoring = model.scoring or model._default_scoring
    command.facts |= {"C": model.C_, "scoring": scoring, "selection": model.selection}
    found = ("Cs", "mean_score", "std_error", "scores", "n_support", "search_gap", "fit_time")
    command.facts |= {name: getattr(model, f"{name}_") for name in found}
    command.table(
        f"{len(model.scores_)} folds",
        ["C", scoring.replace("_", " "), "std. error", "support vectors", "seconds", ""],
        [
            [
                f"{C:g}",
                f"{model.mean_score_[j]:.4f}",
                f"{model.std_error_[j]:.4f}",
                f"{model.n_support_[:, j].mean():,.0f}",
                f"{model.fit_time_[:, j].sum():.3g}",
                "chosen" if model.C_ == C else "",
            ]
            for j, C in enumerate(model.Cs_)
        ],
    )


def _draw(model: SearchingC) -> Any:
    from ..plotting import PANELS, PathDisplay

    figure = new_figure(*PANELS)
    PathDisplay.from_estimator(model, ax=figure.subplots(3, 1, sharex=True))
    return figure

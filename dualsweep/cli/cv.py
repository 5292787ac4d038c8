"""The choice of C."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..io._files import check_target
from ..io.liblinear import integer_classes
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
    check_parameters,
    check_task,
    class_weights,
    parse_costs,
)
from ._pictures import Plot, check_picture, new_figure, save_picture
from .train import WRITERS, certificate, destination

if TYPE_CHECKING:
    from ..estimators import LinearSVCCV, LinearSVRCV


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
    costs: Annotated[
        str,
        typer.Option(
            metavar="COSTS",
            help="Number of values of C to try, in a range that suits the lengths of the rows, or "
            "more if an end of it is best; or values, separated by commas.",
        ),
    ] = "10",
    folds: Annotated[int, typer.Option(min=2, metavar="N", help="Number of folds.")] = 5,
    scoring: Annotated[
        str | None,
        typer.Option(
            metavar="SCORING",
            help="Score to choose by, one of scikit-learn's: f1, roc_auc, balanced_accuracy, ...",
            show_default="accuracy; for regression r2",
        ),
    ] = None,
    selection: Annotated[
        str,
        typer.Option(
            metavar="SELECTION",
            help="best, or one_standard_error: the smallest C within a standard error of the best.",
        ),
    ] = "best",
    patience: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Stop after N values of C without a better score; 0 tries all values.",
        ),
    ] = 3,
    tol_search: Annotated[
        float | None,
        typer.Option(
            metavar="GAP", help="Relative duality gap for the search.", show_default="--tol"
        ),
    ] = None,
    task: Task = "classification",
    loss: AnyLoss = None,
    epsilon: Epsilon = 0.0,
    tol: Tol = 1e-3,
    max_iter: MaxIter = 1000,
    no_intercept: NoIntercept = False,
    intercept: Intercept = "penalized",
    bias: Bias = 1.0,
    class_weight: ClassWeight = None,
    schedule: Schedule = "auto",
    multi_class: MultiClass = "ovr",
    solver: Solver = "auto",
    memory_limit: MemoryLimit = None,
    n_jobs: TrainJobs = -1,
    seed: Seed = 0,
    zero_based: ZeroBased = None,
    json: Json = False,
    quiet: Quiet = False,
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

    from ..estimators import LinearSVCCV, LinearSVRCV

    loss = check_task(task, loss, epsilon, multi_class=multi_class, class_weight=class_weight)
    own: dict[str, Any] = {"multi_class": multi_class}
    kind: type[LinearSVCCV | LinearSVRCV] = LinearSVCCV
    splitter: type[KFold | StratifiedKFold] = StratifiedKFold
    if task == "regression":
        kind, splitter, own = LinearSVRCV, KFold, {"epsilon": epsilon}
    model = kind(
        Cs=parse_costs(costs),
        cv=splitter(folds, shuffle=True, random_state=seed),
        scoring=scoring,
        selection=selection,
        patience=patience or None,
        tol_search=tol_search,
        loss=loss,
        solver=solver,
        schedule=schedule,
        fit_intercept=not no_intercept,
        intercept=intercept,
        intercept_scaling=bias,
        tol=tol,
        max_iter=max_iter,
        memory_limit=in_bytes(memory_limit),
        n_jobs=n_jobs,
        random_state=seed,
        verbose=0 if quiet or json else 1,
        **own,
    )
    check_parameters(model)
    path, model_format = destination(file, output, model_format)
    if output is not None and output == plot:
        raise typer.BadParameter(f"--model and --plot are both {plot}.")

    with Command(json, quiet, reads=[file]) as command:
        if output is not None:
            command.writes(path)
            check_target(path, force=force)
        if plot is not None:
            command.writes(plot)
            check_picture(plot, force)
        X, y = command.load_or_open(file, memory_limit, zero_based=zero_based, n_jobs=n_jobs)
        if task == "classification":
            classes = classes_of(X, y)
            if output is not None and model_format == "liblinear":
                integer_classes(classes)  # rather now than after the work
            model.set_params(class_weight=class_weights(class_weight, classes))
        started = perf_counter()
        with command.warnings():
            model.fit(X, y)
        seconds = perf_counter() - started
        if output is not None:
            WRITERS[model_format](model, path, force=force)
            command.facts |= {"model": str(path), "format": model_format}
        if plot is not None:
            save_picture(_draw(model), plot, force)
            command.facts["picture"] = str(plot)

        _report(command, model)
        command.show(
            f"Model with C = {model.C_:g}", certificate(model) | {"seconds_with_search": seconds}
        )
        if output is not None:
            command.tell(f"Model written to {path}")
        if plot is not None:
            command.tell(f"Picture written to {plot}")
        if not model.converged_ or (model.search_gap_ > _tol_search(model)).any():
            command.code = FAILED


def _tol_search(model: LinearSVCCV | LinearSVRCV) -> float:
    return model.tol if model.tol_search is None else model.tol_search


def _report(command: Command, model: LinearSVCCV | LinearSVRCV) -> None:
    """Note what the search found, and show a row for each C."""
    scoring = model.scoring or model._default_scoring
    command.facts |= {
        "C": model.C_,
        "scoring": scoring,
        "selection": model.selection,
        "Cs": model.Cs_.tolist(),
        "mean_score": model.mean_score_.tolist(),
        "std_error": model.std_error_.tolist(),
        "scores": model.scores_.tolist(),
        "n_support": model.n_support_.tolist(),
        "search_gap": model.search_gap_.tolist(),
        "fit_time": model.fit_time_.tolist(),
    }
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


def _draw(model: LinearSVCCV | LinearSVRCV) -> Any:
    from ..plotting import PANELS, PathDisplay

    figure = new_figure(*PANELS)
    PathDisplay.from_estimator(model, ax=figure.subplots(3, 1, sharex=True))
    return figure

"""Options that several commands have, and how the library's parameters are called here."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from ..losses import LOSSES, REGRESSION_LOSSES
from ..solvers.policy import SOLVERS
from ..solvers.schedules import SCHEDULES
from ..training.formulations import FORMULATIONS
from ..training.parameters import BIASES, INTERCEPTS
from ..training.settings import Settings

if TYPE_CHECKING:
    from ..estimators import LinearSVC, LinearSVCCV, LinearSVR, LinearSVRCV


def positive(param: typer.CallbackParam, value: Any) -> Any:
    """Refuse a number that is not positive, or infinite."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{param.opts[0]} must be a positive number, but is {value:g}.")
    return value


def within_biases(param: typer.CallbackParam, value: Any) -> Any:
    """Refuse a value of the constant feature that cannot be squared, or divided by."""
    least, most = BIASES
    if not least <= positive(param, value) <= most:
        raise typer.BadParameter(
            f"{param.opts[0]} must be between {least:g} and {most:g}, but is {value:g}."
        )
    return value


def _either(names: Iterable[str]) -> str:
    """Return names as people list them: a, b or c."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def one_of(*names: str) -> Callable[[typer.CallbackParam, Any], Any]:
    """Return a callback that refuses other values."""

    def check(param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{param.opts[0]} must be {_either(names)}, but is {value!r}.")
        return value

    return check


def weights_or_balanced(param: typer.CallbackParam, value: str | None) -> str | None:
    """Refuse what is neither `balanced` nor weights of classes."""
    if value not in (None, "balanced"):
        _pairs(value)
    return value


def _pairs(text: str) -> dict[str, float]:
    """Return the weights in ``LABEL=WEIGHT,LABEL=WEIGHT``, by label."""
    weights: dict[str, float] = {}
    for pair in text.split(","):
        label, _, weight = pair.rpartition("=")
        try:
            weights[label.strip()] = float(weight)
        except ValueError:
            label = ""
        if not label or not 0 <= weights[label.strip()] < math.inf:
            raise typer.BadParameter(
                "--class-weight must be balanced, or LABEL=WEIGHT pairs separated by commas, such "
                f"as 1=10,-1=2, but is {text}."
            )
    return weights


def class_weights(text: str | None, classes: Any) -> Any:
    """Return what the library calls the option, for data of these classes."""
    if text in (None, "balanced"):
        return text
    labels = {_number_or_text(label): label for label in classes.tolist()}
    weights = _pairs(text)
    unknown = [name for name in weights if _number_or_text(name) not in labels]
    if unknown:
        some = ", ".join(map(str, classes[:10])) + (" ..." if len(classes) > 10 else "")
        raise ValueError(
            f"--class-weight has a weight for {', '.join(unknown)}, but the classes are {some}."
        )
    return {labels[_number_or_text(name)]: weight for name, weight in weights.items()}


def _number_or_text(label: Any) -> Any:
    """Return what a label is compared by, however a number is written."""
    try:
        return float(label)
    except ValueError:
        return str(label)


def choice(
    metavar: str, names: Iterable[str], what: str, more: str = "", default: bool | str = True
) -> Any:
    """Return an option with one of several values, which its help lists."""
    names = list(names)
    return typer.Option(
        callback=one_of(*names),
        metavar=metavar,
        help=f"{what}: {_either(names)}. {more}".strip(),
        show_default=default,
    )


def any_loss(default: str) -> Any:
    """Return an option with a loss, of classes or of regression."""
    option = choice(
        "LOSS",
        LOSSES,
        "Loss",
        f"For regression: {_either(REGRESSION_LOSSES)}.",
        default,
    )
    option.callback = one_of(*LOSSES, *REGRESSION_LOSSES)
    return option


def not_zero(param: typer.CallbackParam, value: int) -> int:
    """Refuse 0, of threads."""
    if value == 0:
        raise typer.BadParameter(f"{param.opts[0]} must not be 0; use -1 for all cores.")
    return value


# Options that several commands have.
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON and nothing else.")
]
Data: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DATA", help="Rows and labels: svmlight text, a store or .npz.")
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print errors and warnings only.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
NJobs: TypeAlias = Annotated[
    int, typer.Option(callback=not_zero, help="Number of threads; -1 uses all cores.")
]
ZeroBased: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="Whether the first column of svmlight text has index 0 or 1.",
        show_default="0 if the file has an index 0, else 1",
    ),
]

# Options of those that train.
ModelFormat: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="npz (dualsweep's own, with the certificate) or liblinear (LIBLINEAR's text).",
        show_default="by the model's name: liblinear for .model, .liblinear and .txt, else npz",
    ),
]
Loss: TypeAlias = Annotated[str, choice("LOSS", LOSSES, "Loss of one-versus-rest")]
Task: TypeAlias = Annotated[str, choice("TASK", ("classification", "regression"), "What to train")]
AnyLoss: TypeAlias = Annotated[
    str | None,
    any_loss(default=f"{Settings.loss}; for regression {next(iter(REGRESSION_LOSSES))}"),
]
Epsilon: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.0, metavar="EPSILON", help="For regression: deviations up to this cost nothing."
    ),
]
Tol: TypeAlias = Annotated[
    float,
    typer.Option(
        callback=positive, metavar="GAP", help="Relative duality gap at which training stops."
    ),
]
MaxIter: TypeAlias = Annotated[
    int, typer.Option(min=0, metavar="N", help="Most epochs (passes over the rows) for each class.")
]
NoIntercept: TypeAlias = Annotated[
    bool, typer.Option("--no-intercept", help="Train without an intercept.")
]
Intercept: TypeAlias = Annotated[
    str, choice("INTERCEPT", INTERCEPTS, "Whether the intercept counts in the penalty")
]
ClassWeight: TypeAlias = Annotated[
    str | None,
    typer.Option(
        callback=weights_or_balanced,
        metavar="WEIGHTS",
        help="Multiplies C per class: LABEL=WEIGHT pairs separated by commas (1=10,-1=2; other "
        "classes weigh 1), or balanced: all classes weigh the same in total.",
    ),
]
Bias: TypeAlias = Annotated[
    float,
    typer.Option(
        callback=within_biases,
        help="Value of the constant feature whose weight is the penalised intercept: the larger, "
        "the less it is penalised.",
    ),
]
Schedule: TypeAlias = Annotated[
    str,
    choice(
        "SCHEDULE", SCHEDULES, "Order in which sweeps visit rows", "All lead to the same optimum."
    ),
]
MultiClass: TypeAlias = Annotated[
    str,
    choice(
        "FORMULATION",
        FORMULATIONS,
        "For more than two classes",
        "The last two have a loss of their own and ignore --loss; on badly scaled data ovr is "
        "faster.",
    ),
]
Solver: TypeAlias = Annotated[
    str,
    choice(
        "SOLVER", SOLVERS, "Method: sweeps of coordinate descent, Newton steps, or both as they pay"
    ),
]
TrainJobs: TypeAlias = Annotated[
    int,
    typer.Option(callback=not_zero, help="Threads for reading and training; -1 uses all cores."),
]
Seed: TypeAlias = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, metavar="SEED", help="Seed of everything random.")
]

MemoryLimit: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="MEGABYTES",
        help="Memory for training on a store, besides what the program itself takes: some 200 MB, "
        "300 MB for cv and certify. A store that does not fit is read block by block.",
    ),
]

# What the library calls parameters, and the command line options.
OPTIONS = {
    "C": "--cost",
    "Cs": "--costs",
    "cv": "--folds",
    "n_splits": "--folds",
    "intercept_scaling": "--bias",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *(
                "loss",
                "epsilon",
                "multi_class",
                "solver",
                "schedule",
                "tol",
                "max_iter",
                "max_time",
            ),
            *("intercept", "class_weight", "memory_limit", "n_jobs", "zero_based", "warm_start"),
            *("scoring", "selection", "patience", "tol_search"),
        )
    },
}


def first_column(zero_based: bool | None) -> bool | str:
    """Return what the library calls the option."""
    return "auto" if zero_based is None else zero_based


def check_task(task: str, loss: str | None, epsilon: float, **of_classes: Any) -> str:
    """Return the loss of a task; refuse options that are of use to the other one only."""
    losses, others = (LOSSES, REGRESSION_LOSSES)[:: 1 if task == "classification" else -1]
    if loss in others:
        raise typer.BadParameter(f"--loss {loss} is not a loss of {task}; use {_either(losses)}.")
    if task == "regression":
        for name, value in of_classes.items():
            if value != getattr(Settings, name):
                raise typer.BadParameter(f"{OPTIONS[name]} does not apply to --task regression.")
        return loss or next(iter(REGRESSION_LOSSES))
    if epsilon:
        raise typer.BadParameter("--epsilon applies to --task regression only.")
    return loss or Settings.loss


def check_parameters(model: LinearSVC | LinearSVCCV | LinearSVR | LinearSVRCV) -> None:
    """Find out before anything is read that an option has a value it cannot have."""
    try:
        model._validate_params()
    except ValueError as error:
        raise typer.BadParameter(in_options(str(error))) from None


def parse_costs(text: str) -> Any:
    """Return how many values of C are asked for, or which."""
    try:
        if text.isdecimal():
            values: Any = int(text)
        else:
            values = [float(item) for item in text.removesuffix(",").split(",")]
        if all(0 < value < math.inf for value in np.atleast_1d(values)):
            return values
    except ValueError:
        pass  # not a number
    raise typer.BadParameter(
        "--costs must be the number of values of C to try, at least 1, or positive values "
        f"separated by commas (0.1,1,10), but is {text}."
    )


def in_options(message: str) -> str:
    """Let a message of the library speak of options, not of parameters."""
    message = re.sub(
        r"The '(\w+)' parameter of LinearSV[CR](?:CV)?", lambda m: OPTIONS.get(m[1], m[0]), message
    )
    for name, option in OPTIONS.items():
        message = re.sub(rf"(?<![\w./-]){name}=[\"']?([\w.+-]+)[\"']?", rf"{option} \1", message)
        if "_" in name or name in ("Cs", "tol"):  # others are words too
            message = re.sub(rf"(?<![\w./-]){name}(?![\w/-]|\.\w)", option, message)
    return message.replace("pass force=True.", "--force.")

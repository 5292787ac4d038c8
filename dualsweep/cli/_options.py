"""Options: those of parameters, which follow from their table, and others of several commands."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from operator import not_
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import numpy as np
import typer

from .._parameters import OneOf, Parameter, Whole, either, parameters_of
from ..losses import LOSSES, REGRESSION_LOSSES
from ..training.formulations import FORMULATIONS
from ..training.parameters import Choice, Classification, OfClasses, OfTargets, Regression

MEGABYTE = 1 << 20
TASKS = {"classification": Classification, "regression": Regression}

Function = TypeVar("Function", bound=Callable[..., None])


class _All(Choice, Classification, Regression):
    """All parameters there are."""


PARAMETERS = {name: it for name, it in parameters_of(_All).items() if it.help}

# What the library calls parameters, and the command line options.
FLAGS = {
    name: it.flags or (f"--{name.replace('_', '-')}",) for name, it in parameters_of(_All).items()
}
OPTIONS = {name: flags[0] for name, flags in FLAGS.items() if name != "fit_intercept"}
OPTIONS |= {"n_splits": "--folds", "zero_based": "--zero-based"}


def not_zero(n_jobs: int) -> int:
    """Refuse 0, of threads."""
    if n_jobs == 0:
        raise typer.BadParameter("--n-jobs must not be 0; use -1 for all cores.")
    return n_jobs


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


def parse_weights(text: str) -> str | dict[str, float]:
    """Return ``balanced``, or the weights in ``LABEL=WEIGHT,LABEL=WEIGHT`` by label."""
    if text == "balanced":
        return text
    try:
        pairs = [pair.rpartition("=") for pair in text.split(",")]
        weights = {label.strip(): float(weight) for label, _, weight in pairs}
        if all(label for label, _, _ in pairs) and all(0 <= w < math.inf for w in weights.values()):
            return weights
    except ValueError:
        pass  # not a number
    raise typer.BadParameter(
        "--class-weight must be balanced, or LABEL=WEIGHT pairs separated by commas, such as "
        f"1=10,-1=2, but is {text}."
    )


# What differs between a parameter and its option: type, default, range, what is shown as the
# default, and how the value of the option becomes that of the parameter.
DIFFERENT: dict[str, dict[str, Any]] = {
    "Cs": {"type": str, "min": None, "convert": parse_costs},
    "class_weight": {"convert": parse_weights},
    "fit_intercept": {"default": False, "convert": not_},
    "memory_limit": {"convert": lambda megabytes: megabytes * MEGABYTE},
    "n_jobs": {"default": -1, "min": None, "convert": not_zero},
    "patience": {"min": 0, "convert": lambda n: n or None},
    "random_state": {"default": 0},
    "scoring": {"show_default": "accuracy; for regression r2"},
    "tol_search": {"show_default": "--tol"},
}

# The losses of both tasks, for commands that have --task or a model.
ANY_LOSS: dict[str, Any] = {
    "allowed": (OneOf([*LOSSES, *REGRESSION_LOSSES]),),
    "default": None,
    "show_default": f"{OfClasses.loss}; for regression {OfTargets.loss}",
    "help": f"Loss: {either(LOSSES)}. For regression: {either(REGRESSION_LOSSES)}.",
}


# All formulations, for commands that train or judge: that of probabilities has its own loss.
ANY_FORMULATION: dict[str, Any] = {
    "allowed": (OneOf(FORMULATIONS),),
    "help": "For more than two classes: {choices}. All but ovr have a loss of their own and ignore "
    "--loss, multinomial the logistic one; on badly scaled data ovr is faster.",
}


def takes(names: Collection[str], **changes: dict[str, Any]) -> Callable[[Function], Function]:
    """Return a decorator of a command: the options of these parameters are its ``**given``.

    They come before the arguments that are keywords only, in the order of the table, and their
    values are those of the parameters. `changes` are, by parameter, what an option of the command
    has instead; see `DIFFERENT`.
    """
    options = [_option(name, **changes.get(name, {})) for name in PARAMETERS if name in names]

    def decorate(command: Function) -> Function:
        signature = inspect.signature(command, eval_str=True)
        *own, _ = signature.parameters.values()
        n_first = sum(argument.kind is not argument.KEYWORD_ONLY for argument in own)
        own[n_first:n_first] = options
        command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return command

    return decorate


def _option(name: str, **changes: Any) -> inspect.Parameter:
    """Return the option of a parameter, as an argument of a command."""
    how = DIFFERENT.get(name, {}) | changes
    own = {field: how.pop(field) for field in ("allowed", "default", "help") if field in how}
    it = replace(PARAMETERS[name], **own)
    convert: Any = how.pop("convert", None)
    allowed: Any = it.allowed[0]
    kind = how.pop("type", {"int": int, "float": float, "bool": bool}.get(allowed.kind, str))
    text = it.help
    if isinstance(allowed, OneOf):
        text = text.format(choices=either(allowed.names))
    elif isinstance(allowed, Whole):
        how = {"min": allowed.least, "max": allowed.most} | how

    def check(value: Any) -> Any:
        if value is not None:
            value = convert(value) if convert else value
            if not it.accepts(value):
                raise typer.BadParameter(f"{FLAGS[name][0]} must be {_said(it)}, but is {value}.")
        return value

    option = typer.Option(*FLAGS[name], callback=check, metavar=it.metavar, help=text, **how)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=it.default,
        annotation=Annotated[kind | None, option],
    )


def parameters_of_task(task: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a task; refuse options that only the other one has."""
    if task not in TASKS:
        raise typer.BadParameter(f"--task must be {either(TASKS)}, but is {task}.")
    [other] = TASKS.keys() - {task}
    own, others = parameters_of(TASKS[task]), parameters_of(TASKS[other])
    for name, it in others.items():
        if name not in own and given[name] != it.default:
            raise typer.BadParameter(f"{OPTIONS[name]} applies to --task {other} only.")
    losses, loss = own["loss"], given["loss"]
    if given.get("multi_class") == "multinomial":
        if loss not in (None, "logistic"):
            raise typer.BadParameter(
                f"--multi-class multinomial has the logistic loss, so leave out --loss {loss}."
            )
        loss = "logistic"
    loss = losses.default if loss is None else loss
    if not losses.accepts(loss):
        raise typer.BadParameter(f"--loss {loss} is not a loss of {task}; use {_said(losses)}.")
    kept = {name: value for name, value in given.items() if name in own or name not in others}
    return kept | {"loss": loss}


def _said(it: Parameter) -> str:
    """Return what a parameter allows, as one types it."""
    return it.what.replace('"', "")


def class_weights(weights: Any, classes: Any) -> Any:
    """Return weights of classes by label, for labels that the data have."""
    if not isinstance(weights, dict):
        return weights
    labels = {_number_or_text(label): label for label in classes.tolist()}
    unknown = ", ".join(name for name in weights if _number_or_text(name) not in labels)
    if unknown:
        raise ValueError(
            f"--class-weight has a weight for {unknown}, but the classes are {some(classes, 10)}."
        )
    return {labels[_number_or_text(name)]: weight for name, weight in weights.items()}


def some(classes: Any, most: int) -> str:
    """Return classes separated by commas, the first of many."""
    return ", ".join(map(str, classes[:most])) + (" ..." if len(classes) > most else "")


def _number_or_text(label: Any) -> float | str:
    """Return what a label is compared by, however a number is written."""
    try:
        return float(label)
    except ValueError:
        return str(label)


def first_column(zero_based: bool | None) -> bool | str:
    """Return what the library calls the option."""
    return "auto" if zero_based is None else zero_based


def in_options(message: str) -> str:
    """Let a message of the library speak of options, not of parameters."""
    message = re.sub(
        r"The '(\w+)' parameter of (?:LinearSV[CR]|LogisticRegression)(?:CV)?",
        lambda m: OPTIONS.get(m[1], m[0]),
        message,
    )
    for name, option in OPTIONS.items():
        message = re.sub(rf"(?<![\w./-]){name}=[\"']?([\w.+-]+)[\"']?", rf"{option} \1", message)
        if "_" in name or name in ("Cs", "tol"):  # others are words too
            message = re.sub(rf"(?<![\w./-]){name}(?![\w/-]|\.\w)", option, message)
    return message.replace("pass force=True.", "--force.")


# Options that several commands have, and that are no parameters.
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
ModelFormat: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="npz (dualsweep's own, with the certificate) or liblinear (LIBLINEAR's text).",
        show_default="by the model's name: liblinear for .model, .liblinear and .txt, else npz",
    ),
]
Task: TypeAlias = Annotated[
    str, typer.Option(metavar="TASK", help=f"What to train: {either(TASKS)}.")
]

"""What commands have in common: how they speak to people and to scripts, and how they end."""

from __future__ import annotations

import json as jsonlib
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from .._interrupt import INTERRUPTED, leave_on_interrupt, raise_on_interrupt
from ..io import Store, load_data, open_store
from ..losses import LOSSES
from ..schedules import SCHEDULES
from ..solve import SOLVERS
from ..training.formulations import FORMULATIONS
from ..training.progress import announce_compilation

if TYPE_CHECKING:
    from ..estimators import LinearSVC, LinearSVCCV

__all__ = [
    "BAD",
    "FAILED",
    "INTERRUPTED",
    "MEGABYTE",
    "ClassWeight",
    "Data",
    "Force",
    "Json",
    "Loss",
    "MaxIter",
    "ModelFormat",
    "MultiClass",
    "NJobs",
    "NoIntercept",
    "Quiet",
    "Schedule",
    "Seed",
    "Shell",
    "Solver",
    "Tol",
    "TrainJobs",
    "ZeroBased",
    "check_parameters",
    "first_column",
    "in_options",
    "one_of",
    "parse_costs",
    "positive",
]

FAILED, BAD = 1, 2
MEGABYTE = 1 << 20


def positive(param: typer.CallbackParam, value: Any) -> Any:
    """Refuse a number that is not positive, or infinite."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{param.opts[0]} must be a positive number, but is {value:g}.")
    return value


def one_of(*names: str) -> Callable[[typer.CallbackParam, Any], Any]:
    """Return a callback that refuses other values."""

    def check(param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and value not in names:
            raise typer.BadParameter(
                f"{param.opts[0]} must be {' or '.join(names)}, but is {value!r}."
            )
        return value

    return check


def not_zero(param: typer.CallbackParam, value: int) -> int:
    """Refuse 0, of threads."""
    if value == 0:
        raise typer.BadParameter(f"{param.opts[0]} must not be 0; -1 is for all cores.")
    return value


# Options that several commands have.
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")
]
Data: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DATA", help="Rows and labels: text, a store or .npz.")
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print neither progress nor result.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace what exists.")]
NJobs: TypeAlias = Annotated[
    int, typer.Option(callback=not_zero, help="Threads; -1 for all cores.")
]
ZeroBased: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="Whether the first column of text has index 0, or 1.",
        show_default="0 if that occurs in the file",
    ),
]

# Options of those that train.
ModelFormat: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="npz (dualsweep's own, with the certificate) or liblinear (LIBLINEAR's text).",
        show_default="liblinear if the model's name ends in .model, .liblinear or .txt",
    ),
]
Loss: TypeAlias = Annotated[
    str,
    typer.Option(callback=one_of(*LOSSES), metavar="LOSS", help="hinge, squared_hinge or squared."),
]
Tol: TypeAlias = Annotated[
    float, typer.Option(callback=positive, help="Relative duality gap to prove.")
]
MaxIter: TypeAlias = Annotated[
    int, typer.Option(min=0, help="Sweeps over the rows to give up after, per class.")
]
NoIntercept: TypeAlias = Annotated[bool, typer.Option("--no-intercept", help="Train no intercept.")]
ClassWeight: TypeAlias = Annotated[
    str | None,
    typer.Option(
        callback=one_of("balanced"),
        metavar="balanced",
        help="balanced: rare classes weigh as much as others.",
    ),
]
Schedule: TypeAlias = Annotated[
    str,
    typer.Option(
        callback=one_of(*SCHEDULES),
        metavar="SCHEDULE",
        help="Which rows a sweep visits: auto, adaptive, shrinking, alternating, permuted, "
        "cyclic or online. All lead to the same optimum.",
    ),
]
MultiClass: TypeAlias = Annotated[
    str,
    typer.Option(
        callback=one_of(*FORMULATIONS),
        metavar="FORMULATION",
        help="For more than two classes: ovr, crammer_singer or weston_watkins. The last two "
        "have losses of their own and no use for --loss; on badly scaled data ovr is faster.",
    ),
]
Solver: TypeAlias = Annotated[
    str,
    typer.Option(
        callback=one_of(*SOLVERS),
        metavar="SOLVER",
        help="auto, sweep (coordinate descent) or newton.",
    ),
]
TrainJobs: TypeAlias = Annotated[
    int,
    typer.Option(callback=not_zero, help="Threads to read, and to train; -1 for all cores."),
]
Seed: TypeAlias = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="Seeds whatever is random.")
]

# What the library calls parameters, and the command line options.
OPTIONS = {
    "C": "--cost",
    "Cs": "--costs",
    "cv": "--folds",
    "n_splits": "--folds",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("loss", "multi_class", "solver", "schedule", "tol", "max_iter", "max_time"),
            *("class_weight", "memory_limit", "n_jobs", "zero_based"),
            *("scoring", "selection", "patience", "tol_search"),
        )
    },
}


class Shell:
    """One run of a command, as a ``with`` block.

    Parameters
    ----------
    json : bool
        Whether to print `facts` as JSON at the end, and before that nothing.
    quiet : bool, default=False
        Whether to say nothing but errors.
    """

    def __init__(self, json: bool, quiet: bool = False) -> None:
        self.json = json
        self.talks = not (json or quiet)
        self.console = Console(quiet=not self.talks, highlight=False)
        self.facts: dict[str, Any] = {}
        self.code = 0  # to end with
        self._outputs: dict[Path, int | None] = {}
        self._left = False  # whether Ctrl-C ended the process before

    def __enter__(self) -> Shell:
        self._left = raise_on_interrupt()  # there may be files to tidy up, or a model to keep
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """End the command; what users can run into is one line and an exit code."""
        if self._left:
            leave_on_interrupt()
        if isinstance(error, KeyboardInterrupt):
            written = [str(path) for path, was in self._outputs.items() if _number(path) != was]
            self.say(f"Interrupted; {', '.join(written) or 'nothing'} is written.")
            self.code = INTERRUPTED
        elif isinstance(error, OSError | ValueError | ImportError | MemoryError):
            message = in_options(str(error).partition("\n")[0]) or type(error).__name__
            self.facts = {"error": message}
            self.say(f"Error: {message}")
            self.code = BAD
        elif error is not None:
            return
        if self.json:
            typer.echo(jsonlib.dumps(_plain(self.facts)))
        if self.code:
            raise typer.Exit(self.code) from None

    def writes(self, path: Path) -> None:
        """Note what is going to be written, for people who want to know when they interrupt."""
        self._outputs[path] = _number(path)

    def say(self, text: str) -> None:
        """Tell people on stderr, on one line."""
        typer.echo(text, err=True)

    def tell(self, text: str) -> None:
        """Tell people who want to know."""
        self.console.print(text, soft_wrap=True, markup=False)

    def show(self, title: str, facts: Mapping[str, Any]) -> None:
        """Note facts for scripts, and show people a table of them."""
        self.facts |= facts
        if self.talks:
            table = Table("", "", show_header=False, title=escape(title), title_justify="left")
            for name, value in facts.items():
                table.add_row(name.replace("_", " "), escape(_readable(value)))
            self.console.print(table)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        """Show people a table, its numbers to the right."""
        if self.talks:
            table = Table(title=escape(title), title_justify="left")
            for j, column in enumerate(columns):
                numbers = all(row[j].lstrip("-")[:1].isdigit() for row in rows)
                table.add_column(column, justify="right" if numbers else "left")
            for row in rows:
                table.add_row(*map(escape, row))
            self.console.print(table)

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Say what the library warns of inside the block, each thing once and on one line."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        for text in dict.fromkeys(str(warning.message).partition("\n")[0] for warning in caught):
            self.say(f"Warning: {in_options(text)}")

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show how many bytes of `total` are done, as the caller tells it."""
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not (self.talks and sys.stderr.isatty()),
        )
        with bar, announce_compilation(self.talks):
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    def load(self, path: Path, *, zero_based: bool | None, **options: Any) -> tuple[Any, Any]:
        """Read data, and say how much that was."""
        started = perf_counter()
        size = path.stat().st_size if path.is_file() else 0
        with self.progress(f"Reading {path}", size) as watch:
            X, y = load_data(path, zero_based=first_column(zero_based), watch=watch, **options)
        seconds = perf_counter() - started
        n_entries = X.nnz if hasattr(X, "nnz") else X.size
        rate = f" in {seconds:.2f} s, {size / seconds / 1e6:.0f} MB/s" if size else ""
        self._tell_size(path, X.shape, n_entries, rate, seconds_reading=seconds)
        return X, y

    def open(self, path: Path) -> Store:
        """Open a store, and say how much is in it."""
        store = open_store(path)
        blocks = f", {store.n_bytes / MEGABYTE:,.0f} MB in {len(store):,} blocks"
        self._tell_size(path, store.shape, store.n_entries, blocks, bytes=store.n_bytes)
        return store

    def _tell_size(
        self, path: Path, shape: tuple[int, int], n_entries: int, more: str, **facts: Any
    ) -> None:
        rows, features = shape
        self.facts |= {"data": str(path), "rows": rows, "features": features, "entries": n_entries}
        self.facts |= facts
        self.tell(f"{path}: {rows:,} rows, {features:,} features, {n_entries:,} entries{more}")


def _number(path: Path) -> int | None:
    """Return the number of what is there, which what is written in its place does not have."""
    return path.stat().st_ino if path.exists() else None


def first_column(zero_based: bool | None) -> bool | str:
    """Return what the library calls the option."""
    return "auto" if zero_based is None else zero_based


def check_parameters(model: LinearSVC | LinearSVCCV) -> None:
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
        "--costs must be how many values of C to try, at least 1, or positive values with commas "
        f"(0.1,1,10), but is {text}."
    )


def in_options(message: str) -> str:
    """Let a message of the library speak of options, not of parameters."""
    message = re.sub(
        r"The '(\w+)' parameter of LinearSVC(?:CV)?", lambda m: OPTIONS.get(m[1], m[0]), message
    )
    for name, option in OPTIONS.items():
        message = re.sub(rf"(?<![\w./-]){name}=[\"']?([\w.+-]+)[\"']?", rf"{option} \1", message)
        if "_" in name or name in ("Cs", "tol"):  # others are words too
            message = re.sub(rf"(?<![\w./-]){name}(?![\w/-]|\.\w)", option, message)
    return message.replace("another name or force.", "another name or --force.")


def _plain(value: Any) -> Any:
    """Return what JSON can say: NumPy's numbers become Python's, those not finite null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _readable(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2e}" if 0 < abs(value) < 0.01 else f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_readable(item)}" for name, item in value.items())
    return str(value)

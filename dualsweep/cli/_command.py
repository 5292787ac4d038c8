"""What commands have in common: how they speak to people and to scripts, and how they end."""

from __future__ import annotations

import json as jsonlib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import typer
from rich import progress as rich
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._interrupt import INTERRUPTED, leave_on_interrupt, raise_on_interrupt
from ..io import Store, load_data, open_store
from ..io._files import check_target, overlap
from ..training.progress import announce_compilation
from ._options import MEGABYTE, first_column, in_options

FAILED, BAD = 1, 2  # exit codes


class Command:
    """One run of a command, as a ``with`` block.

    With `json` it prints `facts` at the end, and before that nothing; if `quiet`, nothing but
    errors. What it `reads` must not be written to.
    """

    def __init__(
        self, json: bool, quiet: bool = False, *, reads: Iterable[Path | None] = ()
    ) -> None:
        self.json = json
        self.talks = not (json or quiet)
        self.console = Console(quiet=not self.talks, highlight=False)
        self.facts: dict[str, Any] = {}
        self.code = 0  # to end with
        self._inputs = [path for path in reads if path]
        self._outputs: dict[Path, int | None] = {}
        self._left = False  # whether Ctrl-C ended the process before

    def __enter__(self) -> Command:
        self._left = raise_on_interrupt()  # there may be files to tidy up, or a model to keep
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """End the command; what users can run into is one line and an exit code."""
        if self._left:
            leave_on_interrupt()
        if isinstance(error, KeyboardInterrupt):
            written = [str(path) for path, was in self._outputs.items() if _inode(path) != was]
            self.say(f"Interrupted. {', '.join(written) or 'Nothing'} was written.")
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

    def will_write(
        self, path: Path | None, force: bool, check: Callable[..., object] = check_target
    ) -> None:
        """Note what is going to be written, to name it after Ctrl-C; None is nothing.

        Raise ValueError if that would replace what the command reads, whatever `--force` says, or
        what it writes itself, and what `check` raises: rather now than after the work.
        """
        if path is None:
            return
        self.refuse_inputs(path)
        for other in self._outputs:
            if overlap(path, other):
                raise ValueError(f"{path} and {other} are the same; choose two names to write to.")
        self._outputs[path] = _inode(path)
        check(path, force=force)

    def refuse_inputs(self, path: Path) -> None:
        """Raise ValueError if writing to `path` would change what the command reads."""
        for source in self._inputs:
            if overlap(path, source):
                raise ValueError(
                    f"{path} would replace {source}, which this command reads; choose another name."
                    if path != source
                    else f"{path} is read and would be replaced; choose another name to write to."
                )

    def say(self, text: str) -> None:
        """Tell people on stderr, on one line."""
        typer.echo(text, err=True)

    def tell(self, text: str) -> None:
        """Tell people who want to know."""
        self.console.print(text, soft_wrap=True, markup=False)

    def wrote(self, what: str, path: Path) -> None:
        """Tell where something was written."""
        self.facts[what] = str(path)
        self.tell(f"{what.capitalize()} written to {path}")

    def show(self, title: str, facts: Mapping[str, Any]) -> None:
        """Note facts for scripts, and show people a table of them."""
        self.facts |= facts
        rows = [[name.replace("_", " "), _readable(value)] for name, value in facts.items()]
        self.table(title, ["", ""], rows, header=False)

    def table(
        self, title: str, columns: list[str], rows: list[list[str]], header: bool = True
    ) -> None:
        """Show people a table; below a header, numbers are to the right."""
        table = Table(title=escape(title), title_justify="left", show_header=header)
        for j, column in enumerate(columns):
            numbers = header and all(row[j].lstrip("-")[:1].isdigit() for row in rows)
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
        bar = rich.Progress(
            rich.TextColumn("{task.description}"),
            rich.BarColumn(bar_width=20),
            rich.DownloadColumn(),
            rich.TransferSpeedColumn(),
            rich.TimeRemainingColumn(),
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
        with self.warnings(), self.progress(f"Reading {path}", size) as watch:
            X, y = load_data(path, zero_based=first_column(zero_based), watch=watch, **options)
        seconds = perf_counter() - started
        rate = f" in {seconds:.2f} s, {size / seconds / 1e6:.0f} MB/s" if size else ""
        self._tell_size(path, X.shape, X.nnz if hasattr(X, "nnz") else X.size, rate)
        self.facts["seconds_reading"] = seconds
        return X, y

    def open(self, path: Path) -> Store:
        """Open a store, and say how much is in it."""
        store = open_store(path)
        blocks = f", {store.n_bytes / MEGABYTE:,.0f} MB in {len(store):,} blocks"
        self._tell_size(path, store.shape, store.n_entries, blocks)
        self.facts["bytes"] = store.n_bytes
        return store

    def load_or_open(self, path: Path, memory_limit: int | None, **options: Any) -> tuple[Any, Any]:
        """Read data; with a limit open a store, which has labels of its own."""
        if memory_limit is None:
            return self.load(path, **options)
        if path.exists() and not path.is_dir():
            raise ValueError(
                f"--memory-limit needs a store. Make one: dualsweep convert {path} STORE"
            )
        return self.open(path), None

    def _tell_size(self, path: Path, shape: tuple[int, int], n_entries: int, more: str) -> None:
        rows, features = shape
        self.facts |= {"data": str(path), "rows": rows, "features": features, "entries": n_entries}
        self.tell(f"{path}: {rows:,} rows, {features:,} features, {n_entries:,} entries{more}")


def classes_of(X: Any, y: Any) -> Any:
    """Return the labels there are, each once, of a store its own."""
    if y is not None:
        return np.unique(y)
    return np.unique(np.concatenate([np.unique(X.read_labels(b)) for b in range(len(X))]))


def _inode(path: Path) -> int | None:
    """Return the inode of a file, which changes when the file is replaced."""
    return path.stat().st_ino if path.exists() else None


def _plain(value: Any) -> Any:
    """Return what JSON can say: NumPy's numbers become Python's, those not finite null."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
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

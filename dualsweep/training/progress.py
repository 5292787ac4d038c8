"""What a training shows while it runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._jit import on_compilation

__all__ = ["Bars", "announce_compilation"]


@contextmanager
def announce_compilation(show: bool) -> Iterator[None]:
    """Say once, should a kernel have to be compiled inside the ``with`` block, that it is."""
    said = False

    def say() -> None:
        nonlocal said
        if not said:
            said = True
            from rich.console import Console

            Console().print("Compiling kernels for this kind of data, once per machine ...")

    if show:
        on_compilation.append(say)
    try:
        yield
    finally:
        if show:
            on_compilation.remove(say)


class Bars:
    """One progress bar per problem: how far the gap has come down to tol, in decades.

    A problem may be solved several times, for one C after the other, in `steps`. Of many problems,
    only those that are being solved are shown.
    """

    MANY = 12

    def __init__(self, tol: float, show: bool, steps: int = 1) -> None:
        self.tol, self.steps = tol, steps
        self.step, self.label = 0, ""  # which step it is, and what to call it
        self.tasks: list[Any] = []
        self.display: Any = _rich_progress() if show else None

    def open(self, names: list[str]) -> None:
        """Show the bars, if there are none yet."""
        if self.display is not None and not self.tasks:
            visible = len(names) <= self.MANY
            self.tasks = [
                self.display.add_task(name, total=self.steps, note="", visible=visible)
                for name in names
            ]
            self.display.start()

    def close(self) -> None:
        """Leave the bars as they are."""
        if self.tasks:
            self.display.stop()

    def update(
        self,
        problem: int,
        epoch: int,
        relative_gap: float,
        active: int,
        step: float | None = None,
        share: float = 1.0,
        label: str | None = None,
    ) -> None:
        """Move the bar of a problem, on its way from `step` to ``step + share``."""
        if self.display is None:
            return
        done = 1.0
        if relative_gap > self.tol:
            done = max(math.log(min(relative_gap, 1.0)) / math.log(self.tol), 0.0)
        note = f"gap {relative_gap:.1e} / {self.tol:.0e}  epoch {epoch}  {active:,} rows active"
        self.display.update(
            self.tasks[problem],
            completed=(self.step if step is None else step) + share * done,
            note=(self.label if label is None else label) + note,
            visible=len(self.tasks) <= self.MANY or done < 1.0,
        )


def _rich_progress() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )

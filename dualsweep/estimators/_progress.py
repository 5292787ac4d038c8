"""What a fit shows while it runs: a progress bar, and scikit-learn's callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..problem import Progress

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in: earlier releases have no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged."""
        return method


__all__ = ["Bars", "CallbackSupportMixin", "epoch_callbacks", "with_callbacks"]

Watch = Callable[[Progress], bool]


class Bars:
    """One progress bar per binary problem: how far the gap has come down to tol, in decades."""

    def __init__(self, names: list[str], tol: float, show: bool) -> None:
        self.tol = tol
        self.tasks: list[Any] = []
        self.display: Any = None
        if show:
            self.display = _rich_progress()
            self.tasks = [self.display.add_task(name, total=1.0, note="") for name in names]

    def __enter__(self) -> Bars:
        if self.display is not None:
            self.display.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.display is not None:
            self.display.stop()

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        if self.display is not None:
            self.display.console.print(text, highlight=False)

    def update(self, problem: int, epoch: int, relative_gap: float, active: int) -> None:
        """Move the bar of a problem."""
        if self.display is None:
            return
        done = 1.0
        if relative_gap > self.tol:
            done = max(math.log(min(relative_gap, 1.0)) / math.log(self.tol), 0.0)
        note = f"gap {relative_gap:.1e} / {self.tol:.0e}  epoch {epoch}  {active:,} rows active"
        self.display.update(self.tasks[problem], completed=done, note=note)


def _rich_progress() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )


def epoch_callbacks(estimator: Any, context: Any, X: Any, y: Any, fitted: Any = None) -> Watch:
    """Return a watcher that runs scikit-learn's callbacks around every epoch.

    `fitted` makes, from the weights, the attributes of an estimator that can predict; a callback
    that asks for a stop gets it.
    """
    data = {"estimator": estimator, "X": X, "y": y}
    epochs = [context.subcontext(task_name="epoch").call_on_fit_task_begin(**data)]

    def watch(progress: Progress) -> bool:
        attributes = None if fitted is None else (lambda: fitted(progress.w))
        stop = epochs[-1].call_on_fit_task_end(**data, reconstruction_attributes=attributes)
        if progress.epoch < context.max_subtasks:
            epochs.append(context.subcontext(task_name="epoch").call_on_fit_task_begin(**data))
        return bool(stop)

    return watch

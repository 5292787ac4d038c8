"""What a fit shows while it runs: a progress bar, and scikit-learn's callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._jit import on_compilation
from ..problem import Progress

__all__ = ["Bars", "FitCallbacks", "announce_compilation"]


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

    def __init__(self, names: list[str], tol: float, show: bool, steps: int = 1) -> None:
        self.tol = tol
        self.tasks: list[Any] = []
        self.display: Any = None
        if show:
            self.display = _rich_progress()
            visible = len(names) <= self.MANY
            self.tasks = [
                self.display.add_task(name, total=steps, note="", visible=visible) for name in names
            ]

    def __enter__(self) -> Bars:
        if self.display is not None:
            self.display.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.display is not None:
            self.display.stop()

    def update(
        self,
        problem: int,
        epoch: int,
        relative_gap: float,
        active: int,
        step: float = 0.0,
        share: float = 1.0,
        label: str = "",
    ) -> None:
        """Move the bar of a problem, on its way from `step` to ``step + share``."""
        if self.display is None:
            return
        done = 1.0
        if relative_gap > self.tol:
            done = max(math.log(min(relative_gap, 1.0)) / math.log(self.tol), 0.0)
        note = f"gap {relative_gap:.1e} / {self.tol:.0e}  epoch {epoch}  {active:,} rows active"
        visible = len(self.tasks) <= self.MANY or done < 1.0
        self.display.update(
            self.tasks[problem], completed=step + share * done, note=label + note, visible=visible
        )


def _rich_progress() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )


class FitCallbacks:
    """scikit-learn's callbacks around the fit, each of its binary problems, and their epochs."""

    def __init__(self, estimator: Any, X: Any, y: Any, n_problems: int) -> None:
        self.data = {"estimator": estimator, "X": X, "y": y}
        self.on = bool(getattr(estimator, "_skl_callbacks", None))
        self.single = n_problems == 1
        if self.on:
            subtasks = estimator.max_iter + 1 if self.single else n_problems
            self.fit = estimator._init_callback_context(
                max_subtasks=subtasks, sequential_subtasks=self.single
            )
            self.fit.call_on_fit_task_begin(**self.data)

    def problem(self, p: int, fitted: Callable[[Any], Any]) -> ProblemCallbacks:
        """Return the callbacks of the p-th problem; `fitted` makes attributes from its weights."""
        if not self.on:
            return ProblemCallbacks(None, self.data, None)
        if self.single:
            return ProblemCallbacks(self.fit, self.data, fitted)
        context = self.fit.subcontext(
            "class", task_id=p, max_subtasks=self.data["estimator"].max_iter + 1
        )
        # The weights of one class alone make no estimator.
        return ProblemCallbacks(context.call_on_fit_task_begin(**self.data), self.data, None)

    def close(self) -> None:
        """End the fit's task."""
        if self.on:
            self.fit.call_on_fit_task_end(**self.data)


class ProblemCallbacks:
    """The epochs of one problem as tasks: one is always open, the last never runs."""

    def __init__(self, context: Any, data: dict[str, Any], fitted: Any) -> None:
        self.context, self.data, self.fitted = context, data, fitted
        if context is not None:
            self._open()

    def _open(self) -> None:
        self.epoch = self.context.subcontext("epoch").call_on_fit_task_begin(**self.data)

    def __call__(self, progress: Progress) -> bool:
        """End an epoch; return whether a callback asks to stop."""
        if self.context is None:
            return False
        attributes = None if self.fitted is None else self.fitted(progress.w)
        stop = self.epoch.call_on_fit_task_end(**self.data, reconstruction_attributes=attributes)
        self._open()
        return bool(stop)

    def close(self, whole_problem: bool) -> None:
        """End the epoch that did not run, and the problem's task if it has one of its own."""
        if self.context is not None:
            self.epoch.call_on_fit_task_end(**self.data)
            if whole_problem:
                self.context.call_on_fit_task_end(**self.data)

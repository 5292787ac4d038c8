"""What a training shows while it runs, and what to say of a model that has not converged."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np

from .. import _tuning
from .._clock import seconds_compiling
from .._jit import on_compilation
from ..kernels.certificate import relative
from ..problems.result import Progress

logger = logging.getLogger("dualsweep")

_suggested = False  # whether they were, in this process


@contextmanager
def on_each_compilation(tell: Callable[[], None]) -> Iterator[None]:
    """Call a function before each kernel that is compiled inside the ``with`` block."""
    on_compilation.append(tell)
    try:
        yield
    finally:
        on_compilation.remove(tell)


def announce_compilation(show: bool) -> AbstractContextManager[None]:
    """Say once that kernels compile, if one does inside the ``with`` block."""

    @cache  # once
    def say() -> None:
        from rich.console import Console

        Console().print("Compiling kernels for this kind of data ...")

    return on_each_compilation(say) if show else nullcontext()


@contextmanager
def suggest_warm_up() -> Iterator[None]:
    """Suggest `dualsweep warm-up`, once per process, if the ``with`` block compiles for long."""
    before, compiles = seconds_compiling(), False

    def look() -> None:
        nonlocal compiles
        compiles = True
        seconds = seconds_compiling() - before
        if seconds > _tuning.LONG_COMPILATION:
            _suggest(seconds)

    try:
        with on_each_compilation(look):
            yield
    finally:
        if compiles:
            look()


def _suggest(seconds: float) -> None:
    """Print the suggestion on stderr, or log it where logging is configured."""
    global _suggested
    if _suggested or os.environ.get("DUALSWEEP_QUIET", "0") not in ("", "0"):
        return
    _suggested = True
    text = (
        f"compiling kernels for this kind of data ({seconds:.0f} s so far). `dualsweep warm-up` "
        "compiles all of them ahead of time."
    )
    if logger.hasHandlers() or logger.level > logging.WARNING:
        logger.info(text)
    elif sys.stderr is not None:
        print(f"dualsweep: {text} DUALSWEEP_QUIET=1 turns this line off.", file=sys.stderr)


class Bars:
    """Progress bars: how far gaps have come down to tol, in decades.

    One per problem; of more than a handful, one for all of them, with how many are done. A problem
    may be solved several times, for one C after the other, in `steps`.
    """

    HANDFUL = 6

    def __init__(self, tol: float, show: bool, steps: int = 1) -> None:
        self.tol, self.steps = tol, steps
        self.step, self.label = 0, ""  # which step it is, and what to call it
        self.completed: list[float] = []  # of each problem, in steps
        self.display: Any = _rich_progress() if show else None

    @property
    def shown(self) -> bool:
        """Whether there is anything on the screen."""
        return self.display is not None

    def open(self, names: list[str], what: str) -> None:
        """Show the bars, if there are none yet; `what` is what the problems are."""
        if self.display is not None and not self.completed:
            self.completed, self.what = [0.0] * len(names), what
            self.many = len(names) > self.HANDFUL
            shown = [what] if self.many else names
            self.tasks = [
                self.display.add_task(name, total=self._total(), note="") for name in shown
            ]
            self.display.start()

    def extend(self, steps: int) -> None:
        """Give every problem at least this number of steps."""
        if steps > self.steps and self.completed:
            self.steps = steps
            for task in self.tasks:
                self.display.update(task, total=self._total())

    def _total(self) -> int:
        return self.steps * (len(self.completed) if self.many else 1)

    def close(self) -> None:
        """Leave the bars as they are."""
        if self.completed:
            self.display.stop()

    def tell(self, text: str) -> None:
        """Say something, above the bars if there are any."""
        if self.display is not None:
            self.display.console.print(text, highlight=False, markup=False)

    def update(
        self,
        problem: int,
        progress: Progress,
        step: float | None = None,
        share: float = 1.0,
        label: str | None = None,
        ended: bool = False,
    ) -> None:
        """Move the bar of a problem, on its way from `step` to ``step + share``."""
        if self.display is None:
            return
        epoch, gap, active = progress[:3]
        done = 1.0
        if gap > self.tol and not ended:
            done = max(math.log(min(gap, 1.0)) / math.log(self.tol), 0.0)
        self.completed[problem] = (self.step if step is None else step) + share * done
        if self.many:
            n_done = sum(completed >= self.steps for completed in self.completed)
            note = f"{n_done} of {len(self.completed)} {self.what} done"
            self.display.update(self.tasks[0], completed=sum(self.completed), note=note)
            return
        note = self.label if label is None else label
        note += f"gap {gap:.1e} / {self.tol:.0e}  epoch {epoch}  {active:,} rows active"
        self.display.update(self.tasks[problem], completed=self.completed[problem], note=note)


def _rich_progress() -> Any:
    from rich import progress as rich

    return rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(bar_width=20),
        rich.TextColumn("{task.fields[note]}"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left:"),
        rich.TimeRemainingColumn(),
    )


def shortfall(model: Any) -> str:
    """Say how far a fitted model is from `tol`, what that proves, and how many classes are."""
    gap = model.relative_gap_
    relation = "<=" if model.converged_ else ">"
    text = f"relative duality gap {gap:.1e} {relation} tol {model.tol:.1e}"
    text += f" after {model.n_iter_} epoch{'s' * (model.n_iter_ != 1)}"
    last = model.history_[np.flatnonzero(np.diff(model.history_["problem"], append=-1))]
    several = len(last) > 1
    if several:
        text += f": {_classes(last, model.tol)}"
    if gap >= 0.9:
        return text if several else f"{text}; the objective may be far above the optimum"
    percent = 100 * gap / (1 - gap)
    most = f"{percent:.2g} %" if percent < 99 else f"{percent:.0f} %"
    each, its = ("each", "its") if several else ("the", "the")
    return f"{text}; {each} objective is at most {most} above {its} optimum"


def _classes(last: Any, tol: float) -> str:
    """Say how many classes are at which gap, going by the last certificate of each."""
    gaps = np.array([*map(relative, last["gap"].tolist(), last["primal"].tolist())])
    done, begun = gaps <= tol, last["dual"] != 0.0
    parts = [f"of {len(last)} classes {done.sum()} are at tol"]
    short = gaps[~done & begun]
    if len(short):
        gaps_left = dict.fromkeys(f"{gap:.1e}" for gap in (short.min(), short.max()))
        parts.append(f"{len(short)} at {' to '.join(gaps_left)}")
    idle = int((~done & ~begun).sum())
    if idle:
        parts.append(f"{idle} were not begun and score by how frequent they are")
    return ", ".join(parts)

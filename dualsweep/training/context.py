"""What a training does to the process, and what it tells people."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

from .._interrupt import DeferredInterrupt
from .._threads import Workers, count_threads, one_blas_thread
from ..problems.result import Progress, Result
from .progress import Bars, announce_compilation, suggest_warm_up


class Watcher:
    """Sees how a training goes on; this one looks away."""

    stepwise = False  # whether it looks at the weights of each epoch

    def begin(self, names: list[str], attributes: Callable[..., dict[str, Any]]) -> None:
        """See the problems; `attributes` are those of an estimator with some weights."""

    def start(self, p: int) -> None:
        """See the p-th problem begin."""

    def epoch(self, p: int, progress: Progress) -> bool:
        """See the p-th problem after a sweep or Newton step; return whether to stop it."""
        return False

    def end(self, p: int, result: Result) -> None:
        """See the p-th problem at its end."""

    def finish(self) -> None:
        """See that all problems have ended."""


class Context:
    """Interrupts, threads, the limit of BLAS, progress and who watches, as a ``with`` block.

    Ctrl-C inside the block is noted, which `stop` returns, and delivered when the block ends: by
    then there is a model. When the last of several overlapping blocks has ended, the process is as
    it was. `n_jobs` follows joblib's rules. Progress goes to `tol`, in `steps` trainings one after
    the other. `suggest` is whether to suggest compiling ahead if kernels compile for long.
    """

    def __init__(
        self,
        *,
        n_jobs: int | None = 1,
        verbose: bool = False,
        tol: float = 1e-3,
        steps: int = 1,
        watcher: Watcher | None = None,
        stop: Callable[[], bool] | None = None,
        suggest: bool = True,
    ) -> None:
        self.workers = Workers(count_threads(n_jobs))
        self.verbose, self.tol, self.suggest = verbose, tol, suggest
        self.bars = Bars(tol, show=verbose, steps=steps)
        self.watcher = Watcher() if watcher is None else watcher
        self._interrupt, self._stop = DeferredInterrupt(), stop

    def __enter__(self) -> Context:
        self._stack = ExitStack()
        suggestion = suggest_warm_up() if self.suggest else nullcontext()
        parts = announce_compilation(self.verbose), suggestion, self._interrupt, one_blas_thread()
        for part in (*parts, self.workers):
            self._stack.enter_context(part)
        self._stack.callback(lambda: self.bars.close())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._stack.close()
        if kind is None:
            self.deliver()

    def stop(self) -> bool:
        """Return whether to end with what there is."""
        return self._interrupt.requested if self._stop is None else self._stop()

    def deliver(self) -> None:
        """Let a noted Ctrl-C do now what it would have done."""
        self._interrupt.deliver()

    def give_up(self) -> None:
        """After Ctrl-C, when there is nothing to keep: let it do what it would have done."""
        if self.stop():
            self.deliver()
            raise KeyboardInterrupt  # whoever got it carried on

    def part(self, watcher: Watcher, stop: Callable[[], bool], workers: Workers) -> Context:
        """Return the context of one of several trainings at once, which share the threads."""
        part = Context(watcher=watcher, stop=stop)
        part.workers = workers
        return part

    def show_anew(self) -> None:
        """Leave the progress that is shown as it is, and show what follows anew."""
        self.bars.close()
        self.bars = Bars(self.tol, show=self.verbose)

    def begin(self, names: list[str], attributes: Callable[..., dict[str, Any]]) -> None:
        """Tell of the problems."""
        self.bars.open(names, "classes")
        self.watcher.begin(names, attributes)

    def epoch(self, p: int, progress: Progress) -> bool:
        """Tell of a sweep or Newton step; return whether to stop the problem."""
        self.bars.update(p, progress)
        return self.watcher.epoch(p, progress)

    def end(self, p: int, result: Result) -> None:
        """Tell of the end of a problem."""
        active = int(result.history["active"][-1])
        last = Progress(result.n_iter, result.relative_gap, active, result.w)
        self.bars.update(p, last, ended=result.n_iter > 0)
        self.watcher.end(p, result)

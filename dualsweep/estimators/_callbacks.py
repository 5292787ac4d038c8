"""scikit-learn's callbacks, where there are any."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from ..problems.result import Progress, Result
from ..training import Watcher

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in: earlier releases have no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged."""
        return method


__all__ = ["HAS_CALLBACKS", "CallbackSupportMixin", "FitCallbacks", "with_callbacks"]


class FitCallbacks(Watcher):
    """scikit-learn's callbacks around a fit, each of its problems, and their epochs.

    Epochs are tasks of which one is always open; the last never runs.
    """

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self.data = {"estimator": estimator, "X": X, "y": y}
        self.on = bool(getattr(estimator, "_skl_callbacks", None))
        self.subtasks = estimator.max_iter + 1

    def begin(self, names: list[str], attributes: Callable[..., dict[str, Any]]) -> None:
        """Begin the fit's task."""
        self.single, self.attributes = len(names) == 1, attributes
        if self.on:
            self.fit = self.data["estimator"]._init_callback_context(
                max_subtasks=self.subtasks if self.single else len(names),
                sequential_subtasks=self.single,
            )
            self.fit.call_on_fit_task_begin(**self.data)
            self.problems: dict[int, Any] = {}
            self.epochs: dict[int, Any] = {}

    def start(self, p: int) -> None:
        """Begin the task of a problem, if there are several, and its first epoch."""
        if self.on:
            self.problems[p] = self.fit
            if not self.single:
                problem = self.fit.subcontext("class", task_id=p, max_subtasks=self.subtasks)
                self.problems[p] = problem.call_on_fit_task_begin(**self.data)
            self._open(p)

    def _open(self, p: int) -> None:
        epoch = self.problems[p].subcontext("epoch")
        self.epochs[p] = epoch.call_on_fit_task_begin(**self.data)

    def epoch(self, p: int, progress: Progress) -> bool:
        """End an epoch and begin another; return whether a callback asks to stop."""
        if not self.on:
            return False
        attributes = None  # the weights of one class alone make no estimator
        if self.single:
            attributes = self.attributes(deepcopy(progress.w))
        stop = self.epochs[p].call_on_fit_task_end(
            **self.data, reconstruction_attributes=attributes
        )
        self._open(p)
        return bool(stop)

    def end(self, p: int, result: Result) -> None:
        """End the epoch that did not run, and the problem's task if it has one of its own."""
        if self.on:
            self.epochs[p].call_on_fit_task_end(**self.data)
            if not self.single:
                self.problems[p].call_on_fit_task_end(**self.data)

    def finish(self) -> None:
        """End the fit's task."""
        if self.on:
            self.fit.call_on_fit_task_end(**self.data)

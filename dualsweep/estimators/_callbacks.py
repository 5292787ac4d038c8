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


__all__ = ["HAS_CALLBACKS", "CallbackSupportMixin", "callbacks_of", "with_callbacks"]


def callbacks_of(estimator: Any, X: Any, y: Any) -> Watcher:
    """Return what calls the callbacks of an estimator during a fit."""
    has_some = bool(getattr(estimator, "_skl_callbacks", None))
    return _FitCallbacks(estimator, X, y) if has_some else Watcher()


class _FitCallbacks(Watcher):
    """scikit-learn's callbacks around a fit, each of its problems, and their epochs.

    Epochs are tasks of which one is always open; the last never runs.
    """

    stepwise = True

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self.data = {"estimator": estimator, "X": X, "y": y}
        self.subtasks = estimator.max_iter + 1
        self.problems: dict[int, Any] = {}
        self.epochs: dict[int, Any] = {}

    def begin(self, names: list[str], attributes: Callable[..., dict[str, Any]]) -> None:
        """Begin the fit's task."""
        self.single, self.attributes = len(names) == 1, attributes
        self.fit = self.data["estimator"]._init_callback_context(
            max_subtasks=self.subtasks if self.single else len(names),
            sequential_subtasks=self.single,
        )
        self.fit.call_on_fit_task_begin(**self.data)

    def start(self, p: int) -> None:
        """Begin the task of a problem, if there are several, and its first epoch."""
        self.problems[p] = self.fit
        if not self.single:
            problem = self.fit.subcontext("class", task_id=p, max_subtasks=self.subtasks)
            self.problems[p] = problem.call_on_fit_task_begin(**self.data)
        self._begin_epoch(p)

    def _begin_epoch(self, p: int) -> None:
        epoch = self.problems[p].subcontext("epoch")
        self.epochs[p] = epoch.call_on_fit_task_begin(**self.data)

    def epoch(self, p: int, progress: Progress) -> bool:
        """End an epoch and begin another; return whether a callback asks to stop."""
        # The weights of one class alone make no estimator.
        attributes = self.attributes(deepcopy(progress.w)) if self.single else None
        stop = self.epochs[p].call_on_fit_task_end(
            **self.data, reconstruction_attributes=attributes
        )
        self._begin_epoch(p)
        return bool(stop)

    def end(self, p: int, result: Result) -> None:
        """End the epoch that did not run, and the problem's task if it has one of its own."""
        self.epochs[p].call_on_fit_task_end(**self.data)
        if not self.single:
            self.problems[p].call_on_fit_task_end(**self.data)

    def finish(self) -> None:
        """End the fit's task."""
        self.fit.call_on_fit_task_end(**self.data)

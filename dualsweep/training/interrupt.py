"""Ctrl-C that waits for a safe moment."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class DeferredInterrupt:
    """Note Ctrl-C inside the ``with`` block instead of raising it; a second one raises at once.

    The block polls `requested` and leaves in good order; `deliver` then does what Ctrl-C would
    have done. Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None

    def __enter__(self) -> DeferredInterrupt:
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            if callable(previous):
                self._previous = previous
                signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.requested:
            self._previous(signum, frame)
        self.requested = True

    def __exit__(self, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def deliver(self) -> None:
        """Hand a noted Ctrl-C to whoever would have got it."""
        if self.requested:
            self.requested = False
            self._previous(signal.SIGINT, None)

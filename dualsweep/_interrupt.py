"""Ctrl-C: it ends the process, raises KeyboardInterrupt, or waits until there is a model.

Imports next to nothing: the command line begins with it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

INTERRUPTED = 130  # exit code, as a shell has it for a process that the signal ended


def _leave(*_: object, leave: Any = os._exit) -> None:
    """End the process; by an argument, since modules are empty at the end of the interpreter."""
    leave(INTERRUPTED)


def leave_on_interrupt() -> None:
    """Let Ctrl-C end the process at once and without a word.

    As long as there is nothing to put in order, that is better than KeyboardInterrupt, which
    imports, destructors and callbacks mostly turn into a traceback. A process that ignores Ctrl-C,
    as a shell's background jobs do, ignores it still.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        sys.unraisablehook = _repeat


def _repeat(lost: sys.UnraisableHookArgs) -> None:
    """Send Ctrl-C again if a destructor or a callback, which cannot raise, was interrupted."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        from threading import Timer

        Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)


def raise_on_interrupt() -> bool:
    """Let Ctrl-C raise KeyboardInterrupt if it would end the process; return whether it would."""
    leaves = signal.getsignal(signal.SIGINT) is _leave
    if leaves:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return leaves


class DeferredInterrupt:
    """Note Ctrl-C inside the ``with`` block instead of raising it; a second one raises at once.

    The block polls `requested` and leaves in good order; `deliver` then does what Ctrl-C would
    have done. Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None

    def __enter__(self) -> DeferredInterrupt:
        previous = signal.getsignal(signal.SIGINT)
        if callable(previous):
            self._previous = previous
            try:
                signal.signal(signal.SIGINT, self._note)
            except ValueError:  # outside the main thread
                self._previous = None
        return self

    def _note(self, *received: Any) -> None:
        if self.requested:
            self._previous(*received)
        self.requested = True

    def __exit__(self, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def deliver(self) -> None:
        """Hand a noted Ctrl-C to whoever would have got it."""
        if self.requested:
            self.requested = False
            self._previous(signal.SIGINT, None)

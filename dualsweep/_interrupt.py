"""Ctrl-C at the command line. Imports next to nothing, to be there before everything else."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130  # exit code, as a shell has it for a process that the signal ended


def _leave(*_: object, leave: object = os._exit) -> None:
    """End the process; by an argument, since modules are empty at the end of the interpreter."""
    leave(INTERRUPTED)  # type: ignore[operator]


def leave_on_interrupt() -> None:
    """Let Ctrl-C end the process at once and without a word.

    As long as there is nothing to put in order, that is better than KeyboardInterrupt, which
    imports, destructors and callbacks make of what they will, mostly a traceback. A process that
    ignores Ctrl-C, as a shell's background jobs do, ignores it still.
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

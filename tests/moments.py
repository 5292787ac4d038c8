"""Moments that the work tells, not the clock of a machine that may be busy."""

from __future__ import annotations

import os
import signal
from threading import Event, Lock

from dualsweep._interrupt import DeferredInterrupt
from dualsweep.estimators import path
from dualsweep.problems import run as solver_run
from dualsweep.problems.run import Run
from dualsweep.solvers import free
from dualsweep.training import fitting

PATIENCE = 600.0  # seconds, for what comes in any case


class Interrupt:
    """Ctrl-C at some epoch of whatever is trained, and how many epochs there were.

    To be made before the training, which takes over the signal; `at` can be set later. Where
    threads train, the one whose epoch it is waits until the main thread has noted it.
    """

    def __init__(self, monkeypatch, epoch: int | None = None) -> None:
        self.epochs, self.when_noted = 0, 0
        self.at, self._lock, self._noted = epoch, Lock(), Event()
        self._tick, self._note = Run.tick, DeferredInterrupt._note
        monkeypatch.setattr(Run, "tick", lambda run, *told: self.tick(run, *told))
        monkeypatch.setattr(DeferredInterrupt, "_note", lambda *told: self.note(*told))

    def tick(self, run, *told) -> None:
        with self._lock:
            self.epochs += 1
            now = self.epochs == self.at
        if now:
            os.kill(os.getpid(), signal.SIGINT)
            assert self._noted.wait(PATIENCE)
        self._tick(run, *told)

    def note(self, *told) -> None:
        self._note(*told)
        self.when_noted = self.epochs
        self._noted.set()

    @property
    def epochs_after(self) -> int:
        """How many epochs ended after Ctrl-C was noted."""
        assert self._noted.is_set()
        return self.epochs - self.when_noted


class Clock:
    """A clock that goes on by as much whenever the training looks at it."""

    def __init__(self, monkeypatch, step: float) -> None:
        self.now, self.step, self._lock = 0.0, step, Lock()
        for module in (solver_run, free, fitting, path):
            monkeypatch.setattr(module, "clock", self)

    def __call__(self) -> float:
        with self._lock:
            self.now += self.step
            return self.now


# For a process of its own, before its command line: Ctrl-C at the epoch that comes first in it.
AT_EPOCH = """
import os, signal, sys
from dualsweep import __main__
from dualsweep.problems.run import Run

at, tick, epochs = int(sys.argv.pop(1)), Run.tick, 0

def ticking(run, *told):
    global epochs
    epochs += 1
    if epochs == at:
        os.kill(os.getpid(), signal.SIGINT)
    tick(run, *told)

Run.tick = ticking
signal.signal(signal.SIGINT, signal.default_int_handler)
__main__.main()
"""

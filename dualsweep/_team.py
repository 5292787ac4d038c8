"""Threads that stay inside a kernel while phases of work come and go.

To hand a pass over to sixteen threads takes Python one to two milliseconds, as long as the pass.
Threads of a team are handed over once. Inside the kernel they take the parts of a phase from a
shared counter, and wait for the next phase with a short spin; a leader in Python opens phases and
decides what comes next. Parts are fixed, and their sums are added up in a fixed order, so the
result does not depend on who does them.
"""

from __future__ import annotations

import platform
import weakref
from collections.abc import Callable
from time import sleep

import numpy as np
from llvmlite import ir
from numba.core import types

from ._jit import jit, jit_inline
from ._llvm import INT, Call, intrinsic
from ._threads import Workers, count_cores
from ._typing import Array

INT64 = types.int64

DISMISSED, NO_PART = -1, -2  # instead of a phase

# Places of a team's numbers: each has a cache line. The first is three numbers in one, which are
# read at once: the phase, how many parts it has, and in the lowest bits how many were begun.
BEGUN, DONE, LEFT = 0, 8, 16
PART_BITS, PHASE_BITS = 20, 40
ENDED = -(1 << 62)

# Polls for a part before a thread leaves, about a millisecond, and seconds between two looks of the
# leader at whether the others are done.
PATIENCE, PAUSE = 20_000, 1e-4


class Team:
    """Threads that do the parts of a kernel's phases as a leader opens them.

    Parameters
    ----------
    workers : Workers
        The threads.
    kernel : callable
        Takes the team's numbers and a number of polls. Does parts that `next_part` hands out until
        that returns a negative phase, which it returns.
    patience : int
        Polls for a part before a thread leaves.
    """

    def __init__(
        self,
        workers: Workers,
        kernel: Callable[[Array, int], int],
        patience: int = PATIENCE,
    ) -> None:
        self.workers, self.kernel, self.patience = workers, kernel, patience
        self.numbers = np.zeros(24, np.int64)
        self.called = 0

    def do(self, phase: int, count: int) -> None:
        """Do a phase of `count` parts with whoever has time."""
        open_phase(self.numbers, phase, count)
        if count > 1 and self.workers.n_threads > 1:
            self._call(min(count, self.workers.n_threads, count_cores()) - 1)
        self.called += 1  # the leader leaves as others do
        self.kernel(self.numbers, 1)
        while not are_done(self.numbers, count):
            sleep(PAUSE)

    def dismiss(self) -> None:
        """Let go of the threads that wait for the next phase."""
        end_phases(self.numbers)

    def _call(self, wanted: int) -> None:
        """Call threads until this many are inside the kernel, or on their way."""
        missing = wanted - self.called + int(self.numbers[LEFT])
        if missing <= 0:
            return
        # Places in the queue that nobody has time for must not keep the kernel's arrays alive.
        reference = weakref.ref(self)

        def come() -> None:
            team = reference()
            if team is not None:
                team.kernel(team.numbers, team.patience)

        self.called += missing
        self.workers.call(come, missing)


@jit_inline
def next_part(team: Array, polls: int) -> tuple[int, int, int]:
    """Return a phase, a part of it to do, and how many parts it has.

    The phase is negative if there is nothing to do: DISMISSED, or NO_PART after so many polls.
    """
    mask = (1 << PART_BITS) - 1
    for _ in range(polls):
        begun = _load(team, BEGUN)
        if begun >= 0 and (begun & mask) < (begun >> PART_BITS & mask):
            begun = _add_one(team, BEGUN)  # which may be the next phase by now
        if begun < 0:
            _add_one(team, LEFT)
            return DISMISSED, 0, 0
        part, count = begun & mask, begun >> PART_BITS & mask
        if part < count:
            return begun >> PHASE_BITS, part, count
        _pause()
    _add_one(team, LEFT)
    return NO_PART, 0, 0


@jit_inline
def finish_part(team: Array) -> None:
    """Count a part as done."""
    _add_one(team, DONE)


@jit
def are_done(team: Array, count: int) -> bool:
    """Wait for a moment until so many parts are done; return whether they are."""
    for _ in range(PATIENCE):
        if _load(team, DONE) == count:
            return True
        _pause()
    return False


@jit
def open_phase(team: Array, phase: int, count: int) -> None:
    """Offer the parts of a phase."""
    _store(team, DONE, 0)
    _store(team, BEGUN, phase << PHASE_BITS | count << PART_BITS)


@jit
def end_phases(team: Array) -> None:
    """Offer nothing more."""
    _store(team, BEGUN, ENDED)


@intrinsic(lambda array, index: array[index], INT64, None, INT64)
def _load(call: Call) -> ir.Value:
    """Return ``array[index]`` as it is now, and let nothing be read before it."""
    place = call.array(0).pointer(call.args[1])
    return call.builder.load_atomic(place, ordering="acquire", align=8, typ=INT)


@intrinsic(lambda array, index, value: array.put(index, value), types.void, None, INT64, INT64)
def _store(call: Call) -> None:
    """Let ``array[index]`` be a value when all that was written before it is there."""
    place = call.array(0).pointer(call.args[1])
    call.builder.store_atomic(call.args[2], place, ordering="release", align=8)


def _increase(array: Array, index: int) -> int:
    array[index] += 1
    return int(array[index]) - 1


@intrinsic(_increase, INT64, None, INT64)
def _add_one(call: Call) -> ir.Value:
    """Add 1 to ``array[index]`` at once; return what it was."""
    place = call.array(0).pointer(call.args[1])
    return call.builder.atomic_rmw("add", place, ir.Constant(INT, 1), ordering="acq_rel")


@intrinsic(lambda: None, types.void)
def _pause(call: Call) -> None:
    """Let the other thread of a core have it for a moment, where there is a word for that."""
    if platform.machine() in ("x86_64", "AMD64"):
        call.instruct("llvm.x86.sse2.pause")

"""Threads that stay inside a kernel from phase to phase.

Python takes one to two milliseconds to hand a pass to sixteen threads, as long as the pass itself.
The threads of a team are called once. Inside the kernel they take the parts of a phase from a
shared counter, and poll for the next phase for a moment. The leader, in Python, opens a phase, does
parts like the others, waits until all are done, and decides what comes next. Parts are fixed, and
callers add up their sums in a fixed order: who does which part changes nothing.
"""

from __future__ import annotations

import platform
import sys
import weakref
from collections.abc import Callable
from time import sleep

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from ._jit import jit, jit_inline
from ._llvm import INT, Call, intrinsic
from ._threads import Workers, count_cores
from ._typing import Array

INT64 = types.int64

DISMISSED, NO_PART = -1, -2  # instead of a phase

# Places of a team's numbers, each in a cache line of its own. BEGUN packs three numbers, so that
# they are read at once: the phase, its number of parts, and in the lowest bits how many were begun.
BEGUN, DONE, LEFT = 0, 8, 16
PART_BITS, PHASE_BITS = 20, 40

# Polls for a part before a thread leaves, about a millisecond. PAUSE: seconds between two looks of
# the leader at whether all parts are done.
PATIENCE, PAUSE = 20_000, 1e-4


class Team:
    """Threads that do the parts of a kernel's phases as a leader opens them.

    The kernel takes the team's numbers and how often to poll for a part. It does the parts that
    `next_part` hands out until there is none, and returns the negative phase it got instead.
    """

    def __init__(self, workers: Workers, kernel: Callable[[Array, int], int]) -> None:
        self.workers, self.kernel, self.patience = workers, kernel, PATIENCE
        self.numbers = np.zeros(24, np.int64)
        self.called = 0  # how often a thread has entered the kernel, or is about to

    def do(self, phase: int, count: int) -> None:
        """Do a phase of `count` parts, together with the threads that have time."""
        open_phase(self.numbers, phase, count)
        if count > 1 and self.workers.n_threads > 1:
            self._call(min(count, self.workers.n_threads, count_cores()) - 1)
        self.called += 1  # the leader leaves as others do
        self.kernel(self.numbers, 1)
        while not are_done(self.numbers, count):
            sleep(PAUSE)

    def dismiss(self) -> None:
        """Let go of the threads that wait for the next phase."""
        open_phase(self.numbers, DISMISSED, 0)

    def _call(self, wanted: int) -> None:
        """Call threads until this many are inside the kernel or about to enter it."""
        missing = wanted - self.called + int(self.numbers[LEFT])
        if missing <= 0:
            return
        # A place in the queue that no thread has time for must not keep the kernel's arrays alive.
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
        begun = load(team, BEGUN)
        if begun >= 0 and (begun & mask) < (begun >> PART_BITS & mask):
            begun = add_one(team, BEGUN)  # which may be the next phase by now
        if begun < 0:
            add_one(team, LEFT)
            return DISMISSED, 0, 0
        part, count = begun & mask, begun >> PART_BITS & mask
        if part < count:
            return begun >> PHASE_BITS, part, count
        pause()
    add_one(team, LEFT)
    return NO_PART, 0, 0


@jit_inline
def finish_part(team: Array) -> None:
    """Count a part as done."""
    add_one(team, DONE)


@jit
def are_done(team: Array, count: int) -> bool:
    """Wait for a moment for so many parts to be done; return whether they are."""
    for _ in range(PATIENCE):
        if load(team, DONE) == count:
            return True
        pause()
    return False


@jit
def open_phase(team: Array, phase: int, count: int) -> None:
    """Offer the parts of a phase; none are left once it is DISMISSED."""
    store(team, DONE, 0)
    store(team, BEGUN, phase << PHASE_BITS | count << PART_BITS)


@intrinsic(lambda array, index: array[index], INT64, None, INT64)
def load(call: Call) -> ir.Value:
    """Return ``array[index]`` as it is now; nothing after this is read before it."""
    place = call.array(0).pointer(call.args[1])
    return call.builder.load_atomic(place, ordering="acquire", align=8, typ=INT)


@intrinsic(lambda array, index, value: array.put(index, value), types.void, None, INT64, INT64)
def store(call: Call) -> None:
    """Set ``array[index]``; others see all that was written before once they see it."""
    place = call.array(0).pointer(call.args[1])
    call.builder.store_atomic(call.args[2], place, ordering="release", align=8)


def _increase(array: Array, index: int) -> int:
    array[index] += 1
    return int(array[index]) - 1


@intrinsic(_increase, INT64, None, INT64)
def add_one(call: Call) -> ir.Value:
    """Add 1 to ``array[index]`` atomically; return what it was."""
    place = call.array(0).pointer(call.args[1])
    return call.builder.atomic_rmw("add", place, ir.Constant(INT, 1), ordering="acq_rel")


def _replace(array: Array, index: int, old: int, new: int) -> bool:
    found = bool(array[index] == old)
    if found:
        array[index] = new
    return found


@intrinsic(_replace, types.boolean, None, INT64, INT64, INT64)
def replace(call: Call) -> ir.Value:
    """Set ``array[index]`` to `new` if it is `old`, atomically; return whether it was."""
    _, index, old, new = call.args
    place = call.array(0).pointer(index, INT)
    found = call.builder.cmpxchg(place, old, new, ordering="acq_rel", failordering="acquire")
    return call.builder.zext(call.builder.extract_value(found, 1), ir.IntType(1))


@intrinsic(lambda: None, types.void)
def yield_core(call: Call) -> None:
    """Let another thread have the core, if the system can be told."""
    if sys.platform != "win32":
        kind = ir.FunctionType(ir.IntType(32), [])
        function = cgutils.get_or_insert_function(call.builder.module, kind, "sched_yield")
        call.builder.call(function, [])


@intrinsic(lambda: None, types.void)
def pause(call: Call) -> None:
    """Leave the core to its other thread for a moment, if the processor can."""
    if platform.machine() in ("x86_64", "AMD64"):
        call.instruct("llvm.x86.sse2.pause")

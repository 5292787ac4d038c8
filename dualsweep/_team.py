"""Threads inside one kernel call: the parts of one phase after the other, without Python's lock.

A pass that Python's threads share takes the lock twice for each of them, and a thread that sleeps
needs some 50 microseconds to wake up. Where passes are short and many, all threads call the same
kernel instead, and stay in it. What they have in common is a few integers, the team: which phase it
is, how many of its parts somebody has begun, how many are done, and how many threads have left.
Whoever does the last part of a phase does what one thread has to do, and opens the next phase.

Parts are for whoever asks, so threads may come late, leave, and come back. A thread that finds
nothing to do for a while leaves: others may need its core.

Where Python decides what the next phase is, one thread is the leader: it opens a phase, does parts
of it, and waits for those of others, who stay in the kernel from one phase to the next; see `Team`.
"""

from __future__ import annotations

import platform
import weakref
from collections.abc import Callable
from time import sleep
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from ._jit import intrinsic, jit, jit_inline
from ._threads import Workers, count_cores

OVER, STEP_DONE, NO_PART = -1, -2, -3  # instead of a phase, and what a kernel of a team returns

# Places of a team's numbers: each has a cache line. The first is three numbers in one, which are
# read at once: the phase, how many parts it has, and in the lowest bits how many were begun.
BEGUN, DONE, END, LEFT = 0, 8, 16, 24
PART_BITS, PHASE_BITS = 20, 40
ENDED = -(1 << 62)

# Looks for a part before a thread leaves, about a millisecond, and seconds until it comes back.
PATIENCE, PAUSE = 20_000, 1e-4


def new_team(phase: int, count: int) -> Any:
    """Return a team at the start of a phase of so many parts."""
    team = np.zeros(32, np.int64)
    team[BEGUN] = phase << PHASE_BITS | count << PART_BITS
    return team


class Team:
    """Threads that do the parts of a kernel's phases as a leader opens them.

    Parameters
    ----------
    workers : Workers
        The threads.
    kernel : callable
        Does parts with a team's numbers until it has looked so many times in vain for another: see
        `next_part`.
    """

    def __init__(self, workers: Workers, kernel: Callable[[Any, int], int]) -> None:
        self.workers, self.kernel = workers, kernel
        self.numbers = new_team(0, 0)
        self.called = 0

    def do(self, phase: int, count: int, helped: bool = True) -> None:
        """Do a phase of so many parts, alone or with whoever has time."""
        open_phase(self.numbers, phase, count)
        if helped and count > 1 and self.workers.n_threads > 1:
            self._call(min(count, self.workers.n_threads, count_cores()) - 1)
        self.called += 1  # the leader leaves as others do
        self.kernel(self.numbers, 1)
        while not are_done(self.numbers, count):
            sleep(PAUSE)

    def dismiss(self) -> None:
        """Let go of those who wait for the next phase."""
        end_phases(self.numbers)

    def _call(self, wanted: int) -> None:
        """See to it that so many threads are there, or on their way."""
        missing = wanted - self.called + int(self.numbers[LEFT])
        if missing <= 0:
            return
        # Places in the queue that nobody has time for do not keep what the kernel works on.
        reference = weakref.ref(self)

        def come() -> None:
            team = reference()
            if team is not None:
                team.kernel(team.numbers, PATIENCE)

        self.called += missing
        self.workers.call(come, missing)


def work_together(
    workers: Workers, team: Any, kernel: Callable[[], int], stop: Callable[[], bool]
) -> None:
    """Let all threads call `kernel` until it returns OVER.

    STEP_DONE, which it returns to one of them now and then, is for a look at whether to stop.
    """

    def member(t: int) -> None:
        while (state := kernel()) != OVER:
            if stop():
                team[END] = 1
            if state == NO_PART:
                sleep(PAUSE)

    n_threads = workers.n_threads
    workers.map(member, range(min(n_threads, count_cores()) if n_threads > 1 else 1))


@jit_inline
def next_part(team: Any, looks: int) -> tuple[int, int, int]:
    """Return a phase, a part of it to do, and how many it has; or OVER or NO_PART and nothing."""
    mask = (1 << PART_BITS) - 1
    for _ in range(looks):
        begun = _load(team, BEGUN)
        if begun >= 0 and (begun & mask) < (begun >> PART_BITS & mask):
            begun = _add_one(team, BEGUN)  # which may be the next phase by now
        if begun < 0:
            _add_one(team, LEFT)
            return OVER, 0, 0
        part, count = begun & mask, begun >> PART_BITS & mask
        if part < count:
            return begun >> PHASE_BITS, part, count
        _pause()
    _add_one(team, LEFT)
    return NO_PART, 0, 0


@jit_inline
def is_last_part(team: Any, count: int) -> bool:
    """Note that a part is done; tell whether it was the last of its phase."""
    return _add_one(team, DONE) == count - 1


@jit
def are_done(team: Any, count: int) -> bool:
    """Wait a while until so many parts are done; tell whether they are."""
    for _ in range(PATIENCE):
        if _load(team, DONE) == count:
            return True
        _pause()
    return False


@jit_inline
def open_phase(team: Any, phase: int, count: int) -> None:
    """Let the parts of a phase be done."""
    _store(team, DONE, 0)
    _store(team, BEGUN, phase << PHASE_BITS | count << PART_BITS)


@jit_inline
def end_phases(team: Any) -> None:
    """Let nothing more be done."""
    _store(team, BEGUN, ENDED)


@jit_inline
def wants_end(team: Any) -> bool:
    """Tell whether somebody was told to stop."""
    return _load(team, END) != 0


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic(lambda array, index: array[index])
def _load(typingctx: Any, array: Any, index: Any) -> Any:
    """Return ``array[index]`` as it is now, and let nothing be read before it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], *args)
        return builder.load_atomic(address, ordering="acquire", align=8)

    return types.int64(array, types.int64), codegen


def _set(array: Any, index: int, value: int) -> None:
    array[index] = value


@intrinsic(_set)
def _store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Let ``array[index]`` be a value when all that was written before it is there."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], address, ordering="release", align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), codegen


def _increase(array: Any, index: int) -> int:
    array[index] += 1
    return int(array[index]) - 1


@intrinsic(_increase)
def _add_one(typingctx: Any, array: Any, index: Any) -> Any:
    """Add 1 to ``array[index]`` at once; return what it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], *args)
        one = ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", address, one, ordering="acq_rel")

    return types.int64(array, types.int64), codegen


@intrinsic(lambda: None)
def _pause(typingctx: Any) -> Any:
    """Let the other thread of a core have it for a moment, where there is a word for that."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), codegen

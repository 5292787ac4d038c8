"""A clock that stands still while kernels are compiled, or loaded from disk.

Histories, estimates and limits on time use it, so that the first fit of a kind has the same seconds
as later ones. All threads share it, since they compare its times: it stands still for all fits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter


class _Waits:
    """For how long threads have waited for kernels; what overlaps counts once."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.lock = Lock()
        self.threads, self.since, self.seconds = 0, 0.0, seconds

    def until(self, now: float) -> float:
        """Return the seconds of waiting so far."""
        return self.seconds + (now - self.since if self.threads else 0.0)


_waits = _Waits()


@contextmanager
def compiling() -> Iterator[None]:
    """Stop the clock inside the ``with`` block, which may be inside another one."""
    waits = _waits
    with waits.lock:
        if waits.threads == 0:
            waits.since = perf_counter()
        waits.threads += 1
    try:
        yield
    finally:
        with waits.lock:
            waits.seconds = waits.until(now := perf_counter())
            waits.since = now
            waits.threads -= 1


def seconds_compiling() -> float:
    """Return for how long the clock has stood still in this process."""
    with _waits.lock:
        return _waits.until(perf_counter())


def clock() -> float:
    """Return seconds as `perf_counter` does, without those of `seconds_compiling`."""
    with _waits.lock:
        now = perf_counter()
        return now - _waits.until(now)


def _start_anew() -> None:
    """Forget, in a process that was forked, other threads that were compiling."""
    global _waits
    _waits = _Waits(_waits.until(perf_counter()))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)

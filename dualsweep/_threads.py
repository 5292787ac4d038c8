"""Threads: how many `n_jobs` means, and how many BLAS may have meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

__all__ = ["count_threads", "one_blas_thread"]


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads to use, by joblib's rules; see `LinearSVC`."""
    if n_jobs == 1:
        return 1
    from joblib.parallel import get_active_backend  # takes a while

    # Not `joblib.effective_n_jobs`: it counts processes, of which a daemon may have none.
    backend, default = get_active_backend(prefer="threads")
    return int(backend.effective_n_jobs(default if n_jobs is None else n_jobs))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside the block, and in all other threads meanwhile.

    Factorisations then do not depend on how many the process has, and small products do not wait
    for threads that other work keeps busy. The limit is the process's, so blocks that overlap share
    it: the first sets it, and the last to end restores what there was.
    """
    limit = _limit
    limit.enter()
    try:
        yield
    finally:
        limit.leave()


class _Limit:
    """One BLAS thread for as long as somebody wants it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.libraries: Any = None  # finding them takes a millisecond
        self.before: Any = None

    def enter(self) -> None:
        with self.lock:
            if self.users == 0:
                if self.libraries is None:
                    from threadpoolctl import ThreadpoolController

                    self.libraries = ThreadpoolController()
                self.before = self.libraries.limit(limits=1, user_api="blas")
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.before.restore_original_limits()


_limit = _Limit()


def _start_anew() -> None:
    """Forget, in a process that was forked, the fits of other threads: they are not in it."""
    global _limit
    before = _limit.before if _limit.users else None
    _limit = _Limit()
    if before is not None:
        before.restore_original_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)

"""Threads: how many `n_jobs` means, who does what, and how many BLAS may have meanwhile."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

__all__ = ["Workers", "count_threads", "one_blas_thread"]

Item = TypeVar("Item")
Made = TypeVar("Made")


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads to use, by joblib's rules; see `LinearSVC`."""
    if n_jobs == 1:
        return 1
    from joblib.parallel import get_active_backend  # takes a while

    # Not `joblib.effective_n_jobs`: it counts processes, of which a daemon may have none.
    backend, default = get_active_backend(prefer="threads")
    return int(backend.effective_n_jobs(default if n_jobs is None else n_jobs))


class Workers:
    """Threads that work on what is divided into items, as a ``with`` block.

    Whoever calls `map` works too, and the others help if they have nothing else to do. So items
    may themselves be divided, without anybody waiting for a thread: those that run out of problems
    help with passes over the rows of the problems that are left.
    """

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads = n_threads
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self.n_threads > 1:
            self._pool = ThreadPoolExecutor(self.n_threads - 1)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def submit(self, function: Callable[..., Made], *arguments: Any) -> Future[Made]:
        """Let one of the other threads do it; there has to be one."""
        assert self._pool is not None
        return self._pool.submit(function, *arguments)

    def map(self, function: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """Return what `function` makes of each item, in their order."""
        todo = deque(enumerate(items))
        made: list[Any] = [None] * len(todo)

        def work() -> None:
            while todo:
                try:
                    place, item = todo.popleft()
                except IndexError:  # another thread took the last one
                    return
                try:
                    made[place] = function(item)
                except BaseException:
                    todo.clear()  # nobody starts another one
                    raise

        helpers = []
        if self._pool is not None:
            n_helpers = min(self.n_threads, len(made)) - 1
            helpers = [self._pool.submit(work) for _ in range(n_helpers)]
        try:
            work()
        finally:
            for helper in helpers:
                if not helper.cancel():
                    helper.result()
        return made


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

"""Threads: how many `n_jobs` means, who does what, and how many BLAS may have meanwhile."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Made = TypeVar("Made")

# Seconds after which a thread that waits for others wakes up. Only the main thread runs handlers of
# signals, and Ctrl-C that comes just before it begins to wait does not wake it.
WAKE_UP = 0.2


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads to use, by joblib's rules; see `LinearSVC`."""
    if n_jobs == 1:
        return 1
    from joblib.parallel import get_active_backend  # takes a while

    # Not `joblib.effective_n_jobs`: it counts processes, of which a daemon may have none.
    backend, default = get_active_backend(prefer="threads")
    return int(backend.effective_n_jobs(default if n_jobs is None else n_jobs))


@cache
def count_cores() -> int:
    """Return how many cores the process may use."""
    from joblib import cpu_count  # takes a while

    return int(cpu_count())


def wait_for_one(futures: Iterable[Future[Any]]) -> set[Future[Any]]:
    """Wait until one of the futures is done; return those that are. Ctrl-C is noted meanwhile."""
    while not (done := wait(futures, WAKE_UP, FIRST_COMPLETED).done):
        pass
    return done


class Workers:
    """Threads that work on what is divided into items, as a ``with`` block.

    Whoever calls `map` works too, and the others help if they have nothing else to do. So items
    may themselves be divided, without anybody waiting for a thread: those that run out of problems
    help with passes over the rows of the problems that are left.

    A pass can take less than a millisecond, of which `concurrent.futures` would take half to hand
    it to 15 threads: here it is a place in a queue for each.
    """

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads = n_threads
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._lock, self._open = Lock(), False

    def __enter__(self) -> Workers:
        self._open = True
        return self

    def __exit__(self, *exception: object) -> None:
        self._open = False
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _hire(self, n: int) -> int:
        """See to it that there are n other threads, or as many as may be; return that number."""
        n = min(n, self.n_threads - 1) if self._open else 0
        with self._lock:
            while len(self._threads) < n:
                self._threads.append(Thread(target=self._serve))
                self._threads[-1].start()
        return n

    def _serve(self) -> None:
        while (task := self._queue.get()) is not None:
            task()

    def call(self, task: Callable[[], None], n: int) -> None:
        """Let up to n of the other threads do it, each once, when they have nothing else to do."""
        for _ in range(self._hire(n)):
            self._queue.put(task)

    def submit(self, function: Callable[..., Made], *arguments: object) -> Future[Made]:
        """Let one of the other threads do it; there has to be one."""
        helpers = self._hire(self.n_threads)
        assert helpers
        future: Future[Made] = Future()

        def task() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*arguments))
                except BaseException as error:
                    future.set_exception(error)

        self._queue.put(task)
        return future

    def map(self, function: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """Return what `function` makes of each item, in their order."""
        items = list(items)
        if len(items) == 1:  # nothing to share
            return [function(items[0])]
        job: _Job[Item, Made] = _Job(function, items)
        self.call(job.help, len(job.made) - 1)
        try:
            job.work()
        finally:
            made = job.end()
        if job.error is not None:
            raise job.error
        return made


class _Job(Generic[Item, Made]):
    """Items to be worked on by whoever has time."""

    def __init__(self, function: Callable[[Item], Made], items: list[Item]) -> None:
        self.function = function
        self.made: list[Any] = [None] * len(items)
        self.todo = deque(enumerate(items))
        self.error: BaseException | None = None
        self.lock, self.idle = Lock(), Lock()
        self.helpers, self.over = 0, False

    def work(self) -> None:
        """Work on items until none is left."""
        while self.todo:
            try:
                place, item = self.todo.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                self.made[place] = self.function(item)
            except BaseException as error:
                self.todo.clear()  # nobody starts another one
                self.error = error

    def help(self) -> None:
        """Work on items, unless that is over."""
        with self.lock:
            if self.over:
                return
            if self.helpers == 0:
                self.idle.acquire()
            self.helpers += 1
        self.work()
        with self.lock:
            self.helpers -= 1
            if self.helpers == 0:
                self.idle.release()

    def end(self) -> list[Made]:
        """Let no more helpers begin, wait for those that have, and return what was made.

        Nothing of it is kept: places in the queue that nobody had time for still refer to this.
        """
        with self.lock:
            self.over = True
        while not self.idle.acquire(timeout=WAKE_UP):
            pass
        made, self.made = self.made, []
        del self.function
        return made


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside the block, and in all other threads meanwhile.

    Factorisations then do not depend on how many the process has, and small products do not wait
    for threads that other work keeps busy. The limit is the process's, so blocks that overlap share
    it: the first sets it, and the last to end restores what there was.
    """
    limit = _limit
    with limit.lock:
        if limit.users == 0:
            limit.restore = _libraries().limit(limits=1, user_api="blas").restore_original_limits
        limit.users += 1
    try:
        yield
    finally:
        with limit.lock:
            limit.users -= 1
            if limit.users == 0:
                limit.restore()


@cache
def _libraries() -> ThreadpoolController:
    """Find the libraries with threads of their own, which takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _Limit:
    """How many want one BLAS thread, and what the last of them has to call."""

    restore: Callable[[], None]

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0


_limit = _Limit()


def _start_anew() -> None:
    """Forget, in a process that was forked, the fits of other threads: they are not in it."""
    global _limit
    before, _limit = _limit, _Limit()
    if before.users:
        before.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)

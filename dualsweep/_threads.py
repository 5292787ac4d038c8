"""Threads: how many there are, how they share work, and the limit on those of BLAS."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import cache
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Made = TypeVar("Made")

# A thread that waits for others wakes up after so many seconds. Only the main thread handles
# signals, and Ctrl-C does not wake it if it comes just before the wait.
WAKE_UP = 0.2


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`, by joblib's rules."""
    if n_jobs == 1:
        return 1
    from joblib.parallel import get_active_backend  # takes a while

    # Not `joblib.effective_n_jobs`: it counts processes, of which a daemon may have none.
    backend, default = get_active_backend(prefer="threads")
    return int(backend.effective_n_jobs(default if n_jobs is None else n_jobs))


@cache
def count_cores() -> int:
    """Return the number of cores that the process may use."""
    from joblib import cpu_count  # takes a while

    return int(cpu_count())


def wait_for_one(futures: Iterable[Future[Any]]) -> set[Future[Any]]:
    """Wait until at least one future is done; return those that are. Ctrl-C works meanwhile."""
    while not (done := wait(futures, WAKE_UP, FIRST_COMPLETED).done):
        pass
    return done


class Workers:
    """Threads that share work, as a ``with`` block.

    The thread that calls `map` works on the items, and idle threads help. So items may call `map`
    themselves and nobody waits for a free thread: threads that run out of problems help with passes
    over the rows of the other problems.

    `concurrent.futures` takes half a millisecond to hand work to 15 threads, as long as a short
    pass. Here that is one entry in a queue for each.
    """

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads = n_threads
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._lock, self._open = Lock(), False
        self.n_submitted = 0  # calls of `submit` that are running

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
        """Start threads until there are n, or as many as allowed; return that number."""
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
        """Queue a task for up to n of the other threads, each once."""
        for _ in range(self._hire(n)):
            self._queue.put(task)

    def submit(self, function: Callable[..., Made], *arguments: object) -> Future[Made]:
        """Queue a call for one of the other threads; there has to be one."""
        helpers = self._hire(self.n_threads)
        assert helpers
        future: Future[Made] = Future()

        def task() -> None:
            if future.set_running_or_notify_cancel():
                with self._lock:
                    self.n_submitted += 1
                try:
                    future.set_result(function(*arguments))
                except BaseException as error:
                    future.set_exception(error)
                finally:
                    with self._lock:
                        self.n_submitted -= 1

        self._queue.put(task)
        return future

    def map(self, function: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """Apply the function to each item; return the results in order."""
        items = list(items)
        if len(items) == 1:
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
    """One call of `Workers.map`: the caller works, and the threads that are free help."""

    def __init__(self, function: Callable[[Item], Made], items: list[Item]) -> None:
        self.function = function
        self.made: list[Any] = [None] * len(items)
        self.todo = deque(enumerate(items))
        self.error: BaseException | None = None
        self.lock = Condition()
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
                self.todo.clear()
                self.error = error

    def help(self) -> None:
        """Work on items, unless the job has ended."""
        with self.lock:
            if self.over:
                return
            self.helpers += 1
        self.work()
        with self.lock:
            self.helpers -= 1
            self.lock.notify()

    def end(self) -> list[Made]:
        """Wait for the helpers and return the results.

        The job lets go of them: entries of the queue that no thread has taken yet refer to it.
        """
        with self.lock:
            self.over = True
            while self.helpers:
                self.lock.wait(WAKE_UP)
        made, self.made = self.made, []
        del self.function
        return made


class _BlasLimit:
    """Keeps BLAS to one thread while any block uses it; the last one restores what was."""

    restore: Callable[[], None]

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.restore = _libraries().limit(limits=1, user_api="blas").restore_original_limits
            self.users += 1

    def __exit__(self, *exception: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.restore()


@cache
def _libraries() -> ThreadpoolController:
    """Find the libraries with threads of their own; takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_blas_limit = _BlasLimit()


def one_blas_thread() -> _BlasLimit:
    """Return a ``with`` block that limits BLAS to one thread in the whole process.

    Factorisations then do not depend on the number of threads, and small products do not wait for
    busy ones.
    """
    return _blas_limit


def _start_anew() -> None:
    """Lift the limit in a forked process, which does not have the parent's other threads."""
    global _blas_limit
    before, _blas_limit = _blas_limit, _BlasLimit()
    if before.users:
        before.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)

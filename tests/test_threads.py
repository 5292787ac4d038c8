"""Threads that share work: each item once, in order, and nobody waits for a thread."""

import _thread
import signal
import time
import weakref
from threading import Barrier, Event, active_count, get_ident

import numpy as np
import pytest

from dualsweep._threads import Workers, wait_for_one


@pytest.mark.parametrize("n_threads", [1, 2, 3, 16])
@pytest.mark.parametrize("n_items", [0, 1, 5, 200])
def test_each_item_is_worked_on_once(n_threads, n_items):
    calls = []

    def square(item):
        calls.append(item)
        return item * item

    before = active_count()
    with Workers(n_threads) as workers:
        for _ in range(20):
            calls.clear()
            assert workers.map(square, range(n_items)) == [i * i for i in range(n_items)]
            assert sorted(calls) == list(range(n_items))
    assert active_count() == before
    assert workers.map(square, [3]) == [9]  # without threads


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_items_may_be_divided_in_turn(n_threads):
    with Workers(n_threads) as workers:

        def total(item):
            parts = workers.map(
                lambda part: sum(workers.map(lambda i: i + part, range(5))), [item] * 4
            )
            return sum(parts)

        assert workers.map(total, range(30)) == [4 * (10 + 5 * item) for item in range(30)]


@pytest.mark.parametrize("n_threads", [2, 5])
def test_all_threads_help(n_threads):
    """Each item waits until as many threads as there are work on one."""
    together = Barrier(n_threads, timeout=60)

    def meet(item):
        together.wait()
        return get_ident()

    with Workers(n_threads) as workers:
        assert len(set(workers.map(meet, range(n_threads)))) == n_threads


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_after_an_error_nothing_more_is_begun(n_threads):
    begun = []

    def fail(item):
        begun.append(item)
        if item == 3:
            raise KeyError("three")

    with Workers(n_threads) as workers:
        with pytest.raises(KeyError, match="three"):
            workers.map(fail, range(1000))
        if n_threads == 1:
            assert begun == [0, 1, 2, 3]
        assert workers.map(abs, [-1, -2]) == [1, 2]  # and goes on


def test_no_more_threads_are_started_than_there_is_work_for():
    before = active_count()
    with Workers(16) as workers:
        assert active_count() == before
        workers.map(abs, [1])
        assert active_count() == before
        workers.map(abs, [1, 2, 3])
        assert active_count() == before + 2
        workers.map(abs, range(100))
        assert active_count() == before + 15


def test_nothing_is_kept_of_what_was_made():
    """Also if a thread that should have helped has been busy all the time."""

    class Made:
        pass

    busy, refs = Event(), []

    def make(item):
        made = Made()
        refs.append(weakref.ref(made))
        return made

    with Workers(2) as workers:
        future = workers.submit(busy.wait, 60)
        for _ in range(10):
            assert len(workers.map(make, range(5))) == 5
        assert len(refs) == 50
        assert not any(ref() for ref in refs)
        busy.set()
        assert future.result(timeout=60)


def test_what_is_submitted_is_done_elsewhere():
    with Workers(3) as workers:
        futures = [workers.submit(lambda a, b: (a + b, get_ident()), i, 1) for i in range(50)]
        found = [future.result(timeout=60) for future in futures]
        np.testing.assert_array_equal([value for value, _ in found], np.arange(1, 51))
        assert get_ident() not in {thread for _, thread in found}
        with pytest.raises(ZeroDivisionError):
            workers.submit(lambda: 1 // 0).result(timeout=60)


@pytest.mark.parametrize("wait", ["map", "submit"])
def test_a_signal_that_wakes_nobody_is_noted(wait):
    """As one does that comes just before the main thread begins to wait."""
    noted, both = Event(), Barrier(2, timeout=60)
    main = get_ident()

    def interrupt(item):
        if wait == "map":
            both.wait()
        if get_ident() != main:
            time.sleep(0.05)  # until the main thread waits
            _thread.interrupt_main()
            assert noted.wait(60)

    before = signal.signal(signal.SIGINT, lambda *_: noted.set())
    try:
        with Workers(2) as workers:
            if wait == "map":
                workers.map(interrupt, range(2))
            else:
                wait_for_one([workers.submit(interrupt, 0)]).pop().result()
    finally:
        signal.signal(signal.SIGINT, before)
    assert noted.is_set()

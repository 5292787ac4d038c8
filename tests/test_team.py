"""Teams: every part of every phase is done once, phase after phase, whoever does it."""

import threading
import weakref
from functools import partial
from time import sleep

import numpy as np
import pytest

from dualsweep import _team
from dualsweep._jit import jit
from dualsweep._team import DISMISSED, NO_PART, finish_part, next_part, open_phase
from dualsweep._threads import Workers


@jit
def add_in_turn(values, team, polls):
    """In phase 0 a part doubles its value and adds 1; phase 1 puts the sum into the first value."""
    while True:
        phase, part, _ = next_part(team, polls)
        if phase < 0:
            return phase
        if phase == 0:
            values[part] = 2 * values[part] + 1
        else:
            values[0] = values.sum()
        finish_part(team)


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_a_phase_sees_what_the_one_before_did(monkeypatch, n_threads, count):
    monkeypatch.setattr(_team, "count_cores", lambda: 7)
    values, expected = np.zeros(count, np.int64), np.zeros(count, np.int64)
    with Workers(n_threads) as workers:
        team = _team.Team(workers, partial(add_in_turn, values))
        for _ in range(40):  # small enough for int64, whose sums are exact in any order
            team.do(0, count)
            team.do(1, 1)
            expected = 2 * expected + 1
            expected[0] = expected.sum()
            np.testing.assert_array_equal(values, expected)
        team.dismiss()


def test_who_finds_nothing_to_do_leaves_and_comes_back():
    values, team = np.zeros(3, np.int64), np.zeros(24, np.int64)
    open_phase(team, 0, 1)
    team[_team.BEGUN] += 1  # somebody has begun the only part, and takes their time for it
    assert add_in_turn(values, team, 9) == NO_PART
    assert (values == 0).all()
    open_phase(team, 0, 2)
    assert add_in_turn(values, team, 9) == NO_PART
    np.testing.assert_array_equal(values, [1, 1, 0])
    open_phase(team, DISMISSED, 0)
    assert add_in_turn(values, team, 9) == DISMISSED
    np.testing.assert_array_equal(values, [1, 1, 0])
    assert team[_team.LEFT] == 3


@jit
def count_parts(done, team, polls):
    """Every part of every phase counts how often it was done."""
    while True:
        phase, part, _ = next_part(team, polls)
        if phase < 0:
            return phase
        done[phase, part] += 1
        finish_part(team)


@pytest.mark.parametrize("n_threads", [1, 2, 7])
def test_every_part_is_done_once(monkeypatch, n_threads):
    monkeypatch.setattr(_team, "count_cores", lambda: 7)
    done = np.zeros((3, 50), int)
    with Workers(n_threads) as workers:
        team = _team.Team(workers, partial(count_parts, done))
        for turn in range(1, 200):
            for kind, count in enumerate((50, 1, 9 + turn % 3)):
                done[:] = 0
                team.do(kind, count)
                assert (done[kind, :count] == 1).all()
                assert done.sum() == count
            if turn % 20 == 0:
                team.dismiss()
        assert (team.called > 3 * 199) == (n_threads > 1)  # the leader comes to every phase
    assert team.called == team.numbers[_team.LEFT]  # who was called has come, and left


def test_who_was_called_stays_for_the_next_phase_unless_dismissed(monkeypatch):
    monkeypatch.setattr(_team, "count_cores", lambda: 3)
    done = np.zeros((1, 6), int)
    with Workers(3) as workers:
        team = _team.Team(workers, partial(count_parts, done))
        team.patience = 1 << 60
        for phases in range(1, 5):
            team.do(0, 6)
            assert team.called == phases + 2  # the leader each time, and two others
        team.dismiss()
        while team.called > team.numbers[_team.LEFT]:
            sleep(1e-3)
        team.do(0, 6)
        assert team.called == 5 + 2 + 2
        team.dismiss()


def test_places_in_a_queue_do_not_keep_a_team(monkeypatch):
    monkeypatch.setattr(_team, "count_cores", lambda: 2)
    busy = threading.Event()
    with Workers(2) as workers:
        waiting = workers.submit(busy.wait)
        done = np.zeros((1, 2), int)
        team = _team.Team(workers, partial(count_parts, done))
        team.do(0, 2)  # while the other thread has no time
        np.testing.assert_array_equal(done, 1)
        assert team.called - team.numbers[_team.LEFT] == 1
        reference = weakref.ref(team)
        del team
        assert reference() is None
        busy.set()
        assert waiting.result()

"""Teams: every part of every phase is done once, in order, whoever does it."""

import threading
import weakref
from functools import partial
from time import sleep

import numpy as np
import pytest

from dualsweep import _team
from dualsweep._jit import jit
from dualsweep._team import (
    NO_PART,
    OVER,
    PATIENCE,
    STEP_DONE,
    end_phases,
    is_last_part,
    new_team,
    next_part,
    open_phase,
    wants_end,
    work_together,
)
from dualsweep._threads import Workers


@jit
def add_in_turn(team, values, counts, most_phases):
    """In phase p every part doubles its value and adds p; the sum of all is value 0 of the next."""
    while True:
        phase, part, count = next_part(team, PATIENCE)
        if phase < 0:
            return phase
        values[phase % 2, part] = 2.0 * values[phase % 2, part] + phase
        if is_last_part(team, count):
            total = 0.0
            for t in range(count):
                total += values[phase % 2, t]
            values[(phase + 1) % 2, 0] = total
            if phase == most_phases or wants_end(team):
                end_phases(team)
                return OVER
            open_phase(team, phase + 1, counts[(phase + 1) % 2])
            if phase % 2 == 1:
                return STEP_DONE


def naive(values, counts, first, most_phases):
    for phase in range(first, most_phases + 1):
        kind = phase % 2
        values[kind, : counts[kind]] *= 2.0
        values[kind, : counts[kind]] += phase
        values[1 - kind, 0] = values[kind, : counts[kind]].sum()
    return values


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("counts", [(1, 1), (5, 3), (1, 40)])
def test_every_part_is_done_once(monkeypatch, n_threads, first, counts):
    monkeypatch.setattr(_team, "count_cores", lambda: 7)
    values, team, looks = np.zeros((2, 40)), new_team(first, counts[first]), []
    with Workers(n_threads) as workers:
        work_together(
            workers,
            team,
            lambda: add_in_turn(team, values, np.array(counts), 9),
            stop=lambda: bool(looks.append(0)),
        )
    # Small integers, so that sums are exact in any order.
    np.testing.assert_array_equal(values, naive(np.zeros((2, 40)), counts, first, 9))
    assert len(looks) >= 4  # a look after phases 1, 3, 5 and 7


def test_a_team_that_is_told_to_stop_ends_with_its_phase():
    values, team, looks = np.zeros((2, 3)), new_team(0, 3), []

    def stop():
        looks.append(0)
        return len(looks) == 2

    with Workers() as workers:
        work_together(
            workers, team, lambda: add_in_turn(team, values, np.array((3, 3)), 1000), stop
        )
    assert len(looks) == 2
    np.testing.assert_array_equal(values, naive(np.zeros((2, 3)), (3, 3), 0, 4))


def test_who_finds_nothing_to_do_leaves_and_comes_back():
    values, team = np.zeros((2, 3)), new_team(0, 1)
    team[_team.BEGUN] += 1  # a part that somebody has begun, and takes their time for
    assert add_in_turn(team, values, np.array((1, 2)), 5) == NO_PART
    finished = threading.Timer(0.05, lambda: open_phase(team, 1, 2))
    finished.start()  # and goes on to phase 1
    with Workers() as workers:
        work_together(
            workers, team, lambda: add_in_turn(team, values, np.array((1, 2)), 5), lambda: False
        )
    finished.join()
    np.testing.assert_array_equal(values, naive(np.zeros((2, 3)), (1, 2), 1, 5))


@jit
def count_parts(done, team, looks):
    """Every part of every phase counts how often it was done."""
    while True:
        phase, part, count = next_part(team, looks)
        if phase < 0:
            return phase
        done[phase, part] += 1
        is_last_part(team, count)


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("helped", [True, False])
def test_a_leader_has_every_part_done_once(monkeypatch, n_threads, helped):
    monkeypatch.setattr(_team, "count_cores", lambda: 7)
    done = np.zeros((3, 50), int)
    with Workers(n_threads) as workers:
        team = _team.Team(workers, partial(count_parts, done))
        for turn in range(1, 200):
            for kind, count in enumerate((50, 1, 9 + turn % 3)):
                done[:] = 0
                team.do(kind, count, helped)
                assert (done[kind, :count] == 1).all()
                assert done.sum() == count
            if turn % 20 == 0:
                team.dismiss()
        assert (team.called > 3 * 199) == (helped and n_threads > 1)
    assert team.called == team.numbers[_team.LEFT]  # who was called has come, and left


def test_who_was_called_stays_for_the_next_phase_unless_dismissed(monkeypatch):
    monkeypatch.setattr(_team, "count_cores", lambda: 3)
    monkeypatch.setattr(_team, "PATIENCE", 1 << 60)
    done = np.zeros((1, 6), int)
    with Workers(3) as workers:
        team = _team.Team(workers, partial(count_parts, done))
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

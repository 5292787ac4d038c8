"""Teams: every part of every phase is done once, in order, whoever does it."""

import threading

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
        phase, part = next_part(team, (counts[0], counts[1]), PATIENCE)
        if phase < 0:
            return phase
        values[phase % 2, part] = 2.0 * values[phase % 2, part] + phase
        if is_last_part(team, counts[phase % 2]):
            total = 0.0
            for t in range(counts[phase % 2]):
                total += values[phase % 2, t]
            values[(phase + 1) % 2, 0] = total
            if phase == most_phases or wants_end(team):
                end_phases(team)
                return OVER
            open_phase(team, phase + 1)
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
    values, team, looks = np.zeros((2, 40)), new_team(first), []
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
    values, team, looks = np.zeros((2, 3)), new_team(0), []

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
    values, team = np.zeros((2, 3)), new_team(0)
    team[_team.BEGUN] += 1  # a part that somebody has begun, and takes their time for
    assert add_in_turn(team, values, np.array((1, 2)), 5) == NO_PART
    finished = threading.Timer(0.05, lambda: team.__setitem__(_team.BEGUN, 1 << _team.PHASE_BITS))
    finished.start()  # and goes on to phase 1
    with Workers() as workers:
        work_together(
            workers, team, lambda: add_in_turn(team, values, np.array((1, 2)), 5), lambda: False
        )
    finished.join()
    np.testing.assert_array_equal(values, naive(np.zeros((2, 3)), (1, 2), 1, 5))

"""The kernels' random numbers: the published generator, in range, uniform, and repeatable."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualsweep._random import _next, random_below, random_state, shuffle, uniform

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=50)
SEEDS = st.integers(0, 2**64 - 1)


def state_of(value):
    return np.array([value], dtype=np.uint64)


def chi_square(counts, n_cells):
    """Pearson's statistic of equally likely cells, all of them hit; the mean is n_cells - 1."""
    expected = sum(counts.values()) / n_cells
    return sum((count - expected) ** 2 for count in counts.values()) / expected


def generous(n_cells):
    """Six standard deviations above the mean of chi-square."""
    return n_cells - 1 + 6 * np.sqrt(2 * (n_cells - 1))


def test_numbers_are_those_of_splitmix64():
    state = state_of(1234567)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [int(_next(state)) for _ in published] == published


@EXAMPLES
@given(SEEDS)
def test_numbers_from_the_unit_interval_have_53_random_bits(seed):
    assert uniform(state_of(seed)) * 2**53 == int(_next(state_of(seed))) >> 11


def test_seeds_determine_the_state():
    assert random_state(0).shape == (1,)
    seeds = [(0, 0), (0, 1), (1, 0), (1, 1), (2**31, 0), (0, 2**31)]
    states = [int(random_state(*seed)[0]) for seed in seeds]
    assert states == [int(random_state(*seed)[0]) for seed in seeds]
    assert len(set(states)) == len(seeds)
    # well mixed: on average half of the 64 bits differ
    assert all(16 <= (states[0] ^ state).bit_count() <= 48 for state in states[1:])


@EXAMPLES
@given(SEEDS, st.integers(1, 2**63 - 1))
def test_draws_are_in_range_and_repeatable(seed, bound):
    one, other = state_of(seed), state_of(seed)
    for _ in range(20):
        draw, number = random_below(one, bound), uniform(one)
        assert 0 <= draw < bound
        assert 0.0 <= number < 1.0
        assert (draw, number) == (random_below(other, bound), uniform(other))
    assert one == other != state_of(seed)


def test_draws_below_more_than_32_bits_can_hold_are_uniform():
    state, bound = state_of(0), 3 * 2**40
    thirds = Counter(3 * random_below(state, bound) // bound for _ in range(3000))
    assert chi_square(thirds, 3) < generous(3)


@pytest.mark.parametrize(
    "draw", [lambda state: random_below(state, 30), lambda state: int(30 * uniform(state))]
)
def test_draws_are_uniform(draw):
    state = random_state(0)
    counts = Counter(draw(state) for _ in range(30_000))
    assert set(counts) == set(range(30))
    assert chi_square(counts, 30) < generous(30)


@EXAMPLES
@given(SEEDS, st.lists(st.integers(0, 9), max_size=30))
def test_shuffle_permutes_in_place(seed, items):
    array = np.array(items, dtype=np.int64)
    again = array.copy()
    shuffle(state_of(seed), array)
    shuffle(state_of(seed), again)
    assert sorted(array.tolist()) == sorted(items)
    np.testing.assert_array_equal(array, again)


@EXAMPLES
@given(SEEDS, st.integers(0, 10))
def test_shuffle_is_that_of_fisher_and_yates(seed, n):
    one, other = state_of(seed), state_of(seed)
    array, items = np.arange(n), list(range(n))
    shuffle(one, array)
    for t in range(n - 1, 0, -1):
        j = random_below(other, t + 1)
        items[t], items[j] = items[j], items[t]
    assert array.tolist() == items
    assert one == other


def test_all_permutations_are_equally_likely():
    state = random_state(0)
    counts = Counter()
    for _ in range(24_000):
        items = np.arange(4)
        shuffle(state, items)
        counts[tuple(items.tolist())] += 1
    assert set(counts) == set(permutations(range(4)))
    assert chi_square(counts, 24) < generous(24)

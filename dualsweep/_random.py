"""Random numbers for kernels: one uint64 of state per problem, so that threads share nothing."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ._jit import jit, multiply_high
from ._typing import Array


def random_state(*seed: int) -> Array:
    """Return a generator state for kernels, well mixed from any tuple of integers."""
    return np.array([_mixed(seed)], np.uint64)


@lru_cache(maxsize=1024)  # searches take the same seeds for every C and fold
def _mixed(seed: tuple[int, ...]) -> np.uint64:
    return np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]


@jit
def _next(state: Array) -> np.uint64:
    """Advance splitmix64 (Steele, Lea and Flood 2014) by one number."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    x = state[0]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jit
def uniform(state: Array) -> float:
    """Return a number from [0, 1)."""
    return (_next(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit
def random_below(state: Array, bound: int) -> np.int64:
    """Return an integer from [0, bound), each as likely as the others to within 2**-64."""
    return np.int64(multiply_high(_next(state), np.uint64(bound)))


@jit
def shuffle(state: Array, items: Array) -> None:
    """Permute `items` in place."""
    for t in range(items.shape[0] - 1, 0, -1):
        j = random_below(state, t + 1)
        items[t], items[j] = items[j], items[t]

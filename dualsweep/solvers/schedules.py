"""Which rows a sweep visits, and in what order.

A schedule gives out the order of the next sweep. Afterwards it observes, for each visit, the
gradient and the gain of the dual. It knows neither data nor loss, so it works with every
formulation.
"""

from __future__ import annotations

import numpy as np

from .._jit import jit
from .._random import random_below, shuffle, uniform
from .._typing import Array


class Schedule:
    """Decides the order of each sweep; the base of all schedules."""

    # Whether the next sweep skips dual variables at their bounds, where a row has many.
    shrunk = False
    # Whether slow sweeps may have momentum; schedules of papers stay as published.
    momentum = False

    def __init__(self, rows: Array, state: Array) -> None:
        self.rows = np.asarray(rows, dtype=np.int64)  # to visit; never changed in place
        self.state = state  # of random numbers
        self.expand()

    def next_order(self) -> Array:
        """Return the rows of the next sweep, valid until `observe`."""
        return self.order

    def observe(self, order: Array, grads: Array, gains: Array) -> None:
        """Learn from a finished sweep."""

    def restrict(self, proven: Array) -> None:
        """Drop the rows i with ``proven[i]`` for good: their dual variables are optimal."""
        self.rows = self.rows[~proven[self.rows]]
        self.expand()

    def expand(self) -> None:
        """Take back every row that was left out on suspicion."""
        self.order = self.rows.copy()


class Cyclic(Schedule):
    """Visit all rows in the order given (Hsieh et al. 2008, Algorithm 1)."""


class Permuted(Schedule):
    """Visit all rows in a new random order each sweep (Hsieh et al. 2008, section 3.1)."""

    def next_order(self) -> Array:
        shuffle(self.state, self.order)
        return self.order


class Online(Schedule):
    """Draw each visit at random, with replacement (Hsieh et al. 2008, Algorithm 2)."""

    def next_order(self) -> Array:
        _draw(self.state, self.rows, self.order)
        return self.order


class Shrinking(Permuted):
    """Leave out rows that press against their bound (Hsieh et al. 2008, section 3.2).

    When the violations M - m among the remaining rows fall below `tolerance`, all rows come back
    and the tolerance is divided by ten, so that no row stays out for ever (as in Algorithm 3, but
    without its final accuracy: the loop stops on the gap).
    """

    def __init__(self, rows: Array, state: Array) -> None:
        super().__init__(rows, state)
        self.high, self.low = np.inf, -np.inf
        self.tolerance = 0.1

    def observe(self, order: Array, grads: Array, gains: Array) -> None:
        kept, high, low = _shrink(order, grads, gains, self.high, self.low)
        self.order = order[:kept]
        self.high = high if high > 0 else np.inf
        self.low = low if low < 0 else -np.inf
        if high - low < self.tolerance:
            self.expand()
            self.tolerance *= 0.1

    def restrict(self, proven: Array) -> None:
        self.rows = self.rows[~proven[self.rows]]
        self.order = self.order[~proven[self.order]]

    def expand(self) -> None:
        super().expand()
        self.high, self.low = np.inf, -np.inf


class Alternating(Permuted):
    """Alternate sweeps over all rows with shrunk ones (Keerthi et al. 2008, section 2.1).

    Shrunk sweeps visit the rows that moved at their last visit. They end when all violations are
    below `tolerance`, or after as many visits as `MOST_EFFORT` sweeps over all rows. The tolerance
    starts at 1 and is divided by ten when a sweep over all rows finds no violation above it.
    """

    MOST_EFFORT = 5.0

    def __init__(self, rows: Array, state: Array) -> None:
        super().__init__(rows, state)
        self.tolerance = 1.0
        self.visits = 0  # of shrunk sweeps since the last full one

    def observe(self, order: Array, grads: Array, gains: Array) -> None:
        moved = gains > 0.0
        fulfilled = np.abs(grads[moved]).max(initial=0.0) < self.tolerance
        if not self.shrunk and fulfilled:
            self.tolerance *= 0.1
        self.visits += len(order) if self.shrunk else 0
        tired = self.visits > self.MOST_EFFORT * len(self.rows)
        if not moved.any() or (self.shrunk and (fulfilled or tired)):
            self.expand()
        else:
            self.shrunk = True
            self.order = order[moved]

    def expand(self) -> None:
        super().expand()
        self.shrunk, self.visits = False, 0


class Adaptive(Schedule):
    """Visit rows as often as their visits pay (Glasmachers and Dogan 2013, Algorithms 3 to 5)."""

    rate = 1 / 5  # c of Algorithm 5
    idle = float(np.exp(-1 / 5))  # factor for a visit without gain, exp(-c)

    def __init__(self, rows: Array, state: Array) -> None:
        super().__init__(rows, state)
        self.preference = np.ones(self.rows.max(initial=-1) + 1)
        self.reference = 0.0  # the fading average of gains
        self.latest = NOTHING

    def next_order(self) -> Array:
        learned = *self.latest, self.preference, self.reference, self.rate, self.idle
        n, self.reference = _adapt_and_compose(*learned, self.state, self.rows, self.order)
        self.latest = NOTHING
        return self.order[:n]

    def observe(self, order: Array, grads: Array, gains: Array) -> None:
        self.latest = order, gains  # `next_order` learns from them

    def learn(self) -> None:
        """Adapt preferences to the gains of the latest sweep."""
        learned = *self.latest, self.preference, self.reference, self.rate, self.idle
        self.reference, self.latest = _adapt(*learned), NOTHING

    def expand(self) -> None:
        self.order = np.empty_like(self.rows)  # `next_order` fills it


class Auto(Adaptive):
    """Adapt frequencies, but visit idle rows less often than `Adaptive` does.

    A row that stayed at its bound is visited half as often in the next sweep. Within a few sweeps
    that does what shrinking does. Rows that move gain preference half as fast. Sweeps to a relative
    gap of 1e-3 (imdb and blogs, hinge and squared hinge, C = 0.1 to 10): at most one more than
    `Shrinking` or `Adaptive`, and 87 against 121 and 125 in the hardest case.
    """

    rate = 1 / 10
    idle = 1 / 2
    momentum = True


SCHEDULES: dict[str, type[Schedule]] = {
    "auto": Auto,
    "cyclic": Cyclic,
    "permuted": Permuted,
    "online": Online,
    "shrinking": Shrinking,
    "alternating": Alternating,
    "adaptive": Adaptive,
}

MIN_PREFERENCE, MAX_PREFERENCE = 1 / 20, 20.0

NOTHING = np.empty(0, np.int64), np.empty(0)  # an order without visits, and its gains


@jit
def _draw(state: Array, rows: Array, order: Array) -> None:
    for t in range(order.shape[0]):
        order[t] = rows[random_below(state, rows.shape[0])]


@jit
def _shrink(
    order: Array, grads: Array, gains: Array, high: float, low: float
) -> tuple[int, float, float]:
    """Move the rows to keep to the front of `order`; return their number and the new thresholds.

    A row without gain is at a bound, and its gradient points outwards. It goes if the gradient is
    beyond the largest violation of the sweep before.
    """
    kept = 0
    new_high = new_low = 0.0
    for t in range(order.shape[0]):
        grad = grads[t]
        if gains[t] > 0.0:
            new_high = max(new_high, grad)
            new_low = min(new_low, grad)
        elif grad > high or grad < low:
            continue
        order[kept] = order[t]
        kept += 1
    return kept, new_high, new_low


@jit
def _adapt(
    visited: Array, gains: Array, preference: Array, reference: float, rate: float, idle: float
) -> float:
    """Prefer rows that gained more than the fading average (Algorithm 5); return the new average.

    After the first sweep the average is the mean gain, and no preference changes.
    """
    n = visited.shape[0]
    fade = 1.0 / max(n, 1)
    if reference == 0.0:
        for t in range(n):
            reference += gains[t]
        return fade * reference
    for t in range(n):
        i, gain = visited[t], gains[t]
        factor = idle if gain == 0.0 else np.exp(rate * (gain / reference - 1.0))
        preference[i] = min(max(factor * preference[i], MIN_PREFERENCE), MAX_PREFERENCE)
        reference += fade * (gain - reference)
    return reference


@jit
def _adapt_and_compose(
    visited: Array,
    gains: Array,
    preference: Array,
    reference: float,
    rate: float,
    idle: float,
    state: Array,
    rows: Array,
    order: Array,
) -> tuple[int, float]:
    """Learn from the latest sweep and fill `order`, each row as often as preferred (Algorithm 4).

    Returns the length of the order and the new average. This is one kernel because threads that
    return to Python wait for each other.
    """
    reference = _adapt(visited, gains, preference, reference, rate, idle)
    n = order.shape[0]
    remaining = 0.0
    for i in rows:
        remaining += preference[i]
    filled = 0
    for i in rows:
        times = preference[i] * (n - filled) / remaining
        count = int(times)
        if uniform(state) < times - count:
            count += 1
        for _ in range(min(count, n - filled)):
            order[filled] = i
            filled += 1
        remaining -= preference[i]
    shuffle(state, order[:filled])
    return filled, reference

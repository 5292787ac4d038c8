"""Dual variables of many classes: a dense matrix, or only the nonzero ones of each row.

A Crammer-Singer row has nonzero dual variables for the few classes it is confused with (Keerthi et
al. 2008, section 2): `Slots` keep these. With Weston-Watkins many are at their upper bound, in a
dense matrix. Kernels read and write rows of either by the functions below.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from .._jit import generic, implements, jit_inline, jit_sums, prefetch
from .._typing import Array

FIRST_SLOTS = 8

# A block step of Crammer-Singer sets at most this many dual variables of a row, or twice as many as
# are nonzero. At the first visit all classes violate alike, and all would get a share, most of them
# for a moment: text with 1,000 classes converges in as many sweeps with the limit as without. A row
# that needs all classes has them after log2(k / 64) more visits: one row for each of 300 classes
# takes 21 sweeps (257 if a visit adds one class).
MOST_SLOTS = 64
PREFETCH_DUALS = 32  # of a dense row
LOWEST = float(np.finfo(np.float64).min)  # above what marks a class as found
RAISES = 10  # attempts to find the most violating classes by raising a threshold


class Slots(NamedTuple):
    """Up to ``values.shape[1]`` nonzero dual variables per row."""

    classes: Array  # int32
    values: Array  # float64
    counts: Array  # int32, how many of a row's slots are used


Duals: TypeAlias = Array | Slots


class Picked(NamedTuple):
    """Dual variables of a row that a block step looks at."""

    classes: Array
    t: Array  # violations
    b: Array  # values


class SlottedDuals:
    """Slots that can be widened when some row needs more of them."""

    def __init__(self, n_rows: int, n_classes: int) -> None:
        self.n_classes = n_classes
        shape = (n_rows, min(FIRST_SLOTS, n_classes))
        self.slots = Slots(np.zeros(shape, np.int32), np.zeros(shape), np.zeros(n_rows, np.int32))

    def __copy__(self) -> SlottedDuals:
        twin = SlottedDuals(0, self.n_classes)
        twin.slots = Slots(*(array.copy() for array in self.slots))
        return twin

    def __imul__(self, factor: float) -> SlottedDuals:
        self.slots.values[...] *= factor
        return self

    def widen(self) -> None:
        """Double the slots of every row."""
        classes, values, counts = self.slots
        width = values.shape[1]
        more = (0, 0), (0, min(2 * width, self.n_classes) - width)
        self.slots = Slots(np.pad(classes, more), np.pad(values, more), counts)

    def fill(self, rows: Array, classes: Array, values: Array) -> None:
        """Set the given values, each row and class at most once, in rows that are all empty."""
        counts = np.bincount(rows, minlength=len(self.slots.counts))
        while counts.max(initial=0) > self.slots.values.shape[1]:
            self.widen()
        order = np.argsort(rows, kind="stable")
        starts = np.cumsum(counts) - counts
        slot = np.arange(len(rows)) - starts[rows[order]]
        self.slots.classes[rows[order], slot] = classes[order]
        self.slots.values[rows[order], slot] = values[order]
        self.slots.counts[:] = counts

    def nonzero(self) -> tuple[Array, Array, Array]:
        """Return rows, classes and values of the nonzero dual variables."""
        classes, values, counts = self.slots
        used = np.arange(values.shape[1]) < counts[:, None]
        rows = np.repeat(np.arange(len(counts)), counts)
        return rows, classes[used], values[used]


@generic
def load_duals(beta: Duals, i: int, out: Array) -> None:
    """Fill `out` with the dual variables of row i, one per class."""


@implements(load_duals, np.ndarray)
def _load_dense(beta: Array, i: int, out: Array) -> None:
    for m in range(out.shape[0]):
        out[m] = beta[i, m]


@implements(load_duals, Slots)
def _load_slots(beta: Slots, i: int, out: Array) -> None:
    out[:] = 0.0
    for s in range(beta.counts[i]):
        out[beta.classes[i, s]] = beta.values[i, s]


@generic
def prefetch_duals(beta: Duals, i: int) -> None:
    """Ask for the dual variables of row i."""


@implements(prefetch_duals, np.ndarray)
def _prefetch_dense(beta: Array, i: int) -> None:
    k = beta.shape[1]
    flat = beta.reshape(-1)
    for m in range(i * k, i * k + min(k, PREFETCH_DUALS), 8):
        prefetch(flat, m)


@implements(prefetch_duals, Slots)
def _prefetch_slots(beta: Slots, i: int) -> None:
    start = i * beta.values.shape[1]
    prefetch(beta.counts, i)
    prefetch(beta.classes.reshape(-1), start)
    prefetch(beta.values.reshape(-1), start)


@generic
def store_duals(beta: Duals, i: int, classes: Array, values: Array, n: int) -> bool:
    """Set n dual variables of row i; return False, having done nothing, if they do not fit.

    With slots, all others become 0.
    """


@implements(store_duals, np.ndarray)
def _store_dense(beta: Array, i: int, classes: Array, values: Array, n: int) -> bool:
    for c in range(n):
        beta[i, classes[c]] = values[c]
    return True


@implements(store_duals, Slots)
def _store_slots(beta: Slots, i: int, classes: Array, values: Array, n: int) -> bool:
    needed = 0
    for c in range(n):
        needed += 1 if values[c] != 0.0 else 0
    if needed > beta.values.shape[1]:
        return False
    s = 0
    for c in range(n):
        if values[c] != 0.0:
            beta.classes[i, s] = classes[c]
            beta.values[i, s] = values[c]
            s += 1
    beta.counts[i] = s
    return True


@generic
def inner_duals(beta: Duals, i: int, upper: float, picked: Picked) -> int:
    """Pick the dual variables of row i inside their bounds, without violations; return how many.

    With slots, those are the nonzero ones.
    """


@implements(inner_duals, np.ndarray)
def _inner_dense(beta: Array, i: int, upper: float, picked: Picked) -> int:
    n = 0
    for m in range(beta.shape[1]):
        if 0.0 < beta[i, m] < upper:
            picked.classes[n] = m
            picked.b[n] = beta[i, m]
            n += 1
    return n


@implements(inner_duals, Slots)
def _inner_slots(beta: Slots, i: int, upper: float, picked: Picked) -> int:
    n = beta.counts[i]
    for c in range(n):
        picked.classes[c] = beta.classes[i, c]
        picked.b[c] = beta.values[i, c]
    return n


@generic
def movable_duals(
    beta: Duals, i: int, upper: float, label: int, violations: Array, above: float, picked: Picked
) -> tuple[int, float, float, float]:
    """Pick the dual variables of row i that a block step may move.

    With slots, those are the nonzero ones and that of the most violating class (Keerthi et al.
    2008, section 2), and, if `above` is finite, of the classes with a violation t above it, up to
    `MOST_SLOTS` or twice the nonzero ones. Dense, those are the ones inside their bounds or at a
    bound that t points away from, or, if `above` is finite, all. ``violations[label]`` is 0.
    Returns how many, the row's share of the duality gap, the largest t among those left out at 0
    and the smallest among those left out at `upper`.
    """


@implements(movable_duals, np.ndarray)
def _movable_dense(
    beta: Array, i: int, upper: float, label: int, violations: Array, above: float, picked: Picked
) -> tuple[int, float, float, float]:
    row, (classes, t, b) = beta[i], picked
    share = _share(violations, row, upper)
    n = 0
    least, most = -np.inf, np.inf
    for m in range(violations.shape[0]):
        tm, bm = violations[m], row[m]
        at_zero = (bm == 0.0) & (tm <= 0.0) & (m != label)
        at_upper = (bm == upper) & (tm >= 0.0)
        least = max(least, tm if at_zero else -np.inf)
        most = min(most, tm if at_upper else np.inf)
        classes[n] = m
        t[n] = tm
        b[n] = bm
        n += ((above < np.inf) | (not (at_zero | at_upper))) & (m != label)
    return n, max(share, 0.0), least, most


@jit_sums
def _share(t: Array, b: Array, upper: float) -> float:
    """Return ``sum(upper * max(t, 0) - b * t)``."""
    share = 0.0
    for m in range(t.shape[0]):
        share += upper * max(t[m], 0.0) - b[m] * t[m]
    return share


@jit_sums
def _count(t: Array, threshold: float) -> int:
    """Count the t at or above the threshold."""
    n = 0
    for m in range(t.shape[0]):
        n += 1 if t[m] >= threshold else 0
    return n


@jit_sums
def _largest(t: Array) -> float:
    """Return the largest t."""
    largest = t[0]
    for m in range(1, t.shape[0]):
        largest = max(largest, t[m])
    return largest


@jit_inline
def _pick(m: int, n: int, violations: Array, picked: Picked) -> int:
    """Add class m, whose dual variable is 0, to the n there are; return their new number."""
    picked.classes[n] = m
    picked.t[n] = violations[m]
    picked.b[n] = 0.0
    violations[m] = -np.inf
    return n + 1


@implements(movable_duals, Slots)
def _movable_slots(
    beta: Slots, i: int, upper: float, label: int, violations: Array, above: float, picked: Picked
) -> tuple[int, float, float, float]:
    classes, t, b = picked
    k = violations.shape[0]
    n = 0 + beta.counts[i]  # int64, where the counts are int32
    product, largest = 0.0, 0.0
    for c in range(n):
        classes[c] = beta.classes[i, c]
        t[c] = violations[classes[c]]
        b[c] = beta.values[i, c]
        product += b[c] * t[c]
        largest = max(largest, t[c])
        violations[classes[c]] = -np.inf  # found, until the end
    violations[label] = -np.inf
    worst = _largest(violations)
    share = upper * max(worst, largest) - product
    left_out = worst
    if worst > largest:
        for m in range(k):
            if violations[m] == worst:
                n = _pick(m, n, violations, picked)
                break
        left_out = _largest(violations)
    if above < np.inf:
        threshold = max(above, LOWEST)
        limit = max(MOST_SLOTS, 2 * beta.counts[i])
        for _ in range(RAISES):
            if _count(violations, threshold) <= limit - n:
                break
            threshold += 0.5 * (worst - threshold)
        m = (i * MOST_SLOTS) % k  # where many are equal, other classes for every row
        for _ in range(k):
            if violations[m] >= threshold and n < limit:
                n = _pick(m, n, violations, picked)
            m = m + 1 if m + 1 < k else 0
        left_out = _largest(violations)
        if n >= limit:
            left_out = -np.inf
    for c in range(n):
        violations[classes[c]] = t[c]
    violations[label] = 0.0
    return n, max(share, 0.0), left_out, np.inf

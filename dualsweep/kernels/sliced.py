"""A sweep by several threads that own slices of the features, or by one.

Rows are visited in groups. The margins of a group are computed with the weights at its beginning,
each thread adding up what the features of its slice contribute. Then the visits follow one after
the other as in `dualsweep.kernels.binary.sweep`, each margin corrected for the earlier steps of the
group by what leading directions tell of inner products of rows. Finally each thread adds the steps
to the weights of its slice.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from .._jit import FUSED_MATH, jit, jit_inline, prefetch
from .._random import shuffle, uniform
from .._team import add_one, finish_part, load, next_part, pause, replace, yield_core
from .._typing import Array, Int
from ..losses.protocol import Loss, dual_step, gap_share
from ..rows.layouts import CSRRows
from ..rows.slices import SlicedRows, feature_bits, feature_mask
from .binary import TINY, target_of

# Coordinates of a row that corrections use: the bias, then leading directions.
N_LEADING = 4

# Places of numbers that threads share: the first and the last group of this call; then, each in a
# cache line of its own, how many helpers have come, how many slices of groups are done, and for
# each slice the group that nobody has begun there.
FIRST, END, JOINED, DONE, CLAIMED, STRIDE = 0, 1, 8, 16, 24, 8

# Polls for other threads to finish a group before a thread takes over slices nobody has begun, and
# before it lets others have its core.
PATIENCE, SPINS = 1000, 10_000

# Buckets to prefetch, and entries of each at most: the hardware finds the rest.
AHEAD, MOST_AHEAD = 3, 256


class SlicedData(NamedTuple):
    """Rows of a problem in slices, in shuffled order; see `BinaryData`."""

    rows: SlicedRows
    sqnorm: Array
    target: Array
    cost: Array
    leading: Array  # of each row, y_i and its coordinates along three directions
    bias: float
    loss: Loss


class Visits(NamedTuple):
    """One sweep: what is visited, and what becomes of it."""

    order: Array  # buckets of neighbouring rows, group after group
    groups: Array  # where each group starts in it, and where the last one ends
    alpha: Array
    w: Array
    shares: Array
    gains: Array  # of the dual, per visit of a bucket, as far as the corrections are right
    growth: Array  # of |w|^2 / 2, likewise


class Exchange(NamedTuple):
    """What threads tell each other during a sweep."""

    state: Array
    shift: int  # a bucket has 2**shift rows
    shuffled: Array  # orders to visit the rows of a group in, for one group after the other
    magic: Array  # one number, see `magic_of`
    margins: Array  # of each group, slice and row; two groups at a time
    duals: Array  # before the group; two at a time
    last: Array  # the weight of the bias before the group; two at a time
    scratch: Array  # per thread, see below


# What a thread notes about the rows of a group: new dual variables, slacks and steps. Besides, sums
# over a bucket, and the new weight of the bias.
NEW, SLACKS, STEPS, SUMS, LAST = range(5)


@jit
def sweep_sliced(
    data: SlicedData, visits: Visits, exchange: Exchange, team: Array, polls: int
) -> int:
    """Take part in a sweep; see `dualsweep._team`. The leader polls once."""
    while True:
        phase, _, _ = next_part(team, polls)
        if phase < 0:
            return phase
        _take_part(data, visits, exchange, polls == 1)
        finish_part(team)


@jit
def _take_part(data: SlicedData, visits: Visits, exchange: Exchange, leads: bool) -> None:
    """Go through the groups with the threads that are there; one thread can do it all."""
    state, n_slices = exchange.state, data.rows.starts.shape[0]
    first, end = state[FIRST], state[END]
    me: Int = 0 if leads else 1 + add_one(state, JOINED)
    mine = exchange.scratch[me]
    while True:
        # Whoever comes late, or was away, goes on where the others are.
        g = first + load(state, DONE) // n_slices
        if g > end:
            return
        if g > first:
            _visit(data, visits, exchange, g - 1, mine)
        waited = 0
        while load(state, DONE) < n_slices * (g - first + 1):
            if waited % PATIENCE == 0:
                n_threads = 1 + load(state, JOINED)
                for s in range(n_slices):
                    if waited > 0 or s % n_threads == me:
                        _do_slice(data, visits, exchange, g, s, mine)
            waited += 1
            if waited < SPINS:
                pause()
            else:
                yield_core()


@jit_inline
def _do_slice(
    data: SlicedData, visits: Visits, exchange: Exchange, g: int, s: int, mine: Array
) -> None:
    """Unless another thread does: take the steps of group g - 1 in slice s, then begin group g."""
    first, end = exchange.state[FIRST], exchange.state[END]
    if replace(exchange.state, CLAIMED + STRIDE * s, g - first, g - first + 1):
        if g > first:
            _take_steps(data, visits, exchange, g - 1, s, mine)
        if g < end:
            _begin(data, visits, exchange, g, s, mine)
        add_one(exchange.state, DONE)


@partial(jit, fastmath=FUSED_MATH)
def _begin(
    data: SlicedData, visits: Visits, exchange: Exchange, g: int, s: int, mine: Array
) -> None:
    """Compute the share of slice s in the margins of a group."""
    rows, w, b = data.rows, visits.w, 1 << exchange.shift
    starts, indices, values = rows.starts[s], rows.indices, rows.data
    n, mask = starts.shape[0] - 1, feature_mask(indices)
    magic, out, sums = exchange.magic[0], exchange.margins[g & 1, s], mine[SUMS]
    first, end = visits.groups[g], visits.groups[g + 1]
    one = np.uint64(1)
    sums[0] = 0.0
    for t in range(first, end):
        if t + 2 * AHEAD < end:
            prefetch(starts, visits.order[t + 2 * AHEAD] * b)
        if t + AHEAD < end:
            h = visits.order[t + AHEAD] * b
            for j in range(starts[h], min(starts[min(h + b, n)], starts[h] + MOST_AHEAD), 16):
                prefetch(values, j)
                prefetch(indices, j)
        h = visits.order[t] * b
        last = min(h + b, n)
        start, stop = np.uint64(starts[h]), np.uint64(starts[last])
        # Sums are exact: a row's is the difference of two over the bucket. A loop for each row
        # would have a few entries only.
        total, place = 0.0, one
        for j in range(start, stop):
            total += (np.float64(values[j]) * np.float64(w[indices[j] & mask]) + magic) - magic
            sums[place] = total
            place += one
        k = (t - first) * b
        for i in range(h, last):
            out[k] = sums[np.uint64(starts[i + 1]) - start] - sums[np.uint64(starts[i]) - start]
            k += 1
    # A part of the group's dual variables: nobody changes these now, for no row is in two
    # successive groups.
    lo, hi = _share(first, end, s, data.rows.starts.shape[0])
    duals = exchange.duals[g & 1]
    for t in range(lo, hi):
        if t + 2 * AHEAD < hi:
            prefetch(visits.alpha, visits.order[t + 2 * AHEAD] * b)
        h, k = visits.order[t] * b, (t - first) * b
        for i in range(h, min(h + b, n)):
            duals[k] = visits.alpha[i]
            k += 1
        prefetch(visits.shares, h)


@jit_inline
def _share(first: int, end: int, s: int, n_slices: int) -> tuple[int, int]:
    """Return which visits of a group the thread of slice s keeps the books of."""
    count = end - first
    return first + count * s // n_slices, first + count * (s + 1) // n_slices


@partial(jit, fastmath=FUSED_MATH)
def _visit(data: SlicedData, visits: Visits, exchange: Exchange, g: int, mine: Array) -> None:
    """Go through a group, with the margins that all slices have computed."""
    n_slices, n, shift = data.rows.starts.shape[0], data.sqnorm.shape[0], exchange.shift
    bias = data.bias
    b = 1 << shift
    first, end = visits.groups[g], visits.groups[g + 1]
    margins, duals = exchange.margins[g & 1], exchange.duals[g & 1]
    new, slacks, steps, z = mine[NEW], mine[SLACKS], mine[STEPS], data.leading
    size = (end - first) * b
    for t in range(first, end):
        h = visits.order[t] * b
        prefetch(data.sqnorm, h)
        prefetch(data.cost, h)
        for i in range(h, min(h + b, n), 4):
            prefetch(z, i * N_LEADING)
    for k in range(size):
        slacks[k] = margins[0, k]
    for s in range(1, n_slices):
        part = margins[s]
        for k in range(size):
            slacks[k] += part[k]
    c0, c1, c2, c3 = exchange.last[g & 1], 0.0, 0.0, 0.0
    shuffled = exchange.shuffled[g % exchange.shuffled.shape[0]]
    for q in range(shuffled.shape[0]):
        k = int(shuffled[q])
        if k < size:
            i = visits.order[first + (k >> shift)] << shift | k & (b - 1)
            if i >= n:
                continue
            z0, z1 = bias * np.float64(z[i, 0]), np.float64(z[i, 1])
            z2, z3 = np.float64(z[i, 2]), np.float64(z[i, 3])
            margin = slacks[k] + (z3 * c3 + z2 * c2) + (z1 * c1 + z0 * c0)
            slack = target_of(data.target, i) - margin
            a = duals[k]
            found, _, _ = dual_step(data.loss, data.cost[i], a, slack, data.sqnorm[i])
            step = found - a
            c0 += step * z0
            c1 += step * z1
            c2 += step * z2
            c3 += step * z3
            new[k], slacks[k], steps[k] = found, slack, step
    mine[LAST, 0] = c0


@partial(jit, fastmath=FUSED_MATH)
def _take_steps(
    data: SlicedData, visits: Visits, exchange: Exchange, g: int, s: int, mine: Array
) -> None:
    """Add the steps of a group to the weights of slice s, and keep the books of its share."""
    rows, w, b = data.rows, visits.w, 1 << exchange.shift
    starts, indices, values = rows.starts[s], rows.indices, rows.data
    n, n_slices = starts.shape[0] - 1, rows.starts.shape[0]
    mask, bits = feature_mask(indices), feature_bits(indices)
    first, end = visits.groups[g], visits.groups[g + 1]
    duals, new, slacks = exchange.duals[g & 1], mine[NEW], mine[SLACKS]
    for t in range(first, end):
        h, k = visits.order[t] * b, (t - first) * b
        steps = mine[STEPS, k : k + b]
        moves = False
        for i in range(min(b, n - h)):
            moves = moves or steps[i] != 0.0
        if moves:
            for j in range(np.uint64(starts[h]), np.uint64(starts[min(h + b, n)])):
                w[indices[j] & mask] += steps[indices[j] >> bits] * np.float64(values[j])
    lo, hi = _share(first, end, s, n_slices)
    for t in range(lo, hi):
        h, k, gain, growth = visits.order[t] * b, (t - first) * b, 0.0, 0.0
        for i in range(h, min(h + b, n)):
            a, cost = duals[k], data.cost[i]
            visits.shares[i] = gap_share(data.loss, cost, a, slacks[k])
            _, _, gained = dual_step(data.loss, cost, a, slacks[k], data.sqnorm[i])
            if new[k] != a:
                visits.alpha[i] = new[k]
                gain += max(gained, TINY)
                step = new[k] - a
                margin = target_of(data.target, i) - slacks[k]
                growth += step * (margin + 0.5 * step * data.sqnorm[i])
            k += 1
        visits.gains[t], visits.growth[t] = gain, growth
    if s == 0:
        exchange.last[(g + 1) & 1] = mine[LAST, 0]
        w[w.shape[0] - 1] = mine[LAST, 0]


@jit
def compose(
    state: Array,
    buckets: Array,
    preference: Array,
    counts: Array,
    phases: Array,
    n_groups: int,
    groups: Array,
    order: Array,
) -> int:
    """Fill `order` with buckets as often as preferred, evenly spread over groups.

    No bucket is in one group twice, or in two successive ones. `groups` becomes where each starts,
    and where the last one ends. Returns the number of visits.
    """
    n, most = buckets.shape[0], max(n_groups // 2, 1)
    remaining = 0.0
    for i in buckets:
        remaining += preference[i]
    left = n
    groups[: n_groups + 1] = 0
    for t in range(n):
        i = buckets[t]
        times = preference[i] * left / remaining
        count = int(times)
        if uniform(state) < times - count:
            count += 1
        count = min(count, left, most)
        remaining -= preference[i]
        left -= count
        counts[t], phases[t] = count, uniform(state)
        for m in range(count):
            groups[_group(phases[t], m, count, n_groups) + 1] += 1
    for g in range(n_groups):
        groups[g + 1] += groups[g]
    for t in range(n):
        for m in range(counts[t]):
            g = _group(phases[t], m, counts[t], n_groups)
            order[groups[g]] = buckets[t]
            groups[g] += 1
    for g in range(n_groups, 0, -1):
        groups[g] = groups[g - 1]
    groups[0] = 0
    # The order inside a group is random too: sweeps in a fixed order converge far more slowly where
    # all rows share a feature, as they do the bias (Sun and Ye 2021).
    for g in range(n_groups):
        shuffle(state, order[groups[g] : groups[g + 1]])
    return n - left


@jit_inline
def _group(phase: float, m: int, count: int, n_groups: int) -> int:
    """Return the group of the m-th visit of several, which are evenly spread."""
    return min(int((phase + m) / count * n_groups), n_groups - 1)


@jit
def shuffle_all(state: Array, orders: Array) -> None:
    """Overwrite each row with a random permutation."""
    for t in range(orders.shape[0]):
        for k in range(orders.shape[1]):
            orders[t, k] = k
        shuffle(state, orders[t])


@jit
def gather(
    numbers: Array,
    values: tuple[Array, Array],
    out: tuple[Array, Array],
    y: Array,
    leading: Array,
    first: int,
    last: int,
) -> None:
    """Copy the squared norms and costs of some rows, and add the bias to their coordinates."""
    for t in range(first, last):
        i = numbers[t]
        out[0][t], out[1][t] = values[0][i], values[1][i]
        leading[t, 0] = y[i]


@jit
def copy_sample(
    rows: CSRRows, sample: Array, starts: Array, values: Array, features: Array, counts: Array
) -> None:
    """Copy the entries of some rows, and count those of each feature."""
    for t in range(sample.shape[0]):
        e = starts[t]
        for j in range(np.uint64(rows.indptr[sample[t]]), np.uint64(rows.indptr[sample[t] + 1])):
            values[e], features[e] = rows.data[j], rows.indices[j]
            counts[rows.indices[j]] += 1
            e += 1


@jit
def fill_uniform(state: Array, out: Array) -> None:
    """Overwrite a matrix with numbers from [-1, 1)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 2.0 * uniform(state) - 1.0

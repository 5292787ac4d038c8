"""Sweeps by threads that own slices of the features, for one big sparse problem.

See `dualsweep.kernels.sliced` for what a sweep does, and docs/how/slices.md for why.
"""

from __future__ import annotations

from functools import partial
from math import inf, sqrt
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .. import _tuning
from .._memory import available_bytes
from .._random import random_state, shuffle
from .._team import Team
from .._threads import Workers, count_cores
from .._typing import Array
from ..kernels import sliced
from ..kernels.certificate import squared_length
from ..problems.binary import BinaryProblem
from ..problems.memory import MemoryProblem
from ..problems.run import PointRun
from ..rows.layouts import CSRRows
from ..rows.passes import Passes, passes_over
from ..rows.slices import MOST_SLICES, magic_of, project_rows, slice_rows, slices_of
from .schedules import Auto
from .sweeps import FLOAT32_TOL, MemorySweeper, Sweeper, proven_rows, sweeper_of

# Rows that are sampled for slices and directions, and power iterations.
SAMPLE, ITERATIONS = 1024, 3

# A group has at most MOST_ROWS rows, and at most `_tuning.UNCORRECTED` times the mean squared norm
# divided by the largest eigenvalue of X'X / n that is not corrected for. Groups of fewer than
# LEAST_ROWS do not pay.
MOST_ROWS, LEAST_ROWS = 512, 16

# Rows are visited in buckets of BUCKET neighbours, which use whole cache lines; of MANY_BUCKET
# where there are MANY_ROWS of at most SHORT_ROW entries. In larger buckets preferences say less:
# blogs, hinge, C = 1, 8 cores: 15, 16 and 19 sweeps of 22, 17 and 12 ms in buckets of 1, 2 and 8.
BUCKET, MANY_BUCKET, SHORT_ROW, MANY_ROWS = 2, 8, 128, 400_000

# A slice has at least so many entries of a row, on average, and a quarter of the cores is left to
# others: all threads wait for one that is interrupted. Sweeps over a million rows of 69 entries
# took 164 ms with 8 threads and 190 ms with 16.
LEAST_ENTRIES = 8

# Two threads gain less than the copies take: imdb and blogs, squared hinge, C = 1, take 0.18 and
# 0.17 s on one core and 0.22 and 0.18 s on two; imdb with the logistic loss 0.18 and 0.51 s.
LEAST_THREADS = 4

# A sweep is undone if the dual falls by more than rounding. Groups become smaller if it rises by
# less than KEPT times what the steps promised, and plain sweeps follow the smallest groups.
KEPT = 0.5

# Orders of the rows in a group; each serves for several groups of a sweep.
N_ORDERS = 61

# Entries that a thread visits between two looks at the clock, at least.
PART_ENTRIES = 1_000_000

# Rows are copied if their copies, and so many numbers per row, take at most this part of the memory
# that is left.
NUMBERS_PER_ROW, MOST_MEMORY = 16, 0.5

# Half as many threads go on if a part takes more than SLOWER times as long as the fastest one, or
# SLOWEST seconds per entry, which a single thread hardly needs: a thread without a core of its own
# holds up all others. Twice as many are tried again after some parts, or if fewer are slower still.
SLOWER, SLOWEST, FIRST_WAIT = 3.0, 6e-9, 8


class Directions(NamedTuple):
    """The leading right singular vectors of the rows, and the next eigenvalue."""

    vectors: Array  # of all features, a column each
    left: float  # the largest eigenvalue of X'X / n that they leave
    counts: Array  # entries of each feature in the sample


def leading_directions(rows: CSRRows, sample: Array, state: Array) -> Directions:
    """Return the leading directions of a sample of the rows, by subspace iteration."""
    counts = np.zeros(rows.n_features, np.int64)
    starts = np.zeros(len(sample) + 1, np.int64)
    np.cumsum(rows.indptr[sample + 1] - rows.indptr[sample], out=starts[1:])
    values, features = np.empty(starts[-1]), np.empty(starts[-1], np.uint64)
    sliced.copy_sample(rows, sample, starts, values, features, counts)
    used = np.flatnonzero(counts)  # far fewer than all features
    places = np.empty(rows.n_features, np.uint64)
    places[used] = np.arange(len(used), dtype=np.uint64)
    passes = passes_over(CSRRows(values, places[features], starts, len(used), 0.0), Workers())
    everyone, k = np.arange(len(sample)), sliced.N_LEADING
    q, vectors = np.empty((len(sample), k)), np.zeros((passes.n_weights, k))
    sliced.fill_uniform(state, q)
    for _ in range(ITERATIONS):
        basis, _ = np.linalg.qr(q)
        vectors[:] = 0.0
        passes.add_weighted(everyone, lambda part: basis[part], vectors)  # noqa: B023
        q = passes.responses(everyone, vectors)
    squares, turn = np.linalg.eigh(vectors.T @ vectors)  # ascending
    lengths = np.sqrt(np.maximum(squares[:0:-1], np.finfo(float).tiny))
    found = np.zeros((rows.n_features, k - 1), np.float32)
    found[used] = (vectors @ (turn[:, :0:-1] / lengths))[:-1]
    return Directions(found, max(float(squares[0]), 0.0) / len(sample), counts)


class Spread(Auto):
    """Visit buckets of rows as often as `Auto` visits rows, spread over groups."""

    def __init__(self, rows: Array, state: Array, per_group: int) -> None:
        self.per_group, self.n_groups, n = per_group, 2, len(rows)
        self.counts, self.phases = np.empty(n, np.int64), np.empty(n)
        self.groups, self.order = np.zeros(n + 3, np.int64), np.empty(n, np.int64)
        super().__init__(rows, state)

    def expand(self) -> None:
        """Do nothing: no bucket is left out on suspicion."""

    def next_order(self) -> Array:
        """Return the next order, whose groups are `starts`."""
        self.learn()
        self.n_groups = max(len(self.rows) // self.per_group, 2)
        room = self.counts, self.phases, self.n_groups, self.groups, self.order
        return self.order[: sliced.compose(self.state, self.rows, self.preference, *room)]

    @property
    def starts(self) -> Array:
        """Where each group of the latest order starts, and where the last one ends."""
        return self.groups[: self.n_groups + 1]

    def restrict(self, proven: Array) -> None:
        """Drop buckets. The order keeps its place in memory, which threads know."""
        self.rows = self.rows[~proven[self.rows]]


class SlicedSweeper:
    """Sweeps over CSR rows in memory whose features are shared out among threads."""

    check_every, check_cost = MemorySweeper.check_every, MemorySweeper.check_cost
    correction = MemorySweeper.correction

    def __init__(
        self, run: PointRun, seed: tuple[int, ...], n_slices: int, numbers: Array, found: Directions
    ) -> None:
        self.problem: BinaryProblem = run.problem
        self.seed = seed
        self.numbers = numbers  # of the rows, in the order that they are copied in
        self.bucket = bucket_rows(len(numbers), self.problem.passes)
        self.data = self._copy(n_slices, found)
        n_buckets = -(-len(numbers) // self.bucket)
        per_group = max(group_rows(self.problem, found.left) // self.bucket, 1)
        self.plan: Any = Spread(np.arange(n_buckets), random_state(*seed), per_group)
        self.alpha, self.shares = np.empty(len(numbers)), np.zeros(len(numbers))
        self.gains, self.growth = np.empty(n_buckets), np.empty(n_buckets)
        self.swept: BinaryProblem | None = None  # the problem that `alpha` belongs to
        self.team: Team | None = None
        self.visits: sliced.Visits
        self.exchange: sliced.Exchange
        self.plain: MemorySweeper | None = None  # which takes over where groups do not pay
        self.threads = Pace(n_slices)
        # Bounds on the length of a row, and on that of w as long as the dual is not below 0.
        self.longest_row = sqrt(float(self.data.sqnorm.max()))
        self.longest = sqrt(2.0 * self.problem.primal_at_zero)
        self.seen = 0.0
        run.narrow = self.data.rows.data.dtype == np.float32 and run.tol >= FLOAT32_TOL

    def _copy(self, n_slices: int, found: Directions) -> sliced.SlicedData:
        """Copy the rows, and what belongs to them."""
        problem, numbers, n = self.problem, self.numbers, len(self.numbers)
        passes, target = problem.passes, np.asarray(problem.target)
        slices = slices_of(found.counts, n_slices)
        rows = slice_rows(passes, numbers, problem.y, self.bucket, slices, n_slices)
        given, copied = (problem.sqnorm, problem.cost), (np.empty(n), np.empty(n))
        leading = np.empty((n, sliced.N_LEADING), np.float32)
        reach = 2.0 * sqrt(float(problem.sqnorm[numbers].max()))
        project_rows(passes, rows, found.vectors, reach, leading[:, 1:])

        def gather(part: slice) -> None:
            sliced.gather(numbers, given, copied, problem.y, leading, part.start, part.stop)

        passes.each(gather, n)
        target = target[numbers] if target.ndim else target
        bias = passes.rows.bias
        return sliced.SlicedData(rows, copied[0], target, copied[1], leading, bias, problem.loss)

    @property
    def n_left(self) -> int:
        """Buckets with rows whose dual variables are not proven to be optimal."""
        return len(self.plan.rows)

    def sweep(
        self, run: PointRun, w: Array, problem: BinaryProblem | None = None
    ) -> tuple[int, float]:
        """Do one sweep, as `Sweeper` says. Groups become smaller if their steps do not pay."""
        problem, plan = problem or self.problem, self.plan
        if self.plain is not None:
            visits, gain = self.plain.sweep(run, w, problem)
            self.seen = self.plain.seen
            return visits, gain
        if self.swept is not problem:
            self.data = self.data._replace(cost=problem.cost[self.numbers])
            self.alpha[:], self.swept, self.team = run.alpha[self.numbers], problem, None
        before, w_before, length = self.alpha.copy(), w.copy(), float(squared_length(w))
        plan.next_order()
        team = self._team(w)
        self.exchange.last[:] = w[-1]
        self.exchange.magic[0] = magic_of(self.longest_row * max(self.longest, sqrt(length)))
        sliced.shuffle_all(plan.state, self.exchange.shuffled)
        done = self._visit(run, team)
        gains = self.gains[:done]
        promised, change = float(gains.sum()), 0.5 * (float(squared_length(w)) - length)
        gain = promised + float(self.growth[:done].sum()) - change
        rounding = float(np.finfo(w.dtype).eps) * (length + 2.0 * abs(change))
        if not gain >= KEPT * promised - rounding:
            if not gain >= -rounding:
                self.alpha[:], w[:], gain = before, w_before, 0.0
            self._shrink_groups(run)
        self.seen = float(self.shares.sum())
        plan.observe(plan.order[:done], gains, gains)
        if problem is not self.problem:  # momentum goes on with these
            run.alpha[self.numbers] = self.alpha
        return done * self.bucket, gain

    def _shrink_groups(self, run: PointRun) -> None:
        """Halve the groups; give them up where they are small, but not under momentum."""
        self.plan.per_group, self.team = max(self.plan.per_group // 2, 1), None
        if self.plan.per_group * self.bucket < LEAST_ROWS and self.swept is self.problem:
            run.alpha[self.numbers] = self.alpha
            self.plain = MemorySweeper(run, "auto", self.seed)

    def _team(self, w: Array) -> Team:
        """Return threads that sweep with these weights, and have room for all groups."""
        room = int(np.diff(self.plan.starts).max()) * self.bucket
        if self.team is not None and self.visits.w is w and room <= self.exchange.duals.shape[1]:
            return self.team
        plan, starts, n = self.plan, self.data.rows.starts, len(self.alpha)
        noted = self.alpha, w, self.shares, self.gains, self.growth
        self.visits = sliced.Visits(plan.order, plan.groups, *noted)
        ends = starts[:, np.append(np.arange(0, n, self.bucket), n)]
        longest = int(np.diff(ends, axis=1).max()) + 1
        room, n_slices = room + room // 4, len(starts)
        self.exchange = sliced.Exchange(
            state=np.zeros(sliced.CLAIMED + sliced.STRIDE * n_slices, np.int64),
            shift=self.bucket.bit_length() - 1,
            shuffled=np.empty((N_ORDERS, room), np.int32),
            magic=np.empty(1),
            margins=np.empty((2, n_slices, room)),
            duals=np.empty((2, room)),
            last=np.empty(2),
            scratch=np.empty((n_slices + 1, 5, max(room, longest))),
        )
        kernel = partial(sliced.sweep_sliced, self.data, self.visits, self.exchange)
        self.team = Team(self.problem.passes.workers, kernel)
        return self.team

    def _visit(self, run: PointRun, team: Team) -> int:
        """Visit the groups part by part, unless told to stop; return the number of visits."""
        starts, state = self.plan.starts, self.exchange.state
        per_visit = len(self.data.rows.data) / len(self.alpha) * self.bucket
        g, n_groups = 0, len(starts) - 1
        while g < n_groups:
            n_threads = self.threads.wanted
            last = starts[g] + n_threads * PART_ENTRIES / per_visit
            end = min(max(int(np.searchsorted(starts, last)), g + 1), n_groups)
            state[:] = 0
            state[sliced.FIRST], state[sliced.END] = g, end
            started = perf_counter()
            team.do(0, n_threads)
            seconds = perf_counter() - started
            self.threads.judge(seconds / (max(int(starts[end] - starts[g]), 1) * per_visit))
            g = end
            if run.poll():
                break
        return int(starts[g])

    def check(self, run: PointRun, expand: bool) -> None:
        """Compute a certificate and leave out buckets whose rows are all proven optimal."""
        if self.plain is not None:
            self.plan, self.shares = self.plain.plan, self.plain.shares
            return self.plain.check(run, expand)
        if self.team is not None:
            self.team.dismiss()
        if self.swept is self.problem:
            run.alpha[self.numbers] = self.alpha
        self.swept = self.team = None  # the run may change its dual point
        run.check()
        if run.converged:
            return
        n, b = len(self.alpha), self.bucket
        proven = np.ones(len(self.gains) * b, bool)
        proven[:n] = proven_rows(run, self.problem)[self.numbers]
        self.plan.restrict(np.asarray(proven.reshape(-1, b).all(axis=1)))
        run.active = n - int(np.count_nonzero(proven[:n]))


class Pace:
    """How many threads sweep: fewer for a while after some had no core of their own."""

    def __init__(self, most: int) -> None:
        self.most = self.wanted = most
        self.fastest = self.slow = inf
        self.waits, self.left = FIRST_WAIT, 0  # parts until more threads are tried

    def judge(self, seconds: float) -> None:
        """Note how long an entry took."""
        self.fastest = min(self.fastest, seconds)
        if self.wanted < self.most:
            self.left -= 1
            if self.left <= 0 or seconds > self.slow:
                self.wanted, self.slow = min(2 * self.wanted, self.most), inf
                return
        if self.wanted > 1 and seconds > min(SLOWER * self.fastest, SLOWEST):
            self.wanted //= 2
            self.slow, self.waits = seconds, 2 * self.waits
            self.left = self.waits


def group_rows(problem: BinaryProblem, left: float) -> int:
    """Return how many rows a group may have if this eigenvalue is not corrected for."""
    mean = float(problem.sqnorm[problem.candidates].mean())
    return int(min(_tuning.UNCORRECTED * mean / max(left, np.finfo(float).tiny), MOST_ROWS))


def bucket_rows(n: int, passes: Passes) -> int:
    """Return how many neighbouring rows are visited together."""
    return MANY_BUCKET if n >= MANY_ROWS and passes.per_row <= SHORT_ROW else BUCKET


def count_slices(passes: Passes) -> int:
    """Return how many threads share a sweep; the model is the same for any number."""
    free = max(passes.workers.n_threads - passes.workers.n_submitted, 1)
    cores = count_cores()
    if free >= cores > 4:
        free = cores - cores // 4
    return int(min(free, cores, max(passes.per_row / LEAST_ENTRIES, 2), MOST_SLICES))


def suits(problem: Any) -> bool:
    """Return whether a problem may have sliced sweeps.

    The answer is the same for up to three threads, and for all larger numbers; so are models.
    """
    if not (isinstance(problem, BinaryProblem) and problem.alone):
        return False
    passes, rows = problem.passes, problem.passes.rows
    if not isinstance(rows, CSRRows) or passes.n_stored < _tuning.SLICED_ENTRIES:
        return False
    if passes.workers.n_threads < LEAST_THREADS:
        return False
    needed = passes.n_stored * (rows.data.itemsize + 4) + NUMBERS_PER_ROW * 8 * passes.n_rows
    return needed <= MOST_MEMORY * available_bytes()


def memory_sweeper(run: PointRun, schedule: str, seed: tuple[int, ...]) -> Sweeper:
    """Return the sweeper of rows in memory: by slices where that pays."""
    if schedule == "auto" and suits(run.problem):
        passes, state = run.problem.passes, random_state(*seed)
        numbers = run.problem.candidates.copy()
        shuffle(state, numbers)
        found = leading_directions(passes.rows, numbers[:SAMPLE], state)
        if group_rows(run.problem, found.left) >= LEAST_ROWS:
            return SlicedSweeper(run, seed, count_slices(passes), numbers, found)
    return MemorySweeper(run, schedule, seed)


sweeper_of.register(MemoryProblem, lambda problem: memory_sweeper)

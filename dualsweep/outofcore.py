"""Training on rows that do not fit into memory: blocks from disk, visited one group at a time.

A pass visits all blocks in random order, in groups of as many as there is room for. The rows of a
group are swept several times, mixed, while a thread reads the next one. Only the dual variables
(8 bytes a row) and the weights stay in memory. Each block's dual variables are final for a pass as
soon as its group is done, so the weights are summed up afresh along the way: a pass ends with the
weights of its dual variables, free of drift, and a certificate takes one more reading, not two.

Blocks have to be in ordinary memory, not mapped. Under a limit on address space (``ulimit -v``) a
mapping counts in full, in a control group mapped pages count as they are touched, and are dropped
and read again, one page fault at a time, where sweeps in random order need them. What is read
counts once, in both; the page cache behind it is given back on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ._random import random_state, shuffle
from .problem import HISTORY_DTYPE, Problem, Progress, Result
from .run import ROUNDING
from .schedules import SCHEDULES
from .sweeps import gap_left

__all__ = ["Blocks", "DamagedStateError", "State", "room_for_blocks", "solve_blocks"]

# Sweeps over a group of blocks while it is in memory. Passes to a relative gap of 1e-3 with 2, 3, 5
# and 8 of them, on 100,000 rows of text-like data in 49 blocks and groups of 6: 23, 15, 13 and 13
# (hinge; 17 sweeps in memory), 20, 9, 8 and 7 (squared hinge).
INNER_SWEEPS = 3

# A sweep over a group visits its blocks in turns, in random order, each of them in so many pieces.
# Rows that are visited together in every pass make sweeps slow: on 30,000 rows 32 passes of single
# sweeps in small pieces proved 1e-3, but 60 passes over one block after the other no more than
# 1.3e-2. Groups are other ones in each pass for the same reason.
PIECES = 64
LEAST_PIECE = 8  # visits that a call is worth

# What a row in memory takes besides its entries: label, cost, squared norm; schedule and scratch.
BYTES_PER_ROW = 96

# A certificate is computed if the gap guessed from a pass's first visits says it will hold, and
# after CHECK_EVERY passes.
CORRECTION = 4.0
CHECK_EVERY = 10

# How far weights may be from those of the dual variables, relative to the sum of the norms of what
# they are the sum of. In which order it is summed up makes a difference of 1e-16 times the root of
# the number of rows.
SAME_WEIGHTS = 1e-9


@runtime_checkable
class Blocks(Protocol):
    """Rows and labels in blocks, as `dualsweep.io.Store` has them; read by another thread."""

    shape: tuple[int, int]
    starts: Any  # first row of each block, and the number of rows
    block_bytes: Any  # size of each block in memory
    fingerprint: str  # of all there is in the blocks

    def read(self, b: int) -> tuple[Any, Any]:
        """Return the rows (CSR, float32 or float64) and labels of block b, in ordinary memory."""

    def read_labels(self, b: int) -> Any:
        """Return the labels of block b."""

    def load(self) -> tuple[Any, Any]:
        """Return all rows and labels."""


class DamagedStateError(ValueError):
    """A state to go on from that no run can have been in."""


@dataclass
class State:
    """Where a run is after a pass: all that the rest of it depends on."""

    alpha: Any
    w: Any  # the weights of alpha
    rng: Any
    history: Any = field(default_factory=lambda: np.empty(0, HISTORY_DTYPE))
    epoch: int = 0  # passes done
    checked: int = 0  # passes done at the latest certificate
    seconds: float = 0.0
    dual: float = 0.0
    seen: float = 0.0  # sum of the shares of the gap at the first visits of the latest pass
    estimate: float = np.inf  # of the gap
    correction: float = 1.0

    @property
    def relative_gap(self) -> float:
        """An estimate; not a number before the first pass."""
        return self.estimate / (self.dual + self.estimate) if self.estimate > 0.0 else 0.0

    def arrays(self) -> dict[str, Any]:
        """Return what to write to a checkpoint."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], n_rows: int, n_weights: int) -> State:
        """Return the state that was written; ValueError if it is none of so many rows and weights.

        Whether the weights are those of the dual variables, and these feasible, takes the rows to
        find out: the first certificate does.
        """
        state = cls(np.zeros(n_rows), np.zeros(n_weights), random_state(0))
        for name, like in state.arrays().items():
            found = arrays.get(name)
            if found is None:
                raise ValueError(f"{name} is missing")
            shape = found.shape if name == "history" and found.ndim == 1 else like.shape
            if found.dtype != like.dtype or found.shape != shape:
                raise ValueError(f"{name} is {found.dtype} {found.shape}, not {like.dtype} {shape}")
            if found.dtype == np.float64 and np.isnan(found).any():
                raise ValueError(f"{name} is not a number")
            setattr(state, name, found if found.ndim else found.item())
        if not (np.isfinite(state.alpha).all() and np.isfinite(state.w).all()):
            raise ValueError("alpha or w is not finite")
        if not 0 <= state.checked <= state.epoch:
            raise ValueError(f"checked is {state.checked}, but epoch {state.epoch}")
        return state


def room_for_blocks(memory: int, n_rows: int, n_weights: int) -> int:
    """Return how many of so many bytes are left beside dual variables and weights."""
    return memory - 8 * n_rows - 3 * 8 * n_weights


def solve_blocks(
    read: Callable[[int], Problem],
    starts: Any,
    block_bytes: Any,
    n_weights: int,
    *,
    memory: int,
    schedule: str = "auto",
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float = np.inf,
    seed: tuple[int, ...] = (0,),
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], bool] = lambda progress: False,
    state: State | None = None,
    save: Callable[[State], None] = lambda state: None,
) -> Result:
    """Minimise the dual of a problem in blocks until the relative gap is proven to be at most tol.

    Parameters
    ----------
    read : callable
        Returns block b as a problem of its own; called by one other thread.
    starts : array of shape (n_blocks + 1,)
        First row of each block, and the number of rows.
    block_bytes : array of shape (n_blocks,)
        Size of the rows of each block in memory.
    n_weights : int
        Length of w.
    memory : int
        Bytes for dual variables, weights and blocks. At most two groups of blocks are in memory
        at a time: one that is swept, one that is read.
    schedule, tol, max_time, seed, stop, watch
        See `dualsweep.solve.solve`. The time for the final certificate comes on top of `max_time`.
    max_iter : int
        Passes over the blocks to give up after.
    state : State, optional
        Where to go on, instead of from the start.
    save : callable
        Called after each pass. A run that goes on from what it is given then ends with bitwise
        the same result.

    Returns
    -------
    Result
        Of the last dual point; without costs and slacks.

    Raises
    ------
    DamagedStateError
        If `state` is none that a run of this problem can have been in.
    """
    n_rows = int(starts[-1])
    sizes = np.asarray(block_bytes) + BYTES_PER_ROW * np.diff(starts)
    room = room_for_blocks(memory, n_rows, n_weights)
    if 2 * sizes.max() > room:
        raise ValueError(
            f"A memory limit of {memory:,} bytes leaves {max(room, 0):,} for blocks of rows beside "
            f"{n_rows:,} dual variables and {n_weights:,} weights, but two blocks take up to "
            f"{2 * sizes.max():,}. Raise the limit to at least "
            f"{memory - room + 2 * sizes.max():,}, or write the data in smaller blocks."
        )
    trusted = state is None
    if state is None:
        state = State(np.zeros(n_rows), np.zeros(n_weights), random_state(*seed))
    run = _BlockRun(read, starts, sizes, room // 2, schedule, stop, max_time, state, trusted)
    while True:
        last = run.poll() or state.epoch >= max_iter
        due = state.epoch - state.checked >= CHECK_EVERY
        if last or due or state.relative_gap <= tol:
            primal, gap = run.check()
            if gap <= tol * primal < np.inf or gap <= run.rounding * primal or last:
                break
        if run.sweep():
            save(state)
            run.halted |= watch(Progress(state.epoch, state.relative_gap, n_rows, state.w))
    return Result(
        w=state.w,
        alpha=state.alpha,
        cost=None,
        slack=None,
        primal=primal,
        gap=gap,
        converged=gap <= tol * primal < np.inf,
        n_iter=state.epoch,
        n_newton=0,
        history=state.history,
    )


Chunk = list[tuple[slice, Problem]]


class _BlockRun:
    """Passes over the blocks, and what they have in common."""

    def __init__(
        self,
        read: Callable[[int], Problem],
        starts: Any,
        sizes: Any,
        room: int,
        schedule: str,
        stop: Callable[[], bool],
        max_time: float,
        state: State,
        trusted: bool,
    ) -> None:
        self.trusted = trusted  # whether w is that of alpha, and alpha feasible
        self.read, self.starts, self.sizes, self.room = read, starts, sizes, room
        self.schedule, self.stop, self.state = schedule, stop, state
        self.started = perf_counter() - state.seconds
        self.deadline = perf_counter() + max_time
        self.halted = False
        self.broken_off = False  # in the middle of a pass: w is that of no dual point
        self.rounding = len(sizes) * ROUNDING  # of a sum over blocks

    def poll(self) -> bool:
        """Return whether to stop at once: asked to, or out of time."""
        self.halted = self.halted or self.stop() or perf_counter() > self.deadline
        return self.halted

    def chunks(self, order: Any) -> Iterator[Chunk]:
        """Yield the blocks in this order, in groups that fit; the next one is being read.

        A group is emptied when the next one is asked for.
        """
        groups: list[list[int]] = []
        room = -1
        for b in order.tolist():
            if self.sizes[b] > room:
                groups.append([])
                room = self.room
            groups[-1].append(b)
            room -= self.sizes[b]
        with ThreadPoolExecutor(1) as pool:
            coming = [pool.submit(self._read, groups[0])]
            for following in [*groups[1:], None]:
                chunk = coming.pop().result()
                if following is not None:
                    coming.append(pool.submit(self._read, following))
                yield chunk
                chunk.clear()

    def _read(self, group: list[int]) -> Chunk:
        return [(slice(self.starts[b], self.starts[b + 1]), self.read(b)) for b in group]

    def sweep(self) -> bool:
        """Pass over all blocks; return false if it was broken off."""
        state = self.state
        order = np.arange(len(self.sizes))
        shuffle(state.rng, order)
        fresh, part = np.zeros_like(state.w), np.empty_like(state.w)
        seen = 0.0
        for chunk in self.chunks(order):
            seen += self._sweep_chunk(chunk)
            if self.poll():
                self.broken_off = True
                return False
            self._add_weights(chunk, fresh, part)
        state.w[:] = fresh
        state.estimate = state.correction * gap_left(seen, state.seen)
        state.seen = seen
        state.epoch += 1
        state.seconds = perf_counter() - self.started
        return True

    def _sweep_chunk(self, chunk: Chunk) -> float:
        """Sweep over a group of blocks; return the shares of the gap that first visits saw."""
        state = self.state
        seen = 0.0
        plans = [
            SCHEDULES[self.schedule](np.flatnonzero(problem.cost > 0), state.rng)
            for _, problem in chunk
        ]
        shares = [np.zeros(len(problem.y)) for _, problem in chunk]
        for inner in range(INNER_SWEEPS):
            orders = [plan.next_order() if len(plan.rows) else plan.rows for plan in plans]
            grads = [np.empty(len(order)) for order in orders]
            gains = [np.empty(len(order)) for order in orders]
            pieces = [
                (t, slice(start, start + step))
                for t, order in enumerate(orders)
                for step in [len(order) // PIECES + LEAST_PIECE]
                for start in range(0, len(order), step)
            ]
            turns = np.arange(len(pieces))
            shuffle(state.rng, turns)
            for turn in turns.tolist():
                t, piece = pieces[turn]
                rows, problem = chunk[t]
                state.dual += problem.sweep(
                    plans[t].shrunk,
                    orders[t][piece],
                    state.alpha[rows],
                    state.w,
                    grads[t][piece],
                    gains[t][piece],
                    shares[t],
                )
                if self.poll():
                    return seen
            for t, plan in enumerate(plans):
                if len(orders[t]):
                    plan.observe(orders[t], grads[t], gains[t])
            if inner == 0:
                seen = sum(float(share.sum()) for share in shares)
        return seen

    def _add_weights(self, chunk: Chunk, w: Any, part: Any) -> None:
        for rows, problem in chunk:
            problem.weights(self.state.alpha[rows], part)
            w += part

    def check(self) -> tuple[float, float]:
        """Return primal and gap, recomputed from the dual variables."""
        state = self.state
        order = np.arange(len(self.sizes))
        if self.broken_off:
            fresh, part = np.zeros_like(state.w), np.empty_like(state.w)
            for chunk in self.chunks(order):
                self._add_weights(chunk, fresh, part)
            state.w[:] = fresh
            self.broken_off = False
        doubt = None if self.trusted else _Doubt(state)
        size = 0.5 * float(state.w @ state.w)
        losses = gap = 0.0
        for chunk in self.chunks(order):
            if doubt is not None:
                doubt.look(chunk)
            part_losses, part_gap = self._check_chunk(chunk, size)
            losses, gap = losses + part_losses, gap + part_gap
        if doubt is not None:
            doubt.settle()
            self.trusted = True
        primal = size + losses
        gap = max(gap, self.rounding * primal)
        if state.estimate > 0.0 and np.isfinite(state.estimate):
            state.correction *= min(max(gap / state.estimate, 1.0 / CORRECTION), CORRECTION)
        state.checked, state.dual = state.epoch, primal - gap
        state.seconds = perf_counter() - self.started
        record = (0, state.seconds, state.epoch, primal, state.dual, gap, len(state.alpha))
        state.history = np.append(state.history, np.array([record], HISTORY_DTYPE))
        return primal, gap

    def _check_chunk(self, chunk: Chunk, size: float) -> tuple[float, float]:
        losses = gap = 0.0
        for rows, problem in chunk:
            members = np.flatnonzero(problem.cost > 0)
            primal, part = problem.certify(
                members, self.state.alpha[rows], self.state.w, np.empty(len(members))
            )
            losses, gap = losses + (primal - size), gap + part
        return losses, gap


class _Doubt:
    """Whether a state from a file is one that a certificate can be computed of.

    A certificate takes for granted that w is the weights of alpha, and alpha within its bounds.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.w, self.part = np.zeros_like(state.w), np.empty_like(state.w)
        self.size = 0.0

    def look(self, chunk: Chunk) -> None:
        for rows, problem in chunk:
            alpha, used = self.state.alpha[rows], problem.cost > 0
            upper = problem.cost[used] * problem.loss.upper
            inside = (problem.loss.lower <= alpha[used]) & (alpha[used] <= upper)
            if alpha[~used].any() or not inside.all():
                raise DamagedStateError("alpha is not within its bounds")
            problem.weights(alpha, self.part)
            self.w += self.part
            self.size += float(np.abs(alpha) @ np.sqrt(problem.sqnorm))

    def settle(self) -> None:
        off = float(np.linalg.norm(self.w - self.state.w))
        if not off <= SAME_WEIGHTS * self.size:
            raise DamagedStateError("w is not the weights of alpha")

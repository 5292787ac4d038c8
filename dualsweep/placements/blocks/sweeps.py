"""Sweeps over rows that do not fit into memory: blocks from disk, a group of them at a time.

A pass visits all blocks in random order, in groups of as many as there is room for. The rows of a
group are mixed and swept several times, while a thread reads the next group. Only weights and dual
variables stay in memory, and the dual variables of the best certificate. A pass does not return to
a group, so it sums the weights afresh along the way: it ends with the weights of its dual
variables, free of drift, and a certificate takes one more reading, not two.

Blocks have to be in ordinary memory, not mapped. Under a limit on address space (``ulimit -v``) a
mapping counts in full. In a control group, sweeps in random order touch mapped pages that were
dropped and are read again, one page fault at a time. What is read counts once in both cases; the
page cache behind it is given back on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap

import numpy as np

from ..._random import random_state, shuffle
from ..._typing import Array
from ...kernels.certificate import N_TOTALS, squared_length
from ...problems.remote import RemoteProblem
from ...problems.run import PointRun, Saving
from ...solvers.schedules import SCHEDULES
from ...solvers.sweeps import sweeper_of
from ...training.formulations import Problem
from .duals import BlockDuals, SlottedBlocks, dual_bytes, packed_duals, unpacked_duals

# Sweeps over a group of blocks while it is in memory. Passes to a relative gap of 1e-3 with 2, 3, 5
# and 8 of them, on 100,000 rows of text-like data in 49 blocks and groups of 6: 23, 15, 13 and 13
# (hinge; 17 sweeps in memory), 20, 9, 8 and 7 (squared hinge).
INNER_SWEEPS = 3

# A sweep over a group cuts each block into PIECES and visits those of all blocks in random order.
# Rows that are visited together in every pass make sweeps slow: on 30,000 rows 32 passes of single
# sweeps in small pieces proved 1e-3, but 60 passes over one block after the other no more than
# 1.3e-2. Groups change from pass to pass for the same reason.
PIECES = 64
LEAST_PIECE = 8  # visits that a call is worth

# What a row in memory takes besides its entries: label, cost, squared norm; schedule and scratch.
BYTES_PER_ROW = 96

# Distance of weights from those of the dual variables, relative to the sum of the norms of all
# terms. The order of the sum makes a difference of 1e-16 times the root of the number of rows.
SAME_WEIGHTS = 1e-9

NONE = np.empty(0)  # written in place of the best dual point before there is one


def room_for_blocks(memory: int, n_rows: int, n_weights: int, dual_bytes: int = 8) -> int:
    """Return the bytes of `memory` that dual variables and weights leave."""
    return memory - 2 * dual_bytes * n_rows - 3 * 8 * n_weights


Chunk = list[tuple[slice, Problem]]


class BlockProblem(RemoteProblem):
    """A problem whose rows are read block by block.

    At most two groups of blocks are in memory: one that is swept, one that is read.
    """

    def __init__(
        self,
        read: Callable[[int], Problem],  # block b as a problem of its own; called by another thread
        starts: Array,  # first row of each block, and the number of rows
        block_bytes: Array,  # size of each block in memory
        weights_shape: tuple[int, ...],
        slotted: bool,  # whether the dual variables of classes are kept in slots
        primal_at_zero: float,
        memory: int,  # bytes for dual variables, weights and blocks
    ) -> None:
        super().__init__(int(starts[-1]), weights_shape, primal_at_zero)
        self.read, self.starts, self.slotted = read, starts, slotted
        self.sizes = np.asarray(block_bytes) + BYTES_PER_ROW * np.diff(starts)
        n_weights, two = int(np.prod(weights_shape)), 2 * self.sizes.max()
        per_row = dual_bytes(weights_shape[1:], slotted)
        room = room_for_blocks(memory, self.n_rows, n_weights, per_row)
        if two > room:
            least = memory - room + two
            raise ValueError(
                f"A memory limit of {memory:,} bytes leaves {max(room, 0):,} for blocks of rows "
                f"beside the dual variables of {self.n_rows:,} rows ({per_row} bytes "
                f"each, twice) and {n_weights:,} weights, but two blocks "
                f"take up to {two:,}. Raise the limit to at least {least:,} bytes "
                f"(--memory-limit {-(-least // 2**20)}), or write the data in smaller blocks "
                "(block_bytes, or dualsweep convert --block-size)."
            )
        self.room = room // 2

    def zero_alpha(self) -> BlockDuals:
        if self.slotted:
            return SlottedBlocks(self.starts, self.weights_shape[1])
        return np.zeros((self.n_rows, *self.weights_shape[1:]))

    def zero_weights(self) -> Array:
        return np.zeros(self.weights_shape)

    def chunks(self, order: Array | None = None) -> Iterator[Chunk]:
        """Yield groups of blocks that fit, in this order, while the next one is being read.

        A group is emptied when the next one is asked for. Variables of a nested loop would keep a
        block of it: comprehensions and functions do not.
        """
        groups: list[list[int]] = []
        room = -1
        for b in range(len(self.sizes)) if order is None else order.tolist():
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

    def fill_weights(self, alpha: BlockDuals, w: Array, *, compensated: bool = False) -> None:
        w[:] = 0.0
        for chunk in self.chunks():
            _add_weights(chunk, alpha, w, compensated)

    def size(self, w: Array) -> float:
        return float(squared_length(w.ravel()))

    def totals(
        self, alpha: BlockDuals, w: Array, length: float, slack: None, *, compensated: bool = False
    ) -> Array:
        def of_block(rows: slice, block: Problem) -> Array:
            slack = np.empty(len(block.candidates))
            return block.totals(alpha[rows], w, length, slack, compensated=compensated)

        totals = np.zeros(N_TOTALS)
        for chunk in self.chunks():
            for found in starmap(of_block, chunk):
                totals += found
        return totals

    def find_flaw(self, alphas: list[BlockDuals], w: Array) -> str | None:
        """Say if any of `alphas` is not feasible, or w are not the weights of the first.

        A certificate takes both for granted, and a file may hold anything.
        """
        weights, size = np.zeros_like(w), 0.0
        for chunk in self.chunks():
            if not all(block.is_feasible(alpha[rows]) for alpha in alphas for rows, block in chunk):
                return "alpha is not within its bounds"
            size += sum(block.summed(alphas[0][rows]) for rows, block in chunk)
            _add_weights(chunk, alphas[0], weights)
        same = float(np.linalg.norm(weights - w)) <= SAME_WEIGHTS * size
        return None if same else "w is not the weights of alpha"


def _add_weights(chunk: Chunk, alpha: BlockDuals, w: Array, compensated: bool = False) -> None:
    part = np.empty_like(w)
    for rows, block in chunk:
        block.fill_weights(alpha[rows], part, compensated=compensated)
        w += part


class BlockSweeper:
    """Passes over all blocks, with several sweeps over each group; see `Sweeper`."""

    # A certificate takes one reading of the blocks, as a pass does.
    check_every, check_cost = 10.0 * INNER_SWEEPS, 1.0 * INNER_SWEEPS
    # First visits see a gap that the sweeps after them make smaller.
    correction = 16.0

    def __init__(self, run: PointRun, schedule: str, seed: tuple[int, ...]) -> None:
        self.problem: BlockProblem = run.problem
        self.schedule = schedule
        self.rng = random_state(*seed)
        self.n_left = run.problem.n_rows
        self.seen = 0.0  # at the first visits of the latest pass
        self.weights_known = True  # whether w are those of alpha

    def keep(self, run: PointRun, saving: Saving) -> None:
        """Resume from the state that was read, if any, and write the state after each pass."""
        if saving.read is not None:
            try:
                alphas = self._restore(run, saving.read)
            except ValueError as error:
                raise saving.damaged(error) from error
            flaw = self.problem.find_flaw(alphas, run.w)
            if flaw is not None:
                raise saving.damaged(flaw)
            saving.resumed(run.epoch)
        run.save = lambda: saving.write(self.state(run))

    def state(self, run: PointRun) -> dict[str, Array]:
        """Return all that the rest of the run depends on."""
        best = run.best_alpha
        return run.snapshot() | {
            "alpha": packed_duals(run.alpha),
            "best_alpha": NONE if best is None else packed_duals(best),
            "rng": self.rng,
        }

    def _restore(self, run: PointRun, arrays: dict[str, Array]) -> list[BlockDuals]:
        rng = arrays.get("rng")
        if rng is None or rng.dtype != self.rng.dtype or rng.shape != self.rng.shape:
            raise ValueError("rng is missing")
        self.rng = rng
        names = ["alpha", "best_alpha"]
        best = arrays.get("best_alpha")
        if best is not None and best.dtype == NONE.dtype and best.shape == NONE.shape:
            names.remove("best_alpha")
        zero = self.problem.zero_alpha
        alphas = [unpacked_duals(name, arrays.get(name), zero()) for name in names]
        run.restore(arrays, alphas[0], alphas[1] if len(alphas) > 1 else None)
        return alphas

    def sweep(self, run: PointRun, w: Array) -> tuple[int, float]:
        order = np.arange(len(self.problem.sizes))
        shuffle(self.rng, order)
        fresh = np.zeros_like(w)
        self.seen, visits, gain = 0.0, 0, 0.0
        self.weights_known = False
        for chunk in self.problem.chunks(order):
            done, gained = self._sweep_chunk(run, chunk, w)
            visits, gain = visits + done, gain + gained
            if run.poll():
                return visits, gain
            _add_weights(chunk, run.alpha, fresh)
        w[:] = fresh
        self.weights_known = True
        return visits, gain

    def _sweep_chunk(self, run: PointRun, chunk: Chunk, w: Array) -> tuple[int, float]:
        visits, gain = 0, 0.0
        plans = [SCHEDULES[self.schedule](block.candidates, self.rng) for _, block in chunk]
        shares = [np.zeros(block.n_rows) for _, block in chunk]
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
            shuffle(self.rng, turns)
            for turn in turns.tolist():
                t, piece = pieces[turn]
                rows, block = chunk[t]
                gained, _ = block.sweep(
                    shrunk=plans[t].shrunk,
                    order=orders[t][piece],
                    alpha=run.alpha[rows],
                    w=w,
                    grads=grads[t][piece],
                    gains=gains[t][piece],
                    shares=shares[t],
                )
                gain += gained
                visits += len(orders[t][piece])
                if run.poll():
                    return visits, gain
            for t, plan in enumerate(plans):
                if len(orders[t]):
                    plan.observe(orders[t], grads[t], gains[t])
            if inner == 0:
                self.seen += sum(float(share.sum()) for share in shares)
        return visits, gain

    def check(self, run: PointRun, expand: bool) -> None:
        """Compute a certificate; no row is left out."""
        run.check(weights_known=self.weights_known)
        self.weights_known = True


sweeper_of.register(BlockProblem, lambda problem: BlockSweeper)

"""Passes over the rows: all that methods which look at many rows at once may do with them.

A pass adds up parts of the rows in a fixed order, whoever works on them, so that the number of
threads changes nothing. It knows neither labels nor losses: callers turn responses of the rows into
what they need, a part or a chunk of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from itertools import pairwise
from threading import Lock
from typing import Any, Literal

import numpy as np

from .._jit import jit
from .._symmetric import add_lower
from .._threads import Workers
from .._typing import Array
from .compensated import add_compensated, compensated_rows
from .functions import row_axpy, row_dot, row_outer, row_sqnorm
from .layouts import Rows, n_rows, n_stored
from .many_classes import add_outer_many, row_add_few, row_scores, whole_gram

# Passes are cut into parts of at least so many rows or so many entries, at most so many: a part
# takes its time to be handed to a thread. Gram matrices take longer for a row, and what is done
# with a number per row is light.
PARTS, PART_ROWS, PART_ENTRIES, GRAM_ROWS, LIGHT_ROWS = 16, 10_000, 1_000_000, 1024, 30_000

# Parts that threads take inside a kernel are so many times as many and as small: they are taken in
# no time, and one thread that is late holds up the less.
FINER = 4

# Each part of a weighted sum has weights of its own to add to, which have to be filled with zeros
# and added up. There are as many parts as have so many entries per weight, or one.
ENTRIES_PER_WEIGHT = 4

# Weights of all parts together that are added up in the end, 8 MB.
SMALL_SUMS = 1 << 20

# Numbers that a chunk has at most: responses, or the factors of a Gram matrix of many classes.
CHUNK = 1 << 16

# Entries of rows that are used twice in a row, once for their responses and once for their sum.
CHUNK_ENTRIES = 200_000

# Products of two entries computed between two looks at the clock: some 0.1 s.
PAIRS_PER_CALL = 100_000_000


class Passes:
    """Passes over rows in memory.

    Parameters
    ----------
    rows : CSRRows or DenseRows
        The rows.
    workers : Workers
        Threads that share a pass.

    Notes
    -----
    `members` are numbers of rows throughout. Weights and responses of many classes have a column
    per class.
    """

    # Time that an entry takes in a sweep, there with many classes for each, and a pair of entries
    # in a Gram matrix, in that of an entry read in sequence: about a nanosecond.
    entry_time, class_time, pair_time = 2.0, 0.25, 0.6
    # And that of an entry in all passes of a Newton step but for its Gram matrix.
    newton_time = 3.0
    # The order of weights of many classes in which passes are fastest.
    order: Literal["C", "F"] = "C"
    gram_by_products = False  # whether Gram matrices are matrix products, of dense rows

    def __init__(self, rows: Rows, workers: Workers) -> None:
        self.rows, self.workers = rows, workers
        self.n_rows, self.n_stored = n_rows(rows), n_stored(rows)
        self.n_weights = rows.n_features + 1
        self.per_row = self.n_stored / max(self.n_rows, 1) + 1  # entries, the bias included

    def shared(self, workers: Workers) -> Passes:
        """Return passes over the same rows with other threads."""
        twin = copy(self)
        twin.workers = workers
        return twin

    def compensated(self, W: Any) -> Passes:
        """Return passes whose responses to W are summed in compensated arithmetic."""
        twin: Any = copy(self)
        twin.rows = compensated_rows(self.rows, W)
        return twin

    def each(
        self, function: Callable[[slice], Any], n: int, part_rows: int | None = None
    ) -> list[Any]:
        """Return what `function` returns for the parts of n members."""
        return self.workers.map(function, self._parts(n, PARTS, part_rows))

    def sum(
        self,
        function: Callable[[slice], Any],
        n: int,
        most_parts: int = PARTS,
        part_rows: int | None = None,
    ) -> Any:
        """Return the sum of the arrays that `function` returns for the parts of n members.

        Each is added as soon as those before it have been: memory for all is never needed at once.
        """
        return self._sum_of(function, self._parts(n, most_parts, part_rows))

    def _sum_of(self, function: Callable[[slice], Any], parts: list[slice]) -> Any:
        total = None

        def add(made: Any) -> None:
            nonlocal total
            if total is None:
                total = made
            else:
                total += made

        self._in_order(function, parts, add)
        return total

    def _in_order(
        self, function: Callable[[Any], Any], parts: list[Any], add: Callable[[Any], None]
    ) -> None:
        """Let `add` have what `function` makes of each part, in their order."""
        ready: dict[int, Any] = {}
        added, lock = 0, Lock()

        def make(numbered: tuple[int, Any]) -> None:
            nonlocal added
            place, part = numbered
            made = function(part)
            with lock:
                ready[place] = made
                del made
                while added in ready:
                    add(ready.pop(added))
                    added += 1

        self.workers.map(make, enumerate(parts))

    def sqnorms(self) -> Any:
        """Return the squared norm of every row, the bias included."""
        out = np.empty(self.n_rows)
        self.each(lambda part: _sqnorms(self.rows, part.start, out[part]), len(out))
        return out

    def responses(self, members: Any, W: Any) -> Any:
        """Return ``X[members] @ W``, the bias included."""
        W, out = np.asarray(W, order=self.order), np.empty((len(members), *W.shape[1:]))
        self.each(lambda part: self._respond(members[part], W, out[part]), len(members))
        return out

    def scan(
        self, members: Any, W: Any, look: Callable[[slice, Any, Any], None], n_totals: int
    ) -> Any:
        """Let `look` see the responses to W a chunk at a time, and return what it adds up.

        It is called with which of the members they are, their responses, which are its own to
        change, and totals to add to, in order.
        """
        W = np.asarray(W, order=self.order)

        def part(part: slice) -> Any:
            totals = np.zeros(n_totals)
            for chunk in chunks(part, CHUNK / max(W.shape[1:], default=1)):
                out = np.empty((chunk.stop - chunk.start, *W.shape[1:]))
                self._respond(members[chunk], W, out)
                look(chunk, out, totals)
            return totals

        return self.sum(part, len(members))

    def add_weighted(self, members: Any, coef: Callable[[slice], Any], out: Any) -> None:
        """Add ``sum_i coef_i x_i`` to the weights `out`; `coef` returns those of some members."""
        n_classes = max(out.shape[1:], default=1)

        def part(part: slice, W: Any) -> None:
            for chunk in chunks(part, CHUNK / n_classes):
                self._add(members[chunk], coef(chunk), W)

        self.add_parts(part, len(members), out)

    def add_compensated(self, members: Any, coef: Callable[[slice], Any], out: Any) -> None:
        """Add ``sum_i coef_i x_i`` to `out` in compensated arithmetic, on one thread.

        `coef` returns a row of coefficients for each of some members.
        """
        W = out if out.ndim == 2 else out[:, None]
        low = np.zeros_like(W)
        for chunk in chunks(slice(0, len(members)), CHUNK / W.shape[1]):
            add_compensated(self.rows, members[chunk], coef(chunk), W, low)
        W += low

    def add_product(
        self, members: Any, V: Any, change: Callable[[slice, Any], Any], out: Any
    ) -> None:
        """Add ``sum_i change(x_i.V) x_i``: a sum weighted by what becomes of the responses."""
        V, n_classes = np.asarray(V, order=self.order), max(V.shape[1:], default=1)
        length = min(CHUNK / n_classes, CHUNK_ENTRIES / self.per_row)

        def part(part: slice, W: Any) -> None:
            for chunk in chunks(part, length):
                responses = np.empty((chunk.stop - chunk.start, *V.shape[1:]))
                self._respond(members[chunk], V, responses)
                self._add(members[chunk], change(chunk, responses), W)

        self.add_parts(part, len(members), out)

    def add_parts(
        self,
        add: Callable[[slice, Any], None],
        n: int,
        out: Any,
        part_rows: int | None = None,
    ) -> None:
        """Let each part of n members add to weights of its own, the first to `out`; sum them up."""
        parts = self.parts_to_add(n, out.size, part_rows)
        more = len(parts) - 1
        if more * out.size <= SMALL_SUMS:
            # One array for all parts: each of their own would be more turns of Python.
            order = range(out.ndim)[:: 1 if out.flags.c_contiguous else -1]
            shape = [out.shape[axis] for axis in order]
            sums = np.zeros((more, *shape)).transpose(0, *(1 + axis for axis in order))
            self.workers.map(lambda p: add(parts[p], sums[p - 1] if p else out), range(len(parts)))
            for each in sums:
                out += each
            return

        def part(part: slice) -> Any:
            W = out if part.start == 0 else np.zeros_like(out)
            add(part, W)
            return W

        self._sum_of(part, parts)

    def parts_to_add(self, n: int, n_weights: int, part_rows: int | None = None) -> list[slice]:
        """Cut n members into parts that add to weights of their own."""
        per_weight = self.n_stored / max(n_weights, 1)
        return self._parts(n, max(min(PARTS, int(per_weight / ENTRIES_PER_WEIGHT)), 1), part_rows)

    def count_fine_parts(self, n: int) -> tuple[int, int]:
        """Return in how many parts threads inside a kernel take n members.

        And in how many where each part adds to weights of its own, all of them in memory at once.
        """
        least = min(PART_ROWS, PART_ENTRIES / self.per_row) / FINER
        parts = max(min(FINER * PARTS, int(n / least)), 1)
        per_weight = self.n_stored / self.n_weights / ENTRIES_PER_WEIGHT
        return parts, max(min(parts, int(per_weight), SMALL_SUMS // self.n_weights), 1)

    def add_gram(
        self, members: Any, scale: Any, out: Any, stop: Callable[[], bool], exact: bool = False
    ) -> bool:
        """Add ``sum_i scale_i x_i x_i'`` to the lower half of `out`; return False if told to stop.

        In float64; dense rows in the precision of X unless it is to be exact.
        """

        def part(part: slice) -> Any:
            half = np.zeros((self.n_weights, self.n_weights))
            for chunk in chunks(part, PAIRS_PER_CALL / self.per_row**2):
                _add_outer(self.rows, members[chunk], scale[chunk], half)
                if stop():
                    break
            return half

        half = self.sum(part, len(members), self.gram_parts(), GRAM_ROWS)
        add_lower(half + half.T, 1.0, out)
        return not stop()

    def gram_parts(self, n_classes: int = 1) -> int:
        """Return how many parts of a Gram matrix together take about as much memory as X."""
        return max(min(PARTS, int(self.n_stored / (self.n_weights * n_classes) ** 2)), 1)

    def gram_many(
        self,
        members: Array,
        factors: Callable[[slice], tuple[Array, Array, Array]],
        n_classes: int,
        stop: Callable[[], bool],
    ) -> Any:
        """Return ``sum_i (x_i x_i') (x) M_i``, a matrix over all weights in the order of W.

        `factors` returns, for some of the members, on how many classes M_i is not 0, on which, and
        M_i there. None is returned if told to stop.
        """
        d, k = self.n_weights, n_classes
        pairs = max(self.per_row * k / 2, 1.0) ** 2

        def part(part: slice) -> Any:
            blocks = np.zeros((k, k, d, d))
            values, places = np.empty(d), np.empty(d, np.int64)
            for chunk in chunks(part, min(CHUNK / k**2, PAIRS_PER_CALL / pairs)):
                add_outer_many(self.rows, members[chunk], *factors(chunk), blocks, values, places)
                if stop():
                    break
            return blocks

        blocks = self.sum(part, len(members), self.gram_parts(k), GRAM_ROWS)
        return None if stop() else whole_gram(blocks)

    def _parts(self, n: int, most: int, part_rows: int | None) -> list[slice]:
        """Cut n members into parts, the same whoever works on them."""
        least = part_rows or min(PART_ROWS, PART_ENTRIES / self.per_row)
        count = max(min(most, int(n / least)), 1)
        bounds = [n * part // count for part in range(count + 1)]
        return [slice(*pair) for pair in pairwise(bounds)]

    def _respond(self, members: Any, W: Any, out: Any) -> None:
        """Fill in the responses of a chunk."""
        (_respond if W.ndim == 1 else _respond_many)(self.rows, members, W, out)

    def _add(self, members: Any, coef: Any, W: Any) -> None:
        """Add a chunk to weights."""
        if W.ndim == 1:
            _add_rows(self.rows, members, coef, W)
        else:
            k = W.shape[1]
            _add_rows_many(
                self.rows, members, coef, W, np.empty(k, np.int64), np.empty(k), np.empty(k)
            )


def chunks(part: slice, length: float) -> Iterator[slice]:
    """Cut a part into chunks of about this length."""
    step = max(int(length), 1)
    return (
        slice(start, min(start + step, part.stop)) for start in range(part.start, part.stop, step)
    )


@jit
def _sqnorms(rows: Rows, first: int, out: Any) -> None:
    for t in range(out.shape[0]):
        out[t] = row_sqnorm(rows, first + t)


@jit
def _respond(rows: Rows, members: Any, w: Any, out: Any) -> None:
    for t in range(members.shape[0]):
        out[t] = row_dot(rows, members[t], w)


@jit
def _respond_many(rows: Rows, members: Any, W: Any, out: Any) -> None:
    for t in range(members.shape[0]):
        row_scores(rows, members[t], W, out[t])


@jit
def _add_rows(rows: Rows, members: Any, coef: Any, w: Any) -> None:
    for t in range(members.shape[0]):
        if coef[t] != 0.0:
            row_axpy(rows, members[t], coef[t], w)


@jit
def _add_rows_many(
    rows: Rows, members: Any, coef: Any, W: Any, classes: Any, step: Any, scratch: Any
) -> None:
    for t in range(members.shape[0]):
        n = 0
        for m in range(coef.shape[1]):
            if coef[t, m] != 0.0:
                classes[n] = m
                step[n] = coef[t, m]
                n += 1
        if n > 0:
            row_add_few(rows, members[t], classes, step, n, W, scratch)


@jit
def _add_outer(rows: Rows, members: Any, scale: Any, out: Any) -> None:
    """Add half of ``sum_t scale[t] x x'``: the sum is ``out + out'``."""
    for t in range(members.shape[0]):
        row_outer(rows, members[t], scale[t], out)

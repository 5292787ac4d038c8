"""Passes over the rows: all that a method may do with many rows at once.

A pass cuts the rows into parts and adds these up in a fixed order, so that the number of threads
changes nothing. It knows neither labels nor losses: callers turn the responses of the rows into
what they need, a part or a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from .. import _tuning
from .._jit import jit
from .._symmetric import add_lower
from .._threads import Workers
from .._typing import Array
from .compensated import add_compensated
from .functions import row_axpy, row_dot, row_sqnorm, rows_outer
from .layouts import AnyRows, CSRRows, DenseRows, Rows, cut, n_rows
from .many_classes import add_outer_many, row_add_few, row_scores, whole_gram

# Functions of some members: one returns an array, one adds to an array what comes of them.
Numbers: TypeAlias = Callable[[slice], Array]
Add: TypeAlias = Callable[[slice, Array], None]
Stop: TypeAlias = Callable[[], bool]  # whether to stop

Part = TypeVar("Part")
Made = TypeVar("Made")

# A pass has at most PARTS parts, each of at least `_tuning.PART_ROWS` rows or PART_ENTRIES entries.
PARTS, PART_ENTRIES = 16, 1_000_000

# Inside a kernel, threads take a part in no time: parts are smaller by this factor, and a late
# thread holds up the others less.
FINER = 4

# Entries that are summed up per column at a time.
COLUMN_ENTRIES = 1 << 22

# Up to this many entries NumPy computes squared norms: no kernel has to be compiled or loaded.
FEW_ENTRIES = 100_000

# Up to this many weights, 8 MB, the sums of all parts are kept until the end.
SMALL_SUMS = 1 << 20


def passes_over(rows: Rows, workers: Workers) -> Passes:
    """Return the passes over rows of this layout."""
    return (DensePasses if isinstance(rows, DenseRows) else Passes)(rows, workers)


class Passes:
    """Passes over rows in memory, which the threads of `workers` share.

    `members` are always row numbers. Weights and responses of many classes have a column per class.
    """

    # The time of an entry in a sweep, of an entry and class in a sweep over many classes, and of a
    # pair of entries in a Gram matrix, all relative to an entry read in sequence: about 1 ns.
    entry_time, class_time, pair_time = 2.0, 0.25, 0.6
    # And the time of an entry in a Newton step, without its Gram matrix.
    newton_time = 3.0
    # The order of the weights of many classes in which passes are fastest.
    order: Literal["C", "F"] = "C"
    gram_by_products = False  # whether Gram matrices are matrix products

    def __init__(self, rows: Rows, workers: Workers) -> None:
        self.rows, self.workers = rows, workers
        self.n_rows, self.n_stored = n_rows(rows), int(rows.data.size)
        self.n_weights = rows.n_features + 1
        self.per_row = self.n_stored / max(self.n_rows, 1) + 1  # entries, the bias included

    def shared(self, workers: Workers) -> Passes:
        """Return passes over the same rows with other threads."""
        return type(self)(self.rows, workers)

    def each(
        self, function: Callable[[slice], Made], n: int, part_rows: int | None = None
    ) -> list[Made]:
        """Return what `function` returns for each part of n members."""
        return self.workers.map(function, self.parts(n, part_rows))

    def _in_order(
        self, function: Callable[[Part], Made], parts: list[Part], add: Callable[[Made], None]
    ) -> None:
        """Call `add` with what `function` makes of each part, in the order of the parts."""
        ready: dict[int, Made] = {}
        added, lock = 0, Lock()

        def make(numbered: tuple[int, Part]) -> None:
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

    def sqnorms(self) -> Array:
        """Return the squared norm of every row, the bias included."""
        if self.n_stored <= FEW_ENTRIES:
            return few_sqnorms(self.rows)
        out = np.empty(self.n_rows)
        self.each(lambda part: _sqnorms(self.rows, part.start, out[part]), len(out))
        return out

    def check_finite(self) -> None:
        """Raise ValueError if rows that were finite when training began are not any more."""
        if not np.isfinite(self.sqnorms()).all():
            raise ValueError(
                "X has NaN, infinity or a squared norm beyond float64 that it did not have "
                "when training began. It must not change meanwhile: train on a copy."
            )

    def responses(self, members: Array, W: Array) -> Array:
        """Return ``X[members] @ W``, the bias included."""
        W, out = np.asarray(W, order=self.order), np.empty((len(members), *W.shape[1:]))
        self.each(lambda part: _respond(self.rows, members[part], W, out[part]), len(members))
        return out

    def scan(
        self,
        members: Array,
        W: Array,
        look: Callable[[slice, Array, Array], None],
        n_totals: int,
        rows: AnyRows | None = None,
    ) -> Array:
        """Call `look` with the responses to W, a chunk at a time; return the totals it adds up.

        It is given the chunk of the members, their responses, which it may overwrite, and the
        totals. `rows` are those of `compensated_rows` where responses have to be precise.
        """
        W, from_rows = np.asarray(W, order=self.order), self.rows if rows is None else rows
        totals = np.zeros(n_totals)

        @in_chunks(_tuning.CHUNK / n_columns(W))
        def add(chunk: slice, out: Array) -> None:
            look(chunk, _responses(from_rows, members[chunk], W), out)

        self.add_parts(add, self.parts(len(members)), totals)
        return totals

    def add_weighted(
        self, members: Array, coef: Numbers, out: Array, most_rows: float = float("inf")
    ) -> None:
        """Add ``sum_i coef_i x_i`` to `out`; `coef` is asked for at most `most_rows` at a time."""
        k = n_columns(out)

        @in_chunks(min(_tuning.CHUNK / k, most_rows))
        def add(chunk: slice, W: Array) -> None:
            scratch = np.empty(k, np.int64), np.empty(k), np.empty(k)
            _add_rows(self.rows, members[chunk], coef(chunk), W, *scratch)

        self.add_parts(add, self.parts_to_add(len(members), out.size), out)

    def add_compensated(self, members: Array, coef: Numbers, out: Array) -> None:
        """Add ``sum_i coef_i x_i`` to `out` in compensated arithmetic, on one thread.

        `coef` returns a row of coefficients for each of some members.
        """
        W = out if out.ndim == 2 else out[:, None]
        low = np.zeros_like(W)
        for chunk in chunks(slice(0, len(members)), _tuning.CHUNK / W.shape[1]):
            add_compensated(self.rows, members[chunk], coef(chunk), W, low)
        W += low

    def add_product(
        self, members: Array, V: Array, change: Callable[[slice, Array], Array], out: Array
    ) -> None:
        """Add ``sum_i change(x_i.V) x_i``; `change` turns responses into coefficients."""
        V = np.asarray(V, order=self.order)

        def coef(chunk: slice) -> Array:
            return change(chunk, _responses(self.rows, members[chunk], V))

        self.add_weighted(members, coef, out, _tuning.CHUNK_ENTRIES / self.per_row)

    def add_parts(self, add: Add, parts: list[slice], out: Array) -> None:
        """Let each part add to an array of its own, the first to `out`, and sum these up."""
        if len(parts) == 1:
            return add(parts[0], out)

        def make(part: slice) -> Array:
            own = np.zeros_like(out) if part.start else out
            add(part, own)
            return own

        def add_own(own: Array) -> None:
            if own is not out:
                np.add(out, own, out)

        if (len(parts) - 1) * out.size > SMALL_SUMS:  # too many to keep until the end
            self._in_order(make, parts, add_own)
            return
        # One array for all parts: allocating and adding one at a time takes Python longer.
        order: Literal["C", "F"] = "C" if out.flags.c_contiguous else "F"
        flat = np.zeros((len(parts) - 1, out.size))
        sums = [out, *(each.reshape(out.shape, order=order) for each in flat)]
        self.workers.map(lambda p: add(parts[p], sums[p]), range(len(parts)))
        for each in sums[1:]:
            out += each

    def parts_to_add(self, n: int, n_weights: int, part_rows: int | None = None) -> list[slice]:
        """Cut n members into parts that add to weights of their own."""
        most = self._most_sums(n_weights * _tuning.ENTRIES_PER_WEIGHT)
        return self.parts(n, part_rows, most)

    def count_fine_parts(self, n: int) -> tuple[int, int]:
        """Return the number of parts of n members for threads inside a kernel.

        And the number if each part adds to weights of its own, all in memory at once.
        """
        least = min(_tuning.PART_ROWS, PART_ENTRIES / self.per_row) / FINER
        parts = max(min(FINER * PARTS, int(n / least)), 1)
        most = int(self.n_stored / (self.n_weights * _tuning.ENTRIES_PER_WEIGHT))
        return parts, max(min(parts, most, SMALL_SUMS // self.n_weights), 1)

    def add_gram(
        self, members: Array, scale: Array, out: Array, stop: Stop, exact: bool = False
    ) -> bool:
        """Add ``sum_i scale_i x_i x_i'`` to the lower half of `out`; return False if told to stop.

        In float64; dense rows in the precision of X, unless it is to be exact.
        """

        @in_chunks(_tuning.PAIRS_PER_CALL / self.per_row**2, stop)
        def add(chunk: slice, half: Array) -> None:
            _add_outer(self.rows, members[chunk], scale[chunk], half)

        half = np.zeros((self.n_weights, self.n_weights))
        parts = self.parts(len(members), _tuning.GRAM_ROWS, self._most_sums(half.size))
        self.add_parts(add, parts, half)
        add_lower(half + half.T, 1.0, out)
        return not stop()

    def gram_many(
        self,
        members: Array,
        factors: Callable[[slice], tuple[Array, Array, Array]],
        n_classes: int,
        stop: Stop,
    ) -> Array | None:
        """Return ``sum_i (x_i x_i') (x) M_i``, over all weights in the order of W; None if stopped.

        `factors` returns, for each of some members, on how many classes M_i is not 0, on which, and
        M_i there.
        """
        d, k = self.n_weights, n_classes
        pairs = max(self.per_row * k / 2, 1.0) ** 2

        @in_chunks(min(_tuning.CHUNK / k**2, _tuning.PAIRS_PER_CALL / pairs), stop)
        def add(chunk: slice, blocks: Array) -> None:
            scratch = np.empty(d), np.empty(d, np.int64)
            add_outer_many(self.rows, members[chunk], *factors(chunk), blocks, *scratch)

        blocks = np.zeros((k, k, d, d))
        parts = self.parts(len(members), _tuning.GRAM_ROWS, self._most_sums(blocks.size))
        self.add_parts(add, parts, blocks)
        return None if stop() else whole_gram(blocks)

    def _most_sums(self, size: int) -> int:
        """Return how many sums of this size take no more memory than X, but at least one."""
        return max(min(PARTS, int(self.n_stored / size)), 1)

    def parts(self, n: int, part_rows: int | None = None, most: int = PARTS) -> list[slice]:
        """Cut n members into parts, whatever the number of threads."""
        least = part_rows or min(_tuning.PART_ROWS, PART_ENTRIES / self.per_row)
        return cut(n, max(min(most, int(n / least)), 1))


class DensePasses(Passes):
    """Passes over a C-ordered matrix in memory.

    Gram matrices are matrix products, at ten times the rate of loops; BLAS has one thread, and
    threads share parts of the rows. Responses and sums are loops, which are as fast as products:
    for 60,000 x 784 entries and ten classes both take 0.07 to 0.09 s.
    """

    # The time of a pair is that of a third of a Gram matrix: most rows stay from step to step, and
    # classes may share passes.
    entry_time, class_time, pair_time = 0.7, 0.11, 0.006
    newton_time = 1.0
    order = "F"
    gram_by_products = True

    def add_gram(
        self, members: Array, scale: Array, out: Array, stop: Stop, exact: bool = False
    ) -> bool:
        """Do the same by products in the precision of X, unless they are to be exact.

        The sum is in float64. It leads to a direction, whose effect is measured in float64.
        """
        root, dtype = np.sqrt(np.abs(scale)), np.float64 if exact else self.rows.data.dtype
        parts: list[tuple[float, Array]] = []
        for sign in (1.0, -1.0):
            some = np.flatnonzero(sign * scale > 0.0)
            most = max(self._most_sums(out.size), -(-len(some) // _tuning.MOST_GRAM_ROWS))
            if len(some):
                own = self.parts(len(some), _tuning.LEAST_GRAM_ROWS, most)
                parts.extend((sign, some[part]) for part in own)

        def multiply(part: tuple[float, Array]) -> tuple[float, Array] | None:
            sign, some = part
            if stop():
                return None
            Z = np.empty((len(some), self.n_weights), dtype)
            _gather(self.rows, members[some], root[some], Z)
            return sign, Z.T @ Z

        def add(made: tuple[float, Array] | None) -> None:
            if made is not None:
                sign, product = made
                add_lower(product, sign, out)

        self._in_order(multiply, parts, add)
        return not stop()


def chunks(part: slice, length: float) -> Iterator[slice]:
    """Cut a part into chunks of about this length."""
    step = max(int(length), 1)
    for start in range(part.start, part.stop, step):
        yield slice(start, min(start + step, part.stop))


def in_chunks(length: float, stop: Stop = lambda: False) -> Callable[[Add], Add]:
    """Decorate a function so that it takes a part in chunks, until told to stop."""

    def decorate(add: Add) -> Add:
        def add_part(part: slice, out: Array) -> None:
            for chunk in chunks(part, length):
                add(chunk, out)
                if stop():
                    break

        return add_part

    return decorate


def column_sums(rows: Rows, weight: Array) -> Iterator[Array]:
    """Yield weighted sums of squares and numbers of nonzero entries per column, part by part."""
    d, n = rows.n_features, n_rows(rows)
    per_row = rows.data.size / max(n, 1)
    for part in chunks(slice(0, n), COLUMN_ENTRIES / max(per_row, 1.0)):
        if isinstance(rows, CSRRows):
            stored = slice(rows.indptr[part.start], rows.indptr[part.stop])
            times = np.repeat(weight[part], np.diff(rows.indptr[part.start : part.stop + 1]))
            values, columns = rows.data[stored], rows.indices[stored]
            squares = np.bincount(columns, times * np.square(values, dtype=np.float64), d)
            yield np.stack([squares, np.bincount(columns, times * (values != 0.0), d)])
        else:
            values, times = rows.data[part], weight[part]
            squares = times @ np.square(values, dtype=np.float64)
            yield np.stack([squares, times @ (values != 0.0)])


def n_columns(W: Array) -> int:
    """Return the number of classes that weights have a column for."""
    return 1 if W.ndim == 1 else W.shape[1]


def _responses(rows: AnyRows, members: Array, W: Array) -> Array:
    """Return the responses of a chunk."""
    out = np.empty((len(members), *W.shape[1:]))
    _respond(rows, members, W, out)
    return out


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def few_sqnorms(rows: Rows) -> Array:
    """Return the squared norm of every row, the bias included."""
    squares = np.square(rows.data, dtype=np.float64)
    if isinstance(rows, DenseRows):
        return squares.sum(axis=1) + rows.bias**2
    places = np.repeat(np.arange(n_rows(rows)), np.diff(rows.indptr))
    return np.bincount(places, squares[: len(places)], n_rows(rows)) + rows.bias**2


@jit
def _sqnorms(rows: Rows, first: int, out: Array) -> None:
    for t in range(out.shape[0]):
        out[t] = row_sqnorm(rows, first + t)


@jit
def _respond(rows: AnyRows, members: Array, W: Array, out: Array) -> None:
    for t in range(members.shape[0]):
        if W.ndim == 1:  # known when it is compiled
            out[t] = row_dot(rows, members[t], W)
        else:
            row_scores(rows, members[t], W, out[t])


@jit
def _add_rows(
    rows: Rows, members: Array, coef: Array, W: Array, classes: Array, step: Array, scratch: Array
) -> None:
    for t in range(members.shape[0]):
        if W.ndim == 1:  # known when it is compiled
            if coef[t] != 0.0:
                row_axpy(rows, members[t], coef[t], W)
        else:
            n = 0
            for m in range(coef.shape[1]):
                if coef[t, m] != 0.0:
                    classes[n] = m
                    step[n] = coef[t, m]
                    n += 1
            if n > 0:
                row_add_few(rows, members[t], classes, step, n, W, scratch)


@jit
def _add_outer(rows: Rows, members: Array, scale: Array, out: Array) -> None:
    rows_outer(rows, members, scale, out)


@jit
def _gather(rows: Rows, members: Array, scale: Array, out: Array) -> None:
    """Fill in some rows with their bias, each times its scale."""
    d = rows.n_features
    for t in range(members.shape[0]):
        row, s = rows.data[members[t]], scale[t]
        for j in range(d):
            out[t, j] = s * row[j]
        out[t, d] = s * rows.bias

"""Sparse rows times the weights of many classes, some classes at a time in vector registers.

In loops over entries and classes a compiler keeps the sums in memory: two to three times as slow
for ten or twenty classes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from ._jit import FUSED_MATH
from ._llvm import FLOATS, INT, Array, Call, intrinsic

# Classes at a time, and how many sums of each are added to in turns: an addition takes some cycles.
LANES = {16: 2, 8: 4, 4: 4, 2: 4, 1: 4}

FUSED = sorted(FUSED_MATH)


@intrinsic(
    lambda data, indices, W, out: np.add(out, data @ W[indices], out=out),
    *(types.void, None, None, None, None),
)
def add_scores_lanes(call: Call) -> None:
    """Add ``data @ W[indices]`` to `out`; W and `out` are C-ordered.

    The product is float32 if `data` and W are, else float64.
    """
    builder, row, sums = call.builder, _Row(call, weights=2), call.array(3)
    assert row.W.layout == sums.layout == "C"
    number = row.W.number if row.data.number == FLOATS[32] else FLOATS[64]
    for m, lanes in row.classes():
        vector = ir.VectorType(number, lanes)
        zeros = ir.Constant(vector, [0.0] * lanes)
        totals = [cgutils.alloca_once_value(builder, zeros) for _ in range(LANES[lanes])]
        for j, turn in row.entries(len(totals)):
            _, weights = row.weights(j, m, lanes)
            weights = _cast(builder, weights, vector)
            product = builder.fmul(row.entry(j, vector), weights, flags=FUSED)
            total = builder.fadd(builder.load(totals[turn]), product, flags=FUSED)
            builder.store(total, totals[turn])
        place, scores = _load_lanes(sums, m, lanes)
        for total in totals:
            scores = builder.fadd(scores, _cast(builder, builder.load(total), scores.type))
        builder.store(scores, place, align=4)


@intrinsic(
    lambda data, indices, step, W: np.add.at(W, indices, np.outer(data, step.astype(W.dtype))),
    *(types.void, None, None, None, None),
)
def add_outer_lanes(call: Call) -> None:
    """Add the outer product of `data` and `step` to ``W[indices]``.

    In the precision of W, which is C-ordered, as `step` is.
    """
    builder, row, steps = call.builder, _Row(call, weights=3), call.array(2)
    assert row.W.layout == steps.layout == "C"
    for m, lanes in row.classes():
        vector = ir.VectorType(row.W.number, lanes)
        _, factors = _load_lanes(steps, m, lanes)
        factors = _cast(builder, factors, vector)
        for j, _ in row.entries(turns=1):
            product = builder.fmul(row.entry(j, vector), factors, flags=FUSED)
            place, weights = row.weights(j, m, lanes)
            builder.store(builder.fadd(weights, product, flags=FUSED), place, align=4)


class _Row:
    """The code that walks over the entries of a row, and over the classes of its weights."""

    def __init__(self, call: Call, weights: int) -> None:
        self.builder = call.builder
        self.data, self.indices, self.W = call.array(0), call.array(1), call.array(weights)
        self.n_classes = self.W.size(1)

    def classes(self) -> Iterator[tuple[ir.Value, int]]:
        """Yield the first of some classes and their number, inside a loop for each number."""
        first = ir.Constant(INT, 0)
        for lanes in LANES:
            last = self.builder.and_(self.n_classes, ir.Constant(INT, -lanes))
            yield from ((m, lanes) for m in _loop(self.builder, first, last, lanes))
            first = last

    def entries(self, turns: int) -> Iterator[tuple[ir.Value, int]]:
        """Yield the place of an entry and whose turn it is, inside loops over all entries."""
        n = self.data.size(0)
        whole = self.builder.and_(n, ir.Constant(INT, -turns))
        for j in _loop(self.builder, ir.Constant(INT, 0), whole, turns):
            for turn in range(turns):
                yield self.builder.add(j, ir.Constant(INT, turn)), turn
        if turns > 1:
            yield from ((j, 0) for j in _loop(self.builder, whole, n, 1))

    def entry(self, j: ir.Value, vector: ir.VectorType) -> ir.Value:
        """Return the value of an entry, in every lane."""
        builder, index = self.builder, ir.IntType(32)
        value = _cast(builder, self.data.load(j), vector.element)
        empty = ir.Constant(vector, ir.Undefined)
        one = builder.insert_element(empty, value, ir.Constant(index, 0))
        everywhere = ir.Constant(ir.VectorType(index, vector.count), [0] * vector.count)
        return builder.shuffle_vector(one, empty, everywhere)

    def weights(self, j: ir.Value, m: ir.Value, lanes: int) -> tuple[ir.Value, ir.Value]:
        """Return where the weights of an entry are for some classes from m on, and these."""
        builder, feature = self.builder, self.indices.load(j)
        if feature.type != INT:
            feature = builder.zext(feature, INT)
        return _load_lanes(self.W, builder.add(builder.mul(feature, self.n_classes), m), lanes)


def _loop(builder: ir.IRBuilder, first: ir.Value, last: ir.Value, step: int) -> Iterator[ir.Value]:
    """Yield the index of a loop once; what is emitted meanwhile is inside the loop."""
    with cgutils.for_range_slice(builder, first, last, ir.Constant(INT, step)) as (index, _):
        yield index


def _load_lanes(array: Array, index: ir.Value, lanes: int) -> tuple[ir.Value, ir.Value]:
    """Return where some numbers of an array begin, and these numbers as a vector."""
    vector = ir.VectorType(array.number, lanes)
    place = array.pointer(index, vector)
    # Vectors begin at any number (align=4): classes are no multiple of the lanes.
    return place, array.builder.load(place, align=4, typ=vector)


def _cast(builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
    """Convert a float or a vector of floats to another type of as many."""
    if value.type == kind:
        return value
    narrow = getattr(kind, "element", kind) == FLOATS[32]
    return builder.fptrunc(value, kind) if narrow else builder.fpext(value, kind)

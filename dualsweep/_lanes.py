"""Sparse rows times the weights of many classes, some classes at a time in vector registers.

Of loops over entries and classes a compiler keeps the sums in memory: two to three times as slow
for ten or twenty classes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from ._jit import FUSED_MATH, intrinsic
from ._llvm import FLOATS, Call, Intrinsic, coded
from ._typing import Array, NumbaType

# Classes at a time, and how many sums of each are added to in turns: an addition takes some cycles.
LANES = {16: 2, 8: 4, 4: 4, 2: 4, 1: 4}

# Vectors begin at any number (align=4): classes are no multiple of the lanes.

INT = ir.IntType(64)
FUSED = sorted(FUSED_MATH)


def _scores(data: Array, indices: Array, W: Array, out: Array) -> None:
    out += data @ W[indices]


@intrinsic(_scores)
def add_scores_lanes(
    typingctx: NumbaType, data: NumbaType, indices: NumbaType, W: NumbaType, out: NumbaType
) -> Intrinsic:
    """Add ``data @ W[indices]`` to `out`; W and `out` are C-ordered.

    The product is float32 if `data` and W are, else float64.
    """
    assert W.layout == out.layout == "C"

    def emit(call: Call) -> None:
        number = FLOATS[max(data.dtype.bitwidth, W.dtype.bitwidth)]
        builder, row, sums = call.builder, _Row(call, weights=2), call.array(3)

        def add_classes(m: ir.Value, lanes: int) -> None:
            vector, weights_kind = ir.VectorType(number, lanes), row.weights_kind(lanes)
            sums_kind = ir.VectorType(sums.number, lanes)
            zeros = ir.Constant(vector, [0.0] * lanes)
            totals = [cgutils.alloca_once_value(builder, zeros) for _ in range(LANES[lanes])]

            def add_entry(j: ir.Value, turn: int) -> None:
                place = row.weights_at(j, m, weights_kind)
                weights = _cast(builder, builder.load(place, align=4, typ=weights_kind), vector)
                product = builder.fmul(row.entry(j, vector), weights, flags=FUSED)
                total = builder.fadd(builder.load(totals[turn]), product, flags=FUSED)
                builder.store(total, totals[turn])

            row.each_entry(add_entry, len(totals))
            place = sums.pointer(m, sums_kind)
            scores = builder.load(place, align=4, typ=sums_kind)
            for total in totals:
                scores = builder.fadd(scores, _cast(builder, builder.load(total), sums_kind))
            builder.store(scores, place, align=4)

        row.each_class(add_classes)

    return coded(types.void(data, indices, W, out), emit)


def _outer(data: Array, indices: Array, step: Array, W: Array) -> None:
    np.add.at(W, indices, np.outer(data, step.astype(W.dtype)))


@intrinsic(_outer)
def add_outer_lanes(
    typingctx: NumbaType, data: NumbaType, indices: NumbaType, step: NumbaType, W: NumbaType
) -> Intrinsic:
    """Add the outer product of `data` and `step` to ``W[indices]``.

    In the precision of W, which is C-ordered, as `step` is.
    """
    assert W.layout == step.layout == "C"

    def emit(call: Call) -> None:
        builder, row, steps = call.builder, _Row(call, weights=3), call.array(2)

        def add_classes(m: ir.Value, lanes: int) -> None:
            vector, steps_kind = row.weights_kind(lanes), ir.VectorType(steps.number, lanes)
            place = steps.pointer(m, steps_kind)
            factors = _cast(builder, builder.load(place, align=4, typ=steps_kind), vector)

            def add_entry(j: ir.Value, turn: int) -> None:
                product = builder.fmul(row.entry(j, vector), factors, flags=FUSED)
                place = row.weights_at(j, m, vector)
                weights = builder.load(place, align=4, typ=vector)
                builder.store(builder.fadd(weights, product, flags=FUSED), place, align=4)

            row.each_entry(add_entry, 1)

        row.each_class(add_classes)

    return coded(types.void(data, indices, step, W), emit)


class _Row:
    """The code that walks over the entries of a row, and over the classes of its weights."""

    def __init__(self, call: Call, weights: int) -> None:
        self.builder = call.builder
        self.data, self.indices, self.W = call.array(0), call.array(1), call.array(weights)
        (self.n_entries,) = cgutils.unpack_tuple(self.builder, self.data.fields.shape)
        self.n_classes = cgutils.unpack_tuple(self.builder, self.W.fields.shape)[1]

    def weights_kind(self, lanes: int) -> ir.VectorType:
        """Return what weights of some classes are in memory."""
        return ir.VectorType(self.W.number, lanes)

    def each_class(self, function: Callable[[ir.Value, int], None]) -> None:
        """Call with the first of some classes and their number, until there was each."""
        first = ir.Constant(INT, 0)
        for lanes in LANES:
            last = self.builder.and_(self.n_classes, ir.Constant(INT, -lanes))
            with self._steps(first, last, lanes) as (m, _):
                function(m, lanes)
            first = last

    def each_entry(self, function: Callable[[ir.Value, int], None], turns: int) -> None:
        """Call with the place of every entry and whose turn it is."""
        whole = self.builder.and_(self.n_entries, ir.Constant(INT, -turns))
        with self._steps(ir.Constant(INT, 0), whole, turns) as (j, _):
            for turn in range(turns):
                function(self.builder.add(j, ir.Constant(INT, turn)), turn)
        if turns > 1:
            with self._steps(whole, self.n_entries, 1) as (j, _):
                function(j, 0)

    def _steps(
        self, first: ir.Value, last: ir.Value, step: int
    ) -> AbstractContextManager[tuple[ir.Value, ir.Value]]:
        return cgutils.for_range_slice(self.builder, first, last, ir.Constant(INT, step))

    def entry(self, j: ir.Value, vector: ir.VectorType) -> ir.Value:
        """Return the value of an entry, in every lane."""
        builder, lanes = self.builder, vector.count
        value = _cast(builder, self.data.load(j), vector.element)
        empty, first = ir.Constant(vector, ir.Undefined), ir.IntType(32)
        one = builder.insert_element(empty, value, ir.Constant(first, 0))
        everywhere = ir.Constant(ir.VectorType(first, lanes), [0] * lanes)
        return builder.shuffle_vector(one, empty, everywhere)

    def weights_at(self, j: ir.Value, m: ir.Value, kind: ir.Type) -> ir.Value:
        """Return where the weights of an entry's feature are, of some classes from m on."""
        builder = self.builder
        feature = self.indices.load(j)
        if feature.type != INT:
            feature = builder.zext(feature, INT)
        return self.W.pointer(builder.add(builder.mul(feature, self.n_classes), m), kind)


def _cast(builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
    """Convert a float or a vector of floats to another type of as many."""
    if value.type == kind:
        return value
    narrow = getattr(kind, "element", kind) == FLOATS[32]
    return builder.fptrunc(value, kind) if narrow else builder.fpext(value, kind)

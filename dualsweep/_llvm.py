"""The code of intrinsics: calls, and arguments that are arrays.

llvmlite gives up types of pointers, and numba with it. So whoever computes an address or loads from
one says what is there; pointers that have no types are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from llvmlite import ir
from numba.core import cgutils, types

from ._typing import NumbaType

FLOATS = {32: ir.FloatType(), 64: ir.DoubleType()}

# numba's BaseContext and Signature, which it does not promise to keep.
Context: TypeAlias = Any
Signature: TypeAlias = Any

# An intrinsic, as numba takes it: its signature, and the function that emits its code.
Intrinsic: TypeAlias = tuple[
    Signature, Callable[[Context, ir.IRBuilder, Signature, list[ir.Value]], ir.Value]
]


class Call(NamedTuple):
    """A call of an intrinsic, for which code is to be emitted."""

    context: Context
    builder: ir.IRBuilder
    signature: Signature
    args: list[ir.Value]

    def array(self, place: int) -> Array:
        """Return an argument that is an array."""
        return Array(self.context, self.builder, self.signature.args[place], self.args[place])


def coded(signature: Signature, emit: Callable[[Call], ir.Value | None]) -> Intrinsic:
    """Return an intrinsic; `emit` returns its value, or None if it has none."""

    def codegen(
        context: Context, builder: ir.IRBuilder, signature: Signature, args: list[ir.Value]
    ) -> ir.Value:
        value = emit(Call(context, builder, signature, args))
        return context.get_dummy_value() if value is None else value

    return signature, codegen


class Array:
    """An argument that is an array."""

    def __init__(
        self, context: Context, builder: ir.IRBuilder, kind: NumbaType, value: ir.Value
    ) -> None:
        self.builder, bits = builder, kind.dtype.bitwidth
        # What its numbers are in memory.
        self.number = FLOATS[bits] if isinstance(kind.dtype, types.Float) else ir.IntType(bits)
        self.fields = cgutils.create_struct_proxy(kind)(context, builder, value)

    def pointer(self, index: ir.Value, kind: ir.Type | None = None) -> ir.Value:
        """Return where ``array[index]`` is, to be read and written as a `kind`."""
        place = self.builder.gep(self.fields.data, [index], source_etype=self.number)
        if kind is None or getattr(place.type, "is_opaque", True):
            return place
        return self.builder.bitcast(place, kind.as_pointer())

    def load(self, index: ir.Value) -> ir.Value:
        """Return ``array[index]``."""
        return self.builder.load(self.pointer(index), typ=self.number)

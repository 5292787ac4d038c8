"""Arrays in the code of intrinsics, for llvmlite's pointers with types and without.

llvmlite gives up types of pointers, and numba with it. So whoever computes an address or loads from
one says what is there; pointers that have no types are taken as they are.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

FLOATS = {32: ir.FloatType(), 64: ir.DoubleType()}


class Array:
    """An argument that is an array."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        self.builder, bits = builder, kind.dtype.bitwidth
        # What its numbers are in memory.
        self.number = FLOATS[bits] if isinstance(kind.dtype, types.Float) else ir.IntType(bits)
        self.fields = cgutils.create_struct_proxy(kind)(context, builder, value)

    def pointer(self, index: Any, kind: Any = None) -> Any:
        """Return where ``array[index]`` is, to be read and written as a `kind`."""
        place = self.builder.gep(self.fields.data, [index], source_etype=self.number)
        return place if kind is None else pointer_to(self.builder, place, kind)

    def load(self, index: Any) -> Any:
        """Return ``array[index]``."""
        return self.builder.load(self.pointer(index), typ=self.number)


def pointer_to(builder: Any, pointer: Any, kind: Any) -> Any:
    """Return a pointer as one to a `kind`, if pointers have types."""
    if getattr(pointer.type, "is_opaque", True):
        return pointer
    return builder.bitcast(pointer, kind.as_pointer())

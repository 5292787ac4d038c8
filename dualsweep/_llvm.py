"""Intrinsics: functions of kernels whose code is written instruction by instruction.

llvmlite is giving up typed pointers, and numba with it. So code that computes an address, or loads
from one, says what is there; and pointers without types are used as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numba
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types

from ._typing import NumbaType

P = ParamSpec("P")
R = TypeVar("R")

POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY

FLOATS = {32: ir.FloatType(), 64: ir.DoubleType()}
INT = ir.IntType(64)

COMPILER_OFF = bool(numba.config.DISABLE_JIT)

# numba's BaseContext and Signature, which it does not promise to keep.
Context: TypeAlias = Any
Signature: TypeAlias = Any


class Call(NamedTuple):
    """A call of an intrinsic, for which code is to be emitted."""

    context: Context
    builder: ir.IRBuilder
    kinds: tuple[NumbaType, ...]
    args: list[ir.Value]

    def array(self, place: int) -> Array:
        """Return an argument that is an array."""
        return Array(self, place)

    def instruct(self, name: str, *args: ir.Value) -> None:
        """Call a function of LLVM that returns nothing."""
        kind = ir.FunctionType(ir.VoidType(), [arg.type for arg in args])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        self.builder.call(function, args)


def intrinsic(
    meaning: Callable[P, R], result: NumbaType, *wanted: NumbaType | None
) -> Callable[[Callable[[Call], ir.Value | None]], Callable[P, R]]:
    """Decorate what emits the code of an intrinsic and returns its value, or None if it has none.

    `meaning` does the same in Python, where the compiler is off. The arguments are converted to the
    types that are `wanted`, or left as they are given where that is None.
    """

    def decorate(emit: Callable[[Call], ir.Value | None]) -> Callable[P, R]:
        def codegen(
            context: Context, builder: ir.IRBuilder, signature: Signature, args: list[ir.Value]
        ) -> ir.Value:
            value = emit(Call(context, builder, signature.args, args))
            return context.get_dummy_value() if value is None else value

        def typed(typingctx: Context, *given: NumbaType) -> tuple[Signature, Callable[..., object]]:
            pairs = zip(wanted, given, strict=True)
            return result(*(own if kind is None else kind for kind, own in pairs)), codegen

        typed.__name__, typed.__doc__ = emit.__name__, emit.__doc__
        # numba asks for the number of arguments.
        names = ("typingctx", *inspect.signature(meaning).parameters)
        parameters = [inspect.Parameter(name, POSITIONAL_ONLY) for name in names]
        vars(typed)["__signature__"] = inspect.Signature(parameters)
        return meaning if COMPILER_OFF else extending.intrinsic(typed)

    return decorate


class Array:
    """An argument that is an array."""

    def __init__(self, call: Call, place: int) -> None:
        kind, self.builder = call.kinds[place], call.builder
        self.layout, bits = kind.layout, kind.dtype.bitwidth
        # What its numbers are in memory.
        self.number = FLOATS[bits] if isinstance(kind.dtype, types.Float) else ir.IntType(bits)
        proxy = cgutils.create_struct_proxy(kind)
        self.fields = proxy(call.context, self.builder, call.args[place])

    def size(self, axis: int) -> ir.Value:
        """Return the length of an axis."""
        return self.builder.extract_value(self.fields.shape, axis)

    def pointer(self, index: ir.Value, kind: ir.Type | None = None) -> ir.Value:
        """Return where ``array[index]`` is, to be read and written as a `kind`."""
        place = self.builder.gep(self.fields.data, [index], source_etype=self.number)
        if kind is None or getattr(place.type, "is_opaque", True):
            return place
        return self.builder.bitcast(place, kind.as_pointer())

    def load(self, index: ir.Value) -> ir.Value:
        """Return ``array[index]``."""
        return self.builder.load(self.pointer(index), typ=self.number)

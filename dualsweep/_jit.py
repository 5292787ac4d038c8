"""The only place that configures numba: flags, disk cache, fast-math set; and intrinsics.

With numba's compiler off (``NUMBA_DISABLE_JIT=1``) everything here works too, in plain Python and a
thousand times slower: coverage and mutation tests look into kernels that way.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ParamSpec, TypeVar

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types

from . import _content, _numba
from ._clock import compiling
from ._llvm import Array
from ._typing import NumbaType

P = ParamSpec("P")
R = TypeVar("R")

# Sums may be reordered and fused, but NaN and infinity keep their meaning (bounds are infinite).
DOT_MATH = {"nsz", "arcp", "contract", "afn", "reassoc"}
FUSED_MATH = {"nsz", "contract"}  # fused, but in the order they are written in

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", **_numba.NO_RUN_TIME}

_OFF = bool(numba.config.DISABLE_JIT)


def jit(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Compile `function` without the GIL; cache on disk where some cache directory is writable."""
    if _OFF:
        return np.errstate(all="ignore")(function)  # numbers overflow in silence, as compiled

    def stamp(options: dict[str, Any]) -> Any:
        return llvmlite.__version__, _content.digest(function, options)

    kernel = _numba.cached(function, {**_OPTIONS, **options}, stamp, _tell)
    return _numba.around_compiling(kernel, compiling())  # the clock of trainings stands still


# Called when a kernel is not in the cache and has to be compiled.
on_compilation: list[Callable[[], None]] = []


def _tell() -> None:
    for tell in list(on_compilation):
        tell()


def jit_inline(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `jit`, as a part of the kernels that call it.

    A call with a few arrays costs some 10 ns: 15 % of a multi-class sweep were calls.
    """
    return jit(function, forceinline=True)


def jit_sums(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `jit_inline`, and let sums be reordered, so that loops over them vectorise."""
    return jit(function, fastmath=DOT_MATH, forceinline=True)


def generic(function: Callable[P, R]) -> Callable[P, R]:
    """Let kernels call `function`, which `implements` implements by the type of the first argument.

    Called outside kernels it runs as Python, slowly.
    """
    choices: list[Callable[..., Callable[..., R] | None]] = []

    @functools.wraps(function)
    def call(*args: P.args, **_: P.kwargs) -> R:
        kinds = [numba.typeof(arg) for arg in args]
        found = next(filter(None, (choose(*kinds) for choose in choices)))
        return found(*args)

    vars(call)["choices"] = choices
    return call


def implements(
    function: Callable[..., R], *classes: type, fastmath: set[str] | bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register what a `generic` function does if its first argument is of one of the classes.

    `np.ndarray` stands for arrays and `float` for numbers.
    """
    options = {**_OPTIONS, "fastmath": fastmath, "forceinline": True}

    def register(implementation: Callable[P, R]) -> Callable[P, R]:
        def choose(*kinds: NumbaType) -> Callable[P, R] | None:
            return implementation if _class_of(kinds[0]) in classes else None

        vars(choose)["options"] = options
        vars(function)["choices"].append(choose)
        if not _OFF:
            _content.forget()  # for kernels that call the function, it is another one now
            extending.overload(function, jit_options=options, strict=False)(choose)
        return implementation

    return register


def _class_of(kind: NumbaType) -> type:
    """Return the class of Python objects that numba sees as `kind`."""
    if isinstance(kind, types.Array):
        return np.ndarray
    return getattr(kind, "instance_class", float)  # of a named tuple


def intrinsic(meaning: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an intrinsic, which means the same as `meaning` does in Python."""
    return (lambda function: meaning) if _OFF else extending.intrinsic


@intrinsic(lambda array, index: None)
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``; a hint, never a fault."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = context.cast(builder, args[1], signature.args[1], types.intp)
        place = Array(context, builder, signature.args[0], args[0]).pointer(index, ir.IntType(8))
        int32 = ir.IntType(32)
        signature_type = ir.FunctionType(ir.VoidType(), [place.type, int32, int32, int32])
        function = cgutils.get_or_insert_function(
            builder.module, signature_type, "llvm.prefetch.p0"
        )
        read, keep_in_all_caches, data_cache = (ir.Constant(int32, v) for v in (0, 3, 1))
        builder.call(function, [place, read, keep_in_all_caches, data_cache])
        return context.get_dummy_value()

    return types.void(array, index), codegen


@intrinsic(lambda array: array.itemsize)
def item_size(typingctx: Any, array: Any) -> Any:
    """Return the bytes of an entry, as a constant of the compiled code."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(types.intp, array.dtype.bitwidth // 8)

    return types.intp(array), codegen


def _fused(a: float, b: float, c: float) -> float:
    if not np.isfinite([a, b, c]).all():
        return a * b + c
    return float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


@intrinsic(_fused)
def fused(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` rounded once; with ``c = -(a * b)``, what that product rounded off."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic(lambda a, b: np.uint64(int(a) * int(b) >> 64))
def multiply_high(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 of the 128 bits of ``a * b``, both uint64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(arg, wide) for arg in args))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic(lambda a: np.uint64(64 - int(a).bit_length()))
def leading_zeros(typingctx: Any, a: Any) -> Any:
    """Count the zero bits above the highest one of a uint64; 64 if there is none."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


@intrinsic(lambda a: np.uint64((int(a) & -int(a)).bit_length() - 1 if a else 64))
def trailing_zeros(typingctx: Any, a: Any) -> Any:
    """Count the zero bits below the lowest one of a uint64; 64 if there is none."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


@intrinsic(lambda array, index: array[index : int(index) + 8].view("<u8")[0])
def load_word(typingctx: Any, array: Any, index: Any) -> Any:
    """Return the 8 bytes from ``array[index]`` on as a uint64, the first lowest; unchecked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, word_type = Array(context, builder, signature.args[0], args[0]), ir.IntType(64)
        word = builder.load(array.pointer(args[1], word_type), align=1, typ=word_type)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(array, types.uint64), codegen

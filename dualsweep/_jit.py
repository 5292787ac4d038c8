"""The only place that configures numba: flags, disk cache, fast-math set; and intrinsics.

With numba's compiler off (``NUMBA_DISABLE_JIT=1``) everything here works too, in plain Python and a
thousand times slower: coverage and mutation tests look into kernels that way.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import ParamSpec, TypeVar

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types

from . import _content, _numba
from ._clock import compiling
from ._llvm import COMPILER_OFF, INT, Call, intrinsic
from ._typing import NumbaType

P = ParamSpec("P")
R = TypeVar("R")

UINT64 = types.uint64
FALSE = ir.Constant(ir.IntType(1), 0)

# Sums may be reordered and fused, but NaN and infinity keep their meaning (bounds are infinite).
DOT_MATH = {"nsz", "arcp", "contract", "afn", "reassoc"}
FUSED_MATH = {"nsz", "contract"}  # fused, but in the order they are written in

_OPTIONS: dict[str, object] = {"nogil": True, "error_model": "numpy", **_numba.NO_RUN_TIME}


def jit(function: Callable[P, R], **options: object) -> Callable[P, R]:
    """Compile `function` without the GIL; cache on disk where some cache directory is writable."""
    if COMPILER_OFF:
        return np.errstate(all="ignore")(function)  # numbers overflow in silence, as compiled

    options = {**_OPTIONS, **options}

    def stamp() -> tuple[str, bytes]:
        return llvmlite.__version__, _content.digest(function, options)

    def tell() -> None:
        for listener in list(on_compilation):
            listener()

    kernel = _numba.cached(function, options, stamp, tell)
    return _numba.around_compiling(kernel, _compiling())


@contextmanager
def _compiling() -> Iterator[None]:
    """Stop the clock of trainings and Python's garbage collector.

    numba makes many objects, and few of them are garbage: without collections a first fit compiles
    for 2.8 s instead of 3.2, and needs 25 MB more.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with compiling():
            yield
    finally:
        if collects:
            gc.enable()


# Called when a kernel is not in the cache and has to be compiled.
on_compilation: list[Callable[[], None]] = []


def jit_inline(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `jit`, as a part of the kernels that call it.

    A call with a few arrays costs some 10 ns: 15 % of a multi-class sweep were calls.
    """
    return jit(function, forceinline=True)


def jit_sums(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `jit_inline`, and let sums be reordered, so that loops over them vectorise."""
    return jit(function, fastmath=DOT_MATH, forceinline=True)


def generic(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that has implementations for several classes of its first argument.

    Kernels call it, and `implements` adds to it. Called by Python it is slow.
    """
    choices: list[Callable[[NumbaType], Callable[..., R] | None]] = []

    @functools.wraps(function)
    def call(*args: P.args, **_: P.kwargs) -> R:
        kind = numba.typeof(args[0])
        found = next(filter(None, (choose(kind) for choose in choices)))
        return found(*args)

    vars(call)["choices"] = choices
    return call


def implements(
    function: Callable[..., R], *classes: type, fastmath: set[str] | bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate an implementation of a `generic` function, for a first argument of these classes.

    `np.ndarray` stands for arrays, `float` for numbers.
    """
    options = {**_OPTIONS, "fastmath": fastmath, "forceinline": True}

    def register(implementation: Callable[P, R]) -> Callable[P, R]:
        def choose(kind: NumbaType, *others: NumbaType) -> Callable[P, R] | None:
            return implementation if _class_of(kind) in classes else None

        vars(choose)["options"] = options
        vars(function)["choices"].append(choose)
        if not COMPILER_OFF:
            _content.forget()  # for kernels that call the function, it is another one now
            extending.overload(function, jit_options=options, strict=False)(choose)
        return implementation

    return register


def _class_of(kind: NumbaType) -> type:
    """Return the class of Python objects that numba sees as `kind`."""
    if isinstance(kind, types.Array):
        return np.ndarray
    return getattr(kind, "instance_class", float)  # of a named tuple


@intrinsic(lambda array, index: None, types.void, None, types.intp)
def prefetch(call: Call) -> None:
    """Ask for the cache line of ``array[index]``; a hint, never a fault."""
    place = call.array(0).pointer(call.args[1], ir.IntType(8))
    read, keep_in_all_caches, data_cache = (ir.Constant(ir.IntType(32), v) for v in (0, 3, 1))
    call.instruct("llvm.prefetch.p0", place, read, keep_in_all_caches, data_cache)


@intrinsic(lambda array: array.itemsize, types.int64, None)
def item_size(call: Call) -> ir.Value:
    """Return the bytes of an entry, as a constant of the compiled code."""
    return ir.Constant(INT, call.kinds[0].dtype.bitwidth // 8)


def _fused(a: float, b: float, c: float) -> float:
    if not np.isfinite([a, b, c]).all():
        return a * b + c
    return float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


@intrinsic(_fused, types.float64, types.float64, types.float64, types.float64)
def fused(call: Call) -> ir.Value:
    """Return ``a * b + c`` rounded once; with ``c = -(a * b)``, what that product rounded off."""
    return call.builder.fma(*call.args)


@intrinsic(lambda a, b: np.uint64(int(a) * int(b) >> 64), UINT64, UINT64, UINT64)
def multiply_high(call: Call) -> ir.Value:
    """Return the upper 64 of the 128 bits of ``a * b``, both uint64."""
    builder, wide = call.builder, ir.IntType(128)
    product = builder.mul(*(builder.zext(factor, wide) for factor in call.args))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), INT)


@intrinsic(lambda a: np.uint64(64 - int(a).bit_length()), UINT64, UINT64)
def leading_zeros(call: Call) -> ir.Value:
    """Count the zero bits above the highest one of a uint64; 64 if there is none."""
    return call.builder.ctlz(*call.args, FALSE)


@intrinsic(lambda a: np.uint64((int(a) & -int(a)).bit_length() - 1 if a else 64), UINT64, UINT64)
def trailing_zeros(call: Call) -> ir.Value:
    """Count the zero bits below the lowest one of a uint64; 64 if there is none."""
    return call.builder.cttz(*call.args, FALSE)


@intrinsic(lambda array, index: array[index : int(index) + 8].view("<u8")[0], UINT64, None, UINT64)
def load_word(call: Call) -> ir.Value:
    """Return the 8 bytes from ``array[index]`` on as a uint64, the first lowest; unchecked."""
    word = call.builder.load(call.array(0).pointer(call.args[1], INT), align=1, typ=INT)
    return word if sys.byteorder == "little" else call.builder.bswap(word)


@intrinsic(lambda x: np.float64(x).view(np.uint64), UINT64, types.float64)
def bits_of(call: Call) -> ir.Value:
    """Return the bits of a float64 as a uint64."""
    return call.builder.bitcast(call.args[0], INT)


@intrinsic(lambda bits: np.uint64(bits).view(np.float64), types.float64, UINT64)
def from_bits(call: Call) -> ir.Value:
    """Return the float64 with the bits of a uint64."""
    return call.builder.bitcast(call.args[0], ir.DoubleType())

"""The only place that configures numba: flags, disk cache, fast-math set; and intrinsics.

With numba's compiler off (``NUMBA_DISABLE_JIT=1``) everything here works too, in plain Python and a
thousand times slower: coverage and mutation tests look into kernels that way.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from zlib import crc32

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.core.caching import IndexDataCacheFile

from . import _content
from ._clock import compiling

# Sums may be reordered and fused, but NaN and infinity keep their meaning (bounds are infinite).
DOT_MATH = {"nsz", "arcp", "contract", "afn", "reassoc"}
FUSED_MATH = {"nsz", "contract"}  # fused, but in the order they are written in

# Kernels allocate nothing, and who calls them holds their arrays: without numba's run time ("nrt")
# views of them are not counted. A count is an atomic operation, and a visit to a row with many
# classes made dozens: 445 ns of letter become 245.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}

_OFF = bool(numba.config.DISABLE_JIT)


def jit(function: Callable[..., Any], **options: Any) -> Any:
    """Compile `function` without the GIL; cache on disk where some cache directory is writable."""
    if _OFF:
        return np.errstate(all="ignore")(function)  # numbers overflow in silence, as compiled
    options = {**_OPTIONS, **options}
    try:
        kernel = numba.njit(function, cache=True, **options)
    except RuntimeError:  # numba found no directory it may write its cache to
        return _timed(numba.njit(function, **options))
    cache = kernel._cache
    try:
        cache._cache_file = _KernelFile(kernel)
        cache._index_key = _with_fields(cache._index_key)
    except (AttributeError, TypeError):  # a numba whose cache is another one
        return _timed(numba.njit(function, **options))
    # The directory can still vanish, fill up or be damaged; a kernel works without being stored.
    cache.load_overload = _telling(_unless(Exception, cache.load_overload))
    cache.save_overload = _unless(OSError, cache.save_overload)
    return _timed(kernel)


def _timed(kernel: Any) -> Any:
    """Stop the clock of trainings while `kernel` is compiled or loaded."""
    kernel.compile = compiling()(kernel.compile)
    return kernel


class _KernelFile(IndexDataCacheFile):  # type: ignore[misc]
    """numba's cache, for what a kernel is made of, and with a checksum under each compiled one.

    numba's own is for the text of one file, and has a kernel's line in its name: a comment compiles
    again, a changed function of another file does not. The directory is numba's choice, and named
    after the place of the package, unless it is ``__pycache__`` inside it.

    A damaged index counts as an empty one, and what a disk has damaged is not run: what was not
    found is compiled and written again.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        cache, function = kernel._cache, kernel.py_func
        name = cache._impl.filename_base
        if "<locals>" not in function.__qualname__:  # one name, one kernel
            line = f"-{cache._impl.locator.get_disambiguator()}.py"
            name = ".py".join(name.rsplit(line, 1))
        super().__init__(cache_path=cache.cache_path, filename_base=name, source_stamp=None)

    @property
    def _source_stamp(self) -> Any:
        """What the index has to be stamped with; numba compares."""
        function, options = self._kernel.py_func, self._kernel.targetoptions
        return llvmlite.__version__, _content.digest(function, options)

    @_source_stamp.setter
    def _source_stamp(self, stamp: Any) -> None:
        """Leave out numba's stamp."""

    def _dump(self, content: Any) -> bytes:
        data: bytes = super()._dump(content)
        return data + crc32(data).to_bytes(4, "big")  # reading a pickle ends before it

    def _load_data(self, name: str) -> Any:
        data = Path(self._data_path(name)).read_bytes()
        if crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
            raise OSError(f"{name} is damaged")  # the same as if it were missing
        return pickle.loads(data)

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # whatever unpickling junk can raise
            return {}


def _with_fields(key_of: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a key the fields of named tuples: numba's keys know them by name."""

    @functools.wraps(key_of)
    def key(sig: Any, codegen: Any) -> Any:
        return (*key_of(sig, codegen), _fields(sig))

    return key


def _fields(kinds: Any) -> Any:
    """Return the names of the fields in types of arguments, nested as these are."""
    return tuple(
        (getattr(kind, "fields", ()), _fields(getattr(kind, "types", ()))) for kind in kinds
    )


# Called when a kernel is not in the cache and has to be compiled.
on_compilation: list[Callable[[], None]] = []


def _telling(load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def attempt(*args: Any) -> Any:
        found = load(*args)
        if found is None:
            for tell in list(on_compilation):
                tell()
        return found

    return attempt


def _unless(error: type[Exception], method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def attempt(*args: Any) -> Any:
        try:
            return method(*args)
        except error:
            return None

    return attempt


def jit_inline(function: Callable[..., Any]) -> Any:
    """Compile like `jit`, as a part of the kernels that call it.

    A call with a few arrays costs some 10 ns: 15 % of a multi-class sweep were calls.
    """
    return jit(function, forceinline=True)


def jit_sums(function: Callable[..., Any]) -> Any:
    """Compile like `jit_inline`, and let sums be reordered, so that loops over them vectorise."""
    return jit(function, fastmath=DOT_MATH, forceinline=True)


def generic(function: Callable[..., Any]) -> Any:
    """Make `function` one that kernels call, and `implements` implements by types of arguments.

    Called outside kernels it runs as Python, slowly.
    """
    choices: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        kinds = [numba.typeof(arg) for arg in args]
        found = next(filter(None, (choose(*kinds) for choose in choices)))
        return found(*args)

    call.choices = choices  # type: ignore[attr-defined]
    return call


def implements(function: Any, fastmath: set[str] | bool = False) -> Any:
    """Register an implementation of a `generic` function.

    The decorated function is given the types of the arguments, and returns the implementation for
    them, or None if it has none.
    """
    if _OFF:
        return function.choices.append
    options = {**_OPTIONS, "fastmath": fastmath, "forceinline": True}
    overload = extending.overload(function, jit_options=options, strict=False)

    def register(choose: Callable[..., Any]) -> Callable[..., Any]:
        choose.options = options  # type: ignore[attr-defined]
        function.choices.append(choose)
        _content.forget()  # for kernels that call the function, it is another one now
        return overload(choose)  # type: ignore[no-any-return]

    return register


def intrinsic(meaning: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an intrinsic, which means the same as `meaning` does in Python."""
    return (lambda function: meaning) if _OFF else extending.intrinsic


@intrinsic(lambda array, index: None)
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``; a hint, never a fault."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type, index_type = signature.args
        data = context.make_array(array_type)(context, builder, args[0]).data
        int64, byte_pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        offset = context.cast(builder, args[1], index_type, types.intp)
        offset = builder.mul(
            offset, ir.Constant(int64, array_type.dtype.bitwidth // 8), name="prefetch_offset"
        )
        address = builder.gep(builder.bitcast(data, byte_pointer), [offset])
        int32 = ir.IntType(32)
        signature_type = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        function = cgutils.get_or_insert_function(
            builder.module, signature_type, "llvm.prefetch.p0"
        )
        read, keep_in_all_caches, data_cache = (ir.Constant(int32, v) for v in (0, 3, 1))
        builder.call(function, [address, read, keep_in_all_caches, data_cache])
        return context.get_dummy_value()

    return types.void(array, index), codegen


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
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        word = builder.load(address, align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(array, types.uint64), codegen

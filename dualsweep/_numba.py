"""What numba does not promise to keep, and kernels that work without it.

A numba that lacks it compiles the same kernels, but slower ones, and in each process anew.
`tests/test_private_interfaces.py` tells what a new release has changed.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar
from zlib import crc32

import numba

from ._typing import NumbaType

try:
    from numba.core.caching import IndexDataCacheFile
except ImportError:
    IndexDataCacheFile = object
try:
    from numba.core.cpu import CPUTargetOptions
except ImportError:
    CPUTargetOptions = object

P = ParamSpec("P")
R = TypeVar("R")
Made = TypeVar("Made")
Key: TypeAlias = tuple[object, ...]  # of a compiled kernel
Kernel: TypeAlias = Any  # numba's Dispatcher

# Kernels allocate nothing, and their callers hold the arrays. So numba's run time ("nrt") need not
# count views: that took dozens of atomic operations for a row with many classes, 445 ns of letter
# instead of 245.
NO_RUN_TIME = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


def cached(
    function: Callable[P, R],
    options: dict[str, object],
    stamp: Callable[[], object],
    tell: Callable[[], None],
) -> Callable[P, R]:
    """Compile `function`, and cache on disk where some cache directory is writable.

    A kernel on disk is used if it has the stamp that `stamp` returns. `tell` is called when there
    is none, so that it has to be compiled.
    """
    try:
        kernel = numba.njit(function, cache=True, **options)
        cache = kernel._cache
        cache._cache_file = _KernelFile(kernel, stamp)
        cache._index_key = _with_fields(cache._index_key)
        # `load_overload` imports all that code may need while it is compiled, in 0.17 s. What is
        # compiled needs of that at most the run time, which these kernels do without.
        load = cache._load_overload if NO_RUN_TIME else cache.load_overload
        save = cache.save_overload
    # No directory can be written to, or this numba has another cache. Its own does not see that a
    # function of another module has changed.
    except (RuntimeError, AttributeError, TypeError):
        return numba.njit(function, **options)

    @functools.wraps(load)
    def load_or_tell(*args: object) -> object:
        found = _or_none(load, *args)
        if found is None:
            tell()
        return found

    # The directory can still vanish, fill up or be damaged; a kernel works without being stored.
    cache.load_overload, cache.save_overload = load_or_tell, functools.partial(_or_none, save)
    return kernel


def _or_none(method: Callable[..., R], *args: object) -> R | None:
    try:
        return method(*args)
    except Exception:
        return None


class _KernelFile(IndexDataCacheFile):  # type: ignore[misc]
    """numba's cache, stamped with what a kernel is made of, and with checksums.

    numba's own stamp is of one file, and a kernel's name has its line: after a comment it compiles
    again, after a change in another file it does not. numba chooses the directory. What a disk has
    damaged counts as missing, and is compiled and written again. So does the kernel of another key
    or stamp: processes that fill a cache at the same time give out the same file twice.
    """

    def __init__(self, kernel: Kernel, stamp: Callable[[], object]) -> None:
        self._stamp = stamp
        impl = kernel._cache._impl
        name = impl.filename_base
        if "<locals>" not in kernel.py_func.__qualname__:  # one name, one kernel
            line = f"-{impl.locator.get_disambiguator()}.py"
            name = ".py".join(name.rsplit(line, 1))
        path = kernel._cache.cache_path
        super().__init__(cache_path=path, filename_base=name, source_stamp=None)

    @property
    def _source_stamp(self) -> object:
        """What the index has to be stamped with; numba compares."""
        return self._stamp()

    @_source_stamp.setter
    def _source_stamp(self, stamp: object) -> None:
        """Leave out numba's stamp."""

    def save(self, key: Key, data: object) -> None:
        """Save a kernel with what it is for."""
        super().save(key, (self._stamp(), key, data))

    def load(self, key: Key) -> object:
        """Return the kernel for a key, or None."""
        stamp, saved, data = super().load(key) or (None, None, None)
        return data if (stamp, saved) == (self._stamp(), key) else None

    def _dump(self, content: object) -> bytes:
        data: bytes = super()._dump(content)
        return data + crc32(data).to_bytes(4, "big")  # reading a pickle ends before it

    def _load_data(self, name: str) -> object:
        data = Path(self._data_path(name)).read_bytes()
        if crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
            raise OSError(f"{name} is damaged")  # the same as if it were missing
        return pickle.loads(data)

    def _load_index(self) -> dict[object, object]:
        try:
            return super()._load_index()
        except Exception:  # whatever unpickling junk can raise
            return {}


def _with_fields(key_of: Callable[..., Key]) -> Callable[..., Key]:
    """Add to a key the fields of named tuples: numba's keys know them by name."""

    @functools.wraps(key_of)
    def key(sig: Iterable[NumbaType], codegen: object) -> Key:
        return (*key_of(sig, codegen), _fields(sig))

    return key


def _fields(kinds: Iterable[NumbaType]) -> Key:
    """Return the names of the fields in types of arguments, nested as these are."""
    return tuple(
        (getattr(kind, "fields", ()), _fields(getattr(kind, "types", ()))) for kind in kinds
    )


def options_of(kernel: object) -> dict[str, object] | None:
    """Return the options that a kernel is compiled with; None for what is no kernel."""
    return getattr(kernel, "targetoptions", None)


def around_compiling(kernel: Made, wrap: Callable[[Kernel], Kernel]) -> Made:
    """Let `wrap` decorate what compiles or loads a kernel; return the kernel."""
    if hasattr(kernel, "compile"):
        kernel.compile = wrap(kernel.compile)
    return kernel

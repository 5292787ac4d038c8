"""What numba does not promise to keep, and kernels that work without it.

A numba that lacks it compiles the same kernels, but slower ones, and in each process anew.
`tests/test_private_interfaces.py` tells what a new release has changed.
"""

from __future__ import annotations

import os
import pickle
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar
from zlib import crc32

import llvmlite.binding
import numba

from ._typing import NumbaType

try:
    from numba.core.caching import CompileResultCacheImpl, IndexDataCacheFile
    from numba.core.compiler import CompileResult
    from numba.core.cpu import CPUTargetOptions
except ImportError:
    IndexDataCacheFile = CompileResultCacheImpl = CompileResult = CPUTargetOptions = object

P = ParamSpec("P")
R = TypeVar("R")
Made = TypeVar("Made")
Key: TypeAlias = tuple[object, ...]  # of a compiled kernel
Kernel: TypeAlias = Any  # numba's Dispatcher
Compiled: TypeAlias = Any  # numba's CompileResult
Context: TypeAlias = Any  # numba's context of a processor

# Kernels allocate nothing, and their callers hold the arrays. So numba's run time ("nrt") need not
# count views: that took dozens of atomic operations for a row with many classes, 445 ns of letter
# instead of 245.
NO_RUN_TIME = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}

# Kernels that came with a wheel, or are being made for one: see tools/wheel.py.
MAKING = "DUALSWEEP_KERNELS" in os.environ
PREBUILT = Path(os.environ["DUALSWEEP_KERNELS"] if MAKING else Path(__file__).parent / "_kernels")

# Levels of processors that kernels are made for, by the machine, the best first: LLVM's name, and
# the features that a processor must have. On an AMD EPYC with AVX-512, fits of a9a, covtype, news20
# and letter take 0.96 to 1.04 times as long with v4 as with kernels for the very processor. With v3
# they take 0.97 to 1.06 times as long, letter 1.1 to 1.3.
V3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
V4 = (*V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
GENERIC: dict[str, tuple[str, ...]] = {"generic": ()}
LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {"x86-64-v4": V4, "x86-64-v3": V3},
    "AMD64": {"x86-64-v4": V4, "x86-64-v3": V3},  # as Windows calls it
    "aarch64": GENERIC,
    "arm64": GENERIC,
}


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
    kernel = numba.njit(function, **options)
    with suppress(AttributeError, TypeError):  # this numba has another cache
        kernel._cache = _Cache(function, stamp, tell)
    return kernel


class _Cache:
    """Where a kernel is looked for, and kept: prebuilt ones, and numba's directories.

    What numba has in this place does not see that a function of another module has changed.
    """

    def __init__(
        self, function: Kernel, stamp: Callable[[], object], tell: Callable[[], None]
    ) -> None:
        self._tell = tell
        self._own: _KernelFile | None = None
        self._prebuilt: _KernelFile | None = None
        self._impl: Any = None
        if MAKING or (PREBUILT.exists() and levels()):
            name = f"{function.__qualname__}.py{sys.version_info.major}{sys.version_info.minor}"
            self._prebuilt = _KernelFile(PREBUILT / function.__module__, name, stamp)
        if MAKING:
            self._own = self._prebuilt
            return
        try:
            self._impl = impl = CompileResultCacheImpl(function)
        except RuntimeError:  # no directory can be written to
            return
        name = impl.filename_base
        if "<locals>" not in function.__qualname__:  # one name, one kernel
            line = f"-{impl.locator.get_disambiguator()}.py"
            name = ".py".join(name.rsplit(line, 1))
        self._own = _KernelFile(Path(impl.locator.get_cache_path()), name, stamp)

    @property
    def cache_path(self) -> str | None:
        """The directory that kernels are kept in."""
        return None if self._own is None else str(self._own.folder)

    def load_overload(self, sig: NumbaType, context: Context) -> Compiled | None:
        """Return the kernel for a signature, or None: then it is compiled."""
        places = [(self._own, context.codegen().magic_tuple())]
        if not MAKING:
            places = [(self._prebuilt, level) for level in levels()] + places
        for file, processor in places:
            found = None if file is None else _or_none(self._load, file, sig, processor, context)
            if found is not None:
                return found
        self._tell()
        return None

    def _load(
        self, file: _KernelFile, sig: NumbaType, processor: Key, context: Context
    ) -> Compiled | None:
        if not NO_RUN_TIME:
            # This imports all that code may need while it is compiled, in 0.17 s. What is compiled
            # needs of that at most the run time, which these kernels do without.
            context.refresh()
        data = file.load(_key(sig, processor))
        return None if data is None else CompileResult._rebuild(context, *data)

    def save_overload(self, sig: NumbaType, compiled: Compiled) -> None:
        """Keep a kernel; the directory can still vanish, fill up or be damaged."""
        if self._own is not None:
            _or_none(self._save, self._own, sig, compiled)

    def _save(self, file: _KernelFile, sig: NumbaType, compiled: Compiled) -> None:
        if compiled.library.has_dynamic_globals:  # addresses, which differ in each process
            return
        if self._impl is not None:
            self._impl.locator.ensure_cache_path()
        file.folder.mkdir(parents=True, exist_ok=True)
        with _locked(file.folder):
            file.save(_key(sig, compiled.library.codegen.magic_tuple()), compiled._reduce())


@cache
def levels() -> list[Key]:
    """Return the levels whose kernels run here, as numba's keys have them, the best first."""
    host = llvmlite.binding.get_host_cpu_features()
    chosen, triple = numba.config.CPU_NAME, llvmlite.binding.get_process_triple()
    return [
        (triple, name, "")
        for name, needed in LEVELS.get(platform.machine(), {}).items()
        if all(host.get(feature) for feature in needed)
        and chosen in (None, name)  # or somebody wants another kind of code
    ]


def _key(sig: NumbaType, processor: Key) -> Key:
    """Return what a kernel is kept under: types, with the fields of named tuples, and processor."""
    return sig, processor, _fields(sig)


def _fields(kinds: Iterable[NumbaType]) -> Key:
    """Return the names of the fields in types of arguments, nested as these are."""
    return tuple(
        (getattr(kind, "fields", ()), _fields(getattr(kind, "types", ()))) for kind in kinds
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into the ``with`` block, where the system can.

    Each writes a whole index, and what another has added meanwhile would be lost.
    """
    with ExitStack() as stack:
        with suppress(ImportError, OSError):
            import fcntl

            lock = stack.enter_context(open(folder / ".lock", "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        yield


def _or_none(method: Callable[..., R], *args: object) -> R | None:
    try:
        return method(*args)
    except Exception:
        return None


class _KernelFile(IndexDataCacheFile):  # type: ignore[misc]
    """numba's files, stamped with what a kernel is made of, and with checksums.

    numba's own stamp is of one file, and a kernel's name has its line: after a comment it compiles
    again, after a change in another file it does not. What a disk has damaged counts as missing,
    and is compiled and written again. So does the kernel of another key or stamp: processes that
    fill a cache at the same time give out the same file twice.
    """

    def __init__(self, folder: Path, name: str, stamp: Callable[[], object]) -> None:
        self.folder, self._stamp = folder, stamp
        super().__init__(cache_path=str(folder), filename_base=name, source_stamp=None)

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

    def load(self, key: Key) -> Any:
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


def options_of(kernel: object) -> dict[str, object] | None:
    """Return the options that a kernel is compiled with; None for what is no kernel."""
    return getattr(kernel, "targetoptions", None)


def around_compiling(kernel: Made, wrap: Callable[[Kernel], Kernel]) -> Made:
    """Let `wrap` decorate what compiles or loads a kernel; return the kernel."""
    if hasattr(kernel, "compile"):
        kernel.compile = wrap(kernel.compile)
    return kernel

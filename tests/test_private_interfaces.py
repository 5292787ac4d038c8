"""What other libraries do not promise: whether it is still there, and that we can do without.

A test of the first kind that fails after an update says which module uses what has changed. Those
of the second kind take it away.
"""

import os
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from llvmlite import ir
from llvmlite.binding import llvm_version_info
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompileResult

import dualsweep
from dualsweep import LinearSVC, _numba
from dualsweep._jit import jit
from dualsweep._llvm import intrinsic
from dualsweep.kernels.binary import sweep
from dualsweep.rows.functions import prefetch


def expect(holds, changed, module):
    assert holds, f"{changed} has changed, which {module} uses; without it, that works more slowly."


@pytest.mark.parametrize(
    "name", ["load", "save", "_load_index", "_load_data", "_dump", "_data_path"]
)
def test_numba_has_files_of_caches(name):
    method = getattr(IndexDataCacheFile, name, None)
    expect(method is not None, f"numba's IndexDataCacheFile.{name}", "dualsweep/_numba.py")
    parameters = {"save": 3, "_load_index": 1}
    assert len(signature(method).parameters) == parameters.get(name, 2)


def test_numba_has_caches_that_look_into_these_files():
    made = signature(IndexDataCacheFile).parameters
    assert list(made) == ["cache_path", "filename_base", "source_stamp"]
    file = IndexDataCacheFile("folder", "name", ("stamp",))
    expect(file._source_stamp == ("stamp",), "numba's _source_stamp", "dualsweep/_numba.py")
    assert isinstance(sweep._cache, _numba._Cache)
    assert isinstance(sweep._cache._own, _numba._KernelFile)
    impl = CompileResultCacheImpl(sweep.py_func)
    assert impl.filename_base.count(impl.locator.get_disambiguator()) == 1
    assert impl.locator.get_cache_path() == sweep._cache.cache_path
    for method, parameters in {
        "load_overload": ["self", "sig", "target_context"],
        "save_overload": ["self", "sig", "data"],
    }.items():
        asked, ours = getattr(FunctionCache, method), getattr(_numba._Cache, method)
        expect(list(signature(asked).parameters) == parameters, f"Cache.{method}", "_numba.py")
        assert len(signature(ours).parameters) == 3


def test_numba_makes_what_is_compiled_anew():
    kernel = numba.njit(lambda x: x + 1)
    assert kernel(1) == 2
    [compiled] = kernel.overloads.values()
    again = CompileResult._rebuild(compiled.target_context, *compiled._reduce())
    expect(again.signature == compiled.signature, "numba's CompileResult", "dualsweep/_numba.py")
    assert len(compiled.library.codegen.magic_tuple()) == 3


def test_numba_compiles_without_its_run_time():
    expect(_numba.NO_RUN_TIME == {"_nrt": False}, "numba's option _nrt", "dualsweep/_numba.py")
    assert sweep.targetoptions["_nrt"] is False


def test_numba_compiles_by_a_method():
    kernel = numba.njit(lambda x: x + 1)
    told = []

    def wrap(compiling):
        return lambda kinds: told.append(kinds) or compiling(kinds)

    assert _numba.around_compiling(kernel, wrap)(1) == 2
    expect(len(told) == 1, "Dispatcher.compile of numba", "dualsweep/_numba.py")


def test_distributed_has_what_asks_actors_by_way_of_the_scheduler():
    client = pytest.importorskip("dualsweep.placements.cluster.client")
    expect(client.ProxyRPC is not None, "distributed's ProxyRPC", "placements/cluster/client.py")
    assert list(signature(client.ProxyRPC).parameters) == ["rpc", "address"]


def test_numba_tells_what_kernels_are_made_of():
    for made in (sweep, prefetch):
        expect(callable(getattr(made, "__wrapped__", None)), "numba's __wrapped__", "_content.py")
    expect(_numba.options_of(sweep)["nogil"], "Dispatcher.targetoptions of numba", "_numba.py")


@intrinsic(lambda array: None, types.int64, None)
def _swapped(call):
    """Swap two pairs of numbers by way of a pointer that has no type; return the first number."""
    builder, number, pair = call.builder, ir.IntType(64), ir.VectorType(ir.IntType(64), 2)
    whole = call.array(0)
    plain = builder.inttoptr(builder.ptrtoint(whole.fields.data, number), ir.PointerType())
    assert plain.type.is_opaque
    whole.fields = SimpleNamespace(data=plain)
    places = [whole.pointer(ir.Constant(number, place), pair) for place in (0, 2)]
    pairs = [builder.load(place, align=8, typ=pair) for place in places]
    for value, place in zip(pairs, reversed(places), strict=True):
        builder.store(value, place, align=8)
    return whole.load(ir.Constant(number, 0))


@pytest.mark.skipif(llvm_version_info[0] < 17, reason="all pointers have types in this LLVM")
def test_arrays_of_intrinsics_need_no_types_of_pointers():
    numbers = np.arange(4)
    assert jit(lambda x: _swapped(x))(numbers) == 2
    assert numbers.tolist() == [2, 3, 0, 1]


@pytest.mark.parametrize(
    ("private", "module"),
    [  # numba's documentation has cgutils and types in its examples
        (r"numba\.core(?! import (cgutils|types)\b)|\._cache\b|_nrt\b|targetoptions", "_numba.py"),
        (r"as_pointer|pointee|is_opaque|make_array", "_llvm.py"),
        (r"ProxyRPC|actor_execute", "client.py"),
    ],
)
def test_what_is_private_is_used_in_one_module(private, module):
    package = Path(dualsweep.__file__).parent
    using = {path.name for path in package.rglob("*.py") if re.search(private, path.read_text())}
    assert using == {module}


HOW = {"loss": "hinge", "solver": "sweep", "tol": 1e-6, "random_state": 0}
FIT = f"""
import numpy as np
from dualsweep import LinearSVC
from dualsweep.kernels.binary import sweep

X = np.random.default_rng(0).normal(size=(20, 3))
model = LinearSVC(**{HOW}).fit(X, X[:, 0] > 0)
print(model.coef_.tobytes().hex(), type(sweep._cache).__name__)
"""

KERNEL = """
import numpy as np
from dualsweep._jit import jit

@jit
def total(x):
    found = 0.0
    for value in x:
        found += value
    return found

print(total(np.arange(5.0)), type(total._cache).__name__)
"""

# As if a release of numba had no such thing, or had it under another name.
GONE = {
    "the class of files": """
import sys, types
from numba.core import caching
module = types.ModuleType(caching.__name__)
vars(module).update({k: v for k, v in vars(caching).items() if k != "IndexDataCacheFile"})
sys.modules[caching.__name__] = module
""",
    "how they are made": """
from numba.core import caching
class Renamed(caching.IndexDataCacheFile):
    def __init__(self, **given):
        if "cache_path" in given and type(self) is not Renamed:
            raise TypeError("folder, please")
        super().__init__(**given)
caching.IndexDataCacheFile = Renamed
""",
    "what a cache is made of": """
from numba.core import caching
del caching.CacheImpl.filename_base
""",
    "how it is made anew": """
from numba.core.compiler import CompileResult
del CompileResult._rebuild, CompileResult._reduce
""",
    "the option": """
from numba.core.cpu import CPUTargetOptions
for kind in CPUTargetOptions.__mro__:
    if "_nrt" in vars(kind):
        del kind._nrt
""",
}


def run(code, folder):
    """Run code in a new process, as a file with a cache of its own; return what it prints."""
    script = folder / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("gone", GONE)
def test_kernels_work_without_what_is_private_in_numba(gone, tmp_path):
    cache = "_Cache" if gone in ("the option", "how it is made anew") else "NullCache"
    assert run(GONE[gone] + KERNEL, tmp_path) == ["10.0", cache]


@pytest.mark.parametrize("name", ["load", "save", "_dump", "_load_index"])
def test_kernels_work_where_their_files_do_not(name, tmp_path):
    code = f"from numba.core import caching\ndel caching.IndexDataCacheFile.{name}\n" + KERNEL
    assert [run(code, tmp_path) for _ in range(2)] == [["10.0", "_Cache"]] * 2


def test_fits_are_the_same_without_any_of_it(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = LinearSVC(**HOW).fit(X, X[:, 0] > 0)
    assert run("".join(GONE.values()) + FIT, tmp_path) == [model.coef_.tobytes().hex(), "NullCache"]


def test_what_is_not_compiled_by_a_method_is_left_as_it_is():
    kernel = SimpleNamespace()
    assert _numba.around_compiling(kernel, None) is kernel
    assert _numba.options_of(kernel) is None

"""What a compiled kernel is kept under: its code and all that it reaches, and nothing else."""

import importlib
import os
import subprocess
import sys

import pytest

from dualsweep import _content, _numba

HELPER = '''"""A module of helpers."""

from typing import NamedTuple

from dualsweep._jit import generic, implements, jit_inline
from dualsweep._llvm import intrinsic
from numba.core import types

SHIFT = 2.0
SCALES = {"one": 1.0}


class Pair(NamedTuple):
    """Two numbers."""

    first: float
    second: float


@jit_inline
def half(x):
    """Return the half."""
    return x / 2.0  # exactly


@generic
def shifted(x):
    """Return x, shifted."""


@implements(shifted, float)
def _shifted(x):
    return half(x) + SHIFT


def constant(value):
    return value + 1


@intrinsic(lambda x: x, types.float64, types.float64)
def same(call):
    """Return x."""
    constant(0)
    return call.args[0]


def apart(x):
    return x
'''

KERNEL = '''"""A kernel."""

from dualsweep._jit import jit

from .helper import Pair, same, shifted


@jit
def kernel(pair, by=1.0):
    """Return a number."""
    return same(shifted(pair.first)) * by
'''

SAME = {
    "a comment": ("helper.py", "# exactly", "# with no rounding"),
    "a docstring": ("helper.py", "Return the half", "Return x / 2, of course"),
    "a docstring of the kernel": ("kernel.py", "Return a number", "Return what it returns"),
    "a docstring of the module": ("kernel.py", "A kernel", "This is a kernel"),
    "lines further down": ("kernel.py", "@jit", "\n# So far it was the third line.\n\n@jit"),
    "lines of a helper": ("helper.py", "@generic", "\n\n\n@generic"),
    "a function apart": ("helper.py", "    return x\n", "    return x + 1\n"),
    "the same options": ("helper.py", "@jit_inline", "@lambda f: jit_inline(f)"),
}

OTHER = {
    "the kernel": ("kernel.py", "* by", "/ by"),
    "a default": ("kernel.py", "by=1.0", "by=2.0"),
    "options": ("kernel.py", "@jit", "@lambda f: jit(f, fastmath={'nsz'})"),
    "a helper": ("helper.py", "x / 2.0", "x / 2.5"),
    "operations on the same names": ("helper.py", "x / 2.0", "x * 2.0"),
    "a constant": ("helper.py", "SHIFT = 2.0", "SHIFT = 3.0"),
    "the type of a constant": ("helper.py", "SHIFT = 2.0", "SHIFT = 2"),
    "an implementation": ("helper.py", "half(x) + SHIFT", "half(x) - SHIFT"),
    "its options": ("helper.py", "(shifted, float)", "(shifted, float, fastmath=True)"),
    "a function of code generation": ("helper.py", "value + 1", "value + 2"),
}


class Package:
    """A package of two modules in a folder, as written and as edited."""

    def __init__(self, folder):
        self.folder = folder / "small"
        self.folder.mkdir(parents=True)
        for name, text in {"__init__": "", "helper": HELPER, "kernel": KERNEL}.items():
            (self.folder / f"{name}.py").write_text(text)

    def edit(self, file, old, new):
        path = self.folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def load(self, monkeypatch):
        """Import it anew; return its modules."""
        for name in [name for name in sys.modules if name.partition(".")[0] == "small"]:
            del sys.modules[name]
        monkeypatch.setattr(sys, "dont_write_bytecode", True)  # its files change within a second
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(self.folder.parent))
            return importlib.import_module("small.kernel"), importlib.import_module("small.helper")

    def kept_under(self, monkeypatch):
        """Return what the kernel is kept under."""
        kernel = self.load(monkeypatch)[0].kernel
        file = kernel._cache._own
        return file._index_name, file._source_stamp


@pytest.mark.parametrize("edit", SAME.values(), ids=SAME)
def test_what_is_not_code_changes_nothing(edit, tmp_path, monkeypatch):
    before = Package(tmp_path / "before").kept_under(monkeypatch)
    package = Package(tmp_path / "after")
    package.edit(*edit)
    assert package.kept_under(monkeypatch) == before


@pytest.mark.parametrize("edit", OTHER.values(), ids=OTHER)
def test_what_is_code_does(edit, tmp_path, monkeypatch):
    package = Package(tmp_path)
    before = package.kept_under(monkeypatch)
    package.edit(*edit)
    after = package.kept_under(monkeypatch)
    assert after[0] == before[0]  # of two, the later one takes the place
    assert after[1] != before[1]


def test_an_implementation_that_comes_later_counts(tmp_path, monkeypatch):
    from dualsweep._jit import implements

    kernel, helper = Package(tmp_path).load(monkeypatch)
    file = kernel.kernel._cache._own
    before = file._source_stamp

    @implements(helper.shifted, str)
    def another(x):
        return x

    assert file._source_stamp != before


def test_the_order_of_fields_counts(tmp_path, monkeypatch):
    """Types of named tuples are equal where the classes have one name."""
    import numba

    package, keys = Package(tmp_path), []
    for edit in (None, ("helper.py", "first: float\n    second", "second: float\n    first")):
        if edit is not None:
            package.edit(*edit)
        _, helper = package.load(monkeypatch)
        pair = numba.typeof(helper.Pair(1.0, 2.0))
        keys.append([_numba._key(sig, ()) for sig in ((pair,), (numba.typeof((pair,)),))])
    assert keys[0][0][-1] == ((("first", "second"), (((), ()), ((), ()))),)
    assert keys[0][0][-1] != keys[1][0][-1]


def test_values_by_kind():
    code = (lambda: None).__code__
    values = [None, True, 1, 1.0, "1", b"1", (1,), [1], {1}, {1: 1}, code, sys, int, print]
    read = [_content._Reader(("dualsweep", "tests")).value(value) for value in values]
    assert len(set(read)) == len(values)
    unknown = object()  # has no description that is the same in another process
    again = [_content._Reader(("dualsweep", "tests")).value(unknown) for _ in range(2)]
    assert again[0] != again[1]


DIGESTS = """
import importlib, pkgutil, sys
import dualsweep
from numba.core.dispatcher import Dispatcher

for folder in ("rows", "kernels", "solvers", "io"):
    path = [f"{dualsweep.__path__[0]}/{folder}"]
    for module in pkgutil.iter_modules(path, f"dualsweep.{folder}."):
        importlib.import_module(module.name)
found = {}
for name in sorted(sys.modules):
    if name.startswith("dualsweep."):
        for value in vars(sys.modules[name]).values():
            if isinstance(value, Dispatcher):
                file = value._cache._own
                found[value.py_func.__module__, file._index_name] = file._source_stamp[1].hex()
print(sorted(found.items()))
"""


def test_all_kernels_are_kept_under_the_same_in_all_processes():
    """Whatever a kernel refers to has a description that another process finds again."""
    ones, others = (
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert ones == others
    assert ones.count("dualsweep.kernels.") > 20

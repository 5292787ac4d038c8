"""Compilation: nothing at import, and no need for a disk cache."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import dualsweep
from dualsweep._jit import (
    DOT_MATH,
    jit,
    leading_zeros,
    load_word,
    multiply_high,
    trailing_zeros,
)

PACKAGE = Path(dualsweep.__file__).parent

FIT = """
import numpy as np
from dualsweep import LinearSVC
from dualsweep.kernels.binary import sweep

X = np.random.default_rng(0).normal(size=(20, 3))
model = LinearSVC(tol=1e-6, random_state=0).fit(X, X[:, 0] > 0)
print(model.relative_gap_ <= 1e-6, sweep._cache.cache_path)
"""

SIGNATURES = """
import pkgutil
import dualsweep
from numba.core.dispatcher import Dispatcher

found = compiled = 0
for info in pkgutil.walk_packages(dualsweep.__path__, "dualsweep."):
    if info.name in sys.modules:
        for value in vars(sys.modules[info.name]).values():
            if isinstance(value, Dispatcher):
                found += 1
                compiled += len(value.signatures)
print(found > 10, compiled)
"""


def run(code, path, **environment):
    """Run code in a new interpreter that imports dualsweep from `path`; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import sys\n" + code],
        cwd=path,  # first on the path of imports
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_compiles_nothing():
    assert run(SIGNATURES, PACKAGE.parent) == ["True", "0"]


def test_fit_works_where_no_cache_can_be_written(tmp_path):
    """Every place numba tries is taken by a regular file, which also stops root."""
    blocked = tmp_path / "file"
    blocked.touch()
    copy = tmp_path / "dualsweep"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    places = dict.fromkeys(["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"], str(blocked / "below"))
    assert run(FIT, tmp_path, PYTHONDONTWRITEBYTECODE="1", **places) == ["True", "None"]


PYTHON = """
import numpy as np
import scipy.sparse as sp
from dualsweep import LinearSVC
from dualsweep.kernels.binary import sweep

X = np.random.default_rng(0).normal(size=(15, 3))
y = np.arange(15) % 3
for kind in ("ovr", "crammer_singer", "weston_watkins"):
    for layout in (np.asarray, sp.csr_array):
        for solver in ("sweep", "newton"):
            model = LinearSVC(loss="hinge", multi_class=kind, solver=solver, tol=1e-8)
            model.fit(layout(X), y)
            print(round(model.primal_objective_, 5))
print(hasattr(sweep, "signatures"))
"""


def test_everything_runs_in_plain_python_too():
    """Kernels are looked into that way; rounding is not quite that of compiled ones."""
    compiled = run(PYTHON, PACKAGE.parent)
    python = run(PYTHON, PACKAGE.parent, NUMBA_DISABLE_JIT="1")
    assert (compiled.pop(), python.pop()) == ("True", "False")
    assert compiled == python


def test_sums_keep_infinity_and_nan():
    assert {"reassoc", "contract"} <= DOT_MATH
    assert not DOT_MATH & {"ninf", "nnan", "fast"}


@settings(deadline=None)
@given(a=st.integers(0, 2**64 - 1), b=st.integers(0, 2**64 - 1), offset=st.integers(0, 7))
def test_intrinsics_on_words(a, b, offset):
    memory = np.frombuffer(b"x" * offset + a.to_bytes(8, "little") + b"y" * 8, np.uint8)
    high, leading, trailing, word = _on_words(np.uint64(a), np.uint64(b), memory, np.uint64(offset))
    assert high == a * b >> 64
    assert leading == 64 - a.bit_length()
    assert trailing == ((a & -a).bit_length() - 1 if a else 64)
    assert word == a


@jit
def _on_words(a, b, memory, offset):
    word = load_word(memory, offset)
    return multiply_high(a, b), leading_zeros(a), trailing_zeros(a), word

"""A wheel with prebuilt kernels, installed elsewhere: nothing is compiled."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from dualsweep._numba import LEVELS

pytest.importorskip("hatchling")
pytestmark = pytest.mark.skipif(
    platform.machine() not in LEVELS, reason="no kernels are made for this kind of processor"
)
ROOT = Path(__file__).parent.parent

# The first fit of a process; prints where the package is, what compiled, and the relative gap.
FIRST = """
import json, sys
import numpy as np, scipy.sparse as sp
import dualsweep
from dualsweep import LinearSVC, LinearSVCCV, LinearSVR, LogisticRegression, _jit

compiled = []
_jit.on_compilation.append(lambda: compiled.append(1))
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 5))
two, three = (X[:, 0] > 0).astype(int), np.arange(300) % 3
sparse, wide = sp.csr_array(X.astype(np.float32)), sp.csr_array(X)
wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
model = {
    "dense": lambda: LinearSVC().fit(X, two),
    "sparse": lambda: LinearSVC(loss="hinge").fit(sparse, three),
    "long indices": lambda: LinearSVC().fit(wide, two),
    "crammer_singer": lambda: LinearSVC(multi_class="crammer_singer").fit(sparse, three),
    "weston_watkins": lambda: LinearSVC(multi_class="weston_watkins").fit(sparse, three),
    "regression": lambda: LinearSVR().fit(X, X[:, 0]),
    "logistic": lambda: LogisticRegression().fit(X, three),
    "search": lambda: LinearSVCCV(Cs=[0.1, 1.0]).fit(X, three),
}[sys.argv[1]]()
model.predict(sparse)
print(json.dumps([dualsweep.__file__, len(compiled), model.relative_gap_]))
"""
# Predictions, proofs and the command line.
CALLS = """
import numpy as np, scipy.sparse as sp
from dualsweep import LinearSVC, _jit
compiled = []
_jit.on_compilation.append(lambda: compiled.append(1))
rng = np.random.default_rng(0)
X, y = sp.csr_array(rng.normal(size=(60, 5)).astype(np.float32)), np.arange(60) % 3
for method in ("ovr", "crammer_singer", "weston_watkins"):
    model = LinearSVC(multi_class=method, C=0.01, tol=0.01, random_state=0).fit(X, y)
    model.predict(X)
    model.save_proof("proof", X, y, force=True)
from dualsweep.cli import app
open("a.svm", "w").write("1 1:1\\n-1 2:1\\n")
for words in (["train", "a.svm", "-q"], ["predict", "a.model.npz", "a.svm", "-o", "out"]):
    app(words, standalone_mode=False)
print(len(compiled))
"""


# Fits of each kind that there is, and what compiled, as JSON.
FITS = """
import itertools, json, sys, warnings
import numpy as np, scipy.sparse as sp
from dualsweep import LinearSVC, LinearSVR, LogisticRegression, _jit
from dualsweep.losses import LOSSES, REGRESSION_LOSSES
warnings.simplefilter("ignore")
compiled, found = [], {}
_jit.on_compilation.append(lambda: compiled.append(1))
rng = np.random.default_rng(0)
X, y = rng.normal(size=(120, 5)).astype(sys.argv[2]), np.arange(120) % 3
rows = sp.csr_array(X) if sys.argv[1] == "sparse" else X
intercepts = [{}, {"intercept": "free"}, {"fit_intercept": False}]
kinds = [(LinearSVC, i | {"loss": loss}) for i in intercepts for loss in LOSSES]
kinds += [(LinearSVR, i | {"loss": loss}) for i in intercepts for loss in REGRESSION_LOSSES]
for method, i in itertools.product(("crammer_singer", "weston_watkins"), intercepts[::2]):
    kinds.append((LinearSVC, i | {"multi_class": method, "loss": "hinge"}))
kinds += [(LogisticRegression, i) for i in (*intercepts, {"intercept": "penalized"})]
for (kind, options), solver, C, tol in itertools.product(
    kinds, ("auto", "sweep", "newton"), (0.01, 100.0), (1e-2, 1e-7)
):
    for target in (y, y > 0) if kind is not LinearSVR else (X[:, 0] + 0.1 * y,):
        model = kind(solver=solver, C=C, tol=tol, max_iter=200, random_state=0, **options)
        model.fit(rows, target).predict(rows)
        if compiled:
            found[repr(model)] = len(compiled)
        compiled.clear()
print(json.dumps(found))
"""

KINDS = [
    *("dense", "sparse", "long indices", "crammer_singer", "weston_watkins", "regression"),
    *("logistic", "search"),
]


def install(folder):
    """Build a wheel and install it; return where."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    build = [sys.executable, ROOT / "tools/wheel.py", "--best", "--out", folder]
    subprocess.run(build, env=environment, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    assert wheel.name.startswith("dualsweep-")
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-none-" in wheel.name
    assert 1e6 < wheel.stat().st_size < 10e6  # two levels: less than 20 MB
    into = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*into, folder / "site", wheel], check=True)
    return folder / "site"


def run(installed, cache, words, **environment):
    """Run code with the installed package and a cache of its own; return what it prints."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    own = {"PYTHONPATH": str(installed), "NUMBA_CACHE_DIR": str(cache), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        cwd=installed.parent,
        env=kept | own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_wheel(tmp_path):
    """One test, since the wheel takes minutes to build, and processes share tests out."""
    installed = install(tmp_path / "wheel")
    first_fits_compile_nothing(installed, tmp_path / "first")
    what_warm_up_has_compiled_is_not_compiled_again(installed, tmp_path / "again")
    assert run(installed, tmp_path / "calls", ["-c", CALLS]) == 0
    other_processors_compile(installed, tmp_path / "other")
    what_is_damaged_compiles(installed, tmp_path / "damaged")


def first_fits_compile_nothing(installed, cache):
    for kind in KINDS:
        place, compiled, gap = run(installed, cache, ["-c", FIRST, kind])
        assert Path(place).is_relative_to(installed)
        assert compiled == 0, kind
        assert 0.0 <= gap <= 1e-3
    assert not list(cache.rglob("*.nbc"))


def what_warm_up_has_compiled_is_not_compiled_again(installed, cache):
    """The kernels of a wheel are those that ``dualsweep warm-up`` compiles."""
    for layout, dtype in (("dense", "float64"), ("sparse", "float32")):
        assert run(installed, cache, ["-c", FITS, layout, dtype]) == {}
        words = ["-m", "dualsweep", "warm-up", "--layouts", layout, "--types", dtype, "--json"]
        assert run(installed, cache, words)["compiled"] == 0


def other_processors_compile(installed, cache):
    _, compiled, gap = run(installed, cache, ["-c", FIRST, "dense"], NUMBA_CPU_NAME="generic")
    assert compiled > 0
    assert 0.0 <= gap <= 1e-3


def what_is_damaged_compiles(installed, cache):
    """And is kept where compiled kernels are, not in the package."""
    damaged = 0
    for path in installed.rglob("certify_rows.*.nbc"):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        damaged += 1
    assert damaged
    _, compiled, gap = run(installed, cache, ["-c", FIRST, "dense"])
    assert compiled > 0
    assert 0.0 <= gap <= 1e-3
    assert run(installed, cache, ["-c", FIRST, "dense"])[1] == 0

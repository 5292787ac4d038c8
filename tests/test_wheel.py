"""A wheel with prebuilt kernels, installed elsewhere: nothing is compiled."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from test_warm_up import CALLS, FITS

from dualsweep._numba import LEVELS

pytest.importorskip("hatchling")
pytestmark = [
    pytest.mark.xdist_group("wheel"),  # which is built once
    pytest.mark.skipif(
        platform.machine() not in LEVELS, reason="no kernels are made for this kind of processor"
    ),
]
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
KINDS = [
    *("dense", "sparse", "long indices", "crammer_singer", "weston_watkins", "regression"),
    *("logistic", "search"),
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that a wheel was installed in."""
    folder = tmp_path_factory.mktemp("wheel")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    build = [sys.executable, ROOT / "tools/wheel.py", "--best", "--out", folder]
    subprocess.run(build, env=environment, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    assert wheel.name.startswith("dualsweep-")
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-none-" in wheel.name
    assert 1e6 < wheel.stat().st_size < 13e6  # two levels: 21 MB
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_fit_compiles_nothing(installed, tmp_path, kind):
    place, compiled, gap = run(installed, tmp_path, ["-c", FIRST, kind])
    assert Path(place).is_relative_to(installed)
    assert compiled == 0
    assert 0.0 <= gap <= 1e-3
    assert not list(tmp_path.rglob("*.nbc"))


@pytest.mark.parametrize("kind", [("dense", "float64"), ("sparse", "float32")])
def test_what_warm_up_has_compiled_is_not_compiled_again(installed, tmp_path, kind):
    """The kernels of a wheel are those that ``dualsweep warm-up`` compiles."""
    assert run(installed, tmp_path, ["-c", FITS, *kind]) == {}
    layout, dtype = kind
    words = ["-m", "dualsweep", "warm-up", "--layouts", layout, "--types", dtype, "--json"]
    assert run(installed, tmp_path, words)["compiled"] == 0


def test_predictions_compile_nothing(installed, tmp_path):
    assert run(installed, tmp_path, ["-c", CALLS]) == 0


def test_other_processors_compile(installed, tmp_path):
    _, compiled, gap = run(installed, tmp_path, ["-c", FIRST, "dense"], NUMBA_CPU_NAME="generic")
    assert compiled > 0
    assert 0.0 <= gap <= 1e-3


def test_what_is_damaged_compiles(installed, tmp_path):
    """And is kept where compiled kernels are, not in the package."""
    damaged = 0
    for path in installed.rglob("certify_rows.*.nbc"):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        damaged += 1
    assert damaged
    _, compiled, gap = run(installed, tmp_path, ["-c", FIRST, "dense"])
    assert compiled > 0
    assert 0.0 <= gap <= 1e-3
    assert run(installed, tmp_path, ["-c", FIRST, "dense"])[1] == 0

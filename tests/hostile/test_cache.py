"""Kernels on disk: damaged, shared, unwritable caches, processes that fill one, changed sources."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dualsweep

# Prints a digest of the model, and how many kernels were found in the cache and not found.
FIT = """
import hashlib
import numpy as np
from dualsweep import _jit
from dualsweep.placements import TrainingSet
from dualsweep.training import Context, Settings, train

X = np.random.default_rng(0).normal(size=(60, 3))
missed = []
_jit.on_compilation.append(lambda: missed.append(1))
with Context() as context:
    settings = Settings(tol=1e-6, solver="sweep")
    data = TrainingSet(X, (X[:, 0] > 0).astype(int), None, settings, context)
    model = train(data, settings, context)
print(hashlib.sha256(model.coef.tobytes()).hexdigest(), len(missed))
"""


HOME = os.environ.get("HOME")


def fit(cache, home=HOME, folder=None):
    """Fit in a new process; return the digest and how many kernels had to be compiled.

    The package is the one in `folder`, if there is one.
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "HOME": home}
    if folder is not None:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"  # it knows files by the second
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIT],
        cwd=folder,
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    digest, missed = done.stdout.split()
    return digest, int(missed)


def fit_at_once(cache, n):
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda _: fit(cache), range(n)))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A cache that two processes filled at the same time, and the digest of what they made."""
    cache = tmp_path_factory.mktemp("cache")
    one, other = fit_at_once(cache, 2)
    assert one[0] == other[0]
    assert one[1] > 3
    return cache, one[0]


def files(cache, suffix):
    return sorted(Path(cache).rglob(f"*.{suffix}"))


def copy(cache, target):
    """A cache of its own for a test; numba names its directory after the package's place."""
    subprocess.run(["cp", "-a", str(cache), str(target)], check=True)
    return target


def test_a_cache_that_two_processes_filled_is_complete(first):
    cache, digest = first
    assert fit(cache) == (digest, 0)


def damage(path, how, rng):
    content = bytearray(path.read_bytes())
    if how == "empty":
        content = b""
    elif how == "truncated":
        content = content[: rng.integers(1, len(content))]
    elif how == "junk":
        content = rng.bytes(len(content))
    elif how == "bits":
        for place in rng.integers(0, len(content), 5):
            content[place] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_kernels_are_compiled_again(first, suffix, tmp_path):
    cache, digest = first
    cache = copy(cache, tmp_path / "cache")
    rng = np.random.default_rng(0)
    hows = ["empty", "truncated", "junk"] + ["bits"] * (suffix == "nbc")
    damaged = files(cache, suffix)
    assert len(damaged) > 5
    for p, path in enumerate(damaged):
        damage(path, hows[p % len(hows)], rng)
    again, missed = fit(cache)
    assert again == digest
    assert missed > 3
    assert fit(cache) == (digest, 0)  # and written again


def test_a_directory_in_place_of_a_file_is_no_harm(first, tmp_path):
    cache, digest = first
    cache = copy(cache, tmp_path / "cache")
    for path in files(cache, "nbc"):
        path.unlink()
        path.mkdir()
    assert fit(cache)[0] == digest


def test_fits_need_no_home(first, tmp_path):
    cache, digest = first
    blocked = tmp_path / "file"
    blocked.touch()
    assert fit(cache, home=str(blocked / "below"))[0] == digest
    assert fit(cache, home=None)[0] == digest


def test_many_processes_share_a_cache(first):
    cache, digest = first
    assert fit_at_once(cache, 4) == [(digest, 0)] * 4


def test_sources_that_change(tmp_path):
    """Files that are new, with other comments, docstrings and lines; then a row function."""
    package, cache = tmp_path / "dualsweep", tmp_path / "cache"

    def install():
        original = Path(dualsweep.__file__).parent
        shutil.copytree(original, package, ignore=shutil.ignore_patterns("__pycache__"))

    install()
    digest, compiled = fit(cache, folder=tmp_path)
    assert compiled > 3
    shutil.rmtree(package)
    install()
    for path in package.rglob("*.py"):
        text = re.sub(r'(def [^\n]*:\n +""")', r"\1Changed: ", path.read_text())
        path.write_text(f"# A comment.\n{text}\n# Another.\n")
        os.utime(path, (1e9, 1e9))
    assert fit(cache, folder=tmp_path) == (digest, 0)
    path = package / "rows/functions.py"
    old = "total = rows.bias * np.float64(w[w.shape[0] - 1])"
    assert path.read_text().count(old) > 0
    path.write_text(path.read_text().replace(old, f"{old} + 0.5"))
    other, compiled_again = fit(cache, folder=tmp_path)
    assert other != digest  # steps are shorter
    assert 0 < compiled_again < compiled
    assert fit(cache, folder=tmp_path) == (other, 0)


TWICE = """
from dualsweep._jit import jit

@jit
def twice(a):
    return a + a

print(twice(1), twice(0.75))
"""


def test_a_kernel_for_other_types_is_not_used(tmp_path):
    """Two processes that fill a cache at the same time can give out the same file twice."""
    (tmp_path / "script.py").write_text(TWICE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = str(Path(dualsweep.__file__).parents[1])
    found = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, tmp_path / "script.py"], env=environment, capture_output=True
        )
        found.append((done.returncode, done.stdout, done.stderr))
        one, other = sorted((tmp_path / "cache").rglob("*.nbc"))
        content = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(content)
    assert found == [(0, b"2 1.5\n", b"")] * 3

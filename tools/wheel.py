"""Build a wheel with the kernels for this machine's kind of processor, for this Python.

    python tools/wheel.py [--out folder] [--best]

Kernels are compiled for levels of processors (`LEVELS` in dualsweep/_numba.py), those that this
machine can run. They are found by what they are made of, by the versions of Python, numba and
llvmlite, and by the level. Where something differs, kernels compile as they do from source.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from dualsweep._numba import levels

ROOT = Path(__file__).parent.parent
WARM_UP = ["warm-up", "--layouts", "sparse,sparse64,dense", "--types", "float32,float64"]

# Functions that only other kernels call are part of these. A second run loads the others alone.
LOADED = """
import json, sys
from dualsweep import _numba
from dualsweep.cli import app

loaded, load = [], _numba._KernelFile._load_data
_numba._KernelFile._load_data = lambda file, name: loaded.append(file._data_path(name)) or load(
    file, name
)
app([*json.loads(sys.argv[1]), "--jobs", "1", "--quiet"], standalone_mode=False)
print(json.dumps(loaded))
"""


def make_kernels(folder: Path, best: bool) -> None:
    """Compile all kernels into a folder, and leave out those that Python does not call.

    For all levels, or for the best only.
    """
    loaded: set[str] = set()
    for _, name, features in levels()[: 1 if best else None]:
        level = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
        environment = {**os.environ, **level, "DUALSWEEP_KERNELS": str(folder)}
        print(f"Kernels for {name}", flush=True)
        subprocess.run([sys.executable, "-m", "dualsweep", *WARM_UP], env=environment, check=True)
        again = [sys.executable, "-c", LOADED, json.dumps(WARM_UP)]
        told = subprocess.run(again, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        loaded.update(json.loads(told.stdout.splitlines()[-1]))
    for path in folder.rglob("*"):
        if path.name == ".lock" or (path.suffix == ".nbc" and str(path) not in loaded):
            path.unlink()
    for path in folder.rglob("*.nbi"):
        if not list(path.parent.glob(f"{path.stem}.*.nbc")):
            path.unlink()


def main() -> None:
    """Build the wheel; print what is in it."""
    parser = argparse.ArgumentParser(description="Build a wheel with prebuilt kernels")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the wheel goes")
    parser.add_argument("--best", action="store_true", help="for the best level only")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    with TemporaryDirectory() as folder:
        make_kernels(Path(folder), arguments.best)
        environment = {**os.environ, "DUALSWEEP_PREBUILT": folder}
        how = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
        build = [sys.executable, "-m", "pip", "wheel", *how, str(ROOT)]
        subprocess.run(build, env=environment, check=True)
    wheel = max(out.glob("dualsweep-*.whl"), key=lambda path: path.stat().st_mtime)
    with zipfile.ZipFile(wheel) as files:
        kernels = sum(name.endswith(".nbc") for name in files.namelist())
    print(f"{wheel}: {kernels} kernels, {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

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


# The code that other kernels would be linked with is three quarters of a kernel. It is kept for
# functions that kernels call, which may have to be compiled elsewhere, for other losses. Of the
# others, stubs with the names of their symbols are left, by which numba finds these.
STRIP = """
import pickle, pkgutil, sys
from importlib import import_module
from pathlib import Path
from zlib import crc32
import llvmlite.binding as llvm
import dualsweep
from dualsweep import _content

def stubs(bitcode):
    module = llvm.parse_bitcode(bitcode)
    lines = [f'target triple = "{module.triple}"', f'target datalayout = "{module.data_layout}"']
    for symbols, stub in (
        (module.functions, 'define void @"{}"() {{ ret void }}'),
        (module.global_variables, '@"{}" = global i8 0'),
    ):
        known = (symbol for symbol in symbols if not symbol.is_declaration)
        lines += [stub.format(symbol.name) for symbol in known if symbol.linkage.name != "private"]
    return llvm.parse_assembly("\\n".join(lines)).as_bitcode()

for module in pkgutil.walk_packages(dualsweep.__path__, "dualsweep."):
    if "__main__" not in module.name and ".distributed" not in module.name:
        import_module(module.name)
kernels = {}
for name, module in list(sys.modules.items()):
    if name.startswith("dualsweep."):
        kernels |= {
            (kernel.py_func.__module__, kernel.py_func.__qualname__): kernel.py_func
            for kernel in vars(module).values() if hasattr(kernel, "py_func")
        }
for kernel in kernels.values():
    _content.digest(kernel, {})
called = {used for _, uses in _content._known.values() for used in uses}
for path in Path(sys.argv[1]).rglob("*.nbc"):
    if kernels[path.parent.name, path.name.partition(".")[0]] not in called:
        stamp, key, ((name, kind, (code, bitcode)), *rest) = pickle.loads(path.read_bytes())
        kernel = (name, kind, (code, stubs(bitcode))), *rest
        data = pickle.dumps((stamp, key, kernel), protocol=-1)
        path.write_bytes(data + crc32(data).to_bytes(4, "big"))
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
    subprocess.run([sys.executable, "-c", STRIP, str(folder)], check=True)
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

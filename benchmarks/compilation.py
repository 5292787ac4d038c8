"""What is compiled when: CPU seconds and kernels of common first calls, in new processes.

Each call is made with an empty cache of kernels, and then all of them one after the other with a
cache that starts empty and is kept: what the second column still compiles is what a call needs
that none before it did.

    python benchmarks/compilation.py
    python benchmarks/compilation.py --warm-up     # the second column after dualsweep warm-up
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PREPARE = """
import numpy as np, scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, dump_svmlight_file
from sklearn.preprocessing import scale
X, y = load_breast_cancer(return_X_y=True)
np.savez("cancer.npz", X=scale(X), y=y)
X, y = load_digits(return_X_y=True)
np.savez("digits.npz", X=X / 16, y=y)
dump_svmlight_file(X / 16, y, "digits.svm", zero_based=False)
"""

LOAD = {
    "dense": 'import numpy as np; d = np.load("{}.npz"); X, y = d["X"], d["y"]',
    "csr": "; import scipy.sparse as sp; X = sp.csr_array(X)",
    "float32": "; X = X.astype(np.float32)",
}


def _fit(data: str, *kinds: str, call: str) -> str:
    load = LOAD["dense"].format(data) + "".join(LOAD[kind] for kind in kinds)
    return f"{load}; from dualsweep import *; {call}"


def _command(*words: str) -> str:
    return (
        f"import sys; sys.argv = ['dualsweep', *{list(words)!r}]; "
        "from dualsweep.__main__ import main; main()"
    )


CALLS = {
    "two classes, dense": _fit("cancer", call="LinearSVC().fit(X, y)"),
    "two classes, sparse": _fit("cancer", "csr", call="LinearSVC(loss='hinge').fit(X, y)"),
    "ten classes, sparse float32": _fit("digits", "csr", "float32", call="LinearSVC().fit(X, y)"),
    "Crammer-Singer, sparse": _fit(
        "digits", "csr", call="LinearSVC(C=0.01, multi_class='crammer_singer').fit(X, y)"
    ),
    "Weston-Watkins, dense": _fit(
        "digits", call="LinearSVC(C=0.01, multi_class='weston_watkins').fit(X, y)"
    ),
    "LinearSVCCV, dense": _fit("cancer", call="LinearSVCCV(Cs=3).fit(X, y)"),
    "dualsweep train, text": _command("train", "digits.svm", "-q", "--force", "-o", "m.npz"),
    "dualsweep predict, text": _command("predict", "m.npz", "digits.svm", "--json"),
    "dualsweep info, text": _command("info", "digits.svm"),
    "dualsweep compare, text": _command(
        "compare", "digits.svm", "--costs", "0.001,0.01", "--repeats", "2", "-q"
    ),
}

MEASURE = """
import time, sys, json, atexit
from numba.core import event
class Listener(event.Listener):
    depth = 0; seconds = 0.0
    def on_start(self, e):
        if self.depth == 0: self.since = time.process_time()
        self.depth += 1
    def on_end(self, e):
        self.depth -= 1
        if self.depth == 0: self.seconds += time.process_time() - self.since
listener = Listener()
event.register("numba:compile", listener)
import dualsweep._jit as jit
missed = []
jit.on_compilation.append(lambda *what: missed.append(what))
report = open(sys.argv[1], "w")
def tell():
    json.dump({"seconds": listener.seconds, "kernels": len(missed)}, report); report.close()
atexit.register(tell)
"""


def measure(call: str, folder: Path, cache: Path) -> tuple[float, int]:
    """Return CPU seconds of compilation, and kernels that were not in the cache."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEASURE + call, str(report)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode > 1 or not report.exists():
        raise SystemExit(f"{call}\n{done.stdout}\n{done.stderr}")
    found = json.loads(report.read_text())
    return found["seconds"], found["kernels"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--warm-up", action="store_true", help="Let the kept cache be filled.")
    parser.add_argument("--kept-only", action="store_true", help="No calls with an empty cache.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name), Path(name, "kept")
        subprocess.run([sys.executable, "-c", PREPARE], cwd=folder, check=True)
        if options.warm_up:
            seconds, kernels = measure(_command("warm-up"), folder, kept)
            print(f"dualsweep warm-up: {seconds:.1f} s, {kernels} kernels")
        print(f"{'call':30}  {'empty cache':>18}  {'kept cache':>18}")
        totals = [0.0, 0, 0.0, 0]
        for number, (what, call) in enumerate(CALLS.items()):
            later = measure(call, folder, kept)
            first = (0.0, 0)
            if not options.kept_only:
                first = measure(call, folder, Path(name, f"empty{number}"))
            totals = [sum(pair) for pair in zip(totals, (*first, *later), strict=True)]
            print(f"{what:30}  {_shown(*first)}  {_shown(*later)}", flush=True)
        print(f"{'all':30}  {_shown(*totals[:2])}  {_shown(*totals[2:])}")


def _shown(seconds: float, kernels: float) -> str:
    return f"{seconds:7.1f} s {kernels:4.0f} k."


if __name__ == "__main__":
    main()

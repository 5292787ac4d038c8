"""Time fits with two versions of the library in turns: is a change as fast as what was before?

    python benchmarks/before_after.py --before ../other-checkout --data a9a letter --C 0.1 1 10

Each version has a process of its own, which holds the data and fits when it is its turn. What is
compared is the processor time of a fit, of one thread, after one that was not timed; the ratio is
after / before, median over the repeats, with the smallest and the largest, and that of the best
times. `start` is the wall time of a fit in a fresh process, imports and all, with a filled cache of
kernels, `first fit` with an empty one.
"""

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from benchmark_utils.workers import Worker, take_turns

HERE = Path(__file__).resolve().parent
CELLS = {  # parameters of the fits
    "a9a": [{}, {"loss": "hinge"}],
    "imdb": [{}, {"loss": "hinge"}],
    "blogs": [{}, {"loss": "hinge"}],
    "covtype": [{}, {"loss": "hinge"}],
    "mnist": [{}, {"multi_class": "crammer_singer"}],
    "news20": [{}, {"multi_class": "crammer_singer"}],
    "letter": [{}, {"multi_class": "weston_watkins"}],
}

POSITIVE = {"blogs": 34, "covtype": 2}  # the class to tell from the rest

WORKER = """
import json, sys, warnings
from time import process_time
warnings.simplefilter("ignore")
sys.path.append(sys.argv[1])
from benchmark_utils import load_data
from dualsweep import LinearSVC
held = {}
for line in sys.stdin:
    name, params = json.loads(line)
    if name not in held:
        X, y = load_data(name)
        positive = json.loads(sys.argv[2]).get(name)
        held = {name: (X, y if positive is None else y == positive)}
    model = LinearSVC(random_state=0, **params)
    print("null", flush=True)  # see Worker
    started = process_time()
    model.fit(*held[name])
    seconds = process_time() - started
    print(json.dumps([seconds, model.primal_objective_, model.relative_gap_]), flush=True)
"""
START = """
import numpy as np
from dualsweep import LinearSVC
X = np.random.default_rng(0).normal(size=(100, 5))
LinearSVC().fit(X, X[:, 0] > 0)
"""


class Version:
    """A checkout of the library, and a process that fits with it."""

    def __init__(self, root: Path) -> None:
        # Python looks where it is started first.
        self.place = {"cwd": root, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
        command = [sys.executable, "-c", WORKER, str(HERE), json.dumps(POSITIVE)]
        self.worker = Worker(command, **self.place)

    def fit(self, name: str, params: dict) -> list[float]:
        return self.worker.ask([name, params])

    def start(self, cold: bool) -> float:
        """Return seconds of a process that fits once, with an empty cache of kernels if cold."""
        place = dict(self.place)
        with TemporaryDirectory() as folder:
            if cold:
                place["env"] = {**place["env"], "NUMBA_CACHE_DIR": folder}
            began = perf_counter()
            subprocess.run([sys.executable, "-c", START], check=True, **place)
            return perf_counter() - began


class Times(NamedTuple):
    """What both versions took, turn by turn."""

    before: Any
    after: Any

    @property
    def ratio(self) -> float:
        return float(np.median(self.after / self.before))

    def row(self, label: str) -> str:
        ratios = self.after / self.before
        return (
            f"{label:50} {self.after.min():8.3f} s  {self.ratio:6.3f}  "
            f"[{ratios.min():.3f} - {ratios.max():.3f}]  "
            f"best {self.after.min() / self.before.min():6.3f}"
        )


def time(version: Version, name: str, params: dict) -> float:
    """Return the processor time of a fit."""
    return version.fit(name, params)[0]


def compare(fits, repeats: int) -> Times:
    """Return what the version before and the one after took, in turns."""
    return Times(*np.array(take_turns(fits, repeats)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--data", nargs="*", choices=CELLS, default=list(CELLS))
    parser.add_argument("--C", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    before, after = Version(arguments.before.resolve()), Version(HERE.parent)
    ratios = []
    for name in arguments.data:
        for C in arguments.C:
            for params in CELLS[name]:
                params = {"C": C, **params}
                first, second = before.fit(name, params), after.fit(name, params)
                repeats = arguments.repeats if first[0] < 5 else 3
                fits = [partial(time, version, name, params) for version in (before, after)]
                times = compare(fits, repeats)
                ratios.append(times.ratio)
                same = "" if first[1:] == second[1:] else "  not bitwise the same"
                print(times.row(f"{name} {params}") + same, flush=True)
    if ratios:
        mean = np.exp(np.mean(np.log(ratios)))
        print(f"geometric mean {mean:.3f}, slowest {max(ratios):.3f}, of {len(ratios)} cells")
    for what in ("start", "first fit"):
        starts = [partial(version.start, cold=what == "first fit") for version in (before, after)]
        for start in starts:
            start()
        print(compare(starts, 2 * arguments.repeats).row(what), flush=True)


if __name__ == "__main__":
    main()

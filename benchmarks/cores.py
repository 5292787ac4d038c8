"""Time fits with 1, 2, 4 ... threads: what more cores are worth, at bitwise the same model.

DUALSWEEP_DATA=folder python benchmarks/cores.py --threads 1 16 --repeats 3

Times are appended to a CSV file; ``--repeats 0 --picture file`` draws what it holds.
"""

import argparse
import csv
import os
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np

from dualsweep import LinearSVC, LinearSVCCV, io

warnings.simplefilter("ignore")


def load_data(name):
    return io.load_data(Path(os.environ["DUALSWEEP_DATA"], f"{name}.npz"))


def dense(name):
    X, y = load_data(name)
    return np.ascontiguousarray(X.toarray(), dtype=np.float32), y


def one_class(name, positive):
    X, y = load_data(name)
    return X, y == positive


def mnist():
    return dense("mnist")


CELLS = {
    "covtype hinge C=1": (lambda: one_class("covtype", 2), LinearSVC, {"loss": "hinge"}),
    "covtype squared hinge C=1": (lambda: one_class("covtype", 2), LinearSVC, {}),
    "mnist dense squared hinge C=10": (mnist, LinearSVC, {"C": 10.0}),
    "mnist dense hinge C=10": (mnist, LinearSVC, {"C": 10.0, "loss": "hinge"}),
    "mnist dense Crammer-Singer C=1": (mnist, LinearSVC, {"multi_class": "crammer_singer"}),
    "mnist dense Weston-Watkins C=1": (mnist, LinearSVC, {"multi_class": "weston_watkins"}),
    "news20 search": (lambda: load_data("news20"), LinearSVCCV, {}),
    "imdb search": (lambda: load_data("imdb"), LinearSVCCV, {}),
}


def measure(name, threads, repeats):
    """Return seconds of each repeat, by number of threads, all of the same model, and its gap.

    A fit that is not counted compiles, and has the process ask for memory.
    """
    load, estimator, params = CELLS[name]
    X, y = load()
    times = {n: [] for n in threads}
    models = [estimator(random_state=0, n_jobs=max(threads), **params).fit(X, y)]
    for _ in range(repeats):
        for n in threads:
            started = perf_counter()
            model = estimator(random_state=0, n_jobs=n, **params).fit(X, y)
            times[n].append(perf_counter() - started)
            models.append(model)
    assert all(np.array_equal(models[0].coef_, model.coef_) for model in models)
    return times, models[0].relative_gap_


def draw(path, picture):
    """Draw the medians of what the file holds."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    times = {}
    with path.open() as file:
        for name, n, seconds in csv.reader(file):
            times.setdefault(name, {}).setdefault(int(n), []).append(float(seconds))
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, found in times.items():
        threads = sorted(found)
        axes.loglog(threads, [np.median(found[n]) for n in threads], "o-", base=2, label=name)
    axes.set(xlabel="threads", ylabel="seconds")
    ticks = sorted({n for found in times.values() for n in found})
    axes.set_xticks(ticks, map(str, ticks))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small")
    figure.savefig(picture, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "outputs" / "cores.csv")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for name in arguments.cells if arguments.repeats else ():
        times, gap = measure(name, arguments.threads, arguments.repeats)
        with arguments.out.open("a", newline="") as file:
            csv.writer(file).writerows((name, n, t) for n, all_t in times.items() for t in all_t)
        first = np.median(times[arguments.threads[0]])
        print(
            f"{name:35} gap {gap:.1e}",
            *(f"{n}: {np.median(t):.2f} s (x{first / np.median(t):.1f})" for n, t in times.items()),
            flush=True,
        )
    if arguments.picture is not None:
        draw(arguments.out, arguments.picture)


if __name__ == "__main__":
    main()

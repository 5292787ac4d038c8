"""Time fits with 1, 2, 4 ... threads: what more cores are worth, at bitwise the same model.

DUALSWEEP_DATA=folder python benchmarks/cores.py --threads 1 16 --repeats 3
"""

import argparse
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


CELLS = {
    "covtype hinge C=1": (lambda: one_class("covtype", 2), LinearSVC, {"loss": "hinge"}),
    "covtype squared hinge C=1": (lambda: one_class("covtype", 2), LinearSVC, {}),
    "mnist dense squared hinge C=10": (lambda: dense("mnist"), LinearSVC, {"C": 10.0}),
    "mnist dense hinge C=10": (lambda: dense("mnist"), LinearSVC, {"C": 10.0, "loss": "hinge"}),
    "mnist dense Crammer-Singer C=1": (
        lambda: dense("mnist"),
        LinearSVC,
        {"multi_class": "crammer_singer"},
    ),
    "mnist dense Weston-Watkins C=1": (
        lambda: dense("mnist"),
        LinearSVC,
        {"multi_class": "weston_watkins"},
    ),
    "news20 search": (lambda: load_data("news20"), LinearSVCCV, {}),
    "imdb search": (lambda: load_data("imdb"), LinearSVCCV, {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for name in arguments.cells:
        load, estimator, params = CELLS[name]
        X, y = load()
        few = np.random.default_rng(0).permutation(len(y))[:3000]
        estimator(**params, max_iter=3, n_jobs=max(arguments.threads)).fit(X[few], y[few])
        times: dict[int, list[float]] = {n: [] for n in arguments.threads}
        models = []
        for _ in range(arguments.repeats):
            for n in arguments.threads:
                started = perf_counter()
                model = estimator(random_state=0, n_jobs=n, **params).fit(X, y)
                times[n].append(perf_counter() - started)
                models.append(model)
        assert all(np.array_equal(models[0].coef_, model.coef_) for model in models)
        first = np.median(times[arguments.threads[0]])
        print(
            f"{name:35} gap {models[0].relative_gap_:.1e}",
            *(f"{n}: {np.median(t):.2f} s (x{first / np.median(t):.1f})" for n, t in times.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Time fits of small data against scikit-learn's `LinearSVC`, at equal primal suboptimality.

Each contender fits with the loosest tolerance that brings it to 1e-3 above the optimum. They take
turns. The ratio compares with the faster of scikit-learn's dual and primal solvers. Searches try
ten values of C in five folds.
"""

import argparse
import itertools
import sys
import warnings
from collections.abc import Callable
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np
from sklearn import datasets, svm
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

from dualsweep import LinearSVC, LinearSVCCV

LADDER = [2.0**-k for k in range(30)]  # of tolerances
TARGET = 1e-3
LOSSES, CS = ("hinge", "squared_hinge"), (0.1, 1.0, 10.0)


def data() -> dict[str, tuple[Any, Any]]:
    """Return the data sets by name, scaled as people scale them."""
    bundled = {
        "iris": datasets.load_iris,
        "wine": datasets.load_wine,
        "breast cancer": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
    }
    sets = {name: load(return_X_y=True) for name, load in bundled.items()}
    for n, d in ((1000, 20), (5000, 50)):
        sets[f"{n:,} x {d}"] = datasets.make_classification(n, d, random_state=0)
    return {name: (scale(X), y) for name, (X, y) in sets.items()}


def objective(model: Any, X: Any, y: Any, loss: str, C: float) -> float:
    """Return the sum of the objectives of all classes."""
    scores = model.decision_function(X).reshape(len(y), -1)
    positives = model.classes_[1:] if scores.shape[1] == 1 else model.classes_
    signs = np.where(y[:, None] == positives, 1.0, -1.0)
    lost = np.maximum(0.0, 1.0 - signs * scores)
    size = (model.coef_**2).sum() + (model.intercept_**2).sum()
    return 0.5 * size + C * (lost if loss == "hinge" else lost**2).sum()


def contenders(loss: str, C: float) -> dict[str, Callable[[float], Any]]:
    """Return what makes each contender's estimator for a tolerance."""
    made: dict[str, Callable[[float], Any]] = {
        "dualsweep": lambda tol: LinearSVC(C=C, loss=loss, tol=tol, random_state=0),
        "dual": lambda tol: svm.LinearSVC(
            C=C, loss=loss, tol=tol, dual=True, max_iter=100_000, random_state=0
        ),
    }
    if loss == "squared_hinge":
        made["primal"] = lambda tol: svm.LinearSVC(C=C, loss=loss, tol=tol, dual=False)
    return made


def seconds(run: Callable[[], Any]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def compare(X: Any, y: Any, loss: str, C: float, repeats: int) -> tuple[dict[str, float], Any]:
    """Return the median seconds of each contender, and the ratios of the peers' best to ours."""
    optimum = objective(LinearSVC(C=C, loss=loss, tol=1e-9).fit(X, y), X, y, loss, C)
    ready = {}
    for name, make in contenders(loss, C).items():
        for tol in LADDER:
            model = make(tol).fit(X, y)
            if objective(model, X, y, loss, C) <= (1.0 + TARGET) * optimum:
                ready[name] = model
                break
    times: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(repeats):
        for name, model in ready.items():
            times[name].append(seconds(lambda model=model: model.fit(X, y)))
    peers = [name for name in ready if name != "dualsweep"]
    best = np.min([times[name] for name in peers], axis=0)
    return {name: median(found) for name, found in times.items()}, best / times["dualsweep"]


def searches(X: Any, y: Any, repeats: int) -> dict[str, float]:
    """Return the median seconds of searches over ten values of C in five folds."""
    grid = {"C": np.geomspace(1e-2, 10.0, 10)}
    ready = {
        "scikit-learn": GridSearchCV(svm.LinearSVC(random_state=0), grid, cv=5),
        "dualsweep": GridSearchCV(LinearSVC(random_state=0), grid, cv=5),
        "LinearSVCCV": LinearSVCCV(Cs=grid["C"], cv=5, random_state=0),
    }
    times: dict[str, list[float]] = {name: [] for name in ready}
    for _turn in range(repeats + 1):
        for name, model in ready.items():
            times[name].append(seconds(lambda model=model: model.fit(X, y)))
    return {name: median(found[1:]) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--data", nargs="+", default=list(data()))
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    sets = {name: data()[name] for name in args.data}

    ratios = []
    print("| data | loss | C | dualsweep | scikit-learn, dual | primal | ratio |")
    print("|---|---|---|---|---|---|---|")
    for (name, (X, y)), loss, C in itertools.product(sets.items(), LOSSES, CS):
        times, ratio = compare(X, y, loss, C, args.repeats)
        ratios.append(median(ratio))
        low, high = np.quantile(ratio, [0.1, 0.9])
        shown = [f"{1e3 * times[c]:.2f} ms" if c in times else "" for c in ("dual", "primal")]
        cells = [name, loss, f"{C:g}", f"{1e3 * times['dualsweep']:.2f} ms", *shown]
        print("|", " | ".join(cells), f"| {ratios[-1]:.2f} ({low:.2f} to {high:.2f}) |", flush=True)
    slower = sum(ratio < 1.0 for ratio in ratios)
    print(
        f"\nGeometric mean {geometric_mean(ratios):.2f}, worst {min(ratios):.2f}, slower in "
        f"{slower} of {len(ratios)}.\n"
    )
    print("| ten values of C, five folds | GridSearchCV: scikit-learn | dualsweep | LinearSVCCV |")
    print("|---|---|---|---|")
    for name in ("iris", "breast cancer"):
        if name in sets:
            times = searches(*sets[name], max(args.repeats // 4, 3))
            print(f"| {name} |", " | ".join(f"{1e3 * t:.0f} ms" for t in times.values()), "|")


if __name__ == "__main__":
    sys.exit(main())

"""Measure test accuracies of the multi-class formulations as Keerthi et al. 2008 do in section 4.

Training and test files are put together and split at random, class by class: 60 % to train on, 20 %
to choose C by, and 20 % to test on a model that was then trained on all the rest. Hinge loss, no
intercept. Results are one CSV row per split and formulation; what the file already holds is not
measured again.
"""

import argparse
import itertools
import os
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from benchmark_utils import load_data
from ratios import HERE, append, holds, load, markdown, publish
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from dualsweep import LinearSVC

FORMULATIONS = ("ovr", "crammer_singer", "weston_watkins")
COLUMNS = ["data", "formulation", "split", "C", "accuracy", "gap"]

# Table 4.2 of the paper: means and standard deviations in percent.
PAPER = {
    "news20": ("85.39 ± 0.37", "85.26 ± 0.37", "85.10 ± 0.43"),
    "sector": ("94.83 ± 0.56", "95.17 ± 0.62", "94.37 ± 0.57"),
    "mnist": ("91.46 ± 0.23", "92.50 ± 0.20", "91.84 ± 0.21"),
    "covtype": ("71.35 ± 0.33", "72.31 ± 0.37", "72.40 ± 0.25"),
}


@lru_cache(maxsize=1)
def load_all(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return the data of the training file, and of the test file if there is one."""
    X, y = load_data(name)
    if not (Path(os.environ["DUALSWEEP_DATA"]) / f"{name}.t.npz").exists():
        return X, y
    X_test, y_test = load_data(f"{name}.t")
    return sp.vstack([X, X_test], format="csr"), np.concatenate([y, y_test])


def tuned_accuracy(
    X: Any, y: Any, formulation: str, split: int, Cs: Sequence[float], tol: float, cap: float
) -> dict[str, float]:
    """Return the C that the validation set prefers, and what the test set says of its model."""
    rest, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=split)
    train, validation = train_test_split(rest, test_size=0.25, stratify=y[rest], random_state=split)
    model = LinearSVC(
        loss="hinge",
        multi_class=formulation,
        fit_intercept=False,
        tol=tol,
        max_time=cap,
        warm_start=True,  # each C starts from the one below
        random_state=0,
    )
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap is reported
        for C in sorted(Cs):
            model.set_params(C=C).fit(X[train], y[train])
            scores[C] = model.score(X[validation], y[validation])
        best = max(scores, key=scores.__getitem__)
        model.set_params(C=best, warm_start=False).fit(X[rest], y[rest])
    accuracy = 100.0 * model.score(X[test], y[test])
    return {"C": best, "accuracy": accuracy, "gap": model.relative_gap_}


def report(frame: pd.DataFrame) -> str:
    rows = []
    for (name, formulation), runs in frame.groupby(["data", "formulation"], sort=False):
        known = dict(zip(FORMULATIONS, PAPER.get(name, ()), strict=False))
        rows.append(
            {
                "data": name,
                "formulation": formulation,
                "ours": f"{runs['accuracy'].mean():.2f} ± {runs['accuracy'].std():.2f}",
                "paper": known.get(formulation, "-"),
                "splits": len(runs),
                "median C": runs["C"].median(),
                "largest gap": runs["gap"].max(),
            }
        )
    return (
        "Test accuracies in percent, mean and standard deviation over the splits, beside Table 4.2 "
        f"of Keerthi et al. 2008.\n\n{markdown(pd.DataFrame(rows))}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["dna", "satimage", "letter"])
    parser.add_argument(
        "--C", nargs="+", type=float, default=[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--tol", type=float, default=1e-2, help="relative duality gap")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds after which a fit ends")
    parser.add_argument("--out", type=Path, default=HERE / "outputs" / "accuracy.csv")
    parser.add_argument("--table", type=Path, help="also write the table to this file")
    args = parser.parse_args(argv)

    for name, split, formulation in itertools.product(args.data, range(args.splits), FORMULATIONS):
        run = {"data": name, "formulation": formulation, "split": split}
        if holds(load(args.out, COLUMNS), run):
            continue
        X, y = load_all(name)
        run |= tuned_accuracy(X, y, formulation, split, args.C, args.tol, args.cap)
        print(*run.values(), flush=True)
        append(pd.DataFrame([run])[COLUMNS], args.out)
    frame = load(args.out, COLUMNS)
    publish(report(frame[frame["data"].isin(args.data)]), args.table)


if __name__ == "__main__":
    main()

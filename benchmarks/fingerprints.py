"""Digests of models: does a change leave every fit bitwise what it was?

    python benchmarks/fingerprints.py --save before.json      # with the old code
    python benchmarks/fingerprints.py --compare before.json   # with the new code

Digests are those of one machine: another processor rounds differently.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.preprocessing import scale

from dualsweep import LinearSVC, LinearSVCCV, compare_multiclass, svc_path
from dualsweep.datasets import make_text_like
from dualsweep.io import write_store

SCHEDULES = ("auto", "adaptive", "shrinking", "alternating", "permuted", "cyclic", "online")
FORMULATIONS = ("ovr", "crammer_singer", "weston_watkins")
LOSSES = ("hinge", "squared_hinge", "squared")


def digest(*arrays: Any) -> str:
    """Return a short digest of the bits of some arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def of_model(model: Any) -> str:
    """Return the digest of what a training made."""
    history = model.history_[["problem", "epoch", "primal", "gap", "active"]].tolist()
    duals = model.dual_coef_
    return digest(
        model.coef_,
        model.intercept_,
        *(duals.data, duals.indices, duals.indptr),
        np.array([model.primal_objective_, model.dual_gap_, model.relative_gap_, model.n_iter_]),
        np.array(history, dtype=np.float64),
    )


def fits() -> Iterator[tuple[str, Any]]:
    """Yield names of fits, and functions that do them."""
    text, labels = make_text_like(6000, 3000, random_state=0)
    many, classes = make_text_like(3000, 2000, n_classes=12, random_state=1)
    long, long_labels = make_text_like(45_000, 5000, random_state=2)
    cancer, sick = load_breast_cancer(return_X_y=True)
    cancer = scale(cancer)
    digits, digit = load_digits(return_X_y=True)
    digits = digits / 16
    rows, groups = make_classification(25_000, 20, n_informative=8, flip_y=0.1, random_state=0)
    weight = np.random.default_rng(0).integers(0, 4, len(labels)).astype(float)

    def fit(X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Any:
        return lambda: of_model(
            LinearSVC(**{"random_state": 0, "max_iter": 300, **params}).fit(X, y, sample_weight)
        )

    for loss, C in itertools.product(LOSSES, (0.1, 10.0)):
        yield f"text {loss} C={C}", fit(text, labels, loss=loss, C=C)
    for schedule in SCHEDULES:
        yield f"text {schedule}", fit(text, labels, loss="hinge", schedule=schedule)
        yield (
            f"many Crammer-Singer {schedule}",
            fit(many, classes, multi_class="crammer_singer", schedule=schedule),
        )
    for name, solver in itertools.product(FORMULATIONS, ("auto", "sweep", "newton")):
        yield f"digits {name} {solver}", fit(digits, digit, multi_class=name, solver=solver)
    for name in FORMULATIONS:
        yield f"many {name}", fit(many, classes, multi_class=name, tol=1e-5)
        yield f"many {name} float64 CSR", fit(many.astype(float), classes, multi_class=name)
        yield f"digits {name} CSR", fit(sp.csr_array(digits), digit, multi_class=name, C=0.1)
        yield f"cancer {name}", fit(cancer, sick, multi_class=name, loss="hinge", tol=1e-6)
    yield "text float64", fit(text.astype(float), labels, tol=1e-8)
    yield (
        "text int64",
        fit(
            sp.csr_array(
                (text.data, text.indices.astype(np.int64), text.indptr.astype(np.int64)),
                shape=text.shape,
            ),
            labels,
        ),
    )
    yield "text dense", fit(text.toarray(), labels, C=0.3)
    yield "text weights", fit(text, labels, weight, loss="hinge", class_weight="balanced")
    yield "text no intercept", fit(text, labels, fit_intercept=False, loss="hinge")
    yield "text intercept scaling", fit(text, labels, intercept_scaling=7.0)
    yield "text momentum", fit(text, labels, loss="hinge", C=1000.0, tol=1e-4, solver="sweep")
    yield "cancer hinge newton", fit(cancer, sick, loss="hinge", solver="newton", C=100.0, tol=1e-8)
    yield "cancer sweeps that end early", fit(cancer, sick, solver="sweep", C=1e4, max_iter=7)
    yield "long hinge", fit(long, long_labels, loss="hinge")
    yield "long squared hinge", fit(long, long_labels, C=0.1)
    for loss in LOSSES:
        yield f"25,000 x 20 {loss}", fit(rows, groups, loss=loss, tol=1e-6)
        yield f"25,000 x 20 {loss} n_jobs=2", fit(rows, groups, loss=loss, tol=1e-6, n_jobs=2)

    def warm() -> str:
        model = LinearSVC(loss="hinge", random_state=0, warm_start=True).fit(text, labels)
        return of_model(model.set_params(C=2.0, tol=1e-6).fit(text, labels))

    def path(X: Any, y: Any, **params: Any) -> Any:
        return lambda: digest(
            *(
                array
                for model in svc_path(X, y, [0.03, 0.3, 3.0], random_state=0, **params).models
                for array in (model.coef_, model.intercept_, model.dual_coef_.data)
            )
        )

    def search(X: Any, y: Any, **params: Any) -> Any:
        def run() -> str:
            model = LinearSVCCV(cv=3, random_state=0, **params).fit(X, y)
            return digest(model.scores_, model.Cs_, model.coef_, model.search_gap_)

        return run

    def blocks(X: Any, y: Any, **params: Any) -> Any:
        def run() -> str:
            with tempfile.TemporaryDirectory() as folder:
                store = write_store(Path(folder, "store"), X, y, block_bytes=200_000)
                return of_model(
                    LinearSVC(memory_limit=1_500_000, random_state=0, **params).fit(store)
                )

        return run

    def compared() -> str:
        result = compare_multiclass(digits, digit, Cs=[0.01, 0.1], n_repeats=2, random_state=0)
        return digest(result.accuracy, result.C, result.relative_gap)

    yield "warm start", warm
    yield "path binary", path(text, labels, loss="hinge")
    yield "path ovr", path(digits, digit)
    yield "path Crammer-Singer", path(many, classes, multi_class="crammer_singer")
    yield "path Weston-Watkins", path(many, classes, multi_class="weston_watkins")
    yield "search binary", search(text, labels)
    yield "search binary n_jobs=2", search(text, labels, n_jobs=2)
    yield "search ovr", search(many, classes, patience=1)
    yield "search Crammer-Singer", search(many, classes, multi_class="crammer_singer", patience=1)
    yield "compare", compared
    yield "blocks hinge", blocks(text, labels, loss="hinge")
    yield "blocks ovr", blocks(many, classes, tol=1e-2)


def main() -> None:
    """Save or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {name: run() for name, run in fits()}
    if args.save:
        args.save.write_text(json.dumps(found, indent=1))
    if args.compare:
        before = json.loads(args.compare.read_text())
        for name in found:
            if found[name] != before.get(name):
                print(f"differs: {name}")
        same = sum(found[name] == before.get(name) for name in found)
        print(f"{same} of {len(found)} fits are bitwise the same")


if __name__ == "__main__":
    main()

"""More than 32 bits can count: entries on disk, and columns in memory.

    python benchmarks/sizes.py entries FOLDER    # 2.2 billion of them, 17 GB in FOLDER
    python benchmarks/sizes.py columns           # 2^31 + 7 of them, 17 GB of weights

Each ends with the certificate, recomputed in NumPy.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dualsweep import LinearSVC

PER_ROW, FEATURES, ROWS = 100, 1000, 22_000_000
PART = 100_000  # rows to compute with at a time


def write(folder: Path) -> None:
    """Write rows of random entries, and labels that a part of the features tell."""
    n = ROWS * PER_ROW
    folder.mkdir(exist_ok=True)
    data = np.lib.format.open_memmap(folder / "data.npy", "w+", np.float32, (n,))
    indices = np.lib.format.open_memmap(folder / "indices.npy", "w+", np.int32, (n,))
    y = np.empty(ROWS, np.int64)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=FEATURES).astype(np.float32)
    step = FEATURES // PER_ROW
    for start in range(0, ROWS, PART):
        values = rng.standard_normal((PART, PER_ROW), np.float32) / 10
        columns = step * np.arange(PER_ROW) + rng.integers(0, step, (PART, PER_ROW))
        part = slice(start * PER_ROW, (start + PART) * PER_ROW)
        data[part], indices[part] = values.ravel(), columns.ravel()
        scores = (values * weights[columns]).sum(axis=1) + rng.normal(size=PART)
        y[start : start + PART] = scores > 0
    np.save(folder / "y.npy", y)


def entries(folder: Path) -> None:
    """Train on more than 2^31 entries, mapped into memory."""
    if not (folder / "y.npy").exists():
        write(folder)
    X = sp.csr_array((ROWS, FEATURES), dtype=np.float32)
    X.data = np.load(folder / "data.npy", mmap_mode="r")
    X.indices = np.load(folder / "indices.npy", mmap_mode="r")
    X.indptr = np.arange(0, ROWS * PER_ROW + 1, PER_ROW)
    y = np.load(folder / "y.npy")
    started = time.perf_counter()
    model = LinearSVC(C=0.01, tol=1e-3, solver="sweep", random_state=0).fit(X, y)
    seconds = time.perf_counter() - started
    w, b, losses = model.coef_[0], model.intercept_[0], 0.0
    sign = np.where(y == 1, 1.0, -1.0)
    alpha = model.dual_coef_.toarray()[0] * sign
    exact = np.zeros(FEATURES)
    for start in range(0, ROWS, PART):
        rows = slice(start, start + PART)
        part = slice(start * PER_ROW, (start + PART) * PER_ROW)
        values = X.data[part].astype(np.float64).reshape(PART, PER_ROW)
        columns = X.indices[part].reshape(PART, PER_ROW)
        margins = sign[rows] * ((values * w[columns]).sum(axis=1) + b)
        losses += (np.maximum(1 - margins, 0) ** 2).sum()
        step = (values * (alpha * sign)[rows, None]).ravel()
        exact += np.bincount(columns.ravel(), step, minlength=FEATURES)
    size = (w @ w + b * b) / 2
    primal = size + model.C * losses
    dual = alpha.sum() - size - (alpha @ alpha) / (4 * model.C)
    print(f"{len(X.data):,} entries, {seconds:.0f} s, {model.n_iter_} epochs")
    print(f"relative gap {model.relative_gap_:.3e}, in NumPy {(primal - dual) / primal:.3e}")
    print(f"largest difference of weights {np.abs(exact - w).max():.1e}")


def columns() -> None:
    """Train on more than 2^31 columns."""
    d, n, per_row = 2**31 + 7, 2000, 50
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, d // 2, (n, per_row)), axis=1)
    y = rng.integers(0, 2, n)
    indices[:, -1] = d - 1 - y  # the last columns tell the class
    X = sp.csr_array(
        (np.full(n * per_row, 0.1), indices.ravel(), np.arange(0, n * per_row + 1, per_row)),
        shape=(n, d),
    )
    started = time.perf_counter()
    model = LinearSVC(tol=1e-5, loss="hinge", random_state=0).fit(X, y)
    seconds = time.perf_counter() - started
    w, sign = model.coef_[0], np.where(y == 1, 1.0, -1.0)
    margins = sign * ((X.data * w[X.indices]).reshape(n, per_row).sum(axis=1) + model.intercept_[0])
    alpha = model.dual_coef_.toarray()[0] * sign
    size = sum(part @ part for part in np.array_split(w, 64)) / 2 + model.intercept_[0] ** 2 / 2
    primal, dual = size + np.maximum(1 - margins, 0).sum(), alpha.sum() - size
    print(
        f"{d:,} columns, {seconds:.0f} s, {model.n_iter_} epochs, accuracy {(margins > 0).mean()}"
    )
    print(f"relative gap {model.relative_gap_:.3e}, in NumPy {(primal - dual) / primal:.3e}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["entries"] and len(sys.argv) == 3:
        entries(Path(sys.argv[2]))
    elif sys.argv[1:] == ["columns"]:
        columns()
    else:
        raise SystemExit(__doc__)

"""Why sweeps in a fixed order can be a thousand times slower: 3,000 rows of a9a, squared hinge.

At the optimum some rows are free, and a sweep over them is one of Gauss-Seidel with their matrix
Q = (y_i y_j x_i.x_j) + 1 / (2 C): it multiplies the error of alpha by a matrix that depends on the
order. `sweeps_needed` counts, `spectrum` looks at that matrix.
"""

import warnings

import numpy as np
import pandas as pd
from benchmark_utils import load_data
from scipy.linalg import lu_factor, lu_solve, solve_triangular

from dualsweep import LinearSVC

ROWS, C = 3000, 0.5
NEIGHBOURS = 40  # rows in succession, to tell a wave along the order from noise


def load() -> tuple[object, np.ndarray]:
    X, y = load_data("a9a")
    return X[:ROWS], y[:ROWS].astype(np.float64)


def sweeps_needed() -> pd.DataFrame:
    """Return how many sweeps it takes to prove a relative gap of 1e-9, in five orders."""
    X, y = load()
    as_it_is = np.arange(ROWS)
    rows = []
    for name, schedule, order in (
        ("a new permutation each sweep", "permuted", as_it_is),
        ("drawn with replacement", "online", as_it_is),
        ("that of the file", "cyclic", as_it_is),
        ("one permutation for all sweeps", "cyclic", np.random.default_rng(0).permutation(ROWS)),
        ("sorted by class", "cyclic", np.argsort(y, kind="stable")),
    ):
        model = fit(X[order], y[order], schedule)
        rows.append({"order": name, "sweeps": model.n_iter_, "relative gap": model.relative_gap_})
    return pd.DataFrame(rows)


def fit(X, y, schedule: str) -> LinearSVC:
    model = LinearSVC(
        C=C,
        fit_intercept=False,
        solver="sweep",
        schedule=schedule,
        tol=1e-9,
        max_iter=10_000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the gap says it
        return model.fit(X, y)


def spectrum() -> pd.DataFrame:
    """Return facts about Q and about sweeps with it, in the file's order and in random ones."""
    X, y = load()
    free = 1.0 - y * (X @ fit(X, y, "permuted").coef_.ravel()) > 0.0
    Z = X[free].multiply(y[free][:, None]).toarray().astype(np.float64)
    Q = Z @ Z.T + 0.5 / C * np.eye(len(Z))
    values, vectors = np.linalg.eigh(Q)
    slowest, wave = slowest_mode(Q)
    shares = np.abs(vectors.T @ wave) ** 2
    smooth = sum(smooth_part(wave[y[free] == label]) for label in (-1.0, 1.0))
    facts = {
        "free rows": f"{len(Q)}",
        "eigenvalues of Q, from, to": f"{values[0]:.3g}, {values[-1]:.5g}",
        "diagonal of Q, from, to": f"{Q.diagonal().min():g}, {Q.diagonal().max():g}",
        "slowest eigenvalue of a sweep in the file's order": f"{slowest:.7f}".replace("j", "i"),
        "its modulus, below 1 by": f"{1.0 - abs(slowest):.2g}",
        "sweeps for a digit": f"{-np.log(10.0) / np.log(abs(slowest)):.2g}",
        "sweeps for the wave to go around once": f"{2.0 * np.pi / abs(np.angle(slowest)):.3g}",
        "part of it in eigenvectors of Q below 2": f"{shares[values < 2.0].sum():.1%}",
        f"part of it in means over {NEIGHBOURS} rows of a class": f"{smooth:.0%}",
        "factor of the error, of a sweep in random order": f"{permuted_rate(Q):.3f}",
    }
    return pd.DataFrame({"what": facts.keys(), "value": facts.values()})


def gauss_seidel(Q: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return what one sweep over free rows, in this order, makes of the error."""
    return -solve_triangular(np.tril(Q), np.triu(Q, 1) @ error, lower=True)


def slowest_mode(Q: np.ndarray) -> tuple[complex, np.ndarray]:
    """Return the largest eigenvalue of a sweep in fixed order, and its vector, of length 1."""
    sweep = gauss_seidel(Q, np.eye(len(Q)))
    values = np.linalg.eigvals(sweep)
    value = complex(values[np.abs(values).argmax()])
    factors = lu_factor(sweep - value * (1.0 + 1e-9) * np.eye(len(Q)))  # inverse iteration
    vector = np.random.default_rng(0).normal(size=len(Q)).astype(complex)
    for _ in range(3):
        vector = lu_solve(factors, vector)
        vector /= np.linalg.norm(vector)
    return value, vector


def smooth_part(wave: np.ndarray) -> float:
    """Return how much of the squared length is left of means over neighbours."""
    blocks = np.array_split(wave, max(1, len(wave) // NEIGHBOURS))
    return float(sum(len(block) * abs(block.mean()) ** 2 for block in blocks))


def permuted_rate(Q: np.ndarray, sweeps: int = 60, unsettled: int = 10) -> float:
    """Return by what a sweep in random order multiplies the error, in the norm of Q."""
    rng, logs = np.random.default_rng(0), []
    error = rng.normal(size=len(Q))
    for _ in range(sweeps):
        order = rng.permutation(len(Q))
        error[order] = gauss_seidel(Q[np.ix_(order, order)], error[order])
        length = np.sqrt(error @ Q @ error)
        logs.append(np.log(length))
        error /= length
    return float(np.exp(np.mean(logs[unsettled:])))

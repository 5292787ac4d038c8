"""Train on a GPU: linear probes on embeddings, mnist and text, with certificates and peak memory.

    DUALSWEEP_DATA=folder python benchmarks/gpu.py --out gpu.csv

Each fit starts with X and y on the device, and its time ends when a certified model is there. It is
compared with torch's L-BFGS on the same objective, stopped when that is no larger than ours, and
with the library on the CPU's cores. Cells are NAMES such as ``embeddings-ovr-hinge-1`` (data,
formulation, loss, C); ``--cells`` takes regular expressions. Results are printed and written to a
CSV file as they come; a cell that fails leaves a line that says so.
"""

import argparse
import csv
import gc
import logging
import os
import re
import traceback
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np

from dualsweep import LinearSVC, LogisticRegression, io

FIELDS = (
    "cell", "who", "seconds", "primal", "dual", "relative_gap", "converged", "n_iter",
    "accuracy", "peak_gb", "note",
)  # fmt: skip

DIRECT = ("crammer_singer", "weston_watkins")

MULTINOMIAL = {"multi_class": "multinomial", "intercept": "penalized"}

# Embeddings whose standard deviation along the j-th direction is ``(1 + j)**-power``.
SPECTRA = {"embeddings": 0.5, "flat": 0.0, "steep": 1.0}


def all_cells():
    """Yield the name of each cell, its data, tolerance and parameters."""
    for C in (0.1, 1.0, 10.0):
        for loss in ("squared_hinge", "hinge"):
            yield f"embeddings-ovr-{loss}-{C:g}", "embeddings", 1e-3, {"loss": loss, "C": C}
        for multi_class in DIRECT:
            params = {"multi_class": multi_class, "C": C}
            yield f"embeddings-{multi_class}-{C:g}", "embeddings", 1e-3, params
        for data in SPECTRA:
            params = {**MULTINOMIAL, "C": C}
            yield f"{data}-multinomial-{C:g}", data, 1e-3, params
    for C in (0.1, 1.0, 10.0):
        for loss in ("squared_hinge", "hinge", "squared"):
            yield f"mnist-ovr-{loss}-{C:g}", "mnist", 1e-6, {"loss": loss, "C": C}
        for multi_class in DIRECT:
            params = {"multi_class": multi_class, "C": C}
            yield f"mnist-{multi_class}-{C:g}", "mnist", 1e-6, params
    for data in ("blogs", "imdb"):
        for C in (0.1, 1.0, 10.0, 100.0):
            yield f"{data}-squared_hinge-{C:g}", data, 1e-6, {"loss": "squared_hinge", "C": C}
        for C in (0.1, 1.0, 10.0):
            yield f"{data}-hinge-{C:g}", data, 1e-3, {"loss": "hinge", "C": C}
    for loss in ("squared_hinge", "hinge"):
        yield f"blogs39-ovr-{loss}-1", "blogs39", 1e-3, {"loss": loss, "C": 1.0}


class Library:
    """Arrays of torch or CuPy on the device."""

    def __init__(self, name, device):
        self.name, self.device = name, device
        if name == "torch":
            import torch

            self.torch = torch
        else:
            import cupy

            self.cupy = cupy

    def array(self, values):
        if self.name == "torch":
            return self.torch.asarray(values, device=self.device)
        return self.cupy.asarray(values)

    def csr(self, X):
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(X)

    def synchronize(self):
        if self.name == "cupy":
            self.cupy.cuda.Device().synchronize()
        elif self.device != "cpu":
            self.torch.cuda.synchronize()

    def clear(self):
        gc.collect()
        if self.name == "cupy":
            self.cupy.get_default_memory_pool().free_all_blocks()
        elif self.device != "cpu":
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats()

    def peak(self):
        """Return the most bytes that were taken since `clear`; of CuPy, those of its pool."""
        if self.name == "cupy":
            return self.cupy.get_default_memory_pool().total_bytes()
        return 0 if self.device == "cpu" else self.torch.cuda.max_memory_allocated()


def embeddings(library, n, d, k, n_test, signal, noise, power, seed=0):
    """Return rows of unit length, and labels, to train and to test on, made on the device.

    A class is a Gaussian; all have the same covariance, of a spectrum that falls as ``j**-power``,
    and means of that covariance too, `signal` times as long. A part of the labels is `noise`.
    """
    import torch

    generator = torch.Generator(device=library.device).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=library.device)

    spectrum = (1.0 + torch.arange(d, device=library.device)) ** -power
    means = signal * normal(k, d)
    X = torch.empty((n + n_test, d), device=library.device)
    y = torch.randint(k, (n + n_test,), generator=generator, device=library.device)
    for start in range(0, n + n_test, 100_000):
        part = slice(start, min(start + 100_000, n + n_test))
        rows = (means[y[part]] + normal(part.stop - start, d)) * spectrum
        X[part] = rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    wrong = torch.rand(n + n_test, generator=generator, device=library.device) < noise
    other = torch.randint(k, (n + n_test,), generator=generator, device=library.device)
    y = torch.where(wrong, other, y)
    if library.name == "cupy":
        X, y = library.cupy.from_dlpack(X), library.cupy.from_dlpack(y)
    return X[:n], y[:n], X[n:], y[n:]


class EnoughError(Exception):
    """Ends an optimisation."""


class Data:
    """Data sets, each made or read once, the latest kept."""

    def __init__(self, library, arguments):
        self.library, self.arguments = library, arguments
        self.name = self.arrays = None

    def get(self, name):
        if name != self.name:
            self.name = self.arrays = None
            self.library.clear()
            self.arrays = self._make(name)
            self.name = name
        return self.arrays

    def _make(self, name):
        library, arguments = self.library, self.arguments
        if name in SPECTRA:
            sizes = arguments.rows, arguments.columns, arguments.classes, arguments.test_rows
            how = arguments.signal, arguments.noise, SPECTRA[name]
            return embeddings(library, *sizes, *how)
        X, y = read(name)
        if name == "mnist":
            X = library.array(np.ascontiguousarray(X.toarray(), np.float32))
        else:
            if library.name != "cupy":
                raise RuntimeError("CSR matrices need --library cupy")
            X = library.csr(X)
        return X, library.array(y), None, None


def read(name):
    X, y = io.load_data(Path(os.environ["DUALSWEEP_DATA"], f"{name.removesuffix('39')}.npz"))
    if name == "blogs":
        y = (y == 34).astype(np.int64)
    return X, np.unique(y, return_inverse=True)[1]


def to_host(array):
    if hasattr(array, "get"):
        return array.get()
    return array.cpu().numpy() if hasattr(array, "cpu") else array


def ours(library, arrays, tol, params, arguments):
    X, y, X_test, y_test = arrays
    limit = arguments.memory_limit and int(arguments.memory_limit * 2**30)
    library.clear()
    library.synchronize()
    started = perf_counter()
    how = {"tol": tol, "max_time": arguments.cap, "memory_limit": limit, **params}
    model = estimator_of(params)(**how).fit(X, y)
    library.synchronize()
    seconds = perf_counter() - started
    peak = library.peak()
    return model, row_of(model, seconds, X_test, y_test, peak)


def row_of(model, seconds, X_test, y_test, peak=0):
    return {
        "seconds": seconds,
        "primal": model.primal_objective_,
        "dual": model.dual_objective_,
        "relative_gap": model.relative_gap_,
        "converged": model.converged_,
        "n_iter": model.n_iter_,
        "accuracy": "" if X_test is None else model.score(X_test, y_test),
        "peak_gb": peak / 2**30,
    }


def estimator_of(params):
    return LogisticRegression if params.get("multi_class") == "multinomial" else LinearSVC


def on_cpu(name, arrays, tol, params, cap):
    if name in SPECTRA:
        X, y = to_host(arrays[0]), to_host(arrays[1])
    else:
        X, y = read(name)
        X = np.ascontiguousarray(X.toarray(), np.float32) if name == "mnist" else X
    small = np.arange(0, len(y), max(len(y) // 2000, 1))
    estimator = estimator_of(params)
    estimator(max_iter=2, n_jobs=-1, **params).fit(X[small], y[small])  # compiles
    started = perf_counter()
    model = estimator(tol=tol, max_time=cap, n_jobs=-1, random_state=0, **params).fit(X, y)
    return row_of(model, perf_counter() - started, None, None)


def dense_blocks(X, y, dtype):
    """Return a function that yields blocks of rows, their transposes and their labels."""
    import torch

    X = torch.from_dlpack(X)

    def blocks(k):
        step = max((1 << 26) // (k + X.shape[1]), 1)
        for start in range(0, len(y), step):
            block = X[start : start + step].to(dtype)
            yield block, block.T, y[start : start + step]

    return blocks


def csr_blocks(X, y, dtype):
    """Do the same, in one block, for a CSR matrix of CuPy, its transpose being kept as CSR too."""
    import torch

    def tensor(matrix):
        parts = (torch.from_dlpack(part) for part in (matrix.indptr, matrix.indices, matrix.data))
        indptr, indices, values = parts
        return torch.sparse_csr_tensor(indptr, indices, values.to(dtype), size=matrix.shape)

    block, transposed = tensor(X), tensor(X.T.tocsr())
    return lambda k: [(block, transposed, y)]


def l_bfgs(library, arrays, tol, params, target, cap):
    """Minimise the same objective with torch's L-BFGS until it is no larger than `target`.

    In float32, as ours, unless `tol` asks for more than that can tell apart.
    """
    import torch

    dtype = torch.float32 if tol >= 1e-4 else torch.float64
    X, y = arrays[0], torch.from_dlpack(arrays[1])
    blocks = csr_blocks(X, y, dtype) if hasattr(X, "indptr") else dense_blocks(X, y, dtype)
    k, C = int(y.max()) + 1, params["C"]
    columns = 1 if k == 2 else k
    multi_class, loss = params.get("multi_class", "ovr"), params.get("loss")
    shape = (X.shape[1] + 1, k if multi_class != "ovr" else columns)
    # Not at zero, where all classes tie: Crammer-Singer's subgradient there is no way down.
    generator = torch.Generator(device=y.device).manual_seed(0)
    W = 1e-3 * torch.randn(shape, dtype=dtype, device=y.device, generator=generator)
    started = perf_counter()
    best = np.inf

    @torch.no_grad()
    def closure():
        nonlocal best
        total = 0.5 * float((W.double() ** 2).sum())
        gradient = W.clone()
        for block, transposed, labels in blocks(k):
            Z = block @ W[:-1] + W[-1]
            if multi_class == "ovr":
                own = labels[:, None] == torch.arange(k - columns, k, device=y.device)
                sign = torch.where(own, 1.0, -1.0).to(dtype)
                slack = 1 - sign * Z
                if loss == "squared":
                    lost, slope = slack**2, 2 * slack
                elif loss == "squared_hinge":
                    slack = slack.clamp_min(0)
                    lost, slope = slack**2, 2 * slack
                else:
                    lost, slope = slack.clamp_min(0), (slack > 0).to(dtype)
                total += C * float(lost.sum(dtype=torch.float64))
                G = -C * sign * slope
            elif multi_class == "multinomial":
                own = labels[:, None]
                logs = torch.log_softmax(Z, dim=1)
                total -= C * float(logs.gather(1, own).sum(dtype=torch.float64))
                G = C * logs.exp()
                G.scatter_add_(1, own, torch.full_like(own, -C, dtype=dtype))
            else:
                slack = Z - Z.gather(1, labels[:, None]) + 1
                slack.scatter_(1, labels[:, None], 0.0)
                if multi_class == "crammer_singer":
                    lost, worst = slack.max(dim=1)
                    G = torch.zeros_like(Z).scatter_(1, worst[:, None], C)
                else:
                    lost, G = slack.clamp_min(0), C * (slack > 0).to(dtype)
                total += C * float(lost.sum(dtype=torch.float64))
                G.scatter_(1, labels[:, None], 0.0)
                G.scatter_(1, labels[:, None], -G.sum(dim=1, keepdim=True))
            gradient[:-1] += transposed @ G
            gradient[-1] += G.sum(dim=0)
        W.grad = gradient
        best = min(best, total)
        if best <= target or perf_counter() - started > cap:
            raise EnoughError
        return torch.tensor(total, dtype=torch.float64)

    optimizer = torch.optim.LBFGS(
        [W], max_iter=100_000, history_size=10, line_search_fn="strong_wolfe",
        tolerance_grad=0.0, tolerance_change=0.0,
    )  # fmt: skip
    try:
        optimizer.step(closure)
        note = "stopped by itself"
    except EnoughError:
        note = "" if best <= target else "cap"
    if y.device.type == "cuda":
        torch.cuda.synchronize()
    return {"seconds": perf_counter() - started, "primal": best, "note": note}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", nargs="*", default=["."], help="regular expressions")
    parser.add_argument("--who", nargs="*", default=["ours"], help="ours, l-bfgs, cpu")
    parser.add_argument("--library", choices=["torch", "cupy"], default="torch")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", default="benchmarks/outputs/gpu.csv")
    parser.add_argument("--cap", type=float, default=120.0, help="seconds for a fit of ours")
    parser.add_argument("--peer-cap", type=float, default=60.0, help="seconds for a peer")
    parser.add_argument("--memory-limit", type=float, help="gibibytes besides X")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--rows", type=int, default=1_281_167)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--test-rows", type=int, default=50_000)
    parser.add_argument("--signal", type=float, default=0.14)
    parser.add_argument("--noise", type=float, default=0.05)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.INFO, format="    %(message)s")
    library = Library(arguments.library, arguments.device)
    data = Data(library, arguments)
    out = Path(arguments.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, restval="")
        if out.stat().st_size == 0:
            writer.writeheader()

        def note(cell, who, row):
            row = {"cell": cell, "who": who, **row}
            writer.writerow(row)
            file.flush()
            print(*(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()),
                  flush=True)  # fmt: skip

        warm_up(library, "l-bfgs" in arguments.who)
        for cell, name, tol, params in all_cells():
            if any(re.search(pattern, cell) for pattern in arguments.cells):
                run_cell(cell, name, tol, params, library, data, arguments, note)


def warm_up(library, peer):
    """Let libraries load and compile what they need, once per process (CuPy 10 s and more)."""
    rng = np.random.default_rng(0)
    X = library.array(rng.normal(size=(500, 8)).astype(np.float32))
    y = library.array(rng.integers(0, 3, 500))
    direct = ({"multi_class": each} for each in DIRECT)
    for params in ({}, {"loss": "hinge"}, *direct, MULTINOMIAL):
        for tol in (1e-2, 1e-5):
            estimator_of(params)(tol=tol, max_iter=30, **params).fit(X, y)
            if library.name == "cupy":
                estimator_of(params)(tol=tol, max_iter=30, **params).fit(library.csr(X), y)
    if peer:
        for rows in (X, library.csr(X)) if library.name == "cupy" else (X,):
            l_bfgs(library, (rows, y), 1e-6, {"loss": "hinge", "C": 1.0}, 0.0, cap=0.1)


def run_cell(cell, name, tol, params, library, data, arguments, note):
    """Run what is asked for of a cell, each guarded."""
    model = None

    def guarded(who, function):
        try:
            note(cell, who, function())
        except Exception as error:
            traceback.print_exc()
            note(cell, who, {"note": f"{type(error).__name__}: {error}"[:200]})
        finally:
            library.clear()

    def fit():
        nonlocal model
        model = None
        model, row = ours(library, data.get(name), tol, params, arguments)
        target.append(model.primal_objective_)
        model = None  # its dual variables are a number per row and class
        return row

    target: list[float] = []
    if "ours" in arguments.who:
        for _ in range(arguments.repeats):
            guarded(f"dualsweep {library.name}", fit)
    if "l-bfgs" in arguments.who and target:
        guarded("L-BFGS", lambda: l_bfgs(library, data.get(name), tol, params, target[-1],
                                         arguments.peer_cap))  # fmt: skip
    if "cpu" in arguments.who:
        guarded("dualsweep CPU", lambda: on_cpu(name, data.get(name), tol, params,
                                                arguments.peer_cap))  # fmt: skip


if __name__ == "__main__":
    main()

"""Training in partitions: rounds, by simulation in one process.

    DUALSWEEP_DATA=folder python benchmarks/partitions.py --out rounds.csv --picture out.png

A round sends a vector of n_features + 1 doubles to every partition and adds up as many. The model
of time for K workers is that of a tree: ``log2(K)`` times what latency and bandwidth take for a
vector, both ways, and the sweeps of a K-th of the rows.
"""

import argparse
import csv
import os
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dualsweep._threads import Workers
from dualsweep.losses import LOSSES
from dualsweep.placements.cluster.partitions import PartitionedProblem
from dualsweep.problems.binary import BinaryProblem
from dualsweep.rows.layouts import as_rows
from dualsweep.rows.passes import passes_over
from dualsweep.solvers.solve import solve

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from local_partitions import LocalPartitions

POSITIVE = {"blogs": 34, "covtype": 2}  # class of the binary task; else the largest


def load(name):
    z = np.load(Path(os.environ["DUALSWEEP_DATA"]) / f"{name}.npz")
    X = sp.csr_array((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    return X, z["y"]


def binary(name):
    X, y = load(name)
    return X, np.where(y == POSITIVE.get(name, y.max()), 1.0, -1.0)


def simulate(X, y, C, loss, n_parts, order, max_iter):
    """Return rounds, the gap, and the seconds of all sweeps in one process."""
    rows = np.arange(len(y))
    if order == "random":
        np.random.default_rng(0).shuffle(rows)
    problems = []
    for some in np.array_split(rows, n_parts):
        passes = passes_over(as_rows(X[some], 1.0), Workers())
        cost = np.full(len(some), C)
        problems.append(BinaryProblem(passes, passes.sqnorms(), y[some], cost, LOSSES[loss]))
    parts = LocalPartitions(problems)
    started = time.process_time()
    problem = PartitionedProblem(parts, problems[0], C * len(y))
    result = solve(problem, tol=1e-3, max_iter=max_iter)
    return parts.n_rounds, result.relative_gap, time.process_time() - started


def rounds(args):
    fields = ["data", "loss", "C", "order", "parts", "rounds", "gap", "seconds"]
    rows = read(args.out)
    done = {tuple(row[name] for name in fields[:5]) for row in rows}
    X, y = binary(args.data)
    if args.rows is not None:
        some = np.random.default_rng(1).permutation(len(y))[: args.rows]
        X, y = X[np.sort(some)], y[np.sort(some)]
        X = X[:, np.unique(X.indices)]
    for order in args.orders:
        for loss in args.loss:
            for n_parts in args.parts:
                for C in args.C:
                    cell = (args.data, loss, f"{C:g}", order, str(n_parts))
                    if cell in done:
                        continue
                    n, gap, seconds = simulate(X, y, C, loss, n_parts, order, args.max_rounds)
                    row = dict(zip(fields, (*cell, n, f"{gap:.2e}", f"{seconds:.2f}"), strict=True))
                    rows.append(row)
                    print(*row.values(), flush=True)
                    write(args.out, fields, rows)
    if args.picture:
        draw(rows, X.shape[1] + 1, args)


def draw(rows, n_weights, args):
    """Draw rounds, and the time they would take, against the number of partitions."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    chosen = [row for row in rows if row["order"] == args.orders[0] and float(row["gap"]) <= 1e-3]
    styles = {"hinge": "-", "squared_hinge": "--"}
    for loss in args.loss:
        for t, C in enumerate(args.C):
            some = [row for row in chosen if row["loss"] == loss and float(row["C"]) == C]
            if not some:
                continue
            parts = np.array([int(row["parts"]) for row in some])
            n = np.array([int(row["rounds"]) for row in some])
            work = np.array([float(row["seconds"]) for row in some]) / parts
            wire = 2 * np.log2(np.maximum(parts, 2))
            wire = wire * n * (args.latency + 8 * n_weights / args.bandwidth)
            look = {"color": f"C{t}", "linestyle": styles[loss], "marker": "o", "markersize": 3}
            axes[0].plot(parts, n, label=f"{loss.replace('_', ' ')}, C = {C:g}", **look)
            axes[1].plot(parts, work + wire, **look)
    for axis, title in zip(axes, ("Rounds to a relative gap of 0.001", "Seconds"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="partitions", title=title)
        axis.set_xticks(args.parts, [str(k) for k in args.parts])
        axis.grid(alpha=0.3)
    axes[1].set_title(
        f"Seconds at {args.latency * 1e3:g} ms and {args.bandwidth / 1e9:g} GB/s a message"
    )
    figure.legend(loc="outside right center", fontsize="small")
    figure.savefig(args.picture, dpi=120)


def read(path):
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def write(path, fields, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="blogs")
    parser.add_argument("--loss", nargs="+", default=["hinge", "squared_hinge"])
    parser.add_argument("--C", nargs="+", type=float, default=[0.1, 1.0, 10.0, 100.0])
    parser.add_argument("--parts", nargs="+", type=int, default=[2, 4, 16, 64, 256])
    parser.add_argument("--orders", nargs="+", default=["random"], help="random, as it is")
    parser.add_argument("--rows", type=int, help="so many at random, without empty features")
    parser.add_argument("--max-rounds", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=1e-3, help="seconds a message")
    parser.add_argument("--bandwidth", type=float, default=1e9, help="bytes a second")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/outputs/rounds.csv"))
    parser.add_argument("--picture", type=Path)
    rounds(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

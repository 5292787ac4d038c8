"""Training on a generated store of any size under a hard limit on memory.

The store is written in bounded memory. A child process then limits its own address space
(RLIMIT_AS, what ``ulimit -v`` sets: everything the process maps counts, whether it is touched or
not), trains block by block and reports time, bytes read, peak memory and the certificate.

With ``--kills`` the child is killed that many times at random moments, and started again, before it
may finish. The certificate is then computed once more, in NumPy, from the dual variables of the
checkpoint and the blocks of the store.

With ``--everything`` a store of several classes is trained with each formulation, certified,
predicted and searched for C, each by a child of its own under ``--data-limit`` (RLIMIT_DATA: all
memory that it writes to, the interpreter's and the libraries' included). ``--compare`` does the
same in memory, without a limit, for the certificates of both:

    python benchmarks/outofcore.py --everything --store folder/2GB --megabytes 2048 \\
        --classes 4 --length 250 --memory 160 --block 8 --data-limit 512 --C 0.01 --tol 1e-2
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MEGABYTE = 1 << 20


def write(args: argparse.Namespace) -> None:
    """Write parts of text-like rows, all with the same words and planted weights."""
    import numpy as np

    from dualsweep.datasets import make_text_like
    from dualsweep.io import open_writer

    n_features, k = args.features, args.classes if args.classes > 2 else 1
    with open_writer(args.store, block_bytes=args.block * MEGABYTE) as writer:
        left, part = args.megabytes * MEGABYTE, 0
        informative = None
        while left > 0:
            X, _ = make_text_like(
                50_000, n_features, mean_length=args.length, noise=0.0, random_state=part
            )
            frequency = np.argsort(-np.bincount(X.indices, minlength=n_features), kind="stable")
            rank = np.empty(n_features, np.int32)
            rank[frequency] = np.arange(n_features, dtype=np.int32)
            X.indices = rank[X.indices]  # by frequency, so that parts have their words in common
            X.has_sorted_indices = False
            X.sort_indices()
            rng = np.random.default_rng([part, 1])
            if informative is None:
                informative = np.zeros((n_features, k))
                informative[: n_features // 50] = rng.standard_normal((n_features // 50, k))
            scores = X @ informative
            if k == 1:
                y = (scores[:, 0] > np.median(scores)).astype(np.int64)
            else:
                y = scores.argmax(axis=1)
            wrong = rng.random(len(y)) < 0.05
            y[wrong] = (y[wrong] + 1) % args.classes
            writer.append(X, y)
            left -= X.nnz * 8 + len(y) * 16
            part += 1


def train(args: argparse.Namespace) -> None:
    """Train under the limit; print facts as JSON."""
    limit = args.limit * MEGABYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    from dualsweep import LinearSVC
    from dualsweep.io import open_store

    store = open_store(args.store)
    mapped, resident = _status("VmSize"), _status("VmRSS")
    started = time.perf_counter()
    model = LinearSVC(
        C=args.C,
        loss=args.loss,
        tol=args.tol,
        memory_limit=args.memory * MEGABYTE,
        random_state=0,
    ).fit(store, checkpoint=args.checkpoint)
    seconds = time.perf_counter() - started
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    facts = {
        "store_megabytes": store.n_bytes / MEGABYTE,
        "rows": store.shape[0],
        "blocks": len(store),
        "limit_megabytes": args.limit,
        "memory_limit_megabytes": args.memory,
        "address_space_before_megabytes": mapped,
        "address_space_peak_megabytes": _status("VmPeak"),
        "rss_before_megabytes": resident,
        "rss_peak_megabytes": _status("VmHWM"),
        "seconds": seconds,
        "read_megabytes": int(io["rchar"]) / MEGABYTE,
        "read_from_disk_megabytes": int(io["read_bytes"]) / MEGABYTE,
        "passes": model.n_iter_,
        "certificates": len(model.history_),
        "primal_objective": model.primal_objective_,
        "relative_gap": model.relative_gap_,
    }
    print(json.dumps(facts, indent=1))


def everything(args: argparse.Namespace, environment: dict[str, str]) -> None:
    """Do each thing in a child of its own, under the limit, and if asked to in memory."""
    for task in ("ovr", "crammer_singer", "weston_watkins", "search"):
        for where in ("blocks", "memory") if args.compare else ("blocks",):
            command = [sys.executable, __file__, "--task", task, "--where", where, *sys.argv[1:]]
            subprocess.run(command, env=environment, check=True)


def do_task(args: argparse.Namespace) -> None:
    """Train, certify and predict with a formulation, or search for C; print facts as JSON."""
    in_blocks = args.where == "blocks"
    if in_blocks:
        limit = args.data_limit * MEGABYTE
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    from dualsweep import LinearSVC, LinearSVCCV, certify
    from dualsweep.io import open_store

    store = open_store(args.store)
    memory = args.memory * MEGABYTE if in_blocks else None
    common = {"tol": args.tol, "memory_limit": memory, "random_state": 0}
    started = time.perf_counter()
    facts = {"task": args.task, "where": args.where, "store_megabytes": store.n_bytes / MEGABYTE}
    if args.task == "search":
        search = {"Cs": [args.C / 4, args.C], "cv": 2, "multi_class": "weston_watkins"}
        model = LinearSVCCV(**search, **common).fit(store)
        facts |= {"scores": model.scores_.tolist(), "C": model.C_}
        facts["search_gap"] = float(model.search_gap_.max())
    else:
        model = LinearSVC(C=args.C, multi_class=args.task, **common).fit(store)
        found = certify(model, store, tol=args.tol, memory_limit=memory)
        facts |= {"certified_gap": found.relative_gap, "accuracy": model.score(store, store.y)}
    facts |= {
        "seconds": time.perf_counter() - started,
        "passes": model.n_iter_,
        "primal_objective": model.primal_objective_,
        "dual_objective": model.dual_objective_,
        "relative_gap": model.relative_gap_,
        "data_megabytes": _status("VmData"),
        "rss_peak_megabytes": _status("VmHWM"),
    }
    print(json.dumps(facts), flush=True)


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name + ":"))


def passes_done(checkpoint: Path) -> int:
    """Return after how many passes the checkpoint was written."""
    import numpy as np

    path = checkpoint / "000000.npz"
    if not path.exists():
        return 0
    with np.load(path) as arrays:
        return int(arrays["epoch"])


def kill_at_random(
    command: list[str], environment: dict[str, str], args: argparse.Namespace
) -> None:
    """Start the child `args.kills` times and kill it within `args.lifetime` seconds."""
    moments = random.Random(0)
    for kill in range(1, args.kills + 1):
        before, lifetime = passes_done(args.checkpoint), moments.uniform(0.0, args.lifetime)
        child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            code = child.wait(lifetime)
            raise SystemExit(f"It ended by itself, with code {code}, before kill {kill}.")
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        after = passes_done(args.checkpoint)
        print(f"kill {kill} after {lifetime:.1f} s: {before} -> {after} passes", flush=True)


def verify(args: argparse.Namespace) -> None:
    """Compute the objectives of the checkpoint's dual variables from scratch, in NumPy."""
    import numpy as np

    from dualsweep.io import open_store

    store = open_store(args.store)
    with np.load(args.checkpoint / "000000.npz") as arrays:
        alpha = arrays["alpha"]

    def blocks() -> Any:
        for b, start in enumerate(store.starts[:-1]):
            X, y = store.read(b)
            yield X.astype(np.float64), 2.0 * y - 1.0, alpha[start : store.starts[b + 1]]

    w = np.zeros(store.shape[1] + 1)
    for X, signs, own in blocks():
        w += np.append(X.T @ (signs * own), signs @ own)
    slack = [np.maximum(0.0, 1.0 - s * (X @ w[:-1] + w[-1])) for X, s, _ in blocks()]
    losses = np.concatenate(slack)
    assert alpha.min() >= 0.0
    if args.loss == "hinge":
        assert alpha.max() <= args.C
        curvature = 0.0
    else:
        losses, curvature = losses**2, 1.0 / (2.0 * args.C)
    primal = 0.5 * w @ w + args.C * losses.sum()
    dual = alpha.sum() - 0.5 * (w @ w + curvature * alpha @ alpha)
    print(json.dumps({"primal_in_numpy": primal, "relative_gap_in_numpy": 1.0 - dual / primal}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True, help="written if it is not there")
    parser.add_argument("--megabytes", type=int, default=300, help="size of the store")
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--block", type=int, default=16, help="megabytes of a block")
    parser.add_argument("--limit", type=int, default=1024, help="megabytes of address space")
    parser.add_argument("--memory", type=int, default=100, help="memory_limit, in megabytes")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--loss", default="squared_hinge")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--kills", type=int, default=0, help="how often to kill it on the way")
    parser.add_argument("--lifetime", type=float, default=30.0, help="seconds to a kill, at most")
    parser.add_argument("--everything", action="store_true", help="all formulations, and a search")
    parser.add_argument("--compare", action="store_true", help="with the same in memory")
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--length", type=float, default=80.0, help="entries of a row, on average")
    parser.add_argument("--data-limit", type=int, default=512, help="megabytes, with --everything")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--where", help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.kills and not args.checkpoint:
        parser.error("--kills needs a --checkpoint to go on from.")
    if args.child:
        train(args)
        return
    if args.task:
        do_task(args)
        return
    if not args.store.exists():
        started = time.perf_counter()
        write(args)
        print(f"written in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    # Each thread of a BLAS library and each malloc arena reserves address space it does not use.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    if args.everything:
        everything(args, environment)
        return
    command = [sys.executable, __file__, "--child", *sys.argv[1:]]
    kill_at_random(command, environment, args)
    subprocess.run(command, env=environment, check=True)
    if args.checkpoint:
        verify(args)


if __name__ == "__main__":
    main()

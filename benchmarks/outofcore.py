"""Training on a generated store of any size under a hard limit on memory.

The store is written in bounded memory. A child process then limits its own address space
(RLIMIT_AS, what ``ulimit -v`` sets: everything the process maps counts, whether it is touched or
not), trains block by block and reports time, bytes read, peak memory and the certificate.

With ``--kills`` the child is killed that many times at random moments, and started again, before it
may finish. The certificate is then computed once more, in NumPy, from the dual variables of the
checkpoint and the blocks of the store.
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


def write(path: Path, megabytes: int, n_features: int, block_megabytes: int) -> None:
    """Write parts of text-like rows, all with the same words and planted weights."""
    import numpy as np

    from dualsweep.datasets import make_text_like
    from dualsweep.io._store_placing import new_store
    from dualsweep.io._store_writing import Writer

    with new_store(path, force=False) as folder:
        writer = Writer(folder, block_megabytes * MEGABYTE)
        left, part = megabytes * MEGABYTE, 0
        informative = None
        while left > 0:
            X, _ = make_text_like(50_000, n_features, noise=0.0, random_state=part)
            frequency = np.argsort(-np.bincount(X.indices, minlength=n_features), kind="stable")
            rank = np.empty(n_features, np.int32)
            rank[frequency] = np.arange(n_features, dtype=np.int32)
            X.indices = rank[X.indices]  # by frequency, so that parts have their words in common
            X.has_sorted_indices = False
            X.sort_indices()
            rng = np.random.default_rng([part, 1])
            if informative is None:
                informative = np.zeros(n_features)
                informative[: n_features // 50] = rng.standard_normal(n_features // 50)
            scores = X @ informative
            y = (scores > np.median(scores)).astype(np.int64)
            wrong = rng.random(len(y)) < 0.05
            y[wrong] = 1 - y[wrong]
            writer.append(X.data, X.indices, X.indptr.astype(np.int64), y)
            left -= X.nnz * 8 + len(y) * 16
            part += 1
        writer.finish(n_features, np.float32)


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
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.kills and not args.checkpoint:
        parser.error("--kills needs a --checkpoint to go on from.")
    if args.child:
        train(args)
        return
    if not args.store.exists():
        started = time.perf_counter()
        write(args.store, args.megabytes, args.features, args.block)
        print(f"written in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    # Each thread of a BLAS library and each malloc arena reserves address space it does not use.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    command = [sys.executable, __file__, "--child", *sys.argv[1:]]
    kill_at_random(command, environment, args)
    subprocess.run(command, env=environment, check=True)
    if args.checkpoint:
        verify(args)


if __name__ == "__main__":
    main()

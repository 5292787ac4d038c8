"""Training on local clusters of Dask: time, rounds, bytes and memory; killed workers; large data.

    DUALSWEEP_DATA=folder python benchmarks/clusters.py table
    python benchmarks/clusters.py messages
    DUALSWEEP_DATA=folder python benchmarks/clusters.py faults --runs 20
    python benchmarks/clusters.py large

Workers have one thread each, and read their partitions, one for each, from files. What a round
costs beside the work is told in two ways. On the clock it is the time of the client less the work
on the critical path: the processor time of the busiest worker, or that of all over the number of
cores if that is more. On a machine that does other things meanwhile, that says nothing; then there
is processor time: of the client and the scheduler, and of workers but for their answers, over the
number of those that run at once.
"""

import argparse
import csv
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import dask
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster, wait
from partitions import binary, load

import dualsweep
import dualsweep.placements.cluster.client as client_side
import dualsweep.placements.cluster.worker as worker_side
from dualsweep.distributed import LinearSVC
from dualsweep.placements.cluster.partitions import Answer, Partition

LOSSES = ("hinge", "squared_hinge", "squared")
ARRAYS = ("data", "indices", "indptr", "shape", "y")
FIELDS = [
    "data", "what", "workers", "seconds", "rounds", "questions", "MB", "gap", "primal",
    "beside_clock_ms", "beside_cpu_ms", "part_MB", "memory_MB",
]  # fmt: skip


def cells(names):
    """Return data sets and what to train on them."""
    for name in names:
        for loss in LOSSES:
            yield name, {"loss": loss, "C": 0.01 if name == "mnist" else 1.0}
        if name == "mnist":
            for multi_class in ("crammer_singer", "weston_watkins"):
                yield name, {"multi_class": multi_class, "C": 0.01}


class Timed(worker_side.PartitionActor):
    """Notes how long its answers took, in processor time."""

    def answer(self, asked, chosen, *sent):
        started = time.thread_time()
        answer = super().answer(asked, chosen, *sent)
        worked = time.thread_time() - started
        beside = time.process_time() - self.seen - worked
        self.busy().append((asked.question, worked, beside))
        self.seen = time.process_time()
        return answer

    seen = 0.0  # processor time at the end of the answer before

    @staticmethod
    def busy():
        return worker_side.__dict__.setdefault("busy", [])


class Asked:
    """Notes what a cluster is asked, how long that takes, and how many bytes go to and fro."""

    def __init__(self):
        self.log, self.cpu = [], 0.0
        ask = client_side.Cluster._ask

        def noted(cluster, asked, sent):
            started, before = time.perf_counter(), self.cpu
            answer = ask(cluster, asked, sent)
            self.cpu = time.process_time()
            sizes = [sum(w.nbytes for w in sent), answer.weights.nbytes]
            moved = len(cluster.groups) * sum(sizes)
            seconds = time.perf_counter() - started
            both = sizes[0] > 0, sizes[1] > 0
            self.log.append((asked.question, seconds, *both, moved, self.cpu - before))
            return answer

        client_side.Cluster._ask = noted
        worker_side.PartitionActor = Timed

    def rounds(self):
        """Return broadcasts or sums of weights, whichever are more."""
        return max(sum(each[2] for each in self.log), sum(each[3] for each in self.log))

    def beside(self, busy):
        """Return what rounds of sweeps took beside the work, in milliseconds: clock, processor."""
        rounds = np.array([each[1::4] for each in self.log if each[0] == Partition.advance])
        work = [[took[1:] for took in each if took[0] == Partition.advance] for each in busy]
        if len(rounds) < 3 or any(len(each) != len(rounds) for each in work):
            return None
        (clock, client), (worked, more) = rounds[1:].T, np.array(work)[:, 1:].transpose(2, 0, 1)
        cores = os.cpu_count()
        critical = np.maximum(worked.max(axis=0), worked.sum(axis=0) / cores)
        processor = client + more.sum(axis=0) / min(cores, len(busy))
        return 1e3 * (clock - critical), 1e3 * processor


def save(folder, X, y, n):
    """Write n partitions of shuffled rows."""
    rows = np.random.default_rng(0).permutation(len(y))
    for k, some in enumerate(np.array_split(rows, n)):
        part = sp.csr_matrix(X[some])
        indices, indptr = (each.astype(np.int32) for each in (part.indices, part.indptr))
        arrays = (part.data, indices, indptr, part.shape, y[some])
        for name, array in zip(ARRAYS, arrays, strict=True):
            np.save(folder / f"{n}-{k}-{name}.npy", array)


def read_rows(folder, n, k):
    """Return the rows of partition k, on a worker, without a second copy on the way."""
    *parts, shape = (np.load(Path(folder) / f"{n}-{k}-{name}.npy") for name in ARRAYS[:4])
    return sp.csr_matrix(tuple(parts), shape=tuple(shape.tolist()))


def read_labels(folder, n, k):
    """Return their labels."""
    return np.load(Path(folder) / f"{n}-{k}-y.npy")


def pairs(folder, n):
    """Return partitions that workers read themselves."""
    rows, labels = dask.delayed(read_rows), dask.delayed(read_labels)
    return [(rows(str(folder), n, k), labels(str(folder), n, k)) for k in range(n)]


def watch_memory():
    """Note how much memory this worker takes from now on."""
    import psutil

    process, module = psutil.Process(), worker_side
    module.memory = [process.memory_info().rss, 0]
    module.watching = marker = object()

    def sample():
        while module.watching is marker:
            module.memory[1] = max(module.memory[1], process.memory_info().rss)
            time.sleep(0.01)

    threading.Thread(target=sample, daemon=True).start()


def memory_grown():
    """Return by how many MB it grew at most."""
    before, peak = worker_side.memory
    worker_side.watching = None
    return (peak - before) / 1e6


def table(args):
    rows = read(args.out)
    done = {tuple(row[name] for name in FIELDS[:3]) for row in rows}

    def note(*values):
        row = dict(zip(FIELDS, map(str, values), strict=True))
        print(*row.values(), flush=True)
        rows.append(row)
        write(args.out, rows)

    for name in args.data:
        X, y = load(name) if name == "mnist" else binary(name)
        todo = [settings for _, settings in cells([name])]
        told = {" ".join(map(str, settings.values())): settings for settings in todo}
        for what, settings in told.items():
            if (name, what, "in memory") in done:
                continue
            started = time.perf_counter()
            model = dualsweep.LinearSVC(random_state=0, **settings).fit(X, y)
            seconds = f"{time.perf_counter() - started:.1f}"
            gap, primal = f"{model.relative_gap_:.1e}", f"{model.primal_objective_:.6g}"
            note(name, what, "in memory", seconds, *[""] * 3, gap, primal, *[""] * 4)
        with tempfile.TemporaryDirectory() as folder:
            for n in args.workers:
                left = {w: s for w, s in told.items() if (name, w, str(n)) not in done}
                if left:
                    save(Path(folder), X, y, n)
                    on_cluster(name, left, n, pairs(folder, n), note)


def on_cluster(name, told, n, parts, note):
    with (
        LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        asked = Asked()
        few = on_each_worker(client, *client.gather(client.compute(list(parts[0]))))
        for what, settings in told.items():
            LinearSVC(random_state=0, **settings).fit(few)  # compiles
            client.run(lambda: worker_side.__dict__.update(busy=[]))
            client.run(watch_memory)
            asked.log = []
            started = time.perf_counter()
            model = LinearSVC(random_state=0, **settings).fit(parts)
            seconds = time.perf_counter() - started
            grown = max(client.run(memory_grown).values())
            beside = asked.beside(list(client.run(Timed.busy).values()))
            there = client.gather(client.compute(parts_of(parts)))
            size = max(x.data.nbytes + x.indices.nbytes + x.indptr.nbytes for x in there[::2]) / 1e6
            assert_certified(model, *there)
            note(
                name, what, n, f"{seconds:.1f}", asked.rounds(), len(asked.log),
                f"{sum(each[4] for each in asked.log) / 1e6:.1f}",
                f"{model.relative_gap_:.1e}", f"{model.primal_objective_:.6g}",
                *(["", ""] if beside is None else
                  [f"{np.min(beside[0]):.1f}", f"{np.median(beside[1]):.1f}"]),
                f"{size:.1f}", f"{grown:.1f}",
            )  # fmt: skip


def on_each_worker(client, X, y):
    """Return some rows as a partition on each worker."""
    return [
        tuple(dask.delayed(client.scatter(each, workers=[worker])) for each in (X[:300], y[:300]))
        for worker in client.nthreads()
    ]


def parts_of(parts):
    return [part for pair in parts for part in pair]


def assert_certified(model, *parts):
    """Recompute the certificate of a model in NumPy, from its dual variables and the rows."""
    X, y = sp.vstack(parts[::2], format="csr"), np.concatenate(parts[1::2])
    duals = sp.csr_array(model.dual_coef_.compute())
    W = np.column_stack([model.coef_, model.intercept_])
    of_duals = np.column_stack([(duals @ X).toarray(), duals.sum(axis=1)])
    np.testing.assert_allclose(of_duals, W, rtol=1e-7, atol=1e-9 * np.abs(W).max())
    scores, C, signed = X @ model.coef_.T + model.intercept_, model.C, duals.toarray()
    size = 0.5 * (W**2).sum()
    classes = model.classes_
    if model.multi_class == "ovr":
        positive = classes[1:] if len(classes) == 2 else classes
        sign = np.where(y[:, None] == positive, 1.0, -1.0)
        slack, alpha = 1.0 - sign * scores, signed.T * sign
        if model.loss != "squared":
            slack = np.maximum(slack, 0.0)
            assert (alpha >= 0).all()
        if model.loss == "hinge":
            assert (alpha <= C).all()
            losses, conjugate = C * slack.sum(), 0.0
        else:
            losses, conjugate = C * (slack**2).sum(), (alpha**2).sum() / (4 * C)
        primal, dual = size + losses, alpha.sum() - size - conjugate
    else:
        own = np.searchsorted(classes, y)
        rows = np.arange(len(y))
        margins = 1.0 + scores - scores[rows, own][:, None]
        margins[rows, own] = 0.0
        over = np.maximum(margins, 0.0)
        joint = model.multi_class == "crammer_singer"
        losses = C * (over.max(axis=1) if joint else over.sum(axis=1)).sum()
        beta = -signed.T
        total = -beta[rows, own]
        beta[rows, own] = 0.0
        assert (beta >= 0).all()
        assert ((total if joint else beta.max(axis=1)) <= C * (1 + 1e-9)).all()
        np.testing.assert_allclose(beta.sum(axis=1), total, rtol=1e-9, atol=1e-12)
        primal, dual = size + losses, beta.sum() - size
    np.testing.assert_allclose(
        [model.primal_objective_, model.dual_objective_], [primal, dual], rtol=1e-6
    )
    assert model.converged_
    assert primal - dual <= model.tol * primal * (1 + 1e-6)


class Echo:
    """An actor that answers at once, with as many weights as it was sent."""

    def answer(self, asked, chosen, w):
        return Answer(w + 1, np.zeros(3))


def messages(args):
    """Time what a round costs beside the work: messages to all workers, and the sum of answers."""
    for n in args.workers:
        with (
            LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            actors = {
                home: client.submit(Echo, key=f"echo-{home}", workers=[home], actor=True)
                for home in client.nthreads()
            }
            wait(list(actors.values()))
            groups = [(home, actor, []) for home, actor in actors.items()]
            asking = object.__new__(client_side.Cluster)  # without partitions
            asking.client, asking.direct = client, True
            for length in args.weights:
                w, times = np.ones(length, np.float32), []
                for _ in range(50):
                    started = time.perf_counter()
                    client.sync(asking._answers, groups, None, (w,))
                    times.append(1e3 * (time.perf_counter() - started))
                print(f"{n} workers, {length} weights: {np.median(times[5:]):.1f} ms, "
                      f"at least {min(times):.1f}", flush=True)  # fmt: skip


def faults(args):
    """Kill a worker at random in each of many trainings, each on a cluster of its own.

    Of one that is used for all of them, Dask's nannies did not start all workers again after a
    dozen deaths.
    """
    X, y = binary("a9a")
    rng = np.random.default_rng(args.seed)
    ends = {"certified": 0, "error": 0}
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), X[:8000], y[:8000], 4)
        for run in range(args.runs):
            # Newton steps and rounds of sweeps in turns: the latter where features are many.
            width, loss = (X.shape[1], args.width)[run % 2], LOSSES[run // 2 % 3]
            parts = [(dask.delayed(widen)(x, width), labels) for x, labels in pairs(folder, 4)]
            model = LinearSVC(C=0.1, loss=loss, random_state=0)
            with (
                LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                model.fit(parts)  # compiles
                started = time.perf_counter()
                model.fit(parts)
                usual = time.perf_counter() - started
                end, what = kill_one(client, model, parts, rng.uniform(0, usual), rng)
            ends[end] += 1
            print(f"{run}: {loss}, {width} features, {what}: {end}", flush=True)
    print(ends)


def kill_one(client, model, parts, after, rng):
    """Train while a worker is killed; return how that ends, and what happened."""
    victim = str(rng.choice(sorted(client.nthreads())))
    pid = client.run(os.getpid, workers=[victim])[victim]
    killer = threading.Timer(after, os.kill, (pid, signal.SIGKILL))
    started = time.perf_counter()
    killer.start()
    what = f"killed after {after:.2f} s"
    try:
        model.fit(parts)
        what += f", {model.relative_gap_:.1e} after {time.perf_counter() - started:.2f} s"
        killer.join()
        assert_certified(model, *client.gather(client.compute(parts_of(parts))))
    except RuntimeError as error:  # such as that dual variables went with the worker
        killer.join()
        return "error", f"{what}; {error}"
    return "certified", what


def widen(X, width):
    """Return X with products of pairs of features, hashed, so that there are many."""
    if width == X.shape[1]:
        return X
    X = X.tocsr()
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    shifted = np.roll(X.indices, 1).astype(np.int64)
    columns = (X.indices.astype(np.int64) * 1_000_003 + shifted * 7919) % width
    return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (X.shape[0], width))


def large(args):
    """Train on more than workers have memory for."""
    n = args.blocks
    rows = int(args.gigabytes * 1e9 / 4 / args.features / n)
    with (
        LocalCluster(
            n_workers=4, threads_per_worker=1, memory_limit=args.memory, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        make = dask.delayed(generated)
        parts = [(make(k, rows, args.features), make(k, rows, args.features, labels=True))
                 for k in range(n)]  # fmt: skip
        client.run(watch_memory)
        started = time.perf_counter()
        model = LinearSVC(C=1e-4, loss=args.loss, random_state=0).fit(parts)
        seconds = time.perf_counter() - started
        grown = client.run(memory_grown)
        print(
            f"{n} blocks, {n * rows * args.features * 4e-9:.2f} GB, 4 workers of {args.memory}: "
            f"{args.loss}, gap {model.relative_gap_:.1e}, {model.n_iter_} steps, {seconds:.0f} s; "
            f"workers grew by {max(grown.values()):.0f} MB at most",
            flush=True,
        )


def generated(k, rows, features, labels=False):
    """Return block k of dense rows, or its labels."""
    rng = np.random.default_rng(k)
    X = rng.standard_normal((rows, features), dtype=np.float32)
    if not labels:
        return X
    plane = np.random.default_rng(10**6).standard_normal(features, dtype=np.float32)
    return np.where(X @ plane + rng.normal(0, 3, rows) > 0, 1, -1)


def read(path):
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(required=True)
    real = kinds.add_parser("table")
    real.set_defaults(run=table)
    real.add_argument("--data", nargs="+", default=["a9a", "imdb", "blogs", "mnist"])
    real.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4])
    real.add_argument("--out", type=Path, default=Path("benchmarks/outputs/clusters.csv"))
    beside = kinds.add_parser("messages")
    beside.set_defaults(run=messages)
    beside.add_argument("--workers", nargs="+", type=int, default=[2, 4])
    beside.add_argument("--weights", nargs="+", type=int, default=[1000, 304_469])
    killed = kinds.add_parser("faults")
    killed.set_defaults(run=faults)
    killed.add_argument("--runs", type=int, default=20)
    killed.add_argument("--seed", type=int, default=0)
    killed.add_argument("--width", type=int, default=20_000)
    big = kinds.add_parser("large")
    big.set_defaults(run=large)
    big.add_argument("--gigabytes", type=float, default=3.2)
    big.add_argument("--blocks", type=int, default=64)
    big.add_argument("--features", type=int, default=199)
    big.add_argument("--memory", default="1GB")
    big.add_argument("--loss", default="squared_hinge")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # compiling does not converge, and Dask has its own
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())

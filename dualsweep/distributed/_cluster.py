"""The client's side: partitions and where they are, questions to all of them, and lost workers."""

from __future__ import annotations

from contextlib import suppress
from threading import RLock
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import numpy as np
from distributed import Client, Future, wait
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from ._data import Lazy
from ._work import Partition, Recipe, add, answer, describe, forget, signed_duals

__all__ = ["Cluster", "ClusterParts"]

FAN_IN = 8  # answers that are added up at once
FITS = 0.5  # part of a worker's memory that its partitions may take to be asked for at once
SMALL = 1 << 16  # bytes of weights that are sent along with each question

LOOK_AFTER = 1.0  # seconds to wait for answers before asking whether all workers are there

# How often workers may be lost on the way to an answer, and how many seconds partitions may take to
# be computed again without any of them being done, before training gives up.
MOST_LOSSES, PATIENCE = 10, 300.0
LOST = 30.0  # seconds that a partition may be lost before it counts as lost for good


class WorkerLostError(Exception):
    """A worker that had partitions is not there any more."""


class Cluster:
    """Partitions on a cluster, each on the worker that happens to have it, as a ``with`` block.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    lazy : list of (rows, labels, weights)
        The partitions; see `dualsweep.distributed._data.partitions`.
    """

    def __init__(self, client: Client, lazy: list[Lazy]) -> None:
        self.client, self.token = client, uuid4().hex[:12]
        self.losses = self.n_asked = 0
        self.made: list[Any] = []  # dual variables of problems that are solved
        self._lock = RLock()
        wanted = [part for parts in lazy for part in parts if part is not None]
        coming = iter(client.compute(wanted))
        self.futures: list[tuple[Any, ...]] = [
            tuple(None if part is None else next(coming) for part in parts) for parts in lazy
        ]
        self.described = client.gather(
            [
                client.submit(describe, *parts, key=f"dualsweep-describe-{self.token}-{k}")
                for k, parts in enumerate(self.futures)
            ]
        )
        self.n_rows = np.array([known.n_rows for known in self.described])
        self.firsts = np.cumsum(self.n_rows) - self.n_rows
        self.used = [k for k, n in enumerate(self.n_rows.tolist()) if n]
        self.homes: dict[int, str] = {}  # the workers of the partitions with rows
        # Workers, and the partitions that each is asked for at once.
        self.groups: list[tuple[str, list[int]]] = []
        self._find()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(TimeoutError):
            wait(self.made, timeout=PATIENCE)
        for home in set(self.homes.values()):
            self.client.submit(
                forget, self.token, workers=[home], key=f"dualsweep-forget-{uuid4().hex}"
            ).add_done_callback(lambda future: future.release())
        self.futures = []

    def _partition(self, k: int) -> Partition:
        return Partition(k, int(self.firsts[k]), *self.futures[k])

    def ask(self, recipe: Recipe, p: int, name: str, w: Any, how: dict[str, Any]) -> Any:
        """Let all parts of the p-th problem answer; return the sums, and which parts they were."""
        while True:
            losses = self.losses
            try:
                return self._ask(recipe, p, name, w, how)
            except (WorkerLostError, CommClosedError) as error:
                self._recover(losses, error)

    def _ask(self, recipe: Recipe, p: int, name: str, w: Any, how: dict[str, Any]) -> Any:
        with self._lock:
            self.n_asked += 1
            asked = f"{self.token}-{self.n_asked}"
            groups = list(self.groups)
        client = self.client
        sent = w
        if w is not None and w.nbytes > SMALL:
            sent = client.scatter(w, hash=False, direct=True)
        futures = [
            client.submit(
                answer,
                recipe,
                p,
                name,
                sent,
                how,
                *[self._partition(k) for k in numbers],
                key=f"dualsweep-{name}-{asked}-{t}",
                workers=[home],
            )
            for t, (home, numbers) in enumerate(groups)
        ]
        level = 0
        while len(futures) > 1:
            level += 1
            futures = [
                client.submit(
                    add, *futures[t : t + FAN_IN], key=f"dualsweep-add-{asked}-{level}-{t}"
                )
                for t in range(0, len(futures), FAN_IN)
            ]
        return self._result(futures[0], {home for home, _ in groups})

    def _result(self, future: Future, homes: set[str]) -> Any:
        """Return what a task returns; WorkerLostError if it cannot, for want of a worker."""
        while True:
            try:
                wait(future, timeout=LOOK_AFTER)
                break
            except TimeoutError:
                if not self._all_there(homes):
                    raise WorkerLostError from None
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker) or not self._all_there(homes):
                raise WorkerLostError from error
            raise error
        if future.status != "finished":  # cancelled: what it was sent went with a worker
            raise WorkerLostError
        try:
            return future.result(timeout=PATIENCE)
        except Exception as error:  # its worker was lost before it handed it over
            raise WorkerLostError from error

    def _all_there(self, homes: set[str]) -> bool:
        return homes <= set(self.client.nthreads())

    def _recover(self, losses: int, error: BaseException) -> None:
        """Find the partitions again, which Dask computes again where they were lost."""
        with self._lock:
            if losses != self.losses:  # somebody else did
                return
            self.losses += 1
            if self.losses > MOST_LOSSES:
                raise RuntimeError(
                    f"Training gave up: workers were lost {self.losses} times. They may need more "
                    "memory, or smaller partitions."
                ) from error
            sleep(LOOK_AFTER)  # until the scheduler knows
            self._find()

    def _find(self) -> None:
        """Wait until all partitions are there, and note on which workers."""
        futures = [part for parts in self.futures for part in parts if part is not None]
        since, n_done = monotonic(), -1
        while True:
            for future in futures:
                if future.status == "error":
                    raise future.exception()
                # What can be computed again is lost for a moment only.
                late = future.status == "lost" and monotonic() - since > LOST
                if late or future.status == "cancelled":
                    raise RuntimeError(
                        "A partition was lost with the worker that had it, and it cannot be "
                        "computed again. Pass collections that Dask can compute, such as those it "
                        "reads from files, not data that was sent to the workers."
                    )
            places = self.client.who_has([parts[0] for parts in self.futures])
            found = {k: sorted(places.get(self.futures[k][0].key, ())) for k in self.used}
            done = sum(map(bool, found.values())) + sum(f.status == "finished" for f in futures)
            if done == len(found) + len(futures):
                there = self.client.nthreads()
                if all(home[0] in there for home in found.values()):
                    self.homes = {k: home[0] for k, home in found.items()}
                    self.groups = [
                        (home, numbers)
                        for home in sorted(set(self.homes.values()))
                        for numbers in self._shares(home, there[home])
                    ]
                    return
            if done > n_done:
                since, n_done = monotonic(), done
            if monotonic() - since > PATIENCE:
                missing = sum(future.status != "finished" for future in futures)
                raise RuntimeError(
                    f"Training gave up: {missing} of {len(futures)} blocks were not computed in "
                    f"{PATIENCE:g} s. Are there workers, and have they enough memory?"
                )
            try:
                wait(futures, timeout=LOOK_AFTER / 5)
            except TimeoutError:
                continue

    def _shares(self, home: str, n_threads: int) -> list[list[int]]:
        """Divide the partitions of a worker among its threads.

        Those that do not fit into its memory together are asked one by one: in between, Dask may
        write them to disk.
        """
        numbers = [k for k in self.used if self.homes[k] == home]
        known = [self.described[k] for k in numbers]
        memory = min(about.memory for about in known)
        if memory and sum(about.n_bytes for about in known) > FITS * memory:
            return [[k] for k in numbers]
        return [numbers[t::n_threads] for t in range(min(n_threads, len(numbers)))]

    def duals(self, recipe: Recipe, p: int, which: str, born: dict[int, str]) -> list[Any]:
        """Return the p-th problem's signed dual variables of the partitions with rows, as futures.

        They let go of the dual variables. Wherever those are lost, computing them ends in an error.
        """
        made = [
            self.client.submit(
                signed_duals,
                recipe,
                p,
                which,
                born.get(k),
                *self._partition(k),
                key=f"dualsweep-duals-{self.token}-{p}-{k}",
                workers=[self.homes[k]],
                allow_other_workers=True,
            )
            for k in self.used
        ]
        self.made += made
        return made


class ClusterParts:
    """The parts of one problem on a cluster; see `dualsweep.solvers.parts.Parts`.

    Parameters
    ----------
    cluster : Cluster
        Where they are.
    recipe : Recipe
        What makes problems of partitions.
    p : int
        The number of the problem.
    """

    def __init__(self, cluster: Cluster, recipe: Recipe, p: int) -> None:
        self.cluster, self.recipe, self.p = cluster, recipe, p
        self.n_parts, self.n_rows = len(cluster.used), int(cluster.n_rows.sum())
        self.restarts = 0
        self.born: dict[int, str] = {}

    def ask(self, name: str, w: Any = None, **how: Any) -> tuple[Any, Any]:
        """Let all parts answer; return the sums."""
        weights, numbers, born = self.cluster.ask(self.recipe, self.p, name, w, how)
        if any(self.born.get(k, known) != known for k, known in born.items()):
            self.restarts += 1
        self.born = born
        return weights, numbers

"""The client's side: where partitions are, questions to all of them, and lost workers.

Each worker holds the partitions that it computes, and an actor there answers for them. Questions go
to actors without a task: on a local cluster of four workers, four tasks take some 25 ms, four
questions to actors 5 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import reduce
from itertools import accumulate
from threading import RLock
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import dask
from distributed import CancelledError, Client, Future, wait
from distributed.protocol import to_serialize
from distributed.scheduler import KilledWorker

from ... import _tuning
from ...training.formulations import Formulation
from . import worker
from .partitions import Answer, Numbers, Question

try:
    from distributed.actor import ProxyRPC
except ImportError:  # distributed does not promise to keep it
    ProxyRPC = None

# Delayed rows, labels and weights of a partition; rows may be a `StoreBlock`, weights None.
Lazy = tuple[Any, Any, Any]

LOOK_AFTER = 1.0  # seconds to wait for answers before checking that all workers are there

# Training gives up after so many losses of workers, or so many seconds without progress.
MOST_LOSSES, PATIENCE = 10, 300.0


class WorkerLostError(Exception):
    """A worker that had partitions is gone, or there is a new one at the address in `args`."""


class Cluster:
    """Partitions on the workers that computed them, until the end of a ``with`` block."""

    def __init__(self, client: Client, lazy: list[Lazy]) -> None:
        self.client, self.lazy, self.token = client, lazy, uuid4().hex[:12]
        self.losses = 0
        self.made: list[Future] = []  # dual variables of the problems solved so far
        self.held: dict[int, worker.Description] = {}  # by partition
        self.formulation: Formulation | None = None
        self.actors: dict[str, Future] = {}  # by worker
        self.groups: list[tuple[str, list[int]]] = []  # workers and their partitions
        self.direct = True  # whether workers can be reached without the scheduler
        self._lock = RLock()
        try:
            self._hold()
        except BaseException:
            self._forget()
            raise
        self.n_rows = [self.held[k].n_rows for k in range(len(lazy))]
        self.firsts = list(accumulate(self.n_rows, initial=0))
        self.used = [k for k, n in enumerate(self.n_rows) if n]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(TimeoutError):
            wait(self.made, timeout=PATIENCE)
        self._forget()

    def _forget(self) -> None:
        self.actors.clear()
        self.client.run(worker.forget, self.token, on_error="ignore")

    def _missing(self) -> list[int]:
        """Return the partitions that no worker holds."""
        there = self.client.nthreads()
        held = {k for k, known in self.held.items() if known.home in there}
        return [k for k in range(len(self.lazy)) if k not in held]

    def _hold(self) -> None:
        """Let workers compute and hold the missing partitions."""
        missing = self._missing()
        call, attempt = dask.delayed(worker.hold), uuid4().hex[:6]
        futures = self.client.compute(
            [
                call(self.token, k, *self.lazy[k], dask_key_name=f"dualsweep-hold-{attempt}-{k}")
                for k in missing
            ]
        )
        self._wait(futures)
        self.held.update(zip(missing, self.client.gather(futures), strict=True))

    def _wait(self, futures: list[Future]) -> None:
        """Wait until futures are done; raise an error if they cannot be."""
        since, n_done = monotonic(), -1
        while True:
            statuses = [future.status for future in futures]
            # What Dask can compute again is lost for a moment only.
            late = monotonic() - since > _tuning.LOST
            if "cancelled" in statuses or (late and "lost" in statuses):
                raise RuntimeError(
                    "A partition was lost with the worker that had it, and it cannot be computed "
                    "again. Pass collections that Dask can compute, such as those it reads from "
                    "files, not data that was sent to the workers."
                )
            if "error" in statuses:
                raise futures[statuses.index("error")].exception()
            done = statuses.count("finished")
            if done == len(futures):
                return
            if done > n_done:
                since, n_done = monotonic(), done
            if monotonic() - since > PATIENCE:
                raise RuntimeError(
                    f"Training gave up: {len(futures) - done} of {len(futures)} partitions were "
                    f"not computed in {PATIENCE:g} s. Are there workers, with enough memory?"
                )
            with suppress(TimeoutError, CancelledError):
                wait(futures, timeout=LOOK_AFTER / 5, return_when="FIRST_COMPLETED")

    def open(self, formulation: Formulation) -> None:
        """Start the actors that answer for all partitions."""
        self.formulation = formulation
        homes = sorted({self.held[k].home for k in self.used})
        self.groups = [
            (home, [k for k in self.used if self.held[k].home == home]) for home in homes
        ]
        self.actors = {
            home: self.actors.get(home)
            or self.client.submit(
                *(worker.PartitionActor, self.token, formulation, self.firsts),
                key=f"dualsweep-home-{uuid4().hex[:12]}",
                workers=[home],
                actor=True,
            )
            for home in homes
        }
        self._wait(list(self.actors.values()))
        self.direct = self.client.sync(self._reach, homes)

    async def _reach(self, homes: list[str]) -> bool:
        """Return whether workers can be reached from here."""
        try:
            calls = [self.client.rpc(home).identity() for home in homes]
            await asyncio.wait_for(asyncio.gather(*calls), LOOK_AFTER)
        except (OSError, TimeoutError):
            return False
        return True

    def ask(self, asked: worker.Asked, sent: tuple[object, ...]) -> Answer:
        """Ask all partitions; return the sum of their answers, even if workers are lost."""
        since = None  # the first loss
        while True:
            losses = self.losses
            with self._lock:  # not in the event loop: a thread with the lock may wait for that
                groups = [(home, self.actors[home], chosen) for home, chosen in self.groups]
            try:
                answer: Answer = self.client.sync(self._answers, groups, asked, sent)
                return answer
            except WorkerLostError as error:
                since = since or monotonic()
                self._recover(losses, error, since)

    async def _answers(
        self,
        groups: list[tuple[str, Future, list[int]]],
        asked: worker.Asked,
        sent: tuple[object, ...],
    ) -> Answer:
        calls = [
            asyncio.ensure_future(self._call(home, actor, asked, chosen, *sent))
            for home, actor, chosen in groups
        ]
        pending = set(calls)
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=LOOK_AFTER, return_when=asyncio.FIRST_EXCEPTION
                )
                for call in done:
                    call.result()
                if pending:
                    there = await self.client.scheduler.ncores()
                    if not all(home in there for home, _, _ in groups):
                        raise WorkerLostError
        finally:
            for call in calls:
                call.cancel()
        return reduce(Answer.plus, [call.result() for call in calls])

    async def _call(self, home: str, actor: Future, *arguments: object) -> Answer:
        answer: Answer
        if not self.direct and ProxyRPC is None:  # a task is slower
            given = worker.ask, actor, *arguments
            try:
                answer = await self.client.submit(*given, workers=[home], pure=False)
            except Exception as error:
                if isinstance(error, KeyError) or actor.status != "finished":  # as below
                    raise WorkerLostError(home) from error
                raise
            return answer
        rpc = self.client.rpc(home) if self.direct else ProxyRPC(self.client.scheduler, home)
        try:
            reply = await rpc.actor_execute(
                function="answer", actor=actor.key, args=[to_serialize(each) for each in arguments]
            )
        except OSError as error:
            raise WorkerLostError from error
        except KeyError as error:  # no such actor
            raise WorkerLostError(home) from error
        if reply["status"] != "OK":
            if isinstance(reply["exception"], KeyError):  # no such partition
                raise WorkerLostError(home) from reply["exception"]
            raise reply["exception"]
        answer = reply["result"]
        return answer

    def _recover(self, losses: int, error: WorkerLostError, since: float) -> None:
        """Let other workers hold the partitions of those that were lost."""
        with self._lock:
            if losses != self.losses:  # another thread has done it
                return
            assert self.formulation is not None
            sleep(LOOK_AFTER)  # until the scheduler knows
            for home in error.args:
                self.actors.pop(home, None)
                self.held = {k: known for k, known in self.held.items() if known.home != home}
            while self._missing():
                self.losses += 1
                if self.losses > MOST_LOSSES:
                    raise RuntimeError(
                        f"Training gave up: workers were lost {self.losses} times. They may need "
                        "more memory, or smaller partitions."
                    ) from error
                try:
                    self._hold()
                    self.open(self.formulation)
                except KilledWorker:  # one more
                    continue
            if monotonic() - since > PATIENCE:
                raise RuntimeError(
                    f"Training gave up: a worker has not answered for {PATIENCE:g} s."
                ) from error

    def duals(self, p: int, kept: bool, born: Mapping[int, str]) -> list[Future]:
        """Return the p-th problem's signed dual variables of the partitions with rows, as futures.

        Workers drop the dual variables. Computing lost ones ends in an error, on any worker.
        """
        with self._lock:
            made = [
                self.client.submit(
                    *(worker.signed_duals, self.token, self.formulation, p, kept, born.get(k), k),
                    key=f"dualsweep-duals-{self.token}-{p}-{k}",
                    workers=[self.held[k].home],
                    allow_other_workers=True,
                )
                for k in self.used
            ]
            self.made += made
        return made


class ClusterPartitions:
    """The partitions of the p-th problem on a cluster; see `partitions.Partitions`."""

    def __init__(self, cluster: Cluster, p: int) -> None:
        self.cluster, self.p = cluster, p
        self.n_parts, self.n_rows = len(cluster.used), sum(cluster.n_rows)
        self.restarts = 0
        self.born: Mapping[int, str] = {}  # see `Answer`

    def ask(
        self, question: Question[Numbers], *sent: Numbers.args, **how: Numbers.kwargs
    ) -> Answer:
        """Ask all partitions; return the sum of the answers."""
        answer = self.cluster.ask(worker.Asked(self.p, question, how), sent)
        if any(self.born.get(k, born) != born for k, born in answer.born.items()):
            self.restarts += 1
        self.born = answer.born
        return answer

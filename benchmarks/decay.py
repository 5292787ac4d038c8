"""Time Weston-Watkins sweeps with different block steps, as Wang and Scott 2021 do in section 5.

A run sweeps until the duality gap has decayed to the smallest of ``--decays`` times its value after
the first epoch. Its clock counts processor time, a run being one thread, and stands still for
certificates: those of the solver, and the one after each epoch that tells how far the gap has
decayed. Results are one CSV row per run and decay, without seconds where the run was capped before.
What the file already holds is not measured again.
"""

import argparse
import itertools
import math
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numba
import numpy as np
import pandas as pd
from benchmark_utils import load_data
from ratios import HERE, append, holds, load, markdown, publish, summarise
from steps.active_set import active_set_step
from steps.greedy import ACCURACY, greedy_step

from dualsweep._threads import Workers
from dualsweep.kernels.block_steps import block_step
from dualsweep.kernels.multiclass import sweep_multiclass
from dualsweep.problems.multiclass import MulticlassProblem
from dualsweep.problems.run import certificate_of
from dualsweep.rows.layouts import as_rows
from dualsweep.rows.passes import Passes
from dualsweep.solvers.schedules import SCHEDULES
from dualsweep.solvers.solve import solve

OURS = "walrus"
FIRST_EPOCH = 1.0  # the decay that the first epoch reaches, by definition
COLUMNS = ["data", "C", "schedule", "rep", "step", "classes", "decay", "seconds", "epochs"]

# Seconds that the authors' own C++ is reported to take at C = 1 on a machine of two cores; this
# script does not measure them.
AUTHORS = {
    ("dna", 0.01): 0.08,
    ("satimage", 0.01): 0.03,
    ("mnist", 0.01): 55.0,
    ("news20", 0.01): 0.36,
    ("letter", 0.01): 0.5,
    ("sector", 0.01): 2.2,
    ("authors1000", FIRST_EPOCH): 9.0,
}


# ----------------------------------------------------------------------------------- block steps


@numba.njit(error_model="numpy")
def by_active_set(beta, t, b, k, upper, q, new, scratch):
    """Fill `new` as the sweep's `block_step` does, by the active-set method."""
    if q == 0.0:
        return block_step(beta, t, b, k, upper, q, new, scratch)
    total = b[:k].sum()
    for m in range(k):
        scratch[m] = t[m] / q + b[m] + total
        new[m] = b[m]
    active_set_step(scratch[:k], upper, False, new[:k])
    return q * (new[:k].sum() - total)


@numba.njit(error_model="numpy")
def by_greedy(beta, t, b, k, upper, q, new, scratch):
    """Fill `new` as the sweep's `block_step` does, by greedy coordinate descent."""
    if q == 0.0:
        return block_step(beta, t, b, k, upper, q, new, scratch)
    for m in range(k):
        scratch[m] = t[m]
        new[m] = b[m]
    greedy_step(scratch[:k], q, upper, ACCURACY, new[:k])
    return q * (new[:k].sum() - b[:k].sum())


STEPS = {OURS: block_step, "greedy": by_greedy, "active_set": by_active_set}


@lru_cache
def sweep_with(step: Any) -> Any:
    """Return the library's sweep with `step` in place of its block step.

    The library's kernels take no functions: the same code is compiled again, under other globals.
    """
    if step is block_step:
        return sweep_multiclass
    function = sweep_multiclass.py_func
    if block_step.__name__ not in function.__code__.co_names:
        raise RuntimeError("The sweep no longer calls block_step; this script has to follow it.")
    names = {**function.__globals__, block_step.__name__: step}
    twin = types.FunctionType(function.__code__, names, function.__name__)
    return numba.jit(**sweep_multiclass.targetoptions)(twin)


@contextmanager
def sweeping_with(step: Any) -> Iterator[None]:
    """Let multi-class problems be swept with another block step."""
    with patch.object(MulticlassProblem, "sweep_rows", staticmethod(sweep_with(step))):
        yield


# ------------------------------------------------------------------------------------- measuring


class Epoch(NamedTuple):
    seconds: float
    primal: float
    gap: float


@dataclass(frozen=True)
class Timed(MulticlassProblem):
    """A problem with a clock that stands still for certificates."""

    clock: Any = field(default_factory=types.SimpleNamespace)  # one for all costs

    def start(self) -> None:
        self.clock.first_cost = self.cost[0]
        self.clock.paused, self.clock.started = 0.0, thread_time()

    @property
    def seconds(self) -> float:
        return thread_time() - self.clock.started - self.clock.paused

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Let the clock stand still, unless it does already."""
        began, paused = thread_time(), self.clock.paused
        yield
        self.clock.paused = paused + thread_time() - began

    def sweep(self, **arguments: Any) -> tuple[float, float]:
        # The dual point as the solver has it, which with momentum is that of smaller costs.
        self.clock.alpha = arguments["alpha"]
        self.clock.scale = self.clock.first_cost / self.cost[0]
        return super().sweep(**arguments)

    def fill_weights(self, *args: Any, **named: Any) -> None:
        with self._paused():
            super().fill_weights(*args, **named)

    def totals(self, *args: Any, **named: Any) -> Any:
        with self._paused():
            return super().totals(*args, **named)

    def after_epoch(self) -> Epoch:
        seconds = self.seconds
        with self._paused():
            alpha = self.clock.alpha * self.clock.scale
            w, slack = np.empty(self.weights_shape), np.empty(self.n_rows)
            self.fill_weights(alpha, w)
            found = certificate_of(self, alpha, w, slack)
        return Epoch(seconds, found.primal, found.gap)


def make_problem(X: Any, y: Any, C: float) -> Timed:
    """Return the problem without intercept, as in the paper."""
    passes = Passes(as_rows(X, 0.0), Workers())
    classes, codes = np.unique(y, return_inverse=True)
    return Timed(passes, passes.sqnorms(), codes, np.full(len(y), C), False, len(classes))


def trace(
    problem: Timed, schedule: str, decay: float, cap: float, tol: float, max_iter: int = sys.maxsize
) -> list[Epoch]:
    """Return the epochs until the gap has decayed, or until `cap` seconds on the clock."""
    epochs: list[Epoch] = []

    def out_of_time() -> bool:
        return problem.seconds > cap

    def watch(progress: Any) -> bool:
        if not out_of_time():  # else the epoch was cut short
            epochs.append(problem.after_epoch())
        return out_of_time() or epochs[-1].gap <= decay * epochs[0].gap

    problem.start()
    solve(
        problem,
        solver="sweep",
        schedule=schedule,
        tol=tol,
        max_iter=max_iter,
        stop=out_of_time,
        watch=watch,
    )
    return epochs


def decay_times(epochs: Sequence[Epoch], decays: Sequence[float]) -> list[tuple[float, float]]:
    """Return, for each decay, the seconds and epochs until the gap had first decayed to it."""
    times = []
    for decay in decays:
        for number, epoch in enumerate(epochs, 1):
            if epoch.gap <= decay * epochs[0].gap:
                times.append((epoch.seconds, float(number)))
                break
        else:
            times.append((math.nan, math.nan))
    return times


def measure_run(
    X: Any, y: Any, C: float, schedule: str, step: str, decays: Sequence[float], cap: float
) -> list[tuple[float, float]]:
    """Return the decay times of one run."""
    few = np.unique(y, return_index=True)[1]
    problem, last = make_problem(X, y, C), min(decays)
    with sweeping_with(STEPS[step]):
        for tol in (1e-3, 1e-6):  # compile for weights in either precision
            trace(make_problem(X[few, :2], y[few], C), schedule, last, cap, tol, max_iter=1)
        # The solver works as its tolerance tells it to, so it gets the one that is asked for.
        first = trace(problem, schedule, last, cap, tol=1e-9, max_iter=1)
        if not first:
            return decay_times(first, decays)
        tol = last * first[0].gap / first[0].primal
        return decay_times(trace(problem, schedule, last, cap, tol), decays)


def measure(
    out: Path,
    data: Sequence[str],
    Cs: Sequence[float],
    schedule: str,
    steps: Sequence[str],
    decays: Sequence[float],
    repeats: int,
    cap: float,
) -> None:
    """Append what is missing in out; steps take turns, so that noise hits all alike."""
    for rep, name, C, step in itertools.product(range(repeats), data, Cs, steps):
        run = {"data": name, "C": C, "schedule": schedule, "rep": rep, "step": step}
        if holds(load(out, COLUMNS), run):
            continue
        X, y = load_data(name)
        times = measure_run(X, y, C, schedule, step, decays, cap)
        rows = [
            {**run, "classes": len(np.unique(y)), "decay": decay, "seconds": s, "epochs": e}
            for decay, (s, e) in zip(decays, times, strict=True)
        ]
        print(*run.values(), *(f"{row['seconds']:.3g}" for row in rows), flush=True)
        append(pd.DataFrame(rows)[COLUMNS], out)


# ------------------------------------------------------------------------------------- comparing


def compare(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per data set, C and decay: median seconds per step, and best other step / ours."""
    table = []
    for cell, runs in frame.groupby(["data", "C", "decay"], sort=False):
        seconds = runs.pivot_table(index="rep", columns="step", values="seconds", dropna=False)
        seconds = seconds.reindex(columns=list(STEPS))
        ratio = seconds.drop(columns=OURS).min(axis=1) / seconds[OURS]
        row = dict(zip(["data", "C", "target"], cell, strict=True))
        row |= {"ratio": ratio.median(), "low": ratio.min(), "high": ratio.max()}
        epochs = runs.loc[runs["step"] == OURS, "epochs"].median()
        table.append(row | seconds.median().to_dict() | {"epochs": epochs})
    return pd.DataFrame(table)


def against_authors(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (data, decay), theirs in AUTHORS.items():
        ours = table[(table["data"] == data) & (table["C"] == 1.0) & (table["target"] == decay)]
        for seconds in ours[OURS]:
            rows.append({"data": data, "target": decay, "authors": theirs, OURS: seconds})
            rows[-1]["ratio"] = theirs / seconds
    return pd.DataFrame(rows, columns=["data", "target", "authors", OURS, "ratio"])


def report(frame: pd.DataFrame, schedule: str, cap: float) -> str:
    table = compare(frame)
    return (
        f"Weston-Watkins, schedule {schedule}: seconds until the gap had decayed to `target` times "
        f"its value after the first epoch; - where {cap:g} seconds were not enough. `ratio` is the "
        f"faster of the other steps / {OURS}, `epochs` those of {OURS}.\n\n{markdown(table)}\n"
        "Geometric means; `no peer` and `not ours` count cells in which no other step, or not "
        f"ours, got there.\n\n{markdown(summarise(table, OURS))}\n"
        "Seconds reported for the authors' own C++ at C = 1, which was not run here, / ours.\n\n"
        f"{markdown(against_authors(table))}"
    )


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Draw the ratios of times as in the paper's Figure 2: below 1, ours is faster."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    table = compare(frame[frame["decay"] < FIRST_EPOCH])
    classes = frame.groupby("data")["classes"].first().sort_values()
    others = [step for step in STEPS if step != OURS and table[step].notna().any()]
    if not others:
        raise SystemExit(f"--picture needs runs of other steps than {OURS}.")
    jitter = np.random.default_rng(0)
    figure, axes = plt.subplots(
        1, len(others), figsize=(5.5 * len(others), 4), sharey=True, squeeze=False, layout="tight"
    )
    for axis, other in zip(axes[0], others, strict=True):
        for (target, rows), marker in zip(table.groupby("target", sort=False), "o^x", strict=False):
            x = classes.index.get_indexer(rows["data"]) + jitter.uniform(-0.25, 0.25, len(rows))
            ratio = rows[OURS] / rows[other]
            axis.scatter(x, ratio, s=16, marker=marker, label=f"gap decay {target:g}")
        axis.axhline(1.0, color="gray", linewidth=0.8)
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_ylabel(f"time of {OURS} / time of {other}")
        ticks = [f"{name}\n{k}" for name, k in classes.items()]
        axis.set_xticks(range(len(classes)), ticks, fontsize=8)
    axes[0, 0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["dna", "satimage", "letter"])
    parser.add_argument("--C", nargs="+", type=float, default=[2.0**e for e in range(-6, 4)])
    parser.add_argument("--schedule", choices=SCHEDULES, default="permuted")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--decays", nargs="+", type=float, default=[FIRST_EPOCH, 1e-1, 1e-2, 1e-3])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cap", type=float, default=120.0, help="seconds after which a run ends")
    parser.add_argument("--out", type=Path, default=HERE / "outputs" / "decay.csv")
    parser.add_argument("--table", type=Path, help="also write the tables to this file")
    parser.add_argument("--picture", type=Path, help="draw the ratios to this file")
    args = parser.parse_args(argv)

    measure(
        args.out,
        args.data,
        args.C,
        args.schedule,
        args.steps,
        args.decays,
        args.repeats,
        args.cap,
    )
    frame = load(args.out, COLUMNS)
    chosen = frame["data"].isin(args.data) & frame["C"].isin(args.C)
    frame = frame[chosen & (frame["schedule"] == args.schedule)]
    publish(report(frame, args.schedule, args.cap), args.table)
    if args.picture:
        draw(frame, args.picture)


if __name__ == "__main__":
    main()

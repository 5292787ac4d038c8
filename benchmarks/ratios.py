"""Time the contenders with benchopt, and compare them at equal primal suboptimality.

Results are one CSV row per fit. What the file already holds is not measured again, so a run can be
interrupted, widened and resumed; with ``--repeats 0`` the table is made from the file alone.
"""

import argparse
import contextlib
import itertools
import math
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pandas as pd
from benchmark_utils import BUNDLED, REGRESSION

HERE = Path(__file__).resolve().parent
OURS = "dualsweep[method=auto]"
REFERENCE = "reference"
CELL = ["data", "loss", "C"]
CLOCKS = {"time": "Seconds", "cpu": "Seconds of processor time"}
PACKAGES = [
    *("numpy", "scipy", "numba", "scikit-learn", "liblinear-official", "rehline", "skglm"),
    *("snapml", "vowpalwabbit", "piqp"),
]
COLUMNS = [*CELL, "solver", "rep", "tol", "time", "cpu", "value", "lower", "converged"]


# ------------------------------------------------------------------------------------ measuring


def load(path: Path, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    return pd.read_csv(path, comment="#") if path.exists() else pd.DataFrame(columns=columns)


def holds(frame: pd.DataFrame, run: dict[str, object]) -> bool:
    """Whether some row has these values."""
    return bool((frame[list(run)] == list(run.values())).all(axis=1).any())


def append(rows: pd.DataFrame, path: Path) -> None:
    """Append rows to a file, whose first line says where and when it was begun."""
    new = not path.exists()
    if new:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {machine()}\n")
    rows.to_csv(path, mode="a", header=new, index=False)


def machine() -> str:
    """Return a sentence on where, when and with what."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    libraries = []
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            libraries.append(f"{name} {version(name)}")
    return (
        f"Begun on {date.today()} on {cpu}, {os.cpu_count()} cores. "
        f"Python {platform.python_version()}, {', '.join(libraries)}."
    )


def about(path: Path) -> str:
    """Return what a file says of where and when it was begun."""
    with path.open() as lines:
        return next(lines).removeprefix("# ")


def in_cell(frame: pd.DataFrame, data: str, loss: str, C: float) -> pd.DataFrame:
    return frame[(frame["data"] == data) & (frame["loss"] == loss) & (frame["C"] == C)]


def is_measured(rows: pd.DataFrame, solver: str) -> bool:
    """Whether rows hold this solver, given with or without its parameters in brackets."""
    return any(name == solver or name.startswith(f"{solver}[") for name in rows["solver"])


def dataset(data: str, loss: str) -> str:
    """Return benchopt's name of some data."""
    if loss in REGRESSION:
        return f"regression[data={data}]"
    if data in BUNDLED:
        return f"bundled[data={data}]"
    return data if data.startswith("simulated") else f"real[data={data}]"


def run(
    solvers: Sequence[str], data: str, loss: str, C: float, stop_at: float | None, cap: float
) -> pd.DataFrame:
    """Run each solver's ladder of tolerances once, in this process and environment."""
    from benchopt import run_benchmark
    from benchopt.benchmark import Benchmark
    from benchopt.results import read_results

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        try:
            path = run_benchmark(
                Benchmark(HERE, seed=0, no_cache=True),
                solver_names=list(solvers),
                dataset_names=[dataset(data, loss)],
                objective_filters=[{"SVM": {"loss": loss, "C": C, "stop_at": stop_at}}],
                max_runs=100,  # a ladder ends by itself
                timeout=cap,
                plot_result=False,
                show_progress=False,
                output_file=f"{folder}/run.parquet",
            )
        except RuntimeError:  # benchopt's word for no rows at all: it has printed why
            return pd.DataFrame(columns=COLUMNS)
        rows = read_results(path)
    rows = rows.rename(columns={"solver_name": "solver", "stop_val": "tol"})
    rows = rows.rename(columns=lambda name: name.removeprefix("objective_"))
    return rows.assign(data=data, loss=loss, C=C)


def measure(
    out: Path,
    data: Sequence[str],
    losses: Sequence[str],
    Cs: Sequence[float],
    solvers: Sequence[str],
    repeats: int,
    cap: float,
    floor: float,
) -> None:
    """Append what is missing in out; contenders take turns, so that noise hits all alike."""
    for rep, *cell in itertools.product(range(repeats), data, losses, Cs):
        if not is_measured(in_cell(load(out), *cell), REFERENCE):
            rows = run([REFERENCE], *cell, stop_at=None, cap=cap)
            append(rows.assign(rep=rep)[COLUMNS], out)
        rows = in_cell(load(out), *cell)
        missing = [s for s in solvers if not is_measured(rows[rows["rep"] == rep], s)]
        if missing:
            best = rows["value"].min()
            stop_at = None if math.isnan(best) else best * (1.0 + floor)
            rows = run(missing, *cell, stop_at=stop_at, cap=cap)
            append(rows.assign(rep=rep)[COLUMNS], out)


# ------------------------------------------------------------------------------------ comparing


def compare(
    frame: pd.DataFrame, targets: Sequence[float], ours: str = OURS, clock: str = "time"
) -> pd.DataFrame:
    """One row per cell and target: median seconds per contender, and best peer / ours.

    A contender's time is that of its fastest fit at most ``target`` above the best value known,
    relative to it. The ratio is taken within a repeat; ``ratio`` is its median over the repeats,
    ``low`` and ``high`` its range. ``unsure`` is how far below the best value known the optimum
    could still be, by the best proven bound.
    """
    table = []
    for cell, runs in frame.groupby(CELL, sort=False):
        best = runs["value"].min()
        unsure = (best - runs["lower"].max()) / best
        runs = runs[runs["solver"] != REFERENCE]
        for target in targets:
            hits = runs[runs["value"] <= best * (1.0 + target)]
            times = hits.pivot_table(index="rep", columns="solver", values=clock, aggfunc="min")
            times = times.reindex(columns=sorted(runs["solver"].unique()))
            peers = times[[name for name in times if not name.startswith("dualsweep")]]
            ratio = peers.min(axis=1) / times.get(ours, np.nan)
            row = dict(zip(CELL, cell, strict=True), target=target, unsure=unsure)
            row |= {"ratio": ratio.median(), "low": ratio.min(), "high": ratio.max()}
            table.append(row | times.median().to_dict())
    return pd.DataFrame(table)


def summarise(table: pd.DataFrame, ours: str = OURS) -> pd.DataFrame:
    """Geometric means of the ratios, per target: each data set's, and that over all cells.

    Cells without a ratio are counted, by whose fault it is, since a mean cannot hold them.
    """
    groups = [(name, rows) for name, rows in table.groupby("data", sort=False)]
    summary = []
    for target in table["target"].unique():
        for name, rows in [*groups, ("all", table)]:
            rows = rows[rows["target"] == target]
            ratio = rows["ratio"].dropna()
            missed = rows[ours].isna() if ours in rows else pd.Series(True, rows.index)
            summary.append(
                {
                    "data": name,
                    "target": target,
                    "ratio": float(np.exp(np.log(ratio).mean())) if len(ratio) else math.nan,
                    "worst": ratio.min(),
                    "cells": len(ratio),
                    "no peer": int((rows["ratio"].isna() & ~missed).sum()),
                    "not ours": int(missed.sum()),
                }
            )
    return pd.DataFrame(summary)


def markdown(table: pd.DataFrame) -> str:
    def show(value: object) -> str:
        if isinstance(value, float):
            return "-" if math.isnan(value) else f"{value:.3g}"
        return str(value)

    rows = [table.columns, ["---"] * table.shape[1], *table.itertuples(index=False)]
    return "".join("| " + " | ".join(map(show, row)) + " |\n" for row in rows)


def publish(text: str, path: Path | None) -> None:
    """Print the text, and write it to the file if there is one."""
    print(text)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def report(
    frame: pd.DataFrame, targets: Sequence[float], ours: str = OURS, clock: str = "time"
) -> str:
    table = compare(frame, targets, ours, clock)
    return (
        f"{CLOCKS[clock]} to reach `target` above the optimum, medians over "
        f"{frame['rep'].nunique()} repeats; `ratio` is best peer / {ours}, from `low` to `high` "
        "over the repeats.\n\n"
        f"{markdown(table)}\n"
        "Geometric means; `no peer` and `not ours` count cells in which no peer, or not ours, "
        f"got there.\n\n{markdown(summarise(table, ours))}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["simulated"])
    parser.add_argument("--loss", nargs="+", default=["hinge", "squared_hinge"])
    parser.add_argument("--C", nargs="+", type=float, default=[1.0])
    parser.add_argument(
        "--solvers", nargs="+", default=["dualsweep", "liblinear", "sklearn", "rehline"]
    )
    parser.add_argument("--ours", default=OURS, help="the contender peers are compared with")
    parser.add_argument("--targets", nargs="+", type=float, default=[1e-2, 1e-3])
    parser.add_argument(
        "--clock", choices=CLOCKS, default="time", help="cpu: less disturbed by others"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--cap", type=float, default=60.0, help="a fit of more seconds is a contender's last"
    )
    parser.add_argument(
        "--floor", type=float, default=1e-6, help="no more accuracy below this suboptimality"
    )
    parser.add_argument("--out", type=Path, default=HERE / "outputs" / "ratios.csv")
    parser.add_argument("--table", type=Path, help="also write the tables to this file")
    args = parser.parse_args(argv)

    measure(
        args.out, args.data, args.loss, args.C, args.solvers, args.repeats, args.cap, args.floor
    )
    frame = load(args.out)
    chosen = frame["data"].isin(args.data) & frame["loss"].isin(args.loss) & frame["C"].isin(args.C)
    publish(report(frame[chosen], args.targets, args.ours, args.clock), args.table)


if __name__ == "__main__":
    main()

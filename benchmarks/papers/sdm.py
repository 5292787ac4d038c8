"""Keerthi et al. 2008: shrinking and cooling, the systems compared with, and one versus the rest.

Fills the tables of docs/papers/sdm.md and draws its pictures. Checkpoints are appended to CSV files
and never measured twice, so that it can be run in pieces: `--parts others --data mnist`.
"""

import math
from collections.abc import Sequence
from time import process_time

import numpy as np
import pandas as pd
from ratios import about, markdown
from threadpoolctl import threadpool_limits

from papers import pages, tracing

OUT = tracing.OUTPUTS / "paper-sdm.csv"
PAGE = pages.DOCS / "sdm.md"
DATA = ["news20", "sector", "mnist", "covtype"]
UNSCALED = ["mnist", "covtype"]  # those of Figures 1, 4 and 5
OTHER_C = [0.1, 10.0]  # of Figure 2, on mnist
FLOOR = 1e-5
TARGETS = [0.1, 0.01, 0.001]

HEURISTICS = {
    "SDM": ("sweeps", {"schedule": "alternating"}),
    "SDM, no heuristics": ("sweeps", {"schedule": "permuted"}),
}
OTHERS = {
    "EG": ("exponentiated_gradient", {}),
    "bundle": ("bundle", {}),
    "most violating row": ("most_violating", {}),
}
FORMULATIONS = {"one_versus_rest": "OVR", "crammer_singer": "CS", "weston_watkins": "WW"}


def task(data: str, loss: str, C: float = 1.0) -> tracing.Task:
    """Return a problem of the paper, which has no intercepts."""
    return tracing.Task(data, loss, C, fit_intercept=False)


# ------------------------------------------------------------------------------------- measuring


def measure_heuristics(data: Sequence[str], cap: float) -> None:
    """Figures 1 and 4."""
    tasks = [task(name, "crammer_singer") for name in data]
    tasks += [task(name, "weston_watkins") for name in data if name in UNSCALED]
    tracing.measure(OUT, tasks, HEURISTICS, cap, FLOOR)


def measure_others(data: Sequence[str], cap: float) -> None:
    """Figures 2 and 3."""
    tracing.measure(OUT, [task(name, "crammer_singer") for name in data], OTHERS, cap, FLOOR)
    tasks = [task(name, "crammer_singer", C) for name in data if name == "mnist" for C in OTHER_C]
    tracing.measure(OUT, tasks, HEURISTICS | OTHERS, cap, FLOOR)


def measure_one_versus_rest(data: Sequence[str], cap: float) -> None:
    for name in data:
        problem = task(name, "one_versus_rest")
        if name in UNSCALED and not tracing.is_there(OUT, problem, "OVR", 0):
            tracing.append(one_versus_rest(name, cap), problem, "OVR", 0, OUT)


def one_versus_rest(data: str, cap: float) -> list[dict[str, object]]:
    """Return checkpoints of one sweep for each class, then a second, and so on."""
    X, y, X_test, y_test = tracing.load_split(data, False)
    rows, seconds = [], 0.0
    with threadpool_limits(1):
        runs = []
        for m in np.unique(y):
            own = np.where(y == m, 1, -1)
            split = tracing.Split(X, own, X_test, y_test)
            system = tracing.make_system(
                "sweeps", {"schedule": "shrinking"}, task(data, "hinge"), split
            )
            runs.append(system.points(X, own))
        while seconds < cap:
            began = process_time()
            points = [next(run) for run in runs]
            seconds += process_time() - began
            coef = np.array([point.w for point in points])
            score = tracing.accuracy(coef, np.zeros(len(coef)), X_test, y_test)
            passes = float(np.mean([point.passes for point in points]))
            rows.append(
                {"seconds": seconds, "passes": passes, "value": math.nan, "accuracy": score}
            )
    return rows


PARTS = {
    "heuristics": measure_heuristics,
    "others": measure_others,
    "one-versus-rest": measure_one_versus_rest,
}


# ------------------------------------------------------------------------------------- reporting


def compare_heuristics(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per task and accuracy: passes with and without, and how much that gains."""
    rows = []
    frame = frame[frame["system"].isin(HEURISTICS)]
    for target in TARGETS:
        table, shown = (f(frame, target, by="passes") for f in (pages.times, pages.show_times))
        for i, row in shown.iterrows():
            rows.append(
                {
                    "data": row["data"],
                    "formulation": FORMULATIONS[row["loss"]],
                    "C": row["C"],
                    "above the optimum": target,
                    "with": row["SDM"],
                    "without": row["SDM, no heuristics"],
                    "without / with": table["SDM, no heuristics"][i] / table["SDM"][i],
                }
            )
    return pd.DataFrame(rows).sort_values(["formulation", "data", "C"], kind="stable")


def compare_systems(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per task and accuracy: passes of each system of Crammer-Singer."""
    tables = []
    frame = frame[frame["loss"] == "crammer_singer"]
    for target in TARGETS[1:]:
        table = pages.show_times(frame, target, by="passes")
        table.insert(2, "above the optimum", target)
        tables.append(table.drop(columns=["loss", "intercept", "SDM, no heuristics"]))
    return pd.concat(tables).sort_values(["data", "C"], kind="stable")


def compare_accuracies(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per data set: passes until the test accuracy stays near where it ends, and where."""
    rows = []
    for name in UNSCALED:
        row: dict[str, object] = {"data": name}
        for loss, label in FORMULATIONS.items():
            run = frame[
                (frame["data"] == name)
                & (frame["loss"] == loss)
                & (frame["C"] == 1.0)
                & frame["system"].isin(["OVR", "SDM"])
            ]
            if len(run):
                last = run["accuracy"].iloc[-1]
                off = (run["accuracy"] - last).abs() > 0.005
                settled = run["passes"][~off[::-1].cummax()[::-1]].min()
                row[f"{label}, passes"] = settled
                row[f"{label}, accuracy %"] = f"{100 * last:.2f}"
        rows.append(row)
    return pd.DataFrame(rows)


def report() -> None:
    """Fill in and draw what has been measured so far."""
    frame = pages.read(OUT)
    frame = frame[frame["system"].isin([*HEURISTICS, *OTHERS, "OVR"])]
    at_1 = frame[frame["C"] == 1.0]
    unscaled = at_1[at_1["data"].isin(UNSCALED)]
    joint = frame[frame["loss"] == "crammer_singer"]

    def picture(name: str, cells: pd.DataFrame, x: str, y: str, systems: Sequence[str], **more):
        cells = cells[cells["system"].isin(systems)]
        if len(cells):
            pages.draw(cells, x, y, pages.DOCS / f"sdm-figure-{name}.png", systems, **more)

    errors = {"ylim": (FLOOR, 100.0)}
    for loss, name in (("crammer_singer", "1"), ("weston_watkins", "4")):
        cells = unscaled[unscaled["loss"] == loss]
        picture(name, cells, "passes", "error", list(HEURISTICS), **errors)
    systems = ["SDM", *OTHERS]
    picture("3", joint[joint["C"] == 1.0], "passes", "error", systems, **errors)
    limits = {"line": 0.0, "ylim": (-30.0, 5.0)}
    cells = joint[joint["C"] == 1.0]
    picture("3-accuracy", cells, "passes", "difference", systems, **limits)
    mnist = joint[joint["data"] == "mnist"].sort_values("C", kind="stable")
    mnist = mnist.assign(data=[f"mnist, C = {C:g}" for C in mnist["C"]])
    picture("2", mnist, "passes", "error", systems, **errors)
    formulations = unscaled[unscaled["system"].isin(["OVR", "SDM"])]
    formulations = formulations.assign(
        system=formulations["loss"].map(FORMULATIONS),
        loss="C = 1",
        accuracy=100.0 * formulations["accuracy"],
    )
    picture("5", formulations, "passes", "accuracy", list(FORMULATIONS.values()))

    losses = frame[frame["loss"] != "one_versus_rest"]
    unsure = losses.groupby(pages.TASK, sort=False)["unsure"].first().reset_index()
    for name, table in {
        "heuristics": compare_heuristics(losses),
        "systems": compare_systems(frame),
        "accuracies": compare_accuracies(frame),
        "unsure": unsure.drop(columns="intercept"),
    }.items():
        pages.fill(PAGE, name, markdown(table))
    pages.fill(PAGE, "machine", about(OUT))


def main(argv: Sequence[str] | None = None) -> None:
    pages.measure_and_report(argv, __doc__, PARTS, DATA, 8.0, report)


if __name__ == "__main__":
    main()

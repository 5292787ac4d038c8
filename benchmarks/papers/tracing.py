"""Run systems, and write down where they were when."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import ratios
from benchmark_utils import BINARY, POSITIVE, load_data, read_npz
from objective import MORE_ITERATIONS, RUNG, primal
from ratios import HERE, REFERENCE
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

OUTPUTS = HERE / "outputs"
COLUMNS = [
    *("data", "loss", "C", "intercept", "system", "rep", "seconds", "passes", "steps"),
    *("violation", "value", "lower", "accuracy"),
]
REFERENCE_TOL, REFERENCE_SECONDS = 1e-8, 60.0
KNOWN = 0.99  # of the best value, that has to be proven for runs to end near it
SPACING = 1.1  # a checkpoint takes a pass over the data: each this much later than the last


class Task(NamedTuple):
    """A problem of the papers."""

    data: str
    loss: str
    C: float
    fit_intercept: bool = True

    @property
    def cell(self) -> dict[str, object]:
        """The columns of a file that are the task's."""
        return dict(zip(("data", "loss", "C", "intercept"), self, strict=True))


class Split(NamedTuple):
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


@lru_cache(maxsize=1)
def load_split(data: str, binary: bool) -> Split:
    """Return rows to train and to test on: those that come with the data, or 4/5 and 1/5 of it."""
    X, y = load_data(data)
    path = Path(os.environ["DUALSWEEP_DATA"]) / f"{data}.t.npz"
    if binary:
        y = np.where(y == POSITIVE[data], 1, -1)
    if path.exists():
        X_test, y_test = read_npz(path)
        width = max(X.shape[1], X_test.shape[1])
        X.resize(X.shape[0], width)
        X_test.resize(X_test.shape[0], width)
        if binary:
            y_test = np.where(y_test == POSITIVE[data], 1, -1)
    else:
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    if not binary:
        classes = np.unique(y)
        y, y_test = np.searchsorted(classes, y), np.searchsorted(classes, y_test)
    return Split(X, y, X_test, y_test)


def accuracy(coef: np.ndarray, intercept: np.ndarray, X: Any, y: np.ndarray) -> float:
    scores = X @ np.asarray(coef, dtype=np.float64).T + intercept
    guess = np.where(scores[:, 0] > 0, 1, -1) if len(coef) == 1 else scores.argmax(axis=1)
    return float(np.mean(guess == y))


@lru_cache(maxsize=1)
def solvers() -> dict[str, Any]:
    from benchopt.benchmark import Benchmark

    return {cls.name: cls for cls in Benchmark(HERE, seed=0, no_cache=True).get_solvers()}


def make_system(name: str, parameters: Mapping[str, Any], task: Task, split: Split) -> Any:
    """Return a contender that knows the problem and is compiled."""
    for purpose in ("warm up", "run"):  # a fit leaves traces in a contender
        system = solvers()[name].get_instance(**parameters)
        system.fit_intercept = task.fit_intercept
        skip, why = system.skip(split.X, split.y, task.loss, task.C)
        if skip:
            raise ValueError(why)
        system.set_objective(split.X, split.y, task.loss, task.C)
        if purpose == "warm up":
            system.warm_up()
    return system


def checkpoints(system: Any, X: Any, y: Any, cap: float) -> Iterator[tuple[Any, dict[str, float]]]:
    """Yield (coef, intercept) and figures, until `cap` processor seconds have been spent.

    Whoever reads them takes no time off the clock, nor does the copy of the rows that an
    `Iterative` starts from.
    """
    if not hasattr(system, "points"):
        yield from fits(system, cap)
        return
    points, tol = system.points(X, y), getattr(system, "tol", 0.0)
    seconds, due, resumed = 0.0, 0.0, process_time()
    for point in points:
        seconds += process_time() - resumed
        over = seconds > cap or point.violation <= tol
        if seconds >= due or over:
            due = SPACING * seconds
            yield (
                system.split(point.w),
                {
                    "seconds": seconds,
                    "passes": point.passes,
                    "steps": point.steps,
                    "violation": point.violation,
                },
            )
        if over:
            return
        resumed = process_time()


def fits(system: Any, cap: float) -> Iterator[tuple[Any, dict[str, float]]]:
    """Yield the fits of a ladder of tolerances, as `objective.Ladder` climbs it."""
    tol = system.first_tol
    while True:
        system.run(tol)
        result = system.get_result()
        figures = {"seconds": system.cpu, "violation": tol}
        yield (result["coef"], result["intercept"]), figures
        if system.cpu > cap or (system.converged and tol <= system.last_tol):
            return
        if system.converged:
            tol = max(tol / RUNG, system.last_tol)
        elif system.max_iter is None:
            return
        else:
            system.max_iter *= MORE_ITERATIONS


def trace(
    name: str, parameters: Mapping[str, Any], task: Task, cap: float, enough: float = -math.inf
) -> list[dict[str, object]]:
    """Return the checkpoints of one run, until the objective is `enough` or time is up."""
    split = load_split(task.data, task.loss in BINARY)
    rows: list[dict[str, object]] = []
    with threadpool_limits(1):
        system = make_system(name, parameters, task, split)
        for model, figures in checkpoints(system, split.X, split.y, cap):
            value = primal(split.X, split.y, task.loss, task.C, *model)
            score = accuracy(*model, split.X_test, split.y_test)
            rows.append({**figures, "value": value, "accuracy": score})
            if value <= enough:
                break
    return rows


def reference(task: Task, tol: float) -> list[dict[str, object]]:
    """Return the optimum, as it is bracketed by a long fit and its certificate."""
    split = load_split(task.data, task.loss in BINARY)
    system = make_system("reference", {}, task, split)
    system.max_iter, system.max_time = 100_000, REFERENCE_SECONDS
    system.run(tol)
    result = system.get_result()
    model = result["coef"], result["intercept"]
    value = primal(split.X, split.y, task.loss, task.C, *model)
    score = accuracy(*model, split.X_test, split.y_test)
    return [{"seconds": system.cpu, "value": value, "lower": system.lower, "accuracy": score}]


def measure(
    out: Path,
    tasks: Sequence[Task],
    systems: Mapping[str, tuple[str, Mapping[str, Any]]],
    cap: float,
    floor: float,
    repeats: int = 1,
    reference_tol: float = 1e-8,
) -> None:
    """Append what is missing in `out`: the optimum of each task, then system after system.

    A run ends when it is `floor` above the optimum, relative to it, or has taken `cap` seconds. In
    a second repeat all systems run once more, after all others: noise hits them alike.
    """
    for rep in range(repeats):
        for task in tasks:
            if not is_there(out, task, REFERENCE, 0):
                append(reference(task, reference_tol), task, REFERENCE, 0, out)
            frame = load(out)
            cell = (frame[list(task.cell)] == list(task.cell.values())).all(axis=1)
            best, bound = frame.loc[cell, "value"].min(), frame.loc[cell, "lower"].max()
            enough = best * (1.0 + floor) if bound >= KNOWN * best else -math.inf
            for label, (name, parameters) in systems.items():
                if not is_there(out, task, label, rep):
                    append(trace(name, parameters, task, cap, enough), task, label, rep, out)


def is_there(out: Path, task: Task, system: str, rep: int) -> bool:
    return ratios.holds(load(out), {**task.cell, "system": system, "rep": rep})


def load(path: Path) -> pd.DataFrame:
    return ratios.load(path, COLUMNS)


def append(rows: list[dict[str, object]], task: Task, system: str, rep: int, out: Path) -> None:
    frame = pd.DataFrame([{**task.cell, "system": system, "rep": rep, **row} for row in rows])
    ratios.append(frame.reindex(columns=COLUMNS), out)
    print(*task, system, f"{rows[-1]['seconds']:.3g} s", f"{rows[-1]['value']:.9g}", flush=True)

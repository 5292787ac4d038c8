"""Time searches for C, each contender in a process of its own, and compare them.

A cell is a data set, a formulation and a grid of C. Per cell, `GridSearchCV` with scikit-learn's
`LinearSVC` runs first, and its models for each C, trained once more on all rows, say how far above
the optimum they are. dualsweep then searches at the loosest tolerance of a ladder at which its own
are no further above, for any C. Searches and fits are appended to two CSV files and never measured
twice, so a run can be interrupted and resumed; ``--report`` only makes the table.
"""

import argparse
import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ratios import markdown

HERE = Path(__file__).resolve().parent
GRIDS = {"walrus": 2.0 ** np.arange(-6, 4), "avsf": np.geomspace(0.01, 1000, 10)}
POSITIVE = {"blogs": 34}  # the class that is told from the rest
CELLS = {
    "a9a": ["squared_hinge", "hinge"],
    "imdb": ["squared_hinge", "hinge"],
    "blogs": ["squared_hinge", "hinge"],
    "mnist": ["squared_hinge"],
    "20news": ["squared_hinge", "crammer_singer", "weston_watkins"],
}
OURS, EARLY, COLD, PEER, LIBLINEAR = "dualsweep", "early stop", "cold", "sklearn", "liblinear -C"
REFERENCE = "reference"
CELL = ["data", "model", "grid"]
SEARCHES = [*CELL, "contender", "tol", "rep", "seconds", "capped", "peak_mb", "C", "scores"]
FITS = [*CELL, "contender", "tol", "C", "primal", "dual"]
REFERENCE_TOL = 1e-7
N_JOBS = 2
FOLDS = 5


# ------------------------------------------------------------- in the process of one contender


def load(data: str) -> tuple[Any, np.ndarray]:
    """Return X and y of a file, or of generated text if `data` is "simulated"."""
    if data == "simulated":
        from dualsweep.datasets import make_text_like

        return make_text_like(1000, 300, n_classes=3, random_state=0)
    from scipy.sparse import csr_matrix

    with np.load(Path(os.environ["DUALSWEEP_DATA"]) / f"{data}.npz") as z:
        X, y = csr_matrix((z["data"], z["indices"], z["indptr"]), shape=z["shape"]), z["y"]
    return X, (y == POSITIVE[data]).astype(int) if data in POSITIVE else y


def parameters(model: str) -> dict[str, Any]:
    """Return loss and formulation as parameters of either library."""
    if model in ("hinge", "squared_hinge"):
        return {"loss": model}
    return {"multi_class": model}


def primal(X: Any, y: np.ndarray, model: Any, kind: str, C: float) -> float:
    """Return the objective of a fitted model, in float64, block by block."""
    coef, intercept, classes = model.coef_, model.intercept_, model.classes_
    codes = np.searchsorted(classes, y)
    losses = 0.0
    for start in range(0, X.shape[0], 4096):
        rows = slice(start, start + 4096)
        scores = X[rows].astype(np.float64) @ coef.T + intercept
        own = codes[rows]
        if kind in ("hinge", "squared_hinge"):
            signs = np.where(
                own[:, None] == (np.arange(len(classes)) if len(coef) > 1 else 1), 1, -1
            )
            slack = np.maximum(0.0, 1.0 - signs * scores)
            losses += float((slack if kind == "hinge" else slack**2).sum())
        else:
            t = 1.0 + scores - np.take_along_axis(scores, own[:, None], axis=1)
            np.put_along_axis(t, own[:, None], 0.0, axis=1)
            t = np.maximum(t, 0.0)
            losses += float((t.max(axis=1) if kind == "crammer_singer" else t.sum(axis=1)).sum())
    return 0.5 * float((coef**2).sum() + (intercept**2).sum()) + C * losses


def searcher(contender: str, kind: str, tol: float, Cs: np.ndarray) -> Any:
    """Return an unfitted search for C."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC as SklearnLinearSVC

    from dualsweep import LinearSVC, LinearSVCCV

    options = {"tol": tol, "max_iter": 1000, "random_state": 0, **parameters(kind)}
    if contender in (OURS, EARLY):
        patience = 3 if contender == EARLY else None
        return LinearSVCCV(Cs=Cs, cv=FOLDS, patience=patience, n_jobs=N_JOBS, **options)
    model = LinearSVC(**options) if contender == COLD else SklearnLinearSVC(**options)
    return GridSearchCV(model, {"C": Cs}, cv=FOLDS, n_jobs=N_JOBS)


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def search(data: str, model: str, grid: str, contender: str, tol: float) -> None:
    """Search for C, and tell how long it took."""
    X, y = load(data)
    Cs = GRIDS[grid]
    if contender == LIBLINEAR:
        return search_with_liblinear(X, y, Cs)
    few = np.concatenate([np.flatnonzero(y == label)[:FOLDS] for label in np.unique(y)])
    for warm_tol in (tol, 1e-2, 1e-6):  # there is code for loose and for tight tolerances
        warm = searcher(contender, model, warm_tol, Cs[:2]).fit(X[few], y[few])
    if contender in (OURS, EARLY):  # and for Newton steps, which so few rows do without
        warm.set_params(solver="newton").fit(X[few], y[few])
    say(ready=True)
    started = time.perf_counter()
    found = searcher(contender, model, tol, Cs).fit(X, y)
    seconds = time.perf_counter() - started
    if contender in (OURS, EARLY):
        say(seconds=seconds, C=found.C_, scores=found.mean_score_.tolist())
    else:
        scores = found.cv_results_["mean_test_score"].tolist()
        say(seconds=seconds, C=float(found.best_params_["C"]), scores=scores)


def search_with_liblinear(X: Any, y: np.ndarray, Cs: np.ndarray) -> None:
    """Run LIBLINEAR's own search, which goes on to C = 1024 unless it stops by itself."""
    from liblinear.liblinear import PRINT_STRING_FUN, parameter, problem
    from liblinear.liblinearutil import train

    scores: dict[float, float] = {}

    def report() -> None:
        best = max(scores, key=lambda C: (scores[C], -C))
        say(seconds=time.perf_counter() - started, C=best, scores=list(scores.values()))

    def listen(text: bytes) -> None:
        if text.startswith(b"log2c="):
            C, rate = (float(part.split(b"=")[1]) for part in text.split(b"\t"))
            scores[2.0**C] = rate / 100
            if Cs[-1] <= 2.0**C:
                report()
                os._exit(0)

    say(ready=True)
    started = time.perf_counter()
    options = parameter(f"-C -s 2 -c {Cs[0]} -v {FOLDS} -B 1")
    options.print_func = PRINT_STRING_FUN(listen)
    train(problem(y, X), options)
    report()


def fit(data: str, model: str, grid: str, contender: str, tol: float, cap: float) -> None:
    """Train on all rows for each C, and tell the objectives."""
    from sklearn.svm import LinearSVC as SklearnLinearSVC

    from dualsweep import LinearSVC, svc_path

    X, y = load(data)
    Cs = GRIDS[grid]
    options = {"tol": tol, "max_iter": 1000, "random_state": 0, **parameters(model)}
    say(ready=True)
    if contender == PEER:
        models = (SklearnLinearSVC(C=C, **options).fit(X, y) for C in Cs)
    elif (
        contender == REFERENCE
    ):  # however many sweeps it takes, but each C in its share of the time
        options |= {"max_iter": 10**9, "max_time": cap / len(Cs) / 2}
        fitted = LinearSVC(warm_start=True, n_jobs=N_JOBS, **options)
        models = (fitted.set_params(C=C).fit(X, y) for C in Cs)
    else:
        models = iter(svc_path(X, y, Cs, n_jobs=N_JOBS, max_time=0.9 * cap, **options).models)
    for C, fitted in zip(Cs, models, strict=True):
        lower = getattr(fitted, "dual_objective_", None)
        say(C=C, primal=primal(X, y, fitted, model, C), dual=lower)


# ------------------------------------------------------------------------------------ measuring


def run(task: str, cell: tuple[str, str, str], contender: str, tol: float, cap: float) -> Any:
    """Run a task in a process; return what it said, its peak memory in MB, and if it was stopped.

    Memory is that of the process and its children, shared pages counted once. The time that
    loading the data and warming up take does not count towards `cap`.
    """
    import psutil

    what = [task, *cell, contender, tol, *([cap] if task == "fit" else [])]
    command = [sys.executable, __file__, "--task", json.dumps(what)]
    said, peak, deadline, capped = [], 0, math.inf, False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        lines: queue.Queue[str | None] = queue.Queue()

        def read() -> None:
            for line in child.stdout:
                lines.put(line)
            lines.put(None)

        reader = threading.Thread(target=read)
        reader.start()
        while True:
            try:
                line = lines.get(timeout=0.1)
            except queue.Empty:
                peak = max(peak, memory(psutil.Process(child.pid)))
                if time.perf_counter() > deadline:
                    capped = True
                    stop(psutil.Process(child.pid))
                    deadline = math.inf
                continue
            if line is None:
                break
            if line.startswith("{"):  # LIBLINEAR has a word too
                facts = json.loads(line)
                if "ready" in facts:
                    deadline = time.perf_counter() + cap
                else:
                    said.append(facts)
        reader.join()
    if child.returncode != 0 and not capped:
        raise RuntimeError(f"{task} of {contender} on {cell} ended with code {child.returncode}")
    return said, peak / 1e6, capped


def memory(process: Any) -> int:
    """Return the proportional set size of a process and its children, in bytes."""
    import psutil

    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def stop(process: Any) -> None:
    """Stop a process and its children."""
    family = [*process.children(recursive=True), process]
    for one in family:
        one.kill()


def read_csv(path: Path, columns: list[str]) -> pd.DataFrame:
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=columns)


def rows_of(frame: pd.DataFrame, **where: Any) -> pd.DataFrame:
    for column, value in where.items():
        frame = frame[frame[column] == value]
    return frame


class Measurements:
    """The two files, and what is still missing in them."""

    def __init__(self, out: Path, cap: float) -> None:
        self.searches_csv, self.fits_csv = out.with_suffix(".csv"), out.with_suffix(".fits.csv")
        self.cap = cap
        out.parent.mkdir(parents=True, exist_ok=True)

    @property
    def searches(self) -> pd.DataFrame:
        return read_csv(self.searches_csv, SEARCHES)

    @property
    def fits(self) -> pd.DataFrame:
        return read_csv(self.fits_csv, FITS)

    def search(self, cell: tuple[str, str, str], contender: str, tol: float, rep: int) -> None:
        key = dict(zip(CELL, cell, strict=True), contender=contender, tol=tol, rep=rep)
        if len(rows_of(self.searches, **key)):
            return
        said, peak, capped = run("search", cell, contender, tol, self.cap)
        facts = said[0] if said else {"seconds": self.cap, "C": math.nan, "scores": []}
        facts["scores"] = json.dumps(facts["scores"])
        append(self.searches_csv, [{**key, **facts, "capped": capped, "peak_mb": peak}], SEARCHES)

    def fit(self, cell: tuple[str, str, str], contender: str, tol: float) -> None:
        key = dict(zip(CELL, cell, strict=True), contender=contender, tol=tol)
        if len(rows_of(self.fits, **key)):
            return
        said, _, _ = run("fit", cell, contender, tol, self.cap)
        missing = [{"C": C} for C in GRIDS[cell[2]][len(said) :]]  # stopped at the cap
        append(self.fits_csv, [{**key, **facts} for facts in said + missing], FITS)


def append(path: Path, rows: list[dict[str, Any]], columns: list[str]) -> None:
    frame = pd.DataFrame(rows).reindex(columns=columns)
    frame.to_csv(path, mode="a", header=not path.exists(), index=False)


def excess(fits: pd.DataFrame, contender: str, tol: float) -> np.ndarray:
    """Return how far above the best objective known a contender is for each C; inf if it was slow.

    `fits` are those of one cell.
    """
    best = fits.groupby("C")["primal"].min()
    own = rows_of(fits, contender=contender, tol=tol).groupby("C")["primal"].min()
    return (own.reindex(best.index) / best - 1.0).fillna(math.inf).to_numpy()


def has_peer(model: str) -> bool:
    return model != "weston_watkins"


def tol_as_good(fits: pd.DataFrame, tols: list[float], peer_tol: float, floor: float) -> float:
    """Return the loosest of our tolerances that is as good as the peer for each C, or nan.

    Less than `floor` above the optimum is as good as any.
    """
    peer = np.maximum(excess(fits, PEER, peer_tol), floor)
    for tol in sorted(tols, reverse=True):
        if len(rows_of(fits, contender=OURS, tol=tol)) and (excess(fits, OURS, tol) <= peer).all():
            return tol
    return math.nan


def measure(args: argparse.Namespace, files: Measurements) -> None:
    for rep in range(args.repeats):
        for data in args.data:
            for model in args.model or CELLS.get(data, ["squared_hinge"]):
                for grid in args.grid:
                    measure_cell((data, model, grid), rep, args, files)


def measure_cell(
    cell: tuple[str, str, str], rep: int, args: argparse.Namespace, files: Measurements
) -> None:
    tol = args.tols[0]
    if has_peer(cell[1]):
        files.search(cell, PEER, args.peer_tol, rep)
        files.fit(cell, PEER, args.peer_tol)
        files.fit(cell, REFERENCE, REFERENCE_TOL)
        for tol in sorted(args.tols, reverse=True):
            files.fit(cell, OURS, tol)
            fits = rows_of(files.fits, **dict(zip(CELL, cell, strict=True)))
            if tol_as_good(fits, [tol], args.peer_tol, args.floor) == tol:
                break
    for contender in (OURS, EARLY, COLD):
        files.search(cell, contender, tol, rep)
    if cell[1] == "squared_hinge" and cell[2] == "walrus":  # what -C can do
        files.search(cell, LIBLINEAR, 0.01, rep)


# ------------------------------------------------------------------------------------ reporting


def report(searches: pd.DataFrame, fits: pd.DataFrame, args: argparse.Namespace) -> pd.DataFrame:
    """One row per cell: seconds and memory of ours, and how many times as long others took.

    Times are medians over the repeats. A contender that was stopped counts with the cap; the ratio
    is then a lower bound, and so marked. `excess` is how far the objective is above the best known,
    at the worst C; `unsure` how much lower than that the optimum may be.
    """
    table = []
    for cell, runs in searches.groupby(CELL, sort=False):
        own_fits = rows_of(fits, **dict(zip(CELL, cell, strict=True)))
        tol = args.tols[0]
        if has_peer(cell[1]):
            tol = tol_as_good(own_fits, args.tols, args.peer_tol, args.floor)
        ours = runs[(runs["contender"] == OURS) & (runs["tol"] == tol)]
        row = dict(zip(CELL, cell, strict=True), tol=tol, seconds=ours["seconds"].median())
        row["peak MB"] = round(ours["peak_mb"].max()) if len(ours) else math.nan
        if len(own_fits):
            row["excess"] = excess(own_fits, OURS, tol).max()
            row["excess of sklearn"] = excess(own_fits, PEER, args.peer_tol).max()
            by_C = own_fits.groupby("C")
            row["unsure"] = (1.0 - by_C["dual"].max() / by_C["primal"].min()).max()
        for contender in (PEER, COLD, EARLY, LIBLINEAR):
            theirs = runs[runs["contender"] == contender]
            if contender in (COLD, EARLY):
                theirs = theirs[theirs["tol"] == tol]
            ratio = theirs["seconds"].median() / row["seconds"]
            bound = "> " if theirs["capped"].astype(bool).any() else ""
            row[contender] = f"{bound}{ratio:.2f}" if math.isfinite(ratio) else ""
        peer = runs[runs["contender"] == PEER]["peak_mb"]
        row["peak MB of sklearn"] = round(peer.max()) if len(peer) else math.nan
        table.append(row)
    return pd.DataFrame(table)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=list(CELLS))
    parser.add_argument(
        "--model",
        nargs="+",
        choices=["squared_hinge", "hinge", "crammer_singer", "weston_watkins"],
        help="formulations; by default those of each data set",
    )
    parser.add_argument("--grid", nargs="+", choices=list(GRIDS), default=list(GRIDS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cap", type=float, default=600.0, help="seconds a contender may take")
    parser.add_argument("--peer-tol", type=float, default=1e-4, help="scikit-learn's default")
    parser.add_argument("--tols", nargs="+", type=float, default=[1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
    parser.add_argument("--floor", type=float, default=1e-4, help="as good as the optimum")
    parser.add_argument("--out", type=Path, default=HERE / "outputs" / "path")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.task:
        warnings.simplefilter("ignore")
        task, *cell = json.loads(args.task)
        return {"search": search, "fit": fit}[task](*cell)
    files = Measurements(args.out, args.cap)
    if not args.report:
        measure(args, files)
    searches = files.searches[files.searches["data"].isin(args.data)]
    text = markdown(report(searches, files.fits, args))
    args.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

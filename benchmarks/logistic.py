"""Time logistic regressions to 1e-3 and 1e-6 above the optimum, against every peer that has them.

    DUALSWEEP_DATA=folder python benchmarks/logistic.py --data a9a covtype --C 1 10

All minimise ``1/2 |W|^2 + C sum_i loss_i(W)``, the intercept penalised like any weight: the loss is
``log(1 + exp(-y w.x))`` with two classes and ``logsumexp(W x) - (W x)_y`` with more. Peers get rows
that end in a one, and fit no intercept. A fit is timed from X and y in memory to the model, with
whatever copy or conversion it takes, in a process of its contender, after a fit of a few rows.

Each contender climbs down a ladder of its own tolerances, two a decade, in float32 and in float64
where it has both. The fastest fit within a target counts: its objective is computed in float64, and
compared with that of dualsweep certified to 1e-10. A fit is stopped after `--cap` times what
dualsweep takes to the same target with one thread (`--least` seconds at least), or `--prune` times
what the fastest peer so far takes. Peers within `--close` of the fastest one, and dualsweep, then
take turns. Ratios are fastest peer / dualsweep of the same turn; with two threads, peers may have
one. Finished cells are appended to `--out` and not measured again; the table has all of them.
"""

import argparse
import json
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from math import inf, isfinite
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from benchmark_utils import POSITIVE, load_data
from benchmark_utils.workers import Worker, take_turns
from ratios import machine, publish

HERE = Path(__file__).resolve().parent
OURS = "dualsweep"
TARGETS = (1e-3, 1e-6)
TOLS = [10.0 ** (-k / 2) for k in range(-2, 21)]  # 10 to 1e-10
REFERENCE_TOL = 1e-10
CERTAIN = 1e-7  # a reference that is less certain is marked
DATA = ("a9a", "covtype", "imdb", "blogs", "news20", "mnist")
DENSE = ("mnist",)


# ----------------------------------------------------------------------------------- contenders


def fit_dualsweep(X, y, C, tol, threads, max_time=None):
    from dualsweep import LogisticRegression

    model = LogisticRegression(
        C=C,
        tol=tol,
        intercept="penalized",
        n_jobs=threads,
        max_iter=1_000_000,
        max_time=max_time,
        random_state=0,
    ).fit(X, y)
    return np.hstack([model.coef_, model.intercept_[:, None]]), model.dual_objective_


def sklearn_fitter(solver: str, dense: bool = False):
    def fit(X, y, C, tol, threads):
        from sklearn.linear_model import LogisticRegression

        if dense:
            X = X.toarray()
        made = LogisticRegression(
            C=C, tol=tol, solver=solver, fit_intercept=False, max_iter=1_000_000, random_state=0
        )
        return made.fit(X, y).coef_

    return fit


def liblinear_fitter(kind: int):
    def fit(X, y, C, tol, threads):
        from liblinear.liblinear import parameter, problem
        from liblinear.liblinearutil import train

        model = train(problem(2.0 * y - 1.0, X), parameter(f"-s {kind} -c {C!r} -e {tol!r} -q"))
        weights = np.ctypeslib.as_array(model.w, (1, X.shape[1])).copy()
        return weights if model.label[0] == 1 else -weights

    return fit


def fit_snapml(X, y, C, tol, threads):
    from snapml import LogisticRegression

    model = LogisticRegression(
        regularizer=1.0 / C, dual=True, tol=tol, max_iter=1_000_000, n_jobs=threads, random_state=0
    )
    return np.reshape(model.fit(X, y).coef_, (1, -1))


def fit_skglm_lbfgs(X, y, C, tol, threads):
    from skglm.datafits import Logistic
    from skglm.penalties import L2
    from skglm.solvers import LBFGS

    return solve_skglm(X, y, Logistic(), L2(1.0 / (C * len(y))), LBFGS(1_000_000, tol))


def fit_skglm_newton(X, y, C, tol, threads):
    from skglm.datafits import Logistic
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import ProxNewton

    solver = ProxNewton(max_iter=1000, tol=tol, fit_intercept=False)
    return solve_skglm(X, y, Logistic(), L1_plus_L2(1.0 / (C * len(y)), 0.0), solver)


def solve_skglm(X, y, datafit, penalty, solver):
    from scipy.sparse import csc_matrix, issparse

    columns = csc_matrix(X) if issparse(X) else np.asfortranarray(X)
    return solver.solve(columns, 2.0 * y - 1.0, datafit, penalty)[0][None]


class Contender(NamedTuple):
    """How to fit, and what it applies to."""

    fit: Callable[..., Any]
    package: str
    first_tol: float = 1.0
    forms: tuple[str, ...] = ("float32", "float64")  # of the rows it is given
    multinomial: bool = True
    threads: str = ""  # on which rows it has use for more than one: "any", "dense" (BLAS) or none
    most_features: float = inf
    rows: str = "any"  # or "sparse"

    def applies(self, facts: "Facts") -> bool:
        return (
            (self.multinomial or facts.classes == 2)
            and facts.features <= self.most_features
            and (self.rows == "any" or not facts.dense)
        )

    def has_threads(self, facts: "Facts") -> bool:
        return self.threads == "any" or (self.threads == "dense" and facts.dense)


def sklearn_contender(solver: str, **named: Any) -> Contender:
    return Contender(sklearn_fitter(solver), "sklearn", **{"threads": "dense", **named})


CHOLESKY = {"most_features": 2000, "threads": "any"}
CONTENDERS = {  # those that tend to be fast come first: the others are stopped the sooner
    OURS: Contender(fit_dualsweep, "dualsweep", 0.1, ("float32",), threads="any"),
    "newton-cholesky, dense": Contender(
        sklearn_fitter("newton-cholesky", dense=True), "sklearn", rows="sparse", **CHOLESKY
    ),
    "newton-cholesky": sklearn_contender("newton-cholesky", **CHOLESKY),
    "LIBLINEAR -s 0": Contender(liblinear_fitter(0), "liblinear", 1.0, ("float64",), False),
    "LIBLINEAR -s 7": Contender(liblinear_fitter(7), "liblinear", 10.0, ("float64",), False),
    "lbfgs": sklearn_contender("lbfgs", first_tol=0.1),
    "newton-cg": sklearn_contender("newton-cg", first_tol=0.1),
    "snapml": Contender(fit_snapml, "snapml", 1.0, ("float32",), False, "any"),
    "liblinear": sklearn_contender(
        "liblinear", forms=("float64",), multinomial=False, threads="", first_tol=10.0
    ),
    "saga": sklearn_contender("saga", threads=""),
    "sag": sklearn_contender("sag", threads=""),
    "skglm L-BFGS": Contender(fit_skglm_lbfgs, "skglm", 0.1, ("float64",), False),
    "skglm prox-Newton": Contender(
        fit_skglm_newton, "skglm", 0.1, ("float64",), False, most_features=300_000
    ),
}


# ------------------------------------------------------------- in the process of one contender


def load(data: str) -> tuple[Any, np.ndarray]:
    """Return rows in float32, and labels from 0 on; generated ones for "simulated-K" of K classes.

    Two classes are those that POSITIVE tells apart.
    """
    if data.startswith("simulated"):
        from dualsweep.datasets import make_text_like

        classes = int(data.partition("-")[2])
        X, y = make_text_like(300, 40, n_classes=classes, random_state=0)
    else:
        X, y = load_data(data)
        if data not in ("news20", "mnist"):
            y = y == POSITIVE[data]
    X = X.astype(np.float32)
    return X.toarray() if data in DENSE else X, np.unique(y, return_inverse=True)[1]


def with_ones(X):
    from scipy.sparse import csr_matrix, hstack, issparse

    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    if not issparse(X):
        return np.hstack([X, ones])
    rows = csr_matrix(hstack([X, ones], format="csr", dtype=X.dtype))
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows


def objective(X, y: np.ndarray, W: np.ndarray, C: float) -> float:
    """Return the objective in float64, block by block; the last weights are the intercepts.

    Rows may or may not end in a one.
    """
    coef = W[:, : X.shape[1]].T.astype(np.float64)
    intercept = W[:, X.shape[1] :].sum(axis=1, dtype=np.float64)
    losses = 0.0
    for start in range(0, X.shape[0], 4096):
        own = y[start : start + 4096]
        scores = X[start : start + 4096].astype(np.float64) @ coef + intercept
        if len(W) == 1:
            losses += float(np.logaddexp(0.0, (1 - 2 * own) * scores[:, 0]).sum())
        else:
            scores -= np.take_along_axis(scores, own[:, None], axis=1)
            losses += float(np.logaddexp.reduce(scores, axis=1).sum())
    return 0.5 * float((W.astype(np.float64) ** 2).sum()) + C * losses


class Rows:
    """What one contender fits."""

    def __init__(self, data: str, name: str, threads: int) -> None:
        self.contender, self.threads = CONTENDERS[name], threads
        self.X, self.y = load(data)
        if name != OURS:
            self.X = with_ones(self.X)
        self.forms: dict[str, Any] = {}

    def prepare(self, form: str) -> None:
        """Have the rows in this form, and what is compiled just in time compiled."""
        if form in self.forms:
            return
        X = self.forms[form] = self.X.astype(form, copy=False)
        few = np.concatenate([np.flatnonzero(self.y == c)[:20] for c in np.unique(self.y)])
        compiled = self.contender.package in (OURS, "skglm")  # with code for tight tolerances too
        for tol in (1e-2, 1e-6) if compiled else (1e-2,):
            self.contender.fit(X[few], self.y[few], 1.0, tol, self.threads)

    def fit(self, form: str, C: float, tol: float, **limits: Any) -> dict[str, float]:
        """Return seconds, the objective, and the certified bound on the optimum if there is one."""
        started, cpu = perf_counter(), process_time()
        W = self.contender.fit(self.forms[form], self.y, C, tol, self.threads, **limits)
        answer = {"seconds": perf_counter() - started, "cpu": process_time() - cpu}
        if isinstance(W, tuple):
            W, answer["lower"] = W
        return {**answer, "objective": objective(self.X, self.y, W, C)}


def work(data: str, name: str, threads: int) -> None:
    """Answer questions, see `Worker`; contenders that print do so elsewhere."""
    say = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    rows = Rows(data, name, threads)
    for line in sys.stdin:
        question = json.loads(line)
        rows.prepare(question["form"])
        print("null", file=say, flush=True)
        try:
            answer = rows.fit(**question)
        except Exception as error:  # of any kind: the others go on
            answer = {"failed": repr(error)}
        print(json.dumps(answer), file=say, flush=True)


# ------------------------------------------------------------------------------------ measuring


class Facts(NamedTuple):
    """What decides who takes part."""

    features: int
    classes: int
    dense: bool


class Run(NamedTuple):
    """A contender's fastest fit within a target, or that there was none within a limit."""

    contender: str
    threads: int
    target: float
    form: str
    tol: float
    seconds: list[float]  # turn by turn, or of the climb alone
    limit: float | None = None  # seconds after which it was stopped; None if no tolerance did


class Field:
    """The processes of the contenders on one data set."""

    def __init__(self, data: str, names: Iterable[str], threads: Sequence[int], clock: str):
        X, y = load(data)
        self.facts = Facts(X.shape[1], len(np.unique(y)), isinstance(X, np.ndarray))
        self.clock = clock
        self.workers = {}
        for name in names:
            contender = CONTENDERS[name]
            if find_spec(contender.package) is None:
                print(f"{name} is left out: {contender.package} is not installed", file=sys.stderr)
            elif contender.applies(self.facts):
                some = threads if contender.has_threads(self.facts) else [1]
                self.workers |= {(name, t): start(data, name, t) for t in some}

    def __enter__(self) -> "Field":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.stop()

    def fit(self, name: str, threads: int, cap: float | None = None, **question: Any) -> Any:
        """Return seconds and the objective of a fit, "failed", or None if it was stopped."""
        try:
            answer = self.workers[name, threads].ask(question, cap)
        except (RuntimeError, OSError) as error:  # the process ended
            self.workers[name, threads].stop()
            answer = {"failed": repr(error)}
        if answer is None:
            return None
        if "failed" in answer:
            print(f"{name}, {question}: {answer['failed']}", file=sys.stderr)
        elif self.clock == "cpu":
            answer["seconds"] = answer["cpu"]
        return answer

    def again(self, run: Run, C: float) -> float:
        """Return the seconds of a fit once more."""
        answer = self.fit(run.contender, run.threads, form=run.form, C=C, tol=run.tol)
        return answer.get("seconds", inf)


def start(data: str, name: str, threads: int) -> Worker:
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    command = [sys.executable, str(HERE / "logistic.py"), "--work", data, name, str(threads)]
    return Worker(command, env={**os.environ, **limits})


def climb(
    field: Field,
    name: str,
    threads: int,
    forms: Iterable[str],
    C: float,
    optimum: float,
    limits: dict[float, float],
    first: float,
) -> tuple[dict[float, Run], bool]:
    """Return the fastest fit within each target, and whether a fit was stopped.

    Tolerances go from `first` downwards, a decade at a time; where one reaches a target, the one
    half a decade looser is tried as well. A fit is stopped at the limit of the targets left.
    """
    found: dict[float, Run] = {}
    stopped = False

    def attempt(form: str, tol: float, limit: float) -> set[float] | None:
        """Fit, and return the targets that were reached; None if there was no fit."""
        nonlocal stopped
        answer = field.fit(name, threads, limit, form=form, C=C, tol=tol)
        stopped |= answer is None
        if answer is None or "failed" in answer:
            return None
        run = Run(name, threads, 0.0, form, tol, [answer["seconds"]])
        if answer["seconds"] < 0.5:  # what is called first is slow at times
            run.seconds.extend(field.again(run, C) for _ in range(2))
        seconds = min(run.seconds)
        reached = {x for x in limits if answer["objective"] <= (1.0 + x) * optimum}
        for target in reached:
            known = found[target].seconds if target in found else []
            if seconds <= min([limits[target], *known]):
                found[target] = run._replace(target=target, seconds=[seconds])
        return reached

    for form in forms:
        left = set(limits)
        for k, tol in enumerate([tol for tol in TOLS if tol <= 1.001 * first][::2]):
            limit = max(limits[target] for target in left)
            reached = attempt(form, tol, limit)
            if reached is None:
                break
            if k > 0 and reached & left:
                attempt(form, tol * 10.0**0.5, limit)
            left -= reached
            if not left:
                break
    return found, stopped


def measure(field: Field, data: str, C: float, threads: Sequence[int], args: Any) -> dict:
    """Return the facts of a cell: how long each contender takes to each target."""
    most = max(t for name, t in field.workers if name == OURS)
    question = {"form": "float32", "C": C, "tol": REFERENCE_TOL, "max_time": args.reference}
    reference = field.fit(OURS, most, **question)
    optimum = reference["objective"]

    def find(name: str, t: int, limits: dict[float, float]) -> dict[float, Run]:
        """Return the fastest fits, and add them to the runs, or that there are none."""
        contender = CONTENDERS[name]
        earlier = found_by.get(name)  # with one thread
        if earlier is None:
            found, stopped = climb(
                field, name, t, contender.forms, C, optimum, limits, contender.first_tol
            )
            found_by[name] = found
        else:  # nobody gets from two threads what these limits leave to those who are not there
            found, stopped = {}, not earlier
            for target, run in earlier.items():
                limit = {target: limits[target]}
                one, out_of_time = climb(field, name, t, [run.form], C, optimum, limit, run.tol)
                found, stopped = found | one, stopped or out_of_time
        for target in TARGETS:
            limit = limits[target] if stopped else None
            runs.append(found.get(target, Run(name, t, target, "", 0.0, [], limit)))
        return found

    runs: list[Run] = []
    found_by: dict[str, dict[float, Run]] = {}
    unlimited = dict.fromkeys(TARGETS, args.reference)
    for t in threads:
        find(OURS, t, unlimited)
    ours = found_by[OURS]
    caps = {
        target: max(args.least, args.cap * ours[target].seconds[0])
        if target in ours
        else args.reference
        for target in TARGETS
    }
    best = dict.fromkeys(TARGETS, inf)
    for name, t in field.workers:
        if name == OURS:
            continue
        limits = {x: min(caps[x], max(args.least, args.prune * best[x])) for x in TARGETS}
        for target, run in find(name, t, limits).items():
            best[target] = min(best[target], *run.seconds)

    chosen = take_part(runs, threads, args.close)
    settings = list(dict.fromkeys((r.contender, r.threads, r.form, r.tol) for r in chosen))
    fits = [
        partial(field.again, Run(name, t, 0.0, form, tol, []), C) for name, t, form, tol in settings
    ]
    times = dict(zip(settings, take_turns(fits, args.repeats), strict=True))
    runs = [
        r._replace(seconds=times.get((r.contender, r.threads, r.form, r.tol), r.seconds))
        for r in runs
    ]
    return {
        "data": data,
        "C": C,
        "threads": list(threads),
        "unsure": 1.0 - reference["lower"] / optimum,
        "caps": [caps[target] for target in TARGETS],
        "runs": [r._asdict() for r in runs],
    }


def take_part(runs: list[Run], threads: Sequence[int], close: float) -> list[Run]:
    """Return our runs, and those of peers that are close to the fastest of some target."""
    there = [run for run in runs if run.seconds]
    chosen = [run for run in there if run.contender == OURS]
    for target in TARGETS:
        for t in threads:
            peers = peers_of(there, target, t)
            best = min((run.seconds[0] for run in peers), default=inf)
            chosen += [run for run in peers if run.seconds[0] <= close * best]
    return chosen


def peers_of(runs: Iterable[Run], target: float, threads: int) -> list[Run]:
    """Return the runs of peers that may be compared with ours on so many threads.

    What is within a tight target is within a loose one.
    """
    return [
        run
        for run in runs
        if run.contender != OURS and run.target <= target and run.threads <= threads
    ]


# ------------------------------------------------------------------------------------ reporting


class Row(NamedTuple):
    """A comparison at equal suboptimality."""

    data: str
    C: float
    target: float
    threads: int
    sure: bool
    ours: float  # seconds, inf if it did not get there
    peers: dict[str, str]  # seconds, as they are shown
    fastest: str
    ratios: list[float]  # turn by turn
    bound: bool  # whether ratios are lower bounds, no peer having got there

    @property
    def ratio(self) -> float:
        return median(self.ratios)


def compare(cell: dict) -> list[Row]:
    """Return the comparisons of a cell."""
    runs = [Run(**run) for run in cell["runs"]]
    rows = []
    for target, cap in zip(TARGETS, cell["caps"], strict=True):
        for threads in cell["threads"]:
            ours = [
                run.seconds or [inf]
                for run in runs
                if (run.contender, run.threads) == (OURS, threads) and run.target <= target
            ]
            times = min(ours, key=median)
            shown: dict[str, tuple[float, str]] = {}
            for run in peers_of(runs, target, threads):
                seconds = median(run.seconds) if run.seconds else inf
                words = f"{seconds:.3g}" if run.seconds else "-"
                if not run.seconds and run.limit is not None:
                    words = f"> {run.limit:.3g}"
                if run.contender not in shown or seconds < shown[run.contender][0]:
                    shown[run.contender] = seconds, words
            peers = [run for run in peers_of(runs, target, threads) if run.seconds]
            turns = max((len(run.seconds) for run in peers), default=0)
            theirs = [run.seconds for run in peers if len(run.seconds) == turns]
            best = [min(turn) for turn in zip(*theirs, strict=True)] or [cap] * len(times)
            rows.append(
                Row(
                    cell["data"],
                    cell["C"],
                    target,
                    threads,
                    cell["unsure"] <= CERTAIN,
                    median(times),
                    {name: words for name, (_, words) in shown.items()},
                    min(shown, key=lambda name: shown[name][0]) if peers else "",
                    [a / b for a, b in zip(best, times, strict=False)],
                    not peers,
                )
            )
    return rows


def table(rows: Sequence[Row]) -> str:
    names = [name for name in CONTENDERS if any(name in row.peers for row in rows)]
    head = ["data", "C", "above optimum", "threads", "dualsweep", *names, "fastest peer / ours"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        mark = ">= " if row.bound else ""
        spread = f" ({min(row.ratios):.2f} to {max(row.ratios):.2f})" if len(row.ratios) > 1 else ""
        ours = f"{row.ours:.3g}" if isfinite(row.ours) else "-"
        lines.append(
            [
                row.data if row.sure else f"{row.data}\\*",
                f"{row.C:g}",
                f"{row.target:g}",
                str(row.threads),
                ours,
                *(row.peers.get(name, "") for name in names),
                f"{mark}{row.ratio:.2f}{spread}",
            ]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def summary(rows: Sequence[Row]) -> str:
    """Return geometric means, the worst cell, and those where ours is slower and takes long."""
    lines = ["| cells | geometric mean | worst | number |", "|---|---|---|---|"]
    groups: dict[str, list[Row]] = {"all": list(rows)}
    kinds: list[Callable[[Row], str]] = [
        lambda row: f"{row.target:g} above the optimum",
        lambda row: f"{row.threads} thread{'s' * (row.threads > 1)}",
        lambda row: row.data,
    ]
    for kind in kinds:
        for row in rows:
            groups.setdefault(kind(row), []).append(row)
    for name, some in groups.items():
        got = [max(row.ratio, 1e-9) for row in some]
        lines.append(f"| {name} | {geometric_mean(got):.2f} | {min(got):.2f} | {len(got)} |")
    slower = [row for row in rows if row.ratio < 0.9 and row.ours > 0.05]
    worst = min(rows, key=lambda row: row.ratio)
    bounds = sum(row.bound for row in rows)
    words = [
        f"The worst is {label(worst)}.",
        f"Below 0.9, and longer than 0.05 s: {'; '.join(map(label, slower)) or 'none'}.",
        f"In {bounds} no peer got there; the ratio is then a lower bound.",
    ]
    if not all(row.sure for row in rows):
        words.append(rf"\* The optimum is known to less than {CERTAIN:g} only.")
    return "\n".join(lines) + "\n\n" + textwrap.fill(" ".join(words), 100) + "\n"


def label(row: Row) -> str:
    where = f"{row.data}, C = {row.C:g}, {row.target:g}, threads: {row.threads}"
    return f"{where}: {row.ratio:.2f} ({row.fastest or 'no peer'}; ours {row.ours:.3g} s)"


def report(cells: Sequence[dict]) -> str:
    """Return the table of some cells, and what it comes to."""
    rows = [row for cell in cells for row in compare(cell)]
    clock = {"cpu": "processor seconds", "wall": "seconds"}[cells[0].get("clock", "wall")]
    text = (
        f"Medians of {clock} from X and y until the objective, with a penalised intercept, is that "
        "much above the optimum, relative to it. `> s`: stopped after s; `-`: no tolerance was "
        "tight enough. The ratio is that to the fastest peer in the same turn, from the smallest "
        "to the largest; peers that are far behind are timed once. Contenders without a package's "
        "name are scikit-learn's solvers; Snap ML has float32."
    )
    return f"{textwrap.fill(text, 100)}\n\n{table(rows)}\n{summary(rows)}"


def read(path: Path) -> list[dict]:
    """Return the cells of a file, in the order of the table."""
    if not path.exists():
        return []
    cells = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    order = (*DATA, *sorted({cell["data"] for cell in cells} - {*DATA}))
    return sorted(cells, key=lambda cell: (order.index(cell["data"]), cell["C"]))


def append(path: Path, cell: dict) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(machine()) + "\n")
    with path.open("a") as file:
        file.write(json.dumps(cell) + "\n")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(DATA))
    parser.add_argument("--C", nargs="+", type=float, default=[0.1, 1.0, 10.0, 100.0])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cap", type=float, default=8.0, help="times what ours takes")
    parser.add_argument("--prune", type=float, default=2.0, help="times the fastest peer so far")
    parser.add_argument("--least", type=float, default=1.0, help="seconds, whatever the caps")
    parser.add_argument("--close", type=float, default=1.5, help="to the fastest peer: takes turns")
    parser.add_argument("--reference", type=float, default=120.0, help="seconds for the optimum")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--out", type=Path, default=HERE / "outputs" / "logistic.jsonl")
    parser.add_argument("--table", type=Path, help="beside --out by default")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.work:
        data, name, threads = args.work
        return work(data, name, int(threads))
    done = {(cell["data"], cell["C"]) for cell in read(args.out)}
    for data in args.data:
        missing = [C for C in args.C if (data, C) not in done and not args.report]
        if not missing:
            continue
        with Field(
            data, {OURS: 0, **dict.fromkeys(args.contenders)}, args.threads, args.clock
        ) as f:
            for C in missing:
                began = perf_counter()
                cell = {"clock": args.clock, **measure(f, data, C, args.threads, args)}
                append(args.out, cell)
                print(f"{data}, C = {C:g}: {perf_counter() - began:.0f} s", file=sys.stderr)
    cells = read(args.out)
    if cells:
        about = json.loads(args.out.read_text().splitlines()[0])
        text = f"{report(cells)}\n{textwrap.fill(about, 100)}\n"
        publish(text, args.table or args.out.with_suffix(".md"))


if __name__ == "__main__":
    main()

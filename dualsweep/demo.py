"""Three data sets, two libraries: time to the same accuracy, and what the certificate says."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from copy import copy
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import LinearSVC as SklearnLinearSVC

from ._typing import Array, Matrix
from .datasets import make_text_like
from .estimators import LinearSVC
from .plotting import Axes, ConvergenceDisplay

N_FEATURES = 50_000  # of the generated text
TOL = 1e-4  # how far above the optimum each library may end, relatively
BOUND_TOL = 1e-6  # of the lower bound that all are measured against
LIBRARIES = ("dualsweep", "scikit-learn, dual=True", "scikit-learn, dual=False")
THEIR_TOLS = (1e-1, 1e-2, 1e-3, 1e-4)  # scikit-learn's own scale, and its default at the end
MARKS = "dualsweep (marks are proven)"
MOMENT = 0.2  # seconds; shorter fits are repeated
SHOW_BAR = 10_000  # rows; on fewer, drawing the progress bar takes longer than training

Model: TypeAlias = LinearSVC | SklearnLinearSVC


class Split(NamedTuple):
    """A data set, cut into rows to train on and rows to test on."""

    name: str
    X: Matrix
    y: Array
    X_test: Matrix
    y_test: Array


class Fit(NamedTuple):
    """How one library did on one data set."""

    data: str
    library: str
    seconds: float
    primal: float
    lower_bound: float  # proven by dualsweep's certificate
    accuracy: float  # on the rows to test on
    tol: float  # the library's own, the loosest that is enough

    @property
    def excess(self) -> float:
        """Return how far the objective is above the optimum at most, relative to the bound."""
        return (self.primal - self.lower_bound) / self.lower_bound

    @property
    def reached(self) -> bool:
        """Return True if the objective is close enough to the optimum."""
        return self.excess <= TOL


def run(
    *, rows: int = 200_000, output: str | Path = "dualsweep-demo.png", console: Any = None
) -> list[Fit]:
    """Train on three data sets beside `sklearn.svm.LinearSVC`, report the fits, draw the picture.

    Each library has to come within `TOL` of the optimum. dualsweep proves that it does. For
    scikit-learn the quickest fit that gets there counts: dualsweep's lower bound tells afterwards.
    """
    console = Console(highlight=False) if console is None else console
    with console.status("Compiling kernels, or loading those that were compiled before"):
        seconds = _warm_up()
    console.print(f"Kernels ready after {seconds:.1f} s; the times below are without that.")

    fits: dict[str, list[Fit]] = {}  # by data set
    for split in _splits(rows, console):
        n, n_features = split.X.shape
        console.rule(f"[bold]{split.name}[/bold]: {n:,} rows, {n_features:,} features")
        model = LinearSVC(tol=TOL, random_state=0, verbose=int(n > SHOW_BAR))
        status = f"Training dualsweep.LinearSVC on {split.name}"
        with nullcontext() if model.verbose else console.status(status):
            seconds = _time(model, split)
        with console.status("Looking for a tighter lower bound to measure everybody against"):
            closer = copy(model).set_params(tol=BOUND_TOL, warm_start=True, verbose=0)
            bound = float(closer.fit(split.X, split.y).dual_objective_)
        own = [_evaluate(model, LIBRARIES[0], seconds, split, bound)]
        for dual in (True, False):
            with console.status(f"Training sklearn.svm.LinearSVC(dual={dual}) on {split.name}"):
                own.append(_fit_sklearn(split, dual, bound))
        console.print(
            f"Certificate: primal {model.primal_objective_:.8g}, dual (proven lower bound) "
            f"{model.dual_objective_:.8g}, relative gap {model.relative_gap_:.1e} "
            f"(tol {model.tol:.0e})"
        )
        console.print(_table(own))
        fits[f"{split.name}, {n:,} rows"] = own

    console.print(
        "Same problem for all: squared hinge loss, C = 1. 'Above optimum, at most' is the "
        "objective, evaluated in float64, against a lower bound that dualsweep proved: no model "
        "can be below 0. Each library's tol is the loosest that comes within "
        f"{100 * TOL:g} % of it. dualsweep's is that number; scikit-learn's has a scale of its "
        "own, and its fits do not tell where they ended."
    )
    _draw(fits, model, Path(output), console)
    return [fit for own in fits.values() for fit in own]


def _warm_up() -> float:
    """Fit all kinds of rows and weights, so that no timed fit compiles; return the seconds."""
    started = perf_counter()
    X, y = load_breast_cancer(return_X_y=True)
    LinearSVC(tol=TOL).fit(scale(X), y)
    LinearSVC(tol=TOL, solver="sweep").fit(scale(X), y)
    X, y = make_text_like(1000, 50, random_state=0)
    LinearSVC(tol=TOL, solver="sweep").fit(X, y)
    LinearSVC(tol=TOL / 10, solver="sweep").fit(X, y)  # keeps its weights in float64
    return perf_counter() - started


def _splits(rows: int, console: Console) -> Iterator[Split]:
    """Yield the three data sets."""
    cancer = _split("breast cancer", *load_breast_cancer(return_X_y=True))
    scaler = StandardScaler().fit(cancer.X)
    yield cancer._replace(X=scaler.transform(cancer.X), X_test=scaler.transform(cancer.X_test))
    X, y = load_digits(return_X_y=True)
    yield _split("digits", X / 16, y)
    with console.status(f"Generating text: {rows:,} rows of {N_FEATURES:,} words, and a test set"):
        text = make_text_like(rows + rows // 10, N_FEATURES, random_state=0)
    yield _split("generated text", *text)


def _split(name: str, X: Matrix, y: Array) -> Split:
    n_test = len(y) // 11  # a tenth of the rows to train on
    X, X_test, y, y_test = train_test_split(X, y, test_size=n_test, random_state=0)
    return Split(name, X, y, X_test, y_test)


def _fit_sklearn(split: Split, dual: bool, lower_bound: float) -> Fit:
    """Return the fit of the loosest tolerance that is enough; if none is, of the tightest."""
    for tol in THEIR_TOLS:
        model = SklearnLinearSVC(dual=dual, tol=tol, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the excess says more
            seconds = _time(model, split)
        fit = _evaluate(model, LIBRARIES[1 if dual else 2], seconds, split, lower_bound)
        if fit.reached:
            break
    return fit


def _time(model: Model, split: Split) -> float:
    """Fit, and return the seconds it took; repeat a short fit, and return its shortest time."""
    best = total = 0.0
    while total < MOMENT:
        started = perf_counter()
        model.fit(split.X, split.y)
        seconds = perf_counter() - started
        best, total = min(best or seconds, seconds), total + seconds
    return best


def _evaluate(model: Model, library: str, seconds: float, split: Split, lower_bound: float) -> Fit:
    """Return how a fitted model did, with its objective in float64: squared hinge loss, C = 1."""
    coef, intercept = model.coef_.astype(np.float64), model.intercept_
    positives = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    signs = np.where(split.y[:, None] == positives, 1.0, -1.0)
    slack = np.maximum(0.0, 1.0 - signs * (split.X @ coef.T + intercept))
    primal = float(0.5 * (coef**2).sum() + 0.5 * (intercept**2).sum() + (slack**2).sum())
    accuracy = model.score(split.X_test, split.y_test)
    return Fit(split.name, library, seconds, primal, lower_bound, accuracy, model.tol)


def _table(fits: list[Fit]) -> Table:
    table = Table("library")
    for heading in ("tol", "time", "objective", "above optimum, at most", "test accuracy"):
        table.add_column(heading, justify="right")
    for fit in fits:
        table.add_row(
            fit.library if fit.reached else f"{fit.library} (did not get there)",
            f"{fit.tol:g}",
            f"{fit.seconds:.3f} s",
            f"{fit.primal:.6g}",
            f"{100 * fit.excess:.2g} %",
            f"{100 * fit.accuracy:.2f} %",
        )
    return table


def _draw(fits: dict[str, list[Fit]], last: LinearSVC, path: Path, console: Console) -> None:
    """Draw each library's time to the same accuracy, and the certificate of the last fit."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        about = 'matplotlib is not installed. Get it with pip install "dualsweep[plot]".'
        console.print(f"No picture: {about}", markup=False, soft_wrap=True)
        return
    figure = Figure(figsize=(10.0, 5.6), layout="constrained")
    [[left, right]] = figure.subfigures(1, 2, width_ratios=(1.15, 1.0), squeeze=False)
    left.suptitle(f"Time to within {100 * TOL:g} % of the optimum")
    for ax, (name, own) in zip(left.subplots(len(fits), 1), fits.items(), strict=True):
        _draw_times(ax, name, own)
    right.suptitle(f"The certificate on the way: {own[0].data}")
    ax = right.subplots()
    ConvergenceDisplay.from_estimator(last, ax=ax, name=MARKS, x="time", color="black")
    ax.set(title="", ylabel="Objective above the optimum, at most (relative)")
    ax.annotate(
        f"proven: no model is\nmore than {100 * last.relative_gap_:.1g} % better",
        (last.history_["time"][-1], last.relative_gap_),
        xytext=(0.06, 0.16),
        textcoords="axes fraction",
        arrowprops={"arrowstyle": "->"},
    )
    figure.savefig(path, dpi=150)
    console.print(f"Picture of times and certificate: {path}", soft_wrap=True)


def _draw_times(ax: Axes, name: str, fits: list[Fit]) -> None:
    """Draw a bar for each library; one that did not get there is hatched, and says so."""
    seconds = [fit.seconds for fit in fits]
    shades = ["black" if fit.library == LIBRARIES[0] else "0.65" for fit in fits]
    bars = ax.barh([fit.library for fit in fits], seconds, color=shades)
    texts = []
    for bar, fit in zip(bars, fits, strict=True):
        time = f"{fit.seconds:.2g} s" if fit.seconds < 10 else f"{fit.seconds:.0f} s"
        texts.append(time if fit.reached else f"{time}, and then {100 * fit.excess:.2g} % above")
        bar.set_hatch(None if fit.reached else "///")
    ax.bar_label(bars, texts, padding=4)
    ax.set_title(name, loc="left", fontsize="medium")
    ax.set_xlim(0.0, 1.25 * max(seconds))
    ax.set_xticks([])  # the bars are labelled
    ax.invert_yaxis()
    ax.spines[["top", "right", "bottom"]].set_visible(False)

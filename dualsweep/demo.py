"""Three data sets, two libraries: what the certificate is good for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from .datasets import make_text_like
from .estimators import LinearSVC
from .plotting import ConvergenceDisplay

__all__ = ["Fit", "run"]

N_FEATURES = 50_000  # of the generated text
TOL = 1e-4
LIBRARIES = ("dualsweep", "scikit-learn, dual=True", "scikit-learn, dual=False")
LEAST_GAP = 1e-8  # where the picture ends; a solution may be exact
SHOW_BAR = 10_000  # rows; on fewer, drawing the progress bar takes longer than training


class Split(NamedTuple):
    """A data set, cut into rows to train on and rows to test on."""

    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any


class Fit(NamedTuple):
    """What one library made of one data set."""

    data: str
    library: str
    seconds: float
    primal: float
    lower_bound: float  # proven by dualsweep's certificate
    accuracy: float  # on rows that were not trained on
    note: str

    @property
    def excess(self) -> float:
        """Return how far the objective is above the optimum at most, relative to the bound."""
        return (self.primal - self.lower_bound) / self.lower_bound


def run(
    *, rows: int = 200_000, output: str | Path = "dualsweep-demo.png", console: Any = None
) -> list[Fit]:
    """Train on three data sets beside `sklearn.svm.LinearSVC` and show how both fare.

    Parameters
    ----------
    rows : int, default=200_000
        Rows of the generated text to train on.
    output : str or Path, default="dualsweep-demo.png"
        Where to write the picture of convergence.
    console : rich.console.Console, default=None
        Where to report; stdout if None.

    Returns
    -------
    list of Fit
        What was reported.
    """
    console = Console(highlight=False) if console is None else console
    with console.status("Compiling kernels (once per machine; after that, loading them)"):
        seconds = _warm_up()
    console.print(f"Kernels ready after {seconds:.1f} s; the times below are without that.")

    fits: list[Fit] = []
    models: dict[str, LinearSVC] = {}
    for split in _splits(rows, console):
        n, n_features = split.X.shape
        console.rule(f"[bold]{split.name}[/bold]: {n:,} rows, {n_features:,} features")
        if n > SHOW_BAR:
            model, fit = _fit_dualsweep(split, verbose=1)
        else:
            with console.status(f"Training dualsweep.LinearSVC on {split.name}"):
                model, fit = _fit_dualsweep(split, verbose=0)
        models[split.name] = model
        fits.append(fit)
        for dual in (True, False):
            with console.status(f"Training sklearn.svm.LinearSVC(dual={dual}) on {split.name}"):
                fits.append(_fit_sklearn(split, dual, model.dual_objective_))
        console.print(
            f"Certificate: primal {model.primal_objective_:.8g}, dual (proven lower bound) "
            f"{model.dual_objective_:.8g}, relative gap {model.relative_gap_:.1e} "
            f"(tol {model.tol:.0e})"
        )
        console.print(_table([fit for fit in fits if fit.data == split.name]))

    console.print(
        "Same problem for all: squared hinge loss, C = 1. 'Above optimum, at most' is the "
        "objective, evaluated in float64, against dualsweep's lower bound: nobody can be better "
        "than 0. scikit-learn stops on a criterion of its own and gives no such number."
    )
    _draw(models, fits, Path(output), console)
    return fits


def _warm_up() -> float:
    """Fit every kind of rows and weights once, so that no timed fit compiles anything."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import scale

    started = perf_counter()
    X, y = load_breast_cancer(return_X_y=True)
    LinearSVC(tol=TOL).fit(scale(X), y)
    LinearSVC(tol=TOL, solver="sweep").fit(scale(X), y)
    X, y = make_text_like(1000, 50, random_state=0)
    LinearSVC(tol=TOL, solver="sweep").fit(X, y)
    LinearSVC(tol=TOL / 10, solver="sweep").fit(X, y)  # keeps its weights in float64
    return perf_counter() - started


def _splits(rows: int, console: Console) -> Iterator[Split]:
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    def split(name: str, X: Any, y: Any) -> Split:
        n_test = len(y) // 11  # a tenth of the rows to train on
        X, X_test, y, y_test = train_test_split(X, y, test_size=n_test, random_state=0)
        return Split(name, X, y, X_test, y_test)

    cancer = split("breast cancer", *load_breast_cancer(return_X_y=True))
    scaler = StandardScaler().fit(cancer.X)
    yield cancer._replace(X=scaler.transform(cancer.X), X_test=scaler.transform(cancer.X_test))
    X, y = load_digits(return_X_y=True)
    yield split("digits", X / 16, y)
    with console.status(f"Generating text: {rows:,} rows of {N_FEATURES:,} words, and a test set"):
        problem = make_text_like(rows + rows // 10, N_FEATURES, random_state=0)
        text = split("generated text", *problem)
    yield text


def _fit_dualsweep(split: Split, verbose: int) -> tuple[LinearSVC, Fit]:
    model = LinearSVC(tol=TOL, random_state=0, verbose=verbose)
    started = perf_counter()
    model.fit(split.X, split.y)
    seconds = perf_counter() - started
    fit = Fit(
        split.name,
        LIBRARIES[0],
        seconds,
        model.primal_objective_,
        model.dual_objective_,
        model.score(split.X_test, split.y_test),
        "",
    )
    return model, fit


def _fit_sklearn(split: Split, dual: bool, lower_bound: float) -> Fit:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC as SklearnLinearSVC

    model = SklearnLinearSVC(dual=dual, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        started = perf_counter()
        model.fit(split.X, split.y)
        seconds = perf_counter() - started
    return Fit(
        split.name,
        LIBRARIES[1] if dual else LIBRARIES[2],
        seconds,
        _primal(model, split.X, split.y),
        lower_bound,
        model.score(split.X_test, split.y_test),
        "gave up: no convergence"
        if any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
        else "",
    )


def _primal(model: Any, X: Any, y: Any) -> float:
    """Return the sum over the classes of the squared hinge objectives, C = 1, in float64."""
    coef = model.coef_.astype(np.float64)
    positives = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    signs = np.where(y[:, None] == positives, 1.0, -1.0)
    slack = np.maximum(0.0, 1.0 - signs * (X @ coef.T + model.intercept_))
    return float(0.5 * (coef**2).sum() + 0.5 * (model.intercept_**2).sum() + (slack**2).sum())


def _table(fits: list[Fit]) -> Table:
    table = Table("library")
    for heading in ("time", "objective", "above optimum, at most", "accuracy on test rows"):
        table.add_column(heading, justify="right")
    for fit in fits:
        table.add_row(
            f"{fit.library} ({fit.note})" if fit.note else fit.library,
            f"{fit.seconds:.3f} s",
            f"{fit.primal:.6g}",
            f"{100 * fit.excess:.2g} %",
            f"{fit.accuracy:.2%}",
        )
    return table


def _draw(models: dict[str, LinearSVC], fits: list[Fit], path: Path, console: Console) -> None:
    """Draw dualsweep's certificates over time, and where scikit-learn ended."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        console.print(
            'No picture: matplotlib is not installed. Get it with pip install "dualsweep[plot]".',
            markup=False,
            soft_wrap=True,
        )
        return
    figure = Figure(figsize=(10, 5), layout="constrained")
    ax = figure.subplots()
    ends = dict(zip(LIBRARIES, "ox+", strict=True))
    for name, model in models.items():
        display = ConvergenceDisplay.from_estimator(model, ax=ax, name=name)
        for fit in fits:
            if fit.data == name:
                gap = (fit.primal - fit.lower_bound) / fit.primal
                color = display.lines_[0].get_color()
                ax.plot(fit.seconds, gap, ends[fit.library], color=color)
    for library, marker in ends.items():
        ax.plot([], [], marker, color="0.4", label=f"{library}: the whole fit")
    ax.set(xscale="log", title="Certificates of dualsweep (lines), and where each library ended")
    ax.set_ylim(bottom=max(ax.get_ylim()[0], LEAST_GAP))
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=150)
    console.print(f"Picture of convergence: {path}", soft_wrap=True)

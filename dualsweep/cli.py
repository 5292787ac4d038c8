"""The command line: train, predict, demo."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from . import __version__
from .estimators import LinearSVC
from .io import load_data, load_model, save_model

__all__ = ["app"]

FAILED = 1
NOT_CONVERGED = 3
INTERRUPTED = 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dualsweep {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train linear support vector machines, with a proof of how good they are.

    Every model comes with a certificate: its objective (primal), a proven lower bound on every
    model's objective (dual), and the gap between the two. Training stops when the gap, relative to
    the objective, is at most --tol: with 0.001, no model has an objective more than 0.1 % lower.

    [bold]Files[/bold] are svmlight (LIBSVM) text, or .npz with the arrays data, indices, indptr,
    shape and y (CSR), or X and y (dense).

    [bold]Examples[/bold]

    dualsweep demo

    dualsweep train rcv1.svm -C 0.5 --tol 1e-4

    dualsweep predict rcv1.model.npz test.svm > labels.txt
    """


@app.command()
def train(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Rows and labels: svmlight text or .npz.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-o",
            help="Where to write the model.",
            show_default="FILE's name + .model.npz, in the current directory",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the model file if it exists.")
    ] = False,
    cost: Annotated[
        float,
        typer.Option("--cost", "-C", help="Cost of margin violations; larger fits more closely."),
    ] = 1.0,
    loss: Annotated[
        str, typer.Option(metavar="LOSS", help="hinge, squared_hinge or squared.")
    ] = "squared_hinge",
    tol: Annotated[float, typer.Option(help="Relative duality gap to prove.")] = 1e-3,
    max_iter: Annotated[
        int, typer.Option(help="Sweeps over the rows to give up after, per class.")
    ] = 1000,
    max_time: Annotated[float | None, typer.Option(help="Seconds to give up after.")] = None,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="Train no intercept.")
    ] = False,
    class_weight: Annotated[
        str | None,
        typer.Option(metavar="balanced", help="balanced: rare classes weigh as much as others."),
    ] = None,
    schedule: Annotated[
        str,
        typer.Option(
            metavar="SCHEDULE",
            help="Which rows a sweep visits: auto, adaptive, shrinking, permuted, cyclic or "
            "online. All lead to the same optimum.",
        ),
    ] = "auto",
    multi_class: Annotated[
        str,
        typer.Option(
            metavar="FORMULATION",
            help="For more than two classes: ovr, crammer_singer or weston_watkins. The last two "
            "have losses of their own and no use for --loss; on badly scaled data ovr is faster.",
        ),
    ] = "ovr",
    solver: Annotated[
        str,
        typer.Option(metavar="SOLVER", help="auto, sweep (coordinate descent) or newton."),
    ] = "auto",
    n_jobs: Annotated[
        int, typer.Option(help="Threads for more than two classes; -1 for all cores.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seeds the order of visits.")] = 0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show neither progress nor certificate.")
    ] = False,
) -> None:
    """Train a model and write it to a file, with its certificate.

    Ends with exit code 0 if the relative duality gap is proven to be at most --tol, and with 3 if
    not; the model is written and usable all the same. Ctrl-C writes the model so far and ends
    with 130. Bad options end with 2, other errors with 1.

    [bold]Examples[/bold]

    dualsweep train a1a.svm

    dualsweep train rcv1.npz -C 0.5 --loss hinge --tol 1e-4 -o rcv1.model.npz

    dualsweep train news20.svm.bz2 --n-jobs -1 --max-time 60 --force
    """
    model = LinearSVC(
        C=cost,
        loss=loss,
        multi_class=multi_class,
        schedule=schedule,
        solver=solver,
        fit_intercept=not no_intercept,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        class_weight=class_weight,
        n_jobs=n_jobs,
        random_state=seed,
        verbose=0 if quiet else 1,
    )
    try:
        model._validate_params()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    path = Path(f"{file.stem}.model.npz") if output is None else output

    console = Console(quiet=quiet)
    started = perf_counter()
    interrupted = False
    with _one_line_errors():
        _check_output(path, force)
        with console.status(f"Reading {file}"):
            X, y = load_data(file)
        started = perf_counter()
        console.print(f"{file}: {X.shape[0]:,} rows, {X.shape[1]:,} features", highlight=False)
        try:
            with warnings.catch_warnings():  # the certificate below says it
                warnings.filterwarnings("ignore", message="LinearSVC stopped at")
                model.fit(X, y)
        except KeyboardInterrupt:
            if not hasattr(model, "coef_"):
                _say("Interrupted before there was a model; nothing is written.")
                raise typer.Exit(INTERRUPTED) from None
            interrupted = True
        seconds = perf_counter() - started
        save_model(model, path, force=force)

    console.print(_certificate(model, seconds))
    console.print(f"Model written to {path}", highlight=False, soft_wrap=True)
    if interrupted:
        _say(f"Interrupted. {_shortfall(model)}")
        raise typer.Exit(INTERRUPTED)
    if not model.converged_:
        _say(
            f"Not converged. {_shortfall(model)} Raise --max-iter, --max-time or --tol, or scale "
            "the features."
        )
        raise typer.Exit(NOT_CONVERGED)


@app.command()
def predict(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="What train wrote.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Rows: svmlight text or .npz; y may be missing.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the labels.", show_default="stdout"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the output file if it exists.")
    ] = False,
) -> None:
    """Predict the label of each row, one per line.

    If the file has labels, the accuracy goes to stderr. Features of svmlight text that the model
    was not trained on are left out.

    [bold]Examples[/bold]

    dualsweep predict a1a.model.npz a1a.t

    dualsweep predict rcv1.model.npz test.npz -o labels.txt
    """
    with _one_line_errors():
        if output is not None:
            _check_output(output, force)
        model = load_model(model_file)
        X, y = load_data(file, n_features=model.n_features_in_, labelled=False)
        predicted = model.predict(X)
    lines = "".join(f"{label}\n" for label in predicted.tolist())
    if output is None:
        sys.stdout.write(lines)
    else:
        with _one_line_errors():
            output.write_text(lines)
    if y is not None and _comparable(y, predicted) and np.isin(y, model.classes_).any():
        right = int((y == predicted).sum())
        _say(f"Accuracy {right / len(y):.2%} ({right} of {len(y)} rows)")


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=100, help="Rows of the generated text.")] = 200_000,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the picture.")
    ] = Path("dualsweep-demo.png"),
) -> None:
    """Train on three data sets beside scikit-learn's LinearSVC; takes half a minute.

    Two data sets come with scikit-learn, the third is generated text. Shows the certificates,
    times and accuracies, and draws how the gaps came down.
    """
    from .demo import run

    with _one_line_errors():
        run(rows=rows, output=output)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what users can run into into one line and an exit code."""
    try:
        yield
    except (OSError, ValueError, MemoryError) as error:
        _say(f"Error: {str(error).partition(chr(10))[0] or type(error).__name__}")
        raise typer.Exit(FAILED) from None


def _check_output(path: Path, force: bool) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no directory {path.parent} to write {path.name} to.")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already; choose another name or --force.")


def _comparable(a: Any, b: Any) -> bool:
    """Return whether both are text or both are numbers."""
    return (a.dtype.kind in "US") == (b.dtype.kind in "US")


def _certificate(model: LinearSVC, seconds: float) -> Table:
    table = Table("Certificate", "", show_header=False, title="Certificate", title_justify="left")
    for name, value in [
        ("primal objective", f"{model.primal_objective_:.6g}"),
        ("dual objective (lower bound)", f"{model.dual_objective_:.6g}"),
        ("relative gap", f"{model.relative_gap_:.2e}"),
        ("tol", f"{model.tol:.2e}"),
        ("converged", "yes" if model.converged_ else "no"),
        ("epochs", f"{model.n_iter_}"),
        ("time", f"{seconds:.2f} s"),
        ("support vectors", f"{len(model.support_):,}"),
    ]:
        table.add_row(name, value)
    return table


def _shortfall(model: Any) -> str:
    relation = "<=" if model.converged_ else ">"
    return (
        f"The model is written: relative duality gap {model.relative_gap_:.1e} {relation} tol "
        f"{model.tol:.1e} after {model.n_iter_} epochs, so no objective is more than "
        f"{100 * min(model.relative_gap_, 1.0):.3g} % lower."
    )


def _say(text: str) -> None:
    """Tell people on stderr, on one line."""
    typer.echo(text, err=True)


if __name__ == "__main__":
    app()

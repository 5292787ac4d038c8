"""Prediction."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..io import load_model
from ..io._files import atomic_file, check_target
from ..io.data import check_width
from ._command import Command
from ._options import (
    Force,
    Json,
    NJobs,
    ZeroBased,
)

__all__ = ["predict"]


def predict(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="What train wrote, or LIBLINEAR.")
    ],
    file: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Rows: text, a store or .npz; y may be missing."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write the labels: a file.", show_default="stdout"
        ),
    ] = None,
    force: Force = False,
    n_jobs: NJobs = -1,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Predict the label or the number of each row, one per line.

    If the data have labels, the accuracy goes to stderr, of regression the mean squared error and
    R2. A store may be larger than the memory. Features of text that the model was not trained on
    are left out. A model does not know whether its text counted columns from 0: for a few rows of
    text that did, none of which may have a column 0, say --zero-based.

    [bold]Examples[/bold]

    dualsweep predict a1a.model.npz a1a.t

    dualsweep predict rcv1.model.npz test.npz -o labels.txt
    """
    with Command(json, quiet=True) as command:
        if output is not None:
            check_target(output, force=force)
            command.writes(output)
        model = load_model(model_file)
        if file.is_dir():  # however large it is: a block at a time
            store = command.open(file)
            check_width(file, store, model.n_features_in_)
            blocks = (store.read(b) for b in range(len(store)))
            predicted, y = np.concatenate([model.predict(X) for X, _ in blocks]), store.y
        else:
            X, y = command.load(
                file,
                zero_based=zero_based,
                n_jobs=n_jobs,
                n_features=model.n_features_in_,
                labelled=False,
            )
            predicted = model.predict(X)
        lines = "".join(f"{label}\n" for label in predicted.tolist())
        if output is not None:
            with atomic_file(output, force=force) as target:
                target.write(lines.encode())
            command.facts["output"] = str(output)
        elif json:
            command.facts["labels"] = predicted.tolist()
        else:
            sys.stdout.write(lines)
        if y is not None and _comparable(y, predicted):
            facts, text = _quality(model, y, predicted)
            command.facts |= facts
            if text and not json:
                command.say(text)


def _quality(model: Any, y: Any, predicted: Any) -> tuple[dict[str, Any], str]:
    """Return how good predictions are, as facts and in words; nothing if y says nothing of it."""
    if not hasattr(model, "classes_"):
        error = float(((y - predicted) ** 2).mean())
        spread = float(((y - y.mean()) ** 2).mean())
        r2 = 1.0 - error / spread if spread else float("nan")
        text = f"Mean squared error {error:.6g}, R2 {r2:.4f} ({len(y)} rows)"
        return {"mean_squared_error": error, "r2": r2}, text
    if not np.isin(y, model.classes_).any():
        return {}, ""
    right = int((y == predicted).sum())
    text = f"Accuracy {right / len(y):.2%} ({right} of {len(y)} rows)"
    return {"right": right, "accuracy": right / len(y)}, text


def _comparable(a: Any, b: Any) -> bool:
    """Return whether both are text or both are numbers."""
    return (a.dtype.kind in "US") == (b.dtype.kind in "US")

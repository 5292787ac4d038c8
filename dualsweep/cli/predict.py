"""Prediction; without scikit-learn, whose import takes a second, but for calibration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import typer

from .._typing import Array, Matrix
from ..io import load_model
from ..io._files import atomic_file
from ..io.data import check_width
from ..io.model import read_model
from ..losses import log_probabilities
from ._command import Command
from ._options import Force, Json, NJobs, ZeroBased
from .data import kind_of

Answer: TypeAlias = tuple[Array, Array | None]  # labels, and the values asked for or None


def predict(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model of dualsweep or LIBLINEAR.")
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="Rows, with or without labels: svmlight text, a store or .npz."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write to.", show_default="stdout"),
    ] = None,
    decisions: Annotated[
        bool,
        typer.Option("--decisions", help="After the label, write w.x + b of each class."),
    ] = False,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="After the label, write the probability of each class; for models of the "
            "logistic loss, or with --calibrate.",
        ),
    ] = False,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="Write probabilities that are calibrated on these labelled rows, which the model "
            "must not have been trained on.",
        ),
    ] = None,
    force: Force = False,
    n_jobs: NJobs = -1,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Predict the label or the number of each row, one per line.

    If DATA has labels, the accuracy is printed to stderr, for regression the mean squared error and
    R2. A store may be larger than memory. Features that the model was not trained on are ignored,
    with a warning. Models do not record whether columns were counted from 0: if they were, and no
    row of DATA has a column 0, pass --zero-based.

    With --decisions or --probabilities, which are for classification, each line has values after
    the label, and a first line names the classes they belong to. With two classes a decision is one
    value, positive for the class that is named. Probabilities add up to 1. A model of the logistic
    loss has its own; those of another are a sigmoid of each class's decision, fitted to the rows of
    --calibrate (Platt's method).

    For example:
      dualsweep predict a1a.model.npz a1a.t
      dualsweep predict rcv1.model.npz test.npz -o labels.txt
      dualsweep predict logistic.model.npz new.svm --probabilities
      dualsweep predict a1a.model.npz new.svm --calibrate a1a.t
    """
    probabilities = probabilities or calibrate is not None
    if decisions and probabilities:
        raise typer.BadParameter("--decisions and --probabilities cannot be used together.")
    with Command(json, quiet=True, reads=(model_file, file, calibrate)) as command:
        command.will_write(output, force)
        params, model = _read(model_file, file)
        classes, n_features = model.get("classes_"), model["n_features_in_"]
        options = {"zero_based": zero_based, "n_jobs": n_jobs, "n_features": n_features}
        what = "decisions" if decisions else "probabilities"
        if classes is None and (decisions or probabilities):
            raise typer.BadParameter(
                f"--{what} applies to classification, but {model_file} is a regression model."
            )
        named: Any = classes  # the classes that values are of
        if calibrate is not None:
            answer = _calibrated(command, model_file, calibrate, options)
        elif probabilities:
            answer = _probable(params, model, model_file)
        else:
            answer = _deciding(model, decisions)
            named = classes[1:] if classes is not None and len(classes) == 2 else classes
        if file.is_dir():  # however large it is: a block at a time
            store = command.open(file)
            check_width(file, store, n_features)
            pieces, y = (store.read(b)[0] for b in range(len(store))), store.y
        else:
            X, y = command.load(file, labelled=False, **options)
            pieces = (piece for piece in [X])
        labels, values = map(_joined, zip(*(answer(_finite(file, X)) for X in pieces), strict=True))
        if output is not None:
            with atomic_file(output, force=force) as target:
                target.writelines(line.encode() for line in _lines(labels, values, named))
            command.facts["output"] = str(output)
        elif json:
            command.facts["labels"] = labels.tolist()
            if values is not None:
                command.facts |= {what: values.tolist(), f"{what}_of": named.tolist()}
        else:
            sys.stdout.writelines(_lines(labels, values, named))
        if y is not None:
            facts, text = _error(y, labels) if classes is None else _accuracy(y, labels, classes)
            command.facts |= facts
            if not json:
                command.say(text.format(file=file))


def _read(model_file: Path, file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and attributes of a model; point out names in LIBLINEAR's order."""
    try:
        return read_model(model_file)
    except ValueError as error:
        swapped = model_file.is_file() and file.is_file() and kind_of(model_file) != "model"
        if swapped and kind_of(file) == "model":
            raise ValueError(
                f"{model_file} is not a model, but {file} is: put the model first, dualsweep "
                f"predict {file} {model_file}"
            ) from error
        raise


def _deciding(model: dict[str, Any], decisions: bool) -> Callable[[Matrix], Answer]:
    """Return what computes labels and, if asked for, decisions; for regression, numbers."""
    coef, intercept, classes = model["coef_"], model["intercept_"], model.get("classes_")

    def answer(X: Matrix) -> Answer:
        scores = X @ coef.T + intercept
        if classes is None:
            return scores, None
        chosen = scores.argmax(axis=1) if len(classes) > 2 else (scores[:, 0] > 0).astype(np.intp)
        return classes[chosen], scores if decisions else None

    return answer


def _probable(
    params: dict[str, Any], model: dict[str, Any], model_file: Path
) -> Callable[[Matrix], Answer]:
    """Return what computes labels and the probabilities of a model of the logistic loss."""
    if params.get("loss") != "logistic":
        raise typer.BadParameter(
            f"--probabilities needs a model of the logistic loss, but {model_file} has another. "
            "Train with --loss logistic, or calibrate this one on labelled rows: --calibrate DATA."
        )
    decide, classes = _deciding(model, decisions=True), model["classes_"]
    together = params.get("multi_class") == "multinomial"

    def answer(X: Matrix) -> Answer:
        labels, scores = decide(X)
        assert scores is not None
        scores = scores[:, 0] if len(classes) == 2 else scores
        return labels, np.exp(log_probabilities(np, scores, together))

    return answer


def _calibrated(
    command: Command, model_file: Path, file: Path, options: dict[str, Any]
) -> Callable[[Matrix], Answer]:
    """Return what computes labels and calibrated probabilities."""
    model = load_model(model_file)
    X, y = command.load(file, **options)
    seen = np.unique(y)
    if not np.array_equal(seen, model.classes_):
        raise ValueError(
            f"--calibrate needs rows of every class of the model and no others, but {file} has "
            f"the classes {seen[:10].tolist()} and the model {model.classes_[:10].tolist()}."
        )
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    calibrated = CalibratedClassifierCV(FrozenEstimator(model)).fit(_finite(file, X), y)

    def answer(X: Matrix) -> Answer:
        values = calibrated.predict_proba(X)
        return model.classes_[values.argmax(axis=1)], values

    return answer


def _joined(pieces: tuple[Any, ...]) -> Any:
    return None if pieces[0] is None else np.concatenate(pieces)


def _finite(file: Path, X: Matrix) -> Matrix:
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError(f"{file} contains NaN or infinity. Replace or remove these values.")
    return X


def _lines(labels: Array, values: Array | None, named: Any) -> Iterator[str]:
    if values is None:
        yield from (f"{label}\n" for label in labels.tolist())
        return
    yield f"labels {' '.join(map(str, named.tolist()))}\n"
    for label, row in zip(labels.tolist(), values, strict=True):
        yield f"{label} {' '.join(map(repr, row.tolist()))}\n"


def _error(y: Array, numbers: Array) -> tuple[dict[str, Any], str]:
    """Return how far numbers are from the targets, as facts and in words."""
    if y.dtype.kind in "US":
        return {}, "No mean squared error: the labels of {file} are not numbers."
    error = float(((y - numbers) ** 2).mean())
    spread = float(((y - y.mean()) ** 2).mean())
    r2 = 1.0 - error / spread if spread else float("nan")
    facts = {"mean_squared_error": error, "r2": r2}
    return facts, f"Mean squared error {error:.6g}, R2 {r2:.4f} ({len(y)} rows)"


def _accuracy(y: Array, labels: Array, classes: Array) -> tuple[dict[str, Any], str]:
    """Return how many labels are right, as facts and in words."""
    known = 0
    if (y.dtype.kind in "US") == (classes.dtype.kind in "US"):  # both are text or both numbers
        known = int(np.isin(y, classes).sum())
    if not known:
        return {"known_labels": 0}, "No accuracy: no label of {file} is a class of the model."
    right, n = int((y == labels).sum()), len(y)
    more = f"; the labels of {n - known} are not classes of the model" if known < n else ""
    facts = {"right": right, "accuracy": right / n, "known_labels": known}
    return facts, f"Accuracy {right / n:.2%} ({right} of {n} rows{more})"

"""Prediction; without scikit-learn, whose import takes a second, but for probabilities."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import typer

from ..io import load_model
from ..io._files import atomic_file
from ..io.data import check_width
from ..io.model import read_model
from ._command import Command
from ._options import Force, Json, NJobs, ZeroBased
from .data import kind_of


class Answer(NamedTuple):
    """Labels of some rows, and the values that were asked for."""

    labels: Any
    values: Any  # a column for each class that they are of, or None


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
        Path | None,
        typer.Option(
            metavar="DATA",
            help="After the label, write the probability of each class, calibrated on these "
            "labelled rows, which the model must not have been trained on.",
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
    value, positive for the class that is named. Probabilities are a sigmoid of each class's
    decision, fitted to the rows that are given (Platt's method), and add up to 1.

    For example:
      dualsweep predict a1a.model.npz a1a.t
      dualsweep predict rcv1.model.npz test.npz -o labels.txt
      dualsweep predict a1a.model.npz new.svm --probabilities a1a.t
    """
    if decisions and probabilities is not None:
        raise typer.BadParameter("--decisions and --probabilities cannot be used together.")
    with Command(json, quiet=True, reads=(model_file, file, probabilities)) as command:
        command.writes(output, force)
        model = _read(model_file, file)
        classes, n_features = model.get("classes_"), model["n_features_in_"]
        options = {"zero_based": zero_based, "n_jobs": n_jobs, "n_features": n_features}
        if classes is None and (decisions or probabilities is not None):
            option = "--decisions" if decisions else "--probabilities"
            raise typer.BadParameter(
                f"{option} applies to classification, but {model_file} is a regression model."
            )
        named: Any = None  # the classes that values are of
        if classes is None:
            answer = _estimating(model)
        elif probabilities is not None:
            answer, named = _calibrated(command, model_file, probabilities, options), classes
        else:
            answer = _deciding(model, decisions)
            named = classes if len(classes) > 2 else classes[1:]
        if file.is_dir():  # however large it is: a block at a time
            store = command.open(file)
            check_width(file, store, n_features)
            pieces, y = (store.read(b)[0] for b in range(len(store))), store.y
        else:
            X, y = command.load(file, labelled=False, **options)
            pieces = (piece for piece in [X])
        labels, values = _answers(file, pieces, answer)
        what = "decisions" if decisions else "probabilities"
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
        if y is not None and classes is None:
            _measure(command, file, y, labels)
        elif y is not None:
            _compare(command, file, y, labels, classes)


def _read(model_file: Path, file: Path) -> dict[str, Any]:
    """Return the attributes of a model; who names files in LIBLINEAR's order is told ours."""
    try:
        return read_model(model_file)[1]
    except ValueError as error:
        swapped = model_file.is_file() and file.is_file() and kind_of(model_file) != "model"
        if swapped and kind_of(file) == "model":
            raise ValueError(
                f"{model_file} is not a model, but {file} is: put the model first, dualsweep "
                f"predict {file} {model_file}"
            ) from error
        raise


def _estimating(model: dict[str, Any]) -> Callable[[Any], Answer]:
    coef, intercept = model["coef_"], model["intercept_"]
    return lambda X: Answer(X @ coef + intercept, None)


def _deciding(model: dict[str, Any], decisions: bool) -> Callable[[Any], Answer]:
    coef, intercept, classes = (model[name] for name in ("coef_", "intercept_", "classes_"))

    def answer(X: Any) -> Answer:
        scores = X @ coef.T + intercept
        chosen = scores.argmax(axis=1) if len(classes) > 2 else (scores[:, 0] > 0).astype(np.intp)
        return Answer(classes[chosen], scores if decisions else None)

    return answer


def _calibrated(
    command: Command, model_file: Path, file: Path, options: dict[str, Any]
) -> Callable[[Any], Answer]:
    """Return what calibrated probabilities make of rows."""
    model = load_model(model_file)
    X, y = command.load(file, **options)
    _check_finite(file, X)
    seen = np.unique(y)
    if not np.array_equal(seen, model.classes_):
        raise ValueError(
            f"--probabilities needs rows of every class of the model and no others, but {file} has "
            f"the classes {seen[:10].tolist()} and the model {model.classes_[:10].tolist()}."
        )
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    calibrated = CalibratedClassifierCV(FrozenEstimator(model)).fit(X, y)

    def answer(X: Any) -> Answer:
        values = calibrated.predict_proba(X)
        return Answer(model.classes_[values.argmax(axis=1)], values)

    return answer


def _answers(file: Path, pieces: Iterator[Any], answer: Callable[[Any], Answer]) -> Answer:
    found = []
    for X in pieces:
        _check_finite(file, X)
        found.append(answer(X))
    labels, values = zip(*found, strict=True)
    return Answer(np.concatenate(labels), None if values[0] is None else np.concatenate(values))


def _check_finite(file: Path, X: Any) -> None:
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError(f"{file} contains NaN or infinity. Replace or remove these values.")


def _lines(labels: Any, values: Any, named: Any) -> Iterator[str]:
    if values is None:
        return (f"{label}\n" for label in labels.tolist())
    return _lines_with_values(labels, values, named)


def _lines_with_values(labels: Any, values: Any, named: Any) -> Iterator[str]:
    yield f"labels {' '.join(map(str, named.tolist()))}\n"
    for label, row in zip(labels.tolist(), values, strict=True):
        yield f"{label} {' '.join(map(repr, row.tolist()))}\n"


def _measure(command: Command, file: Path, y: Any, numbers: Any) -> None:
    """Tell how far numbers are from the targets, or that those are none."""
    if y.dtype.kind in "US":
        if not command.json:
            command.say(f"No mean squared error: the labels of {file} are not numbers.")
        return
    error = float(((y - numbers) ** 2).mean())
    spread = float(((y - y.mean()) ** 2).mean())
    r2 = 1.0 - error / spread if spread else float("nan")
    command.facts |= {"mean_squared_error": error, "r2": r2}
    if not command.json:
        command.say(f"Mean squared error {error:.6g}, R2 {r2:.4f} ({len(y)} rows)")


def _compare(command: Command, file: Path, y: Any, labels: Any, classes: Any) -> None:
    """Tell how many labels are right, or that none is known."""
    known = np.zeros(len(y), bool)
    if (y.dtype.kind in "US") == (classes.dtype.kind in "US"):  # both are text or both numbers
        known = np.isin(y, classes)
    if not known.any():
        command.facts["known_labels"] = 0
        if not command.json:
            command.say(f"No accuracy: no label of {file} is a class of the model.")
        return
    right = int((y == labels).sum())
    command.facts |= {"right": right, "accuracy": right / len(y), "known_labels": int(known.sum())}
    if not command.json:
        strange = len(y) - int(known.sum())
        more = f"; the labels of {strange} are not classes of the model" if strange else ""
        command.say(f"Accuracy {right / len(y):.2%} ({right} of {len(y)} rows{more})")

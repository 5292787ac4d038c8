"""Models in LIBLINEAR's text format."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from .._host import to_host
from .._typing import Array, JsonObject
from ..losses import REGRESSION_LOSSES
from ._checks import blaming, check_weights, whole_numbers
from ._files import atomic_file, naming

if TYPE_CHECKING:
    from ..estimators import LinearSVC, LinearSVR, LogisticRegression

Attributes: TypeAlias = dict[str, Any]  # of a fitted estimator, by name

MAGIC = b"solver_type"  # the start of a file

# The parameters that stand for LIBLINEAR's formulations. Of two, the first is written.
HINGE, SQUARED_HINGE, JOINT = "L2R_L1LOSS_SVC_DUAL", "L2R_L2LOSS_SVC_DUAL", "MCSVM_CS"
LOGISTIC = {"loss": "logistic", "intercept": "penalized", "multi_class": "ovr"}
PARAMETERS = {
    HINGE: {"loss": "hinge"},
    SQUARED_HINGE: {"loss": "squared_hinge"},
    "L2R_L2LOSS_SVC": {"loss": "squared_hinge"},
    JOINT: {"multi_class": "crammer_singer"},
    "L2R_LR_DUAL": LOGISTIC,
    "L2R_LR": LOGISTIC,
    "L2R_L1LOSS_SVR_DUAL": {"loss": "epsilon_insensitive"},
    "L2R_L2LOSS_SVR_DUAL": {"loss": "squared_epsilon_insensitive"},
    "L2R_L2LOSS_SVR": {"loss": "squared_epsilon_insensitive"},
}
# Models of LIBLINEAR that are valid, but not of a kind that dualsweep has.
OTHERS = {
    "L1R_LR": "for logistic regression with the l1 penalty",
    "L1R_L2LOSS_SVC": "for classification with the l1 penalty",
    "ONECLASS_SVM": "for outliers, a one-class SVM",
}
MAX_NAME = 100  # bytes of the first line
HEADER = ("solver_type", "nr_class", "label", "nr_feature", "bias")
MAX_LINE = 1 << 24  # bytes; a million classes take as many


def save_liblinear(model: Any, path: str | Path, *, force: bool = False) -> None:
    """Write a fitted model in LIBLINEAR's text format.

    LIBLINEAR's ``predict`` gives the same decision values, since weights are written with all
    digits. The certificate is lost, and the epsilon of regression. The format has no name for the
    squared loss and Weston-Watkins: they are written as ``L2R_L2LOSS_SVC_DUAL`` and ``MCSVM_CS``.
    For two classes Crammer-Singer and Weston-Watkins equal the hinge loss, and are written as
    ``L2R_L1LOSS_SVC_DUAL``. It has no multinomial logistic regression of more classes, which is
    refused.

    Parameters
    ----------
    model : LinearSVC, LinearSVR or LogisticRegression
        A fitted model. Its classes must be integers: the format has no others.
    path : str or Path
        Where to write; the file appears complete or not at all. A link is followed.
    force : bool, default=False
        Whether to replace a file that exists. Devices, pipes and directories are never replaced.
    """
    coef, intercept = fitted_weights(model)
    bias = float(model.intercept_scaling) if model.fit_intercept else -1.0
    weights = np.atleast_2d(coef)
    if bias > 0:
        weights = np.hstack([weights, intercept[:, None] / bias])
    labels = [] if model.loss in REGRESSION_LOSSES else classes_there(model, model.classes_)
    header = [f"solver_type {_solver_type(model, len(labels))}", f"nr_class {len(labels) or 2}"]
    if labels:
        # A single row of weights is for our second class, and for LIBLINEAR's first.
        ordered = labels[::-1] if len(labels) == 2 else labels
        header.append(f"label {' '.join(map(str, ordered))}")
    header += [f"nr_feature {model.n_features_in_}", f"bias {bias!r}", "w"]
    with atomic_file(Path(path), force=force) as file:
        file.write("\n".join(header).encode() + b"\n")
        for row in weights.T:
            file.write(" ".join(map(repr, row.tolist())).encode() + b" \n")


def fitted_weights(model: Any) -> tuple[Array, Array]:
    """Return weights and intercepts to save, in host memory; ValueError if there are none."""
    if not hasattr(model, "coef_"):
        raise ValueError(f"This {type(model).__name__} is not fitted; call fit before saving it.")
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else to_host(model.coef_)
    return coef, to_host(model.intercept_)


def classes_there(model: Any, classes: Any) -> list[int]:
    """Return classes as the format has them; ValueError if it has no such classes, or no model."""
    if classes.shape[0] > 2 and model.multi_class == "multinomial":
        raise ValueError(
            "LIBLINEAR's model format has no multinomial logistic regression of more than two "
            "classes. Train with multi_class='ovr', or use dualsweep's own format."
        )
    return integer_classes(to_host(classes))


def integer_classes(classes: Array) -> list[int]:
    """Return classes as integers of 32 bits, which LIBLINEAR reads; ValueError if they are not."""
    labels = whole_numbers(classes) if classes.dtype.kind in "iufb" else None
    if labels is not None and np.array_equal(labels, labels.astype(np.int32)):
        return labels.tolist()
    raise ValueError(
        "LIBLINEAR's model format has classes that are integers of 32 bits, but these are "
        f"{classes[:5].tolist()}{' ...' if len(classes) > 5 else ''}. Train with such labels, or "
        "use dualsweep's own format."
    )


def _solver_type(model: Any, n_classes: int) -> str:
    if n_classes > 0 and model.multi_class not in ("ovr", "multinomial"):
        return HINGE if n_classes == 2 else JOINT
    names = (name for name, kind in PARAMETERS.items() if kind.get("loss") == model.loss)
    return next(names, SQUARED_HINGE)


def load_liblinear(path: str | Path) -> LinearSVC | LinearSVR | LogisticRegression:
    """Read a model in LIBLINEAR's text format.

    Parameters
    ----------
    path : str or Path
        A file that LIBLINEAR or `save_liblinear` wrote: a support vector machine for
        classification or regression, or logistic regression, with the l2 penalty.

    Returns
    -------
    LinearSVC, LinearSVR or LogisticRegression
        A model that predicts, with the parameters the file tells. It does not tell C, nor the
        epsilon of regression, and has no certificate.
    """
    return fitted_estimator(*read_liblinear(path))


def fitted_estimator(
    params: JsonObject, attributes: Attributes
) -> LinearSVC | LinearSVR | LogisticRegression:
    """Return an estimator with these parameters and attributes."""
    # It takes a second, and is not needed to write.
    from ..estimators import LinearSVC, LinearSVR, LogisticRegression

    model: LinearSVC | LinearSVR | LogisticRegression
    if params.get("loss") == "logistic":
        model = LogisticRegression(**{n: value for n, value in params.items() if n != "loss"})
    else:
        model = LinearSVC(**params) if "classes_" in attributes else LinearSVR(**params)
    model.__dict__.update(attributes)
    return model


def read_liblinear(path: str | Path) -> tuple[JsonObject, Attributes]:
    """Return the parameters and attributes of a model, without the import of scikit-learn."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is not a model of LIBLINEAR: it is not a regular file.")
    with naming(path), path.open("rb") as file:
        start = file.peek(MAX_NAME)[:MAX_NAME]
        if not start.startswith(MAGIC):
            raise ValueError(f"{path} is not a model of LIBLINEAR: it must start with solver_type.")
        name = start.partition(b"\n")[0][len(MAGIC) :].strip().decode(errors="replace")
        if name not in PARAMETERS:
            kind = f"{OTHERS[name]} ({name})" if name in OTHERS else f"of type {name or 'unknown'}"
            raise ValueError(f"{path} has a model {kind}; dualsweep reads {', '.join(PARAMETERS)}.")
        with blaming(f"{path} is a damaged model of LIBLINEAR"):
            return _parse(file, name)


def _parse(file: IO[bytes], solver_type: str) -> tuple[JsonObject, Attributes]:
    """Return the parameters and attributes of a model; ValueError if they make no sense."""
    header = _read_header(file)
    [n_classes], [n_features] = (map(int, header[name]) for name in ("nr_class", "nr_feature"))
    [bias] = map(float, header["bias"])
    labels = np.array([int(label) for label in header.get("label", ())], dtype=np.int64)
    # There may be millions of weights, and a damaged file may be a single line.
    lines = iter(partial(file.readline, MAX_LINE), b"")
    weights = np.fromiter(map(float, chain.from_iterable(map(bytes.split, lines))), np.float64)

    params: JsonObject = dict(PARAMETERS[solver_type])
    regression = params.get("loss") in REGRESSION_LOSSES
    n_rows = 1 if n_classes == 2 and solver_type != JOINT else n_classes
    n_weights = n_rows * (n_features + (bias >= 0))
    if n_classes < 2 or n_features < 0 or (regression and n_classes > 2):
        raise ValueError(f"nr_class is {n_classes}, nr_feature is {n_features}")
    n_labels = 0 if regression else n_classes
    if len(labels) != n_labels or len(np.unique(labels)) != n_labels:
        raise ValueError(f"nr_class is {n_classes}, label is {labels[:20].tolist()}")
    if len(weights) != n_weights:
        raise ValueError(f"it has {len(weights)} weights instead of {n_weights}")
    if not (np.isfinite(weights).all() and np.isfinite(bias)):
        raise ValueError("not all weights are finite")

    weights = weights.reshape(-1, n_rows).T
    with np.errstate(over="ignore"):
        if not regression:
            weights, labels = _sorted_classes(weights, labels)
        intercept = bias * weights[:, -1] if bias > 0 else np.zeros(len(weights))
    coef = np.ascontiguousarray(weights[0 if regression else slice(None), :n_features])
    check_weights(coef, intercept, None if regression else labels)
    params |= {"fit_intercept": bias > 0, "intercept_scaling": bias if bias > 0 else 1.0}
    fitted = {"coef_": coef, "intercept_": intercept, "n_features_in_": n_features}
    return params, fitted if regression else fitted | {"classes_": labels}


def _read_header(file: IO[bytes]) -> dict[str, list[bytes]]:
    """Return the words of the lines before the weights, by their first word."""
    header: dict[str, list[bytes]] = {}
    while line := file.readline(MAX_LINE):
        word, *values = line.split() or [b""]
        name = word.decode(errors="replace")
        if name == "w":
            break
        if name and (name not in HEADER or name in header or not line.endswith(b"\n")):
            raise ValueError(f"{name[:20]} where one of {', '.join(HEADER)} or w is expected")
        if name:
            header[name] = values
    missing = [name for name in HEADER if name not in header and name != "label"]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    return header


def _sorted_classes(weights: Array, labels: Array) -> tuple[Array, Array]:
    """Return the weights in the order of the sorted classes, and these classes."""
    order = np.argsort(labels)
    if len(weights) == 1:  # is for the first label, and becomes that of the larger
        return weights if labels[0] > labels[1] else -weights, labels[order]
    weights = weights[order]
    return weights[1:] - weights[:1] if len(weights) == 2 else weights, labels[order]

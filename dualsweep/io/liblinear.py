"""Models in LIBLINEAR's text format."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .._host import to_host
from ..losses import REGRESSION_LOSSES
from ._checks import check_weights
from ._files import atomic_file, naming

if TYPE_CHECKING:
    from ..estimators import LinearSVC, LinearSVR

MAGIC = b"solver_type"  # what a file starts with

# What LIBLINEAR calls a formulation of ours, and what its formulations are here.
HINGE, SQUARED_HINGE, JOINT = "L2R_L1LOSS_SVC_DUAL", "L2R_L2LOSS_SVC_DUAL", "MCSVM_CS"
PARAMETERS: dict[str, dict[str, Any]] = {
    HINGE: {"loss": "hinge"},
    SQUARED_HINGE: {"loss": "squared_hinge"},
    "L2R_L2LOSS_SVC": {"loss": "squared_hinge"},
    JOINT: {"multi_class": "crammer_singer"},
}
REGRESSION: dict[str, dict[str, Any]] = {
    "L2R_L1LOSS_SVR_DUAL": {"loss": "epsilon_insensitive"},
    "L2R_L2LOSS_SVR_DUAL": {"loss": "squared_epsilon_insensitive"},
    "L2R_L2LOSS_SVR": {"loss": "squared_epsilon_insensitive"},
}
# What else it trains: models that are whole, but not of a kind that is read here.
OTHERS = {
    "L2R_LR": "logistic regression",
    "L2R_LR_DUAL": "logistic regression",
    "L1R_LR": "logistic regression with the l1 penalty",
    "L1R_L2LOSS_SVC": "classification with the l1 penalty",
    "ONECLASS_SVM": "outliers, a one-class SVM",
}
INT32 = np.iinfo(np.int32)
LONGEST_NAME = 100
HEADER = ("solver_type", "nr_class", "label", "nr_feature", "bias")
LONGEST_LINE = 1 << 24  # what a million classes take


def save_liblinear(model: Any, path: str | Path, *, force: bool = False) -> None:
    """Write a fitted model in LIBLINEAR's text format.

    LIBLINEAR's ``predict`` then gives the same decision values: weights are written with as many
    digits as it takes. The certificate is lost. The squared loss and Weston-Watkins have no name
    there and are called ``L2R_L2LOSS_SVC_DUAL`` and ``MCSVM_CS``; for two classes Crammer-Singer
    and Weston-Watkins are the hinge loss, and so called ``L2R_L1LOSS_SVC_DUAL``. Regression is
    called ``L2R_L1LOSS_SVR_DUAL`` or ``L2R_L2LOSS_SVR_DUAL``, its epsilon is lost.

    Parameters
    ----------
    model : LinearSVC or LinearSVR
        A fitted model whose classes, if it has any, are integers, since the format knows no others.
    path : str or Path
        Where to write; the file appears complete or not at all. A link is followed.
    force : bool, default=False
        Whether to replace a file that exists. Devices, pipes and directories are never replaced.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from dualsweep import LinearSVC
    >>> from dualsweep.io import load_liblinear, save_liblinear
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC(random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     save_liblinear(model, Path(folder, "iris.model"))
    ...     lines = Path(folder, "iris.model").read_text().splitlines()
    ...     again = load_liblinear(Path(folder, "iris.model"))
    >>> lines[:5]
    ['solver_type L2R_L2LOSS_SVC_DUAL', 'nr_class 3', 'label 0 1 2', 'nr_feature 4', 'bias 1.0']
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    if not hasattr(model, "coef_"):
        raise ValueError(f"This {type(model).__name__} is not fitted; call fit before saving it.")
    bias = float(model.intercept_scaling) if model.fit_intercept else -1.0
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else to_host(model.coef_)
    weights = np.atleast_2d(coef)
    if bias > 0:
        weights = np.hstack([weights, to_host(model.intercept_)[:, None] / bias])
    if model.loss in REGRESSION_LOSSES:
        solver_type = next(name for name, kind in REGRESSION.items() if kind["loss"] == model.loss)
        about = [f"solver_type {solver_type}", "nr_class 2"]
    else:
        labels = integer_classes(to_host(model.classes_))
        binary = len(labels) == 2
        # A single row of weights speaks for our second class, and in LIBLINEAR for the first.
        about = [
            f"solver_type {_solver_type(model, binary)}",
            f"nr_class {len(labels)}",
            f"label {' '.join(map(str, reversed(labels) if binary else labels))}",
        ]
    header = [
        *about,
        f"nr_feature {model.n_features_in_}",
        f"bias {bias!r}",
        "w",
    ]
    with atomic_file(Path(path), force=force) as file:
        file.write("\n".join(header).encode() + b"\n")
        for row in weights.T:
            file.write(" ".join(map(repr, row.tolist())).encode() + b" \n")


def integer_classes(classes: Any) -> list[int]:
    """Return classes as the integers that LIBLINEAR reads; ValueError if they are others."""
    if classes.dtype.kind in "iufb":
        with np.errstate(invalid="ignore"):
            labels = classes.astype(np.int64)
        if (
            np.array_equal(labels, classes)
            and INT32.min <= labels.min() <= labels.max() <= INT32.max
        ):
            return [int(label) for label in labels]
    raise ValueError(
        "LIBLINEAR's model format has classes that are integers of 32 bits, but these are "
        f"{classes[:5].tolist()}{' ...' if len(classes) > 5 else ''}. Train with such labels, or "
        "use dualsweep's own format."
    )


def _solver_type(model: Any, binary: bool) -> str:
    if model.multi_class == "ovr":
        return HINGE if model.loss == "hinge" else SQUARED_HINGE
    return HINGE if binary else JOINT


def load_liblinear(path: str | Path) -> LinearSVC | LinearSVR:
    """Read a model in LIBLINEAR's text format.

    Parameters
    ----------
    path : str or Path
        A file that LIBLINEAR or `save_liblinear` wrote: a support vector machine for
        classification or regression, with the l2 penalty.

    Returns
    -------
    LinearSVC or LinearSVR
        A model that predicts, with the parameters the file tells. It does not tell C, nor the
        epsilon of regression, and has no certificate.
    """
    from ..estimators import LinearSVC, LinearSVR  # takes a second, and is not needed to write

    params, fitted = read_liblinear(path)
    model = LinearSVC(**params) if "classes_" in fitted else LinearSVR(**params)
    model.__dict__.update(fitted)
    return model


def read_liblinear(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and attributes of a model, without scikit-learn."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is not a model of LIBLINEAR: it is not a regular file.")
    solver_type, labels, n_features, bias, weights = _read(path)
    has_bias = bias > 0
    params = (PARAMETERS | REGRESSION)[solver_type] | {
        "fit_intercept": has_bias,
        "intercept_scaling": bias if has_bias else 1.0,
    }
    classes = None
    with np.errstate(over="ignore"):
        if solver_type not in REGRESSION:
            weights, classes = _in_order(weights, labels)
        intercept = bias * weights[:, -1] if has_bias else np.zeros(len(weights))
    coef = np.ascontiguousarray(weights[0 if classes is None else slice(None), :n_features])
    try:
        check_weights(coef, intercept, classes)
    except ValueError as error:
        raise _damaged(path, error) from error
    fitted = {"coef_": coef, "intercept_": intercept, "n_features_in_": n_features}
    return params, fitted if classes is None else fitted | {"classes_": classes}


def _in_order(weights: Any, labels: Any) -> tuple[Any, Any]:
    """Return the weights as ours are, and the classes, which are in ascending order."""
    order = np.argsort(labels)
    if len(weights) == 1:  # speaks for the first label, and shall for the larger
        weights = weights if labels[0] > labels[1] else -weights
    else:
        weights = weights[order]
        if len(weights) == 2:
            weights = weights[1:] - weights[:1]
    return weights, labels[order]


def _damaged(path: Path, why: object) -> ValueError:
    return ValueError(f"{path} is a damaged model of LIBLINEAR: {str(why)[:200]}.")


def _read(path: Path) -> tuple[str, Any, int, float, Any]:
    """Return solver type, labels, number of features, bias and the rows of weights."""
    with naming(path), path.open("rb") as file:
        if file.peek(len(MAGIC))[: len(MAGIC)] != MAGIC:
            raise ValueError(f"{path} is not a model of LIBLINEAR: it must start with solver_type.")
        start = file.peek(LONGEST_NAME)[:LONGEST_NAME].decode(errors="replace")
        other = start.partition("\n")[0].removeprefix("solver_type ").strip()
        if other in OTHERS:
            raise ValueError(
                f"{path} is a model of LIBLINEAR for {OTHERS[other]} ({other}). dualsweep reads "
                f"{', '.join(PARAMETERS | REGRESSION)}."
            )
        try:
            header = _read_header(file)
            (solver_type,) = (name.decode(errors="replace") for name in header["solver_type"])
            labels = np.array([int(label) for label in header.get("label", ())], dtype=np.int64)
            (n_classes,), (n_features,) = (
                map(int, header[name]) for name in ("nr_class", "nr_feature")
            )
            (bias,) = map(float, header["bias"])
            # There may be millions of weights, and a damaged file may be a single line.
            lines = iter(partial(file.readline, LONGEST_LINE), b"")
            tokens = chain.from_iterable(map(bytes.split, lines))
            weights = np.fromiter(map(float, tokens), np.float64)
        except (ValueError, OverflowError) as error:
            raise _damaged(path, error) from error
    if solver_type not in PARAMETERS | REGRESSION:
        raise ValueError(
            f"{path} has a model of type {solver_type}; dualsweep reads "
            f"{', '.join(PARAMETERS | REGRESSION)}."
        )
    n_labels = 0 if solver_type in REGRESSION else n_classes
    n_rows = 1 if n_classes == 2 and solver_type != JOINT else n_classes
    n_columns = n_features + (bias >= 0)
    if n_classes < 2 or n_features < 0 or (solver_type in REGRESSION and n_classes > 2):
        raise _damaged(path, f"nr_class is {n_classes}, nr_feature is {n_features}")
    if len(labels) != n_labels or len(np.unique(labels)) != n_labels:
        raise _damaged(path, f"nr_class is {n_classes}, label is {labels[:20].tolist()}")
    if len(weights) != n_rows * n_columns:
        raise _damaged(path, f"it has {len(weights)} weights instead of {n_rows * n_columns}")
    if not (np.isfinite(weights).all() and np.isfinite(bias)):
        raise _damaged(path, "not all weights are finite")
    return solver_type, labels, n_features, bias, weights.reshape(n_columns, n_rows).T


def _read_header(file: IO[bytes]) -> dict[str, list[bytes]]:
    """Return what stands before the weights, by name."""
    header: dict[str, list[bytes]] = {}
    while line := file.readline(LONGEST_LINE):
        name, *values = line.split() or [b""]
        if name == b"w":
            break
        known = name.decode(errors="replace")
        if name and (known not in HEADER or known in header or not line.endswith(b"\n")):
            raise ValueError(f"{known[:20]} where one of {', '.join(HEADER)} or w is expected")
        if name:
            header[known] = values
    missing = [name for name in HEADER if name not in header and name != "label"]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    return header

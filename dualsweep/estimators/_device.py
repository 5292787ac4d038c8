"""Arrays on a device: where they are, their checks, and predictions that stay there."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.metrics import accuracy_score
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._host import to_host
from ..placements import OnDevice
from ..placements.device.arrays import Space
from ..rows.passes import chunks

SLICE = 1 << 26  # scores computed at a time for predictions


def space_of(X: Any) -> Space | None:
    """Return where a matrix is, if it is trained on there; None if it becomes NumPy's.

    Arrays of CuPy, and of torch on a device, always stay. Those in host memory become NumPy arrays,
    as everywhere in scikit-learn, unless ``array_api_dispatch=True``.
    """
    library, dispatch = _library(X), get_config()["array_api_dispatch"]
    if library == "cupy" and hasattr(X, "dtype"):
        array = X.data if type(X).__module__.startswith("cupyx") else X  # of a sparse matrix
        return Space(_compat().array_namespace(array), array.device)
    if library == "torch" and hasattr(X, "device"):
        there = X.device.type != "cpu" or dispatch
        return Space(_compat().array_namespace(X), X.device) if there else None
    if dispatch and library not in ("numpy", "scipy") and hasattr(X, "__array_namespace__"):
        return Space(X.__array_namespace__(), X.device)
    return None


def _library(array: Any) -> str:
    """Return the name of an array's library; sparse matrices of CuPy are CuPy's."""
    return type(array).__module__.partition(".")[0].replace("cupyx", "cupy")


def _compat() -> Any:
    """Return the library of namespaces: installed, or the copy that scikit-learn brings."""
    for name in ("array_api_compat", "sklearn.externals.array_api_compat"):
        with suppress(ImportError):
            return import_module(name)
    raise ImportError("Arrays on a device need array-api-compat: pip install 'dualsweep[gpu]'.")


def refuse_device(X: Any, what: str) -> None:
    """Raise TypeError if X is on a device."""
    if space_of(X) is not None:
        raise TypeError(
            f"{what} takes no arrays on a device, but X is {_described(X)}. Pass a copy on the "
            "host."
        )


def check_device_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, space: Space
) -> tuple[OnDevice, Any, Any]:
    """Return what `check_data` does, for X on a device; y and the weights on the host."""
    X, n = _checked(X), X.shape[0]
    if n == 0:
        raise ValueError("X has no rows.")
    if y is None:
        raise ValueError("There are no labels: y is None.")
    there = _is_here(y, "y", X, space)
    labels = column_or_1d(to_host(y), warn=True)
    check_classification_targets(labels)
    if len(labels) != n:
        raise ValueError(f"X has {n} rows, but y has {len(labels)}.")
    if sample_weight is not None:
        _is_here(sample_weight, "sample_weight", X, space)
        sample_weight = to_host(sample_weight)
    estimator.n_features_in_ = X.shape[1]
    estimator.__dict__.pop("feature_names_in_", None)
    return OnDevice(X, space, there), labels, sample_weight


def _checked(X: Any) -> Any:
    """Return a matrix that can be multiplied as it is."""
    dtype = str(X.dtype).rpartition(".")[2]
    if dtype not in ("float32", "float64"):
        raise TypeError(
            f"X is {dtype} on the device. Only float32 and float64 can be trained on: less is too "
            "rough for a certificate. Convert X to float32."
        )
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, but its shape is {tuple(X.shape)}.")
    if hasattr(X, "is_sparse") and (X.is_sparse or "strided" not in str(X.layout)):
        raise TypeError(
            "Sparse torch tensors cannot be trained on. Make a cupyx.scipy.sparse.csr_matrix of "
            "the tensor's values, col_indices and crow_indices; CuPy takes them without a copy."
        )
    if type(X).__module__.startswith("cupyx"):
        return X.tocsr()
    if hasattr(X, "requires_grad"):
        return X.detach()
    return X


def _is_here(array: Any, name: str, X: Any, space: Space) -> bool:
    """Return whether labels or weights are where X is; ValueError if on another device."""
    library = _library(array)
    if library not in ("cupy", "torch", "array_api_strict") or not hasattr(array, "device"):
        return False
    if library != _library(X) or array.device != space.device:
        raise ValueError(
            f"X is {_described(X)}, but {name} is {_described(array)}. Both must be in one "
            f"place, or {name} an array of NumPy."
        )
    return True


def _described(array: Any) -> str:
    """Say what kind of array it is, and where."""
    kind = type(array)
    where = getattr(array, "device", getattr(getattr(array, "data", None), "device", "the host"))
    return f"a {kind.__module__.partition('.')[0]}.{kind.__name__} on {where}"


class DevicePredictions:
    """Predictions for X on a device, which stay there; scikit-learn makes all others."""

    # Of the estimator that this is mixed into.
    coef_: Any
    intercept_: Any
    classes_: Any
    n_features_in_: int

    def decision_function(self, X: Any) -> Any:
        """Return a score per class for each row; for two classes, one for the second.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. For a model trained on a device, X has to be there too, and the scores are.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            Scores.
        """
        space = self._space(X)
        if space is None:
            return super().decision_function(X)  # type: ignore[misc]
        with space.current():
            scores = self._scores(self._rows(X), space)
            return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Any:
        """Return the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; see `decision_function` for where.

        Returns
        -------
        array of shape (n_samples,)
            Classes; where X is, if the labels of the training were there.
        """
        space = self._space(X)
        if space is None:
            return super().predict(X)  # type: ignore[misc]
        xp, X, classes = space.xp, self._rows(X), self.classes_
        chosen = []
        with space.current():
            for part in chunks(slice(0, X.shape[0]), SLICE // self.coef_.shape[0]):
                scores = self._scores(X[part, :], space)
                if scores.shape[1] == 1:
                    chosen.append(xp.astype(scores[:, 0] > 0, xp.int64))
                else:
                    chosen.append(xp.argmax(scores, axis=1))
            places = xp.concat(chosen, axis=0)
            if isinstance(classes, np.ndarray) and space.library != "numpy":
                return classes[space.numpy(places)]
            return xp.take(classes, places, axis=0)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each row counts.

        Returns
        -------
        float
            The weighted share of the rows that are predicted right.
        """
        if self._space(X) is None:
            return float(super().score(X, y, sample_weight=sample_weight))  # type: ignore[misc]
        weight = None if sample_weight is None else to_host(sample_weight)
        return float(accuracy_score(to_host(y), to_host(self.predict(X)), sample_weight=weight))

    def _space(self, X: Any) -> Space | None:
        """Return where X is; ValueError if the model is elsewhere."""
        check_is_fitted(self)
        space, coef = space_of(X), self.coef_
        home = space_of(coef)
        if (home and (home.library, home.device)) != (space and (space.library, space.device)):
            where = "an array of NumPy" if space is None else _described(X)
            raise ValueError(
                f"The model's coef_ is {_described(coef)}, but X is {where}. Move X, or the model "
                "with sklearn.utils._array_api.move_estimator_to."
            )
        return space

    def _rows(self, X: Any) -> Any:
        X = _checked(X)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return X

    def _scores(self, X: Any, space: Space) -> Any:
        xp = space.xp
        coef = xp.astype(self.coef_, X.dtype, copy=False)
        intercept = xp.astype(self.intercept_, X.dtype, copy=False)
        return X @ coef.T + intercept

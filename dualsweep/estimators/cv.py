"""`LinearSVCCV`: `LinearSVC` that chooses its own C."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..training.parameters import OfClasses
from ._device import DevicePredictions
from ._model import LinearClassifier, accuracy
from .searching import SearchingC
from .svc import LinearSVC


class LinearSVCCV(  # type: ignore[misc]  # score is that of `scoring`
    SearchingC, DevicePredictions, LinearClassifier, OfClasses
):
    """Linear support vector classification that chooses C by cross-validation.

    Each fold trains the values of C in ascending order, each from the solution for a smaller one
    (`svc_path`). A fold is a set of rows of X, never a copy of them: folds, classes and, where
    these are few, values of C run in threads that share X. The model is then trained on all rows
    with the C of choice.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {search}
    {weights}
    {certificate}

    See Also
    --------
    svc_path : Models for a sequence of C.
    dualsweep.plotting.PathDisplay : Scores, support vectors and times against C.

    Notes
    -----
    The rows that a fold is scored on are copied while it is scored. Beyond that, a fold takes
    memory for a few numbers per row, and per feature, of each class. On a store that does not fit
    into `memory_limit`, one fold is trained at a time, and scored block by block; labels and the
    dual variables of each fold's support vectors come on top of that limit. Weights of "balanced"
    classes count the rows that are trained on.

    Ctrl-C during the search leaves nothing; after it, the model so far with its certificate, as in
    `LinearSVC`. `KeyboardInterrupt` is raised in either case.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import LinearSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVCCV(patience=None, random_state=0).fit(scale(X), y)
    >>> model.scores_.shape
    (5, 10)
    >>> bool(model.C_ == model.Cs_[model.scores_.mean(axis=0).argmax()])
    True
    >>> bool(model.relative_gap_ <= model.tol)
    True
    """

    _kind = LinearSVC
    _default_scoring = "accuracy"
    _plain_scorer = staticmethod(accuracy)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.svm.LinearSVC` with the same predictions; see `LinearSVC`."""
        check_is_fitted(self)
        return self.best_estimator_.to_sklearn()

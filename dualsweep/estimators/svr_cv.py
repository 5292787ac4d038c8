"""`LinearSVRCV`: `LinearSVR` that chooses its own C."""

from __future__ import annotations

from ..training.parameters import OfTargets
from ._model import LinearRegressor
from .searching import SearchingC
from .svr import LinearSVR


class LinearSVRCV(SearchingC, LinearRegressor, OfTargets):
    """Linear support vector regression that chooses C by cross-validation.

    Searches as `LinearSVCCV` does: each fold trains ascending values of C, each from the solution
    for a smaller one, and all share X. The model is then trained on all rows with the C of choice.

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
    svr_path : Models for a sequence of C.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import LinearSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearSVRCV(patience=None, random_state=0).fit(scale(X), scale(y))
    >>> bool(model.C_ == model.Cs_[model.scores_.mean(axis=0).argmax()])
    True
    >>> bool(model.relative_gap_ <= model.tol)
    True
    """

    _kind = LinearSVR
    _default_scoring = "r2"

"""`LinearSVC`: linear classification with a certificate."""

from __future__ import annotations

from typing import Any

from ..training.parameters import Classification
from ._device import DevicePredictions
from ._model import LinearClassifier
from .certified import CertifiedModel


class LinearSVC(DevicePredictions, LinearClassifier, CertifiedModel, Classification):
    """Linear support vector classification with a certificate.

    For two classes, with labels y_i in {-1, +1} and ``C_i = C * sample_weight_i *
    class_weight[y_i]``, the model minimises::

        P(w, b) = 1/2 |w|^2 + 1/2 (b / intercept_scaling)^2 + sum_i C_i * loss(y_i (w.x_i + b))

    over w and b by coordinate descent on the dual, whose value D is a lower bound on every
    P. Training stops when ``P - D <= tol * P`` is proven: the objective of the returned model is
    then at most the fraction `tol` of itself above the optimum. More than two classes are
    trained one versus the rest, each class with a certificate of its own, or all at once.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {weights}
    {certificate}

    Notes
    -----
    X is used without a copy if it is CSR or C-ordered dense, of float32 or float64, memory-mapped
    or not; anything else is converted once. Models and certificates are float64 in any case.

    A store (`dualsweep.io.open_store`) that does not fit into `memory_limit` is trained block by
    block, by sweeps, with the same certificate; classes of one-versus-rest one after the other,
    whatever `n_jobs` is. `predict` and `decision_function` take stores too. See
    docs/guide/files.md.

    X on a device, a CuPy array or CSR matrix or a torch tensor, is trained on there, all classes at
    once and by Newton steps alone: `solver`, `schedule`, `n_jobs` and `random_state` have no
    effect. Attributes with a number per feature, class or row are arrays of the same library on
    the same device. ``dual_gap_`` bounds ``P(coef_) - D(dual_coef_)``, so that
    ``|coef_ - dual_coef_ @ X|^2 <= 2 dual_gap_``, the intercept included. See docs/gpu.md.

    Ctrl-C ends `fit` early but leaves the estimator fitted, with the certificate of the model so
    far; `KeyboardInterrupt` is raised after that. Classes of one-versus-rest that were not begun by
    then, or by the end of `max_time`, score every row by how frequent they are: their coefficients
    are 0 (without an intercept, the mean of the others'), their relative gap is 1.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008). A dual coordinate descent method for
    large-scale linear SVM. ICML.

    Glasmachers, Dogan (2013). Accelerated linear SVM training with adaptive variable selection
    frequencies. arXiv:1302.5608.

    Keerthi, Sundararajan, Chang, Hsieh, Lin (2008). A sequential dual method for large scale
    multi-class linear SVMs. KDD.

    Wang, Scott (2021). An exact solver for the Weston-Watkins SVM subproblem. ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(C=0.1, tol=1e-6, random_state=0).fit(scale(X), y)
    >>> model.converged_, bool(model.relative_gap_ <= 1e-6)
    (True, True)
    >>> round(model.primal_objective_, 3) - round(model.dual_objective_, 3)
    0.0
    """

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.svm.LinearSVC` with the same predictions.

        For everything that consumes scikit-learn's models. The squared loss, Weston-Watkins and a
        free intercept have no counterpart there: such a model predicts, but trained again it would
        become another.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dualsweep import LinearSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> model = LinearSVC(random_state=0).fit(X, y)
        >>> bool((model.to_sklearn().predict(X) == model.predict(X)).all())
        True
        """
        from sklearn.svm import LinearSVC as SklearnLinearSVC

        shared = ("C", "fit_intercept", "intercept_scaling", "class_weight", "random_state")
        loss = "hinge" if self.loss == "hinge" else "squared_hinge"
        multi_class = "ovr" if self.multi_class == "ovr" else "crammer_singer"
        return self._as(SklearnLinearSVC, shared, loss=loss, multi_class=multi_class)

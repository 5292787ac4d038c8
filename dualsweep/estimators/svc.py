"""`LinearSVC`: linear classification with a certificate."""

from __future__ import annotations

from typing import Any

from sklearn.utils._param_validation import StrOptions

from ._choices import CONSTRAINTS, with_choices
from ._device import DevicePredictions
from ._model import HABITS, LinearClassifier
from .certified import CertifiedModel


@with_choices
class LinearSVC(DevicePredictions, LinearClassifier, CertifiedModel):
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
    C : float, default=1.0
        Cost of margin violations: larger means less regularisation, and slower training. The one
        parameter to choose for your data; `LinearSVCCV` does it.
    loss : {loss}, default="squared_hinge"
        ``max(0, 1 - z)``, ``max(0, 1 - z)^2`` or ``(1 - z)^2`` of the margin z. The default trains
        fastest; "hinge" minds wrong labels less; "squared" is least squares.
    multi_class : {multi_class}, default="ovr"
        What to train for k > 2 classes, with ``t_m = 1 - w_y.x + w_m.x`` for the classes m other
        than the row's own y: k binary problems, one versus the rest; or one problem over all
        classes, ``1/2 |W|^2 + sum_i C_i loss_i``, with the loss ``max(0, max_m t_m)`` (Crammer and
        Singer) or ``sum_m max(0, t_m)`` (Weston and Watkins), whatever `loss` says. Try those where
        there are many classes and few features; `compare_multiclass` tells which is best. With two
        classes both are the binary hinge loss at 2 C: ``coef_ = w_1 - w_0``, and the objective
        ``1/4 |coef_|^2 + sum_i C_i loss_i`` is half the binary one.
    solver : {solver}, default="auto"
        "sweep" is dual coordinate descent, "newton" a second-order method with the same
        certificate (and sweeps should it make no progress). "auto" starts with sweeps and leaves
        the rest to Newton steps where those are expected to be cheaper: few features, badly scaled
        ones, large C. Change it to compare methods.
    schedule : {schedule}, default="auto"
        Which rows a sweep visits; all lead to the same optimum. "auto" adapts how often a row is
        visited to what its visits gain, and gives slow sweeps momentum; the others are those of
        the papers, to compare with.
    fit_intercept : bool, default=True
        Whether to train the intercept b. False suits data that are centred, or have a constant
        feature already.
    intercept : {intercept}, default="penalized"
        Whether b is penalised, as a weight of a constant feature of value `intercept_scaling`.
        Free, P lacks its term, and shifting the features changes no prediction: for features far
        from 0 and classes of very different size. That is trained by Newton steps where there are
        few features, else by sweeps for a sequence of penalised intercepts. It is for two classes
        and one-versus-rest, in memory.
    intercept_scaling : float, default=1.0
        Larger values penalise the intercept less; `intercept` is the better way to have that. What
        is optimal for an intercept that is free does not depend on it.
    tol : float, default=1e-3
        Relative duality gap to prove: the objective is then at most this fraction above the
        optimum. 1e-2 is enough to compare scores, 1e-6 for coefficients to several digits.
    max_iter : int, default=1000
        Sweeps and Newton steps to give up after, per binary problem. Raise it after a warning, if
        scaling the features does not help.
    max_time : float, default=None
        Seconds to give up after, with the model so far and its certificate; None means no limit.
        The result then depends on the speed of the machine.
    class_weight : dict or "balanced", default=None
        Multiplies C per class; None means 1 for all. "balanced" makes the classes weigh the same,
        which finds more of the rare ones.
    warm_start : bool, default=False
        Start from the dual variables of the previous fit, if it had as many rows and the same
        classes. For fits of the same rows with another C or a smaller `tol`.
    memory_limit : int, default=None
        Bytes that training on a store may take, besides the interpreter and its libraries (some
        300 MB). A store that fits is loaded, so is any store if there is no limit; else its blocks
        are read again and again, see the notes. On a device, bytes that training may take besides
        X; None means what is free. An X in host memory is not affected.
    n_jobs : int, default=None
        Threads. They train the classes of one-versus-rest side by side; those that are left over,
        or all if there is one problem, share its certificates and Newton steps, on 20,000 rows and
        more. None means 1, -1 all cores. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the order of visits. The same integer gives bitwise the same model; None gives another
        one, as good, each time.
    verbose : int, default=0
        1 shows progress: a bar per problem, and how long it will take.
    penalty : {"l2"}, default="l2"
        Without effect, as `dual`: both are for scripts that set them for scikit-learn's
        `LinearSVC`. "l1" is refused.
    dual : bool or "auto", default="auto"
        Without effect: the dual is what is trained, and the primal solution comes with it.

    Attributes
    ----------
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Weights, equal to ``dual_coef_ @ X``; of a model that was trained on a device, as near to
        that as the gap says, see the notes.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The classes that have rows of positive weight.
    dual_coef_ : csr_array of shape (1 or n_classes, n_samples)
        Dual variables times labels; on a device a dense array.
    support_ : ndarray of shape (n_support,)
        Rows with a nonzero dual variable.
    primal_objective_ : float
        P of this model, rounded up; the sum over the classes.
    dual_objective_ : float
        D, which no model's objective is below, rounded down; the sum over the classes.
    dual_gap_ : float
        A bound on P - D, what could be gained at most; the sum over the classes. It is no
        difference of the two objectives, which are rounded.
    relative_gap_ : float
        A bound on (P - D) / P, which `tol` is compared with; the worst of the classes.
    converged_ : bool
        Whether ``relative_gap_ <= tol``.
    n_iter_ : int
        Sweeps and Newton steps; the largest of the classes.
    history_ : ndarray with named fields
        One entry per certificate: problem (the class), time, epoch, primal, dual, gap, active.
    estimates_ : ndarray with named fields
        One entry per sweep and Newton step: problem, time, epoch, relative_gap, which is an
        estimate between certificates. `~dualsweep.plotting.ConvergenceDisplay` draws both.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.

    Notes
    -----
    X is used where it lies, without a copy, if it is CSR or C-ordered dense, of float32 or
    float64, memory-mapped or not; anything else is converted once. What is returned and certified
    is float64 in any case.

    A store (`dualsweep.io.open_store`) that does not fit into `memory_limit` is trained block by
    block: the weights, the dual variables (of two classes twice 8 bytes a row) and as many blocks
    as there is room for are in memory, an epoch is a pass over all blocks, and the certificate and
    what it proves are the same. All losses and formulations can be trained like that, by sweeps,
    the classes of one-versus-rest one after the other whatever `n_jobs` is. Of k classes at once,
    dual variables take twice 8 k bytes a row (Weston-Watkins), or at most twice 12 min(k, 64)
    (Crammer-Singer). Blocks of a tenth of `memory_limit` or smaller are best: a pass mixes the rows
    of the blocks that are in memory together. Ctrl-C and `max_time` have to read all blocks twice
    more to certify the model so far. `predict` and `decision_function` take stores too, and read
    them block by block.

    X on a device, a CuPy array or CSR matrix or a torch tensor, is trained on there, all classes at
    once and by Newton steps alone: `solver`, `schedule`, `n_jobs` and `random_state` are without
    meaning. Attributes with a number per feature, class or row are arrays of the same library on
    the same device. ``dual_gap_`` bounds ``P(coef_) - D(dual_coef_)``, so that
    ``|coef_ - dual_coef_ @ X|^2 <= 2 dual_gap_``, the intercept included. See docs/gpu.md.

    Ctrl-C ends `fit` early but leaves the estimator fitted, with the certificate of the model so
    far; `KeyboardInterrupt` is raised after that. Of one-versus-rest, classes that were not begun
    by then, or by the end of `max_time`, score every row by how frequent they are: their
    coefficients are 0 (without an intercept, the mean of the others'), their relative gap is 1.

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

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **CertifiedModel._parameter_constraints,
        "loss": CONSTRAINTS["loss"],
        "multi_class": CONSTRAINTS["multi_class"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        **HABITS,
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        loss: str = "squared_hinge",
        multi_class: str = "ovr",
        solver: str = "auto",
        schedule: str = "auto",
        fit_intercept: bool = True,
        intercept: str = "penalized",
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        class_weight: Any = None,
        warm_start: bool = False,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        penalty: str = "l2",
        dual: bool | str = "auto",
    ) -> None:
        self.C = C
        self.loss = loss
        self.multi_class = multi_class
        self.solver = solver
        self.schedule = schedule
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.penalty = penalty
        self.dual = dual

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

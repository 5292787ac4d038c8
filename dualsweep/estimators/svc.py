"""`LinearSVC`: linear classification with a certificate."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..losses import LOSSES
from ..outofcore import Blocks
from ..problem import Progress, Result
from ..schedules import SCHEDULES
from ..solve import SOLVERS, solve
from ._blocks import BlockFormulation, check_blocks, fits_into
from ._formulations import FORMULATIONS, Formulation
from ._interrupt import DeferredInterrupt
from ._progress import (
    HAS_CALLBACKS,
    Bars,
    CallbackSupportMixin,
    FitCallbacks,
    announce_compilation,
    with_callbacks,
)
from ._training import TrainingSet, solve_problems, undisturbed
from ._validation import check_data, check_weights

__all__ = ["LinearSVC"]

logger = logging.getLogger("dualsweep")


class LinearSVC(CallbackSupportMixin, LinearClassifierMixin, SparseCoefMixin, BaseEstimator):
    """Linear support vector classification with a certificate.

    For two classes, with labels y_i in {-1, +1} and ``C_i = C * sample_weight_i *
    class_weight[y_i]``, the model minimises

        P(w, b) = 1/2 |w|^2 + 1/2 (b / intercept_scaling)^2 + sum_i C_i * loss(y_i (w.x_i + b))

    over w and b by coordinate descent on the dual, whose value D is a lower bound on every
    P. Training stops when ``P - D <= tol * P`` is proven: the objective of the returned model is
    then at most the fraction `tol` of itself above the optimum. More than two classes are
    trained one versus the rest, each class with a certificate of its own, or all at once.

    Parameters
    ----------
    C : float, default=1.0
        Cost of margin violations; larger means less regularisation.
    loss : {"hinge", "squared_hinge", "squared"}, default="squared_hinge"
        ``max(0, 1 - z)``, ``max(0, 1 - z)^2`` or ``(1 - z)^2`` of the margin z.
    multi_class : {"ovr", "crammer_singer", "weston_watkins"}, default="ovr"
        What to train for k > 2 classes, with ``t_m = 1 - w_y.x + w_m.x`` for the classes m other
        than the row's own y: k binary problems, one versus the rest; or one problem over all
        classes, ``1/2 |W|^2 + sum_i C_i loss_i``, with the loss ``max(0, max_m t_m)`` (Crammer and
        Singer) or ``sum_m max(0, t_m)`` (Weston and Watkins). These two have no use for `loss`,
        and are trained by sweeps. With two classes both are the binary hinge loss at 2 C:
        ``coef_ = w_1 - w_0``, and the objective ``1/4 |coef_|^2 + sum_i C_i loss_i`` is half the
        binary one.
    solver : {"auto", "sweep", "newton"}, default="auto"
        "sweep" is dual coordinate descent, "newton" a second-order method with the same
        certificate (and sweeps should it make no progress). "auto" starts with sweeps and leaves
        the rest to Newton steps where those are expected to be cheaper: few features, badly scaled
        ones, large C.
    schedule : str, default="auto"
        One of "auto", "adaptive", "shrinking", "alternating", "permuted", "cyclic" and "online".
        Which rows a sweep visits; all lead to the same optimum. "auto" adapts how often a row is
        visited to what its visits gain, and gives slow sweeps momentum; the others are those of
        the papers.
    fit_intercept : bool, default=True
        Whether to train the intercept b. It is regularised, as a weight of a constant feature of
        value `intercept_scaling`.
    intercept_scaling : float, default=1.0
        Larger values regularise the intercept less.
    tol : float, default=1e-3
        Relative duality gap to prove.
    max_iter : int, default=1000
        Sweeps and Newton steps to give up after, per binary problem.
    max_time : float, default=None
        Seconds to give up after; the model so far stays usable. The result then depends on the
        speed of the machine.
    class_weight : dict or "balanced", default=None
        Multiplies C per class. "balanced" makes the classes weigh the same.
    warm_start : bool, default=False
        Start from the dual variables of the previous fit, if it had as many rows and the same
        classes.
    memory_limit : int, default=None
        Bytes that training on a store may take, besides the interpreter and its libraries (some
        300 MB). A store that fits is loaded, so is any store if there is no limit; else its blocks
        are read again and again, see the notes. Without meaning for an X that is in memory.
    n_jobs : int, default=None
        Threads that train the classes of one-versus-rest; those that are left over, or all if
        there are two classes, share Newton steps. None means 1, -1 all cores. The result does not
        depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the order of visits; the same integer gives bitwise the same model.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Weights, equal to ``dual_coef_ @ X``.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The classes that have rows of positive weight.
    dual_coef_ : csr_array of shape (1 or n_classes, n_samples)
        Dual variables times labels.
    support_ : ndarray of shape (n_support,)
        Rows with a nonzero dual variable.
    primal_objective_, dual_objective_, dual_gap_ : float
        P, D and P - D of this model; sums over the classes.
    relative_gap_ : float
        (P - D) / P, which `tol` bounds; the worst of the classes.
    converged_ : bool
        Whether ``relative_gap_ <= tol``.
    n_iter_ : int
        Sweeps and Newton steps; the largest of the classes.
    history_ : ndarray with named fields
        One entry per certificate: problem (the class), time, epoch, primal, dual, gap, active.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string column names.

    Notes
    -----
    X is used where it lies, without a copy, if it is CSR or C-ordered dense, of float32 or
    float64, memory-mapped or not; anything else is converted once. What is returned and certified
    is float64 in any case.

    A store (`dualsweep.io.open_store`) that does not fit into `memory_limit` is trained block by
    block: the weights, the dual variables (8 bytes a row) and as many blocks as there is room for
    are in memory, an epoch is a pass over all blocks, and the certificate and what it proves are
    the same. The losses of two classes and one-versus-rest can be trained like that, by sweeps,
    the classes one after the other whatever `n_jobs` is. Blocks of a tenth of `memory_limit` or
    smaller are best: a pass mixes the rows of the blocks that are in memory together. Ctrl-C and
    `max_time` have to read all blocks twice more to certify the model so far.

    Ctrl-C ends `fit` early but leaves the estimator fitted, with the certificate of the model so
    far; `KeyboardInterrupt` is raised after that.

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
        "C": [Interval(Real, 0, None, closed="neither")],
        "loss": [StrOptions(set(LOSSES))],
        "multi_class": [StrOptions(set(FORMULATIONS))],
        "solver": [StrOptions(set(SOLVERS))],
        "schedule": [StrOptions(set(SCHEDULES))],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "warm_start": ["boolean"],
        "memory_limit": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
            None,
        ],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
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
    ) -> None:
        self.C = C
        self.loss = loss
        self.multi_class = multi_class
        self.solver = solver
        self.schedule = schedule
        self.fit_intercept = fit_intercept
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

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None
    ) -> LinearSVC:
        """Train the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Store
            Rows to learn from; not changed, and not copied where the notes above say so.
        y : array-like of shape (n_samples,), default=None
            Class labels of any type. None is for stores, and means the labels in the store.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C per row: weight 2 equals the row twice, weight 0 the row left out.
        checkpoint : str or Path, default=None
            A directory for the state of training block by block, written after each pass. If it
            is there already, training goes on from it: a run that was killed is repeated but for
            the pass it was in, to bitwise the same model. Refused if the data or what defines the
            problem differ; `tol`, `max_iter`, `max_time` and `memory_limit` may. Nothing else
            has a use for it, neither an X in memory nor a store that fits.

        Returns
        -------
        LinearSVC
            The estimator itself.

        Warns
        -----
        ConvergenceWarning
            If the relative gap is still above `tol`; the message says by how much.
        """
        if isinstance(X, Blocks) and not fits_into(self.memory_limit, X):
            self._fit_blocks(X, y, sample_weight, checkpoint)
        else:
            if isinstance(X, Blocks):
                X, labels = X.load()
                y = labels if y is None else y
            X, y, sample_weight = check_data(self, X, y, sample_weight)
            with announce_compilation(bool(self.verbose)):
                self._train(TrainingSet(X, y, sample_weight, self._bias), X, y)
        self._warn(stacklevel=4 if HAS_CALLBACKS else 3)
        return self

    def _fit_blocks(self, data: Blocks, y: Any, sample_weight: Any, checkpoint: Any) -> None:
        """Train on what does not fit into memory."""
        y = check_blocks(self, data, y)
        weight = check_weights(sample_weight, data)
        with announce_compilation(bool(self.verbose)), undisturbed() as interrupt:
            problems = BlockFormulation(self, data, y, weight, checkpoint)
            results = self._solve_all(
                problems, problems.solve, problems.classes, data, y, interrupt, n_threads=1
            )
            self.__dict__.update(self._fitted(problems, problems.classes, results))
        interrupt.deliver()

    @property
    def _bias(self) -> float:
        """Value of the constant feature."""
        return self.intercept_scaling if self.fit_intercept else 0.0

    def _train(self, data: TrainingSet, X: Any, y: Any) -> None:
        """Train on validated data; X and y are what callbacks get to see."""
        formulation = data.at(self.C, self)
        previous = self._previous_dual_coef(data)

        def solve_problem(p: int, **options: Any) -> Result:
            alpha = None if previous is None else formulation.start(p, previous)
            return solve(formulation.problem(p), alpha=alpha, **options)

        with undisturbed() as interrupt:
            results = self._solve_all(
                formulation,
                solve_problem,
                data.classes,
                X,
                y,
                interrupt,
                n_threads=effective_n_jobs(self.n_jobs),
            )
            self.__dict__.update(self._fitted(formulation, data.classes, results))
        interrupt.deliver()

    def _previous_dual_coef(self, data: TrainingSet) -> Any:
        """Return the dual variables to start from, or None for a cold start."""
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        same_rows = self.dual_coef_.shape[1] == len(data.y)
        same_classes = np.array_equal(self.classes_, data.classes)
        return self.dual_coef_ if same_rows and same_classes else None

    def _solve_all(
        self,
        formulation: Formulation | BlockFormulation,
        solve_problem: Callable[..., Result],
        classes: Any,
        X: Any,
        y: Any,
        interrupt: DeferredInterrupt,
        n_threads: int,
    ) -> list[Result]:
        """Solve the problems of the formulation, in so many threads."""
        names = formulation.names(classes)
        callbacks = FitCallbacks(self, X, y, len(names))

        with Bars(names, self.tol, show=bool(self.verbose)) as bars:

            def run(p: int, watch: Callable[[Progress], bool], **options: Any) -> Result:
                epochs = callbacks.problem(
                    p, lambda w: {"classes_": classes, **self._coef_from(formulation.weights([w]))}
                )
                result = solve_problem(
                    p, watch=lambda progress: watch(progress) or epochs(progress), **options
                )
                bars.update(p, result.n_iter, result.relative_gap, result.history["active"][-1])
                epochs.close(whole_problem=len(names) > 1)
                logger.info(
                    "%s: relative gap %.1e after %d epochs, %d of them Newton steps, and %.2f s",
                    names[p],
                    result.relative_gap,
                    result.n_iter,
                    result.n_newton,
                    result.history["time"][-1],
                )
                return result

            def watch(p: int, progress: Progress) -> bool:
                bars.update(p, progress.epoch, progress.relative_gap, progress.active)
                return False

            results = solve_problems(
                run,
                len(names),
                self,
                seed=self._seed(),
                n_threads=n_threads,
                max_time=np.inf if self.max_time is None else self.max_time,
                stop=lambda: interrupt.requested,
                watch=watch,
            )
        callbacks.close()
        return results

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _coef_from(self, weights: Any) -> dict[str, Any]:
        """Split rows of weights into coefficients and intercepts."""
        weights = np.asarray(weights, dtype=np.float64)
        return {"coef_": weights[:, :-1].copy(), "intercept_": self._bias * weights[:, -1]}

    def _fitted(
        self, formulation: Formulation | BlockFormulation, classes: Any, results: list[Result]
    ) -> dict[str, Any]:
        """Return the fitted attributes that the results of the problems make."""
        dual_coef = formulation.dual_coef(results)
        primal, gap = sum(result.primal for result in results), sum(r.gap for r in results)
        for p, result in enumerate(results):
            result.history["problem"] = p
        return {
            "classes_": classes,
            **self._coef_from(formulation.weights([result.w for result in results])),
            "dual_coef_": dual_coef,
            "support_": np.flatnonzero(np.bincount(dual_coef.indices)),
            "primal_objective_": primal,
            "dual_gap_": gap,
            "dual_objective_": primal - gap,
            "relative_gap_": max(result.relative_gap for result in results),
            "converged_": all(result.converged for result in results),
            "n_iter_": max(result.n_iter for result in results),
            "history_": np.concatenate([result.history for result in results]),
        }

    def _warn(self, stacklevel: int) -> None:
        """Warn if the model has not converged."""
        if not self.converged_:
            warnings.warn(self._shortfall(), ConvergenceWarning, stacklevel=stacklevel + 1)

    def _shortfall(self) -> str:
        gap, proven = self.relative_gap_, "the objective may be far above the optimum"
        if gap < 0.9:
            proven = f"the objective is at most {100 * gap / (1 - gap):.2g} % above the optimum"
        limits = "max_iter" if self.max_time is None else "max_iter, max_time"
        advice = f"Raise {limits} or tol, or scale the features"
        if gap <= 1e-15:
            advice = "float64 cannot prove less: raise tol"
        return (
            f"LinearSVC stopped at relative duality gap {gap:.1e} > tol {self.tol:.1e} after "
            f"{self.n_iter_} epochs; {proven}. {advice}."
        )

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.svm.LinearSVC` with the same predictions.

        For everything that consumes scikit-learn's models. The squared loss and Weston-Watkins
        have no counterpart there: such a model predicts, but trained again it would become another.

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

        check_is_fitted(self)
        shared = ("C", "fit_intercept", "intercept_scaling", "class_weight", "random_state")
        loss = "hinge" if self.loss == "hinge" else "squared_hinge"
        multi_class = "ovr" if self.multi_class == "ovr" else "crammer_singer"
        parameters = {name: getattr(self, name) for name in shared}
        model = SklearnLinearSVC(loss=loss, multi_class=multi_class, **parameters)
        fitted = ("coef_", "intercept_", "classes_", "n_iter_", "n_features_in_")
        for name in (*fitted, "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

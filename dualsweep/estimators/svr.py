"""`LinearSVR`: linear regression with a certificate."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions

from ..losses import REGRESSION_LOSSES
from ._choices import with_choices
from ._model import LinearRegressor
from .certified import CertifiedModel


@with_choices
class LinearSVR(CertifiedModel, LinearRegressor):
    """Linear support vector regression with a certificate.

    With ``C_i = C * sample_weight_i``, the model minimises::

        P(w, b) = 1/2 |w|^2 + 1/2 (b / intercept_scaling)^2 + sum_i C_i * loss(y_i - w.x_i - b)

    over w and b, as `LinearSVC` does: by coordinate descent on the dual and Newton steps, until
    ``P - D <= tol * P`` is proven. The dual has one variable per row, signed, in [-C_i, C_i] (or
    anywhere, for the squared loss); it is 0 for rows that are predicted to within epsilon.

    Parameters
    ----------
    C : float, default=1.0
        Cost of deviations: larger means less regularisation, and slower training. The one parameter
        to choose for your data; `LinearSVRCV` does it.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        ``max(0, |s| - epsilon)`` or ``max(0, |s| - epsilon)^2`` of the deviation s. The first minds
        outliers less; the second trains faster.
    epsilon : float, default=0.0
        Deviations up to this cost nothing; in the units of y. With 0 the losses are absolute
        deviation and least squares (ridge regression with ``alpha = 1 / (2 C)``). Larger values,
        half the noise that you expect for instance, leave fewer support vectors and train faster.
    solver : {solver}, default="auto"
        "sweep" is dual coordinate descent, "newton" a second-order method with the same
        certificate (and sweeps should it make no progress). "auto" starts with sweeps and leaves
        the rest to Newton steps where those are expected to be cheaper. Change it to compare
        methods.
    schedule : {schedule}, default="auto"
        Which rows a sweep visits: see `LinearSVC`. Change it to compare with those of the papers.
    fit_intercept : bool, default=True
        Whether to train the intercept b. False suits targets that are centred.
    intercept : {intercept}, default="penalized"
        Whether b is penalised, as a weight of a constant feature of value `intercept_scaling`:
        targets far from 0 are better centred then. Free, P lacks its term, and neither shifting the
        features nor the targets changes more than b; see `LinearSVC`.
    intercept_scaling : float, default=1.0
        Larger values penalise the intercept less; `intercept` is the better way to have that. What
        is optimal for an intercept that is free does not depend on it.
    tol : float, default=1e-3
        Relative duality gap to prove: the objective is then at most this fraction above the
        optimum. 1e-2 is enough to compare scores, 1e-6 for coefficients to several digits.
    max_iter : int, default=1000
        Sweeps and Newton steps to give up after. Raise it after a warning, if scaling the features
        does not help.
    max_time : float, default=None
        Seconds to give up after, with the model so far and its certificate; None means no limit.
        The result then depends on the speed of the machine.
    warm_start : bool, default=False
        Start from the dual variables of the previous fit, if it had as many rows. For fits of the
        same rows with another C or a smaller `tol`.
    memory_limit : int, default=None
        Bytes that training on a store may take; None means no limit. See `LinearSVC`.
    n_jobs : int, default=None
        Threads that share certificates and Newton steps, on 20,000 rows and more. None means 1, -1
        all cores. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the order of visits. The same integer gives bitwise the same model; None gives another
        one, as good, each time.
    verbose : int, default=0
        1 shows progress: a bar, and how long it will take.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights, equal to ``dual_coef_ @ X``.
    intercept_ : ndarray of shape (1,)
        Intercept.
    dual_coef_ : csr_array of shape (1, n_samples)
        Dual variables.
    support_ : ndarray of shape (n_support,)
        Rows with a nonzero dual variable.
    primal_objective_ : float
        P of this model, rounded up.
    dual_objective_ : float
        D, which no model's objective is below, rounded down.
    dual_gap_ : float
        A bound on P - D, what could be gained at most. It is no
        difference of the two objectives, which are rounded.
    relative_gap_ : float
        A bound on (P - D) / P, which `tol` is compared with.
    converged_ : bool
        Whether ``relative_gap_ <= tol``.
    n_iter_ : int
        Sweeps and Newton steps.
    history_ : ndarray with named fields
        One entry per certificate: problem (0), time, epoch, primal, dual, gap, active.
    estimates_ : ndarray with named fields
        One entry per sweep and Newton step: problem, time, epoch, relative_gap, which is an
        estimate between certificates. `~dualsweep.plotting.ConvergenceDisplay` draws both.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.

    See Also
    --------
    LinearSVRCV : Chooses C.
    svr_path : Models for a sequence of C.

    Notes
    -----
    What `LinearSVC` says of memory, stores and Ctrl-C holds here too.

    References
    ----------
    Ho, Lin (2012). Large-scale linear support vector regression. JMLR 13.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualsweep import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearSVR(C=100.0, epsilon=10.0, tol=1e-6, random_state=0).fit(X, y - y.mean())
    >>> model.converged_, bool(model.relative_gap_ <= 1e-6)
    (True, True)
    >>> outside = abs(y - y.mean() - model.predict(X)) > 10.1
    >>> set(outside.nonzero()[0]) <= set(model.support_)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **CertifiedModel._parameter_constraints,
        "loss": [StrOptions(set(REGRESSION_LOSSES))],
        "epsilon": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.0,
        solver: str = "auto",
        schedule: str = "auto",
        fit_intercept: bool = True,
        intercept: str = "penalized",
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.solver = solver
        self.schedule = schedule
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.svm.LinearSVR` with the same predictions.

        A free intercept has no counterpart there: trained again, such a model would become another.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from dualsweep import LinearSVR
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = LinearSVR(C=100.0, random_state=0).fit(X, y)
        >>> bool((model.to_sklearn().predict(X) == model.predict(X)).all())
        True
        """
        from sklearn.svm import LinearSVR as SklearnLinearSVR

        shared = ("C", "loss", "epsilon", "fit_intercept", "intercept_scaling", "random_state")
        return self._as(SklearnLinearSVR, shared)

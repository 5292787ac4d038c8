"""The table of parameters: each is declared here, and nowhere else.

Each class is a group of parameters that some estimators have and others lack; `Settings` has those
that training needs. `dualsweep._parameters` says what a parameter is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._parameters import Number, OneOf, Parameters, Such, Whole, parameter
from .._typing import ClassWeight
from ..losses import LOSSES, REGRESSION_LOSSES
from ..solvers.policy import SOLVERS
from ..solvers.schedules import SCHEDULES
from .formulations import OF_MARGINS

INTERCEPTS = {
    "penalized": "as a weight of a constant feature",
    "free": "not penalised",
}

# Values of the constant feature whose squares and reciprocals float64 has in full precision.
BIASES = 1e-150, 1e150

# The formulations of logistic regression for more than two classes; the first is the default.
PROBABILISTIC = "multinomial", "ovr"

# What scikit-learn calls its solvers of logistic regression.
PEERS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")


def _has(method: str) -> Callable[[object], bool]:
    """Return a test for this method, which strings do not pass."""
    return lambda value: hasattr(value, method) and not isinstance(value, str)


FLAG = Such("bool", lambda value: isinstance(value, bool | np.bool_))
POSITIVE = Number(above=0.0)


class Cost(Parameters):
    """Parameters of estimators for a given cost."""

    C: float = parameter(
        1.0,
        POSITIVE,
        text="Cost of errors: larger means less regularisation, and slower training. The one "
        "parameter to choose for your data; `LinearSVCCV` and `LinearSVRCV` do it.",
        identifies=True,
        flags="--cost -C",
        help="Cost of errors: a larger C fits the rows more closely.",
    )
    max_time: float | None = parameter(
        None,
        POSITIVE,
        None,
        text="Seconds to give up after, with the model so far and its certificate; None means no "
        "limit. The result then depends on the speed of the machine.",
        identifies=False,
        metavar="SECONDS",
        help="Most seconds to train.",
    )
    warm_start: bool = parameter(
        False,
        FLAG,
        text="Start from the dual variables of the previous fit, if it had as many rows and the "
        "same classes. For fits of the same rows with another C or a smaller `tol`.",
        identifies=False,
    )


class Choice(Parameters):
    """Parameters of estimators that choose their cost."""

    Cs: Any = parameter(
        10,
        Whole(least=1),
        Such("array-like of shape (n_Cs,)", _has("__len__")),
        text="Values of C, or how many of them. A number of values spans 2^-6 to 2^3 at equal "
        "ratios, in units of 1 over the mean squared length of a row (of typical entries, if "
        "columns are in different units); with the epsilon-insensitive loss, times the standard "
        "deviation of y. If the first or the last of them is best, the search goes on, in steps of "
        "at least 4 and by a factor of 4^10 at most; with `class_weight`, to larger values only. "
        "Values that are given are the only ones, and 1 means C = 1.",
        identifies=False,
        flags="--costs",
        metavar="COSTS",
        help="Number of values of C to try, in a range that suits the lengths of the rows, or "
        "more if an end of it is best; or values, separated by commas.",
    )
    cv: Any = parameter(
        5,
        Whole(least=2),
        Such("cross-validation generator", _has("split")),
        Such("iterable", _has("__iter__")),
        None,
        text="Number of folds of a `StratifiedKFold`, for regression of a `KFold`; a splitter, or "
        "(train, test) pairs of indices. Rows are not shuffled: a file that is sorted needs "
        "``StratifiedKFold(5, shuffle=True)``.",
        identifies=False,
        flags="--folds",
        metavar="N",
        help="Number of folds.",
    )
    scoring: Any = parameter(
        None,
        Such("str", lambda value: isinstance(value, str)),
        Such("callable", callable),
        None,
        text="What to choose by: a name scikit-learn knows, or ``f(estimator, X, y)``, which is "
        "called in several threads if `n_jobs` says so. None means accuracy, and R^2 for "
        "regression. `sample_weight`, if given, is passed on to it.",
        identifies=False,
        metavar="SCORING",
        help="Score to choose by, one of scikit-learn's: f1, roc_auc, balanced_accuracy, ...",
    )
    selection: str = parameter(
        "best",
        OneOf(("best", "one_standard_error")),
        text="The C with the largest mean score, or the smallest C whose mean score is at most one "
        "standard error of the largest below it: a simpler model, as good but for chance. Of "
        "equals, the smaller C.",
        identifies=False,
        metavar="SELECTION",
        help="best, or one_standard_error: the smallest C within a standard error of the best.",
    )
    patience: int | None = parameter(
        3,
        Whole(least=1),
        None,
        text="Stop raising C when this many values in a row have brought no better mean score, not "
        "counting those at which the weights still grow nearly in proportion to C: there, training "
        "has hardly begun. None tries all values.",
        identifies=False,
        metavar="N",
        help="Stop after N values of C without a better score; 0 tries all values.",
    )
    tol_search: float | None = parameter(
        None,
        POSITIVE,
        None,
        text="Relative duality gap to prove in the search, where scores need less than the model "
        "does: 1e-2 is quicker. None means `tol`.",
        identifies=False,
        metavar="GAP",
        help="Relative duality gap for the search.",
    )


class OfClasses(Parameters):
    """Parameters of classifiers."""

    loss: str = parameter(
        "squared_hinge",
        OneOf(LOSSES),
        text="``max(0, 1 - z)``, ``max(0, 1 - z)^2``, ``(1 - z)^2`` or ``log(1 + exp(-z))`` of the "
        'margin z. The default trains fastest; "hinge" minds wrong labels less; "squared" is least '
        'squares. "logistic" is for probabilities, see `LogisticRegression`.',
        identifies=True,
        metavar="LOSS",
        help="Loss of one-versus-rest: {choices}.",
    )
    multi_class: str = parameter(
        "ovr",
        OneOf(OF_MARGINS),
        text="What to train for k > 2 classes, with ``t_m = 1 - w_y.x + w_m.x`` for the classes m "
        "other than the row's own y: k binary problems, one versus the rest; or one problem over "
        "all classes, ``1/2 |W|^2 + sum_i C_i loss_i``, with the loss ``max(0, max_m t_m)`` "
        "(Crammer and Singer) or ``sum_m max(0, t_m)`` (Weston and Watkins), whatever `loss` says. "
        "Try those where there are many classes and few features; `compare_multiclass` tells which "
        "is best. With two classes both are the binary hinge loss at 2 C: ``coef_ = w_1 - w_0``, "
        "and the objective ``1/4 |coef_|^2 + sum_i C_i loss_i`` is half the binary one.",
        identifies=True,
        metavar="FORMULATION",
        help="For more than two classes: {choices}. The last two have a loss of their own and "
        "ignore --loss; on badly scaled data ovr is faster.",
    )
    class_weight: ClassWeight = parameter(
        None,
        Such("dict", lambda value: isinstance(value, dict)),
        OneOf(("balanced",)),
        None,
        text='Multiplies C per class; None means 1 for all. "balanced" makes the classes weigh the '
        "same, which finds more of the rare ones.",
        identifies=True,
        metavar="WEIGHTS",
        help="Multiplies C per class: LABEL=WEIGHT pairs separated by commas (1=10,-1=2; other "
        "classes weigh 1), or balanced: all classes weigh the same in total.",
    )


class OfProbabilities(OfClasses, without=("loss",)):
    """Parameters of logistic regression, whose loss is given."""

    multi_class: str = parameter(
        PROBABILISTIC[0],
        OneOf(PROBABILISTIC),
        text='What to train for k > 2 classes. "multinomial" is one problem over all classes, '
        "whose probabilities are ``exp(w_m.x + b_m)`` divided by their sum over the classes m; "
        '"ovr" is k binary problems, one versus the rest, whose probabilities are divided by their '
        "sum.",
        identifies=True,
    )


class OfTargets(Parameters):
    """Parameters of regressors."""

    loss: str = parameter(
        "epsilon_insensitive",
        OneOf(REGRESSION_LOSSES),
        text="``max(0, |s| - epsilon)`` or ``max(0, |s| - epsilon)^2`` of the deviation s. The "
        "first minds outliers less; the second trains faster.",
        identifies=True,
        metavar="LOSS",
        help="Loss of regression: {choices}.",
    )
    epsilon: float = parameter(
        0.0,
        Number(least=0.0),
        text="Deviations up to this cost nothing; in the units of y. With 0 the losses are "
        "absolute deviation and least squares (ridge regression with ``alpha = 1 / (2 C)``). "
        "Larger values, half the noise that you expect for instance, leave fewer support vectors "
        "and train faster.",
        identifies=True,
        metavar="EPSILON",
        help="For regression: deviations up to this cost nothing.",
    )


class Training(Parameters):
    """Parameters of all estimators."""

    _order = (
        *("C", "Cs", "cv", "scoring", "selection", "patience", "tol_search"),
        *("loss", "epsilon", "multi_class", "solver", "schedule"),
        *("fit_intercept", "intercept", "intercept_scaling", "tol", "max_iter", "max_time"),
        *("class_weight", "warm_start", "memory_limit", "n_jobs", "random_state", "verbose"),
    )

    solver: str = parameter(
        "auto",
        OneOf(SOLVERS),
        text='"sweep" is dual coordinate descent, "newton" a second-order method with the same '
        'certificate (and sweeps should it make no progress). "auto" starts with sweeps and leaves '
        "the rest to Newton steps where those are expected to be cheaper: few features, badly "
        "scaled ones, large C. Change it to compare methods.",
        identifies=False,
        metavar="SOLVER",
        help="Method: sweeps of coordinate descent, Newton steps, or both as they pay: {choices}.",
    )
    schedule: str = parameter(
        "auto",
        OneOf(SCHEDULES),
        text='Which rows a sweep visits; all lead to the same optimum. "auto" adapts how often a '
        "row is visited to what its visits gain, and gives slow sweeps momentum; the others are "
        "those of the papers, to compare with.",
        identifies=True,
        metavar="SCHEDULE",
        help="Order in which sweeps visit rows: {choices}. All lead to the same optimum.",
    )
    fit_intercept: bool = parameter(
        True,
        FLAG,
        text="Whether to train the intercept b. False suits data that are centred, or have a "
        "constant feature already.",
        identifies=True,
        flags="--no-intercept",
        help="Train without an intercept.",
    )
    intercept: str = parameter(
        "penalized",
        OneOf(INTERCEPTS),
        text="Whether b is penalised, as a weight of a constant feature of value "
        "`intercept_scaling`: targets far from 0 are better centred then. Free, P lacks its term, "
        "and neither shifting the features nor the targets changes more than b: for features far "
        "from 0 and classes of very different size. That is trained by Newton steps where there "
        "are few features, else by sweeps for a sequence of penalised intercepts. It is for "
        "regression, two classes, one-versus-rest and the multinomial loss, in memory.",
        identifies=True,
        metavar="INTERCEPT",
        help="Whether the intercept counts in the penalty: {choices}.",
    )
    intercept_scaling: float = parameter(
        1.0,
        Number(*BIASES),
        text="Larger values penalise the intercept less; `intercept` is the better way to have "
        "that. What is optimal for an intercept that is free does not depend on it.",
        identifies=True,
        flags="--bias",
        help="Value of the constant feature whose weight is the penalised intercept: the larger, "
        "the less it is penalised.",
    )
    tol: float = parameter(
        1e-3,
        POSITIVE,
        text="Relative duality gap to prove: the objective is then at most this fraction above the "
        "optimum. 1e-2 is enough to compare scores, 1e-6 for coefficients to several digits.",
        identifies=False,
        metavar="GAP",
        help="Relative duality gap at which training stops.",
    )
    max_iter: int = parameter(
        1000,
        Whole(least=0),
        text="Sweeps and Newton steps to give up after, per binary problem. Raise it after a "
        "warning, if scaling the features does not help.",
        identifies=False,
        metavar="N",
        help="Most epochs (passes over the rows) for each class.",
    )
    memory_limit: int | None = parameter(
        None,
        Whole(least=1),
        None,
        text="Bytes that training on a store may take, besides the interpreter and its libraries "
        "(some 300 MB). A store that fits is loaded, so is any store if there is no limit; else "
        "its blocks are read again and again, see the notes of `LinearSVC`. On a device, bytes "
        "that training may take besides X; None means what is free. An X in host memory is not "
        "affected.",
        identifies=False,
        metavar="MEGABYTES",
        help="Memory for training on a store, besides what the program itself takes: some 200 MB, "
        "300 MB for cv and certify. A store that does not fit is read block by block.",
    )
    n_jobs: int | None = parameter(
        None,
        Whole(least=1),
        Whole(most=-1),
        None,
        text="Threads. They train the folds of a search and the classes of one-versus-rest side by "
        "side; those that are left over, or all if there is one problem, share its certificates "
        "and Newton steps, on 20,000 rows and more. None means 1, -1 all cores. The result does "
        "not depend on it.",
        identifies=False,
        help="Threads for reading and training; -1 uses all cores.",
    )
    random_state: Any = parameter(
        None,
        Whole(0, 2**32 - 1),
        Such("RandomState instance", lambda value: isinstance(value, np.random.RandomState)),
        None,
        text="Seeds the order of visits. The same integer gives bitwise the same model; None gives "
        "another one, as good, each time. The folds of a search are up to `cv`.",
        identifies=True,
        flags="--seed",
        metavar="SEED",
        help="Seed of everything random.",
    )
    verbose: int = parameter(
        0,
        Whole(least=0),
        FLAG,
        text="1 shows progress: a bar per problem, and how long it will take.",
        identifies=False,
    )


class Habits(Parameters):
    """Parameters without effect, for scripts that set them for scikit-learn's `LinearSVC`."""

    penalty: str = parameter(
        "l2",
        OneOf(("l2",)),
        text="Without effect, as `dual`: both are for scripts that set them for scikit-learn's "
        '`LinearSVC`. "l1" is refused.',
        identifies=False,
    )
    dual: bool | str = parameter(
        "auto",
        FLAG,
        OneOf(("auto",)),
        text="Without effect: the dual is what is trained, and the primal solution comes with it.",
        identifies=False,
    )


class HabitsOfProbabilities(Habits):
    """The same for scikit-learn's `LogisticRegression`."""

    l1_ratio: float | None = parameter(
        0.0,
        Such("0", lambda value: value == 0),
        None,
        text="Without effect, as `penalty`. With another number a part of the penalty would be l1.",
        identifies=False,
    )


class Classification(Cost, OfClasses, Training):
    """The parameters of `LinearSVC`, but for those without effect."""


class Probable(OfProbabilities, Training):
    """What logistic regression has as its defaults, as scikit-learn's has."""

    solver: str = parameter(
        "auto",
        OneOf([*SOLVERS, *PEERS]),
        text='"sweep" is dual coordinate descent, "newton" a second-order method with the same '
        'certificate. "auto" starts with sweeps and leaves the rest to Newton steps where those '
        "are expected to be cheaper: few features, badly scaled ones, large C. The names of "
        'scikit-learn\'s solvers mean "auto" too: they are for scripts that set them.',
        identifies=False,
    )
    intercept: str = parameter(
        "free",
        OneOf(INTERCEPTS),
        text="Whether b is penalised, as a weight of a constant feature of value "
        "`intercept_scaling`, or free: then P lacks its term, and shifting the features changes "
        "no more than b. On stores, clusters and devices it has to be penalised.",
        identifies=True,
    )


class LogisticClassification(Cost, Probable):
    """The parameters of `LogisticRegression`, but for those without effect."""


class Regression(Cost, OfTargets, Training):
    """The parameters of `LinearSVR`."""

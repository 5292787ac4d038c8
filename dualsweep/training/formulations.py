"""Formulations: how labelled rows become problems, and their solutions a model.

A model has one row of weights per class, or a single one for two classes and for regression; so
have its signed dual variables, of which the weights are the products with X. Where the rows are is
not a formulation's business: it is given rows, all of them or a part (see `dualsweep.placements`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .._typing import Array, ClassWeight, DualPoint, Sparse
from ..kernels.binary import copy_nonzero
from ..kernels.certificate import OF_OBJECTIVE, sum_losses
from ..losses import LOSSES, REGRESSION_LOSSES, Loss, loss_at, loss_named
from ..problems.binary import BinaryProblem
from ..problems.free import FreeProblem
from ..problems.labels import class_codes, row_costs
from ..problems.multiclass import MulticlassProblem
from ..problems.multinomial import FreeMultinomialProblem, MultinomialProblem
from ..problems.result import Result
from ..rows.functions import EPS

if TYPE_CHECKING:
    from .settings import Settings

Problem = BinaryProblem | MulticlassProblem


@dataclass(frozen=True)
class LabelledRows:
    """Rows in one memory, and what is asked of each."""

    passes: Any  # `Passes`, or None where only labels are needed
    sqnorm: Any
    labels: Array  # numbers of the classes (-1: none), or targets
    cost: Array

    @cached_property
    def candidates(self) -> Array:
        """Numbers of the rows that have a cost."""
        return np.flatnonzero(self.cost > 0)


class Formulation(ABC):
    """How labelled rows become problems, and their solutions a model.

    `classes` is None for regression; `class_weight` is what C is multiplied by, per class.
    """

    names: list[str]  # of the problems
    positives: Sequence[int] = (0,)  # the class that each problem is about, if there is one
    loss: Loss
    together = False  # whether one problem is over all classes

    def __init__(self, settings: Settings, classes: Any, class_weight: ClassWeight) -> None:
        self.settings, self.classes, self.class_weight = settings, classes, class_weight
        self.bias = settings.bias

    @property
    def n_weight_rows(self) -> int:
        """Rows of weights that a model has."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def encode(self, y: Array) -> Array:
        """Return labels as numbers of classes, or as targets."""
        return class_codes(y, self.classes)

    def costs(self, labels: Array, weight: Array | None, all_rows: bool = True) -> Array:
        """Return ``C_i = C * sample_weight_i * class_weight[y_i]``; see `row_costs`."""
        given = self.settings.C, self.class_weight, self.classes
        return row_costs(*given, labels, weight, all_rows)

    @abstractmethod
    def problem(self, p: int, rows: LabelledRows) -> Problem:
        """Return the p-th problem of these rows."""

    @abstractmethod
    def near(self, p: int, rows: LabelledRows, duals: Sparse) -> DualPoint:
        """Return feasible dual variables of the p-th problem near signed ones of a model."""

    @abstractmethod
    def signed(self, rows: LabelledRows, alphas: Sequence[DualPoint], first: int = 0) -> Sparse:
        """Return the signed dual variables of some problems, from the `first` on, as CSR."""

    @abstractmethod
    def primal_at_zero(self, costs: Array) -> float:
        """Return the objective of w = 0 where these are the costs of all classes."""

    @abstractmethod
    def coef(self, ws: Sequence[Array]) -> tuple[Array, Array]:
        """Return the model's rows of coefficients, and the weights of the bias."""

    @abstractmethod
    def problem_weights(self, p: int, weights: Array) -> Array:
        """Return the weights of the p-th problem that the model's rows stand for."""

    def attributes(self, *ws: Array) -> dict[str, Any]:
        """Return classes, coefficients and intercepts for the weights of the problems."""
        coef, last = self.coef(ws)
        classes = {} if self.classes is None else {"classes_": self.classes}
        return {**classes, "coef_": coef, "intercept_": self.bias * last}

    def fill_in(self, results: list[Result], costs: Array, n_rows: int) -> list[int]:
        """Give problems that were not begun weights of use beside the others, in place.

        `costs` are those of the classes, summed over their rows, of which there are `n_rows`.
        Returns the problems that are left without weights.
        """
        return []


class SingleVectors(Formulation):
    """Problems of one vector of weights each."""

    def __init__(self, settings: Settings, classes: Any, class_weight: ClassWeight) -> None:
        super().__init__(settings, classes, class_weight)
        self.loss = loss_named(settings.loss, settings.epsilon)
        self.kind = FreeProblem if settings.free_intercept else BinaryProblem

    @abstractmethod
    def signs(self, p: int, labels: Array) -> Array:
        """Return what the responses of rows are multiplied by in the p-th problem: 1 or -1."""

    def problem(self, p: int, rows: LabelledRows) -> BinaryProblem:
        return self.kind(
            passes=rows.passes,
            sqnorm=rows.sqnorm,
            y=self.signs(p, rows.labels),
            cost=rows.cost,
            loss=self.loss,
            target=1.0 if self.classes is not None else rows.labels,
            candidates=rows.candidates,
            alone=len(self.names) == 1,
        )

    def near(self, p: int, rows: LabelledRows, duals: Sparse) -> Array:
        return clipped(duals[[p]].toarray()[0] * self.signs(p, rows.labels), rows.cost, self.loss)

    def problem_weights(self, p: int, weights: Array) -> Array:
        return weights[p]  # type: ignore[no-any-return]


class OneVersusRest(SingleVectors):
    """A binary problem per class; for two classes, only the second against the first."""

    def __init__(self, settings: Settings, classes: Any, class_weight: ClassWeight) -> None:
        super().__init__(settings, classes, class_weight)
        self.positives = [1] if len(classes) == 2 else list(range(len(classes)))
        self.names = [f"class {classes[k]}" for k in self.positives]

    def signs(self, p: int, labels: Array) -> Array:
        """Return 1 for rows of the class of the p-th problem and -1 for others."""
        y = (labels == self.positives[p]).astype(np.float64)
        y *= 2.0
        y -= 1.0
        return y

    def signed(self, rows: LabelledRows, alphas: Sequence[Array], first: int = 0) -> Sparse:
        places = [np.flatnonzero(alpha) for alpha in alphas]
        values = [alpha[support] for alpha, support in zip(alphas, places, strict=True)]
        for k, support, own in zip(self.positives[first:], places, values, strict=False):
            np.negative(own, out=own, where=rows.labels[support] != k)
        starts = np.cumsum([0, *map(len, places)])
        found = np.concatenate(values), np.concatenate(places), starts
        return sp.csr_array(found, shape=(len(alphas), len(rows.labels)))

    def primal_at_zero(self, costs: Array) -> float:
        return float(costs.sum()) * loss_at(1.0, self.loss)

    def coef(self, ws: Sequence[Array]) -> tuple[Array, Array]:
        """Return the model's rows of coefficients, and the weights of the bias.

        A single row is a view of its weights, which may be all that memory holds. With several,
        memory for weights that are 0 is never touched: a thousand classes that were not begun have
        a lot of it.
        """
        if len(ws) == 1:
            w = ws[0].astype(np.float64, copy=False)
            return w[None, :-1], w[-1:]
        coef = np.zeros((len(ws), len(ws[0]) - 1))
        for row, w in zip(coef, ws, strict=True):
            copy_nonzero(w[:-1], row)
        return coef, np.array([w[-1] for w in ws], dtype=np.float64)

    def fill_in(self, results: list[Result], costs: Array, n_rows: int) -> list[int]:
        """Give classes that were not begun a score that fits their frequency, in place.

        The constant feature alone gives every row the same score. Its squared loss is least at the
        mean label, shrunk. (Without weights the score would be 0, above those of nearly all classes
        that have been trained.)
        """
        idle = [p for p, r in enumerate(results) if not (r.converged or r.n_iter or r.w.any())]
        if len(results) == 1 or not self.bias:
            return idle if len(results) > 1 else []
        for p in idle:
            positive = costs[self.positives[p]]
            negative = costs.sum() - positive
            score = (positive - negative) / (positive + negative + 0.5 / self.bias**2)
            w = np.zeros(len(results[p].w))
            w[-1] = score / self.bias
            slack, cost = np.array([1.0 - score, 1.0 + score]), np.array([positive, negative])
            slack, cost = slack[cost > 0], (1.0 + n_rows * EPS) * cost[cost > 0]
            self.give(results[p], w, slack, 4.0 * EPS * (1.0 + abs(score)), cost)
        return []

    def give(self, result: Result, w: Array, slack: Array, error: Any, cost: Array) -> None:
        """Put weights into a result whose dual variables are 0; its certificate is P alone.

        Slacks are off by `error` at most. Losses are convex: they are largest at an end.
        """
        penalised = w[:-1] if self.kind is FreeProblem else w
        primal = 0.5 * float(penalised @ penalised)
        ends, loss = (slack - error, slack + error), self.loss.on_arrays(np)
        below, above = (loss.losses(cost, end, loss.best_dual(cost, end)) for end in ends)
        primal += sum_losses(np.where(above >= below, *ends[::-1]), cost, self.loss)
        primal *= 1.0 + (len(slack) + len(w) + 2 * OF_OBJECTIVE) * EPS  # sums, in any order
        result.w, result.primal, result.dual, result.gap = w, primal, 0.0, primal
        result.relative_gap = 1.0
        last = result.history[-1]
        last["primal"], last["dual"], last["gap"] = primal, 0.0, primal


class AllAtOnce(Formulation):
    """One problem over all classes: Crammer-Singer or Weston-Watkins."""

    together = True
    soft = False  # whether losses are those of logistic regression
    kind: type[MulticlassProblem] = MulticlassProblem

    def __init__(self, settings: Settings, classes: Any, class_weight: ClassWeight) -> None:
        super().__init__(settings, classes, class_weight)
        if settings.free_intercept and not self.soft:
            raise ValueError(
                f"intercept='free' is not available with multi_class={settings.multi_class!r}. Use "
                "multi_class='ovr', or intercept='penalized'."
            )
        # Whether the sum of a row's dual variables is at most its cost, and not each of them.
        self.joint = settings.multi_class != "weston_watkins"
        self.loss = LOSSES["hinge"]
        self.names = [f"{len(classes)} classes"]

    def problem(self, p: int, rows: LabelledRows) -> MulticlassProblem:
        return self.kind(
            passes=rows.passes,
            sqnorm=rows.sqnorm,
            y=np.maximum(rows.labels, 0).astype(np.int64),  # without a class there is no cost
            cost=rows.cost,
            joint=self.joint,
            n_classes=len(self.classes),
        )

    def near(self, p: int, rows: LabelledRows, duals: Sparse) -> DualPoint:
        problem = self.problem(p, rows)
        y, cost = problem.y, problem.cost
        places, columns, values = unsigned(duals, y)
        values = np.minimum(values, cost[places])
        if self.joint:
            total = np.bincount(places, values, minlength=len(y))
            beyond = total[places] > cost[places]
            values[beyond] *= cost[places[beyond]] / total[places[beyond]]
        return problem.alpha_from(places, columns, values)

    def signed(self, rows: LabelledRows, alphas: Sequence[DualPoint], first: int = 0) -> Sparse:
        problem = self.problem(0, rows)
        y, k = problem.y, problem.n_classes
        places, columns, values = problem.nonzero(alphas[0])
        total = np.bincount(places, values, minlength=len(y))
        if k == 2:
            return sp.csr_array((2.0 * total * np.where(y == 1, 1.0, -1.0))[None, :])
        support = np.flatnonzero(total)
        values = np.concatenate([-values, total[support]])
        where = np.concatenate([columns, y[support]]), np.concatenate([places, support])
        return sp.csr_array((values, where), shape=(k, len(y)))

    def primal_at_zero(self, costs: Array) -> float:
        return float(costs.sum()) * (1 if self.joint else len(self.classes) - 1)

    def coef(self, ws: Sequence[Array]) -> tuple[Array, Array]:
        W = ws[0].T
        if len(W) == 2:
            W = W[1:] - W[:1]
        return W[:, :-1].astype(np.float64, order="C"), W[:, -1].astype(np.float64)

    def problem_weights(self, p: int, weights: Array) -> Array:
        if len(weights) == 1:  # the smallest weights with this difference
            weights = np.concatenate([-0.5 * weights, 0.5 * weights])
        return weights.T


class Multinomial(AllAtOnce):
    """One problem over all classes: multinomial logistic regression."""

    soft = True

    def __init__(self, settings: Settings, classes: Any, class_weight: ClassWeight) -> None:
        super().__init__(settings, classes, class_weight)
        self.kind = FreeMultinomialProblem if settings.free_intercept else MultinomialProblem

    def primal_at_zero(self, costs: Array) -> float:
        return float(costs.sum()) * log(len(self.classes)) * (1.0 + OF_OBJECTIVE * EPS)


class Regression(SingleVectors):
    """One problem, in which each row has a target."""

    names = ["regression"]  # noqa: RUF012
    n_weight_rows = 1

    def encode(self, y: Array) -> Array:
        return as_targets(y)

    def costs(self, labels: Array, weight: Array | None, all_rows: bool = True) -> Array:
        codes = np.zeros(len(labels), np.int64)
        return row_costs(self.settings.C, None, np.zeros(1), codes, weight, all_rows)

    def signs(self, p: int, labels: Array) -> Array:
        return np.ones(len(labels))

    def signed(self, rows: LabelledRows, alphas: Sequence[Array], first: int = 0) -> Sparse:
        return sp.csr_array(alphas[0][None, :])

    def primal_at_zero(self, costs: Array) -> float:
        raise TypeError("The objective of w = 0 depends on the targets of all rows.")

    def coef(self, ws: Sequence[Array]) -> tuple[Array, Array]:
        w = ws[0].astype(np.float64, copy=False)
        return w[:-1], w[-1:]


FORMULATIONS: dict[str, type[OneVersusRest | AllAtOnce]] = {
    "ovr": OneVersusRest,
    "crammer_singer": AllAtOnce,
    "weston_watkins": AllAtOnce,
    "multinomial": Multinomial,
}

# Those of support vector machines.
OF_MARGINS = "ovr", "crammer_singer", "weston_watkins"


def formulation_of(
    settings: Settings, classes: Any = None, class_weight: ClassWeight = None
) -> Formulation:
    """Return the formulation that settings ask for."""
    if settings.loss in REGRESSION_LOSSES:
        return Regression(settings, None, None)
    logistic = settings.multi_class == "multinomial" or settings.loss == "logistic"
    if settings.free_intercept and logistic:
        _refuse_weightless(classes, class_weight)
    if settings.multi_class == "multinomial" and len(classes) == 2:
        # One vector of weights does, instead of two.
        return OneVersusRest(settings.but(loss="logistic"), classes, class_weight)
    return FORMULATIONS[settings.multi_class](settings, classes, class_weight)


def _refuse_weightless(classes: Any, class_weight: ClassWeight) -> None:
    """Raise ValueError if a class weighs nothing, whose free intercept would be minus infinity."""
    weights = class_weight if isinstance(class_weight, dict) else {}
    for label in classes.tolist():
        weight = weights.get(label, 1.0)
        if np.ndim(weight) == 0 and weight == 0:
            raise ValueError(
                f"class_weight is 0 for class {label!r}: without a penalty, its intercept would be "
                "minus infinity. Leave out its rows, or use intercept='penalized'."
            )


def unsigned(signed: Sparse, codes: Array) -> tuple[Array, Array, Array]:
    """Return rows, classes and values of the dual variables of all classes at once."""
    found = signed.tocoo()
    if signed.shape[0] == 1:  # half the difference between the two classes
        return found.col, 1 - codes[found.col], 0.5 * np.abs(found.data)
    # If the labels changed, the own class may have one, which block steps have no room for.
    chosen = (found.data < 0) & (found.row != codes[found.col])
    return found.col[chosen], found.row[chosen], -found.data[chosen]


def clipped(alpha: Array, cost: Array, loss: Loss) -> Array:
    """Return the feasible dual variables of a binary problem that are nearest."""
    used, feasible = np.flatnonzero(cost > 0), np.zeros(len(cost))
    lower, upper = loss.on_arrays(np).bounds(cost[used])
    feasible[used] = np.clip(alpha[used], lower, upper)
    return feasible


def as_targets(y: Array) -> Array:
    """Return targets in float64; raise ValueError if they are not finite numbers."""
    if y.dtype.kind not in "fiub":
        raise ValueError(f"Targets of regression must be numbers, but y has {y[:1].tolist()}.")
    if not np.isfinite(y).all():
        bad = y[~np.isfinite(y)][0]
        raise ValueError(f"Targets of regression must be finite, but y has {bad}.")
    return y.astype(np.float64, copy=False)


def check_scale(primal_at_zero: float) -> None:
    """Raise ValueError if targets and costs are too large to compute with."""
    if not np.isfinite(primal_at_zero):
        raise ValueError(
            "The losses of predicting 0 add up to more than float64 can hold. Scale y, or use "
            "smaller C and sample_weight."
        )

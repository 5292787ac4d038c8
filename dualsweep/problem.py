"""What the solver is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .duals import SlottedDuals
from .kernels.binary import sweep
from .kernels.certificate import certify, weights
from .kernels.multiclass import certify_multiclass, sweep_multiclass, weights_multiclass
from .losses import Loss
from .rows import Rows

__all__ = [
    "HISTORY_DTYPE",
    "AnyProblem",
    "Known",
    "MulticlassProblem",
    "Problem",
    "Progress",
    "Result",
    "relative",
    "sum_losses",
]

# A dual variable this close to its bound, relative to it, is there but for rounding.
AT_BOUND = 1.0 - 4 * float(np.finfo(np.float64).eps)

HISTORY_DTYPE = np.dtype(
    [
        ("problem", np.int64),  # which of several problems: the class in one-versus-rest, else 0
        ("time", np.float64),  # seconds since the solver started
        ("epoch", np.int64),  # sweeps and Newton steps done
        ("primal", np.float64),
        ("dual", np.float64),
        ("gap", np.float64),
        ("active", np.int64),  # rows whose dual variables are not yet proven optimal
    ]
)


class Known(NamedTuple):
    """What is known of a dual point, but for rounding, without reading X."""

    w: Any
    primal: float
    gap: float


class Problem(NamedTuple):
    """A binary problem; see `dualsweep.losses` for the primal and the dual it stands for.

    Rows with cost 0 are not part of the problem.
    """

    rows: Rows
    sqnorm: Any  # squared norms of the rows, the bias included
    y: Any  # -1.0 or +1.0
    cost: Any  # C_i = C * sample weight * class weight
    loss: Loss

    @property
    def n_weights(self) -> int:
        """Length of w: the features and the bias."""
        return self.rows.n_features + 1

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Shape of w."""
        return (self.n_weights,)

    def zero_alpha(self) -> Any:
        """Return dual variables to start from."""
        return np.zeros(len(self.y))

    def rows_of(self, alpha: Any, members: Any) -> Any:
        """Return the dual variables of the rows `members`."""
        return alpha[members]

    def alpha_of(self, members: Any, values: Any) -> Any:
        """Return dual variables with the given values for the rows `members`, the rest 0."""
        alpha = self.zero_alpha()
        alpha[members] = values
        return alpha

    @property
    def primal_at_zero(self) -> float:
        """Objective of w = 0, where every loss is 1 whatever the data."""
        return float(self.cost.sum())

    def sweep(
        self,
        shrunk: bool,
        order: Any,
        alpha: Any,
        w: Any,
        grads: Any,
        gains: Any,
        shares: Any,
    ) -> float:
        """Visit the rows of `order`; see `dualsweep.kernels.binary.sweep`.

        `shrunk` means nothing here: a row has a single dual variable.
        """
        return sweep(*self, order, alpha, w, grads, gains, shares)

    def weights(self, alpha: Any, w: Any) -> None:
        """Overwrite `w` with the weights of `alpha`."""
        weights(self.rows, self.y, alpha, w)

    def certify(self, members: Any, alpha: Any, w: Any, slack: Any) -> tuple[float, float]:
        """Return primal and gap; fill in the slacks of the rows `members`."""
        return certify(*self, members, alpha, w, slack)

    def settled(self, members: Any, alpha: Any, slack: Any, radius: float) -> Any:
        """Tell which of `members` are at a bound where the optimum has them.

        The optimum is at most `radius` from w, so its slack differs by at most that times
        ``|x_i|``. A row whose slack is thereby known to be negative has alpha at its lower bound,
        one whose slack is positive at its upper bound if it has one.
        """
        reach = radius * np.sqrt(self.sqnorm[members])
        at_lower = (slack < -reach) & (alpha[members] == self.loss.lower)
        at_upper = (slack > reach) & (alpha[members] == self.cost[members] * self.loss.upper)
        return at_lower | at_upper

    def best_scale(self, members: Any, alpha: Any, slack: Any, w: Any) -> float:
        """Return the s in [0, 1] for which the gap of ``s * alpha`` is smallest.

        With w times s goes the margin times s, and the gap is convex in s.
        """
        loss, cost, a = self.loss, self.cost[members], alpha[members]
        size, total = float(w @ w), float(a.sum())
        curvature = size + 0.5 * float((loss.diag / cost * a) @ a)

        def gap(s: float) -> float:
            losses = sum_losses(1.0 - s * (1.0 - slack), loss, cost)
            return losses + s * s * curvature - s * total

        from scipy.optimize import minimize_scalar  # takes a while, and few runs need it

        found = minimize_scalar(gap, bounds=(0.0, 1.0), method="bounded")
        return float(found.x) if found.fun < 0.99 * gap(1.0) else 1.0

    @np.errstate(over="ignore", invalid="ignore")
    def rescaled(self, result: Result) -> tuple[Any, Known | None]:
        """Return the best feasible multiple of a solution for other costs; see `dualsweep.path`.

        With s * alpha the dual objective is ``s sum(alpha) - s^2/2 (|w|^2 + sum_i D_i alpha_i^2)``,
        and the slacks become ``1 - s (1 - slack)``.
        """
        members, loss = np.flatnonzero(self.cost > 0), self.loss
        cost, a = self.cost[members], result.alpha[members]
        diag = loss.diag / cost
        total, size = float(a.sum()), float(result.w @ result.w)
        curvature = size + float((diag * a) @ a)
        upper = loss.upper * cost
        s = min(_ratio(total, curvature), float(np.min(upper[a > 0] / a[a > 0], initial=np.inf)))
        alpha = np.zeros_like(result.alpha)
        alpha[members] = _snapped(s * a, upper)
        if not np.array_equal(self.cost > 0, result.cost > 0):
            return alpha, None
        slack = 1.0 - s * (1.0 - result.slack)
        primal = 0.5 * s * s * size + sum_losses(slack, loss, cost)
        dual = s * total - 0.5 * s * s * curvature
        return alpha, Known(s * result.w, primal, max(primal - dual, 0.0))


class MulticlassProblem(NamedTuple):
    """A Crammer-Singer or Weston-Watkins problem; see `dualsweep.kernels.multiclass`.

    Rows with cost 0 are not part of the problem.
    """

    rows: Rows
    sqnorm: Any
    y: Any  # number of the class, int64
    cost: Any
    joint: bool  # Crammer-Singer; else Weston-Watkins
    n_classes: int

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Shape of W: features and bias, classes."""
        return (self.rows.n_features + 1, self.n_classes)

    def zero_alpha(self) -> Any:
        """Return dual variables to start from: dense, or slots where most would stay 0."""
        if self.joint:
            return SlottedDuals(len(self.y), self.n_classes)
        return np.zeros((len(self.y), self.n_classes))

    def alpha_from(self, rows: Any, classes: Any, values: Any) -> Any:
        """Return dual variables with the given values, the rest 0."""
        alpha = self.zero_alpha()
        if isinstance(alpha, SlottedDuals):
            alpha.fill(rows, classes, values)
        else:
            alpha[rows, classes] = values
        return alpha

    def nonzero(self, alpha: Any) -> tuple[Any, Any, Any]:
        """Return rows, classes and values of the nonzero dual variables."""
        if isinstance(alpha, SlottedDuals):
            return alpha.nonzero()
        rows, classes = np.nonzero(alpha)
        return rows, classes, alpha[rows, classes]

    def rows_of(self, alpha: Any, members: Any) -> Any:
        """Return the dual variables of the rows `members`, one column per class."""
        rows, classes, values = self.nonzero(alpha)
        dense = np.zeros((len(self.y), self.n_classes))
        dense[rows, classes] = values
        return dense[members]

    def alpha_of(self, members: Any, values: Any) -> Any:
        """Return dual variables with the given values for the rows `members`, the rest 0."""
        rows, classes = np.nonzero(values)
        return self.alpha_from(members[rows], classes, values[rows, classes])

    @property
    def primal_at_zero(self) -> float:
        """Objective of W = 0, where a row loses 1, or 1 per other class."""
        return float(self.cost.sum()) * (1 if self.joint else self.n_classes - 1)

    def sweep(
        self,
        shrunk: bool,
        order: Any,
        alpha: Any,
        w: Any,
        grads: Any,
        gains: Any,
        shares: Any,
    ) -> float:
        """Visit the rows of `order`; see `dualsweep.kernels.multiclass.sweep_multiclass`."""
        scratch, classes = self._scratch()
        gain, start = 0.0, 0
        while True:
            part, done = sweep_multiclass(
                *self[:5],
                shrunk,
                order[start:],
                _arrays(alpha),
                w,
                grads[start:],
                gains[start:],
                shares,
                scratch,
                classes,
            )
            gain += part
            start += done
            if start == len(order):
                return gain
            alpha.widen()

    def weights(self, alpha: Any, w: Any) -> None:
        """Overwrite `w` with the weights of `alpha`."""
        weights_multiclass(self.rows, self.y, _arrays(alpha), w, *self._scratch())

    def certify(self, members: Any, alpha: Any, w: Any, slack: Any) -> tuple[float, float]:
        """Return primal and gap; fill in how firmly the rows `members` are where they are."""
        scratch, _ = self._scratch()
        return certify_multiclass(*self[:5], members, _arrays(alpha), w, slack, scratch)

    def _scratch(self) -> tuple[Any, Any]:
        return np.empty((6, self.n_classes)), np.empty(self.n_classes, np.int64)

    def best_scale(self, members: Any, alpha: Any, slack: Any, w: Any) -> float:
        """Return 1: the scores it would take are not kept."""
        return 1.0

    @np.errstate(over="ignore", invalid="ignore")
    def rescaled(self, result: Result) -> tuple[Any, Known | None]:
        """Return the best feasible multiple of a solution for other costs, as in `Problem`.

        Its certificate is not known: the scores it would take are not kept.
        """
        rows, classes, values = self.nonzero(result.alpha)
        cost, size = self.cost[rows], float(np.vdot(result.w, result.w))
        used = np.bincount(rows, values)[rows] if self.joint else values
        s = min(_ratio(float(values.sum()), size), float(np.min(cost / used, initial=np.inf)))
        values = _snapped(s * values, cost)
        if self.joint:  # the sum of a row may exceed its bound by rounding
            values *= np.minimum(cost / np.maximum(np.bincount(rows, values)[rows], cost), 1.0)
        return self.alpha_from(rows, classes, values), None

    def settled(self, members: Any, alpha: Any, slack: Any, radius: float) -> Any:
        """Tell which of `members` have the dual variables of the optimum, as in `Problem`.

        The difference of two scores differs by at most ``sqrt(2) radius |x_i|``.
        """
        return slack > np.sqrt(2.0) * radius * np.sqrt(self.sqnorm[members])


def sum_losses(slack: Any, loss: Loss, cost: Any) -> float:
    """Return the sum of the losses of rows with these slacks and costs."""
    upper, diag = loss.upper * cost, loss.diag / cost
    if loss.diag > 0.0:
        best = np.clip(slack / diag, loss.lower, upper)
    else:
        best = np.where(slack > 0.0, upper, loss.lower)
    return float(best @ slack - 0.5 * (diag * best) @ best)


def _ratio(total: float, curvature: float) -> float:
    """Return the s at which ``s total - s^2/2 curvature`` is largest; 0 where that is undefined."""
    s = total / curvature if curvature > 0.0 else 0.0
    return s if np.isfinite(s) else 0.0


def _snapped(values: Any, upper: Any) -> Any:
    """Put what is at its upper bound but for rounding there, so that visits leave it alone."""
    return np.where(values >= AT_BOUND * upper, upper, values)


def _arrays(alpha: Any) -> Any:
    return alpha.slots if isinstance(alpha, SlottedDuals) else alpha


AnyProblem: TypeAlias = Problem | MulticlassProblem


class Progress(NamedTuple):
    """What a run can tell after each sweep or Newton step."""

    epoch: int
    relative_gap: float  # an estimate between certificates
    active: int  # rows whose dual variables are not yet proven optimal
    w: Any  # the weights as they are: look, do not touch


@dataclass
class Result:
    """A dual point, its weights, and how good they are.

    ``primal - dual = gap >= 0`` holds for this very `w`, which was recomputed from `alpha`.
    """

    w: Any
    alpha: Any
    cost: Any  # the problem's
    slack: Any  # what the certificate saw of each row with a cost
    primal: float
    gap: float
    converged: bool
    n_iter: int  # sweeps and Newton steps
    n_newton: int  # Newton steps among them
    history: Any

    @property
    def dual(self) -> float:
        """Dual objective, a proven lower bound on the optimum."""
        return self.primal - self.gap

    @property
    def relative_gap(self) -> float:
        """Gap relative to the primal objective."""
        return relative(self.gap, self.primal)


def relative(gap: float, primal: float) -> float:
    """Return the gap relative to the primal; of no gap 0, of no primal infinity."""
    if gap <= 0.0:
        return 0.0
    return gap / primal if primal > 0.0 else np.inf

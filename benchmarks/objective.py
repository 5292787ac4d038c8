"""The linear SVM, and when to stop asking a contender for more accuracy."""

import math
from typing import ClassVar

import numpy as np
from benchmark_utils import BINARY, EPSILON, MULTICLASS, REGRESSION
from benchopt import BaseObjective
from benchopt.stopping_criterion import StoppingCriterion


def hinges(scores, y):
    """Return max(0, 1 - s_y + s_m) for each row and class m, and 0 for the row's own class y."""
    rows = np.arange(len(y))
    violations = np.maximum(0.0, 1.0 - scores[rows, y][:, None] + scores)
    violations[rows, y] = 0.0
    return violations


def beyond(scores, y):
    """Return by how much each row is further than epsilon from its target."""
    return np.maximum(0.0, np.abs(y - scores[:, 0]) - EPSILON)


# Of a row's scores, a single one with labels -1 and 1 or a target, or one per class.
LOSSES = {
    "hinge": lambda scores, y: np.maximum(0.0, 1.0 - y * scores[:, 0]),
    "squared_hinge": lambda scores, y: np.maximum(0.0, 1.0 - y * scores[:, 0]) ** 2,
    "crammer_singer": lambda scores, y: hinges(scores, y).max(axis=1),
    "weston_watkins": lambda scores, y: hinges(scores, y).sum(axis=1),
    "epsilon_insensitive": beyond,
    "squared_epsilon_insensitive": lambda scores, y: beyond(scores, y) ** 2,
}


def primal(X, y, loss, C, coef, intercept):
    """Return 1/2 |W|^2 + 1/2 |b|^2 + C sum_i loss(W x_i + b, y_i)."""
    coef = np.asarray(coef, dtype=np.float64)
    losses = LOSSES[loss](X @ coef.T + intercept, y)
    return float(0.5 * (np.sum(coef**2) + np.sum(intercept**2)) + C * losses.sum())


# Two rungs a decade: wider steps make a contender overshoot the accuracy it is compared at.
RUNG = math.sqrt(10.0)
MORE_ITERATIONS = 4


class Ladder(StoppingCriterion):
    """Run at ever tighter tolerances, until more accuracy is not worth the wait.

    Nothing can interrupt a fit, and one rung can take a thousand times as long as the one above it
    (hinge loss, covtype, C = 100). So a fit that hits its iteration limit is first repeated with a
    higher limit: no fit takes much longer than ``MORE_ITERATIONS`` times the cap.
    """

    def __init__(self, strategy: str = "tolerance", **kwargs):
        super().__init__(strategy=strategy)

    def get_runner_instance(self, *args, timeout=None, **kwargs):
        # Benchopt's timeout bounds a whole ladder; ours bounds one fit, so that a point does not
        # go missing because of the time spent on the rungs above it.
        ladder = super().get_runner_instance(*args, timeout=None, **kwargs)
        ladder.cap = math.inf if timeout is None else timeout
        return ladder

    def init_stop_val(self) -> float:
        return self.solver.first_tol

    def get_next_stop_val(self, tol: float) -> float:
        if self.solver.converged:
            return max(tol / RUNG, self.solver.last_tol)
        self.solver.max_iter *= MORE_ITERATIONS
        return tol

    def check_convergence(self, points: list[dict]) -> tuple[bool, float]:
        last = points[-1]
        if last["objective_converged"]:
            at_end = last["stop_val"] <= self.solver.last_tol
        else:
            at_end = self.solver.max_iter is None
        return bool(at_end or last["objective_enough"] or last["time"] > self.cap), 0.0


class Objective(BaseObjective):
    """min_{W,b} 1/2 |W|^2 + 1/2 |b|^2 + C sum_i loss(W x_i + b, y_i).

    The intercept is one more regularised weight, as in LIBLINEAR with ``-B 1`` and in scikit-learn.
    """

    name = "SVM"
    min_benchopt_version = "1.10"
    sampling_strategy = "tolerance"
    stopping_criterion = Ladder()
    parameters: ClassVar = {
        "loss": [*BINARY, *MULTICLASS, *REGRESSION],
        "C": [1.0],
        "stop_at": [None],  # a value of the objective that ends the ladder
    }

    def skip(self, X, y, positive):
        classes = y.dtype.kind != "f"
        if (self.loss in REGRESSION) == classes:
            return True, f"{self.loss} is for {'targets' if classes else 'classes'}"
        if self.loss in MULTICLASS and len(np.unique(y)) < 3:
            return True, f"{self.loss} is for three classes or more"
        if self.loss in BINARY and positive is None:
            return True, f"{self.loss} needs a class to tell from the rest"
        return False, None

    def set_data(self, X, y, positive):
        self.X = X
        if self.loss in MULTICLASS:
            self.y = np.unique(y, return_inverse=True)[1]
        elif self.loss in REGRESSION:
            self.y = y
        else:
            self.y = np.where(y == positive, 1, -1)

    def get_objective(self) -> dict:
        return {"X": self.X, "y": self.y, "loss": self.loss, "C": self.C}

    def evaluate_result(self, coef, intercept, converged, lower, cpu) -> dict:
        value = primal(self.X, self.y, self.loss, self.C, coef, intercept)
        return {
            "value": value,
            "lower": lower,
            "cpu": cpu,
            "converged": converged,
            "enough": self.stop_at is not None and value <= self.stop_at,
        }

    def get_one_result(self) -> dict:
        n_scores = self.y.max() + 1 if self.loss in MULTICLASS else 1
        coef, intercept = np.zeros((n_scores, self.X.shape[1])), np.zeros(n_scores)
        return {
            "coef": coef,
            "intercept": intercept,
            "converged": True,
            "lower": math.nan,
            "cpu": math.nan,
        }

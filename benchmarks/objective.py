"""The binary linear SVM, and when to stop asking a contender for more accuracy."""

import math
from typing import ClassVar

import numpy as np
from benchopt import BaseObjective
from benchopt.stopping_criterion import StoppingCriterion

LOSSES = {
    "hinge": lambda margin: np.maximum(0.0, 1.0 - margin),
    "squared_hinge": lambda margin: np.maximum(0.0, 1.0 - margin) ** 2,
}

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
    """min_{w,b} 1/2 |w|^2 + 1/2 b^2 + C sum_i loss(y_i (w.x_i + b)).

    The intercept is one more regularised weight, as in LIBLINEAR with ``-B 1`` and in scikit-learn.
    """

    name = "Binary SVM"
    min_benchopt_version = "1.10"
    sampling_strategy = "tolerance"
    stopping_criterion = Ladder()
    parameters: ClassVar = {
        "loss": ["hinge", "squared_hinge"],
        "C": [1.0],
        "stop_at": [None],  # a value of the objective that ends the ladder
    }

    def set_data(self, X, y):
        self.X, self.y = X, y

    def get_objective(self) -> dict:
        return {"X": self.X, "y": self.y, "loss": self.loss, "C": self.C}

    def evaluate_result(self, coef, intercept, converged, lower) -> dict:
        coef = np.asarray(coef, dtype=np.float64)
        margin = self.y * (self.X @ coef + intercept)
        value = 0.5 * (coef @ coef + intercept**2) + self.C * LOSSES[self.loss](margin).sum()
        return {
            "value": float(value),
            "lower": lower,
            "converged": converged,
            "enough": self.stop_at is not None and value <= self.stop_at,
        }

    def get_one_result(self) -> dict:
        zeros = np.zeros(self.X.shape[1])
        return {"coef": zeros, "intercept": 0.0, "converged": True, "lower": math.nan}

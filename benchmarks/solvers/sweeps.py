import math
from typing import ClassVar

import numpy as np
from benchmark_utils import BINARY, MULTICLASS, Iterative, Point

from dualsweep._random import random_state
from dualsweep._threads import Workers
from dualsweep.losses import LOSSES
from dualsweep.problems.binary import BinaryProblem
from dualsweep.problems.multiclass import MulticlassProblem
from dualsweep.rows.layouts import as_rows
from dualsweep.rows.passes import Passes
from dualsweep.solvers.schedules import SCHEDULES


class Solver(Iterative):
    """The papers' sweeps: the library's kernel and schedules, and nothing else of it.

    No certificates, no rows left out for good, no momentum, no Newton steps: Hsieh et al. 2008,
    Algorithm 1 (`cyclic`, `permuted`, `shrinking`) and 2 (`online`), Keerthi et al. 2008 with and
    without their heuristics (`alternating`, `permuted`), and Glasmachers and Dogan 2013, Algorithm
    3 (`adaptive`). A step is a visit of a row, as the latter count.

    A run is over as the papers say: when the projected gradients of a sweep differ by less than
    `tol`, or with adaptive frequencies when none is larger, provided that it was a sweep over all
    rows, or with equal frequencies; else such a sweep follows. Where no `tol` is given, shrinking
    takes one of its own, which falls, and frequencies are never made equal.
    """

    name = "sweeps"
    parameters: ClassVar = {"schedule": ["permuted"], "tol": [0.0]}
    losses = BINARY + MULTICLASS

    def problem(self, X, y):
        passes = Passes(as_rows(X, 0.0), Workers())
        cost = np.full(len(y), float(self.C))
        if self.loss in BINARY:
            labels = y.astype(np.float64)
            return BinaryProblem(passes, passes.sqnorms(), labels, cost, LOSSES[self.loss])
        joint = self.loss == "crammer_singer"
        return MulticlassProblem(passes, passes.sqnorms(), y, cost, joint, int(y.max()) + 1)

    def iterate(self, X, y):
        problem = self.problem(X, y)
        alpha, w, shares = problem.zero_alpha(), problem.zero_weights(), np.zeros(len(y))
        adaptive = self.schedule == "adaptive"
        rows, state = np.arange(len(y)), random_state(0)
        plan, equal, steps = SCHEDULES[self.schedule](rows, state), True, 0
        while True:
            order = plan.next_order()
            grads, gains = np.empty(len(order)), np.empty(len(order))
            problem.sweep(plan.shrunk, order, alpha, w, grads, gains, shares)
            steps += len(order)
            projected = np.where(gains > 0.0, grads, 0.0)
            high, low = projected.max(initial=0.0), projected.min(initial=0.0)
            violation = max(high, -low) if adaptive else high - low
            final = equal if adaptive else len(order) == len(y) and not plan.shrunk
            yield Point(w[:-1].T, steps / len(y), steps, violation if final else math.inf)

            if self.schedule == "shrinking" and self.tol:
                plan.tolerance = self.tol
            plan.observe(order, grads, gains)
            if adaptive and self.tol:
                equal = violation < self.tol
                if equal:
                    plan.preference[:] = 1.0

import numpy as np
from benchmark_utils import Iterative, Point

from dualsweep._jit import jit

# A step is halved until the objective falls by SUFFICIENT times its square.
SUFFICIENT, SHORTER = 0.01, 0.5


class Solver(Iterative):
    """Coordinate descent in the primal, for squared hinge (PCD; Chang, Hsieh and Lin 2008).

    A step is a Newton step on one weight, with a line search; a pass visits all weights in a new
    random order. The violation is the largest derivative that a pass saw, relative to the first.
    """

    name = "primal_coordinates"
    losses = ("squared_hinge",)

    def iterate(self, X, y):
        columns, rng = (X.multiply(y[:, None])).tocsc(), np.random.default_rng(0)
        w, slack = np.zeros(X.shape[1]), np.ones(len(y))  # slack = 1 - y * (X @ w)
        curvature = 1.0 + 2.0 * self.C * np.asarray(columns.multiply(columns).sum(axis=0)).ravel()
        passes, first = 0, None
        while True:
            order = rng.permutation(len(w))
            largest = visit(
                columns.data, columns.indices, columns.indptr, self.C, order, curvature, w, slack
            )
            passes, first = passes + 1, first or largest
            yield Point(w, passes, passes * len(w), largest / first if first else 0.0)


@jit
def visit(data, indices, indptr, C, order, curvature, w, slack):
    """Take a step for each weight of `order`; return the largest derivative there was.

    The columns are those of the rows times their labels. `curvature` is what the second derivative
    of the objective is at most. Updates w and slack, ``1 - margin``, in place.
    """
    largest = 0.0
    for j in order:
        entries = range(indptr[j], indptr[j + 1])
        # Of 1/2 w_j^2 + C sum_i max(0, slack_i)^2, the rows with a loss giving the second one.
        first, second, value = w[j], 1.0, 0.0
        for p in entries:
            b = slack[indices[p]]
            if b > 0.0:
                first -= 2.0 * C * data[p] * b
                second += 2.0 * C * data[p] * data[p]
                value += C * b * b
        largest = max(largest, abs(first))
        step = -first / second
        if step == 0.0:
            continue
        while True:
            for p in entries:
                slack[indices[p]] -= step * data[p]
            # The step is short enough for any losses: no need to look.
            if abs(step) * (0.5 * curvature[j] + SUFFICIENT) <= abs(first):
                break
            change = step * (w[j] + 0.5 * step) - value
            for p in entries:
                change += C * max(0.0, slack[indices[p]]) ** 2
            if change <= -SUFFICIENT * step * step:
                break
            for p in entries:
                slack[indices[p]] += step * data[p]
            step *= SHORTER
        w[j] += step
    return largest

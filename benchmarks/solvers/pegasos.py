import numpy as np
from benchmark_utils import Iterative, Point

from dualsweep._jit import jit

SMALL = 1e-30  # a scale below which it goes into v: with large C, projections alone take it to 0


class Solver(Iterative):
    """Stochastic sub-gradient steps with a projection (Shalev-Shwartz, Singer and Srebro 2007).

    The objective is the benchmark's times lambda = 1 / (C n). Step t draws one row and goes
    1 / (lambda t) along the sub-gradient of ``lambda/2 |w|^2 + hinge``, then back into the ball of
    radius 1 / sqrt(lambda), in which the optimum lies. It knows no violation: what is proven of it
    falls as log(t) / t, so that a tolerance is taken for one over the passes.
    """

    name = "pegasos"
    losses = ("hinge",)
    last_tol = 1e-4

    def iterate(self, X, y):
        rng, n = np.random.default_rng(0), len(y)
        y = y.astype(np.float64)
        v, state = np.zeros(X.shape[1]), np.array([1.0, 0.0])  # w = state[0] * v, |v|^2
        lam, steps = 1.0 / (self.C * n), 0
        while True:
            drawn = rng.integers(n, size=n)
            steps = take_steps(X.data, X.indices, X.indptr, y, lam, drawn, steps, v, state)
            yield Point(state[0] * v, steps / n, steps, n / steps)


@jit
def take_steps(data, indices, indptr, y, lam, drawn, t, v, state):
    """Take a step for each row drawn, after t others; return the number of all steps.

    Updates v and state, the weights' scale and ``|v|^2``: with the scale apart, a step touches only
    what is not zero in its row.
    """
    scale, size = state
    for i in drawn:
        t += 1
        entries = range(indptr[i], indptr[i + 1])
        dot, sqnorm = 0.0, 0.0
        for p in entries:
            dot += data[p] * v[indices[p]]
            sqnorm += data[p] * data[p]
        violated = y[i] * scale * dot < 1.0
        if t > 1:  # the first step takes w = 0 to 0
            scale *= 1.0 - 1.0 / t
        if violated:
            step = y[i] / (lam * t * scale)
            for p in entries:
                v[indices[p]] += step * data[p]
            size += 2.0 * step * dot + step * step * sqnorm
        length = scale * np.sqrt(max(size, 0.0))
        if length * np.sqrt(lam) > 1.0:
            scale /= length * np.sqrt(lam)
        if scale < SMALL:
            v *= scale
            size *= scale * scale
            scale = 1.0
    state[0], state[1] = scale, size
    return t

import numpy as np
from benchmark_utils import Iterative, Point

from dualsweep._jit import jit
from dualsweep._random import random_below, random_state

# Rates that grow by 30 % are a little ahead for some passes, but they throw u so near to 0 that it
# does not come back: a small problem stays 5e-4 above the optimum for ever.
FIRST_RATE, FASTER, SLOWER = 0.5, 1.05, 0.5
SURE = 6.0  # where a row's own class begins ahead of the others, in logarithms
HALVINGS = 30


@jit
def visit_rows(data, indices, indptr, sqnorm, y, C, state, visits, theta, rates, W, work):
    """Visit random rows; return what the dual gained. `work` has three rows of k numbers."""
    k, total = W.shape[1], 0.0
    grad, u, new = work[0], work[1], work[2]
    for _ in range(visits):
        i = random_below(state, len(y))
        # grad = 1 - [m = y_i] + W.T @ x_i
        for m in range(k):
            grad[m] = 1.0
        grad[y[i]] = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            for m in range(k):
                grad[m] += data[j] * W[indices[j], m]
        softmax(theta[i], 0.0, grad, u)
        for _ in range(HALVINGS):
            softmax(theta[i], rates[i], grad, new)
            linear, square = 0.0, 0.0
            for m in range(k):
                linear += grad[m] * (new[m] - u[m])
                square += (new[m] - u[m]) ** 2
            gain = C * linear - 0.5 * sqnorm[i] * C * C * square
            if gain >= 0.0:
                break
            rates[i] *= SLOWER
        if gain <= 0.0:
            continue
        total += gain
        for m in range(k):
            theta[i, m] += rates[i] * grad[m]
        rates[i] *= FASTER
        for j in range(indptr[i], indptr[i + 1]):
            for m in range(k):
                W[indices[j], m] -= C * (new[m] - u[m]) * data[j]
    return total


@jit
def softmax(theta, rate, grad, out):
    """Fill in what is proportional to ``exp(theta + rate grad)`` and sums to 1."""
    top, total = -np.inf, 0.0
    for m in range(len(out)):
        out[m] = theta[m] + rate * grad[m]
        top = max(top, out[m])
    for m in range(len(out)):
        out[m] = np.exp(out[m] - top)
        total += out[m]
    for m in range(len(out)):
        out[m] /= total


class Solver(Iterative):
    """Exponentiated gradient (Collins et al. 2008), online, for Crammer-Singer.

    The dual variables of a row are C times a distribution u over the classes, kept as logarithms:
    ``w_m = C sum_i ([m = y_i] - u_im) x_i``. A visit of a random row multiplies u_im by
    ``exp(rate * (1 - [m = y_i] + w_m.x_i))``. Each row has a rate of its own, which is halved until
    the dual does not fall, and grows by 5 % each time it did not. Rows begin with nearly all of u
    on their own class: equal shares make a W that is far too large.
    """

    name = "exponentiated_gradient"
    losses = ("crammer_singer",)

    def iterate(self, X, y):
        n, k = X.shape[0], int(y.max()) + 1
        theta = np.zeros((n, k))
        theta[np.arange(n), y] = np.log(k) + SURE
        u = np.exp(theta)
        u /= u.sum(axis=1, keepdims=True)
        W = self.C * (X.T @ (np.eye(k)[y] - u))
        # The dual, sum_i C (1 - u_iy) - 1/2 |W|^2.
        dual = self.C * (n - u[np.arange(n), y].sum()) - 0.5 * np.sum(W**2)
        sqnorm = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        rates, state, work = np.full(n, FIRST_RATE), random_state(0), np.empty((3, k))
        steps, visits = 0, max(1, n // 4)
        while True:
            gain = visit_rows(
                *(X.data, X.indices, X.indptr, sqnorm, y, float(self.C)),
                *(state, visits, theta, rates, W, work),
            )
            dual += gain
            steps += visits
            yield Point(W.T, steps / n, steps, gain / abs(dual))

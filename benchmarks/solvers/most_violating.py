import numpy as np
from benchmark_utils import Iterative, Point

from dualsweep._jit import jit
from dualsweep.kernels.block_steps import crammer_singer_level

FULL = 1.0 - 1e-12  # of C, from which on the dual variables of a row use it up


class Solver(Iterative):
    """Crammer and Singer's (2001) choice: always the row that violates its conditions most.

    To know it, the scores of all rows are kept up to date, which takes a pass over the data for
    each step on the dual variables of one row. With a kernel the step would need that pass anyway;
    without, it is what Keerthi et al. 2008, section 2.2, advise against.
    """

    name = "most_violating"
    losses = ("crammer_singer",)

    def iterate(self, X, y):
        n, k = X.shape[0], int(y.max()) + 1
        sqnorm = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        W, scores, beta = np.zeros((X.shape[1], k)), np.zeros((n, k)), np.zeros((n, k))
        others = np.arange(k)
        steps = 0
        while True:
            i, violation = most_violating(scores, beta, y, float(self.C))
            yield Point(W.T, float(steps), steps, violation)
            m = others[others != y[i]]
            old = beta[i, m]
            if sqnorm[i] > 0.0:
                v = (1.0 - scores[i, y[i]] + scores[i, m]) / sqnorm[i] + old + old.sum()
                new = v - v.max()
                level = crammer_singer_level(new, k - 1, v.max(), float(self.C), np.empty(k - 1))
                new = np.maximum(new - level, 0.0)
            else:
                new = np.full(k - 1, self.C / (k - 1))
            change = np.zeros(k)
            change[m] = old - new
            change[y[i]] = -change.sum()
            beta[i, m] = new
            x = X[i].toarray()[0]
            W += np.outer(x, change)
            scores += np.outer(X @ x, change)
            steps += 1


@jit
def most_violating(scores, beta, y, C):
    """Return the row with the largest violation, and that (Keerthi et al. 2008, eq. 6)."""
    worst, most = 0, -1.0
    for i in range(len(y)):
        total = beta[i].sum()
        high, low = 0.0, 0.0 if total < FULL * C else np.inf
        for m in range(scores.shape[1]):
            if m != y[i]:
                t = 1.0 - scores[i, y[i]] + scores[i, m]
                high = max(high, t)
                if beta[i, m] > 0.0:
                    low = min(low, t)
        if high - low > most:
            worst, most = i, high - low
    return worst, most

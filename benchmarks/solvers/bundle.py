import numpy as np
import piqp
from benchmark_utils import Iterative, Point
from scipy.sparse import csr_matrix


class Solver(Iterative):
    """The bundle or cutting-plane method for Crammer-Singer (Joachims et al.; Teo et al. 2007).

    The sum of all losses is bounded from below by its tangent planes at the points visited so far,
    ``<A_t, W> + b_t``, and the next point is where 1/2 |W|^2 plus the largest of them is least:
    ``W = -sum_t share_t A_t`` with the shares of a small QP, which PIQP solves.

    A plane is kept as the class that each row confuses most with its own, and not as a matrix of
    all features and classes: that makes four passes over the rows for a plane.
    """

    name = "bundle"
    losses = ("crammer_singer",)

    def iterate(self, X, y):
        n, k = X.shape[0], int(y.max()) + 1
        rows, columns = np.arange(n), X.T.tocsr()
        own = one_hot(y, k)
        W, planes, offsets, gram = np.zeros((X.shape[1], k)), [], [], np.zeros((0, 0))
        lower = 0.0
        while True:
            violations = 1.0 + X @ W
            violations -= (violations[rows, y] - 1.0)[:, None]
            violations[rows, y] = 0.0
            worst = violations.argmax(axis=1)
            value = 0.5 * np.sum(W**2) + self.C * violations[rows, worst].sum()
            steps = len(planes)
            yield Point(W.T, 4.0 * steps, steps, (value - lower) / value)

            planes.append(worst)
            offsets.append(self.C * np.count_nonzero(worst != y))
            A = self.C * (columns @ (one_hot(worst, k) - own)).toarray()
            responses = X @ A
            products = [
                self.C * (responses[rows, plane] - responses[rows, y]).sum() for plane in planes
            ]
            gram = np.pad(gram, (0, 1))
            gram[-1] = gram[:, -1] = products
            shares = best_shares(gram, np.array(offsets))
            lower = shares @ offsets - 0.5 * shares @ gram @ shares
            weights = -shares.sum() * own.toarray()
            for share, plane in zip(shares, planes, strict=True):
                weights[rows, plane] += share
            W = -self.C * (columns @ weights)


def one_hot(classes, k):
    n = len(classes)
    return csr_matrix((np.ones(n), classes, np.arange(n + 1)), shape=(n, k))


def best_shares(gram, offsets):
    """Return the s >= 0, sum s <= 1, that maximise offsets.s - 1/2 s'gram s."""
    scale = max(np.abs(offsets).max(), gram.diagonal().max())
    n = len(offsets)
    program = piqp.DenseSolver()
    program.settings.eps_abs = program.settings.eps_rel = 1e-10
    program.settings.eps_duality_gap_abs = program.settings.eps_duality_gap_rel = 1e-10
    program.setup(
        gram / scale, -offsets / scale, G=np.ones((1, n)), h_u=np.ones(1), x_l=np.zeros(n)
    )
    program.solve()
    shares = np.maximum(program.result.x, 0.0)
    return shares / max(1.0, shares.sum())

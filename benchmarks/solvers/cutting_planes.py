import numpy as np
import piqp
from benchmark_utils import Iterative, Point

IDLE = 50  # a plane that has not mattered for so many iterations is dropped, as in SVM-perf


class Solver(Iterative):
    """Cutting planes for the hinge loss, as in SVM-perf (Joachims 2006).

    The mean loss is the largest of the planes ``(|S| - w.sum_{i in S} y_i x_i) / n`` over all sets
    of rows S. Each iteration adds that of the rows within the margin, which is the largest at w,
    and minimises the objective with the planes there are, in the dual by PIQP: with a_j for plane j
    of offset b_j and normal g_j,

        max_a  b.a - 1/2 |sum_j a_j g_j|^2,    a >= 0, sum a <= C n,    w = sum_j a_j g_j.

    The violation is how far the loss is above all planes there were. An iteration counts as two
    passes, and as one step.
    """

    name = "cutting_planes"
    losses = ("hinge",)
    last_tol = 1e-6

    def iterate(self, X, y):
        n, transposed = len(y), X.T.tocsr()
        w, height = np.zeros(X.shape[1]), 0.0
        normals, offsets, gram = np.empty((0, len(w))), np.empty(0), np.empty((0, 0))
        idle, steps = np.empty(0, dtype=int), 0
        while True:
            slack = 1.0 - y * (X @ w)
            inside = slack > 0.0
            steps += 1
            yield Point(w, 2.0 * steps, steps, slack[inside].sum() / n - height)

            normal = transposed @ (y * inside) / n
            products = normals @ normal
            gram = np.block([[gram, products[:, None]], [products, normal @ normal]])
            normals, offsets = np.vstack([normals, normal]), np.append(offsets, inside.mean())
            a = solve_master(gram, offsets, self.C * n)
            w = a @ normals
            height = max(0.0, (offsets - normals @ w).max())

            idle = np.where(a > 1e-9 * self.C * n, 0, np.append(idle, 0) + 1)
            kept = idle < IDLE
            normals, offsets, idle = normals[kept], offsets[kept], idle[kept]
            gram = gram[np.ix_(kept, kept)]


def solve_master(gram, offsets, total):
    """Return the a >= 0 of sum at most `total` that maximises ``offsets.a - 1/2 a.gram.a``."""
    m = len(offsets)
    program = piqp.DenseSolver()
    program.settings.eps_abs = program.settings.eps_rel = 1e-10
    # In parts of `total`, and in units of the loss at w = 0.
    program.setup(
        np.asfortranarray(total * gram),
        -offsets,
        G=np.ones((1, m), order="F"),
        h_u=np.ones(1),
        x_l=np.zeros(m),
    )
    program.solve()
    return total * np.clip(program.result.x, 0.0, 1.0)

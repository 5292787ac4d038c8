"""Support vector machines as quadratic programs, for a solver that knows nothing of them."""

import numpy as np
import pytest

piqp = pytest.importorskip("piqp")


def optimum(X, y, cost, loss, *, epsilon=0.0, intercept="penalized"):
    """Weights, intercept and objective, of 1/2 |w|^2 (+ 1/2 b^2) + sum_i cost_i loss_i.

    Classes are -1 and 1. Variables are w, b and what each row is off its constraints by: one slack
    for classes, one above and one below for regression.
    """
    n, d = X.shape
    cost = np.broadcast_to(np.asarray(cost, dtype=float), n)
    ridge = np.ones(d + 1)
    ridge[-1] = {"free": 0.0, "penalized": 1.0}[intercept]
    Z = np.column_stack([X, np.ones(n)])
    if "epsilon" in loss:  # y - Z w <= epsilon + above, and Z w - y <= epsilon + below
        rows = np.vstack([Z, -Z])
        least = np.concatenate([y - epsilon, -y - epsilon])
        cost = np.tile(cost, 2)
    else:
        rows, least = y[:, None] * Z, np.ones(n)
    m = len(least)
    squared = loss.startswith("squared")
    lowest = np.full(m, -np.inf if loss == "squared" else 0.0)
    program = piqp.DenseSolver()
    program.settings.eps_abs = program.settings.eps_rel = 1e-11
    program.settings.max_iter = 1000
    sides = {"h_l": least}
    if loss == "squared":  # an equation: the slack is what is lacking, of either sign
        sides["h_u"] = least
    program.setup(
        np.asfortranarray(np.diag(np.concatenate([ridge, 2 * cost * squared]))),
        np.concatenate([np.zeros(d + 1), cost * (not squared)]),
        G=np.asfortranarray(np.hstack([rows, np.eye(m)])),
        x_l=np.concatenate([np.full(d + 1, -np.inf), lowest]),
        **sides,
    )
    assert program.solve() == piqp.PIQP_SOLVED
    x = program.result.x
    w, b, slack = x[:d], x[d], x[d + 1 :]
    losses = cost @ (slack**2 if squared else slack)
    return w, b, 0.5 * (w @ w + ridge[-1] * b**2) + losses

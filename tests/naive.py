"""Slow and obvious NumPy: what the library has to agree with.

Formulas are those of the papers (DCD: Hsieh et al. 2008, AVSF: Glasmachers and Dogan 2013), written
down without any of the library's tricks. `Naive` also computes in exact fractions.
"""

import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import entr, log_softmax, logsumexp

from dualsweep._threads import Workers
from dualsweep.losses import loss_named
from dualsweep.problems.binary import BinaryProblem
from dualsweep.problems.multiclass import MulticlassProblem
from dualsweep.problems.multinomial import MultinomialProblem
from dualsweep.problems.run import certificate_of
from dualsweep.rows.layouts import as_rows
from dualsweep.rows.passes import passes_over

EPSILON = 3 / 8  # of the losses of regression here
EPS = np.finfo(np.float64).eps
LOSS_OF_MARGIN = {
    "hinge": lambda z: np.maximum(0, 1 - z),
    "squared_hinge": lambda z: np.maximum(0, 1 - z) ** 2,
    "squared": lambda z: (1 - z) ** 2,
    "epsilon_insensitive": lambda z: np.maximum(0, (8 * np.abs(1 - z) - 3) / 8),
    "squared_epsilon_insensitive": lambda z: np.maximum(0, (8 * np.abs(1 - z) - 3) / 8) ** 2,
}
REGRESSION = ["epsilon_insensitive", "squared_epsilon_insensitive"]
# Bounds of dual variables, over the cost.
LOWER = {
    "hinge": 0.0,
    "squared_hinge": 0.0,
    "squared": -np.inf,
    "epsilon_insensitive": -1.0,
    "squared_epsilon_insensitive": -np.inf,
}
UPPER = {
    "hinge": 1.0,
    "squared_hinge": np.inf,
    "squared": np.inf,
    "epsilon_insensitive": 1.0,
    "squared_epsilon_insensitive": np.inf,
}
HAS_DIAGONAL = {loss: upper == np.inf for loss, upper in UPPER.items()}


def dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def augment(X, bias):
    """X in float64, with the constant feature as its last column."""
    return np.column_stack([dense(X), np.full(X.shape[0], bias)]).astype(np.float64)


to_fractions = np.vectorize(Fraction, otypes=[object])
TO_THE_END = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 1e-16, "gtol": 1e-12}


class Naive:
    """min 1/2 |w|^2 + sum_i cost_i loss(y_i w.x_i) and its dual, on dense float64 or fractions.

    With a target other than 1, a loss is that of the slack ``target_i - y_i w.x_i``.
    """

    def __init__(self, X, y, cost, loss, bias=0.0, exact=False, target=1.0):
        number = to_fractions if exact else np.asarray
        self.loss = loss
        self.cost = number(np.broadcast_to(np.asarray(cost, dtype=float), len(y)))
        self.Z = number(y[:, None] * augment(X, bias))  # rows times labels: margins are Z @ w
        self.lower, self.upper = (
            bound * self.cost if abs(bound) == 1.0 else np.full(len(y), bound)
            for bound in (LOWER[loss], UPPER[loss])
        )
        self.kink = 0
        if loss in REGRESSION:
            self.kink = Fraction(EPSILON) if exact else EPSILON
        self.diag = 1 / (2 * self.cost) if HAS_DIAGONAL[loss] else 0 * self.cost
        self.target = number(np.broadcast_to(np.asarray(target, dtype=float), len(y)))
        self.number = number

    def weights(self, alpha):
        return self.Z.T @ self.number(alpha)

    def primal(self, w):
        w = self.number(w)
        margins = self.Z @ w - (self.target - 1)
        return w @ w / 2 + self.cost @ LOSS_OF_MARGIN[self.loss](margins)

    def dual(self, alpha):
        alpha = self.number(alpha)
        w = self.weights(alpha)
        linear = self.target @ alpha - self.kink * np.abs(alpha).sum()
        return linear - (w @ w + self.diag @ alpha**2) / 2

    def gap(self, w, alpha):
        return self.primal(w) - self.dual(alpha)

    def share(self, i, alpha, w):
        """Row i's part of the gap, for w the weights of alpha: cost loss(z) + loss*(-a) + a z."""
        z, a = self.Z[i] @ w, alpha[i]
        loss = self.cost[i] * LOSS_OF_MARGIN[self.loss](z - (self.target[i] - 1))
        return loss - (a * (self.target[i] - z) - self.kink * abs(a) - self.diag[i] * a**2 / 2)

    def visit(self, i, alpha, w):
        """Steps (a) to (c) of DCD Algorithm 1; returns the gradient and the gain."""
        grad = self.Z[i] @ w - self.target[i] + self.diag[i] * alpha[i]
        curvature = self.Z[i] @ self.Z[i] + self.diag[i]
        old = alpha[i]
        if self.kink:
            return self._visit_with_kink(i, alpha, w, grad, curvature)
        if projected_gradient(grad, old, self.lower[i], self.upper[i]) == 0:
            return grad, 0.0
        goal = old - grad / curvature if curvature > 0 else -np.sign(grad) * np.inf
        alpha[i] = min(max(goal, self.lower[i]), self.upper[i])
        step = alpha[i] - old
        w += step * self.Z[i]
        return grad, -(grad * step + curvature * step**2 / 2)

    def _visit_with_kink(self, i, alpha, w, grad, curvature):
        """The best of all places where a piecewise parabola can be least."""
        old = alpha[i]
        places = [0.0, self.lower[i], self.upper[i]]
        if curvature > 0:
            places += [old - (grad + kink) / curvature for kink in (-self.kink, self.kink)]

        def change(new):
            step = new - old
            return grad * step + curvature * step**2 / 2 + self.kink * (abs(new) - abs(old))

        inside = [p for p in places if self.lower[i] <= p <= self.upper[i] and np.isfinite(p)]
        alpha[i] = min(inside, key=change)
        w += (alpha[i] - old) * self.Z[i]
        if alpha[i] == old == 0:
            return self.kink - abs(grad), 0.0
        side = np.sign(alpha[i]) or np.sign(old)
        return grad + side * self.kink, -change(alpha[i])

    def shrinking_sweep(self, order, alpha, w, high, low):
        """Step 2 of DCD Algorithm 3: returns the rows that stay active, M and m."""
        active, largest, smallest = [], -np.inf, np.inf
        for i in order:
            grad = self.Z[i] @ w - self.target[i] + self.diag[i] * alpha[i]
            shrunk = (alpha[i] == self.lower[i] and grad > high) or (
                alpha[i] == self.upper[i] and grad < low
            )
            if not shrunk:
                active.append(i)
            violation = projected_gradient(grad, alpha[i], self.lower[i], self.upper[i])
            largest, smallest = max(largest, violation), min(smallest, violation)
            self.visit(i, alpha, w)
        return active, largest, smallest

    def optimum(self):
        """Return an optimal alpha: L-BFGS-B on the dual, then Newton steps on free variables."""
        Q = self.Z @ self.Z.T + np.diag(self.diag)
        if self.kink:
            return self._optimum_in_halves(Q)
        alpha = minimize(
            lambda a: (a @ Q @ a / 2 - self.target @ a, Q @ a - self.target),
            np.zeros(len(Q)),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(self.lower, self.upper, strict=True)),
            options=TO_THE_END,
        ).x
        best = alpha
        for _ in range(50):
            grad = Q @ alpha - self.target
            free = ((alpha > self.lower) | (grad < 0)) & ((alpha < self.upper) | (grad > 0))
            step = np.linalg.lstsq(Q[np.ix_(free, free)], -grad[free], rcond=1e-12)[0]
            alpha = alpha.copy()
            alpha[free] = np.clip(alpha[free] + step, self.lower[free], self.upper[free])
            if self.gap(self.weights(alpha), alpha) < self.gap(self.weights(best), best):
                best = alpha
        return best

    def _optimum_in_halves(self, Q):
        """The same with two variables a row, alpha = p - q, and kink |alpha| = kink (p + q)."""
        n = len(Q)
        linear = np.concatenate([self.kink - self.target, self.kink + self.target])

        def dual(halves):
            product = Q @ (halves[:n] - halves[n:])
            value = (halves[:n] - halves[n:]) @ product / 2 + linear @ halves
            return value, np.concatenate([product, -product]) + linear

        uppers = np.concatenate([self.upper, -self.lower])
        box = [(0.0, upper) for upper in uppers]
        halves = minimize(
            dual, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=box, options=TO_THE_END
        ).x
        best = alpha = halves[:n] - halves[n:]
        for _ in range(50):  # Newton steps on what is neither at a bound nor at the kink
            grad = Q @ alpha - self.target
            side = np.where(alpha != 0, np.sign(alpha), -np.sign(grad) * (np.abs(grad) > self.kink))
            whole = grad + side * self.kink
            free = (side != 0) & ((alpha > self.lower) | (whole < 0))
            free &= (alpha < self.upper) | (whole > 0)
            step = np.linalg.lstsq(Q[np.ix_(free, free)], -whole[free], rcond=1e-12)[0]
            alpha = alpha.copy()
            moved = np.clip(alpha[free] + step, self.lower[free], self.upper[free])
            alpha[free] = np.where(moved * side[free] > 0, moved, 0.0)
            if self.gap(self.weights(alpha), alpha) < self.gap(self.weights(best), best):
                best = alpha
        return best


class NaiveMulticlass:
    """Crammer-Singer or Weston-Watkins on dense float64, as the formulas stand."""

    def __init__(self, X, y, cost, formulation, bias=0.0, n_classes=None):
        self.Z, self.y = augment(X, bias), y
        self.k = n_classes or y.max() + 1
        self.cost = np.broadcast_to(np.asarray(cost, float), len(y))
        self.joint = formulation == "crammer_singer"

    def weights(self, beta):
        signed = -beta
        signed[np.arange(len(beta)), self.y] = beta.sum(axis=1)
        return self.Z.T @ signed

    def violations(self, W, i=slice(None)):
        scores = self.Z[i] @ W
        y = self.y[i]
        own = np.take_along_axis(scores, np.atleast_2d(y).T, axis=1)
        t = 1 - own + scores
        np.put_along_axis(t, np.atleast_2d(y).T, 0.0, axis=1)
        return t

    def losses(self, t):
        return np.maximum(t, 0).max(axis=1) if self.joint else np.maximum(t, 0).sum(axis=1)

    def primal(self, W):
        return (W**2).sum() / 2 + self.cost @ self.losses(self.violations(W))

    def dual(self, beta):
        return beta.sum() - (self.weights(beta) ** 2).sum() / 2

    def share(self, i, beta, W):
        t = self.violations(W, [i])
        return self.cost[i] * self.losses(t)[0] - beta[i] @ t[0]

    def violation(self, t, b, upper):
        """By how much a row violates its optimality conditions (SDM eqs. 6 and 18)."""
        if not self.joint:
            return max(t[b < upper].max(initial=0.0), -t[b > 0].min(initial=0.0))
        largest = t.max(initial=0.0)
        lowest = [0.0] * int(b.sum() < upper) + t[b > 0].tolist()
        return largest - min(lowest, default=0.0)

    def firmness(self, t, b, upper):
        """How far all t may move, up or down, before b is no longer optimal."""
        if not self.joint:
            steady = np.where(b == 0, -t, np.where(b == upper, t, 0.0))
        elif not b.any():
            steady = -t
        elif b.max() == upper:
            steady = np.append(t[b > 0] - t[b == 0], t[b > 0])
        else:
            return 0.0
        return max(steady.min(), 0.0)

    def gap_with_rounding(self, beta, W):
        """The gap, and what it may be off by, of dense rows."""
        n, d = self.Z.shape
        norm, reach = row_lengths(self.Z), np.sqrt(2 * (W**2).sum())
        error = d * EPS * reach * norm + 4 * EPS * (1 + reach * norm)
        t = self.violations(W)
        own, product, total = self.cost * self.losses(t), (beta * t).sum(axis=1), beta.sum(axis=1)
        share = np.maximum(own - product, 0.0)
        active = ((t > -error[:, None]) | (beta > 0)).sum(axis=1) - 1  # without the label
        wobble = self.cost * error * (np.minimum(active, 1) if self.joint else active)
        sums = (self.k + 8) * EPS
        wobble += sums * own
        excess = np.maximum((1 + sums) * total - self.cost, 0.0) * self.joint
        share += 2 * wobble + sums * share
        share += excess / np.where(excess > 0, total, 1.0) * np.abs(product)
        away = np.sqrt(2) * (excess + sums * total + n * EPS * total) @ norm
        return share.sum() + away**2 / 2

    def visit(self, i, beta, W, moving=None):
        """Solve row i's block, or that of some classes, by enumeration; update beta and W."""
        others = np.arange(self.k) != self.y[i]
        q = self.Z[i] @ self.Z[i]
        if moving is not None:
            others &= moving
        if q == 0:
            new = np.full(others.sum(), self.cost[i])
            new[1 if self.joint else others.sum() :] = 0.0
        else:
            v = self.violations(W, [i])[0] / q + beta[i] + beta[i, others].sum()
            exact = exact_crammer_singer if self.joint else exact_weston_watkins
            new = exact(v[others], self.cost[i])
        beta[i, others] = new
        W[:] = self.weights(beta)


class NaiveMultinomial:
    """Multinomial logistic regression on dense float64, as the formulas stand."""

    def __init__(self, X, y, cost, bias=0.0, n_classes=None):
        self.Z, self.y = augment(X, bias), y
        self.k = n_classes or y.max() + 1
        self.cost = np.broadcast_to(np.asarray(cost, float), len(y))
        self.places = np.arange(len(y)), y

    def probabilities(self, beta):
        """The p of dual variables, the own class included."""
        p = beta / self.cost[:, None]
        p[self.places] = np.maximum(1.0 - p.sum(axis=1), 0.0)
        return p

    def weights(self, beta):
        signed = -beta
        signed[self.places] = beta.sum(axis=1)
        return self.Z.T @ signed

    def losses(self, W):
        scores = self.Z @ W
        return logsumexp(scores, axis=1) - scores[self.places]

    def primal(self, W):
        return (W**2).sum() / 2 + self.cost @ self.losses(W)

    def dual(self, beta):
        return self.cost @ entr(self.probabilities(beta)).sum(axis=1) - (
            (self.weights(beta) ** 2).sum() / 2
        )

    def shares(self, beta, W):
        p, q = self.probabilities(beta), log_softmax(self.Z @ W, axis=1)
        return -self.cost * (entr(p) + p * q).sum(axis=1)


def exact_weston_watkins(v, upper):
    """Try all choices of entries at 0, at upper, and between; one satisfies the KKT conditions."""
    v, upper = [Fraction(x) for x in v], Fraction(upper)
    for where in product((0, 1, 2), repeat=len(v)):
        middle = [x for x, place in zip(v, where, strict=True) if place == 1]
        gamma = (upper * where.count(2) + sum(middle)) / (len(middle) + 1)
        b = [(0, x - gamma, upper)[place] for x, place in zip(v, where, strict=True)]
        fits = (
            (x <= gamma, 0 <= x - gamma <= upper, x - gamma >= upper)[place]
            for x, place in zip(v, where, strict=True)
        )
        if all(fits):
            return np.array([float(x) for x in b])
    raise AssertionError


def exact_crammer_singer(v, upper):
    """Try all choices of positive entries, with the sum below or at its limit."""
    v, upper = [Fraction(x) for x in v], Fraction(upper)
    for positive in product((False, True), repeat=len(v)):
        chosen = [x for x, p in zip(v, positive, strict=True) if p]
        levels = [(Fraction(sum(chosen)) / (len(chosen) + 1), False)]
        if chosen:
            levels.append(((sum(chosen) - upper) / len(chosen), True))
        for gamma, at_limit in levels:
            b = [x - gamma if p else Fraction(0) for x, p in zip(v, positive, strict=True)]
            signs = all(x >= gamma if p else x <= gamma for x, p in zip(v, positive, strict=True))
            multiplier = gamma - sum(b)
            if signs and sum(b) <= upper and (multiplier >= 0 if at_limit else multiplier == 0):
                return np.array([float(x) for x in b])
    raise AssertionError


def projected_gradient(grad, a, lower, upper):
    """DCD eq. (8)."""
    if a == lower:
        return min(grad, 0.0)
    if a == upper:
        return max(grad, 0.0)
    return grad


def compose(preference, rows, coin):
    """AVSF Algorithm 4: each row as often as its preference says; `coin()` is from [0, 1)."""
    order = []
    remaining = sum(preference[i] for i in rows)
    for i in rows:
        m = preference[i] * (len(rows) - len(order)) / remaining
        n = int(np.floor(m))
        if coin() < m - n:
            n += 1
        order += [i] * n
        remaining -= preference[i]
    return order


def adapt(preference, reference, order, gains, c=1 / 5, low=1 / 20, high=20.0):
    """AVSF Algorithm 5 after the first sweep: the new preferences and reference gain."""
    preference = preference.copy()
    for i, gain in zip(order, gains, strict=True):
        preference[i] = np.clip(np.exp(c * (gain / reference - 1)) * preference[i], low, high)
        reference = (1 - 1 / len(order)) * reference + gain / len(order)
    return preference, reference


LAYOUTS = {"csr": sp.csr_array, "dense": np.ascontiguousarray}


def random_data(n=40, d=7, seed=0, noise=0.5):
    """Overlapping classes in dense float64, a third of X zero, among it one row and one column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X[n // 2] = 0.0
    X[:, d // 2] = 0.0
    y = np.where(X @ rng.normal(size=d) + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def library_problem(X, y, cost, loss, bias=0.0, target=1.0):
    """The same problem as `Naive`, as the library takes it."""
    passes = passes_of(X, bias)
    cost = np.array(np.broadcast_to(np.asarray(cost, dtype=float), len(y)))
    return BinaryProblem(passes, passes.sqnorms(), y, cost, numbers(loss), target)


def row_lengths(Z):
    """The lengths of dense rows, with what squares may have lost by underflow."""
    return np.sqrt((Z**2).sum(axis=1) + Z.shape[1] * np.finfo(np.float64).tiny)


def numbers(loss):
    """The numbers of a loss, with the epsilon of this module."""
    return loss_named(loss, EPSILON)


def library_multiclass(X, oracle, bias=0.0):
    """The same problem as a `NaiveMulticlass`, as the library takes it."""
    passes = passes_of(X, bias)
    cost = oracle.cost.copy()
    return MulticlassProblem(passes, passes.sqnorms(), oracle.y, cost, oracle.joint, oracle.k)


def library_multinomial(X, oracle, bias=0.0):
    """The same problem as a `NaiveMultinomial`, as the library takes it."""
    passes, cost = passes_of(X, bias), oracle.cost.copy()
    return MultinomialProblem(passes, passes.sqnorms(), oracle.y, cost, True, oracle.k)


def passes_of(X, bias=0.0):
    return passes_over(as_rows(X, bias), Workers())


def certified(problem, alpha, members=None):
    """The library's weights, primal, gap and slacks of alpha."""
    problem = problem if members is None else replace(problem, candidates=members)
    w, slack = np.full(problem.weights_shape, np.nan), np.full(len(problem.candidates), np.nan)
    problem.fill_weights(alpha, w)
    found = certificate_of(problem, alpha, w, slack)
    return w, found.primal, found.gap, slack


def nearest_float(token, dtype):
    """The float nearest to a decimal number, by exact comparison of neighbours."""
    number = float(token)
    if dtype == np.float64 or not np.isfinite(number):
        return dtype(number)
    with np.errstate(all="ignore"):
        guess = dtype(number)
        around = [guess, *(np.nextafter(guess, dtype(end)) for end in (-np.inf, np.inf))]

    def distance(candidate):
        value = min(max(float(candidate), -(2.0**128)), 2.0**128)  # what infinity stands for
        odd = int(candidate.view(np.uint32)) % 2
        return abs(Fraction(token) - Fraction(value)), odd

    return np.copysign(min(around, key=distance), dtype(np.copysign(1.0, number)))


def parse_svmlight(content, *, one_based=False, multilabel=False):
    """Labels and entries of every row of svmlight text, values as text; ValueError if malformed."""
    rows = []
    for line in content.split(b"\n"):
        tokens = line.partition(b"#")[0].split()
        if not tokens:
            continue
        labels = []
        if not (multilabel and b":" in tokens[0]):
            first = tokens.pop(0)
            labels = [
                plain_label(label) for label in (first.split(b",") if multilabel else [first])
            ]
        if tokens and tokens[0].startswith(b"qid:"):
            tokens.pop(0)
        entries = []
        previous = 0 if one_based else -1
        for token in tokens:
            index, colon, value = token.partition(b":")
            if not (colon and re.fullmatch(rb"[0-9]{1,18}", index)) or int(index) <= previous:
                raise ValueError(token)
            plain_float(value)
            previous = int(index)
            entries.append((previous, value.decode()))
        rows.append((labels, entries))
    return rows


def plain_label(token):
    """A float; exactly the number, where float64 does not have every integer any more."""
    number = plain_float(token)
    if abs(number) >= 2**53:
        word = token.strip(b"+-").isalpha()
        if not word and (np.isinf(number) or Fraction(Decimal(token.decode())) != number):
            raise ValueError(token)
    return number


def plain_float(token):
    if b"_" in token:
        raise ValueError(token)
    return float(token)

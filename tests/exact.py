"""The certificate of a fitted model in exact rational numbers: what no rounding can refute.

Logarithms are rational to 400 digits.
"""

from decimal import Context
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

DIGITS = Context(prec=400, Emin=-(10**6), Emax=10**6)


def log_of(x):
    """The logarithm of a fraction."""
    return Fraction(DIGITS.ln(DIGITS.divide(x.numerator, x.denominator)))


def softplus(u):
    """``log(1 + exp(u))`` of a fraction."""
    size = min(abs(u), Fraction(10**4))
    small = DIGITS.exp(DIGITS.divide(-size.numerator, size.denominator))
    return max(u, 0) + (Fraction(DIGITS.ln(DIGITS.add(1, small))) if small > 1e-300 else 0)


LOSSES = {
    "logistic": lambda s: softplus(s - 1),
    "hinge": lambda s: max(s, 0),
    "squared_hinge": lambda s: max(s, 0) ** 2,
    "squared": lambda s: s**2,
}


def fractions(array):
    """Nested lists of the exact values of floats."""
    array = array.toarray() if sp.issparse(array) else np.asarray(array)
    return [fractions(row) for row in array] if array.ndim else Fraction(float(array))


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def certificates(model, X, y, sample_weight=None):
    """Primal and dual of each problem of a model, exactly; asserts that its duals are feasible.

    Costs are the floats ``C * sample_weight_i``; what is below 1e-300 counts as none.
    """
    bias = Fraction(float(model.intercept_scaling)) if model.fit_intercept else Fraction(0)
    rows = [[*row, bias] for row in fractions(X)]
    last = [b / bias if bias else Fraction(0) for b in fractions(model.intercept_)]
    if not bias:
        assert not np.any(model.intercept_)
    weights = [[*w, b] for w, b in zip(fractions(model.coef_), last, strict=True)]
    duals = fractions(model.dual_coef_)
    given = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, float)
    with np.errstate(under="ignore"):
        products = float(model.C) * given
    cost = fractions(np.where(products < 1e-300, 0.0, products))
    codes = np.searchsorted(model.classes_, y)
    if model.multi_class == "ovr":
        positives = [1] if len(model.classes_) == 2 else range(len(model.classes_))
        return [
            _binary(rows, np.where(codes == k, 1, -1).tolist(), cost, model.loss, w, signed)
            for k, w, signed in zip(positives, weights, duals, strict=True)
        ]
    joint = model.multi_class == "crammer_singer"
    if len(weights) == 1:  # of all with this difference, those of the smallest norm
        weights = [[-x / 2 for x in weights[0]], [x / 2 for x in weights[0]]]
        duals = [[-a / 2 for a in duals[0]], [a / 2 for a in duals[0]]]
    return [_multiclass(rows, codes.tolist(), cost, joint, weights, duals)]


def _binary(rows, sign, cost, loss, w, signed):
    primal, dual = dot(w, w) / 2, Fraction(0)
    total = [Fraction(0)] * len(w)
    for x, s, c, a in zip(rows, sign, cost, signed, strict=True):
        alpha = a * s
        if c == 0:
            assert alpha == 0
            continue
        if loss != "squared":
            assert alpha >= 0
        if loss in ("hinge", "logistic"):
            assert alpha <= c
        primal += c * LOSSES[loss](1 - s * dot(w, x))
        if loss == "logistic":
            dual += sum(part * log_of(c / part) for part in (alpha, c - alpha) if part)
        else:
            dual += alpha if loss == "hinge" else alpha - alpha**2 / (4 * c)
        total = [t + a * v for t, v in zip(total, x, strict=True)]
    return primal, dual - dot(total, total) / 2


def _multiclass(rows, codes, cost, joint, weights, duals):
    primal = sum(dot(w, w) for w in weights) / 2
    dual = Fraction(0)
    totals = [[Fraction(0)] * len(rows[0]) for _ in weights]
    for i, (x, own, c) in enumerate(zip(rows, codes, cost, strict=True)):
        beta = [-duals[m][i] for m in range(len(weights)) if m != own]
        if c == 0:
            assert not any(beta)
            continue
        # The sum is what the label's own variable says, but for its rounding.
        assert abs(sum(beta) - duals[own][i]) <= 1e-15 * len(beta) * abs(duals[own][i])
        assert all(b >= 0 for b in beta)
        if joint and sum(beta) > c:  # by rounding
            assert sum(beta) <= c * (1 + Fraction(1, 10**15))
            beta = [b * c / sum(beta) for b in beta]
        assert joint or max(beta) <= c
        scores = [dot(w, x) for w in weights]
        t = [1 - scores[own] + s for m, s in enumerate(scores) if m != own]
        primal += c * (max(0, *t) if joint else sum(max(v, 0) for v in t))
        dual += sum(beta)
        steps = [-b for b in beta]
        steps.insert(own, sum(beta))
        for m, step in enumerate(steps):
            totals[m] = [total + step * v for total, v in zip(totals[m], x, strict=True)]
    return primal, dual - sum(dot(total, total) for total in totals) / 2

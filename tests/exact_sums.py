"""Objectives of models in sums of three floats each: exact to 1e-40, and fast enough for long rows.

A number is ``a + b + c``, of which b is about what a rounds off and c about what b does. Products
and sums of two floats are split without error (Dekker 1971, Knuth); only c is rounded. Sums of n
numbers are off by some ``log2(n) 2^-159`` of their sizes. Entries have to be far from overflow and
underflow. `exact.certificates` says the same of small data, in fractions.
"""

from fractions import Fraction

import numpy as np

PIECE = 1 << 15  # entries at a time, which stay in the cache

SPLITTER = 2.0**27 + 1.0


def two_sum(a, b):
    """``a + b`` rounded, and what that rounds off."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _halves(a):
    big = SPLITTER * a
    high = big - (big - a)
    return high, a - high


def two_product(a, b):
    """``a * b`` rounded, and what that rounds off."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def exactly(a):
    """A number of each float."""
    a = np.asarray(a, dtype=np.float64)
    return a, np.zeros_like(a), np.zeros_like(a)


def plus(x, y):
    """The sum of two numbers."""
    a, e = two_sum(x[0], y[0])
    b, f = two_sum(x[1], y[1])
    b, g = two_sum(b, e)
    c = x[2] + y[2] + (f + g)
    a, b = two_sum(a, b)
    b, d = two_sum(b, c)
    return a, b, d


def minus(x):
    """The negative of a number."""
    return tuple(-part for part in x)


def times(x, y):
    """The product of two numbers."""
    a, b = two_product(x[0], y[0])
    p, q = two_product(x[0], y[1])
    r, s = two_product(x[1], y[0])
    rest = x[0] * y[2] + x[1] * y[1] + x[2] * y[0] + (q + s)
    return plus((a, b, rest), plus(exactly(p), exactly(r)))


def chosen(mask, x, y):
    """One number or another."""
    return tuple(np.where(mask, one, other) for one, other in zip(x, y, strict=True))


def some(x, *index):
    """A part of an array of numbers."""
    return tuple(part[index] for part in x)


def above(x, y):
    """Whether a number is above another."""
    a, b, c = plus(x, minus(y))
    return (a + (b + c)) > 0


def folded(x):
    """The sums over the last axis."""
    while x[0].shape[-1] > 1:
        n = x[0].shape[-1]
        half = n // 2
        y = plus(some(x, ..., slice(half)), some(x, ..., slice(half, 2 * half)))
        if n % 2:
            rest = some(x, ..., slice(n - 1, n))
            y = tuple(np.concatenate(pair, axis=-1) for pair in zip(y, rest, strict=True))
        x = y
    if x[0].shape[-1] == 0:
        return exactly(np.zeros(x[0].shape[:-1]))
    return some(x, ..., 0)


def total(x):
    """The sum of an array of numbers, as a fraction."""
    found = Fraction(0)
    flat = [part.ravel() for part in x]
    for start in range(0, len(flat[0]), PIECE):
        for part in folded(tuple(each[start : start + PIECE] for each in flat)):
            found += Fraction(float(part))
    return found


def products(X, w):
    """``X @ w``, w being an array of floats."""
    n, d = X.shape
    width = min(d, PIECE)
    step = max(PIECE // max(width, 1), 1)
    parts = []
    for i in range(0, n, step):
        found = exactly(np.zeros(len(X[i : i + step])))
        for j in range(0, d, PIECE):
            block = X[i : i + step, j : j + PIECE].astype(np.float64)
            high, low = two_product(block, w[j : j + PIECE])
            found = plus(found, folded((high, low, np.zeros_like(high))))
        parts.append(found)
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def weighted(X, a):
    """``a @ X``, a being an array of numbers."""
    first, second, third = (products(X.T, part) for part in a)
    return plus(plus(first, second), third)


def square(x):
    """The sum of squares, as a fraction."""
    return total(times(x, x))


def certificates(model, X, y, sample_weight=None):
    """Primal and dual of each problem of a model; asserts that its duals are feasible.

    X is dense. Weights of rows are powers of two, or 0. A free intercept needs dual variables that
    add up to 0: those of one side are made smaller.
    """
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
    used = weight > 0
    X, y, cost = X[used], np.asarray(y)[used], model.C * weight[used]
    bias = float(model.intercept_scaling) if model.fit_intercept else 0.0
    free = model.intercept == "free" and bias != 0.0
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    last = np.asarray(model.intercept_, dtype=np.float64).ravel()
    duals = model.dual_coef_
    duals = duals.toarray() if hasattr(duals, "toarray") else np.asarray(duals)
    assert not duals[:, ~used].any()
    duals = duals[:, used].astype(np.float64)
    if not hasattr(model, "classes_"):
        problem = np.ones(len(X)), y.astype(np.float64), float(model.epsilon)
        return [_one(model, X, *problem, cost, coef[0], last[0], duals[0], bias, free)]
    codes = np.searchsorted(model.classes_, y)
    if model.multi_class != "ovr":
        return [_joint(model, X, codes, cost, coef, last, duals, bias)]
    positives = [1] if len(model.classes_) == 2 else range(len(model.classes_))
    found = []
    for k, w, b, signed in zip(positives, coef, last, duals, strict=True):
        sign = np.where(codes == k, 1.0, -1.0)
        rest = cost, w, b, signed, bias, free
        found.append(_one(model, X, sign, np.ones(len(X)), 0.0, *rest))
    return found


def _size(w, b, bias, free):
    """Half the squared length of the weights that are penalised."""
    found = square(exactly(w)) / 2
    if bias and not free:
        found += (Fraction(float(b)) / Fraction(bias)) ** 2 / 2
    return found


def _one(model, X, sign, target, kink, cost, w, b, signed, bias, free):
    squared = model.loss.startswith("squared")
    a = signed * sign
    if model.loss in ("hinge", "squared_hinge"):
        assert (a >= 0).all()
    if not squared:
        assert (np.abs(a) <= cost).all()
    score = plus(products(X, w), exactly(np.full(len(X), b)))
    slack = plus(exactly(target), minus(tuple(sign * part for part in score)))
    zero = exactly(np.zeros(len(X)))
    if model.loss in ("hinge", "squared_hinge"):
        beyond = chosen(above(slack, zero), slack, zero)
    else:
        size = chosen(above(slack, zero), slack, minus(slack))
        beyond = plus(size, exactly(np.full(len(X), -kink)))
        beyond = chosen(above(beyond, zero), beyond, zero)
    losses = times(beyond, beyond) if squared else beyond
    primal = _size(w, b, bias, free) + total(times(losses, exactly(cost)))
    alpha = exactly(a)
    if free:
        excess = total(exactly(signed))
        side = signed > 0 if excess > 0 else signed < 0
        if excess:
            off = float(abs(excess) / abs(total(exactly(signed[side]))))
            assert off <= 1e-12
            alpha = chosen(
                side, plus(alpha, minus(times(alpha, exactly(np.full(len(a), off))))), alpha
            )
    dual = total(times(alpha, exactly(target)))
    if kink:
        dual -= Fraction(kink) * total(tuple(np.sign(a) * part for part in alpha))
    if squared:  # costs are C times a power of two
        weight = cost / model.C
        parts = tuple(part / weight for part in times(alpha, alpha))
        dual -= total(parts) / (4 * Fraction(float(model.C)))
    alpha = tuple(sign * part for part in alpha)
    dual -= square(weighted(X, alpha)) / 2
    if bias and not free:
        dual -= (Fraction(bias) * total(alpha)) ** 2 / 2
    return primal, dual


def _joint(model, X, codes, cost, coef, last, duals, bias):
    joint, n = model.multi_class == "crammer_singer", len(X)
    if len(coef) == 1:  # of all with this difference, those of the smallest norm
        coef, last = np.vstack([-coef / 2, coef / 2]), np.array([-last[0], last[0]]) / 2
        duals = np.vstack([-duals, duals]) / 2
    k, zero = len(coef), exactly(np.zeros(n))
    others = [np.where(codes == m, 0.0, -duals[m]) for m in range(k)]
    assert all((b >= 0).all() for b in others)
    used = zero
    for b in others:
        used = plus(used, exactly(b))
    if joint:
        over = plus(used, minus(exactly(cost)))
        off = np.where(above(over, zero), over[0] / np.where(used[0] > 0, used[0], 1.0), 0.0)
        assert (off <= 1e-14).all()
        beta = [plus(exactly(b), minus(times(exactly(b), exactly(off)))) for b in others]
    else:
        assert all((b <= cost).all() for b in others)
        beta = [exactly(b) for b in others]
    used = zero
    for b in beta:
        used = plus(used, b)
    scores = [plus(products(X, w), exactly(np.full(n, b))) for w, b in zip(coef, last, strict=True)]
    own = zero
    for m in range(k):
        own = chosen(codes == m, scores[m], own)
    lost = zero
    for m in range(k):
        t = plus(plus(scores[m], minus(own)), exactly(np.ones(n)))
        t = chosen((codes != m) & above(t, zero), t, zero)
        lost = chosen(above(t, lost), t, lost) if joint else plus(lost, t)
    primal = total(times(lost, exactly(cost)))
    primal += sum(_size(w, b, bias, False) for w, b in zip(coef, last, strict=True))
    dual = total(used)
    for m in range(k):
        step = chosen(codes == m, used, minus(beta[m]))
        dual -= square(weighted(X, step)) / 2
        if bias:
            dual -= (Fraction(bias) * total(step)) ** 2 / 2
    return primal, dual

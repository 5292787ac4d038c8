"""One sweep of dual coordinate descent for multinomial logistic regression, and its certificate.

With scores ``s = W'x_i``, the differences ``t_m = s_m - s_y`` to that of the own class y = y_i and
the probabilities ``q = softmax(s)``, a row with cost C_i loses

    C_i log(sum_m exp(t_m)) = -C_i log q_y.

Its dual point is a p with ``p_m >= 0`` and ``sum_m p_m = 1``, which is kept as the dual variables
``beta_im = C_i p_m`` of the classes m != y; ``p_y = 1 - sum_{m != y} p_m``. They are feasible where
those of Crammer-Singer are, and row i adds the same to W: ``-beta_im x_i`` to w_m and
``(sum_m beta_im) x_i`` to w_y. The dual objective is ``sum_i C_i H(p_i) - 1/2 |W|^2`` with the
entropy ``H(p) = -sum_m p_m log p_m``. The share of a row in the gap is ``C_i KL(p || q)``: the
Kullback-Leibler divergence, which is 0 where p = q (Yu, Huang and Lin 2011).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import jit, jit_inline, jit_sums, prefetch
from .._typing import Array
from ..rows.compensated import two_sum
from ..rows.functions import EPS, SMALLEST, row_prefetch, row_prefetch_head, row_rounding
from ..rows.layouts import AnyRows
from ..rows.many_classes import row_add_few, row_scores
from .binary import HEAD_AHEAD, ROW_AHEAD, TINY, total
from .certificate import add_totals, row_norm
from .multiclass import OF_VIOLATION, SQRT_2

# Errors in EPS, beside one for each class, of a loss, a probability or a share, relative to the
# sizes of its terms: exp, log1p and log are off by at most 4 ulp each, and there are a few products
# and sums.
OF_SOFTMAX = 24.0

# The entropy's term of the own class, ``y log y``, changes by at most this many times an error in
# y: that is ``-log(error)`` where y is small and the error at least 1e-15, and 1 where it is not.
OF_ENTROPY = 40.0

# A block step ends when its probabilities add up to 1 within SUM_TO_ONE, or after MOST_LEVELS
# levels: from below they grow towards the solution, at a quadratic rate in the end.
SUM_TO_ONE, MOST_LEVELS = 1e-9, 40

# A probability is solved for from a neighbour where ``log p + q p`` changes by at most this. The
# error is a seventieth of its fourth power: it vanishes as sweeps converge.
NEAR = 0.1


class MultinomialData(NamedTuple):
    """The rows of a multinomial problem; `dualsweep.kernels.multiclass` says what they are."""

    rows: AnyRows
    sqnorm: Array
    y: Array
    cost: Array
    offset: Array  # of each class, which scores have besides


@jit_inline
def softmax(t: Array, label: int, q: Array) -> float:
    """Fill q with the probabilities of scores t, where ``t[label]`` is 0; return the loss.

    The loss is ``log(sum_m exp(t_m))``, precise relative to itself where it is small.
    """
    top = label
    for m in range(t.shape[0]):
        top = m if t[m] > t[top] else top
    highest, rest = t[top], 0.0
    for m in range(t.shape[0]):
        q[m] = np.exp(t[m] - highest)
        rest += q[m] if m != top else 0.0
    scale = 1.0 / (1.0 + rest)
    for m in range(t.shape[0]):
        q[m] *= scale
    return highest + np.log1p(rest)


@jit_inline
def differences(t: Array, offset: Array, label: int) -> None:
    """Turn scores into their differences to that of the label, offsets included."""
    own = t[label] + offset[label]
    for m in range(t.shape[0]):
        t[m] = (t[m] + offset[m]) - own
    t[label] = 0.0


@jit_inline
def _improved(p: float, q: float, r: float) -> float:
    """Return a better p where ``r = v - log p - q p`` is left (Fritsch et al. 1973)."""
    w = 1.0 + q * p
    a = 2.0 * w * (w + (2.0 / 3.0) * r)
    return p * (1.0 + r / w * (a - r) / (a - 2.0 * r))


@jit_inline
def _root(v: float, log_q: float, q: float) -> float:
    """Return the p > 0 with ``log p + q p = v``, to seven digits.

    It is Lambert's W of ``q exp(v)``, over q. The guess of Winitzki is off by a hundredth at most,
    and so are the first terms of W at infinity.
    """
    z = log_q + v
    if q == 0.0 or z < -10.0:
        p = np.exp(v)
    elif z > 20.0:
        p = (z - np.log(z)) / q
    else:
        one = np.log1p(np.exp(z))
        p = one * (1.0 - np.log1p(one) / (2.0 + one)) / q
    return _improved(p, q, v - np.log(p) - q * p) if p > 0.0 else p


@jit
def block_step(t: Array, old: Array, lead: Array, q: float, level: float, p: Array) -> None:
    """Fill p with the probabilities that solve the problem of a row.

        max_p  (t + q old).p - q/2 |p|^2 - sum_m p_m log p_m,    p >= 0,  sum_m p_m = 1

    ``q = C_i |x_i|^2``, `old` are the probabilities before, and ``lead = t - log(old)``. The
    solution has ``log p_m + q p_m = t_m + q old_m - level`` for one level. The sum of the p of a
    level is a convex, decreasing function of it: Newton steps lead below the root, then up to it.
    The given level is the first guess.
    """
    k = t.shape[0]
    log_q = np.log(q) if q > 0.0 else 0.0
    least = -np.inf
    for m in range(k):
        least = max(least, t[m] + q * old[m])
    least -= q  # there the largest p is 1
    level = max(level, least)
    change = np.inf
    for _ in range(MOST_LEVELS):
        if abs(change) <= NEAR:
            for m in range(k):
                p[m] = _improved(p[m], q, -change)
        else:
            for m in range(k):
                if abs(lead[m] - level) <= NEAR:
                    p[m] = _improved(old[m], q, lead[m] - level)
                else:
                    p[m] = _root(t[m] + q * old[m] - level, log_q, q)
        total, slope = _sums_of(p, q)
        if not abs(total - 1.0) > SUM_TO_ONE:
            break
        better = max(level + (total - 1.0) / slope, least)
        change, level = better - level, better
    total, slope = _sums_of(p, q)
    for m in range(k):
        p[m] /= total


@jit_sums
def _sums_of(p: Array, q: float) -> tuple[float, float]:
    """Return ``sum p`` and minus its derivative in the level."""
    total, slope = 0.0, 0.0
    for m in range(p.shape[0]):
        total += p[m]
        slope += p[m] / (1.0 + q * p[m])
    return total, slope


@jit
def sweep_multinomial(
    data: MultinomialData,
    shrunk: bool,
    order: Array,
    beta: Array,
    W: Array,
    grads: Array,
    gains: Array,
    shares: Array,
    scratch: Array,
    classes: Array,
) -> tuple[float, float, int]:
    """Visit the rows of `order` once each: a block step on the dual variables of a row.

    As `sweep_multiclass` does; `shrunk` means nothing here, since no dual variable is at a bound.
    ``grads[r]`` is how far the row's probabilities were from those of its scores, summed up.
    """
    rows, sqnorm, y, cost, offset = data
    n, k = order.shape[0], W.shape[1]
    scores, p, old, lead = scratch[0], scratch[1], scratch[2], scratch[3]
    step, more = scratch[4], scratch[5]
    total_gain = 0.0
    for m in range(k):
        classes[m] = m
    for r in range(n):
        if r + HEAD_AHEAD < n:
            i = order[r + HEAD_AHEAD]
            row_prefetch_head(rows, i)
            prefetch(sqnorm, i)
            prefetch(y, i)
            prefetch(cost, i)
            prefetch(shares, i)
            prefetch(beta.reshape(-1), i * k)
        if r + ROW_AHEAD < n:
            row_prefetch(rows, order[r + ROW_AHEAD])

        i = order[r]
        label, upper = y[i], cost[i]
        q = sqnorm[i] * upper
        row_scores(rows, i, W, scores)
        differences(scores, offset, label)
        loss = softmax(scores, label, p)
        own = 1.0
        for m in range(k):
            old[m] = beta[i, m] / upper
            own -= old[m]
        old[label] = max(own, 0.0)
        level, apart = 0.0, 0.0
        for m in range(k):
            lead[m] = np.inf
            if old[m] > 0.0:
                lead[m] = scores[m] - np.log(old[m])
                level += old[m] * lead[m]
            apart += abs(old[m] - p[m])
        shares[i] = upper * max(loss - level, 0.0)
        block_step(scores, old, lead, q, level, p)
        moved, gain, change = False, 0.0, 0.0
        new_total = 0.0
        for m in range(k):
            new_total += p[m] if m != label else 0.0
        shrink = 1.0 / new_total if new_total > 1.0 else 1.0  # by rounding
        for m in range(k):
            if m != label:
                new = upper * (p[m] * shrink)
                step[m] = beta[i, m] - new
                moved |= step[m] != 0.0
                change -= step[m]
                beta[i, m] = new
            # the gain is C_i KL(old || new) + q/2 C_i |new - old|^2
            gain += 0.5 * q * (p[m] - old[m]) * (p[m] - old[m])
            if old[m] > 0.0 and p[m] > 0.0:
                gain += old[m] * np.log(old[m] / p[m])
        step[label] = change
        if moved:
            gains[r] = max(upper * gain, TINY)
            grads[r] = apart
            row_add_few(rows, i, classes, step, k, W, more)
        else:
            gains[r] = grads[r] = 0.0
        total_gain += gains[r]
    return total_gain, total(shares), n


@jit
def certify_rows_multinomial(
    data: MultinomialData,
    scores: Array,
    members: Array,
    beta: Array,
    length: float,
    level: float,
    firm: Array,
    totals: Array,
    q: Array,
) -> None:
    """Add to the totals of a certificate, as `certify_rows_multiclass` does.

    No dual variable is ever proven optimal: `firm` is 0. `q` is scratch.

    With x the sum of the p_m of other classes, the share of a row at cost 1 is

        sum_{m != y} p_m (log p_m + loss - t_m) + (1 - x) (log(1 - x) + loss).

    - It is convex in t with the derivatives ``q_m - p_m`` and, along changes of at most e, a second
      derivative of at most ``e^2``: the variance of numbers between -e and e. So where each t is
      off by e, it is larger by at most ``e sum_{m != y} |q_m - p_m| + e^2 / 2``. For the loss, read
      this with p = 0.
    - Its terms are rounded, which is relative to their sizes (`OF_SOFTMAX`). An argument of exp is
      off by EPS times a difference of scores, which changes the loss by at most as much, times
      ``1 - q_y`` if the own class is on top.
    - x is the rounded sum: relative to it, off by EPS for each class (`OF_ENTROPY`). Where it is
      above 1, the nearest feasible point is p scaled down.
    """
    rows, sqnorm, y, cost, offset = data
    losses, low, spread, shares, seen = 0.0, 0.0, 0.0, 0.0, 0.0
    lengths, drift = 0.0, 0.0
    k = scores.shape[1]
    sums = (k + OF_SOFTMAX) * EPS
    for r in range(members.shape[0]):
        i = members[r]
        t, label = scores[r], y[i]
        differences(t, offset, label)
        firm[r] = 0.0
        norm = row_norm(rows, i, sqnorm)
        reach = SQRT_2 * length * norm + 2.0 * level
        error = row_rounding(rows, i, 1.0, reach) + OF_VIOLATION * EPS * reach
        loss = softmax(t, label, q)
        total, share, size, others, apart = 0.0, 0.0, 0.0, 0.0, 0.0
        for m in range(k):
            if m != label:
                p = beta[i, m] / cost[i]
                total += beta[i, m]
                others += q[m]
                apart += abs(q[m] - p)
                if p > 0.0:
                    log_p = np.log(p)
                    share += p * (log_p + (loss - t[m]))
                    size += p * (abs(log_p) + loss + abs(t[m]))
        x = min(total / cost[i], 1.0)
        if x < 1.0:
            share += (1.0 - x) * (np.log1p(-x) + loss)
        size += loss + x * (OF_ENTROPY + loss + 2.0)
        excess = max((1.0 + sums) * total - cost[i], 0.0)
        if excess > 0.0:
            size *= 1.0 + excess / total / sums
        rounding = 2.0 * sums * size + 4.0 * EPS * reach * others + 4.0 * k * SMALLEST
        share = max(share, 0.0)
        wobble = (1.0 + sums) * error * (others + error)
        wobble += 2.0 * sums * loss + 4.0 * EPS * reach * others + 4.0 * k * SMALLEST
        wobble *= cost[i]
        losses, lost = two_sum(losses, cost[i] * loss + wobble)
        low += lost
        spread += wobble
        seen += cost[i] * share
        share += error * (apart + sums * (x + others) + error) + rounding
        shares += (1.0 + sums) * cost[i] * share
        lengths += SQRT_2 * total * norm
        drift += SQRT_2 * (excess + sums * total) * norm
    add_totals((losses + low, spread, shares, seen, lengths, drift, 1.0), totals)


@jit
def entropies(beta: Array, members: Array, y: Array, cost: Array, scale: float) -> float:
    """Return ``sum_i C_i H(p_i)`` of dual variables times a scale, within rounding."""
    out = 0.0
    for r in range(members.shape[0]):
        i = members[r]
        own, product = 1.0, 0.0
        for m in range(beta.shape[1]):
            p = scale * beta[i, m] / cost[i]
            if p > 0.0 and m != y[i]:
                own -= p
                product += p * np.log(p)
        if own > 0.0:
            product += own * np.log(own)
        out -= cost[i] * product
    return out


@jit
def intercept_sums(
    scores: Array, b: Array, y: Array, cost: Array, q: Array, descent: Array
) -> float:
    """Return the losses of rows with intercepts b, and fill in their probabilities q.

    Adds to `descent` how fast losses fall as each intercept grows.
    """
    losses = 0.0
    for r in range(scores.shape[0]):
        label = y[r]
        own = scores[r, label] + b[label]
        t = q[r]
        top = label
        for m in range(b.shape[0]):
            t[m] = (scores[r, m] + b[m]) - own if m != label else 0.0
            top = m if t[m] > t[top] else top
        highest, rest = t[top], 0.0
        for m in range(b.shape[0]):
            t[m] = np.exp(t[m] - highest)
            rest += t[m] if m != top else 0.0
        losses += cost[r] * (highest + np.log1p(rest))
        for m in range(b.shape[0]):
            t[m] /= 1.0 + rest
            descent[m] -= cost[r] * t[m]
        descent[label] += cost[r]
    return losses


@jit
def class_sums(beta: Array, members: Array, y: Array, high: Array, low: Array) -> float:
    """Fill in the sums of the signed dual variables of each class, and what these round off.

    Returns the sum of the sizes of all summands.
    """
    size = 0.0
    for r in range(members.shape[0]):
        i = members[r]
        label = y[i]
        for m in range(high.shape[0]):
            b = beta[i, m]
            if b != 0.0:
                high[m], lost = two_sum(high[m], -b)
                low[m] += lost
                high[label], lost = two_sum(high[label], b)
                low[label] += lost
                size += 2.0 * b
    return size

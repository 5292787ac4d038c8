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
from .elementary import quick_exp, quick_log
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

UNUSED = 1e300  # in place of the lead of a probability that is 0


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

    The loss is ``log(sum_m exp(t_m))``. Both are precise to some units in the last place, but of
    the scores: certificates use `softmax_within_bounds`.
    """
    highest = _highest(t)
    for m in range(t.shape[0]):
        q[m] = quick_exp(t[m] - highest)
    return _normalise(highest, label, q)


@jit_inline
def softmax_within_bounds(t: Array, label: int, q: Array) -> float:
    """Do the same by the C library's exp."""
    highest = _highest(t)
    for m in range(t.shape[0]):
        q[m] = np.exp(t[m] - highest)
    return _normalise(highest, label, q)


@jit_sums
def _highest(t: Array) -> float:
    """Return the largest score."""
    highest = t[0]
    for m in range(1, t.shape[0]):
        highest = max(highest, t[m])
    return highest


@jit_sums
def _sum(values: Array) -> float:
    total = 0.0
    for m in range(values.shape[0]):
        total += values[m]
    return total


@jit_inline
def _normalise(highest: float, label: int, q: Array) -> float:
    """Divide probabilities by their sum; return the loss, precise where it is small too."""
    own = q[label]
    q[label] = 0.0
    others = _sum(q)
    q[label] = own
    total = own + others
    for m in range(q.shape[0]):
        q[m] /= total
    return highest + np.log(total) if highest > 0.0 else np.log1p(others)


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

    It is Lambert's W of ``q exp(v)``, over q: about exp(v) where that is small, else the guess of
    Winitzki, which is off by a hundredth at most.
    """
    z = log_q + v
    one = quick_log(1.0 + quick_exp(min(z, 700.0))) + max(z - 700.0, 0.0)
    more = quick_log(1.0 + one)
    guess = one * (1.0 - more / (2.0 + one)) / q
    p = max(quick_exp(v) if z < -10.0 else guess, SMALLEST)
    return _improved(p, q, v - quick_log(p) - q * p)


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
    q = max(q, SMALLEST)
    log_q = np.log(q)
    least = _most(t, old, q) - q  # there the largest p is 1
    level = max(level, least)
    change = np.inf
    for _ in range(MOST_LEVELS):
        if abs(change) <= NEAR:
            for m in range(k):
                p[m] = _improved(p[m], q, -change)
        else:
            far = 0
            for m in range(k):
                r = lead[m] - level
                near = abs(r) <= NEAR
                far += 0 if near else 1
                p[m] = _improved(old[m], q, r if near else 0.0)
            if far > 0:
                for m in range(k):
                    near = abs(lead[m] - level) <= NEAR
                    root = _root(t[m] + q * old[m] - level, log_q, q)
                    p[m] = p[m] if near else root
        total, slope = _sums_of(p, q)
        if not abs(total - 1.0) > SUM_TO_ONE:
            break
        better = max(level + (total - 1.0) / slope, least)
        change, level = better - level, better
    total, slope = _sums_of(p, q)
    for m in range(k):
        p[m] /= total


@jit_sums
def _most(t: Array, old: Array, q: float) -> float:
    """Return the largest ``t + q old``."""
    most = t[0] + q * old[0]
    for m in range(1, t.shape[0]):
        most = max(most, t[m] + q * old[m])
    return most


@jit_sums
def _sums_of(p: Array, q: float) -> tuple[float, float]:
    """Return ``sum p`` and minus its derivative in the level."""
    total, slope = 0.0, 0.0
    for m in range(p.shape[0]):
        total += p[m]
        slope += p[m] / (1.0 + q * p[m])
    return total, slope


@jit_sums
def _compare(lead: Array, old: Array, q: Array) -> tuple[float, float]:
    """Return ``old.lead``, and how far `old` is from the probabilities q, summed up."""
    level, apart = 0.0, 0.0
    for m in range(old.shape[0]):
        level += old[m] * lead[m]
        apart += abs(old[m] - q[m])
    return level, apart


@jit_sums
def _gain(step: Array, old: Array, p: Array, q: float) -> tuple[bool, float, float]:
    """Return whether a row moves, the change of the sum, and what the dual gains at cost 1.

    That is ``KL(old || p) + q/2 |p - old|^2``, as p is the maximum.
    """
    moved, change, gain = False, 0.0, 0.0
    for m in range(old.shape[0]):
        moved |= step[m] != 0.0
        change -= step[m]
        d = p[m] - old[m]
        gain += 0.5 * q * d * d + old[m] * quick_log(max(old[m], SMALLEST) / max(p[m], SMALLEST))
    return moved, change, gain


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
        for m in range(k):
            old[m] = beta[i, m] / upper
        old[label] = max(1.0 - _sum(old), 0.0)
        for m in range(k):
            used = old[m] > 0.0
            lead[m] = scores[m] - quick_log(old[m] if used else SMALLEST)
            lead[m] = lead[m] if used else UNUSED
        level, apart = _compare(lead, old, p)
        shares[i] = upper * max(loss - level, 0.0)
        block_step(scores, old, lead, q, level, p)
        own = p[label]
        p[label] = 0.0
        new_total = _sum(p)
        shrink = min(1.0 / new_total, 1.0)  # the sum may be above 1 by rounding
        for m in range(k):
            new = upper * (p[m] * shrink)
            step[m] = beta[i, m] - new
            beta[i, m] = new
        p[label] = own
        moved, change, gain = _gain(step, old, p, q)
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
        loss = softmax_within_bounds(t, label, q)
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
        for m in range(b.shape[0]):
            t[m] = (scores[r, m] + b[m]) - own
        t[label] = 0.0
        losses += cost[r] * softmax(t, label, t)
        for m in range(b.shape[0]):
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

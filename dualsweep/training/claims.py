"""What a proof claims of a model: bounds on both objectives that hold in exact arithmetic.

A proof takes weights and dual variables as they are, wherever they come from, and nothing from a
certificate. Slacks and weighted sums of rows are computed in twice the precision of floats, and
everything else is rounded outwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import frexp, fsum
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import _tuning
from .._typing import Array, Given, Matrix, Sparse
from ..kernels.products import PRODUCT_ERROR, add_responses, add_weighted_rows
from ..losses import LOSSES, REGRESSION_LOSSES, Box, Logistic, Loss
from ..losses.logistic import OF_LOSS
from ..rows.blocks import Blocks, in_blocks
from ..rows.functions import SMALLEST
from .formulations import clipped, unsigned

# Twice `PRODUCT_ERROR`: the other half is for the few operations on its results.
ERROR = 2.0 * PRODUCT_ERROR

# Sums of the dual variables of a row that are this near to its cost are compared exactly.
NEARLY = 1.0 - 1e-9


class Vectors(NamedTuple):
    """Weights of a problem, a row for each vector, and their intercepts."""

    coef: Array
    intercept: Array


class Duals(NamedTuple):
    """The dual variables of a problem that are not 0, by row and then by vector."""

    rows: Array
    columns: Array  # numbers of the vectors
    values: Array


@dataclass(frozen=True)
class Claim:
    """A problem, and the model and the dual point that bound its optimum."""

    X: Matrix | Blocks
    y: Array  # the sign of each row; if all classes are trained at once, the number of its class
    target: Array | None  # of regression
    cost: Array
    loss: Box | Logistic
    joint: str | None  # crammer_singer or weston_watkins
    bias: float  # 0 if there is no penalised intercept
    vectors: Vectors
    duals: Duals


def digest(X: Matrix | Blocks, labels: Array) -> str:
    """Return the SHA-256 of rows and labels, as docs/proofs.md describes it."""
    found = sha256(np.array(X.shape, "<i8").tobytes())
    record = np.dtype([("number", "<i8"), ("value", "<f8")])
    for start, piece in _pieces(X, 1):
        n = piece.shape[0]
        out = np.empty(n + piece.nnz, record)
        heads = piece.indptr[:-1] + np.arange(n)
        entries = np.ones(len(out), bool)
        entries[heads] = False
        out["number"][heads] = np.diff(piece.indptr)
        out["value"][heads] = labels[start : start + n] + 0.0  # no -0
        out["number"][entries], out["value"][entries] = piece.indices, piece.data
        found.update(out.tobytes())
    return found.hexdigest()


def provable(loss: Loss) -> Box | Logistic:
    """Return a loss that proofs can state; ValueError if it is another."""
    stated = [*LOSSES.values(), *REGRESSION_LOSSES.values()]
    if isinstance(loss, Box) and loss._replace(kink=0.0) in stated:
        return loss
    if isinstance(loss, Logistic):
        return loss
    raise ValueError(
        f"A proof states the hinge, squared, logistic and epsilon-insensitive losses, not {loss}. "
        "certify without proof takes all losses."
    )


def binary_duals(alpha: Array, sign: Array, cost: Array, loss: Loss, free: bool) -> Array:
    """Return feasible dual variables near others, of a problem of one vector.

    With a free intercept ``sum_i sign_i a_i`` is exactly 0: dual variables become multiples of a
    power of two, and the largest ones on the side that has more make up for the difference.
    """
    feasible = clipped(alpha, cost, loss)
    if not (free and feasible.any()):
        return feasible
    unit = max(frexp(np.abs(feasible).max())[1] - 53, -1074)
    numbers = np.trunc(np.ldexp(feasible, -unit)).astype(np.int64)
    signed = numbers * sign.astype(np.int64)
    excess = sum(signed.tolist())
    side = np.flatnonzero(signed > 0 if excess > 0 else signed < 0)
    for i in side[np.argsort(-np.abs(numbers[side]), kind="stable")].tolist():
        part = min(abs(excess), abs(int(numbers[i])))
        if part == 0:
            break
        numbers[i] -= part if numbers[i] > 0 else -part
        excess -= part if excess > 0 else -part
    return np.ldexp(numbers.astype(np.float64), unit)


def joint_duals(signed: Sparse, codes: Array, cost: Array, joint: str) -> Duals:
    """Return feasible dual variables near signed ones of a model, all classes at once."""
    rows, columns, values = unsigned(signed, codes)
    values = np.minimum(values, cost[rows])
    kept = np.flatnonzero(values > 0)
    kept = kept[np.lexsort((columns[kept], rows[kept]))]
    rows, columns, values = rows[kept], columns[kept], values[kept]
    if joint == "crammer_singer":
        total = np.bincount(rows, values, minlength=len(cost))
        with np.errstate(invalid="ignore", divide="ignore"):
            values *= np.where(total > cost, cost / total, 1.0)[rows]
        starts = np.searchsorted(rows, np.arange(len(cost) + 1))
        near = (total > NEARLY * cost) & (np.diff(starts) > 1)
        for i in np.flatnonzero(near).tolist():
            part = slice(starts[i], starts[i + 1])
            values[part] = _within(values[part].tolist(), float(cost[i]))
    return Duals(rows.astype(np.int64), columns.astype(np.int64), values)


def _within(values: list[float], cost: float) -> list[float]:
    """Return values that add up to at most `cost` exactly: the largest is made smaller."""
    while (excess := fsum([*values, -cost])) > 0.0:
        largest = values.index(max(values))
        values[largest] = max(float(np.nextafter(values[largest] - excess, 0.0)), 0.0)
    return values


def bounds_of(claim: Claim) -> tuple[float, float]:
    """Return an upper bound on the objective, and a lower bound on the dual objective."""
    try:
        with np.errstate(all="ignore"):
            losses, sums = _scan(claim)
            primal = _half_square(np.abs(claim.vectors.coef)) + _sum_rounded_up(losses)
            dual = _linear_terms(claim) - _half_square(sums)
            if claim.bias:
                squares = sum(Fraction(b) ** 2 for b in claim.vectors.intercept.tolist())
                primal += squares / (2 * Fraction(claim.bias) ** 2)
                sums = np.nextafter(np.abs(_sums_of_duals(claim)), np.inf)
                dual -= Fraction(claim.bias) ** 2 * _half_square(sums)
        return _rounded(primal, np.inf), _rounded(dual, -np.inf)
    except (OverflowError, ValueError) as error:  # of fsum and Fraction: infinity or NaN
        raise ValueError(
            "The objectives are beyond what float64 can hold, so there is nothing to prove. Scale "
            "the features, or use smaller C and sample_weight."
        ) from error


def _scan(claim: Claim) -> tuple[list[float], Array]:
    """Return upper bounds on the losses of rows, and on the sizes of their weighted sums."""
    n_features, k = claim.X.shape[1], len(claim.vectors.coef)
    w, (dual_rows, columns, values) = np.ascontiguousarray(claim.vectors.coef.T), claim.duals
    if claim.joint is None:
        values = values * claim.y[dual_rows]
    sums = np.zeros((3, n_features, k))
    losses: list[float] = []
    for start, piece in _pieces(claim.X, k):
        rows = slice(start, start + piece.shape[0])
        arrays = piece.data, piece.indices.astype(np.int64), piece.indptr.astype(np.int64)
        scores = np.zeros((3, piece.shape[0], k))
        scores[0] = claim.vectors.intercept
        add_responses(*arrays, w, scores)
        cost = claim.cost[rows]
        if claim.joint is None:
            share = _single_losses(claim, rows, scores[:, :, 0])
            own = np.full(len(cost), -1)
        else:
            own = claim.y[rows]
            share = _joint_losses(claim.joint, own, scores)
        used = cost > 0
        losses += np.nextafter(cost[used] * share[used], np.inf).tolist()
        starts = np.searchsorted(dual_rows, np.arange(start, rows.stop + 1))
        add_weighted_rows(*arrays, starts, columns, values, own, sums)
    return losses, np.abs(sums[0] + sums[1]) * (1.0 + ERROR) + ERROR * sums[2]


def _single_losses(claim: Claim, rows: slice, scores: Array) -> Array:
    """Return upper bounds on the losses of rows at cost 1, for one vector of weights."""
    sign, loss = claim.y[rows], claim.loss
    target = np.ones(len(sign)) if claim.target is None else claim.target[rows]
    slack, rest = _two_sum(target, -sign * scores[0])
    rest -= sign * scores[1]
    slack += rest
    error = ERROR * (scores[2] + np.abs(rest) + np.abs(slack))
    if isinstance(loss, Logistic):
        u = np.nextafter(np.nextafter(slack + error, np.inf) - 1.0, np.inf)
        return (1.0 + OF_LOSS) * np.logaddexp(0.0, u) + SMALLEST
    size = slack if loss.lower == 0.0 else np.abs(slack)
    size = np.nextafter(np.nextafter(size + error, np.inf) - loss.kink, np.inf)
    size = np.maximum(size, 0.0)
    return np.nextafter(size * size, np.inf) if loss.diag else size


def _joint_losses(joint: str, own: Array, scores: Array) -> Array:
    """Return upper bounds on the losses of rows at cost 1, for all classes at once."""
    places = np.arange(len(own)), own
    high, low, error = scores
    t, rest = _two_sum(high, -high[places][:, None])
    t, more = _two_sum(t, 1.0)
    parts = [rest, more, low, -low[places][:, None]]
    rest = sum(parts)
    t = t + rest
    sizes = sum(map(np.abs, parts)) + np.abs(t)
    t += 2.0 * ERROR * (sizes + error + error[places][:, None])
    t = np.maximum(np.nextafter(t, np.inf), 0.0)
    t[places] = 0.0
    if joint == "crammer_singer":
        return t.max(axis=1)
    return t.sum(axis=1) * (1.0 + ERROR * t.shape[1])


def _linear_terms(claim: Claim) -> Fraction:
    """Return a lower bound on the terms of the dual objective that need no rows."""
    rows, _, a = claim.duals
    loss, total = claim.loss, Fraction(0)
    if isinstance(loss, Logistic):
        return -_sum_rounded_up((-_entropies(a, claim.cost[rows])).tolist())
    if claim.target is None:
        total += Fraction(float(np.nextafter(fsum(a.tolist()), -np.inf)))
    else:
        sums, n = np.zeros((3, 1, 1)), len(a)
        add_responses(claim.target[rows], np.arange(n), np.array([0, n]), a[:, None], sums)
        high, low, error = map(Fraction, sums[:, 0, 0].tolist())
        total += high + low - Fraction(PRODUCT_ERROR) * error
        total -= Fraction(loss.kink) * _sum_rounded_up(np.abs(a).tolist())
    if loss.diag and claim.joint is None:
        quotients = np.nextafter(np.nextafter(a * a, np.inf) / claim.cost[rows], np.inf)
        total -= _sum_rounded_up(quotients.tolist()) * Fraction(loss.diag) / 2
    return total


def _entropies(a: Array, cost: Array) -> Array:
    """Return lower bounds on the entropies of dual variables, times their costs.

    The summands are not negative. They are of the smaller of a and ``cost - a``, which is exact.
    """
    small = np.minimum(a, cost - a)
    p = small / cost
    part = np.log1p(-p)
    found = -small * np.log(np.where(p > 0.0, p, 1.0)) - (cost - small) * part
    return np.maximum((1.0 - 2.0 * OF_LOSS) * found - SMALLEST * (1.0 + cost), 0.0)


def _sums_of_duals(claim: Claim) -> list[float]:
    """Return the sum of the signed dual variables of each vector, to the nearest float64."""
    rows, columns, values = claim.duals
    own = claim.y[rows]
    if claim.joint is None:
        return [fsum((values * own).tolist())]
    return [
        fsum([*(-values[columns == m]).tolist(), *values[own == m].tolist()])
        for m in range(len(claim.vectors.coef))
    ]


def _half_square(sizes: Array) -> Fraction:
    """Return an upper bound on half the sum of squares."""
    return _sum_rounded_up(np.nextafter(sizes * sizes, np.inf)[sizes != 0.0].tolist()) / 2


def _sum_rounded_up(numbers: list[float]) -> Fraction:
    """Return an upper bound on the sum of numbers, which is 0 if there are none."""
    return Fraction(float(np.nextafter(fsum(numbers), np.inf))) if numbers else Fraction(0)


def _rounded(value: Fraction, towards: float) -> float:
    nearest = float(value)
    past = nearest < value if towards > 0 else nearest > value
    rounded = float(np.nextafter(nearest, towards)) if past else nearest
    if not np.isfinite(rounded):
        raise OverflowError
    return rounded


def _two_sum(a: Array, b: Array | float) -> tuple[Array, Array]:
    """Return the sum, and by how much it is rounded."""
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)


def _pieces(X: Given, width: int) -> Iterator[tuple[int, sp.csr_array]]:
    """Yield some rows after the other in float64, without zeros, and the number of the first.

    Entries that are there twice are summed up as training sums them up.
    """
    if in_blocks(X):
        for b in range(len(X.block_bytes)):
            for start, piece in _pieces(X.read(b)[0], width):
                yield int(X.starts[b]) + start, piece
        return
    n, start = X.shape[0], 0
    most = max(_tuning.PROOF_PIECE // width, 1)
    indptr = X.indptr.astype(np.int64) if sp.issparse(X) else np.arange(n + 1) * X.shape[1]
    while start < n:
        stop = int(np.searchsorted(indptr, indptr[start] + _tuning.PROOF_PIECE, "right")) - 1
        stop = min(max(stop, start + 1), start + most, n)
        piece = sp.csr_array(X[start:stop], copy=True)
        piece.sum_duplicates()
        piece.eliminate_zeros()
        yield start, piece.astype(np.float64)
        start = stop

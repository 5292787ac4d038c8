"""Responses and weighted sums of rows in compensated arithmetic.

The rounding errors of products and sums are added up too (Ogita, Rump and Oishi 2005, Dot2), as if
in twice the precision. A pass takes two to four times as long. It is for certificates that plain
sums are too rough for.
"""

from __future__ import annotations

from math import frexp

import numpy as np

from .._jit import fused, implements, jit, jit_inline
from .._typing import Array
from .functions import EPS, SMALLEST, row_count, row_entry, row_rounding, row_slack
from .layouts import CompensatedRows, Rows
from .many_classes import row_scores


def compensated_rows(rows: Rows, W: Array) -> CompensatedRows:
    """Return rows whose responses to W, of one class or several, are summed with care."""
    exact = scales_exactly(rows.bias)
    return CompensatedRows(rows, 0.0 if exact else 2.0 * EPS * intercept_size(rows, W))


def intercept_size(rows: Rows, W: Array) -> float:
    """Return the size of the intercept, of the largest one of several classes."""
    last = W[-1]
    return float(np.max(np.abs(rows.bias * last))) if W.ndim > 1 else abs(rows.bias * float(last))


def scales_exactly(factor: float) -> bool:
    """Tell whether products with a number are not rounded: it is 0 or a power of two."""
    return frexp(factor)[0] in (0.0, 0.5)


@jit_inline
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return ``a + b`` rounded, and what that rounded off."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


@jit_inline
def _plus_product(total: float, low: float, a: float, b: float) -> tuple[float, float]:
    """Add ``a * b`` to the unevaluated sum ``total + low``."""
    product = a * b
    total, lost = two_sum(total, product)
    return total, low + (lost + fused(a, b, -product))


@jit_inline
def _plus_response(rows: Rows, i: int, w: Array, total: float) -> float:
    """Return ``total + X[i] @ w``, the bias included."""
    low = 0.0
    for e in range(row_count(rows, i)):
        value, place = row_entry(rows, i, e)
        total, low = _plus_product(total, low, value, w[place])
    return total + low


@implements(row_count, CompensatedRows)
def _count(rows: CompensatedRows, i: int) -> int:
    return row_count(rows.rows, i)


@implements(row_slack, CompensatedRows)
def _slack(rows: CompensatedRows, i: int, w: Array, goal: float, y: float) -> float:
    # Products with y are exact.
    return -y * _plus_response(rows.rows, i, w, -y * goal)


@implements(row_rounding, CompensatedRows)
def _rounding(rows: CompensatedRows, i: int, goal: float, reach: float) -> float:
    if reach == 0.0:
        return 0.0
    n = row_count(rows.rows, i)
    return (n * EPS) ** 2 * (reach + abs(goal)) + n * SMALLEST + rows.intercept_error


@implements(row_scores, CompensatedRows)
def _scores(rows: CompensatedRows, i: int, W: Array, out: Array) -> None:
    for m in range(out.shape[0]):
        out[m] = _plus_response(rows.rows, i, W[:, m], 0.0)


@jit
def add_compensated(rows: Rows, members: Array, coef: Array, W: Array, low: Array) -> None:
    """Add ``sum_t coef[t, m] x_t`` to the unevaluated sums ``W[:, m] + low[:, m]``."""
    for t in range(members.shape[0]):
        i = members[t]
        for m in range(coef.shape[1]):
            c = coef[t, m]
            if c != 0.0:
                for e in range(row_count(rows, i)):
                    value, place = row_entry(rows, i, e)
                    W[place, m], low[place, m] = _plus_product(W[place, m], low[place, m], value, c)

"""Sums of products in twice the precision of floats, with bounds on their errors.

A sum is ``high + low``. It is off the exact one by at most ``PRODUCT_ERROR * error``, for all data:
each addition is exact but for the rounding of what goes into `low`, whose sizes `error` adds up
(two-product and two-sum: Ogita, Rump and Oishi, 2005, Accurate sum and dot product). Numbers that
overflow give NaN.
"""

from __future__ import annotations

from typing import Any

from .._jit import fused, jit, jit_inline
from ..rows.compensated import two_sum

# Twice the unit roundoff: the other half is for the rounding of `error` itself.
PRODUCT_ERROR = 2.0**-52

# Products below this may lose more than they should, by underflow: at most 8 * 2^-1074 each.
SMALL, UNDERFLOW = 1e-270, 2.0**-1019


@jit_inline
def _add_product(x: float, f: float, i: int, k: int, high: Any, low: Any, error: Any) -> None:
    """Add ``x f`` to the sum in place (i, k)."""
    product = x * f
    high[i, k], rest = two_sum(high[i, k], product)
    rest += fused(x, f, -product)
    low[i, k] += rest
    error[i, k] += abs(rest) + abs(low[i, k])
    if abs(product) < SMALL:
        error[i, k] += UNDERFLOW


@jit
def add_responses(
    data: Any, indices: Any, indptr: Any, w: Any, high: Any, low: Any, error: Any
) -> None:
    """Add the responses of rows to weights: ``sums += X @ w``, a column for each vector of w."""
    for i in range(indptr.shape[0] - 1):
        for j in range(indptr[i], indptr[i + 1]):
            for k in range(w.shape[1]):
                f = w[indices[j], k]
                if f != 0.0:
                    _add_product(data[j], f, i, k, high, low, error)


@jit
def add_weighted_rows(
    data: Any,
    indices: Any,
    indptr: Any,
    starts: Any,
    columns: Any,
    values: Any,
    own: Any,
    high: Any,
    low: Any,
    error: Any,
) -> None:
    """Add multiples of rows: for each value of row i, minus that times the row to its column.

    And plus that to the column ``own[i]``, unless that is negative. The values of row i are those
    from ``starts[i]`` to ``starts[i + 1]``.
    """
    for i in range(indptr.shape[0] - 1):
        for r in range(starts[i], starts[i + 1]):
            for j in range(indptr[i], indptr[i + 1]):
                _add_product(data[j], -values[r], indices[j], columns[r], high, low, error)
                if own[i] >= 0:
                    _add_product(data[j], values[r], indices[j], own[i], high, low, error)

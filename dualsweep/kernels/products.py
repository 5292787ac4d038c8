"""Sums of products in twice the precision of floats, with bounds on their errors.

``high, low, error = sums``: the exact sum is ``high + low``, off by at most ``PRODUCT_ERROR *
error``, for all data. Each addition is exact but for the rounding of what goes into `low`, whose
sizes `error` adds up (two-product and two-sum: Ogita, Rump and Oishi, 2005, Accurate sum and dot
product). Numbers that overflow give NaN.
"""

from __future__ import annotations

from .._jit import fused, jit, jit_inline
from .._typing import Array
from ..rows.compensated import two_sum

# Twice the unit roundoff: the other half is for the rounding of `error` itself.
PRODUCT_ERROR = 2.0**-52

# Products below this may lose more than they should, by underflow: at most 8 * 2^-1074 each.
SMALL, UNDERFLOW = 1e-270, 2.0**-1019


@jit_inline
def _add_product(x: float, f: float, i: int, k: int, sums: Array) -> None:
    """Add ``x f`` to the sum in place (i, k)."""
    product = x * f
    sums[0, i, k], rest = two_sum(sums[0, i, k], product)
    rest += fused(x, f, -product)
    sums[1, i, k] += rest
    sums[2, i, k] += abs(rest) + abs(sums[1, i, k])
    if abs(product) < SMALL:
        sums[2, i, k] += UNDERFLOW


@jit
def add_responses(data: Array, indices: Array, indptr: Array, w: Array, sums: Array) -> None:
    """Add the responses of rows to weights: ``sums += X @ w``, a column for each vector of w."""
    for i in range(indptr.shape[0] - 1):
        for j in range(indptr[i], indptr[i + 1]):
            for k in range(w.shape[1]):
                f = w[indices[j], k]
                if f != 0.0:
                    _add_product(data[j], f, i, k, sums)


@jit
def add_weighted_rows(
    data: Array,
    indices: Array,
    indptr: Array,
    starts: Array,
    columns: Array,
    values: Array,
    own: Array,
    sums: Array,
) -> None:
    """Add multiples of rows: minus each value of row i, times the row, to the value's column.

    And plus that to the column ``own[i]``, unless that is negative. The values of row i are those
    from ``starts[i]`` to ``starts[i + 1]``.
    """
    for i in range(indptr.shape[0] - 1):
        for r in range(starts[i], starts[i + 1]):
            for j in range(indptr[i], indptr[i + 1]):
                _add_product(data[j], -values[r], indices[j], columns[r], sums)
                if own[i] >= 0:
                    _add_product(data[j], values[r], indices[j], own[i], sums)

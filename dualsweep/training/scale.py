"""The C that is 1 for rows of unit length and targets of unit spread, whatever the data's units."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array
from ..losses import REGRESSION_LOSSES
from .settings import Settings

# Columns are in different units if the mean squared length of a row is more than SAME_UNITS times
# what it would be if all entries were of typical size. It is 1 to 2.9 times that on sixteen sets of
# text, images and scaled tables, 1,600 times on the wine data and 100,000 times on the breast
# cancer data: for them the best C is nearly 10^9 if rows are scaled to unit length.
SAME_UNITS = 8.0

# Rows of float32 that are normalised have unit length but for NORMALISED: their values of C stay
# round numbers. Beyond LEAST and MOST, costs times norms might be no numbers.
NORMALISED, LEAST, MOST = 1e-5, 1e-250, 1e100


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def unit_cost(data: Any, y: Array, settings: Settings) -> float:
    """Return the cost that all values of C are relative to, 1 if nothing can be said.

    A visit changes the response of row i by up to ``C |x_i|^2``, which is 1 on average at this C:
    scaling all rows by s divides it by s^2, and changes no model. Where columns are in different
    units, a few of them make up the length of a row; then the length of a row of typical entries
    counts. If the slope of the loss does not depend on the residual, the response has to reach the
    spread of the targets, around their mean if there is an intercept. The constant feature does
    not count.
    """
    weight = np.ones(len(y)) if data.weight is None else data.weight / data.weight.max()
    unit = 1.0 / _squared_length(data, weight)
    if abs(unit - 1.0) <= NORMALISED:
        unit = 1.0
    if settings.loss in REGRESSION_LOSSES and not REGRESSION_LOSSES[settings.loss].smooth:
        unit *= _spread(np.asarray(y, np.float64), weight, settings.fit_intercept)
    return float(np.clip(unit, LEAST, MOST)) if 0.0 < unit < np.inf else 1.0


def _spread(target: Array, weight: Array, around_mean: bool) -> float:
    """Return the standard deviation, or root mean square; 1 if it is 0."""
    target = np.where(weight > 0.0, target, 0.0)
    largest = np.abs(target).max(initial=0.0)  # its square may be too large
    target = target / largest
    centre = around_mean * np.average(target, weights=weight)
    spread = largest * float(np.sqrt(np.average((target - centre) ** 2, weights=weight)))
    return spread if spread > 0.0 else 1.0


def _squared_length(data: Any, weight: Array) -> float:
    """Return the mean squared length of a row, or of one with typical entries; 1 if it is 0."""
    squares, counts = sum(data.column_sums(weight))
    filled = squares > 0.0
    squares, counts = squares[filled], counts[filled]
    length = squares.sum() / weight.sum()
    entry = np.exp(counts @ np.log(squares / counts) / counts.sum())
    typical = entry * counts.sum() / weight.sum()
    found = float(typical if length > SAME_UNITS * typical else length)
    return found if 0.0 < found < np.inf else 1.0

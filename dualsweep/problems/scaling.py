"""The multiple of a dual point that is best for other costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.scaling import AT_BOUND, multiple_within


def best_multiple(total: float, curvature: float, room: Any) -> float:
    """Return the s >= 0 at which ``s total - s^2/2 curvature`` is largest; 0 if that is undefined.

    `room` are the multiples at which dual variables reach their bounds: s is at most the smallest.
    """
    return float(multiple_within(total, curvature, float(np.min(room, initial=np.inf))))


def snapped(values: Any, upper: Any) -> Any:
    """Put what is at its upper bound but for rounding there, so that visits leave it alone."""
    return np.where(values >= AT_BOUND * upper, upper, values)

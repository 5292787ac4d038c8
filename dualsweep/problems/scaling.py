"""The multiple of a dual point that is best for other costs."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["best_multiple", "snapped"]

# A dual variable this close to its bound, relative to it, is there but for rounding.
AT_BOUND = 1.0 - 4 * float(np.finfo(np.float64).eps)


def best_multiple(total: float, curvature: float, room: Any) -> float:
    """Return the s >= 0 at which ``s total - s^2/2 curvature`` is largest; 0 if that is undefined.

    `room` are the multiples at which dual variables reach their bounds: s is at most the smallest.
    """
    s = max(total / curvature, 0.0) if curvature > 0.0 else 0.0
    return min(s if np.isfinite(s) else 0.0, float(np.min(room, initial=np.inf)))


def snapped(values: Any, upper: Any) -> Any:
    """Put what is at its upper bound but for rounding there, so that visits leave it alone."""
    return np.where(values >= AT_BOUND * upper, upper, values)

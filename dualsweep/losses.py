"""Binary losses as numbers.

Row i with cost ``C_i`` and margin ``z_i = y_i w.x_i`` loses

    C_i * loss(z_i) = max over lower <= a <= upper_i of  a (1 - z_i) - D_i a^2 / 2

with ``upper_i = C_i * upper`` and ``D_i = diag / C_i``. The maximiser is the dual variable, so the
three numbers of a loss are all that sweeps and certificates need.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LOSSES", "Loss"]

INF = float("inf")


class Loss(NamedTuple):
    """The box ``[lower, C_i * upper]`` of a dual variable and its diagonal ``diag / C_i``."""

    lower: float
    upper: float
    diag: float


LOSSES: dict[str, Loss] = {
    "hinge": Loss(lower=0.0, upper=1.0, diag=0.0),  # max(0, 1 - z)
    "squared_hinge": Loss(lower=0.0, upper=INF, diag=0.5),  # max(0, 1 - z)^2
    "squared": Loss(lower=-INF, upper=INF, diag=0.5),  # (1 - z)^2
}

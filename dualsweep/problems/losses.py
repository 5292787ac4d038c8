"""Binary losses as numbers; see `dualsweep.kernels.loss` for what they mean."""

from __future__ import annotations

from ..kernels.loss import Loss

__all__ = ["LOSSES"]

INF = float("inf")

LOSSES: dict[str, Loss] = {
    "hinge": Loss(lower=0.0, upper=1.0, diag=0.0),  # max(0, 1 - z)
    "squared_hinge": Loss(lower=0.0, upper=INF, diag=0.5),  # max(0, 1 - z)^2
    "squared": Loss(lower=-INF, upper=INF, diag=0.5),  # (1 - z)^2
}

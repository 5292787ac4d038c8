"""What is known of a solution, on the way and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array, DualPoint

HISTORY_DTYPE = np.dtype(
    [
        ("problem", np.int64),  # which of several problems: the class in one-versus-rest, else 0
        ("time", np.float64),  # seconds since the solver started
        ("epoch", np.int64),  # sweeps and Newton steps done
        ("primal", np.float64),
        ("dual", np.float64),
        ("gap", np.float64),
        ("active", np.int64),  # rows whose dual variables are not yet proven optimal
    ]
)

# What is known after every epoch.
ESTIMATES_DTYPE = np.dtype(
    [(name, HISTORY_DTYPE[name]) for name in ("problem", "time", "epoch")]
    + [("relative_gap", np.float64)]
)


class Known(NamedTuple):
    """What is known of a dual point, within rounding, without reading X."""

    w: Array
    primal: float
    gap: float


class Progress(NamedTuple):
    """The state of a run after a sweep or Newton step."""

    epoch: int
    relative_gap: float  # an estimate between certificates
    active: int  # rows whose dual variables are not yet proven optimal
    w: Any  # the current weights, not to be changed
    time: float = 0.0  # seconds since the solver started


@dataclass
class Result:
    """A dual point, its weights, and how good they are.

    `primal` is an upper bound on the exact P(w), `dual` a lower bound on D(alpha), and `gap` an
    upper bound on P(w) - D(alpha). The optimum is between `dual` and `primal`.
    """

    w: Array
    alpha: DualPoint
    slack: Array | None  # what the certificate saw of each candidate; None if not kept
    primal: float
    dual: float
    gap: float
    relative_gap: float  # relative to a lower bound on P(w)
    converged: bool
    n_iter: int  # sweeps and Newton steps
    n_newton: int  # Newton steps among them
    history: Array

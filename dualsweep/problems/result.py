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

# What is known after every epoch; problem, time and epoch are as above.
ESTIMATES_DTYPE = np.dtype(
    [
        ("problem", np.int64),
        ("time", np.float64),
        ("epoch", np.int64),
        ("relative_gap", np.float64),
    ]
)


class Known(NamedTuple):
    """What is known of a dual point, but for rounding, without reading X."""

    w: Array
    primal: float
    gap: float


class Progress(NamedTuple):
    """What a run can tell after each sweep or Newton step."""

    epoch: int
    relative_gap: float  # an estimate between certificates
    active: int  # rows whose dual variables are not yet proven optimal
    w: Any  # the weights as they are: look, do not touch
    time: float = 0.0  # seconds since the solver started


@dataclass
class Result:
    """A dual point, its weights, and how good they are.

    The exact ``P(w) - D(alpha)`` of this very `w` and `alpha` is at most `gap`, that of `w` at most
    `primal`, and that of `alpha` at least `dual`; so is the optimum.
    """

    w: Array
    alpha: DualPoint
    slack: Array | None  # what the certificate saw of each row with a cost; None if it is not kept
    primal: float
    dual: float
    gap: float
    relative_gap: float  # in parts of the least that P(w) may be
    converged: bool
    n_iter: int  # sweeps and Newton steps
    n_newton: int  # Newton steps among them
    history: Array

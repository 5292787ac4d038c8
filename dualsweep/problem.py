"""What the solver is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .losses import Loss
from .rows import Rows

__all__ = ["HISTORY_DTYPE", "Problem", "Progress", "Result"]

HISTORY_DTYPE = np.dtype(
    [
        ("problem", np.int64),  # which binary problem: the class in one-versus-rest, else 0
        ("time", np.float64),  # seconds since the solver started
        ("epoch", np.int64),  # sweeps done
        ("primal", np.float64),
        ("dual", np.float64),
        ("gap", np.float64),
        ("active", np.int64),  # rows whose dual variable is not yet proven optimal
    ]
)


class Problem(NamedTuple):
    """A binary problem; see `dualsweep.losses` for the primal and the dual it stands for.

    Rows with cost 0 are not part of the problem.
    """

    rows: Rows
    sqnorm: Any  # squared norms of the rows, the bias included
    y: Any  # -1.0 or +1.0
    cost: Any  # C_i = C * sample weight * class weight
    loss: Loss

    @property
    def n_weights(self) -> int:
        """Length of w: the features and the bias."""
        return self.rows.n_features + 1


class Progress(NamedTuple):
    """What a run can tell after each sweep."""

    epoch: int
    relative_gap: float  # an estimate between certificates
    active: int  # rows whose dual variable is not yet proven optimal
    w: Any  # the weights as the sweeps keep them: look, do not touch


@dataclass
class Result:
    """A dual point, its weights, and how good they are.

    ``primal - dual = gap >= 0`` holds for this very `w`, which was recomputed from `alpha`.
    """

    w: Any
    alpha: Any
    primal: float
    gap: float
    converged: bool
    n_iter: int
    history: Any

    @property
    def dual(self) -> float:
        """Dual objective, a proven lower bound on the optimum."""
        return self.primal - self.gap

    @property
    def relative_gap(self) -> float:
        """Gap relative to the primal objective."""
        return self.gap / self.primal if self.primal > 0 else 0.0

"""What all problems share whose rows are not in memory: on disk, or on the workers of a cluster."""

from __future__ import annotations

from .._typing import Array, DualPoint


class RemoteProblem:
    """Rows that are elsewhere, of which a certificate keeps nothing."""

    in_place = False
    takes_momentum = False

    def __init__(self, n_rows: int, weights_shape: tuple[int, ...], primal_at_zero: float) -> None:
        self.n_rows, self.candidates = n_rows, range(n_rows)
        self.weights_shape, self.primal_at_zero = weights_shape, primal_at_zero

    @property
    def outdated(self) -> bool:
        """Whether rows were lost since weights were last summed."""
        return False

    def check_rows(self) -> None:
        """Do nothing: rows are checked whenever they are read or taken over."""

    def slack_at_zero(self) -> None:
        """Return None: slacks are not kept."""

    def best_scale(self, alpha: DualPoint, slack: None, w: Array) -> float:
        """Return 1: it takes slacks to know better."""
        return 1.0

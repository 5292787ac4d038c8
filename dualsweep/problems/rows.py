"""What all problems do with their rows."""

from __future__ import annotations

import numpy as np

from ..rows.passes import Passes


def check_unchanged(passes: Passes) -> None:
    """Raise ValueError if rows that were finite when training began are not any more."""
    if not np.isfinite(passes.sqnorms()).all():
        raise ValueError(
            "X has NaN, infinity or a squared norm beyond float64 that it did not have "
            "when training began. It must not change meanwhile: train on a copy."
        )

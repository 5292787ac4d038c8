"""Prediction without scikit-learn, whose import takes a second, and block by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..solvers.blocks import Blocks

__all__ = ["block_scores", "predicted", "scores_of"]


def scores_of(X: Any, coef: Any, intercept: Any) -> Any:
    """Return ``X @ coef.T + intercept``, a column for each row of coefficients."""
    scores = X @ coef.T
    scores += intercept
    return scores


def block_scores(blocks: Blocks, coef: Any, intercept: Any) -> Any:
    """Return the scores of the rows of all blocks, of which one is in memory at a time."""
    if blocks.shape[1] != coef.shape[1]:
        raise ValueError(
            f"The store has {blocks.shape[1]} features, but the model was trained on "
            f"{coef.shape[1]}."
        )
    scores = np.empty((blocks.shape[0], len(coef)))
    for b in range(len(blocks.block_bytes)):
        rows = slice(int(blocks.starts[b]), int(blocks.starts[b + 1]))
        scores[rows] = scores_of(blocks.read(b)[0], coef, intercept)
    return scores


def predicted(scores: Any, classes: Any) -> Any:
    """Return the classes that scores stand for."""
    if scores.shape[1] == 1:
        return classes[(scores[:, 0] > 0).astype(np.intp)]
    return classes[scores.argmax(axis=1)]

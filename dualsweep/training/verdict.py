"""What to say of a model that has not converged."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.certificate import relative


def shortfall(model: Any) -> str:
    """Say how far a fitted model is from `tol`, and what that proves; how many classes are."""
    gap = model.relative_gap_
    relation = "<=" if model.converged_ else ">"
    text = f"relative duality gap {gap:.1e} {relation} tol {model.tol:.1e}"
    text += f" after {model.n_iter_} epoch{'s' * (model.n_iter_ != 1)}"
    last = model.history_[np.flatnonzero(np.diff(model.history_["problem"], append=-1))]
    if len(last) > 1:
        text += f": {_classes(last, model.tol)}"
    if gap < 0.9:
        percent = 100 * gap / (1 - gap)
        above = (
            f"at most {percent:.2g} % above" if percent < 99 else f"at most {percent:.0f} % above"
        )
        if len(last) > 1:
            return f"{text}; each objective is {above} its optimum"
        return f"{text}; the objective is {above} the optimum"
    return text if len(last) > 1 else f"{text}; the objective may be far above the optimum"


def _classes(last: Any, tol: float) -> str:
    """Say how many classes are at which gap, going by the last certificate of each."""
    gaps = np.array([*map(relative, last["gap"].tolist(), last["primal"].tolist())])
    done, begun = gaps <= tol, last["dual"] != 0.0
    parts = [f"of {len(last)} classes {done.sum()} are at tol"]
    short = gaps[~done & begun]
    if len(short):
        gaps_left = dict.fromkeys(f"{gap:.1e}" for gap in (short.min(), short.max()))
        parts.append(f"{len(short)} at {' to '.join(gaps_left)}")
    idle = int((~done & ~begun).sum())
    if idle:
        parts.append(f"{idle} were not begun and score by how frequent they are")
    return ", ".join(parts)

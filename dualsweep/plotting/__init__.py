"""Pictures of fitted models; they need matplotlib, ``pip install "dualsweep[plot]"``."""

from .convergence import ConvergenceDisplay
from .path import PathDisplay

__all__ = ["ConvergenceDisplay", "PathDisplay"]

"""Pictures of fitted models; they need matplotlib, ``pip install "dualsweep[plot]"``."""

from .comparison import ComparisonDisplay
from .convergence import ConvergenceDisplay
from .path import PathDisplay

__all__ = ["ComparisonDisplay", "ConvergenceDisplay", "PathDisplay"]

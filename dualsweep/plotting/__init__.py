"""Pictures of fitted models; they need matplotlib, ``pip install "dualsweep[plot]"``."""

from .convergence import ConvergenceDisplay

__all__ = ["ConvergenceDisplay"]

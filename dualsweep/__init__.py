"""Large-scale linear support vector machines, trained in the dual, with a certificate."""

from .estimators import LinearSVC

__all__ = ["LinearSVC", "__version__"]

__version__ = "0.1.0"

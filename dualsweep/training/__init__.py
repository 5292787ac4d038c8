"""From data to a fitted model, without scikit-learn, whose import takes a second."""

from .svc import PlainSVC

__all__ = ["PlainSVC"]

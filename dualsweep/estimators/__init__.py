"""Estimators with scikit-learn's interface."""

from .svc import LinearSVC

__all__ = ["LinearSVC"]

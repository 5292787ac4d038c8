"""Estimators with scikit-learn's interface."""

from .path import SVCPath, svc_path
from .svc import LinearSVC

__all__ = ["LinearSVC", "SVCPath", "svc_path"]

"""Estimators with scikit-learn's interface."""

from .cv import LinearSVCCV
from .path import SVCPath, svc_path
from .svc import LinearSVC

__all__ = ["LinearSVC", "LinearSVCCV", "SVCPath", "svc_path"]

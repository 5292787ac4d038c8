"""Estimators with scikit-learn's interface."""

from .compare import MulticlassComparison, compare_multiclass
from .cv import LinearSVCCV
from .path import SVCPath, svc_path
from .svc import LinearSVC

__all__ = [
    "LinearSVC",
    "LinearSVCCV",
    "MulticlassComparison",
    "SVCPath",
    "compare_multiclass",
    "svc_path",
]

"""Estimators with scikit-learn's interface."""

from ._certificate import certify
from ._proof import Certificate
from .compare import MulticlassComparison, compare_multiclass
from .cv import LinearSVCCV
from .path import SVCPath, svc_path, svr_path
from .svc import LinearSVC
from .svr import LinearSVR
from .svr_cv import LinearSVRCV

__all__ = [
    "Certificate",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "LinearSVRCV",
    "MulticlassComparison",
    "SVCPath",
    "certify",
    "compare_multiclass",
    "svc_path",
    "svr_path",
]

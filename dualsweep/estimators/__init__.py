"""Estimators with scikit-learn's interface."""

from ._certificate import Certificate, certify
from .compare import MulticlassComparison, compare_multiclass
from .cv import LinearSVCCV
from .path import SVCPath, svc_path
from .svc import LinearSVC
from .svr import LinearSVR

__all__ = [
    "Certificate",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "MulticlassComparison",
    "SVCPath",
    "certify",
    "compare_multiclass",
    "svc_path",
]

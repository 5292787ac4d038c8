"""Estimators with scikit-learn's interface."""

from ._certificate import certify
from ._proof import Certificate
from .compare import MulticlassComparison, compare_multiclass
from .cv import LinearSVCCV
from .logistic import LogisticRegression
from .logistic_cv import LogisticRegressionCV
from .path import SVCPath, logistic_path, svc_path, svr_path
from .svc import LinearSVC
from .svr import LinearSVR
from .svr_cv import LinearSVRCV

__all__ = [
    "Certificate",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "LinearSVRCV",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MulticlassComparison",
    "SVCPath",
    "certify",
    "compare_multiclass",
    "logistic_path",
    "svc_path",
    "svr_path",
]

"""Large-scale linear support vector machines, trained in the dual, with a certificate."""

from .estimators import LinearSVC, LinearSVCCV, certify, compare_multiclass, svc_path

__all__ = ["LinearSVC", "LinearSVCCV", "__version__", "certify", "compare_multiclass", "svc_path"]

__version__ = "0.1.0"

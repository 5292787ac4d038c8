"""Large-scale linear support vector machines, trained in the dual, with a certificate."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing takes longer to import than all that the command needs before Ctrl-C

if TYPE_CHECKING:
    from typing import Any

    from .estimators import (
        LinearSVC,
        LinearSVCCV,
        LinearSVR,
        LinearSVRCV,
        LogisticRegression,
        LogisticRegressionCV,
        certify,
        compare_multiclass,
        logistic_path,
        svc_path,
        svr_path,
    )

__all__ = [
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "LinearSVRCV",
    "LogisticRegression",
    "LogisticRegressionCV",
    "__version__",
    "certify",
    "compare_multiclass",
    "logistic_path",
    "svc_path",
    "svr_path",
]

__version__ = "0.1.0"

_MODULES = ("datasets", "estimators", "io", "plotting")


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: scikit-learn alone takes a second."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in __all__:
        return getattr(import_module(".estimators", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])

"""Large-scale linear support vector machines, trained in the dual, with a certificate."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .estimators import LinearSVC, LinearSVCCV, certify, compare_multiclass, svc_path

__all__ = ["LinearSVC", "LinearSVCCV", "__version__", "certify", "compare_multiclass", "svc_path"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first used: scikit-learn takes a second to import."""
    if name in __all__:
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Where matplotlib comes from."""

from __future__ import annotations

from typing import Any

__all__ = ["pyplot"]


def pyplot(display: str) -> Any:
    """Return `matplotlib.pyplot`; say how to get it if it is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{display}.plot needs matplotlib, which is not installed. Get it with "
            'pip install "dualsweep[plot]".'
        ) from error
    return plt

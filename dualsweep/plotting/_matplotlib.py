"""Where matplotlib comes from, and what lines look like."""

from __future__ import annotations

from typing import Any

SLIDE = (8.0, 4.5)  # inches: half a slide, on which the usual sizes of letters can be read

# Lines that are told apart without colours.
LINES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P")


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


def style_of(ax: Any) -> dict[str, Any]:
    """Return the style of the next curve on some axes: a line and a mark of its own."""
    n = sum(line.get_marker() != "None" for line in ax.lines)  # not those across all of the axes
    return {
        "linestyle": LINES[n % len(LINES)],
        "marker": MARKS[n % len(MARKS)],
        "linewidth": 2.0,
        "markersize": 7.0,
    }

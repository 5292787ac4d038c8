"""What all displays need of matplotlib."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

SLIDE = (8.0, 4.5)  # inches: half a slide, on which the usual sizes of letters can be read

# Lines that are told apart without colours.
LINES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P")


def new_axes(display: str, n_panels: int = 1, size: tuple[float, float] = SLIDE) -> Any:
    """Return the axes of a new figure; say how to get matplotlib if it is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{display}.plot needs matplotlib, which is not installed. Get it with "
            'pip install "dualsweep[plot]".'
        ) from error
    return plt.subplots(n_panels, sharex=True, figsize=size, layout="constrained")[1]


def check_drawable(estimator: Any, attribute: str, display: str, drawn: str) -> None:
    """Raise an error unless an estimator is fitted and has what a display draws."""
    check_is_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute}; {display} draws fitted {drawn}. Of a "
            "pipeline, pass the last step: pipeline[-1]."
        )


def style_of(ax: Any) -> dict[str, Any]:
    """Return the style of the next curve on some axes: a line and a mark of its own."""
    n = sum(line.get_marker() != "None" for line in ax.lines)  # not those across all of the axes
    return {
        "linestyle": LINES[n % len(LINES)],
        "marker": MARKS[n % len(MARKS)],
        "linewidth": 2.0,
        "markersize": 7.0,
    }

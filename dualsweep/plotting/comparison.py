"""Which formulation suits some data."""

from __future__ import annotations

from typing import Any

from ..estimators import MulticlassComparison
from ._matplotlib import new_axes

NAMES = {
    "ovr": "one versus rest",
    "crammer_singer": "Crammer-Singer",
    "weston_watkins": "Weston-Watkins",
}
BRACKET = 0.1  # distance of brackets, as a part of the height of what they are above


class ComparisonDisplay:
    """Test accuracies of several formulations, and whether they differ.

    A thin line is one split of the rows, on which all formulations are trained and tested. Large
    marks are means, with the standard deviation. Brackets show the p-values of pairs of
    formulations, ticks the values of C that were chosen.

    Parameters
    ----------
    comparison : MulticlassComparison
        What `~dualsweep.compare_multiclass` returned.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure with the axes.
    lines_ : list of matplotlib Line2D
        Accuracies in percent, a line for each partition.
    means_ : matplotlib ErrorbarContainer
        Means and standard deviations.
    p_values_ : list of matplotlib Annotation
        In the order of `MulticlassComparison.p_values`.
    """

    def __init__(self, comparison: MulticlassComparison) -> None:
        self.comparison = comparison

    def plot(self, ax: Any = None) -> ComparisonDisplay:
        """Draw the accuracies, and return the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        """
        ax = new_axes("ComparisonDisplay") if ax is None else ax
        found, places = self.comparison, range(len(self.comparison.methods))
        accuracy = 100 * found.accuracy
        self.lines_ = ax.plot(places, accuracy.T, color="0.75", linewidth=1.0, marker=".")
        self.lines_[0].set_label("a partition of the rows")
        self.means_ = ax.errorbar(
            places,
            100 * found.mean,
            100 * found.deviation,
            fmt="o",
            color="black",
            markersize=9,
            linewidth=2.0,
            capsize=7,
            zorder=3,
            label="mean ± standard deviation",
        )
        self.p_values_ = self._draw_brackets(ax, float(accuracy.min()), float(accuracy.max()))
        names = [NAMES.get(name, name) for name in found.methods]
        ax.set_xticks(places, [f"{names[m]}\n{found.chosen(m)}" for m in places])
        ax.margins(x=0.15)
        ax.set(
            ylabel="Test accuracy (%)",
            title=f"Do the methods differ? {len(accuracy)} partitions can show "
            f"p = {found.least_p_value:.2g} at best",
        )
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_brackets(self, ax: Any, low: float, high: float) -> list[Any]:
        """Connect each pair of methods above the curves, and write its p-value."""
        methods, drawn = self.comparison.methods, []
        step = BRACKET * max(high - low, 0.01)
        for number, (pair, p_value) in enumerate(self.comparison.p_values.items()):
            left, right = (methods.index(method) for method in pair)
            height = high + (1 + 2 * number) * step
            foot = height - 0.3 * step
            ax.plot([left, left, right, right], [foot, height, height, foot], color="0.3")
            text, middle = f"p = {p_value:.2g}", (0.5 * (left + right), height)
            drawn.append(
                ax.annotate(text, middle, xytext=(0, 5), textcoords="offset points", ha="center")
            )
        ax.set_ylim(top=high + (2 + 2 * len(drawn)) * step)
        return drawn

"""How the duality gap came down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from .._typing import Array
from ._matplotlib import check_drawable, new_axes, style_of

ROUNDING = 1e-16  # relative gaps below are rounding errors, which get no room

# What to draw against, its label, and the label of the band of all classes.
AXES = {
    "epoch": ("Epochs (sweeps and Newton steps)", "all classes"),
    "time": ("Training time (s)", "all classes, each with its own clock"),
}

Curve: TypeAlias = tuple[Array, Array, list[bool]]  # epochs or times, gaps, which are certified


class ConvergenceDisplay:
    """Relative duality gap against epochs or training time.

    The curve shows the gap after every sweep and Newton step. Marks are certificates, the rest are
    estimates. With one-versus-rest it is the curve of the worst class: the last to reach `tol` or,
    if some do not, the one with the largest gap. A band spans all classes.

    Make one by `from_estimator` or, for several fits, by `from_estimators`; `plot` draws it again
    on other axes. Several fits on the same axes differ by colour, line and mark.

    Parameters
    ----------
    history : ndarray with named fields
        The `history_` of a fitted estimator.
    estimates : ndarray with named fields, default=None
        The `estimates_` of a fitted estimator; None draws the certificates alone.
    tol : float, default=None
        Relative gap that was asked for, drawn as a dashed line.
    name : str, default=None
        Name of the fit in the legend.
    x : {"epoch", "time"}, default="epoch"
        What to draw the gap against. Seconds suit fits by different methods, whose epochs take
        different times; classes have a clock each.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure with the axes.
    line_ : matplotlib Line2D
        The gap after each epoch, of the worst class if there are several. Marks are certificates.
    band_ : matplotlib PolyCollection or None
        From the smallest gap of all classes, or as low as the curve goes, to the largest.
    tol_line_ : matplotlib Line2D or None
        The dashed line at `tol`.
    """

    def __init__(
        self,
        history: Any,
        *,
        estimates: Any = None,
        tol: float | None = None,
        name: str | None = None,
        x: str = "epoch",
    ) -> None:
        if x not in AXES:
            raise ValueError(f"x must be {' or '.join(map(repr, AXES))}, but is {x!r}.")
        self.history = history
        self.estimates = estimates
        self.tol = tol
        self.name = name
        self.x = x

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        ax: Any = None,
        name: str | None = None,
        x: str = "epoch",
        **kwargs: Any,
    ) -> ConvergenceDisplay:
        """Draw how a fit converged, and return the display.

        Parameters
        ----------
        estimator : LinearSVC
            A fitted estimator; of a pipeline, pass the last step.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        name : str, default=None
            Name of the fit in the legend; the name of the estimator's class if None.
        x : {"epoch", "time"}, default="epoch"
            What to draw the gap against.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.
        """
        check_drawable(estimator, "history_", "ConvergenceDisplay", "estimators of dualsweep")
        return cls(
            estimator.history_,
            estimates=getattr(estimator, "estimates_", None),  # a model from a file has none
            tol=estimator.tol,
            name=type(estimator).__name__ if name is None else name,
            x=x,
        ).plot(ax, **kwargs)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Any], *, ax: Any = None, x: str = "epoch", **kwargs: Any
    ) -> list[ConvergenceDisplay]:
        """Draw how several fits converged on the same axes; return their displays.

        Parameters
        ----------
        estimators : dict of str to LinearSVC
            Fitted estimators by name.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        x : {"epoch", "time"}, default="epoch"
            What to draw the gaps against.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curves.
        """
        if not isinstance(estimators, Mapping):
            raise TypeError(
                f"from_estimators takes a dict of names and fitted estimators, but got a "
                f"{type(estimators).__name__}. For one estimator, use from_estimator."
            )
        ax = new_axes(cls.__name__) if ax is None and estimators else ax
        return [
            cls.from_estimator(estimator, ax=ax, name=name, x=x, **kwargs)
            for name, estimator in estimators.items()
        ]

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw the curve, and return the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        name : str, default=None
            Name of the fit in the legend, instead of the display's own.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.
        """
        ax = new_axes("ConvergenceDisplay") if ax is None else ax
        name = self.name if name is None else name
        problems = np.unique(self.history["problem"])
        curves = [self._curve(problem) for problem in problems]
        enough = 0.0 if self.tol is None else self.tol
        at, gap, certified = max(curves, key=lambda c: (max(c[1][-1], enough), c[0][-1]))

        if len(problems) > 1:
            worst = f"worst of {len(problems)} classes"
            name = worst if name is None else f"{name}, {worst}"
        style = {**style_of(ax), "label": name, "markevery": certified, **kwargs}
        [self.line_] = ax.plot(at, gap, **style)
        xlabel, band = AXES[self.x]
        self.band_ = self._draw_band(ax, curves, band) if len(problems) > 1 else None
        self.tol_line_ = None if self.tol is None else _tol_line(ax, self.tol)

        title = "Gap after each epoch; marks are certificates"
        ax.set(xlabel=xlabel, ylabel="Relative duality gap", title=title, yscale="log")
        ax.grid(color="0.9")
        if ax.get_ylim()[0] < ROUNDING:  # still autoscaled when more is drawn
            ax.set_ylim(bottom=ROUNDING, auto=None)
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_band(self, ax: Any, curves: list[Curve], label: str) -> Any:
        """Fill the space between the smallest and the largest gap of all classes."""
        every = np.unique(np.concatenate([at for at, _, _ in curves]))
        known = [
            gap[np.maximum(np.searchsorted(at, every, side="right") - 1, 0)]  # the latest
            for at, gap, _ in curves
        ]
        low, high = np.min(known, axis=0), np.max(known, axis=0)
        low = np.maximum(low, self.line_.get_ydata().min())  # what lies deeper gets no room
        colour = self.line_.get_color()
        return ax.fill_between(every, low, high, step="post", color=colour, alpha=0.15, label=label)

    def _curve(self, problem: int) -> Curve:
        """Return the curve of one problem."""
        history = self.history[self.history["problem"] == problem]
        known = {
            entry["epoch"]: (entry[self.x], entry["gap"] / entry["primal"], True)
            for entry in history
        }
        if self.estimates is not None:
            for entry in self.estimates[self.estimates["problem"] == problem]:
                # An estimate above 1 says no more than 1: nothing is known.
                estimate = (entry[self.x], min(entry["relative_gap"], 1.0), False)
                known.setdefault(entry["epoch"], estimate)
        at, gap, certified = zip(*[known[epoch] for epoch in sorted(known)], strict=True)
        return np.array(at), np.array(gap), list(certified)


def _tol_line(ax: Any, tol: float) -> Any:
    """Return the dashed line at `tol`; fits with the same one share it."""
    label = f"tol = {tol:g}"
    for line in ax.lines:
        if line.get_label() == label:
            return line
    return ax.axhline(tol, color="0.3", linestyle="--", linewidth=1.5, label=label)

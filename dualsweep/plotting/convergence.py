"""How the duality gap came down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._matplotlib import SLIDE, pyplot, style_of

# Gaps below this part of the objective are rounding errors and not worth the room.
ROUNDING = 1e-16

# What there is to draw against, its label, and that of the band of all classes.
AXES = {
    "epoch": ("Epochs (sweeps and Newton steps)", "all classes"),
    "time": ("Training time (s)", "all classes, each with its own clock"),
}


class ConvergenceDisplay:
    """Relative duality gap against epochs or training time.

    The curve shows what is known after every sweep and Newton step: an estimate between
    certificates, which are marked. Of one-versus-rest, the curve is that of the worst class: the
    last to reach `tol` or, if some do not, the one with the largest gap. A band spans all classes.

    Use `from_estimator` or, for several fits, `from_estimators` to make one; `plot` again with
    another `ax` to draw it elsewhere. Several fits on one `ax` differ by colour, line and mark.

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

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualsweep import LinearSVC
    >>> from dualsweep.plotting import ConvergenceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC(random_state=0).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(model)  # doctest: +SKIP
    >>> display.figure_.savefig("convergence.png")  # doctest: +SKIP
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
        """Draw how a fit converged.

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

        Returns
        -------
        ConvergenceDisplay
            What was drawn.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "history_"):
            raise TypeError(
                f"{type(estimator).__name__} has no history_; ConvergenceDisplay draws fitted "
                "estimators of dualsweep. Of a pipeline, pass the last step: pipeline[-1]."
            )
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
        """Draw how several fits converged on the same axes.

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

        Returns
        -------
        list of ConvergenceDisplay
            What was drawn, fit by fit.
        """
        if not isinstance(estimators, Mapping):
            raise TypeError(
                f"from_estimators takes a dict of names and fitted estimators, but got a "
                f"{type(estimators).__name__}. For one estimator, use from_estimator."
            )
        displays: list[ConvergenceDisplay] = []
        for name, estimator in estimators.items():
            displays.append(cls.from_estimator(estimator, ax=ax, name=name, x=x, **kwargs))
            ax = displays[0].ax_
        return displays

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        name : str, default=None
            Name of the fit in the legend, instead of the display's own.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        ConvergenceDisplay
            The display itself.
        """
        plt = pyplot("ConvergenceDisplay")
        if ax is None:
            _, ax = plt.subplots(figsize=SLIDE, layout="constrained")
        name = self.name if name is None else name
        problems = np.unique(self.history["problem"])
        curves = [self._curve(problem) for problem in problems]
        enough = 0.0 if self.tol is None else self.tol
        at, gap, certified = max(curves, key=lambda c: (max(c[1][-1], enough), c[0][-1]))

        label = name
        if len(problems) > 1:
            worst = f"worst of {len(problems)} classes"
            label = worst if name is None else f"{name}, {worst}"
        style = {**style_of(ax), "label": label, "markevery": certified, **kwargs}
        [self.line_] = ax.plot(at, gap, **style)
        label, band = AXES[self.x]
        self.band_ = None
        if len(problems) > 1:
            every = np.unique(np.concatenate([curve[0] for curve in curves]))
            known = [gaps[_latest(moments, every)] for moments, gaps, _ in curves]
            low, high = np.min(known, axis=0), np.max(known, axis=0)
            low = np.maximum(low, gap.min())  # what lies deeper is not worth the room
            colour = self.line_.get_color()
            self.band_ = ax.fill_between(
                every, low, high, step="post", color=colour, alpha=0.15, label=band
            )
        self.tol_line_ = None if self.tol is None else _tol_line(ax, self.tol)

        ax.set(
            xlabel=label,
            ylabel="Relative duality gap",
            title="Gap after each epoch; marks are certificates",
            yscale="log",
        )
        ax.grid(color="0.9")
        if ax.get_ylim()[0] < ROUNDING:  # still autoscaled when more is drawn
            ax.set_ylim(bottom=ROUNDING, auto=None)
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _curve(self, problem: int) -> tuple[Any, Any, list[bool]]:
        """Return epochs or times, gaps and which of them are certified, of one problem."""
        history = self.history[self.history["problem"] == problem]
        known = {
            entry["epoch"]: (entry[self.x], entry["gap"] / entry["primal"], True)
            for entry in history
        }
        if self.estimates is not None:
            for entry in self.estimates[self.estimates["problem"] == problem]:
                # More than 1 says no more than 1: that nothing is known.
                estimate = (entry[self.x], min(entry["relative_gap"], 1.0), False)
                known.setdefault(entry["epoch"], estimate)
        at, gap, certified = zip(*[known[epoch] for epoch in sorted(known)], strict=True)
        return np.array(at), np.array(gap), list(certified)


def _latest(known: Any, at: Any) -> Any:
    """Return the number of the latest entry at each moment, or of the first where there is none."""
    return np.maximum(np.searchsorted(known, at, side="right") - 1, 0)


def _tol_line(ax: Any, tol: float) -> Any:
    """Return the dashed line at `tol`; fits with the same one share it."""
    label = f"tol = {tol:g}"
    for line in ax.lines:
        if line.get_label() == label:
            return line
    return ax.axhline(tol, color="0.3", linestyle="--", linewidth=1.5, label=label)

"""How the duality gap came down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._matplotlib import SLIDE, pyplot, style_of

__all__ = ["ConvergenceDisplay"]

# Gaps below this part of the objective are rounding errors and not worth the room.
ROUNDING = 1e-16

CLASSES = "all classes, each with its own clock"


class ConvergenceDisplay:
    """Relative duality gap against training time.

    The curve shows what is known after every sweep and Newton step: an estimate between
    certificates, which are marked. Of one-versus-rest, the curve is that of the class with the
    largest gap at the end, which is the model's `relative_gap_`; a band spans all classes, each
    with its own clock.

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

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure with the axes.
    line_ : matplotlib Line2D
        The gap after each epoch, of the class with the largest gap at the end if there are several.
        Its marks are certificates.
    band_ : matplotlib PolyCollection or None
        From the smallest to the largest gap of all classes, if there are several.
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
    ) -> None:
        self.history = history
        self.estimates = estimates
        self.tol = tol
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, name: str | None = None, **kwargs: Any
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
        ).plot(ax, **kwargs)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Any], *, ax: Any = None, **kwargs: Any
    ) -> list[ConvergenceDisplay]:
        """Draw how several fits converged on the same axes.

        Parameters
        ----------
        estimators : dict of str to LinearSVC
            Fitted estimators by name.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
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
            displays.append(cls.from_estimator(estimator, ax=ax, name=name, **kwargs))
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
        time, gap, certified = max(curves, key=lambda curve: curve[1][-1])

        label = name
        if len(problems) > 1:
            worst = f"worst of {len(problems)} classes"
            label = worst if name is None else f"{name}, {worst}"
        style = {**style_of(ax), "label": label, "markevery": certified, **kwargs}
        [self.line_] = ax.plot(time, gap, **style)
        self.band_ = None
        if len(problems) > 1:
            every = np.unique(np.concatenate([curve[0] for curve in curves]))
            known = [gap[_latest(time, every)] for time, gap, _ in curves]
            low, high = np.min(known, axis=0), np.max(known, axis=0)
            colour = self.line_.get_color()
            self.band_ = ax.fill_between(
                every, low, high, step="post", color=colour, alpha=0.15, label=CLASSES
            )
        self.tol_line_ = None if self.tol is None else _tol_line(ax, self.tol)

        ax.set(
            xlabel="Training time (s)",
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
        """Return times, gaps and which of them are certified, epoch by epoch, of one problem."""
        history = self.history[self.history["problem"] == problem]
        known = {
            entry["epoch"]: (entry["time"], entry["gap"] / entry["primal"], True)
            for entry in history
        }
        if self.estimates is not None:
            for entry in self.estimates[self.estimates["problem"] == problem]:
                estimate = (entry["time"], entry["relative_gap"], False)
                known.setdefault(entry["epoch"], estimate)
        time, gap, certified = zip(*[known[epoch] for epoch in sorted(known)], strict=True)
        return np.array(time), np.array(gap), list(certified)


def _latest(time: Any, at: Any) -> Any:
    """Return the number of the latest entry at each moment, or of the first where there is none."""
    return np.maximum(np.searchsorted(time, at, side="right") - 1, 0)


def _tol_line(ax: Any, tol: float) -> Any:
    """Return the dashed line at `tol`; fits with the same one share it."""
    label = f"tol = {tol:g}"
    for line in ax.lines:
        if line.get_label() == label:
            return line
    return ax.axhline(tol, color="0.3", linestyle="--", linewidth=1.5, label=label)

"""How the duality gap came down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._matplotlib import pyplot

__all__ = ["ConvergenceDisplay"]

# Gaps below this part of the objective are rounding errors and not worth the room.
ROUNDING = 1e-16


class ConvergenceDisplay:
    """Relative duality gap against training time.

    Use `from_estimator` or, for several fits, `from_estimators` to make one; `plot` again with
    another `ax` to draw it elsewhere. Several fits on one `ax` get a colour each.

    Parameters
    ----------
    history : ndarray with named fields
        The `history_` of a fitted estimator.
    tol : float, default=None
        Relative gap that was asked for, drawn as a dashed line.
    name : str, default=None
        Name of the fit in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves.
    figure_ : matplotlib Figure
        Figure with the axes.
    lines_ : list of matplotlib Line2D
        One curve per binary problem: several for one-versus-rest, all in one colour, each with
        its own clock. A mark is a certificate.
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

    def __init__(self, history: Any, *, tol: float | None = None, name: str | None = None) -> None:
        self.history = history
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
            Passed to matplotlib's `plot` for the curves.

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
        name = type(estimator).__name__ if name is None else name
        return cls(estimator.history_, tol=estimator.tol, name=name).plot(ax, **kwargs)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Any], *, ax: Any = None, **kwargs: Any
    ) -> list[ConvergenceDisplay]:
        """Draw how several fits converged on the same axes, a colour each.

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
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        name : str, default=None
            Name of the fit in the legend, instead of the display's own.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curves.

        Returns
        -------
        ConvergenceDisplay
            The display itself.
        """
        plt = pyplot("ConvergenceDisplay")
        if ax is None:
            _, ax = plt.subplots()
        style = {"marker": ".", "label": self.name if name is None else name, **kwargs}
        self.lines_ = []
        for problem in np.unique(self.history["problem"]):
            curve = self.history[self.history["problem"] == problem]
            self.lines_ += ax.plot(curve["time"], curve["gap"] / curve["primal"], **style)
            # The other classes of a fit look the same and have no legend of their own.
            style = {**style, "color": self.lines_[0].get_color(), "label": None}
        self.tol_line_ = None if self.tol is None else _tol_line(ax, self.tol)

        ax.set(xlabel="Training time (s)", ylabel="Relative duality gap", yscale="log")
        if ax.get_ylim()[0] < ROUNDING:  # still autoscaled when more is drawn
            ax.set_ylim(bottom=ROUNDING, auto=None)
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def _tol_line(ax: Any, tol: float) -> Any:
    """Return the dashed line at `tol`; fits with the same one share it."""
    label = f"tol = {tol:g}"
    for line in ax.lines:
        if line.get_label() == label:
            return line
    return ax.axhline(tol, color="0.4", linestyle="--", linewidth=1.0, label=label)

"""What a search for C found."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._matplotlib import check_drawable, new_axes, style_of

PANELS = (7.2, 7.2)  # inches: the height of a slide
RANGE = "smallest to largest of the folds"
MOST_LABELS = 10  # of ticks that do not overlap


class PathDisplay:
    """Score, support vectors and training time against C.

    Curves are means over the folds, ticks the values of C that were tried; legends explain the
    bands. Make one by `from_estimator`; `plot` draws it again on other axes. Several searches on
    the same axes differ by colour, line and mark.

    Parameters
    ----------
    Cs : ndarray of shape (n_Cs,)
        Values of C.
    scores, n_support, fit_time : ndarray of shape (n_folds, n_Cs)
        What each fold had for each C.
    C : float, default=None
        The C of choice, drawn as a dashed line.
    score_name : str, default="Score"
        What the scores are.
    name : str, default=None
        Name of the search in the legend; "mean of the folds" if None.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        The axes of score, support vectors and time; of the score alone if one was given.
    figure_ : matplotlib Figure
        Figure with the axes.
    lines_ : list of matplotlib Line2D
        Means over the folds, one curve per axes.
    spreads_ : list of matplotlib PolyCollection
        Bands around the means: one standard error for the score, smallest to largest for the rest.
    C_lines_ : list of matplotlib Line2D
        Dashed lines at the C of choice.
    """

    def __init__(
        self,
        Cs: Any,
        scores: Any,
        n_support: Any,
        fit_time: Any,
        *,
        C: float | None = None,
        score_name: str = "Score",
        name: str | None = None,
    ) -> None:
        self.Cs = Cs
        self.scores = scores
        self.n_support = n_support
        self.fit_time = fit_time
        self.C = C
        self.score_name = score_name
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, name: str | None = None, **kwargs: Any
    ) -> PathDisplay:
        """Draw how a search for C went, and return the display.

        Parameters
        ----------
        estimator : LinearSVCCV or LinearSVRCV
            A fitted estimator; of a pipeline, pass the last step.
        ax : matplotlib Axes or sequence of three, default=None
            Where to draw: the score only, or all; a new figure if None.
        name : str, default=None
            Name of the search in the legend.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curves.
        """
        check_drawable(estimator, "scores_", "PathDisplay", "LinearSVCCV or LinearSVRCV")
        scoring = estimator.scoring or estimator._default_scoring
        return cls(
            estimator.Cs_,
            estimator.scores_,
            estimator.n_support_,
            estimator.fit_time_,
            C=estimator.C_,
            score_name=scoring.replace("_", " ") if isinstance(scoring, str) else "score",
            name=name,
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> PathDisplay:
        """Draw the curves, and return the display.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of three, default=None
            Where to draw: the score only, or all; a new figure if None.
        name : str, default=None
            Name of the search in the legend, instead of the display's own.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curves.
        """
        ax = new_axes("PathDisplay", 3, PANELS) if ax is None else ax
        self.axes_ = list(np.ravel(ax))
        if len(self.axes_) not in (1, 3):
            found = f"but is {len(self.axes_)}"
            raise ValueError(f"ax must be one matplotlib Axes, for the score, or three, {found}.")
        n_folds, mean = len(self.scores), np.mean(self.scores, axis=0)
        error = np.std(self.scores, axis=0, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else 0.0
        panels = [
            (f"Mean {self.score_name}", "± one standard error", mean, mean - error, mean + error),
            ("Support vectors", RANGE, *_mean_and_range(self.n_support)),
            ("Training time (s)", RANGE, *_mean_and_range(self.fit_time)),
        ]
        name = name or self.name or "mean of the folds"
        style = {**style_of(self.axes_[0]), "label": name, **kwargs}
        chosen = f"chosen: C = {self.C:.3g}" if self.C is not None and style["label"] else None
        self.lines_, self.spreads_, self.C_lines_ = [], [], []
        for panel, (title, band, middle, low, high) in zip(self.axes_, panels, strict=False):
            self.lines_ += panel.plot(self.Cs, middle, **style)
            style["color"] = colour = self.lines_[-1].get_color()
            shade = {"color": colour, "alpha": 0.2, "label": band if n_folds > 1 else None}
            self.spreads_.append(panel.fill_between(self.Cs, low, high, **shade))
            if self.C is not None:
                dashed = {"linestyle": "--", "linewidth": 1.5, "label": chosen}
                self.C_lines_.append(panel.axvline(self.C, color=colour, **dashed))
            style["label"] = chosen = None  # the first panel's legend has them
            panel.set(xscale="log", ylabel=title)
            panel.grid(color="0.9")
            if panel.get_legend_handles_labels()[0]:
                panel.legend()
        _tick(self.axes_, self.Cs)
        self.axes_[0].set_title(f"The search for C, {n_folds} fold{'s' if n_folds > 1 else ''}")
        self.axes_[-1].set_xlabel("C")
        self.figure_ = self.axes_[0].figure
        return self


def _tick(axes: list[Any], Cs: Any) -> None:
    """Put ticks at the values of C that were tried, and at those of searches drawn before."""
    curves = [line.get_xdata() for line in axes[0].lines if line.get_marker() != "None"]
    Cs = np.unique(np.concatenate([Cs, *curves]))
    step = -(-len(Cs) // MOST_LABELS)
    labels = [f"{C:.3g}" if c % step == 0 else "" for c, C in enumerate(Cs)]
    for panel in axes:
        panel.set_xticks(Cs, labels)
        panel.set_xticks([], minor=True)


def _mean_and_range(values: Any) -> tuple[Any, Any, Any]:
    return np.mean(values, axis=0), np.min(values, axis=0), np.max(values, axis=0)

"""Pictures of fitted models; they need matplotlib, ``pip install "dualsweep[plot]"``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._typing import Array
from .estimators import MulticlassComparison

__all__ = ["ComparisonDisplay", "ConvergenceDisplay", "PathDisplay"]

Axes: TypeAlias = Any  # of matplotlib, which may not be installed
Artist: TypeAlias = Any  # likewise: a line, a band or an annotation
Curve: TypeAlias = tuple[Array, Array, list[bool]]  # epochs or times, gaps, which are certified

SLIDE = (8.0, 4.5)  # inches: half a slide, on which the usual sizes of letters can be read
PANELS = (7.2, 7.2)  # inches: the height of a slide

# Lines that are told apart without colours.
LINES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P")

ROUNDING = 1e-16  # relative gaps below are rounding errors, which get no room

# What to draw gaps against, its label, and the label of the band of all classes.
AXES = {
    "epoch": ("Epochs (sweeps and Newton steps)", "all classes"),
    "time": ("Training time (s)", "all classes, each with its own clock"),
}

MOST_LABELS = 10  # of ticks that do not overlap

NAMES = {
    "ovr": "one versus rest",
    "crammer_singer": "Crammer-Singer",
    "weston_watkins": "Weston-Watkins",
    "multinomial": "multinomial",
}
BRACKET = 0.1  # distance of brackets, as a part of the height of what they are above


@dataclass(eq=False, repr=False)
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

    history: Array
    _: KW_ONLY
    estimates: Array | None = None
    tol: float | None = None
    name: str | None = None
    x: str = "epoch"

    def __post_init__(self) -> None:
        if self.x not in AXES:
            raise ValueError(f"x must be {' or '.join(map(repr, AXES))}, but is {self.x!r}.")

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        ax: Axes = None,
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
        _check_drawable(estimator, "history_", "ConvergenceDisplay", "estimators of dualsweep")
        return cls(
            estimator.history_,
            estimates=getattr(estimator, "estimates_", None),  # a model from a file has none
            tol=estimator.tol,
            name=type(estimator).__name__ if name is None else name,
            x=x,
        ).plot(ax, **kwargs)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Any], *, ax: Axes = None, x: str = "epoch", **kwargs: Any
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
        ax = _new_axes(cls.__name__) if ax is None and estimators else ax
        return [
            cls.from_estimator(estimator, ax=ax, name=name, x=x, **kwargs)
            for name, estimator in estimators.items()
        ]

    def plot(
        self, ax: Axes = None, *, name: str | None = None, **kwargs: Any
    ) -> ConvergenceDisplay:
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
        ax = _new_axes("ConvergenceDisplay") if ax is None else ax
        name = self.name if name is None else name
        problems = np.unique(self.history["problem"])
        curves = [self._curve(problem) for problem in problems]
        enough = 0.0 if self.tol is None else self.tol
        at, gap, certified = max(curves, key=lambda c: (max(c[1][-1], enough), c[0][-1]))

        if len(problems) > 1:
            worst = f"worst of {len(problems)} classes"
            name = worst if name is None else f"{name}, {worst}"
        style = {**_style_of(ax), "label": name, "markevery": certified, **kwargs}
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

    def _draw_band(self, ax: Axes, curves: list[Curve], label: str) -> Artist:
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


def _tol_line(ax: Axes, tol: float) -> Artist:
    """Return the dashed line at `tol`; fits with the same one share it."""
    label = f"tol = {tol:g}"
    for line in ax.lines:
        if line.get_label() == label:
            return line
    return ax.axhline(tol, color="0.3", linestyle="--", linewidth=1.5, label=label)


@dataclass(eq=False, repr=False)
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

    Cs: Array
    scores: Array
    n_support: Array
    fit_time: Array
    _: KW_ONLY
    C: float | None = None
    score_name: str = "Score"
    name: str | None = None

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes = None, name: str | None = None, **kwargs: Any
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
        _check_drawable(estimator, "scores_", "PathDisplay", "LinearSVCCV or LinearSVRCV")
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

    def plot(self, ax: Axes = None, *, name: str | None = None, **kwargs: Any) -> PathDisplay:
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
        ax = _new_axes("PathDisplay", 3, PANELS) if ax is None else ax
        self.axes_ = list(np.ravel(ax))
        if len(self.axes_) not in (1, 3):
            found = f"but is {len(self.axes_)}"
            raise ValueError(f"ax must be one matplotlib Axes, for the score, or three, {found}.")
        n_folds, mean = len(self.scores), np.mean(self.scores, axis=0)
        error = np.std(self.scores, axis=0, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else 0.0
        panels = [
            (f"Mean {self.score_name}", "± one standard error", mean, mean - error, mean + error)
        ]
        others = {"Support vectors": self.n_support, "Training time (s)": self.fit_time}
        for title, values in others.items():
            curves = (curve(values, axis=0) for curve in (np.mean, np.min, np.max))
            panels.append((title, "smallest to largest of the folds", *curves))
        name = name or self.name or "mean of the folds"
        style = {**_style_of(self.axes_[0]), "label": name, **kwargs}
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


def _tick(axes: list[Axes], Cs: Array) -> None:
    """Put ticks at the values of C that were tried, and at those of searches drawn before."""
    curves = [line.get_xdata() for line in axes[0].lines if line.get_marker() != "None"]
    Cs = np.unique(np.concatenate([Cs, *curves]))
    step = -(-len(Cs) // MOST_LABELS)
    labels = [f"{C:.3g}" if c % step == 0 else "" for c, C in enumerate(Cs)]
    for panel in axes:
        panel.set_xticks(Cs, labels)
        panel.set_xticks([], minor=True)


@dataclass(eq=False, repr=False)
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

    comparison: MulticlassComparison

    def plot(self, ax: Axes = None) -> ComparisonDisplay:
        """Draw the accuracies, and return the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        """
        ax = _new_axes("ComparisonDisplay") if ax is None else ax
        found, places = self.comparison, range(len(self.comparison.methods))
        accuracy = 100 * found.accuracy
        self.lines_ = ax.plot(places, accuracy.T, color="0.75", linewidth=1.0, marker=".")
        self.lines_[0].set_label("a partition of the rows")
        style = {"fmt": "o", "color": "black", "markersize": 9, "linewidth": 2.0, "capsize": 7}
        style |= {"zorder": 3, "label": "mean ± standard deviation"}
        self.means_ = ax.errorbar(places, 100 * found.mean, 100 * found.deviation, **style)
        self.p_values_ = self._draw_brackets(ax, float(accuracy.min()), float(accuracy.max()))
        names = [NAMES.get(name, name) for name in found.methods]
        ax.set_xticks(places, [f"{names[m]}\n{found.chosen(m)}" for m in places])
        ax.margins(x=0.15)
        shown = f"{len(accuracy)} partitions can show p = {found.least_p_value:.2g} at best"
        ax.set(ylabel="Test accuracy (%)", title=f"Do the methods differ? {shown}")
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_brackets(self, ax: Axes, low: float, high: float) -> list[Artist]:
        """Connect each pair of methods above the curves, and write its p-value."""
        methods, drawn = self.comparison.methods, []
        step = BRACKET * max(high - low, 0.01)
        for number, (pair, p_value) in enumerate(self.comparison.p_values.items()):
            left, right = (methods.index(method) for method in pair)
            height = high + (1 + 2 * number) * step
            foot = height - 0.3 * step
            ax.plot([left, left, right, right], [foot, height, height, foot], color="0.3")
            text, middle = f"p = {p_value:.2g}", (0.5 * (left + right), height)
            above = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
            drawn.append(ax.annotate(text, middle, **above))
        ax.set_ylim(top=high + (2 + 2 * len(drawn)) * step)
        return drawn


def _new_axes(display: str, n_panels: int = 1, size: tuple[float, float] = SLIDE) -> Axes:
    """Return the axes of a new figure; say how to get matplotlib if it is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{display}.plot needs matplotlib, which is not installed. Get it with "
            'pip install "dualsweep[plot]".'
        ) from error
    return plt.subplots(n_panels, sharex=True, figsize=size, layout="constrained")[1]


def _check_drawable(estimator: BaseEstimator, attribute: str, display: str, drawn: str) -> None:
    """Raise an error unless an estimator is fitted and has what a display draws."""
    check_is_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute}; {display} draws fitted {drawn}. Of a "
            "pipeline, pass the last step: pipeline[-1]."
        )


def _style_of(ax: Axes) -> dict[str, Any]:
    """Return the style of the next curve on some axes: a line and a mark of its own."""
    n = sum(line.get_marker() != "None" for line in ax.lines)  # not those across all of the axes
    line, mark = LINES[n % len(LINES)], MARKS[n % len(MARKS)]
    return {"linestyle": line, "marker": mark, "linewidth": 2.0, "markersize": 7.0}

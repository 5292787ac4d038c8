"""From checkpoints to curves, and to the tables of a page."""

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from ratios import HERE, REFERENCE

from papers.tracing import load

DOCS = HERE.parent / "docs" / "papers"
TASK = ["data", "loss", "C", "intercept"]
LABELS = {
    "seconds": "processor seconds",
    "error": "above the optimum, relative",
    "difference": "test accuracy - optimum's, %",
    "accuracy": "test accuracy, %",
    "passes": "passes over the data",
    "steps": "update steps",
}
# Told apart by dashes and markers, so that a picture can be read in grey.
STYLES = [
    {"linestyle": line, "marker": marker, "color": color}
    for line, marker, color in [
        ("-", "o", "black"),
        ("--", "s", "tab:red"),
        ("-.", "^", "tab:blue"),
        (":", "D", "tab:green"),
        ("-", "x", "tab:orange"),
        ("--", "v", "tab:purple"),
        ("-.", "P", "tab:brown"),
        (":", "*", "tab:gray"),
    ]
]


def read(path: Path) -> pd.DataFrame:
    """Return the checkpoints of a file, without those of references.

    `error` is how far the objective is above the best value known, relative to it; `unsure` how far
    that could be above the optimum, by the best proven bound; `difference` the test accuracy minus
    the reference's, in percent.
    """
    frame = load(path)
    groups = frame.groupby(TASK)
    best = groups["value"].transform("min")
    frame["error"] = frame["value"] / best - 1.0
    frame["unsure"] = 1.0 - groups["lower"].transform("max") / best
    optimal = frame["accuracy"].where(frame["system"] == REFERENCE)
    frame["difference"] = 100.0 * (
        frame["accuracy"] - optimal.groupby([frame[c] for c in TASK]).transform("max")
    )
    return frame[frame["system"] != REFERENCE].reset_index(drop=True)


def times(
    frame: pd.DataFrame, target: float, by: str = "seconds", column: str = "error"
) -> pd.DataFrame:
    """One row per task, one column per system: `by` until `column` is at most `target`.

    Medians over repeats; NaN for a system that some run of which did not get there, or was not
    tried.
    """
    systems = list(dict.fromkeys(frame["system"]))
    reached = frame[frame[column] <= target]
    first = reached.groupby([*TASK, "rep", "system"], sort=False)[by].min()
    runs = frame.groupby([*TASK, "rep", "system"], sort=False).size()
    median = first.reindex(runs.index).groupby([*TASK, "system"], sort=False).median()
    return median.unstack("system").reindex(columns=systems).reset_index()


def show_times(frame: pd.DataFrame, target: float, by: str = "seconds") -> pd.DataFrame:
    """The same in words: three digits, or in brackets the least error of a run that was stopped."""
    table = times(frame, target, by).astype(object)
    last = frame.groupby([*TASK, "system"], sort=False)["error"].min()
    for i, row in table.iterrows():
        for system in table.columns.difference(TASK):
            key = (*(row[name] for name in TASK), system)
            missed = f"({last[key]:.0e})" if key in last.index else ""
            table.loc[i, system] = missed if pd.isna(row[system]) else f"{row[system]:.3g}"
    return table


def draw(
    frame: pd.DataFrame,
    x: str,
    y: str,
    path: Path,
    systems: Sequence[str] | None = None,
    line: float | None = None,
    **limits: tuple[float, float],
) -> None:
    """Draw curves of `y` against `x`: a panel per loss and data set, a curve per system.

    `line` is a value of y to mark; `limits` are matplotlib's `xlim` and `ylim`.
    """
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    frame = frame[frame["rep"] == 0]
    names = list(systems or dict.fromkeys(frame["system"]))
    losses, data = list(dict.fromkeys(frame["loss"])), list(dict.fromkeys(frame["data"]))
    figure, axes = plt.subplots(
        len(losses),
        len(data),
        figsize=(2.6 * len(data) + 0.4, 2.3 * len(losses) + 0.6),
        squeeze=False,
        layout="constrained",
    )
    handles = {}
    for row, loss in enumerate(losses):
        for column, name in enumerate(data):
            axis = axes[row, column]
            cell = frame[(frame["loss"] == loss) & (frame["data"] == name)]
            for system, style in zip(names, STYLES, strict=False):
                run = cell[cell["system"] == system]
                if len(run):
                    every = max(1, math.ceil(len(run) / 8))
                    (handles[system],) = axis.plot(
                        run[x], run[y], markevery=every, markersize=4, linewidth=1.2, **style
                    )
            if line is not None:
                axis.axhline(line, color="gray", linestyle=":", linewidth=0.8)
            axis.set(xscale="log", title=f"{name}, {loss.replace('_', ' ')}", **limits)
            if y == "error":
                axis.set_yscale("log")
            axis.title.set_fontsize(9)
            axis.tick_params(labelsize=8)
    figure.supxlabel(LABELS[x], fontsize=9)
    figure.supylabel(LABELS[y], fontsize=9)
    figure.legend(
        handles.values(),
        handles,
        loc="outside upper center",
        ncols=min(len(handles), 2 * len(data)),
        fontsize=8,
    )
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a picture, in few colours: small enough to be committed."""
    import matplotlib.pyplot as plt
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(48)
    small.save(path, optimize=True)


def fill(page: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- /NAME -->` in a page."""
    old = page.read_text()
    pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)"
    new, count = re.subn(pattern, lambda m: f"{m[1]}{text.strip()}\n{m[2]}", old, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{page} has {count} places for {name}, and has to have one.")
    page.write_text(new)


def measure_and_report(
    argv: Sequence[str] | None,
    about: str,
    parts: Mapping[str, Callable[[Sequence[str], float], None]],
    data: Sequence[str],
    cap: float,
    report: Callable[[], None],
) -> None:
    """Do what the command line asks for: measure parts of a paper, then fill in its page."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--parts", nargs="*", choices=parts, default=list(parts))
    parser.add_argument("--data", nargs="+", choices=data, default=data)
    parser.add_argument("--cap", type=float, default=cap, help="seconds after which a run ends")
    parser.add_argument("--no-page", action="store_true", help="only measure")
    args = parser.parse_args(argv)
    for part in args.parts:
        parts[part](args.data, args.cap)
    if not args.no_page:
        report()

"""Time to a relative suboptimality of 1e-3 and of 1e-6 as C grows, ours and others'.

Measures with `ratios.py`, whose file of results it shares: it can be filled in pieces, and is never
measured twice. Writes a table, and a picture in the form of Figure 1 of Glasmachers and Dogan 2013.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ratios import CELL, HERE, OURS, load, markdown, measure, publish

DATA = ["a9a", "w8a", "ijcnn1", "covtype", "imdb", "blogs", "mnist"]
OWN = [OURS, *(f"dualsweep[method={name}]" for name in ("shrinking", "adaptive", "newton"))]
PEERS = ["sklearn[dual=True]", "sklearn[dual=False]", "liblinear", "rehline"]
TARGETS = [1e-3, 1e-6]
Panels = dict[tuple[str, str], dict[float, dict[str, float]]]  # by data and loss, C, contender
COLUMNS = 4  # of panels: more cannot be read on a slide
MARKS = "o^vDsPp*"  # a mark for each contender, for who sees no colours
COUNTS = 0.2  # seconds below which a cell is not worth a comparison


def times(runs: pd.DataFrame, target: float, clock: str) -> dict[str, float]:
    """Return each contender's median seconds to `target` above the best value known; inf if never.

    `runs` are those of one cell.
    """
    missed = runs["value"] > runs["value"].min() * (1.0 + target)
    seconds = runs[clock].mask(missed, math.inf)
    best = seconds.groupby([runs["solver"], runs["rep"]]).min()
    return {str(name): float(median) for name, median in best.groupby("solver").median().items()}


def show(runs: pd.DataFrame, name: str, seconds: float, clock: str) -> str:
    """Return seconds, or how far above the optimum a contender came, and after how many."""
    if math.isfinite(seconds):
        return f"{seconds:.3g}"
    own = runs[runs["solver"] == name]
    if own.empty:
        return ""
    last = own.loc[own["value"].idxmin()]
    excess = last["value"] / runs["value"].min() - 1.0
    return f"{excess:.0e} at {last[clock]:.0f} s"


def short(name: str) -> str:
    return name.removeprefix("dualsweep[method=").rstrip("]") if name in OWN else name


def compare(frame: pd.DataFrame, targets: Sequence[float], clock: str) -> pd.DataFrame:
    """One row per cell and target: what each contender needed, ours against peers and ourselves."""
    table = []
    for cell, runs in frame.groupby(CELL, sort=False):
        for target in targets:
            seconds = times(runs, target, clock)
            auto = seconds.get(OURS, math.inf)
            peer = min(seconds.get(name, math.inf) for name in PEERS)
            own = min(seconds.get(name, math.inf) for name in OWN)
            row = dict(zip(CELL, cell, strict=True), target=target)
            row["peer / auto"], row["auto / own best"] = peer / auto, auto / own
            for name in OWN + PEERS:
                row[short(name)] = show(runs, name, seconds.get(name, math.inf), clock)
            table.append(row | {"seconds": auto, "best peer": peer})
    return pd.DataFrame(table)


def report(frame: pd.DataFrame, targets: Sequence[float], clock: str) -> str:
    table = compare(frame, targets, clock)
    seconds, peer = table.pop("seconds"), table.pop("best peer")
    lines = []
    for target in targets:
        here = table["target"] == target
        counts = here & (peer > COUNTS)
        slower = counts & (table["peer / auto"] < 1.0)
        own = here & (seconds > COUNTS) & (table["auto / own best"] > 1.5)
        lines.append(
            f"- {target:g}: {here.sum()} cells; in {counts.sum()} the best peer needs more than "
            f"{COUNTS:g} s, and is faster than auto in {slower.sum()}; in {own.sum()} auto takes "
            f"more than {COUNTS:g} s and 1.5 times our best fixed choice; the longest that auto "
            f"takes is {seconds[here].max():.1f} s.\n"
        )
    table["peer / auto"] = [
        "> 1, no peer" if math.isinf(ratio) else f"{ratio:.2f}" for ratio in table["peer / auto"]
    ]
    return (
        "Seconds until the objective is `target` above the optimum; for contenders that were "
        "stopped before, how far above it they came, and after how many seconds.\n\n"
        f"{''.join(lines)}\n{markdown(table)}"
    )


def curves(frame: pd.DataFrame, target: float, clock: str) -> Panels:
    """Return each contender's seconds at each C, for each data set and loss; inf if never."""
    cells = frame.groupby(["data", "loss", "C"], sort=False)
    panels: Panels = {}
    for (data, loss, C), runs in cells:
        panels.setdefault((str(data), str(loss)), {})[float(C)] = times(runs, target, clock)
    return panels


def draw(panels: Panels, target: float, path: Path, names: Sequence[str] = OWN + PEERS) -> None:
    """Draw time against C, a panel for each data set and loss; a cross is a method that failed.

    Crosses are at the top edge, side by side, and joined to where the method was last seen.
    """
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    losses = list(dict.fromkeys(loss for _, loss in panels))
    n_rows = {loss: -(-(sum(key[1] == loss for key in panels) + 1) // COLUMNS) for loss in losses}
    figure = plt.figure(figsize=(12.0, 2.6 * sum(n_rows.values())), layout="constrained")
    parts = figure.subfigures(len(losses), 1, height_ratios=list(n_rows.values()), squeeze=False)
    for part, loss in zip(parts[:, 0], losses, strict=True):
        part.suptitle(f"{loss.replace('_', ' ')} loss: seconds to {target:g} against C")
        axes = part.subplots(n_rows[loss], COLUMNS).ravel()
        of_loss = {name: cells for (name, own), cells in panels.items() if own == loss}
        for axis, (name, cells) in zip(axes, of_loss.items(), strict=False):
            draw_panel(axis, cells, names)
            axis.set_title(name)
        for axis in axes[len(of_loss) :]:
            axis.axis("off")
        handles, labels = axes[0].get_legend_handles_labels()
        axes[-1].legend(handles, labels, loc="center", ncols=1 + (len(labels) > 6))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_panel(
    axis: Any, cells: dict[float, dict[str, float]], names: Sequence[str] = OWN + PEERS
) -> None:
    """Draw the curves of contenders on one data set."""
    Cs = np.array(sorted(cells))
    seconds = {n: np.array([cells[C].get(n, math.nan) for C in Cs]) for n in names}
    known = np.concatenate(list(seconds.values()))
    known = known[np.isfinite(known)]
    top = 4.0 * known.max()
    ours = "dualsweep" if set(names).isdisjoint(OWN[1:]) else short(OURS)
    for name in names:
        number = (OWN + PEERS).index(name)  # one look in all pictures
        failed = np.isinf(seconds[name])
        aside = 10.0 ** (0.07 * (number - len(MARKS) / 2) * failed)  # next to each other
        axis.plot(
            Cs * aside,
            np.where(failed, top, seconds[name]),
            color="black" if name == OURS else f"C{number}",
            linestyle="-" if name in OWN else "--",
            linewidth=3.0 if name == OURS else 1.2,
            marker=MARKS[number],
            markevery=np.flatnonzero(np.isfinite(seconds[name])).tolist(),
            label=ours if name == OURS else short(name),
        )
        axis.plot(Cs[failed] * aside[failed], top * np.ones(failed.sum()), "x", color="0.2")
    axis.plot([], [], "x", color="0.2", label="did not get there")
    axis.axhline(0.6 * top, color="0.6", linewidth=0.8)
    axis.set(xscale="log", yscale="log", ylim=(0.6 * known.min(), 1.6 * top))
    axis.set_xticks(Cs, [f"{C:g}" for C in Cs])
    axis.set_xticks([], minor=True)
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--loss", nargs="+", default=["hinge", "squared_hinge"])
    parser.add_argument("--C", nargs="+", type=float, default=[0.1, 1.0, 10.0, 100.0, 1000.0])
    parser.add_argument("--solvers", nargs="+", default=OWN + PEERS)
    parser.add_argument("--targets", nargs="+", type=float, default=TARGETS)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cap", type=float, default=60.0, help="a fit of more seconds is the last")
    parser.add_argument("--clock", choices=["time", "cpu"], default="time")
    parser.add_argument("--out", type=Path, default=HERE / "outputs" / "hard.csv")
    parser.add_argument("--table", type=Path, help="also write the table to this file")
    parser.add_argument("--picture", type=Path, help="draw time against C to this file")
    args = parser.parse_args(argv)
    floor = 0.9 * min(args.targets)
    measure(args.out, args.data, args.loss, args.C, args.solvers, args.repeats, args.cap, floor)
    frame = load(args.out)
    chosen = frame["data"].isin(args.data) & frame["loss"].isin(args.loss) & frame["C"].isin(args.C)
    frame = frame[chosen]
    publish(report(frame, args.targets, args.clock), args.table)
    if args.picture:
        target = max(args.targets)
        names = [name for name in OWN + PEERS if name in args.solvers]
        draw(curves(frame, target, args.clock), target, args.picture, names)


if __name__ == "__main__":
    main()

"""How long it takes to 1e-3 above the optimum, ours and each peer's: a table and a picture.

Without files it uses scikit-learn's own data and generated ones; `--real` takes the real data sets
of the folder DUALSWEEP_DATA, and writes the table into the README. Measures with `ratios.py`: fits
are appended to a CSV file and never measured twice, so that it can be filled in pieces.
"""

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from papers import pages
from ratios import CELL, HERE, OURS, about, compare, load, markdown, measure, publish

TARGET = 1e-3
BINARY_PEERS = {
    "LIBLINEAR": "liblinear",
    "LinearSVC": "sklearn[dual=True]",
    "LinearSVC, primal": "sklearn[dual=False]",
    "ReHLine": "rehline",
    "Snap ML": "snapml",
    "skglm": "skglm",
    "SGD": "sgd",
    "Vowpal Wabbit": "vowpal_wabbit",
}
MULTICLASS_PEERS = {name: BINARY_PEERS[name] for name in ("LIBLINEAR", "LinearSVC")}
DATA = ["breast_cancer", "digits", "simulated[n_samples=20000,n_features=100]", "text"]
MULTICLASS_DATA = ["digits"]
REAL, REAL_MULTICLASS = ["a9a", "w8a", "ijcnn1", "covtype", "imdb", "blogs"], ["news20", "letter"]
LOSSES = ["hinge", "squared_hinge"]


def short(data: str) -> str:
    return data.partition("[")[0]


def measure_all(out: Path, data, multiclass, Cs, repeats: int, cap: float) -> None:
    settings = {"Cs": Cs, "repeats": repeats, "cap": cap, "floor": 0.9 * TARGET}
    binary, joint = (["dualsweep", *peers.values()] for peers in (BINARY_PEERS, MULTICLASS_PEERS))
    measure(out, data, LOSSES, solvers=binary, **settings)
    measure(out, multiclass, ["crammer_singer"], solvers=joint, **settings)


def times(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: our seconds, and every peer's / ours.

    They are inf where a peer did not get there, 0 where we did not but it did, and NaN where it was
    not tried or has no such loss.
    """
    table = compare(frame, [TARGET], clock="cpu")
    result = table[CELL].assign(data=table["data"].map(short), dualsweep=table[OURS])
    tried = frame.groupby([*CELL, "solver"]).size()
    for label, name in BINARY_PEERS.items():
        ratio = table[name] / table[OURS].fillna(np.inf) if name in table else table[OURS] * np.nan
        cells = table[CELL].itertuples(index=False)
        missed = ratio.isna() & np.array([(*cell, name) in tried.index for cell in cells])
        result[label] = ratio.mask(missed, np.inf)
    return result.sort_values(["data", "C", "loss"], kind="stable").reset_index(drop=True)


def show(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with geometric means, and in how many cells a peer got there."""
    shown = table.astype(object)
    shown["loss"] = [loss.replace("_", " ") for loss in table["loss"]]
    shown["dualsweep"] = (
        table["dualsweep"].map("{:.2g} s".format).mask(shown["dualsweep"].isna(), "-")
    )
    means = {"data": "**geometric mean**", "loss": "", "C": "", "dualsweep": "1"}
    reached = {"data": "got there", "loss": "", "C": "", "dualsweep": ""}
    for label in BINARY_PEERS:
        ratio = table[label]
        words = ratio.map("{:.2g}".format).mask(np.isinf(ratio), "-").mask(ratio.isna(), "")
        shown[label] = words
        both = ratio[np.isfinite(ratio) & (ratio > 0)]
        means[label] = f"**{geometric_mean(both):.2g}**" if len(both) else ""
        reached[label] = f"{np.isfinite(ratio).sum()} of {ratio.notna().sum()}"
    return pd.concat([shown, pd.DataFrame([means, reached])], ignore_index=True)


def geometric_mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values).mean()))


def text(frame: pd.DataFrame, cap: float) -> str:
    table = times(frame)
    best = table[list(BINARY_PEERS)].min(axis=1)
    alone, lost = np.isinf(best).sum(), (best == 0).sum()
    best = best[np.isfinite(best) & (best > 0)]
    last = f" In {alone} more no peer got there." if alone else ""
    last += f" In {lost} more dualsweep did not, and a peer did (0)." if lost else ""
    words = textwrap.fill(
        f"Processor time from X and y until the objective is {TARGET:g} above the optimum: "
        f"dualsweep's in seconds, and how many times as long each peer takes (- where it did not "
        f"get there with fits of up to {cap:g} s, nothing where it has no such loss or was not "
        f"tried). The fastest peer of each cell takes {geometric_mean(best):.2g} times as long as "
        f"dualsweep in geometric mean, from {best.min():.2g} to {best.max():.2g}; dualsweep is the "
        f"faster in {(best > 1).sum()} of {len(best)} cells.{last}",
        width=100,
    )
    return f"{words}\n\n{markdown(show(table))}"


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Draw seconds, a row per cell and a mark per contender."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    table = times(frame)
    labels = [
        f"{row.data}, {row.loss.replace('_', ' ')}, C = {row.C:g}" for row in table.itertuples()
    ]
    rows = np.arange(len(table))[::-1]
    figure, axis = plt.subplots(figsize=(8, 0.28 * len(table) + 1.2), layout="constrained")
    for label, marker in zip(BINARY_PEERS, "s^vDPX<>", strict=True):
        axis.scatter(
            *(table[label].replace(np.inf, np.nan) * table["dualsweep"], rows),
            marker=marker,
            s=30,
            facecolors="none",
            edgecolors="0.3",
            linewidths=0.9,
            label=label,
        )
    axis.scatter(table["dualsweep"], rows, color="black", s=40, label="dualsweep", zorder=3)
    axis.set(
        xscale="log",
        ylim=(-0.6, len(table) - 0.4),
        xlabel=f"processor seconds to {TARGET:g} above the optimum",
    )
    axis.xaxis.set_minor_formatter("")
    axis.set_yticks(rows, labels, fontsize=8)
    axis.grid(axis="y", color="0.9")
    axis.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=5, fontsize=8)
    pages.save(figure, path)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", action="store_true", help="the data sets of DUALSWEEP_DATA")
    parser.add_argument("--data", nargs="*", help="some of the data sets")
    parser.add_argument("--C", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cap", type=float, help="a fit of more seconds is a contender's last")
    args = parser.parse_args(argv)

    name, cap = ("bench-real", 5.0) if args.real else ("bench", 1.0)
    cap = args.cap or cap
    out = HERE / "outputs" / f"{name}.csv"
    data, multiclass = (REAL, REAL_MULTICLASS) if args.real else (DATA, MULTICLASS_DATA)
    if args.data is not None:
        data, multiclass = (
            [name for name in names if short(name) in args.data] for names in (data, multiclass)
        )
    measure_all(out, data, multiclass, args.C, args.repeats, cap)

    frame = load(out)
    picture = HERE.parent / "docs" / "speed.png" if args.real else out.with_suffix(".png")
    draw(frame, picture)
    summary = f"{text(frame, cap)}\n{textwrap.fill(about(out), width=100)}\n"
    if args.real:
        pages.fill(HERE.parent / "README.md", "speed", summary)
    publish(summary, out.with_suffix(".md"))
    print(f"Picture: {picture}")


if __name__ == "__main__":
    main()

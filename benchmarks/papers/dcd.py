"""Hsieh et al. 2008: its six solvers, shrinking, online selection, large C, and random order.

Fills the tables of docs/papers/dcd.md and draws its pictures. Checkpoints are appended to CSV files
and never measured twice, so that it can be run in pieces: `--parts curves --data a9a`.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from ratios import about, append, load, markdown

from papers import order, pages, tracing

OUT = tracing.OUTPUTS / "paper-dcd.csv"
LARGE_C = tracing.OUTPUTS / "paper-dcd-large-c.csv"
ORDER = tracing.OUTPUTS / "paper-dcd-order.csv"
SPECTRUM = tracing.OUTPUTS / "paper-dcd-spectrum.csv"
PAGE = pages.DOCS / "dcd.md"
DATA = ["a9a", "w8a", "covtype", "imdb", "blogs"]
PARTS = ["curves", "repeats", "large-c", "order"]
TARGET, ACCURATE = 0.01, 1e-5

HINGE = {
    "DCDL1": ("sweeps", {"schedule": "permuted"}),
    "Pegasos": ("pegasos", {}),
    "SVM-perf": ("cutting_planes", {}),
}
SQUARED = {
    "DCDL2": ("sweeps", {"schedule": "permuted"}),
    "PCD": ("primal_coordinates", {}),
    "TRON": ("trust_region", {}),
}
OTHERS = {"-S": "shrinking", "-online": "online", "-cyclic": "cyclic"}
VARIANTS = {
    loss: {f"{name}{end}": ("sweeps", {"schedule": s}) for end, s in OTHERS.items()}
    for loss, name in (("hinge", "DCDL1"), ("squared_hinge", "DCDL2"))
}
SYSTEMS = {"hinge": HINGE, "squared_hinge": SQUARED}

# Table 2: seconds to 1 %.
PUBLISHED = pd.DataFrame(
    [
        ("a9a", 32_561, 123, 451_592, 0.2, 1.1, 6.0, 0.4, 0.1, 0.1),
        ("astro-physic", 62_369, 99_757, 4_834_550, 0.2, 2.8, 2.6, 0.2, 0.5, 1.2),
        ("real-sim", 72_309, 20_958, 3_709_083, 0.2, 2.4, 2.4, 0.1, 0.2, 0.9),
        ("news20", 19_996, 1_355_191, 9_097_916, 0.5, 10.3, 20.0, 0.2, 2.4, 5.2),
        ("yahoo-japan", 176_203, 832_026, 23_506_415, 1.1, 12.7, 69.4, 1.0, 2.9, 38.2),
        ("rcv1", 677_399, 47_236, 49_556_258, 2.6, 21.9, 72.0, 2.7, 5.1, 18.6),
        ("yahoo-korea", 460_554, 3_052_939, 156_436_656, 8.3, 79.7, 656.8, 7.1, 18.4, 286.1),
    ],
    columns=["data", "rows", "features", "nonzeros", *HINGE, *SQUARED],
)


# ------------------------------------------------------------------------------------- measuring


def tasks_of(data: Sequence[str], loss: str, *costs: float) -> list[tracing.Task]:
    """Return problems without intercept, as in the paper."""
    return [tracing.Task(name, loss, C, fit_intercept=False) for name in data for C in costs]


def measure_curves(data: Sequence[str], cap: float) -> None:
    """Every system at C = 1, to 1e-6."""
    for loss, systems in SYSTEMS.items():
        systems = systems | VARIANTS[loss]
        tracing.measure(OUT, tasks_of(data, loss, 1.0), systems, cap, floor=1e-6)


def measure_repeats(data: Sequence[str], cap: float) -> None:
    """The six once more, and once more, to 1 %."""
    for loss, systems in SYSTEMS.items():
        floor = 0.9 * TARGET
        tracing.measure(OUT, tasks_of(data, loss, 1.0), systems, cap, floor, repeats=3)


def measure_large_c(data: Sequence[str], cap: float) -> None:
    for loss, systems in SYSTEMS.items():
        systems = {name: systems[name] for name in systems if name not in ("Pegasos", "SVM-perf")}
        tasks = tasks_of(data, loss, 0.1, 1.0, 10.0, 100.0)
        tracing.measure(LARGE_C, tasks, systems, cap, floor=0.9 * TARGET)


def measure_order() -> None:
    for path, measure in ((ORDER, order.sweeps_needed), (SPECTRUM, order.spectrum)):
        if not path.exists():
            append(measure(), path)


# ------------------------------------------------------------------------------------- reporting


def one_row_per_data(table: pd.DataFrame) -> pd.DataFrame:
    """Return the systems of both losses side by side."""
    table = table.drop(columns=["loss", "C", "intercept"])
    return table.replace("", np.nan).groupby("data", sort=False).first().fillna("").reset_index()


def report() -> None:
    """Fill in and draw what there are measurements for."""
    if OUT.exists():
        report_curves(pages.read(OUT))
    if LARGE_C.exists():
        frame = pages.read(LARGE_C)
        large = pages.show_times(frame, TARGET, by="passes")
        frame["optimum's accuracy, %"] = 100.0 * frame["accuracy"] - frame["difference"]
        large = large.merge(
            frame.groupby(pages.TASK, as_index=False)["optimum's accuracy, %"].max()
        )
        pages.fill(PAGE, "large-C", markdown(large.drop(columns=["intercept"])))
    if ORDER.exists():
        sweeps = load(ORDER, ())
        sweeps["relative gap"] = sweeps["relative gap"].map("{:.1e}".format)
        pages.fill(PAGE, "order", markdown(sweeps))
    if SPECTRUM.exists():
        pages.fill(PAGE, "spectrum", markdown(load(SPECTRUM, ())))


def report_curves(frame: pd.DataFrame) -> None:
    is_sweep = frame["system"].str.startswith("DCD") & (frame["rep"] == 0)
    is_other_order = frame["system"].str.contains("-online|-cyclic")
    six = frame[frame["system"].isin([*HINGE, *SQUARED])]
    pages.fill(PAGE, "machine", about(OUT))
    pages.fill(PAGE, "table-2", markdown(one_row_per_data(pages.show_times(six, TARGET))))
    published = PUBLISHED.map(lambda entry: entry if isinstance(entry, str) else f"{entry:,}")
    pages.fill(PAGE, "table-2-published", markdown(published))
    shrinking = pages.show_times(frame[is_sweep & ~is_other_order], ACCURATE)
    pages.fill(PAGE, "shrinking", markdown(one_row_per_data(shrinking)))
    for target, name in ((TARGET, "sweeps"), (ACCURATE, "sweeps-accurate")):
        table = pages.show_times(frame[is_sweep], target, by="passes")
        pages.fill(PAGE, name, markdown(one_row_per_data(table)))

    def draw(rows: pd.DataFrame, x: str, y: str, name: str, **options: Any) -> None:
        # The panels say which loss it is: one style for both.
        rows = rows.assign(system=rows["system"].str.replace("DCDL[12]", "DCD", regex=True))
        pages.draw(rows, x, y, PAGE.parent / name, **options)

    draw(frame[~is_other_order], "seconds", "error", "dcd-error.png", line=TARGET, ylim=(1e-6, 3))
    draw(six, "seconds", "difference", "dcd-accuracy.png", line=0.0, ylim=(-2.0, 1.0))
    draw(frame[is_sweep], "passes", "error", "dcd-order.png", ylim=(1e-6, 3))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--parts", nargs="*", default=PARTS)
    parser.add_argument("--cap", type=float, default=10.0, help="processor seconds for a run")
    parser.add_argument("--no-page", action="store_true", help="measure only")
    args = parser.parse_args(argv)
    if "curves" in args.parts:
        measure_curves(args.data, args.cap)
    if "repeats" in args.parts:
        measure_repeats(args.data, args.cap)
    if "large-c" in args.parts:
        measure_large_c([name for name in args.data if name in ("a9a", "imdb")], args.cap)
    if "order" in args.parts:
        measure_order()
    if not args.no_page:
        report()


if __name__ == "__main__":
    main()

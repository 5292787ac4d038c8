"""From file to rows, and from file to model: time ours against scikit-learn and LIBLINEAR.

Text is written once, as scikit-learn writes it, to a folder for temporary files, and stays in the
page cache. Contenders take turns. ``read`` calls the readers in this process; ``model`` starts a
fresh process that reads, trains and writes the model, imports and all. Every run is appended to a
CSV file, from which the table is made. The folder DUALSWEEP_DATA has NAME.npz.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from benchmark_utils import load_data
from ratios import markdown

HERE = Path(__file__).resolve().parent
COLUMNS = ["part", "data", "contender", "rep", "seconds", "cpu", "megabytes", "excess"]
POSITIVE = {"blogs": 34, "imdb": 1}  # the class that is told from the rest
C = 1.0
ONE, TWO = "dualsweep, 1 thread", "dualsweep, 2 threads"
OURS = {  # options of dualsweep train; the last is as near to the optimum as LIBLINEAR
    ONE: "--n-jobs 1",
    TWO: "--n-jobs 2",
    f"{TWO}, tol 1e-5": "--n-jobs 2 --tol 1e-5",
}

# Scripts of a fresh process: argument 1 is the text, 2 where to write the weights, the bias last.
PEERS = {
    "scikit-learn": f"""
import sys
import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC
X, y = load_svmlight_file(sys.argv[1])
# The indices it reads are int64 (in 1.9), which its own LinearSVC does not take.
X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
model = LinearSVC(C={C}, random_state=0).fit(X, y)
np.save(sys.argv[2], np.append(model.coef_, model.intercept_))
""",
    "LIBLINEAR": f"""
import sys
import numpy as np
from liblinear.liblinearutil import problem, svm_read_problem, train
y, X = svm_read_problem(sys.argv[1], return_scipy=True)
model = train(problem(y, X), "-q -s 1 -c {C} -B 1")
np.save(sys.argv[2], model.label[0] * np.ctypeslib.as_array(model.w, (X.shape[1] + 1,)))
""",
}


def write_text(folder: Path, name: str) -> Path:
    """Return NAME.npz as text, with labels -1 and 1 and columns that count from 1."""
    from sklearn.datasets import dump_svmlight_file

    path = folder / f"{name}.svm"
    if not path.exists():
        X, y = load_data(name)
        y = np.where(y == POSITIVE[name], 1, -1)
        half = path.with_suffix(".half")
        dump_svmlight_file(X, y, str(half), zero_based=False)
        half.rename(path)
    return path


def readers() -> dict[str, Callable[[Path], object]]:
    from liblinear.liblinearutil import svm_read_problem
    from sklearn.datasets import load_svmlight_file

    from dualsweep.io import load_svmlight

    return {
        ONE: lambda path: load_svmlight(path, n_jobs=1)[::-1],
        TWO: lambda path: load_svmlight(path, n_jobs=2)[::-1],
        "scikit-learn": lambda path: load_svmlight_file(str(path))[::-1],
        "LIBLINEAR": lambda path: svm_read_problem(str(path), return_scipy=True),
    }


def check_readers(path: Path) -> None:
    """All readers read the same, of the first rows; ours is compiled thereby."""
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder, "few.svm")
        with path.open("rb") as text:
            few.write_bytes(b"".join(text.readline() for _ in range(100)))
        (y, X), *others = (reader(few) for reader in readers().values())
    for labels, rows in others:
        assert np.array_equal(labels, y)
        assert abs(rows - X).sum() == 0


class Stopwatch:
    """Seconds, and seconds of processor time of this process and its children."""

    def __enter__(self) -> "Stopwatch":
        self.started = perf_counter(), self._cpu()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = perf_counter() - self.started[0]
        self.cpu = self._cpu() - self.started[1]

    @staticmethod
    def _cpu() -> float:
        return sum(os.times()[:4])


def read(path: Path, contender: str) -> Stopwatch:
    reader = readers()[contender]
    with Stopwatch() as watch:
        reader(path)
    return watch


def train(path: Path, contender: str) -> tuple[Stopwatch, np.ndarray]:
    """Return what a fresh process takes, and the weights it ends with."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "model.npz" if contender in OURS else "weights.npy")
        if contender in OURS:
            options = f"-C {C} -q {OURS[contender]} -o".split()
            command = ["-m", "dualsweep", "train", str(path), *options, str(output)]
        else:
            command = ["-W", "ignore", "-c", PEERS[contender], str(path), str(output)]
        with Stopwatch() as watch:
            subprocess.run([sys.executable, *command], check=True)
        if contender not in OURS:
            return watch, np.load(output)
        with np.load(output) as model:
            return watch, np.append(model["coef"], model["intercept"])


def objective(path: Path) -> tuple[Callable[[np.ndarray], float], float]:
    """Return the problem all contenders solve, and a lower bound on it."""
    from dualsweep import LinearSVC
    from dualsweep.io import load_svmlight

    X, y = load_svmlight(path)

    def primal(w: np.ndarray) -> float:
        slack = np.maximum(0.0, 1.0 - y * (X @ w[:-1] + w[-1]))
        return 0.5 * w @ w + C * slack @ slack

    return primal, LinearSVC(C=C, tol=1e-6, random_state=0).fit(X, y).dual_objective_


def measure(path: Path, name: str, part: str, repeats: int, out: Path) -> None:
    megabytes = path.stat().st_size / 1e6
    if part == "read":
        check_readers(path)
        contenders = list(readers())
    else:
        primal, bound = objective(path)
        contenders = [*OURS, *PEERS]
        for contender in OURS:  # compiles
            train(path, contender)
    for rep in range(repeats):
        # In another order each time, so that none always runs after the same other.
        for contender in np.random.default_rng(rep).permutation(contenders).tolist():
            if part == "read":
                watch, excess = read(path, contender), np.nan
            else:
                watch, w = train(path, contender)
                excess = primal(w) / bound - 1.0
            row = [part, name, contender, rep, watch.seconds, watch.cpu, megabytes, excess]
            print(*row, file=sys.stderr)
            pd.DataFrame([row], columns=COLUMNS).to_csv(
                out, mode="a", header=not out.exists(), index=False
            )


def compare(frame: pd.DataFrame) -> pd.DataFrame:
    """Medians, and how many times as long as ours each contender took in the same repeat.

    `ratio`, from `low` to `high`, and `cpu ratio` are to ours with one thread.
    """
    table = []
    for (part, data), runs in frame.groupby(["part", "data"], sort=False):
        # Runs of one repeat were made one after the other; a file holds those of several calls.
        runs = runs.assign(turn=runs.groupby("contender").cumcount())
        seconds, cpu = (
            runs.pivot(index="turn", columns="contender", values=kind)
            for kind in ("seconds", "cpu")
        )
        for contender in sorted(runs["contender"].unique(), key=str.lower):
            ratio = seconds[contender] / seconds[ONE]
            median = seconds[contender].median()
            table.append(
                {
                    "part": part,
                    "data": data,
                    "contender": contender,
                    "seconds": median,
                    "MB/s": runs["megabytes"].iloc[0] / median,
                    "ratio": ratio.median(),
                    "low": ratio.min(),
                    "high": ratio.max(),
                    "to 2 threads": (seconds[contender] / seconds[TWO]).median(),
                    "cpu ratio": (cpu[contender] / cpu[ONE]).median(),
                    "above optimum": runs.loc[runs["contender"] == contender, "excess"].median(),
                }
            )
    return pd.DataFrame(table)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(POSITIVE), choices=list(POSITIVE))
    parser.add_argument("--parts", nargs="+", default=["read", "model"], choices=["read", "model"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--text",
        type=Path,
        default=Path(tempfile.gettempdir(), "dualsweep-bench-io"),
        help="where to write the text",
    )
    parser.add_argument("--out", type=Path, default=HERE / "outputs" / "io.csv")
    parser.add_argument("--table", type=Path, help="also write the table to this file")
    args = parser.parse_args(argv)

    for folder in (args.text, args.out.parent):
        folder.mkdir(parents=True, exist_ok=True)
    for part in args.parts:
        for name in args.data:
            path = write_text(args.text, name)
            measure(path, name, part, args.repeats, args.out)
    text = markdown(compare(pd.read_csv(args.out)))
    print(text)
    if args.table:
        args.table.write_text(text)


if __name__ == "__main__":
    main()

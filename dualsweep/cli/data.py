"""Data: into a store, and what is in a file."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

from .._typing import Array, Matrix
from ..io import Store, convert_svmlight, load_data, load_model, open_store, write_store
from ..io.liblinear import MAGIC
from ..io.model import CERTIFICATE
from ..io.store.directory import check_new_store
from ..io.svmlight import Block, iter_svmlight
from ._command import FAILED, Command
from ._options import MEGABYTE, Force, Json, NJobs, Quiet, ZeroBased, first_column

MOST_CLASSES = 20  # to list


def convert(
    file: Annotated[Path, typer.Argument(metavar="DATA", help="Rows and labels: text or .npz.")],
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The directory to write.")],
    float64: Annotated[
        bool, typer.Option("--float64", help="Store values of text in float64, not float32.")
    ] = False,
    block_size: Annotated[
        int, typer.Option(min=1, metavar="MEGABYTES", help="Size of a block of rows.")
    ] = 64,
    force: Force = False,
    n_jobs: NJobs = -1,
    zero_based: ZeroBased = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write data to a store, to train on more than memory holds.

    Text is read in one pass, in memory for two blocks. If the conversion is killed there is no
    store, but a directory .dualsweep.*.tmp that can be deleted. --force replaces a store, but no
    directory that has anything else in it.

    For example:
      dualsweep convert rcv1.svm.xz rcv1.store
      dualsweep convert webspam.svm webspam.store --block-size 256
    """
    with Command(json, quiet, reads=[file]) as command:
        command.will_write(store, force, check_new_store)
        started = perf_counter()
        kind, size = kind_of(file), _size(file)
        options: dict[str, Any] = {"block_bytes": block_size * MEGABYTE, "force": force}
        if kind == "svmlight":
            with command.progress(f"Converting {file}", size) as watch:
                written = convert_svmlight(
                    file,
                    store,
                    dtype=np.float64 if float64 else np.float32,
                    zero_based=first_column(zero_based),
                    n_jobs=n_jobs,
                    watch=watch,
                    **options,
                )
        else:
            written = write_store(store, *load_data(file), **options)
        seconds = perf_counter() - started
        command.show(str(store), _of_store(written) | {"seconds": seconds})
        command.tell(f"{size / 1e6:.1f} MB in {seconds:.2f} s, {size / seconds / 1e6:.0f} MB/s")


def info(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Data, a store or a model.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare a store with its checksums.")
    ] = False,
    n_jobs: NJobs = -1,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Show what is in a data file, a store or a model.

    For example:
      dualsweep info rcv1.svm.xz
      dualsweep info rcv1.store --verify
      dualsweep info rcv1.model.npz --json
    """
    with Command(json) as command:
        kind = kind_of(path)
        if verify and kind != "store":
            raise typer.BadParameter(f"--verify applies to stores, and {path} is not one.")
        if kind == "store":
            store = open_store(path)
            facts = _of_store(store)
            if verify:
                try:
                    with command.progress(f"Verifying {path}", store.n_bytes) as watch:
                        store.verify(watch)
                except ValueError as error:
                    command.say(f"Error: {error}")
                    command.code = FAILED
                facts["verified"] = command.code == 0
            if command.code == 0:
                facts |= _of_labels(_count(store.y))
        elif kind == "model":
            facts = _of_model(path)
        elif kind == "svmlight":
            first = first_column(zero_based)
            with command.progress(f"Reading {path}", _size(path)) as watch:
                # Of float32, as it is trained on: a kernel less to compile.
                blocks = iter_svmlight(
                    path, dtype=np.float32, zero_based=first, n_jobs=n_jobs, watch=watch
                )
                facts = _of_text(blocks, zero_based)
        else:
            facts = _of_arrays(*load_data(path, labelled=False))
        command.show(str(path), {"kind": kind, "bytes": _size(path), **facts})


def kind_of(path: Path) -> str:
    """Tell what there is by its content."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_dir():
        return "store"
    if not path.is_file():
        return "svmlight"  # a pipe, from which nothing can be read twice
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if start == MAGIC:
        return "model"
    if start[:2] != b"PK" and path.suffix != ".npz":
        return "svmlight"
    try:
        with zipfile.ZipFile(path) as archive:
            return "model" if "coef.npy" in archive.namelist() else "npz"
    except Exception:  # of all that damaged bytes can raise
        return "npz"  # reading it will say what is wrong


def _size(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def _of_store(store: Store) -> dict[str, Any]:
    return {
        "rows": store.shape[0],
        "features": store.shape[1],
        "entries": store.n_entries,
        "dtype": store.dtype.name,
        "blocks": len(store),
        "bytes": store.n_bytes,
    }


def _of_arrays(X: Matrix, y: Array | None) -> dict[str, Any]:
    sparse = sp.issparse(X)
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "entries": X.nnz if sparse else X.size,
        "layout": "csr" if sparse else "dense",
        "dtype": X.dtype.name,
        **({} if y is None else _of_labels(_count(y))),
    }


def _of_text(blocks: Iterator[Block], zero_based: bool | None) -> dict[str, Any]:
    """Sum up text, block by block."""
    n_rows = n_entries = highest = longest = 0
    lowest = 1
    least, most = np.inf, -np.inf
    labels: Counter[Any] = Counter()
    for block in blocks:
        n_rows += len(block.labels)
        labels += _count(block.labels)
        if len(block.data):
            n_entries += len(block.data)
            lowest, highest = min(lowest, block.lowest), max(highest, block.highest)
            longest = max(longest, int(np.diff(block.indptr).max()))
            least, most = min(least, block.data.min()), max(most, block.data.max())
    first = lowest if zero_based is None else int(not zero_based)
    found: dict[str, Any] = {
        "rows": n_rows,
        "features": highest + 1 - first if n_entries else 0,
        "entries": n_entries,
        "longest_row": longest,
        "first_column": first,
    }
    if n_entries:  # the shortest numbers that float32 stands for, which are what people wrote
        found |= {"least_value": float(str(least)), "largest_value": float(str(most))}
    return found | _of_labels(labels)


def _count(y: Array) -> Counter[Any]:
    values, counts = np.unique(y, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _of_labels(labels: Counter[Any]) -> dict[str, Any]:
    """Return how many labels there are, and if they are few how often each."""
    names = {
        int(label) if isinstance(label, float) and label.is_integer() else label: count
        for label, count in labels.items()
    }
    if len(names) > MOST_CLASSES:
        return {"classes": len(names)}
    return {"classes": len(names), "rows_per_class": dict(sorted(names.items()))}


def _of_model(path: Path) -> dict[str, Any]:
    model = load_model(path)
    found: dict[str, Any] = {
        "format": "npz" if zipfile.is_zipfile(path) else "liblinear",
        "features": model.n_features_in_,
    }
    names = ["loss", "epsilon", "fit_intercept", "intercept"]
    if hasattr(model, "classes_"):
        names[1] = "multi_class"
        found["classes"] = len(model.classes_)
        if len(model.classes_) <= MOST_CLASSES:
            found["labels"] = model.classes_.tolist()
    certified = [name for name in CERTIFICATE if hasattr(model, name)]
    names += [*(["C", "tol"] if certified else []), *certified]
    return found | {name.rstrip("_"): getattr(model, name) for name in names}

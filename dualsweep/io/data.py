"""Rows and labels from a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .._typing import Array, Matrix
from ._checks import blaming, checked_csr, is_count, whole_numbers
from ._npz import read_arrays
from .store import Store, open_store
from .svmlight import load_svmlight

CSR = ("data", "indices", "indptr", "shape")
ZIP_MAGIC = b"PK"


def load_data(
    path: str | Path,
    *,
    n_features: int | None = None,
    labelled: bool = True,
    zero_based: bool | str = "auto",
    n_jobs: int | None = None,
    watch: Callable[[int], None] | None = None,
) -> tuple[Matrix, Array | None]:
    """Read rows and labels from a file.

    Parameters
    ----------
    path : str or Path
        Text in svmlight (LIBSVM) format, plain or compressed; a store; or an .npz file with the
        arrays data, indices, indptr, shape and y (CSR), or X and y (dense).
    n_features : int, default=None
        Number of columns. None means as many as the file has. Entries of text beyond are dropped,
        with a warning; stores and .npz files must have this number.
    labelled : bool, default=True
        Whether an .npz file must have y.
    zero_based : bool or "auto", default="auto"
        Whether columns of text count from 0, or from 1 as LIBSVM does. "auto": from 0 if that
        occurs in the file.
    n_jobs : int, default=None
        Threads that read text. None means 1, -1 all cores.
    watch : callable, default=None
        Called with the number of bytes of the file that have been read, as text is read.

    Returns
    -------
    X : csr_array or ndarray of shape (n_samples, n_features)
        Rows. Values of text are float32.
    y : ndarray of shape (n_samples,) or None
        Labels; integers if the text has no others. None if the file has none.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_dir():
        store = open_store(path)
        check_width(path, store, n_features)
        return store.load()
    if path.is_file():  # not a pipe, from which nothing can be read twice
        with path.open("rb") as file:
            zipped = file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        if zipped or path.suffix == ".npz":
            return _load_npz(path, n_features, labelled)
    X, labels = load_svmlight(
        path, dtype=np.float32, zero_based=zero_based, n_jobs=n_jobs, watch=watch
    )
    assert isinstance(labels, np.ndarray)
    if len(labels) == 0:
        raise ValueError(f"{path} has no rows.")
    if n_features is not None:
        n_lost = X.nnz
        X.resize((X.shape[0], n_features))
        n_lost -= X.nnz
        if n_lost:
            where = f"they are in columns beyond the first {n_features:,}"
            warnings.warn(f"{n_lost:,} entries of {path} are left out: {where}.", stacklevel=2)
    whole = whole_numbers(labels)
    return X, labels if whole is None else whole


def _load_npz(path: Path, n_features: int | None, labelled: bool) -> tuple[Matrix, Array | None]:
    arrays = read_arrays(path, compressed=True)
    dense = "X" in arrays
    needed = (("X",) if dense else CSR) + (("y",) if labelled else ())
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise ValueError(
            f"{path} lacks {', '.join(missing)}; it has {', '.join(arrays) or 'no arrays'}. A "
            "data file has data, indices, indptr, shape and y (CSR), or X and y (dense)."
        )
    X = arrays["X"] if dense else _csr(path, arrays)
    y = arrays.get("y")
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"X in {path} must be a table of numbers, but is {X.dtype} {X.shape}.")
    if y is not None and y.shape != (X.shape[0],):
        raise ValueError(f"{path} has {X.shape[0]} rows, but y of shape {y.shape}.")
    check_width(path, X, n_features)
    return X, y


def check_width(path: Path, X: Matrix | Store, n_features: int | None) -> None:
    """Raise ValueError if `n_features` is given and X has another number."""
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(f"{path} has {X.shape[1]} features instead of {n_features}.")


def _csr(path: Path, arrays: dict[str, Array]) -> sp.csr_array:
    layout = arrays.get("format", np.bytes_(b"csr"))  # as scipy.sparse.save_npz writes it
    if layout.size != 1 or layout.item() not in (b"csr", "csr"):
        raise ValueError(f"{path} has the sparse format {layout!s:.20}; it must be csr.")
    data, indices, indptr, shape = (arrays[name] for name in CSR)
    with blaming(f"{path} has arrays that do not make a CSR matrix"):
        if shape.shape != (2,) or not all(map(is_count, shape.tolist())):
            raise ValueError(f"shape is {shape!s:.50}")
        return checked_csr(data, indices, indptr, tuple(shape.tolist()))

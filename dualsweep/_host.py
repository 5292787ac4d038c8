"""Copies of arrays on the host."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ._typing import DeviceArray, Matrix


def to_host(array: DeviceArray) -> Matrix:
    """Return an array of any library and device as NumPy's; leave SciPy's matrices as they are."""
    if isinstance(array, np.ndarray) or sp.issparse(array) or not hasattr(array, "dtype"):
        return array
    if hasattr(array, "get"):  # CuPy
        return array.get()
    if hasattr(array, "cpu"):  # torch
        return array.detach().cpu().numpy()
    return np.asarray(array)

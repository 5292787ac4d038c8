"""Names for the types of arguments and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# A NumPy array of any shape and dtype; in a kernel, numba's.
Array: TypeAlias = npt.NDArray[Any]

# An integer in a kernel, where its size matters to numba.
Int: TypeAlias = int | np.integer[Any]

# Libraries without static types:
DeviceArray: TypeAlias = Any  # an array of the library of X: CuPy, torch, ...
Namespace: TypeAlias = Any  # such a library's array API namespace
Device: TypeAlias = Any  # one of its devices
DeviceDType: TypeAlias = Any  # one of its dtypes
Sparse: TypeAlias = Any  # a matrix or array of SciPy
Matrix: TypeAlias = Any  # a matrix in host memory, of NumPy or SciPy
NumbaType: TypeAlias = Any  # the type of an argument, while a kernel is compiled

# Dual variables as a problem keeps them: an array, slots, blocks on disk, or a handle to workers.
DualPoint: TypeAlias = Any

# Numbers of rows: an array, or the range of all.
Members: TypeAlias = Any

# Factors of C per class: a number for each label, or "balanced".
ClassWeight: TypeAlias = Mapping[Any, float] | str | None

# Rows, labels or weights as users pass them: arrays, sparse matrices, data frames, lists.
Given: TypeAlias = Any

# A JSON object as Python reads it.
JsonObject: TypeAlias = dict[str, Any]

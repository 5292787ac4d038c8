"""The types that annotations name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# A NumPy array of any shape and dtype; in a kernel, numba's.
Array: TypeAlias = npt.NDArray[Any]

# An integer in a kernel, where its size matters to numba.
Int: TypeAlias = int | np.integer[Any]

# An array of whatever library X is of: CuPy, torch, ... The array API standard has no static type.
DeviceArray: TypeAlias = Any

# The namespace of such a library, one of its devices, and a dtype of it.
Namespace: TypeAlias = Any
Device: TypeAlias = Any
DeviceDType: TypeAlias = Any

# A sparse matrix or array of SciPy, which has no static types.
Sparse: TypeAlias = Any

# A matrix in host memory, of NumPy or SciPy.
Matrix: TypeAlias = Any

# Dual variables as a problem keeps them: an array, slots, blocks on disk, or what is on workers.
DualPoint: TypeAlias = Any

# Numbers of rows: an array, or the range of all.
Members: TypeAlias = Any

# The type of an argument as numba sees it, while a kernel is compiled.
NumbaType: TypeAlias = Any

# What C is multiplied by, per class: a number for each label, or "balanced".
ClassWeight: TypeAlias = Mapping[Any, float] | str | None

# Rows, labels or weights as people pass them: arrays, sparse matrices, data frames, lists.
Given: TypeAlias = Any

# What a JSON object is read as.
JsonObject: TypeAlias = dict[str, Any]

"""The types that annotations name."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

# A NumPy array of any shape and dtype; in a kernel, numba's.
Array: TypeAlias = npt.NDArray[Any]

# An array of whatever library X is of: CuPy, torch, ... The array API standard has no static type.
DeviceArray: TypeAlias = Any

# A sparse matrix or array of SciPy, which has no static types.
Sparse: TypeAlias = Any

# The type of an argument as numba sees it, while a kernel is compiled.
NumbaType: TypeAlias = Any

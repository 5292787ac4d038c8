"""Symmetric matrices of which the lower half counts, and their Cholesky factors by LAPACK.

`scipy.linalg` holds Python's lock, so that factorisations in several threads wait for each other:
those of ten classes of mnist took as long with 16 threads as with one. Here ctypes calls the same
LAPACK without the lock. Matrices are C-ordered: LAPACK, in Fortran's order, sees an upper half.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from numba.extending import get_cython_function_address

from ._jit import jit
from ._typing import Array

_INT, _ARRAY = ctypes.POINTER(ctypes.c_int), ctypes.c_void_p


def _lapack(name: str, *arguments: type) -> Callable[..., None]:
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p, *arguments)(address)


_dpotrf = _lapack("dpotrf", _INT, _ARRAY, _INT, _INT)
_dpotrs = _lapack("dpotrs", _INT, _INT, _ARRAY, _INT, _ARRAY, _INT, _INT)


@jit
def add_lower(matrix: Array, scale: float, out: Array) -> None:
    """Add ``scale * matrix`` to `out`."""
    for i in range(out.shape[0]):
        for j in range(i + 1):
            out[i, j] += scale * matrix[i, j]


def cholesky(matrix: Array) -> bool:
    """Overwrite a matrix's lower half with its factor; return whether it is positive definite."""
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    n, info = ctypes.c_int(len(matrix)), ctypes.c_int()
    _dpotrf(b"U", n, matrix.ctypes.data, n, info)
    return info.value == 0


def regular_cholesky(matrix: Array, ridge: float | Array = 1.0, scale: float = 1.0) -> Array | None:
    """Return the factor of ``scale * matrix + ridge`` in an array of its own, or None.

    `ridge` is added to the diagonal. Where it drowns in the rounding of the matrix, as much is
    added as is needed.
    """
    diagonal = scale * matrix.diagonal()
    for more in (0.0, 1e-14, 1e-11, 1e-8):
        factor = np.zeros(matrix.shape)
        add_lower(matrix, scale, factor)
        factor.flat[:: len(matrix) + 1] = diagonal + (ridge + more * diagonal.max())
        if cholesky(factor):
            return factor
    return None


def cholesky_solve(factor: Array, right: Array) -> Array:
    """Return x with ``matrix x = right``, from the factor of the matrix."""
    solution = np.array(right, np.float64)
    n, one, info = ctypes.c_int(len(factor)), ctypes.c_int(1), ctypes.c_int()
    _dpotrs(b"U", n, one, factor.ctypes.data, n, solution.ctypes.data, n, info)
    return solution

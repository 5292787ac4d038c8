"""Cholesky factors by LAPACK, without Python's lock.

`scipy.linalg.lapack` holds it, so that factorisations in several threads would wait for each other:
those of ten classes of mnist and 16 threads took as long as with one. What Cython code calls is
called here by ctypes, which lets go of it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address

__all__ = ["cholesky", "cholesky_solve", "regular_cholesky"]

_INT, _ARRAY = ctypes.POINTER(ctypes.c_int), ctypes.c_void_p


def _lapack(name: str, *arguments: Any) -> Any:
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p, *arguments)(address)


_dpotrf = _lapack("dpotrf", _INT, _ARRAY, _INT, _INT)
_dpotrs = _lapack("dpotrs", _INT, _INT, _ARRAY, _INT, _ARRAY, _INT, _INT)


def cholesky(matrix: Any) -> bool:
    """Put the factor of a symmetric matrix into its lower half; return whether there is one.

    That is, where the matrix is positive definite. It is C-ordered; its diagonal and its lower half
    are overwritten, and its upper half is not.
    """
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    n, info = ctypes.c_int(len(matrix)), ctypes.c_int()
    _dpotrf(b"U", n, matrix.ctypes.data, n, info)  # LAPACK's order is Fortran's
    return info.value == 0


def regular_cholesky(matrix: Any, ridge: Any = 1.0) -> Any:
    """Return the factor of ``matrix + ridge``, which takes the place of the matrix, or None.

    The ridge is a number or one for each entry of the diagonal. Where it drowns in the rounding of
    the matrix, as much is added as is needed.
    """
    diagonal = matrix.diagonal().copy()
    for more in (0.0, 1e-14, 1e-11, 1e-8):
        if more:  # the lower half, which the attempt before overwrote
            matrix[:] = np.triu(matrix, 1) + np.triu(matrix, 1).T
        matrix.flat[:: len(matrix) + 1] = diagonal + (ridge + more * diagonal.max())
        if cholesky(matrix):
            return matrix
    return None


def cholesky_solve(factor: Any, right: Any) -> Any:
    """Return the solution x of ``matrix x = right``, from the matrix with its factor in it."""
    solution = np.array(right, np.float64)
    n, one, info = ctypes.c_int(len(factor)), ctypes.c_int(1), ctypes.c_int()
    _dpotrs(b"U", n, one, factor.ctypes.data, n, solution.ctypes.data, n, info)
    return solution

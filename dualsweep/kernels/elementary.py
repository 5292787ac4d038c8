"""exp and log in plain arithmetic, so that loops over arrays of them vectorise.

Their errors are some units in the last place: that is enough for steps. Certificates use the C
library's, of which there are bounds.
"""

from __future__ import annotations

from functools import partial
from math import factorial, log

import numpy as np

from .._jit import FUSED_MATH, bits_of, from_bits, jit

# log 2 is LN2_HIGH, of which multiples up to 2^20 are exact, and LN2_LOW, to 17 more digits.
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
PER_LN2 = 1.0 / log(2.0)

# Added to a number, it leaves the nearest integer in the lowest bits.
ROUNDER = 1.5 * 2.0**52
ROUNDER_BITS = np.float64(ROUNDER).view(np.uint64)

# exp underflows to 0 below LOWEST, and is that of HIGHEST above it.
LOWEST, HIGHEST = -708.0, 709.0

# Taylor's series of exp up to log(2) / 2, from its last coefficient on, and that of
# ``log((1 + s) / (1 - s)) / s - 2`` in s^2, up to s = 0.1716.
EXP = tuple(1.0 / factorial(n) for n in range(13, 1, -1))
LOG = tuple(2.0 / (2 * n + 1) for n in range(11, 0, -1))

MANTISSA = np.uint64((1 << 52) - 1)
EXPONENT = np.uint64(52)
ROOT_HALF = np.float64(0.5**0.5).view(np.uint64)  # where mantissas begin
FROM_ONE = np.uint64(np.float64(1.0).view(np.uint64) - ROOT_HALF)
BIAS = 1023.0

inline = partial(jit, forceinline=True, fastmath=FUSED_MATH)


@inline
def quick_exp(x: float) -> float:
    """Return exp(x)."""
    z = min(max(x, LOWEST), HIGHEST)
    rounded = z * PER_LN2 + ROUNDER
    n = rounded - ROUNDER
    r = (z - n * LN2_HIGH) - n * LN2_LOW
    p = EXP[0]
    for c in EXP[1:]:
        p = p * r + c
    p = 1.0 + (r + r * r * p)
    found = from_bits(bits_of(p) + (bits_of(rounded) << EXPONENT))
    return found if x >= LOWEST else 0.0


@inline
def quick_log(x: float) -> float:
    """Return log(x) of a normal number x > 0."""
    bits = bits_of(x) + FROM_ONE
    # The exponent is converted to a float by its bits, since few processors convert vectors.
    n = (from_bits((bits >> EXPONENT) + ROUNDER_BITS) - ROUNDER) - BIAS
    f = from_bits((bits & MANTISSA) + ROOT_HALF) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = LOG[0]
    for c in LOG[1:]:
        p = p * z + c
    return n * LN2_HIGH + ((s * z * p + n * LN2_LOW) + 2.0 * s)

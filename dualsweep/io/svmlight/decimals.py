"""Round decimal numbers to the nearest float.

A number of up to 19 digits is w * 10**q with w below 2**64. Its binary digits are those of
w * 5**q. 64 bits of 5**q suffice to round it, unless the product is so close to the middle between
two floats that the missing bits could decide. That is one number of 16 digits in 2000, which the
caller rounds. (Clinger's and Lemire's method. Their tables of 128 bits leave fewer undecided.)
"""

from __future__ import annotations

import numpy as np

from ..._jit import jit_inline, leading_zeros, load_word, multiply_high, trailing_zeros
from ..._typing import Array

MINUS, PLUS, POINT, ZERO, SMALL_E, LARGE_E = b"-+.0eE"

MAX_DIGITS = 19  # 10**19 < 2**64
MIN_POWER, MAX_POWER = -342, 308  # beyond, a number of 19 digits is beyond float64
MAX_EXACT_POWER = 27  # 5**27 < 2**64


def _powers_of_five() -> tuple[Array, Array]:
    """Return p and e with ``10**q = (p[q] + d) * 2**e[q]``, 2**63 <= p < 2**64 and 0 <= d < 1."""
    tops, exponents = [], []
    for q in range(MIN_POWER, MAX_POWER + 1):
        if q >= 0:
            power, exponent = 5**q << 64, -64
        else:
            exponent = -64 - (5**-q).bit_length()
            power = 2**-exponent // 5**-q
        surplus = power.bit_length() - 64
        tops.append(power >> surplus)
        exponents.append(exponent + surplus + q)
    return np.array(tops, np.uint64), np.array(exponents, np.int64)


FIVES, EXPONENTS = _powers_of_five()
TENS = 10 ** np.arange(8, dtype=np.uint64)


@jit_inline
def float_bits(w: np.uint64, q: np.int64, mantissa: int) -> tuple[np.uint64, bool]:
    """Return the bits of the float nearest to ``w * 10**q``, and whether they are certain.

    `mantissa` is 52 for float64 and 23 for float32. Subnormal and infinite floats are not certain.
    """
    one = np.uint64(1)
    if w == 0:
        return np.uint64(0), True
    if q < MIN_POWER or q > MAX_POWER:
        return np.uint64(0), False
    zeros = leading_zeros(w)
    w <<= zeros
    five = FIVES[q - MIN_POWER]
    # In units of 2**64, the product is at least (high, low) and less than 1 above it.
    high, low = multiply_high(w, five), w * five
    top = high >> np.uint64(63)
    bias = 1023 if mantissa == 52 else 127
    exponent = 126 + np.int64(top) - np.int64(zeros) + EXPONENTS[q - MIN_POWER] + bias
    if exponent < 1 or exponent > 2 * bias:
        return np.uint64(0), False
    # `bits` has the float and one bit more, which says on which side of the middle the rest is.
    shift = top + np.uint64(61 - mantissa)
    bits, mask = high >> shift, (one << shift) - one
    below = high & mask
    up = bits & one
    if 0 <= q <= MAX_EXACT_POWER:  # the product is exact
        if below == 0 and low == 0:  # the middle rounds to even
            up &= bits >> one
    elif up == 0 and below == mask:  # may or may not reach the middle
        return np.uint64(0), False
    return (np.uint64(exponent - 1) << np.uint64(mantissa)) + ((bits + up) >> one), True


@jit_inline
def _eight_digits(digits: np.uint64) -> np.uint64:
    """Return the number that 8 bytes of digits spell, by joining neighbours three times."""
    pairs = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100) + (pairs >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (fours * np.uint64(10_000) + (fours >> np.uint64(32))) & np.uint64(0xFFFFFFFF)


@jit_inline
def _load_digits(text: Array, p: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return 8 bytes less "0" each, and the same bytes with the top bit set where no digit is."""
    digits = load_word(text, p) ^ np.uint64(0x3030303030303030)
    above_9 = (digits & np.uint64(0x7F7F7F7F7F7F7F7F)) + np.uint64(0x7676767676767676)
    return digits, (above_9 | digits) & np.uint64(0x8080808080808080)


@jit_inline
def scan_digits(text: Array, p: np.uint64, w: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Append the digits at `p` to `w`, modulo 2**64, and return it and where they end.

    Eight digits at a time, with no branch on the number of the last: 1080 MB/s instead of 920.
    """
    digits, others = _load_digits(text, p)
    while others == 0:
        w = w * np.uint64(100_000_000) + _eight_digits(digits)
        p += np.uint64(8)
        digits, others = _load_digits(text, p)
    bits = trailing_zeros(others) & np.uint64(0x38)
    n = bits >> np.uint64(3)
    leading = (digits << np.uint64(8)) << (np.uint64(56) - bits)  # a shift by 64 is undefined
    return w * TENS[n] + _eight_digits(leading), p + n


@jit_inline
def _scan_few_digits(text: Array, p: np.uint64, w: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Do as `scan_digits`, but faster for one or two digits, if always as many."""
    ten, zero = np.uint64(10), np.uint64(ZERO)
    digit = np.uint64(text[p]) - zero
    while digit < ten:
        w = w * ten + digit
        p += np.uint64(1)
        digit = np.uint64(text[p]) - zero
    return w, p


@jit_inline
def scan_decimal(
    text: Array, p: np.uint64
) -> tuple[np.uint64, np.int64, bool, np.uint64, np.bool_]:
    """Read the number ``w * 10**q`` at `p`; return w, q, whether it is negative, its end, validity.

    Numbers of more than `MAX_DIGITS` digits, and words like nan, are not valid: Python reads them.
    """
    one = np.uint64(1)
    negative = text[p] == MINUS
    if negative or text[p] == PLUS:
        p += one
    first = p
    w, p = _scan_few_digits(text, p, np.uint64(0))
    n_digits = p - first
    q = np.int64(0)
    if text[p] == POINT:
        p += one
        point = p
        w, p = scan_digits(text, p, w)
        n_digits += p - point
        q = -np.int64(p - point)
    valid = n_digits > 0
    if n_digits > MAX_DIGITS:
        while text[first] == ZERO or text[first] == POINT:
            n_digits -= np.uint64(text[first] == ZERO)
            first += one
        valid = n_digits <= MAX_DIGITS
    if text[p] == SMALL_E or text[p] == LARGE_E:
        p += one
        minus = text[p] == MINUS
        if minus or text[p] == PLUS:
            p += one
        first = p
        e, p = _scan_few_digits(text, p, np.uint64(0))
        valid = valid and first < p < first + np.uint64(6)
        q += -np.int64(e) if minus else np.int64(e)
    return w, q, negative, p, valid

"""The kernel that turns whole lines of svmlight text into the arrays of CSR rows.

Decimal numbers are rounded to the nearest float. A number of up to 19 digits is w * 10**q with w
below 2**64. Its binary digits are those of w * 5**q. 64 bits of 5**q suffice to round it, unless
the product is so close to the middle between two floats that the missing bits could decide. That
is one number of 16 digits in 2000, which the caller rounds. (The method is Clinger's and Lemire's.
Their tables of 128 bits leave fewer undecided.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._jit import jit, jit_inline, leading_zeros, load_word, multiply_high, trailing_zeros
from ..._typing import Array, Int

TAB, NEWLINE, RETURN, SPACE, HASH, COMMA, COLON = b"\t\n\r #,:"
QUERY, FOUR_BYTES = np.uint64(int.from_bytes(b"qid:", "little")), np.uint64(2**32 - 1)

MAX_INDEX_DIGITS = 18  # 10**18 < 2**63
LARGE_LABEL = np.float64(2.0**53).view(np.uint64)  # below, float64 has every integer

DONE, NO_ENTRY, HUGE_INDEX, NOT_INCREASING = range(4)  # why a scan ended

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


class Scan(NamedTuple):
    """What `scan_lines` found."""

    status: int
    at: int  # the byte where a bad entry starts
    n_lines: int
    n_rows: int
    n_entries: int
    n_labels: int
    n_deferred: int
    lowest: int  # index; 2**63 if there are none
    highest: int  # index; -1 if there are none


@jit_inline
def _ends_token(c: int) -> bool:
    """Return True at white space, as Python sees it, and at the start of a comment."""
    return c in (SPACE, HASH) or TAB <= c <= RETURN


@jit_inline
def _next_token(text: Array, p: np.uint64) -> np.uint64:
    """Return where the next token of the line starts, or where the line ends."""
    while text[p] == SPACE or (text[p] != NEWLINE and TAB <= text[p] <= RETURN):
        p += np.uint64(1)
    if text[p] == HASH:
        while text[p] != NEWLINE:
            p += np.uint64(1)
    return p


@jit_inline
def _end_of_token(text: Array, p: np.uint64, stop: int) -> np.uint64:
    """Return where the token ends, or the character `stop` is."""
    while not (_ends_token(text[p]) or text[p] == stop):
        p += np.uint64(1)
    return p


@jit_inline
def _defer(deferred: Array, n: int, place: Int, start: np.uint64, end: np.uint64) -> int:
    if n < deferred.shape[0]:
        deferred[n, 0], deferred[n, 1], deferred[n, 2] = place, start, end
    return n + 1


@jit
def scan_lines(
    text: Array,
    multilabel: bool,
    one_based: bool,
    data: Array,
    indices: Array,
    indptr: Array,
    labels: Array,
    label_ptr: Array,
    deferred: Array,
) -> tuple[int | np.integer, ...]:
    """Fill the arrays with the rows of `text`, up to a bad entry; return the fields of a `Scan`.

    The text ends with a newline, after which any 7 bytes can be read. `data` and `labels` take the
    bits of floats, as unsigned integers. `label_ptr` is used if `multilabel`. Both pointers start
    with 0.

    Python reads the numbers that are not certain here, those that are none, and labels so large
    that float64 may not have them. Each has a row in `deferred`: its place in `data`, or inverted
    in `labels`, and where its text starts and ends. If there are more of them than rows, or indices
    too large for `indices`, the result says so and the arrays are useless.
    """
    one = np.uint64(1)
    mantissa = 52 if data.itemsize == 8 else 23
    sign = np.uint64(8 * data.itemsize - 1)
    p, end = np.uint64(0), np.uint64(text.shape[0])
    k, line, row, n_labels, n_deferred = np.uint64(0), 0, 0, 0, 0
    lowest, highest = np.uint64(2**63), np.int64(-1)
    while p < end:
        line += 1
        p = _next_token(text, p)
        if text[p] == NEWLINE:  # blank
            p += one
            continue

        # With many labels, a line may have none: then its first token is an entry.
        more = not (multilabel and text[_end_of_token(text, p, COLON)] == COLON)
        while more:
            start = p
            w, q, negative, p, valid = scan_decimal(text, p)
            bits, certain = float_bits(w, q, 52)
            labels[n_labels] = bits | np.uint64(negative) << np.uint64(63)
            stop = _end_of_token(text, p, COMMA if multilabel else SPACE)
            if not (valid and certain and p == stop and bits < LARGE_LABEL):
                n_deferred = _defer(deferred, n_deferred, ~n_labels, start, stop)
            n_labels += 1
            more = multilabel and text[stop] == COMMA
            p = stop + np.uint64(more)

        p = _next_token(text, p)
        if load_word(text, p) & FOUR_BYTES == QUERY:  # which groups rows for ranking
            p = _next_token(text, _end_of_token(text, p, SPACE))
        least = np.uint64(one_based)  # the smallest index that may come next
        while text[p] != NEWLINE:
            start = p
            index, p = scan_digits(text, p, np.uint64(0))
            status = DONE
            if p == start or text[p] != COLON:
                status = NO_ENTRY
            elif p - start > MAX_INDEX_DIGITS:
                status = HUGE_INDEX
            elif index < least:
                status = NOT_INCREASING
            if status != DONE:
                return status, start, line, row, k, n_labels, n_deferred, lowest, highest
            indices[k] = index
            least = index + one
            lowest, highest = min(lowest, index), max(highest, np.int64(index))
            # As for a label; one function for both, even if inlined, makes 890 MB/s of 1080.
            start = p + one
            w, q, negative, p, valid = scan_decimal(text, start)
            bits, certain = float_bits(w, q, mantissa)
            data[k] = bits | np.uint64(negative) << sign
            stop = _end_of_token(text, p, SPACE)
            if not (valid and certain and p == stop):
                n_deferred = _defer(deferred, n_deferred, k, start, stop)
            k += one
            p = _next_token(text, stop)
        p += one
        row += 1
        indptr[row] = k
        if multilabel:
            label_ptr[row] = n_labels
    return DONE, p, line, row, k, n_labels, n_deferred, lowest, highest

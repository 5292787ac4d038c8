"""The kernel that turns whole lines of svmlight text into the arrays of CSR rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._jit import jit, jit_inline, load_word
from ..._typing import Array, Int
from .decimals import float_bits, scan_decimal, scan_digits

TAB, NEWLINE, RETURN, SPACE, HASH, COMMA, COLON = b"\t\n\r #,:"
QUERY, FOUR_BYTES = np.uint64(int.from_bytes(b"qid:", "little")), np.uint64(2**32 - 1)

MAX_INDEX_DIGITS = 18  # 10**18 < 2**63
LARGE_LABEL = np.float64(2.0**53).view(np.uint64)  # below, float64 has every integer

DONE, NO_ENTRY, HUGE_INDEX, NOT_INCREASING = range(4)  # why a scan ended


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
def _is_query(text: Array, p: np.uint64) -> bool:
    """Return True at ``qid:``, which groups rows for ranking."""
    return load_word(text, p) & FOUR_BYTES == QUERY


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
        if _is_query(text, p):
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

"""Svmlight text to the arrays of CSR: one walk over the bytes of some whole lines."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._jit import jit, jit_inline
from .decimals import float_bits, scan_decimal, scan_digits

TAB, NEWLINE, RETURN, SPACE, HASH, COMMA, COLON = b"\t\n\r #,:"
QUERY = tuple(b"qid:")

MOST_INDEX_DIGITS = 18  # 10**18 < 2**63

DONE, NO_ENTRY, HUGE_INDEX, NOT_INCREASING = range(4)  # what ended a walk


class Walk(NamedTuple):
    """What `parse_lines` found."""

    status: Any
    at: Any  # the byte where a bad entry starts
    n_lines: Any
    n_rows: Any
    n_entries: Any
    n_labels: Any
    n_hard: Any
    lowest: Any  # of the indices; 2**63 if there are none
    highest: Any


@jit_inline
def _ends_token(c: Any) -> bool:
    """Tell white space, as Python sees it, and the start of a comment."""
    return c in (SPACE, HASH) or TAB <= c <= RETURN


@jit_inline
def _next_token(text: Any, p: Any) -> Any:
    """Return where the next token of the line starts, or else the line ends."""
    while text[p] == SPACE or (text[p] != NEWLINE and TAB <= text[p] <= RETURN):
        p += np.uint64(1)
    if text[p] == HASH:
        while text[p] != NEWLINE:
            p += np.uint64(1)
    return p


@jit_inline
def _has_colon(text: Any, p: Any) -> bool:
    while not _ends_token(text[p]) and text[p] != COLON:
        p += np.uint64(1)
    return text[p] == COLON


@jit_inline
def _end_of_token(text: Any, p: Any, listed: bool) -> Any:
    """Return where the token ends, or before that a comma if it is a list."""
    while not (_ends_token(text[p]) or (listed and text[p] == COMMA)):
        p += np.uint64(1)
    return p


@jit_inline
def _is_query(text: Any, p: Any) -> bool:
    """Tell ``qid:``, which groups rows for ranking."""
    j = np.uint64(0)
    while j < len(QUERY) and text[p + j] == QUERY[j]:
        j += np.uint64(1)
    return j == len(QUERY)


@jit_inline
def _note(hard: Any, n_hard: int, place: int, start: Any, end: Any) -> int:
    if n_hard < hard.shape[0]:
        hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = place, start, end
    return n_hard + 1


@jit
def parse_lines(
    text: Any,
    multilabel: bool,
    one_based: bool,
    data: Any,
    indices: Any,
    indptr: Any,
    labels: Any,
    label_ptr: Any,
    hard: Any,
) -> Walk:
    """Fill the arrays with the rows of `text`, up to a bad entry.

    The text ends with a newline, after which 7 bytes more can be read, whatever they are.

    `data` and `labels` take the bits of floats, as unsigned integers. Numbers that the kernel
    cannot tell are for the caller to read, among them everything that is no number: `hard` gets the
    place in `data`, or that in `labels` inverted, and where the text starts and ends. Should there
    be more of them than fit, or indices too wide for `indices`, the result says so and the arrays
    are useless. Indices count as the text does. A line has one label or, if `multilabel`, any
    number of them with commas between; `label_ptr` is for those, and both pointers start with 0.
    """
    one = np.uint64(1)
    mantissa = 52 if data.itemsize == 8 else 23
    sign = np.uint64(8 * data.itemsize - 1)
    p, end = np.uint64(0), np.uint64(text.shape[0])
    k, line, row, n_labels, n_hard = np.uint64(0), 0, 0, 0, 0
    lowest, highest = np.uint64(2**63), np.uint64(0)
    while p < end:
        line += 1
        p = _next_token(text, p)
        if text[p] == NEWLINE:  # blank
            p += one
            continue

        more = not (multilabel and _has_colon(text, p))
        while more:
            start = p
            w, q, negative, p, told = scan_decimal(text, p)
            bits, sure = float_bits(w, q, 52)
            labels[n_labels] = bits | np.uint64(negative) << np.uint64(63)
            stop = _end_of_token(text, p, multilabel)
            if not (told and sure and p == stop):
                n_hard = _note(hard, n_hard, ~n_labels, start, stop)
            n_labels += 1
            more = multilabel and text[stop] == COMMA
            p = stop + np.uint64(more)

        p = _next_token(text, p)
        if _is_query(text, p):
            p = _next_token(text, _end_of_token(text, p, False))
        least = np.uint64(one_based)  # index that may come next
        while text[p] != NEWLINE:
            start = p
            index, p = scan_digits(text, p, np.uint64(0))
            status = DONE
            if p == start or text[p] != COLON:
                status = NO_ENTRY
            elif p - start > MOST_INDEX_DIGITS:
                status = HUGE_INDEX
            elif index < least:
                status = NOT_INCREASING
            if status != DONE:
                return Walk(status, start, line, row, k, n_labels, n_hard, lowest, highest)
            indices[k] = index
            least = index + one
            lowest, highest = min(lowest, index), max(highest, index)
            # As for a label. Both by a function, even if inlined, is slower: 890 MB/s, not 1080.
            start = p + one
            w, q, negative, p, told = scan_decimal(text, start)
            bits, sure = float_bits(w, q, mantissa)
            data[k] = bits | np.uint64(negative) << sign
            stop = _end_of_token(text, p, False)
            if not (told and sure and p == stop):
                n_hard = _note(hard, n_hard, k, start, stop)
            k += one
            p = _next_token(text, stop)
        p += one
        row += 1
        indptr[row] = k
        if multilabel:
            label_ptr[row] = n_labels
    return Walk(DONE, p, line, row, k, n_labels, n_hard, lowest, highest)

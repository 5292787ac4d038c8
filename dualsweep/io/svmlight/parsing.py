"""Rows from a chunk of svmlight text, or what is wrong with it."""

from __future__ import annotations

from decimal import Decimal
from math import copysign, isfinite
from typing import NamedTuple

import numpy as np

from ..._typing import Array
from .kernel import DONE, HUGE_INDEX, MAX_INDEX_DIGITS, NO_ENTRY, Scan, scan_lines
from .text import Memory

DEFERRED = 4096  # numbers left to Python that a chunk has room for at first
SHOWN = 40  # characters of bad text in an error
EXACT = 2.0**53  # below, float64 has every integer


class Block(NamedTuple):
    """Consecutive rows of a text, as CSR whose indices count as the text does."""

    data: Array
    indices: Array
    indptr: Array
    labels: Array
    label_ptr: Array | None  # where a row's labels start; None if each has one
    lowest: int  # index; 2**63 if there are none
    highest: int  # index; -1 if there are none
    n_lines: int


class MalformedError(Exception):
    """Text that is not svmlight, by line and column of its chunk."""

    def __init__(self, chars: Array, at: int, problem: str) -> None:
        super().__init__(problem)
        text = chars[:at].tobytes()
        self.line = text.count(b"\n") + 1
        self.column = at - text.rfind(b"\n")


def parse_chunk(
    memory: Memory, chars: Array, dtype: np.dtype, one_based: bool, multilabel: bool
) -> Block:
    """Return the rows of some whole lines, in arrays of `memory`."""
    # The shortest entry that the kernel counts is "1: ", the shortest row "1\n", and the shortest
    # list of labels ",\n", which are two.
    n = len(chars)
    data = memory.array("data", n // 3, f"u{dtype.itemsize}")
    indptr = memory.array("indptr", n // 2 + 1, np.int64)
    labels = memory.array("labels", n if multilabel else n // 2, np.uint64)
    label_ptr = memory.array("label_ptr", n // 2 + 1 if multilabel else 1, np.int64)
    indptr[0] = label_ptr[0] = 0
    int32_max = np.iinfo(np.int32).max
    room, wide = DEFERRED, False  # wide: some index needs int64
    while True:
        indices = memory.array("indices", n // 3, np.int64 if wide else np.int32)
        deferred = memory.array("deferred", 3 * room, np.int64).reshape(room, 3)
        arrays = data, indices, indptr, labels, label_ptr, deferred
        scan = Scan(*map(int, scan_lines(chars, multilabel, one_based, *arrays)))
        if scan.n_deferred <= room and (wide or scan.highest <= int32_max):
            break
        room, wide = max(room, scan.n_deferred), scan.highest > int32_max

    data, labels = data.view(dtype), labels.view(np.float64)
    for place, start, end in deferred[: scan.n_deferred].tolist():
        token = chars[start:end].tobytes()
        try:
            if place >= 0:
                data[place] = _read_value(token, dtype)
            else:
                labels[~place] = _read_label(token)
        except ValueError as error:
            raise MalformedError(chars, start, str(error)) from None
    if scan.status != DONE:
        previous = int(indices[scan.n_entries - 1]) if scan.n_entries else None
        raise MalformedError(chars, scan.at, _entry_problem(chars, scan, one_based, previous))
    return Block(
        data[: scan.n_entries],
        indices[: scan.n_entries],
        indptr[: scan.n_rows + 1],
        labels[: scan.n_labels],
        label_ptr[: scan.n_rows + 1] if multilabel else None,
        scan.lowest,
        scan.highest,
        scan.n_lines,
    )


def _read_value(token: bytes, dtype: np.dtype) -> float | np.floating:
    """Return the float nearest to a decimal number of any form that Python takes."""
    try:
        if b"_" in token:  # which Python takes between digits
            raise ValueError
        number = float(token)
    except ValueError:
        raise ValueError(f"{_shown(token)} is not a number.") from None
    if dtype == np.float64 or not isfinite(number):
        return number
    with np.errstate(over="ignore"):
        rounded: np.floating = dtype.type(number)
        # Rounded twice, a number next to the middle between two float32 can end on the wrong side.
        one = float(rounded) if np.isfinite(rounded) else copysign(2.0**128, number)
        other = 2.0 * number - one
        if one != other and float(dtype.type(other)) == other:
            exact, middle = Decimal(token.decode()), Decimal(number)
            if exact != middle:
                rounded = dtype.type(max(one, other) if exact > middle else min(one, other))
    return rounded


def _read_label(token: bytes) -> float:
    """Return a label, if float64 has it: the nearest that it has may be another label."""
    try:
        label = float(_read_value(token, np.dtype(np.float64)))
    except ValueError:
        problem = "is not a label; labels are numbers"
        if b":" in token:
            problem = "is not a label, and a line must start with one"
        elif b"," in token:
            problem = "are several labels where one is expected"
        raise ValueError(f"{_shown(token)} {problem}.") from None
    if isfinite(label):
        exact = abs(label) < EXACT or Decimal(token.decode()) == Decimal(label)
    else:
        exact = token.strip(b"+-").isalpha()  # inf or nan, and not a number too large
    if not exact:
        raise ValueError(
            f"float64 does not have the label {_shown(token)}; the nearest that it has is "
            f"{label:.17g}."
        )
    return label


def _entry_problem(chars: Array, scan: Scan, one_based: bool, previous: int | None) -> str:
    """Return what is wrong with the entry that ended the scan."""
    token = chars[scan.at : scan.at + 1000].tobytes().split(maxsplit=1)[0].partition(b"#")[0]
    if scan.status == NO_ENTRY:
        return f"{_shown(token)} is not index:value."
    if scan.status == HUGE_INDEX:
        return f"The index of {_shown(token)} has more than {MAX_INDEX_DIGITS} digits."
    index = int(token.partition(b":")[0])
    if index == 0 and one_based:
        return "Index 0, but the first column is said to have index 1."
    return f"Index {index} comes after {previous}, but indices must increase along a line."


def _shown(token: bytes) -> str:
    text = token[: SHOWN + 1].decode(errors="replace")
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")

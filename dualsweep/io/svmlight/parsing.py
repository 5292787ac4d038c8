"""Rows from a chunk of svmlight text, or what is wrong with it."""

from __future__ import annotations

from decimal import Decimal
from math import copysign, isfinite
from typing import Any, NamedTuple

import numpy as np

from .kernel import DONE, HUGE_INDEX, MOST_INDEX_DIGITS, NO_ENTRY, Walk, parse_lines
from .text import Slot

HARD = 4096  # numbers left to Python that a chunk has room for at first
SHOWN = 40  # characters of bad text in an error
EXACT = 2.0**53  # below, float64 has every integer


class Block(NamedTuple):
    """Consecutive rows of a text, as CSR whose indices count as the text does."""

    data: Any
    indices: Any
    indptr: Any
    labels: Any
    label_ptr: Any  # where a row's labels start; None if each has one
    lowest: int  # index, 2**63 if there are none
    highest: int  # index, 0 if there are none
    n_lines: int


def parse_chunk(slot: Slot, chars: Any, dtype: Any, one_based: bool, multilabel: bool) -> Block:
    """Return the rows of some whole lines, in the memory of the slot."""
    # The shortest entry that the walk counts is "1: ", the shortest row "1\n", and the shortest
    # list of labels ",\n", which are two.
    n = len(chars)
    data = slot.array("data", n // 3, f"u{dtype.itemsize}")
    indptr = slot.array("indptr", n // 2 + 1, np.int64)
    labels = slot.array("labels", n if multilabel else n // 2, np.uint64)
    label_ptr = slot.array("label_ptr", n // 2 + 1 if multilabel else 1, np.int64)
    indptr[0] = label_ptr[0] = 0
    index_type: Any = np.int32
    n_hard = HARD
    while True:
        indices = slot.array("indices", n // 3, index_type)
        hard = slot.array("hard", 3 * n_hard, np.int64).reshape(n_hard, 3)
        walk = parse_lines(
            chars, multilabel, one_based, data, indices, indptr, labels, label_ptr, hard
        )
        if walk.n_hard <= n_hard and walk.highest <= np.iinfo(index_type).max:
            break
        if walk.highest > np.iinfo(index_type).max:
            index_type = np.int64
        n_hard = max(n_hard, walk.n_hard)

    data, labels = data.view(dtype), labels.view(np.float64)
    for place, start, end in hard[: walk.n_hard].tolist():
        token = chars[start:end].tobytes()
        try:
            if place >= 0:
                data[place] = _nearest(token, dtype)
            else:
                labels[~place] = _nearest(token, labels.dtype)
        except ValueError:
            problem = "is not a number" if place >= 0 else _label_problem(token)
            raise MalformedError(chars, start, f"{_shown(token)} {problem}.") from None
    if walk.status != DONE:
        previous = indices[walk.n_entries - 1] if walk.n_entries else None
        raise MalformedError(chars, walk.at, _entry_problem(chars, walk, one_based, previous))
    labels = labels[: walk.n_labels]
    if (np.abs(labels) >= EXACT).any():
        _refuse_inexact(chars, labels, multilabel)
    return Block(
        data[: walk.n_entries],
        indices[: walk.n_entries],
        indptr[: walk.n_rows + 1],
        labels,
        label_ptr[: walk.n_rows + 1] if multilabel else None,
        walk.lowest,
        walk.highest,
        walk.n_lines,
    )


def _nearest(token: bytes, dtype: Any) -> Any:
    """Return the float that is nearest to a decimal number of any form that Python takes."""
    if b"_" in token:
        raise ValueError("an underscore is not a digit here")
    number = float(token)
    if dtype == np.float64 or not isfinite(number):
        return number
    with np.errstate(over="ignore"):
        rounded = dtype.type(number)
        # Rounded twice, a number next to the middle between two float32 can end on the wrong side.
        one = float(rounded) if np.isfinite(rounded) else copysign(2.0**128, number)
        other = 2.0 * number - one
        if one != other and float(dtype.type(other)) == other:
            exact, middle = Decimal(token.decode()), Decimal(number)
            if exact > middle:
                return dtype.type(max(one, other))
            if exact < middle:
                return dtype.type(min(one, other))
    return rounded


def _refuse_inexact(chars: Any, labels: Any, multilabel: bool) -> None:
    """Refuse a label so large that the float64 nearest to it may be another label."""
    start, numbers = 0, iter(labels.tolist())
    for line in chars.tobytes().split(b"\n"):
        first = line.partition(b"#")[0].split(maxsplit=1)[:1]
        if first and not (multilabel and b":" in first[0]):
            at = start + line.index(first[0])
            for label in first[0].split(b",") if multilabel else first:
                number = next(numbers)
                if abs(number) >= EXACT and not _is_exactly(label, number):
                    raise MalformedError(
                        chars,
                        at,
                        f"float64 does not have the label {_shown(label)}; the nearest that it has "
                        f"is {number:.17g}.",
                    )
                at += len(label) + 1
        start += len(line) + 1


def _is_exactly(token: bytes, number: float) -> bool:
    if not isfinite(number):
        return token.strip(b"+-").isalpha()  # inf, and not a number too large
    return Decimal(token.decode()) == Decimal(number)


class MalformedError(Exception):
    """Text that is not svmlight, by line and column of some chunk."""

    def __init__(self, chars: Any, at: int, problem: str) -> None:
        super().__init__(problem)
        text = chars[:at].tobytes()
        self.line = text.count(b"\n") + 1
        self.column = at - text.rfind(b"\n")


def _label_problem(token: bytes) -> str:
    if b":" in token:
        return "is not a label, and a line must start with one"
    if b"," in token:
        return "are several labels where one is expected"
    return "is not a label; labels are numbers"


def _entry_problem(chars: Any, walk: Walk, one_based: bool, previous: Any) -> str:
    """Say what is wrong with an entry."""
    token = chars[walk.at : walk.at + 1000].tobytes().split(maxsplit=1)[0].partition(b"#")[0]
    if walk.status == NO_ENTRY:
        return f"{_shown(token)} is not index:value."
    if walk.status == HUGE_INDEX:
        return f"The index of {_shown(token)} has more than {MOST_INDEX_DIGITS} digits."
    index = int(token.partition(b":")[0])
    if index == 0 and one_based:
        return "Index 0, but the first column is said to have index 1."
    return f"Index {index} comes after {previous}, but indices must increase along a line."


def _shown(token: bytes) -> str:
    text = token[: SHOWN + 1].decode(errors="replace")
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")

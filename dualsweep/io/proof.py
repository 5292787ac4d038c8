"""Proofs in files: text that an independent program can check; see docs/proofs.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._typing import Array
from ._files import atomic_file

FORMAT = 1
LINES = 1 << 16  # formatted at a time


class ProvenProblem(NamedTuple):
    """A problem, the claim about it, and the model and dual point that prove it."""

    number: int  # of the class that is against the rest, else 0
    primal: float
    dual: float
    coef: Array  # a row of weights for each vector
    intercept: Array
    duals: list[tuple[Array, Array]]  # rows and values of each vector


def write_proof(
    path: Path,
    about: dict[str, str],
    C: float,
    cost: Array,
    problems: Iterable[ProvenProblem],
    *,
    force: bool,
) -> None:
    """Write a proof, which appears complete or not at all, with one problem in memory at a time."""
    with atomic_file(path, force=force) as file:
        for text in _texts(about, C, cost, problems):
            file.write(text.encode("ascii"))


def _texts(
    about: dict[str, str], C: float, cost: Array, problems: Iterable[ProvenProblem]
) -> Iterator[str]:
    """Yield the text of a proof, some lines at a time."""
    yield f"dualsweep-proof {FORMAT}\n"
    for name, words in about.items():
        yield f"{name} {words}\n" if words else f"{name}\n"
    yield f"C {C!r}\n"
    other = np.flatnonzero(cost != C)
    yield from _section("costs", other, cost[other])
    for problem in problems:
        yield f"problem {problem.number}\nprimal {problem.primal!r}\ndual {problem.dual!r}\n"
        vectors = zip(problem.coef, problem.intercept.tolist(), problem.duals, strict=True)
        for m, (w, b, duals) in enumerate(vectors):
            yield f"vector {m}\nintercept {b!r}\n"
            columns = np.flatnonzero(w)
            yield from _section("weights", columns, w[columns])
            yield from _section("duals", *duals)
    yield "end\n"


def _section(name: str, places: Array, values: Array) -> Iterator[str]:
    yield f"{name} {len(places)}\n"
    for start in range(0, len(places), LINES):
        some = slice(start, start + LINES)
        pairs = zip(places[some].tolist(), values[some].tolist(), strict=True)
        yield "".join([f"{place} {value!r}\n" for place, value in pairs])

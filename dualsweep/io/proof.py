"""Proofs in files: text that an independent program can check; see docs/proofs.md."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

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
        _line(file, "dualsweep-proof", FORMAT)
        for name, words in about.items():
            _line(file, name, *([words] if words else []))
        _line(file, "C", repr(C))
        other = np.flatnonzero(cost != C)
        _section(file, "costs", other, cost[other])
        for problem in problems:
            _line(file, "problem", problem.number)
            _line(file, "primal", repr(problem.primal))
            _line(file, "dual", repr(problem.dual))
            vectors = zip(problem.coef, problem.intercept.tolist(), problem.duals, strict=True)
            for m, (w, b, duals) in enumerate(vectors):
                _line(file, "vector", m)
                _line(file, "intercept", repr(b))
                columns = np.flatnonzero(w)
                _section(file, "weights", columns, w[columns])
                _section(file, "duals", *duals)
        _line(file, "end")


def _line(file: IO[bytes], *words: object) -> None:
    file.write(" ".join(map(str, words)).encode("ascii") + b"\n")


def _section(file: IO[bytes], name: str, places: Array, values: Array) -> None:
    _line(file, name, len(places))
    for start in range(0, len(places), LINES):
        some = slice(start, start + LINES)
        pairs = zip(places[some].tolist(), values[some].tolist(), strict=True)
        file.write("".join([f"{place} {value!r}\n" for place, value in pairs]).encode("ascii"))

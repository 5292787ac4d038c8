"""Proofs in files: text that an independent program can check; see docs/proofs.md."""

from __future__ import annotations

from collections.abc import Iterable
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
) -> list[tuple[float, float]]:
    """Write a proof, which appears complete or not at all; return the bounds of its problems.

    One problem is in memory at a time.
    """
    bounds = []
    with atomic_file(path, force=force) as file:

        def write(text: str) -> None:
            file.write(text.encode("ascii"))

        def write_section(name: str, places: Array, values: Array) -> None:
            write(f"{name} {len(places)}\n")
            for start in range(0, len(places), LINES):
                some = slice(start, start + LINES)
                pairs = zip(places[some].tolist(), values[some].tolist(), strict=True)
                write("".join([f"{place} {value!r}\n" for place, value in pairs]))

        write(f"dualsweep-proof {FORMAT}\n")
        for name, words in about.items():
            write(f"{name} {words}\n" if words else f"{name}\n")
        write(f"C {C!r}\n")
        other = np.flatnonzero(cost != C)
        write_section("costs", other, cost[other])
        for problem in problems:
            bounds.append((problem.primal, problem.dual))
            write(f"problem {problem.number}\nprimal {problem.primal!r}\ndual {problem.dual!r}\n")
            vectors = zip(problem.coef, problem.intercept.tolist(), problem.duals, strict=True)
            for m, (w, b, duals) in enumerate(vectors):
                write(f"vector {m}\nintercept {b!r}\n")
                columns = np.flatnonzero(w)
                write_section("weights", columns, w[columns])
                write_section("duals", *duals)
        write("end\n")
    return bounds

"""Time the block steps alone, from 3 to 10,000 classes, against a general-purpose QP solver.

Each step solves random instances, from zero, and is compared with the exact step by its time and by
the largest deviation of any entry, relative to the bound. A spread-out instance has entries of
normal distribution with standard deviation 10, so that few dual variables end up between their
bounds; the entries of a flat one differ by some 1 %, as when a row is first visited.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from time import thread_time
from typing import Any

import numba
import numpy as np
import pandas as pd
import piqp
import scipy.sparse as sp
from ratios import markdown, publish
from steps.active_set import active_set_step
from steps.greedy import ACCURACY, greedy_step

from dualsweep.kernels.block_steps import crammer_singer_level, weston_watkins_level

UPPER = 1.0
EXACT = "exact"
INSTANCES = {
    "spread": lambda rng, shape: rng.normal(0.0, 10.0, shape),
    "flat": lambda rng, shape: rng.normal(1.0, 0.01, shape),
}

jit = numba.njit(error_model="numpy")


@jit
def exact_weston_watkins(v, b, scratch):
    level = weston_watkins_level(v, len(v), UPPER, 0.0, scratch)
    for m in range(len(v)):
        b[m] = min(max(v[m] - level, 0.0), UPPER)


@jit
def exact_crammer_singer(v, b, scratch):
    top = v.max()
    for m in range(len(v)):
        b[m] = v[m] - top
    level = crammer_singer_level(b, len(b), top, UPPER, scratch)
    for m in range(len(v)):
        b[m] = max(b[m] - level, 0.0)


@jit
def weston_watkins_active_set(v, b, scratch):
    active_set_step(v, UPPER, False, b)


@jit
def crammer_singer_active_set(v, b, scratch):
    active_set_step(v, UPPER, True, b)


@jit
def weston_watkins_greedy(v, b, scratch):
    scratch[:] = v
    greedy_step(scratch, 1.0, UPPER, ACCURACY, b)


def one_by_one(step: Any) -> Callable[[Any], Any]:
    """Return a function that solves the instances in the rows of V, without Python in between."""

    @jit
    def loop(V, B, scratch):
        for i in range(len(V)):
            step(V[i], B[i], scratch)

    def solve_all(V: Any) -> Any:
        B = np.zeros_like(V)
        loop(V, B, np.empty(V.shape[1]))
        return B

    return solve_all


@lru_cache
def program_but_for_v(n: int, joint: bool) -> dict[str, Any]:
    """Return the program min 1/2 (|b|^2 + s^2) - v.b, s = sum b, but for v: sparse, due to s."""
    return {
        "P": sp.identity(n + 1, format="csc"),
        "A": sp.csc_matrix(np.append(np.ones(n), -1.0)[None]),
        "b": np.zeros(1),
        "x_l": np.append(np.zeros(n), -np.inf),
        "x_u": np.append(np.full(n, np.inf if joint else UPPER), UPPER if joint else np.inf),
    }


def quadratic_program(joint: bool) -> Callable[[Any], Any]:
    """Return a function that solves the instances in the rows of V by PIQP."""

    def solve_all(V: Any) -> Any:
        B = np.empty_like(V)
        for v, b in zip(V, B, strict=True):
            program = piqp.SparseSolver()
            program.setup(c=np.append(-v, 0.0), **program_but_for_v(len(v), joint))
            program.solve()
            b[:] = program.result.x[:-1]
        return B

    return solve_all


CONTENDERS = {
    "weston_watkins": {
        EXACT: one_by_one(exact_weston_watkins),
        "active set": one_by_one(weston_watkins_active_set),
        "greedy": one_by_one(weston_watkins_greedy),
        "QP solver": quadratic_program(joint=False),
    },
    "crammer_singer": {
        EXACT: one_by_one(exact_crammer_singer),
        "active set": one_by_one(crammer_singer_active_set),
        "QP solver": quadratic_program(joint=True),
    },
}


def measure(
    loss: str, kind: str, ks: Sequence[int], instances: int, repeats: int, cap: float
) -> pd.DataFrame:
    """One row per k: microseconds per instance, and largest deviations from the exact step.

    A contender whose instances took more than `cap` seconds is not asked for larger k.
    """
    rows, left = [], dict(CONTENDERS[loss])
    for k in sorted(ks):
        V = INSTANCES[kind](np.random.default_rng(k), (instances, k - 1))
        exact = left[EXACT](V)
        times, deviations = {}, {}
        for name, solve_all in list(left.items()):
            solve_all(V[:1])  # compiles, and builds matrices
            seconds = math.inf
            for _ in range(repeats):
                began = thread_time()
                B = solve_all(V)
                seconds = min(seconds, thread_time() - began)
                if seconds > cap:
                    del left[name]
                    break
            times[name] = 1e6 * seconds / instances
            if name != EXACT:
                deviations[f"{name} off by"] = np.abs(B - exact).max() / UPPER
        rows.append({"loss": loss, "instances": kind, "k": k, **times, **deviations})
    return pd.DataFrame(rows)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loss", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--instances", nargs="+", choices=INSTANCES, default=list(INSTANCES))
    parser.add_argument(
        "--k", nargs="+", type=int, default=[3, 10, 30, 100, 300, 1000, 3000, 10_000]
    )
    parser.add_argument("--number", type=int, default=100, help="of instances, for each k")
    parser.add_argument("--repeats", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--cap", type=float, default=10.0, help="seconds for the instances of a k")
    parser.add_argument("--table", type=Path, help="also write the tables to this file")
    args = parser.parse_args(argv)

    text = "Microseconds per block step, and the largest deviation from the exact step.\n"
    for loss in args.loss:
        for kind in args.instances:
            table = measure(loss, kind, args.k, args.number, args.repeats, args.cap)
            text += f"\n{markdown(table)}"
    publish(text, args.table)


if __name__ == "__main__":
    main()

"""Directions of Newton steps, for many problems at once: conjugate gradients, or a factorisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .iterate import Iterate

__all__ = ["conjugate_gradients", "direct", "direct_worth"]

# Conjugate gradients end where the residual is this part of the gradient, or smaller.
FORCING = 0.2

# Problems that are done leave where at most this part of them is not.
LEAVE = 0.7

# Products of a matrix with fewer columns take as long as with this many: they wait for memory.
FEW_COLUMNS = 50

# Rows of a Gram matrix that are gathered at a time hold so many numbers.
GATHERED = 1 << 26

# A Hessian is made only of so many weights.
DIRECT_WEIGHTS = 4096


def direct_worth(it: Iterate) -> float:
    """Return how many steps of conjugate gradients take as long as a direct step of every problem.

    That multiplies n x d with d x n entries per problem; they multiply n x d with d x 1 twice, but
    with few problems wait for memory.
    """
    d, k = it.rows.n_weights, it.terms.n_classes
    if it.terms.n_problems < it.terms.n_classes or d > DIRECT_WEIGHTS:
        return np.inf
    return 0.5 * d * k / max(k, FEW_COLUMNS)


def conjugate_gradients(
    it: Iterate, wanted: Any, most: float, stop: Callable[[], bool]
) -> tuple[Any, Any]:
    """Solve ``Hessian p = -gradient`` for the problems that are wanted.

    Returns the directions, and which problems took as many steps as they may.
    """
    xp, terms = it.space.xp, it.terms
    diagonal = it.diagonal()
    active = it.space.asarray(wanted)
    residual = xp.where(active, xp.astype(-it.gradient, it.dtype), it.zero)
    solution = xp.zeros_like(residual)
    free = it.free
    places = np.arange(terms.n_problems)  # which problems are left
    finished: list[tuple[Any, Any]] = []
    enough = FORCING**2 * terms.dots(residual, residual / diagonal)
    scaled = residual / diagonal
    size = terms.dots(residual, scaled)
    p, steps = scaled, 0
    while True:
        product = it.hessian_product(terms, free, p)
        curved = terms.dots(p, product)
        length = xp.where(active & (curved > 0), size / curved, xp.zeros_like(size))
        solution += length * p
        residual -= length * product
        scaled = residual / diagonal
        before, size = size, terms.dots(residual, scaled)
        active = active & (size > enough) & (length > 0)
        steps += 1
        left = it.space.numpy(active)
        n_left = int(left.sum())
        if n_left == 0 or steps >= most or stop():
            break
        if n_left <= LEAVE * len(left) and terms.n_problems > 1:
            stay, go = np.flatnonzero(left), np.flatnonzero(~left)
            index = it.space.asarray(stay)
            finished.append((places[go], xp.take(solution, it.space.asarray(go), axis=1)))
            places, terms = places[stay], terms.some(index)
            free = it.columns(free, index)
            p, scaled, residual, solution, diagonal = (
                xp.take(each, index, axis=1) for each in (p, scaled, residual, solution, diagonal)
            )
            size, before, enough, active = (
                xp.take(each, index, axis=0) for each in (size, before, enough, active)
            )
        p = scaled + xp.where(active, size / before, xp.zeros_like(size)) * p
    it.n_products += steps
    short = np.zeros(it.terms.n_problems, bool)
    short[places[left]] = True
    if not finished:
        return solution, short
    finished.append((places, solution))
    order = np.argsort(np.concatenate([numbers for numbers, _ in finished]))
    whole = xp.concat([columns for _, columns in finished], axis=1)
    return xp.take(whole, it.space.asarray(order), axis=1), short


def direct(it: Iterate, wanted: Any, stop: Callable[[], bool]) -> Any:
    """Solve ``Hessian p = -gradient`` of one-versus-rest problems by factorisations, in float64.

    The directions of problems that are not wanted are 0.
    """
    xp, d = it.space.xp, it.rows.n_weights
    step = max(GATHERED // d, 1)
    out = xp.zeros_like(it.gradient)
    for problem in np.flatnonzero(wanted):
        scale = it.free[:, int(problem)]
        places = xp.nonzero(scale > 0)[0]
        hessian = xp.eye(d, dtype=xp.float64, device=it.space.device)
        for start in range(0, places.shape[0], step):
            chunk = places[start : start + step]
            Z = it.rows.some(chunk)
            factors = xp.astype(xp.take(scale, chunk, axis=0), xp.float64, copy=False)
            hessian += (Z * factors[:, None]).T @ Z
            if stop():
                return out
        gradient = it.gradient[:, int(problem)]
        out[:, int(problem)] = -xp.linalg.solve(hessian, gradient[:, None])[:, 0]
    return out

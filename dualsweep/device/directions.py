"""Directions of Newton steps for many problems at once: conjugate gradients or factorisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .iterate import Iterate

# Conjugate gradients end where the residual is this part of the gradient, or smaller.
FORCING = 0.2

# Problems that are done leave where at most this part of them is not.
LEAVE = 0.7

# Products of a matrix with fewer columns take as long as with this many: they wait for memory.
FEW_COLUMNS = 50

# Rows of a Gram matrix that are gathered at a time hold so many numbers.
GATHERED = 1 << 26

# Parts of its diagonal that are added to a Hessian that is singular as far as rounding tells: where
# features repeat each other and costs are large, the identity drowns in the rest.
REGULAR = 1e-14, 1e-11, 1e-8

# A Hessian is made only of so many weights: of a class, or of all where they are one problem.
DIRECT_WEIGHTS, DIRECT_WEIGHTS_TOGETHER = 4096, 10_000


def direct_worth(it: Iterate) -> float:
    """Return how many steps of conjugate gradients take as long as a direct step of every problem.

    That multiplies n x d with d x n entries per class, or, of all classes at once, per pair of
    classes that share rows, about as many; and factorises. Conjugate gradients multiply n x d with
    d x k entries twice, but for few classes wait for memory.
    """
    n, d, k = it.rows.n_rows, it.rows.n_weights, it.terms.n_classes
    together = it.terms.n_problems < k
    many = (d * k if together else d) > (DIRECT_WEIGHTS_TOGETHER if together else DIRECT_WEIGHTS)
    if many or it.rows.spilled:  # a Hessian takes whole columns
        return np.inf
    product = 2.0 * n * d * max(k, FEW_COLUMNS)
    factor = (d * k) ** 3 / 3 if together else k * d**3 / 3
    return (n * d**2 * k + factor) / product


def conjugate_gradients(
    it: Iterate, wanted: Any, most: float, stop: Callable[[], bool]
) -> tuple[Any, Any]:
    """Solve ``Hessian p = -gradient`` for the problems that are wanted, by rough products.

    Returns the directions, and which problems took as many steps as they may.
    """
    with it.space.products(rough=True):
        return _conjugate_gradients(it, wanted, most, stop)


def _conjugate_gradients(
    it: Iterate, wanted: Any, most: float, stop: Callable[[], bool]
) -> tuple[Any, Any]:
    xp, terms = it.space.xp, it.terms
    diagonal = it.diagonal()
    active = it.space.asarray(wanted)
    residual = xp.where(active, xp.astype(-it.gradient, it.dtype), it.zero)
    solution = xp.zeros_like(residual)
    free = it.free
    places = np.arange(terms.n_problems)  # which problems are left
    finished: list[tuple[Any, Any]] = []
    p = residual / diagonal
    size = terms.dots(residual, p)
    enough, steps = FORCING**2 * size, 0
    while True:
        left = it.space.numpy(active)
        n_left = int(left.sum())
        if n_left == 0 or steps >= most or stop():
            break
        if n_left <= LEAVE * len(left) and terms.n_problems > 1:
            stay, go = np.flatnonzero(left), np.flatnonzero(~left)
            index = it.space.asarray(stay)
            finished.append((places[go], xp.take(solution, it.space.asarray(go), axis=1)))
            places, left, terms = places[stay], left[stay], terms.some(index)
            free = it.columns(free, index)
            p, residual, solution, diagonal = (
                xp.take(each, index, axis=1) for each in (p, residual, solution, diagonal)
            )
            size, enough, active = (xp.take(each, index, axis=0) for each in (size, enough, active))
        product = it.hessian_product(terms, free, p)
        length = _ratio(xp, size, terms.dots(p, product), active)
        solution += length * p
        residual -= length * product
        scaled = residual / diagonal
        before, size = size, terms.dots(residual, scaled)
        active = active & (size > enough)
        p = scaled + _ratio(xp, size, before, active) * p
        steps += 1
    it.n_products += steps
    short = np.zeros(it.terms.n_problems, bool)
    short[places[left]] = True
    if not finished:
        return solution, short
    finished.append((places, solution))
    order = np.argsort(np.concatenate([numbers for numbers, _ in finished]))
    whole = xp.concat([columns for _, columns in finished], axis=1)
    return xp.take(whole, it.space.asarray(order), axis=1), short


def _ratio(xp: Any, a: Any, b: Any, chosen: Any) -> Any:
    """Return a / b where that is chosen and b positive, elsewhere 0."""
    chosen = chosen & (b > 0)
    return xp.where(chosen, a / xp.where(chosen, b, xp.ones_like(b)), xp.zeros_like(a))


def direct(it: Iterate, wanted: Any, stop: Callable[[], bool]) -> Any:
    """Solve ``Hessian p = -gradient`` by factorisations, in float64.

    The directions of problems that are not wanted are 0, as are all if told to stop.
    """
    out = it.space.xp.zeros_like(it.gradient)
    if it.terms.n_problems < it.terms.n_classes:
        return _direct_together(it, out, stop)
    for problem in np.flatnonzero(wanted).tolist():
        hessian = _gram(it, it.free[:, problem], stop)
        if stop():
            break
        out[:, problem] = _solved(it, hessian, it.gradient[:, problem])
    return out


def _direct_together(it: Iterate, out: Any, stop: Callable[[], bool]) -> Any:
    """Fill in the direction of one problem over all classes."""
    xp, d, k = it.space.xp, it.rows.n_weights, it.terms.n_classes
    hessian = it.space.empty((d * k, d * k), xp.float64)
    for a in range(k):
        for c in range(a + 1):
            block = _gram(it, it.terms.pair(it.free, it.bound, a, c), stop)
            hessian[a * d : (a + 1) * d, c * d : (c + 1) * d] = block
            hessian[c * d : (c + 1) * d, a * d : (a + 1) * d] = block
            if stop():
                return out
    direction = _solved(it, hessian, xp.reshape(it.gradient.T, (-1,)))
    return xp.reshape(direction, (k, d)).T


def _gram(it: Iterate, scale: Any, stop: Callable[[], bool]) -> Any:
    """Return ``sum_i scale_i x_i x_i'``; anything if told to stop."""
    xp, d = it.space.xp, it.rows.n_weights
    step = max(GATHERED // d, 1)
    places = xp.nonzero(scale)[0]
    out = it.space.zeros((d, d), xp.float64)
    for start in range(0, places.shape[0], step):
        chunk = places[start : min(start + step, places.shape[0])]
        Z = it.rows.some(chunk)
        factors = xp.astype(xp.take(scale, chunk, axis=0), xp.float64, copy=False)
        out += (Z * factors[:, None]).T @ Z
        if stop():
            break
    return out


def _solved(it: Iterate, hessian: Any, gradient: Any) -> Any:
    """Return ``-(I + hessian)^-1 gradient``, or another direction that descends.

    The Hessian is changed. Where it is singular, or the direction leads up, more is added to its
    diagonal, until nothing but the gradient is left.
    """
    xp = it.space.xp
    eye = xp.eye(hessian.shape[0], dtype=xp.float64, device=it.space.device)
    diagonal = xp.asarray(xp.linalg.diagonal(hessian), copy=True)
    hessian += eye
    for more in (0.0, *REGULAR):
        if more:
            hessian += eye * (more * diagonal)
        try:
            direction = -xp.linalg.solve(hessian, gradient[:, None])[:, 0]
        except Exception as error:  # each library has an error of its own, or none at all
            if "LinAlgError" not in type(error).__name__:
                raise
            continue
        if bool(xp.all(xp.isfinite(direction))) and bool(xp.sum(gradient * direction) <= 0):
            return direction
    return -gradient

"""Preconditioned conjugate gradients for the directions of several problems at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import Array, DeviceArray, Namespace
from .backend import Hessian
from .tuning import Tuning


def conjugate_gradients(
    hessian: Hessian,
    gradient: DeviceArray,
    wanted: Array,
    left: Array,
    most: float,
    tuning: Tuning,
    stop: Callable[[], bool],
) -> tuple[DeviceArray, Array]:
    """Solve ``Hessian p = -gradient`` for the problems that are wanted.

    Parameters
    ----------
    hessian : Hessian
        Products, the preconditioner and dot products.
    gradient : array
        The right sides, with their sign turned.
    wanted : array of bool
        Which problems; the others get 0.
    left : array
        The part of each gradient, as the preconditioner measures it, that may be left.
    most : float
        Steps to give up after.
    tuning : Tuning
        Whether more has to be solved as gradients become small, and when problems leave.
    stop : callable
        Returns whether to give up at once.

    Returns
    -------
    array, array of bool
        The solutions, and which of them are not as accurate as they were to be.
    """
    xp = hessian.xp
    active = hessian.asarray(wanted)
    residual = hessian.rounded(xp.where(active, -gradient, xp.zeros_like(gradient)))
    solution = xp.zeros_like(residual)
    scaled = p = hessian.precondition(residual)
    size = hessian.dots(residual, scaled)
    forcing = hessian.asarray(left**2, size.dtype)
    enough = size * (xp.minimum(forcing, size) if tuning.superlinear else forcing)
    places, done = np.arange(len(wanted)), []
    steps = 0
    while True:
        going = hessian.numpy(active)
        if not going.any() or steps >= most or stop():
            break
        if going.sum() <= tuning.cg_leave * len(going) and len(going) > 1:
            stay, go = np.flatnonzero(going), np.flatnonzero(~going)
            done.append((places[go], hessian.take(solution, go, 1)))
            places, going = places[stay], going[stay]
            p, residual, solution = (hessian.take(a, stay, 1) for a in (p, residual, solution))
            size, enough, active = (hessian.take(a, stay, 0) for a in (size, enough, active))
            hessian = hessian.keep(stay)
        product = hessian.product(p)
        curvature = hessian.dots(p, product)
        flat = active & ~(curvature > 0)
        active = active & ~flat
        length = _ratio(xp, size, curvature, active)
        if steps == 0:  # along an intercept that no row holds
            length = xp.where(flat, xp.ones_like(length), length)
        solution = solution + length * p
        residual = residual - length * product
        scaled = hessian.precondition(residual)
        before, size = size, hessian.dots(residual, scaled)
        active = active & (size > enough)
        p = scaled + _ratio(xp, size, before, active) * p
        steps += 1
    short = np.zeros(len(wanted), bool)
    short[places[going]] = True
    if not done:
        return solution, short
    done.append((places, solution))
    order = np.argsort(np.concatenate([numbers for numbers, _ in done]))
    whole = xp.concat([columns for _, columns in done], axis=1)
    return hessian.take(whole, order, 1), short


def _ratio(xp: Namespace, a: DeviceArray, b: DeviceArray, chosen: DeviceArray) -> DeviceArray:
    """Return a / b where that is chosen and b positive, elsewhere 0."""
    chosen = chosen & (b > 0)
    return xp.where(chosen, a / xp.where(chosen, b, xp.ones_like(b)), xp.zeros_like(a))

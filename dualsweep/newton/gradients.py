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

    Only the part `left` of each gradient, as the preconditioner measures it, may be left. Gives up
    after `most` steps, or when `stop` returns true. Returns the solutions, 0 for problems that are
    not wanted, and which of them are less accurate than that.
    """
    space, xp = hessian.space, hessian.space.xp
    active = space.asarray(wanted)
    residual = hessian.rounded(xp.where(active, -gradient, xp.zeros_like(gradient)))
    solution = xp.zeros_like(residual)
    scaled = p = hessian.precondition(residual)
    size = hessian.dots(residual, scaled)
    forcing = space.asarray(left**2, size.dtype)
    enough = size * (xp.minimum(forcing, size) if tuning.superlinear else forcing)
    places, done = np.arange(len(wanted)), []
    steps = 0
    while True:
        going = space.numpy(active)
        if not going.any() or steps >= most or stop():
            break
        if going.sum() <= tuning.cg_leave * len(going) and len(going) > 1:
            stay, go = np.flatnonzero(going), np.flatnonzero(~going)
            done.append((places[go], space.take(solution, go, 1)))
            places, going = places[stay], going[stay]
            p, residual, solution = (space.take(a, stay, 1) for a in (p, residual, solution))
            size, enough, active = (space.take(a, stay, 0) for a in (size, enough, active))
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
    return space.take(whole, order, 1), short


def _ratio(xp: Namespace, a: DeviceArray, b: DeviceArray, chosen: DeviceArray) -> DeviceArray:
    """Return a / b where that is chosen and b positive, elsewhere 0."""
    chosen = chosen & (b > 0)
    return xp.where(chosen, a / xp.where(chosen, b, xp.ones_like(b)), xp.zeros_like(a))

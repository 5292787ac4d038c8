"""Momentum around the sweeps, where they are slow.

With a centre z and ``scale = 1 + kappa``, sweeps minimise ``P(w) + kappa / 2 |w - z|^2`` instead of
the primal P, a few at a time. In between the centre runs ahead of the minimisers,

    z = w + beta (w - w_before),   beta = (1 - sqrt(1 / scale)) / (1 + sqrt(1 / scale))

(accelerated proximal points: Shalev-Shwartz and Zhang 2014, Lin et al. 2015). In the variables
``a = alpha / scale`` the dual of such a problem is that of P with every cost divided by `scale`,
but for ``w = w(a) + (1 - 1 / scale) z``, where w(a) are the weights of a. So kernels need not know:
they get other costs and another w. alpha is feasible for P itself, and proves

    P(w) - D(alpha) = scale * (the shares of the gap that sweeps saw) + kappa^2 / 2 |w - z|^2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._jit import DOT_MATH, jit
from .._typing import Array


class Momentum:
    """The problem that sweeps work on meanwhile, and its centre.

    `scale` is a power of two, so that dual variables are scaled without rounding. `w` are the
    weights to start from, and `dual` is the dual objective there.
    """

    ROUND = 3  # sweeps until the centre moves

    def __init__(self, problem: Any, scale: float, w: Array, dual: float) -> None:
        self.problem = problem.with_costs(problem.cost / scale)
        self.scale = scale
        self.part = 1.0 - 1.0 / scale  # of the centre in w
        root = float(np.sqrt(1.0 / scale))
        self.beta = (1.0 - root) / (1.0 + root)
        self.centre, self.before = w.copy("K"), w.copy("K")  # flattened alike
        self.size, _, _ = self._sizes(w)
        self.linear = (dual + 0.5 * self.size) / scale  # the dual of a, without its |w|^2 term
        self.sweeps = 0

    def observe(self, w: Array, gain: float, shares: float) -> tuple[float, float]:
        """Note a sweep's gain; return D(alpha) and ``P(w) - D(alpha)``.

        The latter is as exact as `shares`, the sum of the rows' shares of the gap at w.
        """
        size, own, distance = self._sizes(w)
        self.linear += gain + 0.5 * (size - self.size)
        self.size = size
        self.sweeps += 1
        dual = self.scale * self.linear - 0.5 * self.scale**2 * own
        return dual, self.scale * shares + 0.5 * (self.scale - 1.0) ** 2 * distance

    def recompute(self, w: Array, weights: Array, dual: float) -> None:
        """Overwrite w, free of drift, given the weights of alpha and their dual objective."""
        self.centre = self.centre.astype(w.dtype, copy=False)
        self.before = self.before.astype(w.dtype, copy=False)
        w[...] = weights / self.scale + self.part * self.centre
        self.size, own, _ = self._sizes(w)
        self.linear = dual / self.scale + 0.5 * self.scale * own

    def advance(self, w: Array) -> None:
        """Move the centre after a round of sweeps, and w with it."""
        if self.sweeps % self.ROUND == 0:
            before, centre = self.before.ravel("K"), self.centre.ravel("K")
            _advance(w.ravel("K"), before, centre, self.beta, self.part)
            self.size, _, _ = self._sizes(w)

    def _sizes(self, w: Array) -> tuple[float, float, float]:
        return _sizes(w.ravel("K"), self.centre.ravel("K"), self.part)


@partial(jit, fastmath=DOT_MATH)
def _sizes(w: Array, centre: Array, part: float) -> tuple[float, float, float]:
    """Return the squares of ``|w|``, of ``|w(a)|`` and of ``|w - z|``."""
    size = own = distance = 0.0
    for j in range(w.shape[0]):
        v, z = np.float64(w[j]), np.float64(centre[j])
        size += v * v
        own += (v - part * z) * (v - part * z)
        distance += (v - z) * (v - z)
    return size, own, distance


@jit
def _advance(w: Array, before: Array, centre: Array, beta: float, part: float) -> None:
    for j in range(w.shape[0]):
        ahead = w[j] + beta * (w[j] - before[j])
        before[j] = w[j]
        w[j] += part * (ahead - centre[j])
        centre[j] = ahead

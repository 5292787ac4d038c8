"""Newton's method for one problem or several at once; see `dualsweep.newton`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import Array, DeviceArray, Namespace
from ..kernels.certificate import relative
from ..problems.run import poll_all
from .backend import Backend, Hessian, StartOverError
from .tuning import Tuning

# A direction that is not finite ends the method, silently. These settings are of one thread.
silent = np.errstate(over="ignore", invalid="ignore", divide="ignore")

# The arrays of an `Iterate` with an entry per problem.
PER_PROBLEM = "tol rho step settled tried stuck fresh by_factors inner_gap primal gap"


@silent
def newton(backend: Backend) -> None:
    """Take Newton steps until each run is over or gets stuck."""
    iterate = Iterate(backend)
    while True:
        try:
            return iterate.go()
        except StartOverError:
            iterate.begin()


class Iterate:
    """The weights w of some problems, their gaps, and the next step."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.steps = backend, 0
        self.begin()

    def begin(self) -> None:
        """Start from the runs' weights and dual variables."""
        self.w, self.rho = self.backend.begin()
        self.tuning = self.backend.tuning
        n = len(self.backend.runs)
        self.tol = np.array([run.tol for run in self.backend.runs])
        self.step, self.settled = np.zeros(n), np.zeros(n, bool)  # since slacks were last measured
        self.tried = np.full(n, np.inf)  # the gap at the last attempt at a certificate
        self.stuck, self.fresh = np.zeros((2, n), bool)  # fresh: adopted since the last step
        self.by_factors = np.full(n, self.backend.direct_worth == 0.0)

    def go(self) -> None:
        """Step until all problems are over or stuck; adopt what the last steps led to."""
        while self.steps < self.tuning.max_steps and not self.poll():
            self.measure()
            self.try_certificates()
            going = ~(self.over | self.stuck)
            if not going.any():
                break
            if going.sum() <= self.tuning.leave * len(going) and not going.all():
                self.adopt(~self.over & self.stuck & ~self.fresh)
                self.keep(going)
                going = going[going]
            settled = self.is_settled & going
            if settled.any():
                self.settled = settled
                self.rho = np.where(settled, self.rho / self.tuning.rho_factor, self.rho)
                self.measure()
            moved = self.move(going)
            self.stuck |= going & ~moved
            self.tick(moved)
        if not self.fresh[~self.converged].all():
            self.measure()
            self.adopt(~self.converged & ~self.fresh)

    def poll(self) -> bool:
        """Return whether to stop at once."""
        return poll_all(self.backend.runs)

    @property
    def over(self) -> Array:
        """Which problems need no more steps, or may take none."""
        return np.array([run.over for run in self.backend.runs])

    @property
    def converged(self) -> Array:
        """Which problems are solved."""
        return np.array([run.converged for run in self.backend.runs])

    def measure(self) -> None:
        """Compute b, the gradient, and the gaps they prove."""
        found = self.backend.measure(self.w, self.rho, self.step, self.settled)
        self.step, self.settled = np.zeros_like(self.step), np.zeros_like(self.settled)
        self.gradient, self.inner_gap = found.gradient, found.inner_gap
        self.primal = 0.5 * found.size + found.losses
        self.gap = self.inner_gap + np.maximum(found.excess, 0.0)
        for run, rho in zip(self.backend.runs, self.rho.tolist(), strict=True):
            run.rho = rho

    def try_certificates(self) -> None:
        """Certify the points that seem to be good enough, unless an attempt has just failed."""
        near = self.inner_gap if self.backend.weights_of_b else self.gap
        ready = (self.gap <= self.tuning.try_at * self.tol * self.primal) & ~self.over
        ready &= near < self.tuning.retry * self.tried
        self.tried[ready] = near[ready]
        self.adopt(ready)

    def adopt(self, chosen: Array) -> None:
        """Certify the dual points of some problems; their runs keep what is better."""
        if chosen.any():
            self.backend.adopt(self.w, self.rho, np.flatnonzero(chosen))
            self.fresh |= chosen

    @property
    def at_last_anchor(self) -> Array:
        """Where the solution of the inner problem proves enough."""
        return self.gap - self.inner_gap <= self.tuning.last_anchor * self.tol * self.primal

    @property
    def is_settled(self) -> Array:
        """Where the inner problem is solved well enough for the next anchor."""
        enough = self.inner_gap <= self.tuning.inner_gap * self.gap
        return (self.rho > 0.0) & enough & ~self.at_last_anchor

    def keep(self, going: Array) -> None:
        """Drop the other problems."""
        stay, space = np.flatnonzero(going), self.backend.space
        self.backend.keep(stay)
        there = space.asarray(stay)
        self.w, self.gradient = (space.take(a, there, 1) for a in (self.w, self.gradient))
        for name in PER_PROBLEM.split():
            setattr(self, name, getattr(self, name)[stay])

    def move(self, going: Array) -> Array:
        """Step the problems that are going; return which of them moved."""
        p = self.direction(going)
        wp, pp, first = self.backend.along(self.w, p, self.gradient)
        todo = going & np.isfinite(pp) & (first < 0.0)
        if not todo.any():
            return todo
        slopes, products = self.backend.aim(p, self.rho), np.array([wp, pp, first])
        self.step = self.backend.search(
            lambda part: self.line_search(todo[part], products[:, part], slopes[:, part], part)
        )
        self.w = self.backend.move(self.w, p, self.step)
        return self.step > 0.0

    def direction(self, going: Array) -> DeviceArray:
        """Return about ``-Hessian^-1 gradient`` of the problems that are going."""
        backend, p = self.backend, None
        iterative = going & ~self.by_factors
        if iterative.any():
            left = np.where(self.at_last_anchor, self.tuning.forcing_last, self.tuning.forcing)
            most = min(self.tuning.cg_steps, max(backend.direct_worth, 1.0))
            hessian, more = backend.hessian(self.rho), (left, most, self.tuning, self.poll)
            with hessian.in_use():
                p, short = conjugate_gradients(hessian, self.gradient, iterative, *more)
            if np.isfinite(backend.direct_worth):
                self.by_factors |= short
        wanted = going & self.by_factors & ~iterative
        if wanted.any():
            direct = backend.direct(self.gradient, self.rho, wanted)
            p = direct if p is None else p + direct
        return p

    @silent
    def line_search(self, todo: Array, products: Array, slopes: Array, part: slice) -> Array:
        """Return t > 0 with ``phi'(t)`` near 0, or 0; phi' is increasing and piecewise linear."""
        wp, pp, first = products
        todo, enough = todo.copy(), self.tuning.line_search * np.abs(first)
        t, low, high = np.where(todo, 1.0, 0.0), np.zeros_like(wp), np.full_like(wp, np.inf)
        for _ in range(self.tuning.line_steps):
            total, curvature = slopes
            value, curvature = wp + t * pp + total, pp + curvature
            todo &= ~(np.abs(value) <= enough)
            if not todo.any():
                return t
            low, high = np.where(value < 0.0, t, low), np.where(value < 0.0, high, t)
            better = np.where(curvature > 0.0, t - value / curvature, np.nan)
            middle = np.where(high < np.inf, 0.5 * (low + high), 2.0 * low)
            better = np.where((low < better) & (better < high), better, middle)
            t = np.where(todo, better, t)
            slopes = self.backend.slope(t, self.rho[part], part)
        return np.where(todo, low, t)

    def tick(self, moved: Array) -> None:
        """Count a step of the problems that took one."""
        self.steps += 1
        self.fresh &= ~moved
        for j in np.flatnonzero(moved).tolist():
            run = self.backend.runs[j]
            run.n_newton += 1
            gap = relative(float(self.gap[j]), float(self.primal[j]))
            run.tick(gap, self.backend.column(self.w, j))


def conjugate_gradients(
    hessian: Hessian,
    gradient: DeviceArray,
    wanted: Array,
    left: Array,
    most: float,
    tuning: Tuning,
    stop: Callable[[], bool],
) -> tuple[DeviceArray, Array]:
    """Solve ``Hessian p = -gradient`` for the wanted problems.

    Stop when the preconditioned residual is the part `left` of the gradient's, after `most` steps,
    or if told to. Return the solutions, 0 for other problems, and which are less accurate.
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
            go, stay = space.asarray(np.flatnonzero(~going)), space.asarray(np.flatnonzero(going))
            done.append((places[~going], space.take(solution, go, 1)))
            places, going = places[going], going[going]
            p, residual, solution = (space.take(a, stay, 1) for a in (p, residual, solution))
            size, enough, active = (space.take(a, stay, 0) for a in (size, enough, active))
            hessian = hessian.keep(stay)
        product = hessian.product(p)
        curvature = hessian.dots(p, product)
        curved = curvature > 0
        length = _ratio(xp, size, curvature, active)
        if steps == 0:  # along an intercept that no row holds
            length = xp.where(active & ~curved, xp.ones_like(length), length)
        solution = solution + length * p
        residual = residual - length * product
        scaled = hessian.precondition(residual)
        before, size = size, hessian.dots(residual, scaled)
        active = active & curved & (size > enough)
        p = scaled + _ratio(xp, size, before, active) * p
        steps += 1
    short = np.zeros(len(wanted), bool)
    short[places[going]] = True
    if not done:
        return solution, short
    done.append((places, solution))
    order = np.argsort(np.concatenate([numbers for numbers, _ in done]))
    whole = xp.concat([columns for _, columns in done], axis=1)
    return space.take(whole, space.asarray(order), 1), short


def _ratio(xp: Namespace, a: DeviceArray, b: DeviceArray, chosen: DeviceArray) -> DeviceArray:
    """Return a / b where that is chosen and b positive, elsewhere 0."""
    chosen = chosen & (b > 0)
    return xp.where(chosen, a / xp.where(chosen, b, xp.ones_like(b)), xp.zeros_like(a))

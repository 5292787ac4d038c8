"""The order of a sweep, made by the kernel that follows it.

Two kernels in a row are two times that a thread waits for Python's lock. Where a whole sweep is one
call, what the schedule has to do before it and to sum up after it is done inside.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import generic, implements, jit, jit_inline
from .._random import shuffle, uniform

# Places of the numbers of a recipe: the fading average of gains, how many visits the order has, and
# the sum of the rows' shares of the gap after them.
REFERENCE, FILLED, SEEN = 0, 1, 2

MIN_PREFERENCE, MAX_PREFERENCE = 1 / 20, 20.0


class Recipe(NamedTuple):
    """An order to be made: rows as often as their visits pay (Glasmachers and Dogan 2013)."""

    state: Any  # of the random numbers
    rows: Any
    preference: Any
    order: Any  # to be filled; may be `visited`
    visited: Any  # in the latest sweep, with their gains
    gains: Any
    rate: float
    idle: float
    numbers: Any


def _is_recipe(order: Any) -> bool:
    """Tell whether a numba type is that of `Recipe`."""
    return getattr(order, "instance_class", None) is Recipe


@generic
def count_visits(order: Any) -> Any:
    """Return how many visits there are; that of a recipe is followed."""


@implements(count_visits)
def _count_visits(order: Any) -> Any:
    def made(order):  # type: ignore[no-untyped-def]
        return order.shape[0]

    def to_be_made(order):  # type: ignore[no-untyped-def]
        return learn_and_compose(order)

    return to_be_made if _is_recipe(order) else made


@generic
def visit(order: Any, t: int) -> Any:
    """Return the t-th row to visit."""


@implements(visit)
def _visit(order: Any, t: Any) -> Any:
    def made(order, t):  # type: ignore[no-untyped-def]
        return order[t]

    def to_be_made(order, t):  # type: ignore[no-untyped-def]
        return order.order[t]

    return to_be_made if _is_recipe(order) else made


@generic
def sum_up(order: Any, shares: Any) -> Any:
    """Note the sum of the shares in a recipe."""


@implements(sum_up)
def _sum_up(order: Any, shares: Any) -> Any:
    def made(order, shares):  # type: ignore[no-untyped-def]
        pass

    def to_be_made(order, shares):  # type: ignore[no-untyped-def]
        total = 0.0
        for i in range(shares.shape[0]):
            total += shares[i]
        order.numbers[SEEN] = total

    return to_be_made if _is_recipe(order) else made


@jit
def learn_and_compose(recipe: Recipe) -> int:
    """Adapt preferences to the latest sweep and compose the next; return how many visits it has."""
    _adapt(
        recipe.visited,
        recipe.gains,
        recipe.preference,
        recipe.numbers,
        recipe.rate,
        recipe.idle,
    )
    filled = _compose(recipe.state, recipe.rows, recipe.preference, recipe.order)
    recipe.numbers[FILLED] = filled
    return filled


@jit_inline
def _adapt(
    visited: Any, gains: Any, preference: Any, numbers: Any, rate: float, idle: float
) -> None:
    """Raise the preference of rows that gained more than the fading average (Algorithm 5).

    That average is, after the first sweep, its mean gain: no preference is raised by it.
    """
    n = visited.shape[0]
    fade = 1.0 / max(n, 1)
    reference = numbers[REFERENCE]
    if reference == 0.0:
        for t in range(n):
            reference += gains[t]
        numbers[REFERENCE] = fade * reference
        return
    for t in range(n):
        i = visited[t]
        gain = gains[t]
        factor = idle if gain == 0.0 else np.exp(rate * (gain / reference - 1.0))
        preference[i] = min(max(factor * preference[i], MIN_PREFERENCE), MAX_PREFERENCE)
        reference += fade * (gain - reference)
    numbers[REFERENCE] = reference


@jit_inline
def _compose(state: Any, rows: Any, preference: Any, order: Any) -> int:
    """Fill `order` with each row as often as its preference says (Algorithm 4), in random order.

    Returns how many visits that makes.
    """
    n = order.shape[0]
    remaining = 0.0
    for i in rows:
        remaining += preference[i]
    filled = 0
    for i in rows:
        times = preference[i] * (n - filled) / remaining
        count = int(times)
        if uniform(state) < times - count:
            count += 1
        for _ in range(min(count, n - filled)):
            order[filled] = i
            filled += 1
        remaining -= preference[i]
    shuffle(state, order[:filled])
    return filled

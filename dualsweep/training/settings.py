"""What is to be trained, and how far."""

from __future__ import annotations

from functools import lru_cache
from math import log2
from numbers import Integral
from typing import Any

import numpy as np

from .._parameters import Whole, parameter, parameters_of
from .parameters import Cost, OfClasses, OfTargets, Training

# That of a free intercept is at most 2 to this power, and at least its reciprocal: farther from 1,
# allowances for rounding hide a gap of 1e-9 (at 2^-20, one of 3e-8).
MOST_FREE = 10


class Settings(Cost, OfClasses, OfTargets, Training, without=("n_jobs", "verbose", "warm_start")):
    """What is to be trained, and how far. Nothing is checked, and nothing changes.

    The loss tells whether it is classification or regression.

    Parameters
    ----------
    {parameters}
    """

    seed: int = parameter(
        0,
        Whole(least=0),
        text="Seeds the order of visits; was drawn from `random_state`.",
        identifies=False,
    )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Settings do not change; make others with another {name}.")

    def but(self, **changes: Any) -> Settings:
        """Return settings that are the same but for these."""
        return Settings(**vars(self) | changes)

    def identity(self) -> dict[str, Any]:
        """Return what identifies the problem and the way to its solution, in JSON's types."""
        parameters = parameters_of(Settings).items()
        return {name: _plain(getattr(self, name)) for name, it in parameters if it.identifies}

    @property
    def free_intercept(self) -> bool:
        """Whether there is an intercept that is not penalised."""
        return self.fit_intercept and self.intercept == "free"

    @property
    def bias(self) -> float:
        """Value of the constant feature.

        That of an intercept that is not penalised changes no optimum: it is a power of 2 near it,
        with which the weight stands for exactly the intercept.
        """
        if self.free_intercept:
            return 2.0 ** min(max(round(log2(self.intercept_scaling)), -MOST_FREE), MOST_FREE)
        return self.intercept_scaling if self.fit_intercept else 0.0


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def draw_seed(random_state: Any) -> int:
    """Return the seed that a `RandomState`, or an integer that seeds one, stands for."""
    if isinstance(random_state, Integral):
        return _seed_of(int(random_state))
    if not hasattr(random_state, "randint"):
        random_state = np.random.RandomState(random_state)
    return int(random_state.randint(np.iinfo(np.int32).max))


@lru_cache  # to make a `RandomState` takes 40 microseconds
def _seed_of(number: int) -> int:
    return draw_seed(np.random.RandomState(number))

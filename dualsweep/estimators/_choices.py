"""Parameters with a list of values: the registries say which, to checks and to readers."""

from __future__ import annotations

from typing import Any, TypeVar

from sklearn.utils._param_validation import StrOptions

from ..losses import LOSSES
from ..solvers.policy import SOLVERS
from ..solvers.schedules import SCHEDULES
from ..training.formulations import FORMULATIONS
from ..training.parameters import INTERCEPTS

REGISTRIES: dict[str, Any] = {
    "loss": LOSSES,
    "multi_class": FORMULATIONS,
    "solver": SOLVERS,
    "schedule": SCHEDULES,
    "intercept": INTERCEPTS,
}
CONSTRAINTS: dict[str, list[Any]] = {
    name: [StrOptions(set(registry))] for name, registry in REGISTRIES.items()
}

Documented = TypeVar("Documented")


def with_choices(documented: Documented) -> Documented:
    """Write the values of a parameter in its docstring where it says ``{name}``."""
    text = documented.__doc__
    if text is not None:  # with python -OO there is none
        for name, registry in REGISTRIES.items():
            values = ", ".join(f'"{value}"' for value in registry)
            text = text.replace(f"{{{name}}}", f"{{{values}}}")
        documented.__doc__ = text
    return documented

"""Models on a device whose predictions a scorer compares with labels on the host."""

from __future__ import annotations

from typing import Any

from .._host import to_host


class OnHost:
    """Predicts for rows on a device, and returns its predictions on the host."""

    def decision_function(self, X: Any) -> Any:
        """Return scores on the host."""
        return to_host(super().decision_function(X))  # type: ignore[misc]

    def predict(self, X: Any) -> Any:
        """Return classes on the host."""
        return to_host(super().predict(X))  # type: ignore[misc]


def on_host(model: Any) -> Any:
    """Return the same model, with predictions on the host."""
    kind = type(model)
    if kind not in _KINDS:
        _KINDS[kind] = type(kind.__name__, (OnHost, kind), {})
    twin = _KINDS[kind](**model.get_params())
    twin.__dict__.update(vars(model), classes_=to_host(model.classes_))
    return twin


_KINDS: dict[type, type] = {}  # by the kind of model

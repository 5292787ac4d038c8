"""A model on a device as scorers see it."""

from __future__ import annotations

from typing import Any

from .._host import to_host
from .svc import LinearSVC


class OnHost(LinearSVC):
    """A model that predicts for rows on a device, and returns its predictions on the host.

    A scorer compares them with the labels, which are on the host too.
    """

    @classmethod
    def of(cls, model: LinearSVC) -> OnHost:
        """Return the same model as one of this kind."""
        twin = cls(**model.get_params())
        twin.__dict__.update(vars(model), classes_=to_host(model.classes_))
        return twin

    def decision_function(self, X: Any) -> Any:
        """Return scores on the host."""
        return to_host(super().decision_function(X))

    def predict(self, X: Any) -> Any:
        """Return classes on the host."""
        return to_host(super().predict(X))

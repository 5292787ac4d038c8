"""From data and settings to a fitted model, without scikit-learn, whose import takes a second."""

from .context import Context, Watcher
from .fitting import Fitted, train
from .scale import unit_cost
from .settings import Settings, draw_seed

__all__ = ["Context", "Fitted", "Settings", "Watcher", "draw_seed", "train", "unit_cost"]

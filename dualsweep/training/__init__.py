"""From data and settings to a fitted model, without scikit-learn, whose import takes a second."""

from .blocks import BlockSet, PartOfBlocks, load_if_it_fits, training_data
from .context import Context, Watcher
from .data import TrainingSet
from .device import DeviceSet, OnDevice
from .fitting import Fitted, train
from .regression import training_set
from .scale import unit_cost
from .settings import Settings, draw_seed

__all__ = [
    "BlockSet",
    "Context",
    "DeviceSet",
    "Fitted",
    "OnDevice",
    "PartOfBlocks",
    "Settings",
    "TrainingSet",
    "Watcher",
    "draw_seed",
    "load_if_it_fits",
    "train",
    "training_data",
    "training_set",
    "unit_cost",
]

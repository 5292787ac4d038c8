"""From data and settings to a fitted model, without scikit-learn, whose import takes a second."""

from .blocks import BlockSet, load_if_it_fits, training_data
from .context import Context, Watcher
from .data import TrainingSet
from .device import DeviceSet, OnDevice, data_in_memory
from .fitting import Fitted, train
from .settings import Settings, draw_seed

__all__ = [
    "BlockSet",
    "Context",
    "DeviceSet",
    "Fitted",
    "OnDevice",
    "Settings",
    "TrainingSet",
    "Watcher",
    "data_in_memory",
    "draw_seed",
    "load_if_it_fits",
    "train",
    "training_data",
]

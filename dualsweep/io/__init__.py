"""Data and models in files."""

from .data import load_data
from .model import load_model, save_model

__all__ = ["load_data", "load_model", "save_model"]

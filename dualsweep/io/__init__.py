"""Data and models in files."""

from .data import load_data
from .model import load_model, save_model
from .svmlight import load_svmlight

__all__ = ["load_data", "load_model", "load_svmlight", "save_model"]

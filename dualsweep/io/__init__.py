"""Data and models in files."""

from .data import load_data
from .liblinear import load_liblinear, save_liblinear
from .model import load_model, save_model
from .store import Store, convert_svmlight, open_store, open_writer, write_store
from .svmlight import load_svmlight

__all__ = [
    "Store",
    "convert_svmlight",
    "load_data",
    "load_liblinear",
    "load_model",
    "load_svmlight",
    "open_store",
    "open_writer",
    "save_liblinear",
    "save_model",
    "write_store",
]

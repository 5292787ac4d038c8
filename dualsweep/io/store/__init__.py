"""Stores: data on disk in blocks of rows that can be mapped into memory."""

from .reading import Store, open_store
from .writing import convert_svmlight, open_writer, write_store

__all__ = ["Store", "convert_svmlight", "open_store", "open_writer", "write_store"]

"""Svmlight (LIBSVM) text, plain or compressed."""

from .loading import iter_svmlight, load_svmlight
from .parsing import Block

__all__ = ["Block", "iter_svmlight", "load_svmlight"]

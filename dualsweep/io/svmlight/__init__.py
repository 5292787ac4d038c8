"""Svmlight (LIBSVM) text, plain or compressed."""

from .loading import Block, iter_svmlight, load_svmlight

__all__ = ["Block", "iter_svmlight", "load_svmlight"]

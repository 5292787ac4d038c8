"""Training on the partitions of a Dask cluster, with the same certificate."""

from .svc import LinearSVC

__all__ = ["LinearSVC"]

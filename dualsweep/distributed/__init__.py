"""Training on the partitions of a Dask cluster, with the same certificate."""

from .logistic import LogisticRegression
from .svc import LinearSVC

__all__ = ["LinearSVC", "LogisticRegression"]

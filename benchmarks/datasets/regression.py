from typing import ClassVar

import numpy as np
from benchmark_utils import load_data
from benchopt import BaseDataset
from scipy.sparse import csr_matrix, hstack


def elevation():
    """covtype: metres above the sea, from all else that is known of a place."""
    X, _ = load_data("covtype")
    return X[:, 1:], column(X, 0)


def pixel():
    """mnist, dense: a pixel in the middle, from all others."""
    X, _ = load_data("mnist")
    middle = 14 * 28 + 14
    others = hstack([X[:, :middle], X[:, middle + 1 :]])
    return np.ascontiguousarray(others.toarray()), column(X, middle)


def length():
    """blogs: how many different words a post has, in logarithms, from unit rows of tf-idf."""
    X, _ = load_data("blogs")
    return X, np.log1p(np.diff(X.indptr))


def simulated():
    """Generated, so that the benchmark runs anywhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20)) * (rng.random((400, 20)) < 0.5)
    return csr_matrix(X, dtype=np.float32), X @ rng.normal(size=20) + rng.normal(size=400)


def column(X, j):
    return np.asarray(X[:, [j]].todense(), dtype=np.float64).ravel()


SETS = {"elevation": elevation, "pixel": pixel, "length": length, "simulated": simulated}


class Dataset(BaseDataset):
    """A number of each row of the real data sets, of mean 0 and deviation 1, from the others."""

    name = "regression"
    parameters: ClassVar = {"data": list(SETS)}

    def get_data(self):
        X, y = SETS[self.data]()
        return {"X": X, "y": (y - y.mean()) / y.std(), "positive": None}

import os
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from benchopt import BaseDataset
from scipy.sparse import csr_matrix

# The class that is told from the rest.
POSITIVE = {
    "a9a": 1,
    "w8a": 1,
    "ijcnn1": 1,
    "covtype": 2,
    "imdb": 1,
    "blogs": 34,
    "mnist": 8,
}


@lru_cache(maxsize=1)  # every cell and repeat of one data set is a benchopt run of its own
def load(path: Path) -> tuple[csr_matrix, np.ndarray]:
    with np.load(path) as z:
        X = csr_matrix((z["data"], z["indices"], z["indptr"]), shape=z["shape"])
        return X, z["y"]


class Dataset(BaseDataset):
    """``NAME.npz`` (data, indices, indptr, shape, y) in the folder DUALSWEEP_DATA."""

    name = "real"
    parameters: ClassVar = {"data": list(POSITIVE)}

    def get_data(self):
        X, y = load(Path(os.environ["DUALSWEEP_DATA"]) / f"{self.data}.npz")
        return {"X": X, "y": np.where(y == POSITIVE[self.data], 1, -1)}

from typing import ClassVar

from benchmark_utils import load_data
from benchopt import BaseDataset

# The class that binary losses tell from the rest.
POSITIVE = {
    "a9a": 1,
    "w8a": 1,
    "ijcnn1": 1,
    "covtype": 2,
    "imdb": 1,
    "blogs": 34,
    "mnist": 8,
    "dna": None,
    "satimage": None,
    "news20": None,
    "20news": None,
    "letter": None,
    "sector": None,
    "authors1000": None,
}


class Dataset(BaseDataset):
    """``NAME.npz`` (data, indices, indptr, shape, y) in the folder DUALSWEEP_DATA."""

    name = "real"
    parameters: ClassVar = {"data": list(POSITIVE)}

    def get_data(self):
        X, y = load_data(self.data)
        return {"X": X, "y": y, "positive": POSITIVE[self.data]}

from typing import ClassVar

from benchmark_utils import POSITIVE, load_data
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """``NAME.npz`` (data, indices, indptr, shape, y) in the folder DUALSWEEP_DATA."""

    name = "real"
    parameters: ClassVar = {"data": list(POSITIVE)}

    def get_data(self):
        X, y = load_data(self.data)
        return {"X": X, "y": y, "positive": POSITIVE[self.data]}

from typing import ClassVar

import numpy as np
from benchmark_utils import BUNDLED
from benchopt import BaseDataset
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import scale

from dualsweep.datasets import make_text_like

# The class that binary losses tell from the rest.
POSITIVE = {"breast_cancer": 1, "digits": 8, "text": 1}


class Dataset(BaseDataset):
    """What needs no files: scikit-learn's own data, and generated text."""

    name = "bundled"
    parameters: ClassVar = {"data": list(BUNDLED)}

    def get_data(self):
        if self.data == "text":
            X, y = make_text_like(40_000, 50_000, random_state=0)
        elif self.data == "digits":
            X, y = load_digits(return_X_y=True)
            X = X / 16.0
        else:
            X, y = load_breast_cancer(return_X_y=True)
            X = scale(X)
        return {"X": csr_matrix(X, dtype=np.float32), "y": y, "positive": POSITIVE[self.data]}

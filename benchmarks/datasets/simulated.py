from typing import ClassVar

import numpy as np
from benchopt import BaseDataset
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification
from sklearn.preprocessing import normalize


class Dataset(BaseDataset):
    """Overlapping classes of unit rows, so that the benchmark runs anywhere."""

    name = "simulated"
    parameters: ClassVar = {"n_samples": [2000], "n_features": [50], "n_classes": [2]}

    def get_data(self):
        X, y = make_classification(
            self.n_samples,
            self.n_features,
            n_informative=self.n_features // 2,
            n_classes=self.n_classes,
            flip_y=0.1,
            random_state=0,
        )
        return {"X": csr_matrix(normalize(X), dtype=np.float32), "y": y, "positive": 1}

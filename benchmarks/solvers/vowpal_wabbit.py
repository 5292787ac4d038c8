import math
import re
import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np
from benchmark_utils import Contender
from sklearn.datasets import dump_svmlight_file
from vowpalwabbit import Workspace


class Solver(Contender):
    """Vowpal Wabbit in batch mode: L-BFGS on ``l2/2 |w|^2 + sum_i loss``, our objective / C.

    Online, which is how it is known, it cannot minimise our objective: it shrinks w only on rows
    that have a loss, so the penalty is as much smaller as there are rows without. In place of its
    constant it gets a column of ones. Rows go through a text file, which is the only way to more
    than one pass, and are timed with it. When it stops by itself says little about the objective,
    and nothing bounds a fit until then: a tolerance here is the inverse of the number of passes.
    """

    name = "vowpal_wabbit"
    first_tol = 0.1
    last_tol = 1e-4
    first_max_iter = None
    losses = ("hinge",)

    def warm_up(self):
        """There is nothing to compile."""

    def fit(self, X, y, tol):
        X = self.with_ones(X)
        passes = math.ceil(1.0 / tol)
        bits = max(1, math.ceil(math.log2(X.shape[1])))  # a place for each feature, by its number
        with tempfile.TemporaryDirectory() as folder:
            text = BytesIO()
            dump_svmlight_file(X, y, text)
            lines = re.sub(rb"^(-?\d+) ", rb"\1 | ", text.getvalue(), flags=re.MULTILINE)
            (Path(folder) / "rows").write_bytes(lines)
            workspace = Workspace(
                f"--data {folder}/rows --cache_file {folder}/cache --passes {passes} --bfgs "
                f"--loss_function hinge --l2 {1.0 / self.C!r} --termination 0 "
                f"--bit_precision {bits} --noconstant --holdout_off --quiet"
            )
            w = np.array([workspace.get_weight(j) for j in range(X.shape[1])])
            workspace.finish()
        return self.split(w)

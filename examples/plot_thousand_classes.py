"""
A thousand classes
==================

One versus the rest is a thousand binary problems on the same rows, which threads share. Each has
its own certificate, and the model reports the largest gap.
"""

# %%
# Generated embeddings: rows around a mean per class, with 10 % of the labels wrong.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import normalize

from dualsweep import LinearSVC
from dualsweep.plotting import ConvergenceDisplay

rng = np.random.default_rng(0)
N_CLASSES, N_COLUMNS = 1_000, 24
means = rng.normal(size=(N_CLASSES, N_COLUMNS))


def draw(n_rows):
    """Return rows of unit length, and their classes."""
    y = rng.integers(N_CLASSES, size=n_rows)
    X = normalize(means[y] + 0.5 * rng.normal(size=(n_rows, N_COLUMNS)))
    wrong = rng.random(n_rows) < 0.1
    y[wrong] = rng.integers(N_CLASSES, size=wrong.sum())
    return X.astype(np.float32), y


X, y = draw(6_000)
X_test, y_test = draw(1_000)

# %%
# ``n_jobs=-1`` uses all cores, and changes nothing about the model.

model = LinearSVC(C=1.0, n_jobs=-1, random_state=0).fit(X, y)
print(f"accuracy {model.score(X_test, y_test):.3f}, largest relative gap {model.relative_gap_:.1e}")

# %%
# The band spans all thousand classes; the line is the last of them to reach `tol`.

ConvergenceDisplay.from_estimator(model)
plt.show()

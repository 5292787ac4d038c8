"""
The path of C
=============

C says how much an error costs against a large weight. `LinearSVCCV` tries ascending values, each
fold from the solution of the value before, and chooses the best.
"""

# %%
# The search
# ----------
# Breast cancer, 569 rows of 30 features. ``patience=None`` tries all values; by default the search
# stops when scores have settled.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale

from dualsweep import LinearSVCCV, svc_path
from dualsweep.plotting import PathDisplay

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
folds = StratifiedKFold(5, shuffle=True, random_state=0)
search = LinearSVCCV(Cs=np.logspace(-4, 2, 7), cv=folds, patience=None, random_state=0).fit(X, y)
print(f"chosen: C = {search.C_:g}, accuracy {search.mean_score_.max():.3f}")

# %%
# Scores hardly change over a range of C. In such a case the smallest one within a standard error of
# the best (``selection="one_standard_error"``) is as good, and has smaller weights.

PathDisplay.from_estimator(search)
plt.show()

# %%
# The weights
# -----------
# `svc_path` gives the models of such a sequence, each with its certificate. Small C keep all
# weights near 0; with large ones, correlated features get large weights of opposite signs.

path = svc_path(X, y, Cs=np.logspace(-4, 2, 13), random_state=0)
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(path.Cs, path.coefs[:, 0, :], color="0.5", marker=".")
ax.axvline(search.C_, color="black", linestyle="--", label=f"chosen: C = {search.C_:g}")
ax.set(xscale="log", xlabel="C", ylabel="Weight of each feature")
ax.legend()
plt.show()

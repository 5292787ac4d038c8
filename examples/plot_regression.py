"""
Regression with outliers
========================

`LinearSVR` with the epsilon-insensitive loss counts deviations in proportion, and those below
epsilon not at all: some targets that are wrong by a lot do little harm. Least squares, which is the
squared loss with epsilon = 0, follows them.
"""

# %%
# The progression of diabetes against the body mass index of 442 patients, one in ten of whom gets a
# wrong target.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from dualsweep import LinearSVR

data = load_diabetes()
X = scale(data.data[:, [data.feature_names.index("bmi")]])
rng = np.random.default_rng(0)
y = data.target.copy()
wrong = rng.choice(len(y), len(y) // 10, replace=False)
y[wrong] += np.where(X[wrong, 0] < 0, 400.0, -100.0)

# %%
# An intercept that is not penalised, since the targets are far from 0. Both fits end with the same
# kind of certificate as classification does.

EPSILON = 40.0
tube = LinearSVR(C=10.0, epsilon=EPSILON, intercept="free", random_state=0).fit(X, y)
squares = LinearSVR(C=10.0, loss="squared_epsilon_insensitive", intercept="free").fit(X, y)
for model in (tube, squares):
    print(f"{model.loss}: slope {model.coef_[0]:.1f}, relative gap {model.relative_gap_:.1e}")
print(f"{len(tube.support_)} of {len(y)} rows are at the edge of the tube or outside")

# %%
# Rows inside the tube have no influence on it.

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
line = np.linspace(X.min(), X.max(), 2)[:, None]
ax.plot(X, y, ".", color="0.7", label="patients")
ax.plot(X[wrong], y[wrong], "kx", label="wrong targets")
middle = tube.predict(line)
ax.plot(line, middle, "k-", linewidth=2, label="epsilon-insensitive")
ax.fill_between(line[:, 0], middle - EPSILON, middle + EPSILON, color="0.85", label="costs nothing")
ax.plot(line, squares.predict(line), "k--", linewidth=2, label="least squares")
ax.set(xlabel="Body mass index (standardised)", ylabel="Progression")
ax.legend()
plt.show()

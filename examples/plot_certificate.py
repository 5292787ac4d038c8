"""
What the certificate says as training goes on
=============================================

Training yields two numbers: the objective of the model, and a lower bound on the objective of every
model. The optimum is in between. Here they are after 0, 1, 2, ... epochs, beside the accuracy on
other rows: when the two have met, nothing is left to gain.
"""

# %%
# Stopping early
# --------------
# A fit that is stopped before it has proven `tol` warns, and says what it did prove.

import warnings

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from dualsweep import LinearSVC
from dualsweep.datasets import make_text_like
from dualsweep.plotting import ConvergenceDisplay

X, y = make_text_like(20_000, 10_000, random_state=0)
X, X_test, y, y_test = X[:15_000], X[15_000:], y[:15_000], y[15_000:]

epochs = [0, 1, 2, 3, 4, 6, 8, 12]
models = []
for n in epochs:
    model = LinearSVC(max_iter=n, tol=1e-6, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        models.append(model.fit(X, y))
    print(caught[0].message if caught else "proven")

# %%
# The optimum is in the band, for certain. The accuracy settles before the band has closed; but only
# the band tells that it has.

figure, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(8, 6), layout="constrained")
primal = [model.primal_objective_ for model in models]
dual = [model.dual_objective_ for model in models]
upper.plot(epochs, primal, "k-o", label="objective of the model")
upper.plot(epochs, dual, "k--s", label="proven lower bound for all models")
upper.fill_between(epochs, dual, primal, color="0.85", label="the optimum is in here")
upper.set_ylabel("Objective")
upper.legend()
lower.plot(epochs, [model.score(X_test, y_test) for model in models], "k-o")
lower.set(xlabel="Epochs", ylabel="Accuracy on other rows")
plt.show()

# %%
# The gap
# -------
# The width of the band, relative to the objective, is what `tol` is about. Between certificates,
# which cost about as much as an epoch, sweeps estimate it.

model = LinearSVC(tol=1e-5, random_state=0).fit(X, y)
ConvergenceDisplay.from_estimator(model)
plt.show()

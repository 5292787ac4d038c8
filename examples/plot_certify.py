"""
How good is somebody else's model?
==================================

`certify` says how far any linear classifier is from the optimum of an SVM's objective: it evaluates
the objective of the model's weights, and proves a lower bound for all models. What a library says
of its own convergence does not matter.
"""

# %%
# Handwritten digits, even against odd. All models are judged by the same objective, squared hinge
# loss with C = 1. The last two were trained to minimise something else.

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.svm import LinearSVC

import dualsweep
from dualsweep import certify

X, y = load_digits(return_X_y=True)
X, y = X / 16, y % 2

models = {
    "dualsweep.LinearSVC": dualsweep.LinearSVC(random_state=0),
    "sklearn LinearSVC": LinearSVC(random_state=0),
    "the same, max_iter=10": LinearSVC(max_iter=10, random_state=0, dual=True),
    "SGDClassifier, squared hinge": SGDClassifier(loss="squared_hinge", random_state=0),
    "RidgeClassifier": RidgeClassifier(),
}
gaps = {}
for name, model in models.items():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate says more
        model.fit(X, y)
    gaps[name] = certify(model, X, y, C=1.0, loss="squared_hinge", tol=1e-6).relative_gap
    print(f"{name}: objective at most {100 * gaps[name]:.2g} % too large")

# %%
# The gap is relative to the model's own objective: near 1, the model is no good at this problem.

figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
bars = ax.barh(list(gaps), list(gaps.values()), color="0.4")
ax.bar_label(bars, [f"{gap:.1g}" for gap in gaps.values()], padding=4)
ax.set(xscale="log", xlabel="Relative duality gap", xlim=(1e-9, 30))
ax.invert_yaxis()
plt.show()

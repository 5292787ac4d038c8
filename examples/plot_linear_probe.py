"""
A linear probe on embeddings
============================

How much do the layers of a network know? A linear classifier is trained on what each of them makes
of the data. The network here is small, and was trained on other classes than those it is asked
about.
"""

# %%
# The network
# -----------
# Trained to tell the digits 0 to 4 apart. What is asked about are the digits 5 to 9, which it has
# never seen. Another network, with random weights, is for comparison.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier

from dualsweep import LinearSVCCV

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
known = y < 5
network = MLPClassifier((64, 32, 16), max_iter=300, random_state=0).fit(X[known], y[known])
rng = np.random.default_rng(0)
rough = [rng.normal(size=W.shape) * np.sqrt(2 / len(W)) for W in network.coefs_]


def embed(X, weights, biases):
    """Return what the layers make of rows."""
    layers = [X]
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        layers.append(np.maximum(layers[-1] @ W + b, 0.0).astype(np.float32))
    return layers


# %%
# The probes
# ----------
# `LinearSVCCV` chooses C on each layer and tells how well it did on held-out rows. Embeddings that
# are torch tensors or CuPy arrays on a GPU are trained on there, by the same call;
# ``examples/linear_probe.py`` does so.

folds = StratifiedKFold(5, shuffle=True, random_state=0)
results = {}
for name, weights, biases in (
    ("trained on other digits", network.coefs_, network.intercepts_),
    ("random weights", rough, [np.zeros_like(b) for b in network.intercepts_]),
):
    scores = []
    for Z in embed(X[~known], weights, biases):
        probe = LinearSVCCV(cv=folds, random_state=0)
        probe.fit(Z, y[~known])
        best = probe.mean_score_.argmax()
        scores.append((probe.mean_score_[best], probe.std_error_[best]))
    results[name] = np.array(scores)
    print(name, results[name][:, 0].round(3))

# %%
# The first layer is as good as the pixels, the deeper ones know more about what they were trained
# for and less about anything else.

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for (name, scores), style in zip(results.items(), ("k-o", "k--s"), strict=True):
    ax.errorbar(
        ["pixels", "layer 1", "layer 2", "layer 3"], *scores.T, fmt=style, capsize=5, label=name
    )
ax.set(ylabel="Accuracy of the probe", title="Digits 5 to 9, mean and standard error of five folds")
ax.legend()
plt.show()

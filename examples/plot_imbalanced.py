"""
Rare classes
============

One row in thirty is positive. Left alone, training prefers the frequent class; `class_weight` says
how much more a rare row counts, and so where on the curve of precision and recall the model is.
"""

# %%
# The data: ten features, five of which are of use, and some labels that are wrong.

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import precision_recall_curve, precision_score, recall_score
from sklearn.model_selection import train_test_split

from dualsweep import LinearSVC

X, y = make_classification(
    20_000, 10, n_informative=5, weights=[0.97], flip_y=0.01, class_sep=0.8, random_state=0
)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# Weights are exact: a weight of 5 is the row five times. "balanced" gives all classes the same
# total weight. Each model is one point on its curve, where its decision is 0; another threshold on
# `decision_function` moves along the curve.

weights = {"none": None, "5 times": {1: 5.0}, "balanced": "balanced"}
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for (name, weight), mark, line in zip(weights.items(), "os^", ("-", "--", ":"), strict=True):
    model = LinearSVC(class_weight=weight, random_state=0).fit(X, y)
    precision, recall, _ = precision_recall_curve(y_test, model.decision_function(X_test))
    [curve] = ax.plot(recall, precision, line, label=f"class_weight: {name}")
    predicted = model.predict(X_test)
    recall, precision = recall_score(y_test, predicted), precision_score(y_test, predicted)
    ax.plot(recall, precision, mark, color=curve.get_color(), markersize=12)
    print(f"{name}: recall {recall:.2f}, precision {precision:.2f}")
ax.set(xlabel="Recall", ylabel="Precision", title="Marks: where the model decides")
ax.legend()
plt.show()

"""
Probabilities, and whether they are right
=========================================

Of the rows that a model calls positive with a probability of 0.8, 80 % should be. Logistic
regression has probabilities of its own, which are about right if its C is chosen by the log loss; a
support vector machine gets them by calibration, which takes more models.
"""

# %%
# Three values of C
# -----------------
# All three are the optimum, with a proof. But with a small C, probabilities are timid, and with a
# large one, too sure of themselves: that shows on other rows only.

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss

from dualsweep import LinearSVC, LogisticRegression, LogisticRegressionCV, logistic_path
from dualsweep.datasets import make_text_like

X, y = make_text_like(20_000, 3_000, noise=0.1, random_state=0)
X, X_test, y, y_test = X[:10_000], X[10_000:], y[:10_000], y[10_000:]

figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained", sharey=True)
for model in logistic_path(X, y, [0.1, 2.0, 100.0], random_state=0).models:
    found = model.predict_proba(X_test)
    print(
        f"C = {model.C:5g}: log loss {log_loss(y_test, found):.3f}, "
        f"accuracy {accuracy_score(y_test, model.predict(X_test)):.3f}"
    )
    CalibrationDisplay.from_predictions(
        y_test, found[:, 1], n_bins=10, name=f"C = {model.C:g}", ax=axes[0]
    )
axes[0].set_title("LogisticRegression")

# %%
# A support vector machine beside it
# ----------------------------------
# Five models, each calibrated on the fold that it has not seen, and averaged. That is a little
# better here than the one model of logistic regression.

calibrated = CalibratedClassifierCV(LinearSVC(C=0.1, random_state=0), cv=5).fit(X, y)
logistic = LogisticRegression(C=2.0, random_state=0).fit(X, y)
for name, model in {"LinearSVC, calibrated": calibrated, "LogisticRegression": logistic}.items():
    found = model.predict_proba(X_test)
    print(f"{name}: log loss {log_loss(y_test, found):.3f}")
    CalibrationDisplay.from_predictions(y_test, found[:, 1], n_bins=10, name=name, ax=axes[1])
axes[1].set_title("Calibrated, and by itself")
plt.show()

# %%
# More than two classes
# ---------------------
# Multinomial logistic regression, the default, minimises the log loss of all classes at once. One
# versus the rest asks about each class by itself, and divides by the sum of the answers.

digits, labels = load_digits(return_X_y=True)
digits = digits / 16
for multi_class in ("multinomial", "ovr"):
    search = LogisticRegressionCV(multi_class=multi_class, scoring="neg_log_loss", cv=5)
    search.fit(digits, labels)
    print(f"{multi_class}: log loss {-search.mean_score_.max():.3f} of rows held out")

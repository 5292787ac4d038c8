"""
Text, end to end
================

From strings to predictions in one pipeline. The texts are real: docstrings of NumPy, SciPy,
scikit-learn and matplotlib. The task is to tell which library a docstring comes from, without the
words that give it away.
"""

# %%
# The texts
# ---------
# Every public function and class of some modules that has something to say. Names of the libraries,
# and what people abbreviate them to, are taken out, and so are examples, which import them.

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from dualsweep import LinearSVC

MODULES = {
    "NumPy": ["numpy", "numpy.linalg", "numpy.fft", "numpy.ma"],
    "SciPy": ["scipy.stats", "scipy.signal", "scipy.optimize", "scipy.special", "scipy.linalg"],
    "scikit-learn": [
        *("sklearn.linear_model", "sklearn.ensemble", "sklearn.preprocessing", "sklearn.metrics"),
        *("sklearn.cluster", "sklearn.decomposition", "sklearn.model_selection"),
    ],
    "matplotlib": ["matplotlib.axes", "matplotlib.patches", "matplotlib.pyplot"],
}
GIVEAWAYS = re.compile(r"\b(numpy|np|scipy|scikit|sklearn|matplotlib|mpl|plt|pyplot)\b", re.I)


def docstrings(modules):
    """Return the docstrings in some modules, each once."""
    found = {}
    for module in map(importlib.import_module, modules):
        for name, item in inspect.getmembers(module):
            text = getattr(item, "__doc__", None)
            if callable(item) and not name.startswith("_") and text and len(text) > 200:
                text = text.partition("Examples\n")[0]
                found[text] = GIVEAWAYS.sub(" ", text)
    return list(found.values())


texts = {library: docstrings(modules) for library, modules in MODULES.items()}
documents = [text for own in texts.values() for text in own]
labels = np.repeat(list(texts), [len(own) for own in texts.values()])
print({library: len(own) for library, own in texts.items()})

# %%
# The pipeline
# ------------
# Words and pairs of words, weighted by how rare they are. `LinearSVC` takes the sparse matrix as it
# is, and ends with a certificate: how far the model can be from the best one there is.

train, test, y_train, y_test = train_test_split(
    documents, labels, test_size=0.3, stratify=labels, random_state=0
)
model = make_pipeline(
    TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, dtype=np.float32),
    LinearSVC(C=1.0, random_state=0),
)
model.fit(train, y_train)
svc = model[-1]
print(f"{svc.n_features_in_} features, relative gap {svc.relative_gap_:.1e}")
print(f"accuracy on {len(test)} other docstrings: {model.score(test, y_test):.3f}")

# %%
# What it learned
# ---------------
# The words that speak most for each library: how its authors write, as much as what about.

words = model[0].get_feature_names_out()
figure, axes = plt.subplots(1, 4, figsize=(10, 4), layout="constrained")
for ax, library, weights in zip(axes, svc.classes_, svc.coef_, strict=True):
    top = np.argsort(weights)[-10:]
    ax.barh(words[top], weights[top], color="0.4")
    ax.set_title(library)
figure.supxlabel("Weight")
plt.show()

# %%
# Which libraries are taken for which, among docstrings that were not trained on.

figure, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
ConfusionMatrixDisplay.from_estimator(model, test, y_test, ax=ax, cmap="Greys", colorbar=False)
plt.show()

"""
One versus the rest, Crammer-Singer or Weston-Watkins?
======================================================

Three ways to make one linear classifier of more than two classes. `compare_multiclass` trains each
on the same random partitions of the data, with a C that is chosen for it, and tests whether the
accuracies differ.
"""

# %%
# Handwritten digits, 1797 images of ten classes. Six partitions are few, for an example that takes
# seconds: even if one method won every time, no p-value could be below 0.03.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from dualsweep import compare_multiclass
from dualsweep.plotting import ComparisonDisplay

X, y = load_digits(return_X_y=True)
result = compare_multiclass(X / 16, y, Cs=[0.03, 0.3, 3.0], n_repeats=6, random_state=0)
print(result)

# %%
# Grey lines are partitions: what counts is whether they all go up or down between two methods, not
# how far the means are apart.

ComparisonDisplay(result).plot()
plt.show()

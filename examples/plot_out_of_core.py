"""
More rows than memory holds
===========================

Rows are written to a store in chunks, as they come, and trained on block by block within a limit on
memory. The certificate is that of all rows.
"""

# %%
# Writing
# -------
# A store is a directory of blocks with checksums. Whoever writes it needs one chunk at a time: here
# ten of generated text, in blocks of 2 MB, so that there are some. (64 MB is the default; files of
# svmlight text become stores by ``dualsweep convert``.)

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
from sklearn.metrics import accuracy_score

from dualsweep import LinearSVC
from dualsweep.datasets import make_text_like
from dualsweep.io import open_store, open_writer
from dualsweep.plotting import ConvergenceDisplay

X, y = make_text_like(60_000, 5_000, mean_length=40, random_state=0)
folder = TemporaryDirectory()
with open_writer(Path(folder.name, "text"), block_bytes=2 << 20) as writer:
    for first in range(0, 50_000, 5_000):
        writer.append(X[first : first + 5_000], y[first : first + 5_000])
store = open_store(Path(folder.name, "text"))
print(f"{store.shape[0]} rows in {len(store)} blocks, {store.n_bytes / 2**20:.0f} MB")

# %%
# Training
# --------
# With a limit of 12 MB, blocks are read again and again. Without one, or where the store fits, it
# is loaded and trained on in memory.

LIMIT = 12 << 20
outside = LinearSVC(memory_limit=LIMIT, tol=1e-3, random_state=0).fit(store)
inside = LinearSVC(tol=1e-3, random_state=0).fit(*store.load())
for name, model in {"block by block": outside, "in memory": inside}.items():
    accuracy = accuracy_score(y[50_000:], model.predict(X[50_000:]))
    print(f"{name}: relative gap {model.relative_gap_:.1e}, accuracy {accuracy:.3f}")

# %%
# Both prove the same. An epoch block by block reads all blocks once and sweeps over each several
# times, since reading is what takes long.

ConvergenceDisplay.from_estimators({"block by block": outside, "in memory": inside})
plt.show()
folder.cleanup()

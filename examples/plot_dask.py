"""
Training on a Dask cluster
==========================

`dualsweep.distributed.LinearSVC` trains on partitions where they are. What goes over the network,
in each round, is a vector of weights; what comes back at the end is a model with the same
certificate as anywhere.
"""

# %%
# A cluster of two workers in this process, for the example's sake, and 10,000 rows in four blocks.
# On a real cluster the blocks would be read by the workers themselves.

import dask.array as da
import matplotlib.pyplot as plt
from distributed import Client, LocalCluster

import dualsweep
from dualsweep.datasets import make_text_like
from dualsweep.distributed import LinearSVC

X, y = make_text_like(10_000, 200, mean_length=20, random_state=0)
cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
client = Client(cluster)
blocks = da.from_array(X.toarray(), chunks=(2_500, -1))
labels = da.from_array(y, chunks=2_500)

model = LinearSVC(C=0.1, tol=1e-3, random_state=0).fit(blocks, labels)
print(f"{model.n_iter_} rounds, relative gap {model.relative_gap_:.1e}")

# %%
# The same problem in memory: the objectives agree as far as the two gaps allow.

local = dualsweep.LinearSVC(C=0.1, tol=1e-3, random_state=0).fit(X, y)
print(f"objectives {model.primal_objective_:.2f} and {local.primal_objective_:.2f}")
predicted = model.predict(blocks).compute()
print(f"{(predicted == local.predict(X)).mean():.2%} of the predictions are the same")

# %%
# Rounds on the cluster, epochs in memory. Partitions meet once a round, so that more are needed.

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for name, fitted, style in (("cluster", model, "k-o"), ("in memory", local, "k--s")):
    seen = fitted.estimates_
    ax.plot(seen["epoch"], seen["relative_gap"], style, label=name)
ax.axhline(1e-3, color="0.6", label="tol")
ax.set(xlabel="Round, or epoch", ylabel="Relative duality gap", yscale="log")
ax.legend()
plt.show()

client.close()
cluster.close()

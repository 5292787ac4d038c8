"""`LinearSVC` for collections of Dask."""

from __future__ import annotations

from ..estimators.svc import LinearSVC as InMemory
from .on_cluster import ELSEWHERE, OnCluster


class LinearSVC(OnCluster, InMemory, without=ELSEWHERE):
    """Linear support vector classification with a certificate, on a Dask cluster.

    Minimises, and proves, what `dualsweep.LinearSVC` does: for two classes::

        P(w, b) = 1/2 |w|^2 + 1/2 (b / intercept_scaling)^2 + sum_i C_i * loss(y_i (w.x_i + b))

    to ``P - D <= tol * P``, over rows in the partitions of a cluster. Partitions stay on the
    workers that compute them, and so do their dual variables. A round sends weights to the workers,
    where each partition sweeps its own rows, and adds up what comes back: n_features + 1 numbers
    (times n_classes, where all classes are trained at once) either way. Where features are few, or
    rounds are slow, there are Newton steps, whose sums are added up in the same way.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {weights}
    {certificate}

    Notes
    -----
    How many rounds it takes depends on how the rows are distributed. Partitions that are alike,
    such as those of shuffled rows, take least.

    An integer as `random_state` gives bitwise the same model if the same partitions are on the same
    workers and none is lost.

    Partitions past 0.3 of a worker's memory are kept on its disk, and read when they are needed.
    Those of a store are read from the store.

    If a worker is lost, Dask computes its partitions again elsewhere, their dual variables start
    from 0, and training goes on to the same certificate. What cannot be computed again, or workers
    that are lost again and again, end in an error.

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtarik, Takac (2015). Adding vs. averaging in distributed
    primal-dual optimization. ICML.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from dualsweep.distributed import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     model = LinearSVC(C=0.1, random_state=0).fit(da.from_array(scale(X), (200, 30)), y)
    >>> bool(model.relative_gap_ <= 1e-3)
    True
    """

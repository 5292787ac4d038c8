"""The same problems and certificates on a cluster: here, two worker processes."""

import functools
import itertools
import os
import signal
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import dualsweep
from dualsweep.datasets import make_text_like
from dualsweep.io import write_store

pytest.importorskip("distributed", reason="needs dualsweep[dask]")

import dask
import dask.array as da
from distributed import Client, LocalCluster

from dualsweep.distributed import LinearSVC
from dualsweep.losses import LOSSES, Box
from dualsweep.placements.cluster import worker
from dualsweep.placements.cluster.client import Cluster
from dualsweep.placements.cluster.partitions import Answer, Partition

# Dask itself warns now and then when workers come and go.
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore::ResourceWarning")

SIZES = (260, 1, 0, 339)  # uneven partitions, one of them empty and one of a single class


@contextmanager
def two_workers(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            LocalCluster(2, threads_per_worker=1, dashboard_address=":0", **options) as cluster,
            Client(cluster) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture
def mortal():
    """A client whose workers may be killed; Dask may start new ones."""
    with two_workers() as client:
        yield client


@pytest.fixture
def small():
    """A client of workers with a limit of 10 kB, less than Python alone takes."""
    limits = ["target", "spill", "pause", "terminate"]
    ignored = {f"distributed.worker.memory.{limit}": False for limit in limits}
    with dask.config.set(ignored), two_workers(memory_limit=10_000) as client:
        yield client


@pytest.fixture(scope="module")
def text():
    return make_text_like(600, 80, mean_length=10, noise=0.1, dtype=np.float64, random_state=3)


@pytest.fixture(scope="module")
def wide():
    """Text with so many words that rounds of sweeps come before Newton steps."""
    return make_text_like(600, 300, mean_length=10, noise=0.1, dtype=np.float64, random_state=3)


@pytest.fixture(scope="module")
def classes():
    X, y = make_text_like(
        600, 80, mean_length=10, n_classes=4, noise=0.1, dtype=np.float64, random_state=3
    )
    return X, np.array(["apple", "fig", "kiwi", "plum"])[np.unique(y, return_inverse=True)[1]]


def delayed_blocks(X, y, sizes=SIZES):
    """Return what Dask can compute again: pairs of blocks and labels."""
    cuts = np.cumsum([0, *sizes])
    make = dask.delayed(lambda rows: rows, pure=True)
    return [(make(X[a:b]), make(y[a:b])) for a, b in itertools.pairwise(cuts)]


def assert_certified(model, X, y, weight=1.0):
    """Recompute the certificate of a binary or one-versus-rest model from its attributes."""
    duals = sp.csr_array(model.dual_coef_.compute()).toarray()
    np.testing.assert_allclose(duals @ X.toarray(), model.coef_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(duals.sum(axis=1), model.intercept_, rtol=1e-9, atol=1e-11)
    rows = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    primal = dual = 0.0
    cost = model.C * weight * np.ones(len(y))
    for label, w, b, signed in zip(rows, model.coef_, model.intercept_, duals, strict=True):
        sign = np.where(y == label, 1.0, -1.0)
        slack, alpha = np.maximum(0.0, 1.0 - sign * (X @ w + b)), sign * signed
        size = 0.5 * (w @ w + b * b)
        assert (alpha >= 0).all()
        if model.loss == "hinge":
            assert (alpha <= cost).all()
            primal, dual = primal + size + cost @ slack, dual + alpha.sum() - size
        else:
            primal += size + cost @ slack**2
            assert not alpha[cost == 0].any()
            used = cost > 0
            dual += alpha.sum() - size - 0.25 * (alpha[used] ** 2 / cost[used]).sum()
    np.testing.assert_allclose(model.primal_objective_, primal, rtol=1e-9)
    np.testing.assert_allclose(model.dual_objective_, dual, rtol=1e-9)
    assert model.converged_
    assert primal - dual <= model.tol * primal * (1 + 1e-9)
    np.testing.assert_array_equal(model.support_.compute(), np.flatnonzero(duals.any(axis=0)))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_two_classes(client, text, loss):
    X, y = text
    model = LinearSVC(C=0.1, loss=loss, random_state=0).fit(delayed_blocks(X, y))
    assert_certified(model, X, y)
    again = LinearSVC(C=0.1, loss=loss, random_state=0).fit(delayed_blocks(X, y))
    # Sums depend on their order, and so on where Dask puts the partitions.
    assert abs(model.primal_objective_ - again.primal_objective_) <= 1e-3 * model.primal_objective_


def test_workers_learn_of_a_loss_that_the_client_added(client, text, monkeypatch):
    X, y = text
    for loss, formula in (
        (Box(0.0, 1.0, 1.0), lambda s: np.where(s >= 1, s - 1 / 2, s**2 / 2)),
        (Box(0.0, 1.0, 0.5), lambda s: np.where(s >= 1 / 2, s - 1 / 4, s**2)),  # another version
    ):
        monkeypatch.setitem(LOSSES, "smooth_hinge", loss)
        model = LinearSVC(C=0.1, loss="smooth_hinge", random_state=0).fit(delayed_blocks(X, y))
        sign = np.where(y == model.classes_[1], 1.0, -1.0)
        slack = np.maximum(1.0 - sign * (X @ model.coef_[0] + model.intercept_[0]), 0.0)
        primal = (model.coef_[0] @ model.coef_[0] + model.intercept_[0] ** 2) / 2
        primal += 0.1 * formula(slack).sum()
        np.testing.assert_allclose(model.primal_objective_, primal, rtol=1e-9)
        expected = dualsweep.LinearSVC(C=0.1, loss="smooth_hinge", tol=1e-6).fit(X, y)
        assert model.converged_
        assert model.dual_objective_ <= expected.primal_objective_
        assert expected.dual_objective_ <= model.primal_objective_


def test_one_versus_rest_with_weights(client, classes):
    X, y = classes
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    cuts = np.cumsum([0, *SIZES])[1:-1]
    weights = [dask.delayed(part) for part in np.split(weight, cuts)]
    model = LinearSVC(C=0.05, random_state=0).fit(delayed_blocks(X, y), sample_weight=weights)
    assert list(model.classes_) == ["apple", "fig", "kiwi", "plum"]
    assert_certified(model, X, y, weight)
    balanced = LinearSVC(C=0.05, class_weight="balanced", random_state=0)
    expected = dualsweep.LinearSVC(C=0.05, class_weight="balanced", tol=1e-6).fit(X, y)
    found = balanced.fit(delayed_blocks(X, y))
    assert 0 <= found.primal_objective_ - expected.dual_objective_ <= 2 * found.dual_gap_


@pytest.mark.parametrize("multi_class", ["crammer_singer", "weston_watkins"])
def test_all_classes_at_once(client, classes, multi_class):
    X, y = classes
    settings = {"C": 0.05, "multi_class": multi_class, "random_state": 0}
    model = LinearSVC(**settings).fit(delayed_blocks(X, y))
    expected = dualsweep.LinearSVC(**settings, tol=1e-6).fit(X, y)
    assert model.converged_
    assert model.primal_objective_ - expected.dual_objective_ >= 0
    assert model.dual_objective_ <= expected.primal_objective_
    duals = sp.csr_array(model.dual_coef_.compute())
    np.testing.assert_allclose(duals @ X.toarray(), model.coef_, rtol=1e-9, atol=1e-11)


def test_collections_agree_and_predictions_are_lazy(client, text, tmp_path):
    X, y = text
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    model = LinearSVC(C=0.1, random_state=0)
    dense = da.from_array(X.toarray(), chunks=(300, -1))
    assert_certified(model.fit(dense, y), X, y)
    csr = dense.map_blocks(sp.csr_array)
    assert_certified(model.fit(csr, da.from_array(y, chunks=200)), X, y)
    scores = model.decision_function(dense)
    assert isinstance(scores, da.Array)
    np.testing.assert_allclose(
        scores.compute(), X @ model.coef_[0] + model.intercept_[0], rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(model.predict(csr).compute(), model.predict(X))
    frame = pd.DataFrame(X.toarray()).add_prefix("f")
    frames = dd.from_pandas(frame.assign(label=y), npartitions=2)
    model.fit(frames[list(frame.columns)], frames["label"])
    assert_certified(model, X, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    store = write_store(tmp_path / "store", X, y, block_bytes=20_000)
    assert len(store) > 1
    assert_certified(model.fit(store), X, y)


def test_corrupt_blocks_are_refused_by_training_and_predictions(client, text):
    X, y = text
    dense = da.from_array(X.toarray(), chunks=(300, -1))
    model = LinearSVC(C=0.1, random_state=0).fit(dense, y)

    def corrupt(block):
        block = sp.csr_array(block)
        block.indices[3] = 10**6
        return block

    blocks = dense.map_blocks(corrupt, meta=sp.csr_array((0, 0)))
    for answer in (model.predict(blocks), model.decision_function(blocks)):
        with pytest.raises(ValueError, match="structure is corrupt"):
            answer.compute()
    with pytest.raises(ValueError, match="structure is corrupt"):
        LinearSVC(C=0.1, random_state=0).fit(blocks, y)


def test_what_cannot_be_trained_is_refused(client, text):
    X, y = text
    dense = da.from_array(X.toarray(), chunks=(300, 40))
    model = LinearSVC(C=0.1)
    with pytest.raises(ValueError, match="rechunk"):
        model.fit(dense, y)
    with pytest.raises(ValueError, match=r"dualsweep\.LinearSVC"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="y is missing"):
        model.fit(dense.rechunk({1: -1}))
    with pytest.raises(ValueError, match="600 rows, but y has 599"):
        model.fit(dense.rechunk({1: -1}), y[:-1])
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.fit(dense.rechunk({1: -1}), np.zeros(600, int))
    broken = X.toarray()
    broken[450, 3] = np.nan
    with pytest.raises(ValueError, match="Row 450 has NaN"):
        model.fit(da.from_array(broken, chunks=(300, -1)), y)


def hide_workers(monkeypatch, proxied):
    """Let only the scheduler reach workers, by `ProxyRPC` or by tasks."""

    async def unreachable(self, homes):
        return False

    monkeypatch.setattr(Cluster, "_reach", unreachable)
    if not proxied:
        monkeypatch.setattr("dualsweep.placements.cluster.client.ProxyRPC", None)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("method", "at"), [("sweeps", 3), ("sweeps", 9), ("newton", 7)])
def test_a_worker_that_is_killed(mortal, text, wide, monkeypatch, method, at, hidden):
    """In the middle of training, its partitions are computed again, and the certificate holds."""
    if hidden:
        hide_workers(monkeypatch, proxied=False)
    X, y = wide if method == "sweeps" else text
    asked = []
    ask = Cluster.ask

    def ask_and_kill(self, question, sent):
        asked.append(question.question)
        if len(asked) == at:
            victim = self.groups[0][0]
            os.kill(mortal.run(os.getpid, workers=[victim])[victim], signal.SIGKILL)
        return ask(self, question, sent)

    monkeypatch.setattr(Cluster, "ask", ask_and_kill)
    model = LinearSVC(C=0.1, random_state=0, client=mortal)
    model.fit(delayed_blocks(X, y, (200, 200, 200)))
    assert len(asked) > at
    assert (Partition.hessian in asked) == (method == "newton")
    assert_certified(model, X, y)


def test_a_partition_that_cannot_be_computed_again(mortal, text, tuned):
    tuned(LOST=1.0)
    X, y = text
    held = [dask.delayed(mortal.scatter(part)) for part in (X, y)]
    model = LinearSVC(C=0.1, random_state=0, client=mortal)
    ask, killed = Cluster.ask, []

    def ask_and_kill(self, question, sent):
        if not killed:
            killed.append(self.groups[0][0])
            os.kill(mortal.run(os.getpid, workers=killed)[killed[0]], signal.SIGKILL)
        return ask(self, question, sent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "ask", ask_and_kill)
        with pytest.raises(RuntimeError, match="cannot be computed again"):
            model.fit([tuple(held)])


@pytest.mark.parametrize("dense", [False, True])
def test_rows_past_the_memory_of_workers_are_read_from_disk(small, text, wide, dense, monkeypatch):
    """Files are there while training asks for rows, and gone afterwards."""

    def on_disk(dask_worker):
        files = Path(dask_worker.local_directory).glob("dualsweep-*")
        return [held.X is None for held in worker._held.values()], len(list(files))

    X, y = wide if dense else text
    parts = delayed_blocks(X.toarray() if dense else X, y, (200, 200, 200))
    seen = []
    ask = Cluster.ask

    def ask_and_look(self, *question):
        seen.append(small.run(on_disk).values())
        return ask(self, *question)

    monkeypatch.setattr(Cluster, "ask", ask_and_look)
    model = LinearSVC(C=0.1, random_state=0, client=small).fit(parts)
    assert all(sum(n for _, n in workers) == 3 for workers in seen)
    assert all(all(held) for workers in seen for held, _ in workers)
    assert_certified(model, X, y)
    assert all(n == 0 for _, n in small.run(on_disk).values())


@pytest.mark.parametrize("proxied", [True, False])
def test_workers_that_only_the_scheduler_can_reach(client, text, monkeypatch, proxied):
    hide_workers(monkeypatch, proxied)
    X, y = text
    assert_certified(LinearSVC(C=0.1, random_state=0).fit(delayed_blocks(X, y)), X, y)


def test_nothing_is_left_on_the_workers(client, text):
    X, y = text
    model = LinearSVC(C=0.1, random_state=0).fit(delayed_blocks(X, y))
    model.dual_coef_.compute()
    assert set(client.run(lambda: len(worker._held)).values()) == {0}


def test_answers_of_different_precision_add_up():
    few, huge = np.full(3, 2.0, np.float32), np.array([1e300, -1e300, 1.0])
    for weights in ([few, huge], [huge.copy(), few], [few.copy(), few, huge]):
        answers = [Answer(w, np.ones(2), {k: "born"}) for k, w in enumerate(weights)]
        expected = sum(w.astype(np.float64) for w in weights)
        total, numbers, born = functools.reduce(Answer.plus, answers)
        np.testing.assert_array_equal(total, expected)
        np.testing.assert_array_equal(numbers, np.full(2, float(len(weights))))
        assert list(born) == list(range(len(weights)))

"""Stores where rows in memory were expected: written in chunks, predicted, searched, certified."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from test_cli import facts, run
from test_outofcore import CountingStore, limit

from dualsweep import LinearSVC, LinearSVCCV, certify, svc_path
from dualsweep.datasets import make_text_like
from dualsweep.io import open_store, open_writer, write_store
from dualsweep.placements import PartOfBlocks


@pytest.fixture(scope="module")
def text():
    return make_text_like(1500, 300, mean_length=15, noise=0.1, dtype=np.float64, random_state=0)


@pytest.fixture(scope="module")
def store(tmp_path_factory, text):
    return write_store(tmp_path_factory.mktemp("data") / "store", *text, block_bytes=16_000)


# --------------------------------------------------------------------------------------- writing


def test_chunks_make_the_store_that_all_rows_at_once_make(tmp_path, text, store):
    X, y = text
    with open_writer(tmp_path / "s", block_bytes=16_000) as writer:
        for start in range(0, 1500, 77):
            rows = slice(start, start + 77)
            chunk = X[rows].toarray() if start % 2 else X[rows]
            writer.append(chunk, y[rows].tolist())
        writer.append(X[:0], y[:0])
        assert not (tmp_path / "s").exists()
    written, labels = open_store(tmp_path / "s").load()
    assert (written != X).nnz == 0
    np.testing.assert_array_equal(labels, y)
    assert open_store(tmp_path / "s").fingerprint == store.fingerprint


def test_labels_of_chunks_get_the_type_of_all(tmp_path):
    with open_writer(tmp_path / "text", block_bytes=100) as writer:
        writer.append(np.eye(3), ["a", "b", "a"])
        writer.append(np.eye(3), ["long label", "b", "a"])
    assert open_store(tmp_path / "text").y.tolist() == ["a", "b", "a", "long label", "b", "a"]
    with open_writer(tmp_path / "numbers", block_bytes=100) as writer:
        writer.append(np.eye(2), [1, 2])
        writer.append(np.eye(2), [0.5, 1.0])
    store = open_store(tmp_path / "numbers")
    store.verify()
    assert store.y.tolist() == [1.0, 2.0, 0.5, 1.0]


def test_types_of_values(tmp_path):
    with open_writer(tmp_path / "a") as writer:
        writer.append(np.eye(2, dtype=np.float32), [0, 1])
        writer.append(np.eye(2), [0, 1])
    assert open_store(tmp_path / "a").dtype == np.float32
    with open_writer(tmp_path / "b", dtype=np.float64) as writer:
        writer.append(sp.eye_array(2, dtype=np.float32), [0, 1])
    assert open_store(tmp_path / "b").dtype == np.float64
    with open_writer(tmp_path / "c") as writer:
        writer.append([[1, 2]], [0])
    assert open_store(tmp_path / "c").dtype == np.float64


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([(np.eye(2), [0])], r"X has 2 rows, but y has the shape \(1,\)"),
        ([(np.eye(2), [0, 1]), (np.eye(3), [0, 1, 2])], "3 features, but chunks .* have 2"),
        ([(np.eye(2), [0, 1]), (np.eye(2), ["a", "b"])], "must be text, or those of all numbers"),
        ([], "no rows"),
    ],
)
def test_chunks_that_do_not_fit_leave_nothing(tmp_path, chunks, message):
    def write():
        with open_writer(tmp_path / "s") as writer:
            for chunk in chunks:
                writer.append(*chunk)

    with pytest.raises(ValueError, match=message):
        write()
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(ValueError, match="float32 or float64"),
        open_writer(tmp_path / "s", dtype=int),
    ):
        pass


# ------------------------------------------------------------------------------------ predicting


def test_prediction_of_a_store_reads_a_block_at_a_time(store, text):
    X, y = text
    three = y + (X[:, :20].sum(axis=1) > 0.2)
    for labels in (y, three):
        model = LinearSVC(C=0.1, random_state=0).fit(X, labels)
        counting = CountingStore(store.path)
        np.testing.assert_array_equal(model.predict(counting), model.predict(X))
        np.testing.assert_array_equal(model.decision_function(counting), model.decision_function(X))
        assert counting.reads == 2 * len(store)
        assert counting.most <= 2 * store.block_bytes.max()
        assert model.score(store, labels) == model.score(X, labels)
        sparse = LinearSVC(C=0.1, random_state=0).fit(X, labels).sparsify()
        np.testing.assert_allclose(sparse.decision_function(store), model.decision_function(X))
    narrow = LinearSVC(random_state=0).fit(X[:, :-1], y)
    with pytest.raises(ValueError, match="300 features, but LinearSVC is expecting 299"):
        narrow.predict(store)


def test_a_part_of_blocks_has_the_rows_that_are_chosen(store, text):
    X, y = text
    chosen = np.random.default_rng(0).random(1500) < 0.3
    chosen[: store.starts[2]] = False  # some blocks have none
    for part in (PartOfBlocks(store, chosen), PartOfBlocks(store, np.flatnonzero(chosen))):
        rows = [part.read(b) for b in range(len(store))]
        assert (sp.vstack([r for r, _ in rows]) != X[chosen]).nnz == 0
        np.testing.assert_array_equal(np.concatenate([labels for _, labels in rows]), y[chosen])
        labels = [part.read_labels(b) for b in range(len(store))]
        np.testing.assert_array_equal(np.concatenate(labels), y[chosen])
        assert [len(r) for r in labels] == np.diff(part.starts).tolist()
        assert part.shape == (chosen.sum(), 300)
        assert (part.load()[0] != X[chosen]).nnz == 0


# ------------------------------------------------------------------------------------- searching


@pytest.mark.filterwarnings("ignore:.* found the best score at C")
@pytest.mark.parametrize("params", [{"loss": "hinge"}, {"loss": "squared_hinge"}])
def test_a_search_in_blocks_finds_what_it_finds_in_memory(store, text, params):
    X, y = text
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    options = {"Cs": [0.01, 0.1, 1.0], "cv": folds, "patience": None, "random_state": 0}
    options |= params | {"tol": 1e-5, "max_iter": 3000, "scoring": "f1"}
    counting = CountingStore(store.path)
    model = LinearSVCCV(memory_limit=limit(store), **options).fit(counting)
    whole = LinearSVCCV(**options).fit(X, y)
    assert counting.most <= 8 * store.block_bytes.max()
    assert model.C_ == whole.C_
    np.testing.assert_allclose(model.scores_, whole.scores_, atol=0.01)
    assert (model.search_gap_ <= 1e-5).all()
    assert model.dual_objective_ <= whole.primal_objective_
    assert whole.dual_objective_ <= model.primal_objective_
    # Scores are those of models of the training rows on the others, whatever they are read from.
    train, test = next(folds.split(X, y))
    cold = LinearSVC(C=1.0, tol=1e-5, max_iter=3000, random_state=0, **params).fit(
        X[train], y[train]
    )
    assert model.scores_[0, 2] == pytest.approx(f1_score(y[test], cold.predict(X[test])), abs=0.01)


def test_a_search_in_blocks_tries_what_it_tries_in_memory(store, text):
    X, y = text
    weight = np.random.default_rng(0).integers(0, 3, 1500)

    def scoring(model, X, y, sample_weight):
        return -abs(np.log(model.C / 30.0))

    options = {"Cs": 4, "cv": KFold(2), "scoring": scoring, "random_state": 0}
    model = LinearSVCCV(memory_limit=limit(store), **options).fit(store, sample_weight=weight)
    whole = LinearSVCCV(**options).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.Cs_, whole.Cs_)
    assert len(model.Cs_) > 4
    np.testing.assert_allclose(model.C_, whole.C_)


def test_a_search_in_blocks_starts_each_cost_from_the_one_before(store):
    limits = {"memory_limit": limit(store), "random_state": 0}
    for loss in ("hinge", "squared_hinge"):
        Cs = [0.1, 0.12, 0.14]
        warm = svc_path(store, Cs=Cs, loss=loss, **limits)
        cold = [LinearSVC(C=C, loss=loss, **limits).fit(store) for C in Cs]
        assert sum(model.n_iter_ for model in warm.models[1:]) < sum(c.n_iter_ for c in cold[1:])
        for model, other in zip(warm.models, cold, strict=True):
            assert model.relative_gap_ <= 1e-3
            assert model.dual_objective_ <= other.primal_objective_
            assert other.dual_objective_ <= model.primal_objective_


@pytest.mark.parametrize("method", ["crammer_singer", "weston_watkins"])
def test_a_search_over_all_classes_at_once(store, text, method):
    X, y = text
    three = y + (X[:, :20].sum(axis=1) > 0.2)
    options = {"Cs": [0.01, 0.1], "cv": KFold(2), "multi_class": method, "random_state": 0}
    weight = np.random.default_rng(0).integers(0, 3, 1500)
    model = LinearSVCCV(memory_limit=300_000, **options).fit(store, three, sample_weight=weight)
    whole = LinearSVCCV(**options).fit(X, three, sample_weight=weight)
    np.testing.assert_allclose(model.scores_, whole.scores_, atol=0.03)
    assert model.relative_gap_ <= 1e-3
    assert model.dual_objective_ <= whole.primal_objective_
    assert whole.dual_objective_ <= model.primal_objective_


def test_rows_of_folds_of_blocks(store):
    twice = [(np.array([0, 1, 1, 2]), np.array([3, 4]))]
    with pytest.raises(ValueError, match="must not have a row twice"):
        LinearSVCCV(cv=twice, memory_limit=limit(store)).fit(store)
    splitter = ShuffleSplit(1, test_size=0.2, random_state=0)
    model = LinearSVCCV(Cs=[0.1], cv=splitter, memory_limit=limit(store), random_state=0).fit(store)
    assert model.scores_.shape == (1, 1)
    # A store of another width, after a table with names.
    wide = model.n_features_in_
    table = pd.DataFrame(np.eye(20), columns=[f"x{j}" for j in range(20)])
    model.set_params(cv=2).fit(table, np.arange(20) % 2)
    assert model.n_features_in_ == 20
    model.set_params(cv=splitter).fit(store)
    assert model.n_features_in_ == wide == 300
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(store).shape == (1500,)


def test_class_weights_and_warm_starts_in_blocks(store, text):
    X, y = text
    params = {"class_weight": {1: 2.0}, "tol": 1e-4, "random_state": 0}
    model = LinearSVC(memory_limit=limit(store), warm_start=True, **params).fit(store)
    assert model.n_iter_ > 2
    model.fit(store)
    assert (model.n_iter_, model.converged_) == (0, True)
    whole = LinearSVC(**params).fit(X, y)
    assert model.primal_objective_ == pytest.approx(whole.primal_objective_, rel=2e-4)


def test_blocks_in_which_a_class_has_no_weight(store, text):
    X, y = text
    weight = np.ones(1500)
    first = slice(0, int(store.starts[1]))
    weight[first] = y[first] == 1
    model = LinearSVC(memory_limit=limit(store), random_state=0).fit(store, sample_weight=weight)
    whole = LinearSVC(random_state=0).fit(X, y, sample_weight=weight)
    assert model.primal_objective_ == pytest.approx(whole.primal_objective_, rel=2e-3)


# ------------------------------------------------------------------------------------ certifying


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared"])
def test_certificates_block_by_block_are_those_of_all_rows(store, text, loss):
    X, y = text
    model = LinearSVC(loss=loss, tol=1e-4, random_state=0).fit(X, y)
    counting = CountingStore(store.path)
    found = certify(model, counting, memory_limit=limit(store), tol=1e-4)
    assert counting.most <= 8 * store.block_bytes.max()
    expected = certify(model, X, y, tol=1e-4)
    assert found.n_iter == expected.n_iter == 0
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-12)
    assert found.relative_gap == pytest.approx(expected.relative_gap, rel=1e-6)
    # Without dual variables of its own, or with other weights, a bound is found block by block.
    model.coef_ = 0.9 * model.coef_
    del model.dual_coef_
    found = certify(model, store, memory_limit=limit(store))
    expected = certify(model, X, y)
    assert found.n_iter > 0
    assert found.primal == pytest.approx(expected.primal, rel=1e-12)
    assert found.dual == pytest.approx(expected.dual, rel=1e-3)
    assert certify(model, store, 1 - y, memory_limit=limit(store)).primal > 2 * found.primal


# ------------------------------------------------------------------------------- the command line


def test_commands_on_a_store_larger_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_text_like(20_000, 500, mean_length=15, random_state=0)
    store = write_store("big", X, y, block_bytes=100_000)
    assert store.n_bytes > 2 << 20
    assert run("train", "big", "--memory-limit", 2, "-q", "-o", "m.npz").exit_code == 0
    certified = facts(run("certify", "m.npz", "big", "--memory-limit", 2, "--json"))
    assert (certified["epochs"], certified["proven"]) == (0, True)
    found = facts(run("cv", "big", "--memory-limit", 2, "--costs", "0.01,0.1", "--json"))
    whole = facts(run("cv", "big", "--costs", "0.01,0.1", "--json"))
    np.testing.assert_allclose(found["mean_score"], whole["mean_score"], atol=0.005)
    assert found["primal_objective"] == pytest.approx(whole["primal_objective"], rel=2e-3)
    again = run(
        "train", "big", "--memory-limit", 2, "--warm-start", "m.npz", "-o", "n.npz", "--json"
    )
    assert facts(again)["epochs"] == 0

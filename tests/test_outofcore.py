import threading
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from dualsweep import LinearSVC
from dualsweep.datasets import make_text_like
from dualsweep.io import Store, load_model, write_store
from dualsweep.placements.blocks.sweeps import BYTES_PER_ROW, room_for_blocks
from dualsweep.solvers.schedules import SCHEDULES

LOSSES = {
    "hinge": lambda z: np.maximum(0.0, 1.0 - z),
    "squared_hinge": lambda z: np.maximum(0.0, 1.0 - z) ** 2,
    "squared": lambda z: (1.0 - z) ** 2,
}


@pytest.fixture(scope="module")
def text():
    return make_text_like(1500, 300, mean_length=15, noise=0.1, dtype=np.float64, random_state=0)


@pytest.fixture(scope="module")
def store(tmp_path_factory, text):
    return write_store(tmp_path_factory.mktemp("data") / "store", *text, block_bytes=16_000)


def limit(store, n_blocks=4):
    """Return a memory limit that leaves room for two groups of so many blocks."""
    block = int((store.block_bytes + BYTES_PER_ROW * np.diff(store.starts)).max())
    beside = -room_for_blocks(0, store.shape[0], store.shape[1] + 1)
    return beside + 2 * n_blocks * block


def objectives(model, X, y, weight):
    """Return primal and dual of a binary model, from coef_ and dual_coef_ alone."""
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    cost = model.C * weight
    bias = model.intercept_scaling if model.fit_intercept else 0.0
    w = np.append(model.coef_[0], model.intercept_[0] / bias if bias else 0.0)
    margin = sign * (X @ model.coef_[0] + model.intercept_[0])
    primal = 0.5 * w @ w + cost @ LOSSES[model.loss](margin)
    alpha = sign * model.dual_coef_.toarray()[0]
    v = np.append(X.T @ (sign * alpha), bias * (sign @ alpha))
    np.testing.assert_allclose(w, v, rtol=1e-9, atol=1e-9)
    if model.loss == "hinge":
        assert ((alpha >= 0) & (alpha <= cost)).all()
        return primal, alpha.sum() - 0.5 * v @ v
    if model.loss == "squared_hinge":
        assert (alpha >= 0).all()
    used = cost > 0
    assert (alpha[~used] == 0).all()
    penalty = 0.25 * (alpha[used] ** 2 / cost[used]).sum()
    return primal, alpha.sum() - 0.5 * v @ v - penalty


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_schedule_proves_the_optimum_of_blocks(store, text, loss, schedule):
    X, y = text
    params = {"loss": loss, "tol": 1e-4, "max_iter": 3000, "random_state": 0}
    model = LinearSVC(schedule=schedule, memory_limit=limit(store), **params).fit(store)
    primal, dual = objectives(model, X, y, np.ones(len(y)))
    assert 0 <= primal - dual <= 1e-4 * primal
    assert primal - dual == pytest.approx(model.dual_gap_, rel=1e-6)
    optimum = LinearSVC(**{**params, "tol": 1e-9}).fit(X, y).dual_objective_
    assert optimum * (1 - 1e-12) <= primal <= optimum / (1 - 1e-4)


def test_the_best_certified_point_of_blocks_is_returned(tmp_path):
    """Rows far from the origin: the gap of passes goes up and down."""
    rng = np.random.default_rng(0)
    X, y = sp.csr_array(5.0 + rng.normal(size=(300, 5))), np.sign(rng.normal(size=300))
    store = write_store(tmp_path / "far", X, y, block_bytes=4_000)
    model = LinearSVC(loss="hinge", C=10.0, memory_limit=limit(store), random_state=0, max_iter=31)
    with pytest.warns(match="LinearSVC stopped"):
        model.fit(store)
    gaps = model.history_["gap"]
    assert gaps[1:-1].min() < gaps[-2]  # the last pass was not the best
    assert model.dual_gap_ == pytest.approx(gaps[1:].min(), rel=1e-9)
    primal, dual = objectives(model, X, y, np.ones(300))
    assert primal - dual == pytest.approx(model.dual_gap_, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"intercept_scaling": 3.0}])
def test_certificate_and_optimum_of_blocks(store, text, loss, options):
    X, y = text
    assert len(store) > 8
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    model = LinearSVC(
        loss=loss, tol=1e-3, random_state=0, memory_limit=limit(store), **options
    ).fit(store, sample_weight=weight)
    primal, dual = objectives(model, X, y, weight)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-10)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-10)
    assert (primal - dual) / primal <= 1e-3
    whole = LinearSVC(loss=loss, tol=1e-6, random_state=0, **options).fit(X, y, weight)
    # The optimum is in both brackets.
    assert model.dual_objective_ <= whole.primal_objective_
    assert whole.dual_objective_ <= model.primal_objective_
    assert model.primal_objective_ <= whole.primal_objective_ * (1 + 2e-3)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_one_versus_rest(tmp_path, class_weight):
    X, y = make_text_like(600, 100, mean_length=12, n_classes=3, random_state=1)
    y = np.array([0, 1, 7])[y]
    blocks = write_store(tmp_path / "store", X, y, block_bytes=6_000)
    options = {"class_weight": class_weight, "C": 0.3, "random_state": 0}
    model = LinearSVC(**options, memory_limit=limit(blocks)).fit(blocks)
    whole = LinearSVC(**options, tol=1e-6).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 7]
    assert model.converged_
    for p in range(3):
        ours, other = (m.history_[m.history_["problem"] == p][-1] for m in (model, whole))
        assert ours["dual"] <= other["primal"]
        assert other["dual"] <= ours["primal"] <= other["primal"] * (1 + 1.1e-3)
        # A gap bounds the distance to the optimal weights.
        reach = np.sqrt(2 * ours["gap"]) + np.sqrt(2 * other["gap"])
        assert np.linalg.norm(model.coef_[p] - whole.coef_[p]) <= reach
    np.testing.assert_allclose(model.coef_, (model.dual_coef_ @ X).toarray(), atol=1e-9)


def test_labels_of_the_store_are_replaced(store, text):
    X, _ = text
    y = np.array(["no", "yes"])[(X[:, :20].sum(axis=1) > 0.2).astype(int)]
    model = LinearSVC(random_state=0, memory_limit=limit(store)).fit(store, y)
    assert model.classes_.tolist() == ["no", "yes"]
    primal, dual = objectives(model, X, y, np.ones(len(y)))
    assert primal - dual <= 1e-3 * primal
    with pytest.raises(ValueError, match="Unknown label type"):
        LinearSVC(memory_limit=limit(store)).fit(store, np.arange(1500) / 2)
    with pytest.raises(ValueError, match="1500 rows, but y has 1499"):
        LinearSVC(memory_limit=limit(store)).fit(store, y[1:])


def test_a_store_that_fits_is_trained_in_memory(store, text):
    in_memory = LinearSVC(random_state=0).fit(*text)
    for memory_limit in (None, 10**9):
        model = LinearSVC(random_state=0, memory_limit=memory_limit).fit(store)
        np.testing.assert_array_equal(model.coef_, in_memory.coef_)


class CountingStore(Store):
    """A store that counts the bytes that it has read and that are still in use."""

    def __init__(self, path):
        super().__init__(path)
        self.held = self.most = self.reads = 0
        self.lock = threading.Lock()

    def _add(self, size):
        with self.lock:
            self.held += size
            self.most = max(self.most, self.held)

    def read(self, b):
        X, y = super().read(b)
        X.data, X.indices = X.data.copy(), X.indices.copy()  # np.load returns views
        self.reads += 1
        for array in (X.data, X.indices):
            self._add(array.nbytes)
            weakref.finalize(array, self._add, -array.nbytes)
        return X, y


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_at_most_two_groups_of_blocks_are_in_memory(store, n_blocks):
    counting = CountingStore(store.path)
    model = LinearSVC(loss="hinge", random_state=0, memory_limit=limit(store, n_blocks))
    model.fit(counting)
    assert counting.most <= 2 * n_blocks * store.block_bytes.max()
    assert counting.most > n_blocks * store.block_bytes.max()  # reading ahead
    assert counting.held == 0
    # One reading for each pass and each certificate, except the first, of no weights.
    assert counting.reads == len(store) * (model.n_iter_ + len(model.history_) - 1)


def test_more_memory_changes_neither_the_optimum_nor_the_seed_the_model(store):
    models = [LinearSVC(random_state=0, memory_limit=limit(store, n)).fit(store) for n in (2, 2, 5)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    np.testing.assert_array_equal(models[0].dual_coef_.data, models[1].dual_coef_.data)
    assert models[2].dual_objective_ <= models[0].primal_objective_
    assert models[0].dual_objective_ <= models[2].primal_objective_


class KilledError(Exception):
    pass


class DyingStore(Store):
    """A store whose reading fails after so many blocks."""

    lives = 0

    def read(self, b):
        self.lives -= 1
        if self.lives < 0:
            raise KilledError
        return super().read(b)


def test_killed_runs_go_on_where_they_were(text, tmp_path):
    X, y = text[0][:300], text[1][:300]
    small = write_store(tmp_path / "store", X, y, block_bytes=9_000)
    n_blocks = len(small)
    assert n_blocks >= 5
    svc = LinearSVC(loss="hinge", C=0.3, tol=3e-3, random_state=0, memory_limit=limit(small, 2))
    undisturbed = CountingStore(small.path)
    whole = svc.fit(undisturbed)
    assert whole.n_iter_ >= 5
    rng = np.random.default_rng(0)
    dying = DyingStore(small.path)
    for attempt in range(20):
        checkpoint = tmp_path / f"checkpoint{attempt}"
        file = checkpoint / "000000.npz"
        kills, epoch = 0, 0
        while True:
            alive = dying.lives = int(rng.integers(1, undisturbed.reads if kills else 8 * n_blocks))
            model = LinearSVC(**svc.get_params())
            try:
                model.fit(dying, checkpoint=checkpoint)
                break
            except KilledError:
                kills += 1
            assert not hasattr(model, "coef_")
            before = epoch
            if file.exists():
                with np.load(file) as arrays:
                    epoch = int(arrays["epoch"])
            # Before it died it checked the state to resume from, and made passes and certificates,
            # the last one in part.
            epochs = whole.history_["epoch"][1:]
            checks = np.sum((epochs >= before) & (epochs <= epoch)) + (before > 0)
            assert epoch - before >= alive // n_blocks - checks
        assert kills >= 1
        np.testing.assert_array_equal(model.coef_, whole.coef_)
        assert (model.n_iter_, model.relative_gap_) == (whole.n_iter_, whole.relative_gap_)
        primal, dual = objectives(model, X, y, np.ones(len(y)))
        assert (primal - dual) / primal == pytest.approx(model.relative_gap_, rel=1e-6)


def test_a_finished_run_goes_on_to_a_smaller_tolerance(store, tmp_path):
    svc = LinearSVC(random_state=0, memory_limit=limit(store))
    first = svc.fit(store, checkpoint=tmp_path / "c").n_iter_
    again = CountingStore(store.path)
    assert svc.fit(again, checkpoint=tmp_path / "c").n_iter_ == first
    assert again.reads == 2 * len(store)  # for the state, and for its certificate
    svc.set_params(tol=1e-5).fit(store, checkpoint=tmp_path / "c")
    assert svc.relative_gap_ <= 1e-5
    assert svc.n_iter_ > first


def test_checkpoints_of_other_runs_are_refused(store, text, tmp_path):
    X, y = text
    path = tmp_path / "c"
    options = {"random_state": 0, "memory_limit": limit(store), "max_iter": 2, "tol": 0.5}
    LinearSVC(**options).fit(store, checkpoint=path)
    before = (path / "000000.npz").read_bytes()
    for change, name in [
        ({"C": 2.0}, "C was 1.0 and is 2.0"),
        ({"loss": "hinge"}, "loss was 'squared_hinge'"),
        ({"random_state": 1}, "random_state was 0"),
        ({"fit_intercept": False}, "fit_intercept was True"),
        ({"class_weight": {0: 2.0}}, "class_weight was None"),
    ]:
        with pytest.raises(ValueError, match=name):
            LinearSVC(**options | change).fit(store, checkpoint=path)
    with pytest.raises(ValueError, match="y and sample_weight was"):
        LinearSVC(**options).fit(store, 1 - y, checkpoint=path)
    with pytest.raises(ValueError, match="y and sample_weight was"):
        LinearSVC(**options).fit(store, sample_weight=y + 1.0, checkpoint=path)
    other = write_store(tmp_path / "other", 2 * X, y, block_bytes=16_000)
    with pytest.raises(ValueError, match="data was"):
        LinearSVC(**options).fit(other, checkpoint=path)
    assert (path / "000000.npz").read_bytes() == before
    (path / "000000.npz").write_bytes(before[:1000])
    with pytest.raises(ValueError, match="damaged"):
        LinearSVC(**options).fit(store, checkpoint=path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multi_class": "weston_watkins"}, "rows \\(16 bytes each, twice\\).*at least"),
        ({"solver": "newton"}, "not available block by block"),
        ({}, "Raise the limit to at least"),
    ],
)
def test_refuses(store, options, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(memory_limit=30_000, **options).fit(store)


def test_the_least_limit_in_the_message_works(store):
    with pytest.raises(ValueError, match="at least") as error:
        LinearSVC(memory_limit=30_000).fit(store)
    least = int(str(error.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    assert LinearSVC(memory_limit=least, tol=0.1, random_state=0).fit(store).converged_
    with pytest.raises(ValueError, match="at least"):
        LinearSVC(memory_limit=least - 1).fit(store)


def test_values_that_are_not_finite(text, tmp_path):
    X, y = text
    X = X.copy()
    X.data[X.indptr[700]] = np.nan
    bad = write_store(tmp_path / "bad", X, y, block_bytes=16_000)
    with pytest.raises(ValueError, match="Row 700 has NaN"):
        LinearSVC(memory_limit=limit(bad)).fit(bad)


def test_out_of_time_in_the_middle_of_a_pass(store, text, monkeypatch):
    X, y = text
    asked = iter([False] * 100)

    def poll(run):
        run.halted = next(asked, None) is None
        return run.halted

    monkeypatch.setattr("dualsweep.problems.run.Run.poll", poll)
    with pytest.warns(match="LinearSVC stopped"):
        model = LinearSVC(random_state=0, memory_limit=limit(store)).fit(store)
    primal, dual = objectives(model, X, y, np.ones(len(y)))
    assert model.n_iter_ == 1  # a part of a pass, then time was up
    assert dual > 0
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-10)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-10)


def test_command_line(store, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from dualsweep.cli import app

    monkeypatch.chdir(tmp_path)
    # The smallest limit, a megabyte, would hold all of the fixture's store.
    X, y = make_text_like(20_000, 500, mean_length=15, random_state=0)
    big = write_store("big", X, y, block_bytes=100_000)
    assert big.n_bytes > 2 << 20
    options = ["--memory-limit", "2", "--checkpoint", "c", "-o", "m.npz", "--json"]
    result = CliRunner().invoke(app, ["train", "big", *options])
    assert result.exit_code == 0, result.output
    model = load_model("m.npz")
    primal, dual = objectives(model, X, y, np.ones(len(y)))
    assert primal - dual <= 1e-3 * primal
    assert model.memory_limit == 2 << 20
    assert (tmp_path / "c" / "000000.npz").exists()
    (tmp_path / "text.svm").write_text("1 1:1\n-1 2:1\n")
    result = CliRunner().invoke(app, ["train", "text.svm", "--memory-limit", "2"])
    assert result.exit_code == 2
    assert "dualsweep convert" in result.output


def test_blocks_without_a_class_may_have_rows_of_weight_zero(tmp_path):
    """A class is missing in a block of sorted labels; it is there in others."""
    X, y = make_text_like(2000, 60, random_state=0)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    weight = np.ones(2000)
    weight[::7] = 0.0
    store = write_store(tmp_path / "store", X, y, block_bytes=X.data.nbytes // 4)
    assert len(np.unique(store.read_labels(0))) == 1
    weight[: len(store.read_labels(0))] = 0.0
    limit = 2 * int(np.sum(store.block_bytes))  # does not suffice to load it
    blocks = LinearSVC(memory_limit=limit, tol=1e-5, random_state=0)
    memory = LinearSVC(tol=1e-5, random_state=0).fit(X, y, weight)
    blocks.fit(store, sample_weight=weight)
    assert blocks.primal_objective_ == pytest.approx(memory.primal_objective_, rel=2e-5)

"""Crammer-Singer and Weston-Watkins block by block: the certificates of rows in memory."""

import warnings

import numpy as np
import pytest
from naive import NaiveMulticlass
from sklearn.exceptions import ConvergenceWarning
from test_outofcore import DyingStore, KilledError

from dualsweep import LinearSVC, certify
from dualsweep.datasets import make_text_like
from dualsweep.io import write_store
from dualsweep.placements.blocks.duals import dual_bytes
from dualsweep.placements.blocks.sweeps import BYTES_PER_ROW, room_for_blocks
from dualsweep.problems.multiclass import MulticlassProblem

METHODS = ["crammer_singer", "weston_watkins"]
N_CLASSES = 12  # more than the slots that rows start with


@pytest.fixture(scope="module")
def text():
    X, _ = make_text_like(600, 150, mean_length=15, dtype=np.float64, random_state=0)
    rng = np.random.default_rng(0)
    scores = X @ rng.normal(size=(150, N_CLASSES)) + 0.05 * rng.normal(size=(600, N_CLASSES))
    return X, np.array([f"class {k:02}" for k in scores.argmax(axis=1)])


@pytest.fixture(scope="module")
def store(tmp_path_factory, text):
    return write_store(tmp_path_factory.mktemp("data") / "store", *text, block_bytes=9_000)


def limit(store, method, n_blocks=3):
    """Return a memory limit that leaves room for two groups of so many blocks."""
    k = 12
    per_row = dual_bytes((k,), method == "crammer_singer")
    block = int((store.block_bytes + BYTES_PER_ROW * np.diff(store.starts)).max())
    n_weights = (store.shape[1] + 1) * k
    beside = -room_for_blocks(0, store.shape[0], n_weights, per_row)
    return beside + 2 * n_blocks * block


def check(model, X, y, weight=None):
    """Recompute the certificate from coef_ and dual_coef_, in NumPy."""
    weight = np.ones(len(y)) if weight is None else weight
    used = weight > 0
    codes = np.searchsorted(model.classes_, y)
    duals = model.dual_coef_.toarray()
    assert not duals[:, ~used].any()
    np.testing.assert_allclose(model.coef_, duals @ X, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, duals.sum(axis=1), atol=1e-10)
    naive = NaiveMulticlass(X[used], codes[used], model.C * weight[used], model.multi_class, 1.0)
    beta = -duals.T[used]
    beta[np.arange(used.sum()), codes[used]] = 0.0
    assert (beta >= 0).all()
    bound = beta.sum(axis=1) if model.multi_class == "crammer_singer" else beta.max(axis=1)
    assert (bound <= model.C * weight[used] * (1 + 1e-12)).all()
    W = np.column_stack([model.coef_, model.intercept_]).T
    primal, dual = naive.primal(W), beta.sum() - 0.5 * np.vdot(W, W)
    assert primal == pytest.approx(model.primal_objective_, rel=1e-10)
    assert dual == pytest.approx(model.dual_objective_, rel=1e-10)
    assert 0 <= primal - dual <= model.tol * primal


@pytest.mark.parametrize("method", METHODS)
def test_blocks_have_the_certificate_of_rows_in_memory(store, text, method):
    params = {"multi_class": method, "C": 0.3, "tol": 1e-4, "max_iter": 3000, "random_state": 0}
    model = LinearSVC(memory_limit=limit(store, method), **params).fit(store)
    whole = LinearSVC(**params).fit(*text)
    check(model, *text)
    # Both bracket the one optimum, and weights are within the gaps of it.
    assert model.dual_objective_ <= whole.primal_objective_
    assert whole.dual_objective_ <= model.primal_objective_
    reach = np.sqrt(2 * model.dual_gap_) + np.sqrt(2 * whole.dual_gap_)
    assert np.linalg.norm(model.coef_ - whole.coef_) <= reach
    found = certify(model, store, memory_limit=limit(store, method), tol=1e-4)
    assert found.n_iter == 0
    assert found.primal == pytest.approx(model.primal_objective_, rel=1e-12)
    assert found.dual == pytest.approx(model.dual_objective_, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_rows_and_classes(store, text, method):
    X, y = text
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    params = {"multi_class": method, "tol": 1e-3, "random_state": 0}
    model = LinearSVC(memory_limit=limit(store, method), **params).fit(store, sample_weight=weight)
    check(model, X, y, weight)


@pytest.mark.parametrize("method", METHODS)
def test_two_classes_are_the_hinge_loss_at_twice_the_cost(store, text, method):
    X, y = text
    y = np.where(y < "class 05", "a", "b")
    params = {"tol": 1e-5, "max_iter": 3000, "random_state": 0}
    model = LinearSVC(multi_class=method, memory_limit=limit(store, method), **params)
    model.fit(store, y)
    binary = LinearSVC(loss="hinge", C=2.0, **params).fit(X, y)
    assert model.coef_.shape == binary.coef_.shape
    assert 2 * model.primal_objective_ == pytest.approx(binary.primal_objective_, rel=2e-5)
    np.testing.assert_allclose(model.coef_, (model.dual_coef_ @ X).toarray(), atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_run_goes_on_to_bitwise_the_same_model(store, tmp_path, method):
    params = {"multi_class": method, "C": 0.3, "random_state": 0}
    svc = LinearSVC(memory_limit=limit(store, method), **params)
    whole = svc.fit(store)
    assert whole.n_iter_ >= 4
    dying = DyingStore(store.path)
    kills = 0
    while True:
        dying.lives = 4 * len(store)
        model = LinearSVC(**svc.get_params())
        try:
            model.fit(dying, checkpoint=tmp_path / "c")
            break
        except KilledError:
            kills += 1
    assert kills >= 1
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.dual_coef_.data, whole.dual_coef_.data)
    assert (model.n_iter_, model.relative_gap_) == (whole.n_iter_, whole.relative_gap_)


@pytest.mark.parametrize("method", METHODS)
def test_checkpoints_that_would_prove_what_is_not_so(store, tmp_path, method):
    def fit(**change):
        params = {"multi_class": method, "tol": 1e-9, "max_iter": 2, "random_state": 0}
        svc = LinearSVC(memory_limit=limit(store, "crammer_singer"), **params | change)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return svc.fit(store, checkpoint=tmp_path / "c")

    path = tmp_path / "c" / "000000.npz"
    fit()
    with np.load(path) as file:
        good = dict(file)
    other = {"crammer_singer": METHODS[1], "weston_watkins": METHODS[0]}[method]
    with pytest.raises(ValueError, match=f"multi_class was '{method}'|is of another run"):
        fit(multi_class=other)

    def forged(change):
        alpha = good["alpha"].copy()
        change(alpha, alpha["value"] if method == "crammer_singer" else alpha)
        np.savez(path, **good | {"alpha": alpha})
        with pytest.raises(ValueError, match="is damaged: .*alpha"):
            fit()

    forged(lambda alpha, values: values.__imul__(1.5))
    forged(lambda alpha, values: values.__imul__(-1.0))
    forged(lambda alpha, values: values.__iadd__(np.inf))
    forged(lambda alpha, values: values.__imul__(0.5))  # feasible, but w are other weights
    if method == "crammer_singer":
        forged(lambda alpha, values: alpha["class"].__setitem__(0, N_CLASSES))
        forged(lambda alpha, values: alpha["row"].__setitem__(-1, 600))
        forged(lambda alpha, values: alpha["row"].__setitem__(0, 599))
        forged(lambda alpha, values: alpha.__setitem__(1, alpha[0]))
    np.savez(path, **good)
    assert fit(max_iter=3).n_iter_ == 3


def test_feasible_is_what_the_dual_says():
    y, cost = np.array([0, 1, 2]), np.array([1.0, 2.0, 0.0])
    for joint in (True, False):
        problem = MulticlassProblem(None, np.ones(3), y, cost, joint, 3)

        def feasible(*entries, problem=problem):
            rows, classes, values = (np.array(part) for part in zip(*entries, strict=True))
            return problem.is_feasible(problem.alpha_from(rows, classes, values.astype(float)))

        assert feasible((0, 1, 0.5), (0, 2, 0.5), (1, 0, 2.0))
        assert feasible((0, 1, 0.6), (0, 2, 0.6)) is not joint
        assert not feasible((0, 1, 1.1))
        assert not feasible((0, 0, 0.1))
        assert not feasible((0, 1, -0.1))
        assert not feasible((2, 1, 0.1))

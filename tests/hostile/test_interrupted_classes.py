"""One-versus-rest that ends early: classes that were not begun do not take over the predictions."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from dualsweep import LinearSVC
from dualsweep.io import write_store
from dualsweep.placements import TrainingSet
from dualsweep.problems.result import Progress
from dualsweep.training import Context, Settings, fitting

LOSS = {
    "hinge": lambda s: np.maximum(s, 0),
    "squared_hinge": lambda s: np.maximum(s, 0) ** 2,
    "squared": lambda s: s**2,
}


@pytest.fixture
def stop_after(monkeypatch):
    """Let a Ctrl-C come when the training has asked for it so many times."""

    def patch(polls):
        def stop(context):
            nonlocal polls
            polls -= 1
            return polls < 0

        monkeypatch.setattr(Context, "stop", stop)

    return patch


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    keep = np.random.default_rng(0).random(len(y)) < np.where(y == 3, 1.0, 0.6)
    return X[keep] / 16, y[keep]  # most rows are of class 3


def primals(model, X, y):
    """The objective of each class, in plain NumPy."""
    scores = X @ model.coef_.T + model.intercept_
    sign = np.where(y[:, None] == model.classes_, 1.0, -1.0)
    size = (model.coef_**2).sum(axis=1) + (model.intercept_ / model.intercept_scaling) ** 2
    return size / 2 + model.C * LOSS[model.loss](1 - sign * scores).sum(axis=0)


def fit(X, y, **params):
    with pytest.warns(ConvergenceWarning) as caught:
        model = LinearSVC(random_state=0, **params).fit(X, y)
    assert len(caught) == 1
    return model, str(caught[0].message)


@pytest.mark.parametrize("loss", LOSS)
@pytest.mark.parametrize("intercept_scaling", [1.0, 3.0])
def test_nothing_begun_predicts_the_largest_class(stop_after, digits, loss, intercept_scaling):
    X, y = digits
    stop_after(0)
    model, message = fit(X, y, loss=loss, intercept_scaling=intercept_scaling)
    assert (model.predict(X) == 3).all()
    assert not model.coef_.any()
    assert model.dual_coef_.nnz == 0
    expected = primals(model, X, y)
    assert model.primal_objective_ == pytest.approx(expected.sum(), rel=1e-12)
    assert (model.dual_objective_, model.relative_gap_) == (0.0, 1.0)
    np.testing.assert_allclose(model.history_["primal"], expected, rtol=1e-12)
    assert (model.history_["dual"] == 0.0).all()
    assert "of 10 classes 0 are at tol, 10 were not begun" in message
    if loss == "squared":  # the intercept is the best there is without features
        for step in (-1e-4, 1e-4):
            model.intercept_ += step
            assert (primals(model, X, y) > expected).all()
            model.intercept_ -= step


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_accuracy_grows_with_the_classes_that_are_done(stop_after, digits, n_jobs, fit_intercept):
    X, y = digits
    largest = np.bincount(y).max() / len(y)
    whole = LinearSVC(random_state=0, fit_intercept=fit_intercept).fit(X, y)
    accuracies, begun = [], []
    for polls in range(1, 400, 12):
        stop_after(polls)
        try:
            model, message = fit(
                X, y, fit_intercept=fit_intercept, n_jobs=n_jobs, solver="sweep", tol=1e-3
            )
        except pytest.fail.Exception:  # no warning: it came to the end
            break
        last = model.history_[np.flatnonzero(np.diff(model.history_["problem"], append=-1))]
        started = last["dual"] != 0.0
        begun.append(started.sum())
        predicted = model.predict(X)
        accuracies.append((predicted == y).mean())
        if fit_intercept or started.any():
            np.testing.assert_allclose(
                model.primal_objective_, primals(model, X, y).sum(), rtol=1e-10
            )
        if not started.all():
            assert f"{(~started).sum()} were not begun" in message
            assert model.relative_gap_ == 1.0
            # Rows of trained classes are recognised, and not given to those that are not.
            done = (last["gap"] <= 1e-3 * last["primal"])[np.searchsorted(model.classes_, y)]
            if done.any():
                assert (predicted[done] == y[done]).mean() > 0.6
    assert len(accuracies) > 5
    assert begun[0] <= 2 < 8 < max(begun)
    if fit_intercept:
        assert min(accuracies) >= largest
    if n_jobs == 1:  # else threads share the polls as it happens
        assert (np.diff(accuracies) > -0.02).all()
    assert np.corrcoef(accuracies, begun)[0, 1] > 0.95
    assert accuracies[-1] > 0.8 * whole.score(X, y)


def test_a_warm_start_keeps_its_models(stop_after, digits):
    X, y = digits
    model = LinearSVC(random_state=0, warm_start=True).fit(X, y)
    before = model.coef_
    model.set_params(tol=1e-9)
    stop_after(0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    np.testing.assert_allclose(model.coef_, before, atol=1e-12)


def test_blocks_that_were_not_read(stop_after, digits, tmp_path):
    """After Ctrl-C no block is read for classes that were not begun."""
    X, y = digits
    store = write_store(tmp_path / "digits", sp.csr_array(X), y, block_bytes=20_000)
    stop_after(4000)
    read = []
    original = type(store).read
    store.read = lambda b: read.append(b) or original(store, b)
    with pytest.warns(ConvergenceWarning, match="were not begun"):
        model = LinearSVC(random_state=0, memory_limit=400_000).fit(store)
    last = model.history_[np.flatnonzero(np.diff(model.history_["problem"], append=-1))]
    begun = last["dual"] != 0.0
    assert 0 < begun.sum() < 10
    assert model.primal_objective_ == pytest.approx(primals(model, X, y).sum(), rel=1e-10)
    assert (model.dual_coef_.data != 0.0).all()
    passes = last["epoch"].sum() + 4 * begun.sum()
    assert len(read) <= passes * len(store)
    assert (model.predict(X) == y).mean() >= np.bincount(y).max() / len(y)


def test_time_is_shared_but_not_spread_too_thin(monkeypatch):
    """Problems share the time, but each that is begun gets three epochs."""
    clock = 0.0
    monkeypatch.setattr(fitting, "clock", lambda: clock)
    limits, ends = [], []

    def start_run(problem, *, max_time, watch, **options):
        nonlocal clock
        limits.append(max_time)
        started = clock
        for epoch in range(1, 7):
            clock += 1.0  # a second for each
            if watch(Progress(epoch, 0.9, 0, None)) or clock - started > max_time:
                break
        ends.append(clock)
        return real_start_run(problem, max_iter=0)

    real_start_run = fitting.start_run
    monkeypatch.setattr(fitting, "start_run", start_run)

    def train(n_classes):
        y = np.arange(2 * n_classes) % n_classes
        settings = Settings(max_time=20.0)
        data = TrainingSet(np.ones((len(y), 1)), y, None, settings, Context())
        fitting.train(data, settings, Context())

    train(5)
    # 20 / 5 = 4 seconds for the first: one more epoch after that; the share of the others shrinks.
    assert ends == [5.0, 9.0, 13.0, 17.0, 21.0]
    assert limits == [20.0, 15.0, 11.0, 7.0, 3.0]
    clock = 0.0
    ends.clear()
    train(100)
    assert ends[:7] == [3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0]

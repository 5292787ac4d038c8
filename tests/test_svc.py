"""LinearSVC: certificates recomputed in NumPy, equivalences, manners."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from moments import Clock, Interrupt
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC as SklearnLinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualsweep import LinearSVC
from dualsweep.losses import LOSSES
from dualsweep.problems.labels import class_codes, encode_labels, offsets_of
from dualsweep.solvers.policy import SOLVERS
from dualsweep.solvers.schedules import SCHEDULES

LAYOUTS = {
    "dense": np.ascontiguousarray,
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
}


@parametrize_with_checks([LinearSVC()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# ------------------------------------------------------------------------------- the certificate


def objectives(model, X, y, sample_weight=None, k=0):
    """Recompute primal and dual of the k-th binary problem from the fitted attributes."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    X = X.astype(np.float64)
    positive = model.classes_[1 if len(model.classes_) == 2 else k]
    sign = np.where(np.asarray(y) == positive, 1.0, -1.0)
    weight = np.ones(len(sign)) if sample_weight is None else np.asarray(sample_weight, float)
    cost = model.C * weight
    signed = model.dual_coef_.toarray()[k]
    alpha = signed * sign
    w, b = model.coef_[k], model.intercept_[k]
    scaling = model.intercept_scaling if model.fit_intercept else 1.0

    rounding = 1e-13 * np.abs(signed).sum() * (1 + np.abs(X).max())
    begun = signed.any() or model.converged_  # else the class scores by how frequent it is
    np.testing.assert_allclose(w, signed @ X, rtol=0, atol=rounding)
    if model.fit_intercept and begun:
        np.testing.assert_allclose(b, scaling**2 * signed.sum(), rtol=0, atol=scaling**2 * rounding)
    z = sign * (X @ w + b)
    loss = {
        "hinge": np.maximum(0, 1 - z),
        "squared_hinge": np.maximum(0, 1 - z) ** 2,
        "squared": (1 - z) ** 2,
        "logistic": np.logaddexp(0, -z),
    }[model.loss]
    norm = 0.5 * (w @ w + (b / scaling) ** 2)
    used = cost > 0
    primal = norm + cost[used] @ loss[used]
    dual = alpha.sum() - (norm if begun else 0.0)
    if model.loss in ("hinge", "logistic"):
        assert alpha.min() >= 0
        assert (alpha <= cost).all()
    if model.loss == "logistic":
        p = alpha[used] / cost[used]
        dual += cost[used] @ (-xlogy(p, p) - xlogy(1 - p, 1 - p)) - alpha.sum()
    elif model.loss != "hinge":
        dual -= 0.25 * (alpha[used] ** 2 / cost[used]).sum()
        assert model.loss == "squared" or alpha.min() >= 0
    assert not alpha[~used].any()
    return primal, dual


def assert_honest(model, X, y, sample_weight=None):
    """Assert that what the model says of itself is true."""
    problems = range(model.coef_.shape[0])
    values = np.array([objectives(model, X, y, sample_weight, k) for k in problems])
    primal, dual = values.T
    # Relative rounding errors of sums over rows, in float64.
    slack = 1e-12
    relative = (primal - dual) / primal
    # What is reported allows for the rounding of slacks, times costs, so it may be a little more.
    costs = model.C * (len(y) if sample_weight is None else np.sum(sample_weight))
    length = np.abs(model.coef_).sum() + np.abs(model.intercept_).sum()
    rounding = 1e-14 * costs * (1 + abs(X).max() * length) / primal.min()
    assert relative.max() <= model.relative_gap_ + slack
    assert model.relative_gap_ <= relative.max() * (1 + 1e-6) + slack + rounding
    # Both are rounded outwards, and the dual may be a small part of the primal.
    room = (slack + rounding) * primal.sum()
    assert primal.sum() == pytest.approx(model.primal_objective_, rel=1e-10, abs=room)
    assert dual.sum() == pytest.approx(model.dual_objective_, rel=1e-10, abs=room)
    # Objectives are rounded outwards, the gap is not a difference of them.
    beyond = model.primal_objective_ - model.dual_objective_ - model.dual_gap_
    assert 0.0 <= beyond <= (1e-13 + rounding) * model.primal_objective_
    assert model.converged_ == (model.relative_gap_ <= model.tol)
    support = np.unique(model.dual_coef_.nonzero()[1])
    np.testing.assert_array_equal(model.support_, support)


def assert_certified(model, X, y, sample_weight=None):
    """Assert in addition that tol is reached."""
    assert_honest(model, X, y, sample_weight)
    assert model.converged_


@pytest.fixture(scope="module")
def problem():
    X, y = make_classification(
        n_samples=80, n_features=12, n_informative=5, flip_y=0.1, random_state=0
    )
    X[np.abs(X) < 0.3] = 0.0
    X[3] = 0.0
    X[10] = X[11]
    return X, y


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-8])
def test_gap_is_proven(problem, layout, dtype, schedule, loss, tol):
    X, y = problem
    X = LAYOUTS[layout](X.astype(dtype))
    model = LinearSVC(solver="sweep", loss=loss, schedule=schedule, tol=tol, max_iter=20000)
    assert_certified(model.set_params(random_state=0).fit(X, y), X, y)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["newton", "auto"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-10])
def test_gap_is_proven_by_newton(problem, layout, dtype, solver, loss, C, tol):
    X, y = problem
    X = LAYOUTS[layout](X.astype(dtype))
    model = LinearSVC(solver=solver, loss=loss, C=C, tol=tol, random_state=0)
    assert_certified(model.fit(X, y), X, y)


@pytest.mark.parametrize("loss", LOSSES)
def test_solvers_agree(problem, loss):
    X, y = problem
    fits = [
        LinearSVC(solver=solver, loss=loss, tol=1e-9, max_iter=100_000, random_state=0).fit(X, y)
        for solver in SOLVERS
    ]
    for fit in fits[1:]:
        assert fit.primal_objective_ == pytest.approx(fits[0].primal_objective_, rel=2e-9)
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, atol=1e-4)


@st.composite
def problems(draw):
    """Duplicate rows, zero rows, one feature, more features than rows, labels of any type."""
    n = draw(st.integers(2, 12))
    d = draw(st.integers(1, 15))
    values = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 2.0, -3.0])
    X = draw(hnp.arrays(np.float64, (n, d), elements=values))
    if draw(st.booleans()):
        X = X[draw(hnp.arrays(np.int64, n, elements=st.integers(0, n - 1)))]
    codes = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 2)))
    codes[:2] = [0, 1]
    labels = draw(
        st.sampled_from(
            [
                np.array([-1, 1, 7]),
                np.array(["no", "yes", "maybe"]),
                np.array(["b", "a", "c"], dtype=object),
                np.array([False, True, True]),
                np.array([0.5, -2.0, 3.0]).astype(np.int8),
            ]
        )
    )
    exponents = draw(hnp.arrays(np.float64, n, elements=st.floats(-3, 3)))
    return X, labels[codes], 10.0**exponents


odd = given(
    problem=problems(),
    C=st.sampled_from([0.01, 1.0]),
    sparse=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    fit_intercept=st.booleans(),
    schedule=st.sampled_from(sorted(SCHEDULES)),
)


@pytest.mark.parametrize("solver", ["auto", "newton"])
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=60, deadline=None, derandomize=True)
@odd
def test_gap_is_proven_on_odd_data(
    loss, solver, problem, C, sparse, dtype, fit_intercept, schedule
):
    X, y, weight = problem
    X = sp.csr_array(X.astype(dtype)) if sparse else X.astype(dtype)
    model = LinearSVC(loss=loss, C=C, fit_intercept=fit_intercept, solver=solver, tol=1e-8)
    model.set_params(schedule=schedule, random_state=0).fit(X, y, weight)
    assert_certified(model, X, y, weight)


@pytest.mark.filterwarnings("ignore:LinearSVC stopped at")
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=60, deadline=None, derandomize=True)
@odd
def test_sweeps_on_odd_data(loss, problem, C, sparse, dtype, fit_intercept, schedule):
    """Costs near each other and small: tol is proven. Over six orders: what is said is true."""
    X, y, weight = problem
    X = sp.csr_array(X.astype(dtype)) if sparse else X.astype(dtype)
    model = LinearSVC(loss=loss, C=C, fit_intercept=fit_intercept, solver="sweep", random_state=0)
    model.set_params(schedule=schedule, max_iter=300).fit(X, y, weight)
    assert_honest(model, X, y, weight)
    weight = weight**0.1
    model.set_params(C=0.01, tol=1e-8, max_iter=20_000).fit(X, y, weight)
    assert_certified(model, X, y, weight)


# ---------------------------------------------------------------------------------------- peers


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_agrees_with_scikit_learn(loss, C, fit_intercept):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    options = {"loss": loss, "C": C, "fit_intercept": fit_intercept, "random_state": 0}
    ours = LinearSVC(**options, tol=1e-8).fit(X, y)
    peer = SklearnLinearSVC(**options, dual=True, tol=1e-8, max_iter=1_000_000).fit(X, y)
    sign = np.where(y == 1, 1.0, -1.0)
    slack = np.maximum(0, 1 - sign * peer.decision_function(X))
    power = 1 if loss == "hinge" else 2
    bias = peer.intercept_[0] if fit_intercept else 0.0
    objective = 0.5 * (peer.coef_[0] @ peer.coef_[0] + bias**2) + C * (slack**power).sum()
    assert ours.primal_objective_ == pytest.approx(objective, rel=1e-6)
    assert ours.dual_objective_ <= objective * (1 + 1e-12)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=2e-3)


def test_squared_loss_is_ridge_regression():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    C = 0.5
    model = LinearSVC(loss="squared", C=C, fit_intercept=False, tol=1e-10, max_iter=50_000)
    model.fit(X, y)
    # min 1/2 |w|^2 + C |Xw - y|^2  =>  (I / (2C) + X'X) w = X'y
    exact = np.linalg.solve(np.eye(X.shape[1]) / (2 * C) + X.T @ X, X.T @ np.where(y == 1, 1, -1))
    np.testing.assert_allclose(model.coef_[0], exact, rtol=1e-3, atol=1e-5)


# --------------------------------------------------------------------------------- equivalences


@pytest.mark.parametrize("loss", LOSSES)
def test_layouts_agree(problem, loss):
    X, y = problem
    X = X.astype(np.float32)
    models = [
        LinearSVC(loss=loss, tol=1e-9, max_iter=50_000, random_state=0).fit(make(X), y)
        for make in (*LAYOUTS.values(), np.asfortranarray, sp.csc_matrix, np.ndarray.tolist)
    ]
    for model in models[1:]:
        assert model.primal_objective_ == pytest.approx(models[0].primal_objective_, rel=2e-9)
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5}])
def test_weights_are_repetitions(problem, loss, class_weight):
    X, y = problem
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    model = LinearSVC(
        loss=loss, class_weight=class_weight, tol=1e-9, max_iter=50_000, random_state=0
    )
    weighted = clone(model).fit(X, y, weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.primal_objective_ == pytest.approx(repeated.primal_objective_, rel=2e-9)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=2e-4)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=2e-4)


def test_weight_zero_is_removal_bitwise():
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    weight[::3] = 0.0
    keep = weight > 0
    options = {"random_state": 0, "max_iter": 5000}
    weighted = LinearSVC(**options).fit(X, y, weight)
    removed = LinearSVC(**options).fit(X[keep], y[keep], weight[keep])
    np.testing.assert_array_equal(weighted.coef_, removed.coef_)
    np.testing.assert_array_equal(weighted.intercept_, removed.intercept_)
    np.testing.assert_array_equal(
        weighted.dual_coef_.toarray()[:, keep], removed.dual_coef_.toarray()
    )


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_class_of_weight_zero_is_removed(gone):
    X, y = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[y]
    weight = (y != "abc"[gone]).astype(float)
    model = LinearSVC(random_state=0, max_iter=5000).fit(X, y, weight)
    keep = weight > 0
    removed = LinearSVC(random_state=0, max_iter=5000).fit(X[keep], y[keep])
    np.testing.assert_array_equal(model.classes_, removed.classes_)
    np.testing.assert_array_equal(model.coef_, removed.coef_)
    np.testing.assert_array_equal(model.predict(X), removed.predict(X))


def test_class_weight_multiplies_costs(problem):
    X, y = problem
    options = {"loss": "hinge", "tol": 1e-9, "max_iter": 50_000, "random_state": 0}
    by_class = LinearSVC(class_weight={0: 3.0}, **options).fit(X, y)
    by_row = LinearSVC(**options).fit(X, y, np.where(y == 0, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)


def test_two_classes_as_one_versus_rest():
    X, y = load_iris(return_X_y=True)
    whole = LinearSVC(tol=1e-8, max_iter=50_000, random_state=0).fit(X, y)
    for k in range(3):
        alone = LinearSVC(tol=1e-8, max_iter=50_000, random_state=0).fit(X, y == k)
        np.testing.assert_allclose(whole.coef_[k], alone.coef_[0], atol=2e-3)
    assert_certified(whole, X, y)


def test_warm_start_continues():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    model = LinearSVC(loss="hinge", C=0.1, tol=1e-3, random_state=0, warm_start=True).fit(X, y)
    cold = model.n_iter_
    assert model.fit(X, y).n_iter_ == 0
    assert_certified(model, X, y)
    model.set_params(C=0.12).fit(X, y)
    assert model.n_iter_ < cold
    assert_certified(model, X, y)
    model.set_params(C=0.01, loss="squared_hinge").fit(X, y)
    assert_certified(model, X, y)
    model.fit(X[:100], y[:100])  # other rows: a cold start
    assert_certified(model, X[:100], y[:100])


# -------------------------------------------------------------------------------------- manners


@pytest.mark.parametrize("small", [False, True])
def test_bitwise_deterministic_for_any_number_of_threads(tuned, small):
    if not small:
        tuned(SMALL_NEWTON=0)
    X, y = load_digits(return_X_y=True)
    X = sp.csr_matrix(X.astype(np.float32) / 16)
    fits = [LinearSVC(n_jobs=n_jobs, random_state=3).fit(X, y) for n_jobs in (None, 1, 2, 5, -1)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)
        np.testing.assert_array_equal(fit.dual_coef_.toarray(), fits[0].dual_coef_.toarray())
        assert fit.relative_gap_ == fits[0].relative_gap_
    other = LinearSVC(random_state=4).fit(X, y)
    assert (other.coef_ != fits[0].coef_).any() != small  # nothing is random in Newton steps


@pytest.mark.parametrize("make", [np.ascontiguousarray, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_are_neither_copied_nor_changed(monkeypatch, problem, make, dtype):
    X, y = problem
    X = make(X.astype(dtype))
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices]
    before = [array.copy() for array in arrays]
    seen = []

    def spy(problem, **options):
        seen.append(problem.passes.rows)
        return start_run(problem, **options)

    import dualsweep.training.fitting as svc

    start_run = svc.start_run
    monkeypatch.setattr(svc, "start_run", spy)
    LinearSVC(random_state=0).fit(X, y)
    for array, copy, used in zip(arrays, before, seen[0], strict=False):
        assert np.shares_memory(array, used)
        assert array.flags.writeable
        np.testing.assert_array_equal(array, copy)


def test_memory_mapped_data(tmp_path, problem):
    X, y = problem
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        LinearSVC(random_state=0).fit(mapped, y).coef_, LinearSVC(random_state=0).fit(X, y).coef_
    )


def test_convergence_warning_says_the_gap():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning) as caught:
        model = LinearSVC(max_iter=3, random_state=0).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert f"relative duality gap {model.relative_gap_:.1e} > tol 1.0e-03 after 3 epochs" in message
    assert "max_iter" in message
    assert not model.converged_
    primal, dual = objectives(model, X, y)
    assert (primal - dual) / primal == pytest.approx(model.relative_gap_)


def test_max_time_leaves_a_usable_model(monkeypatch):
    X, y = load_digits(return_X_y=True)
    model = LinearSVC(C=1e6, tol=1e-12, max_iter=10**9, max_time=5.0, random_state=0)
    clock = Clock(monkeypatch, step=0.01)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert 5.0 < clock.now < 10.0  # or 10**9 epochs
    primal, dual = np.array([objectives(model, X, y, k=k) for k in range(10)]).T
    assert ((primal - dual) / primal).max() == pytest.approx(model.relative_gap_, rel=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_keeps_the_model(monkeypatch, tuned, n_jobs):
    tuned(SMALL_NEWTON=0)  # its kernel takes many steps between two looks at the stop flag
    X, y = load_digits(return_X_y=True)
    model = LinearSVC(C=1e6, tol=1e-13, max_iter=10**9, n_jobs=n_jobs, random_state=0)
    handler = signal.getsignal(signal.SIGINT)
    interrupt = Interrupt(monkeypatch, epoch=30)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert interrupt.epochs_after <= 2 * n_jobs
    assert signal.getsignal(signal.SIGINT) is handler
    assert not model.converged_
    primal, dual = np.array([objectives(model, X, y, k=k) for k in range(10)]).T
    assert ((primal - dual) / primal).max() == pytest.approx(model.relative_gap_, rel=1e-6)
    assert model.predict(X).shape == y.shape


def test_history(problem):
    X, y = problem
    model = LinearSVC(solver="sweep", tol=1e-6, random_state=0, max_iter=5000).fit(X, y)
    history = model.history_
    assert history.dtype.names == ("problem", "time", "epoch", "primal", "dual", "gap", "active")
    assert (np.diff(history["time"]) >= 0).all()
    assert (np.diff(history["epoch"]) > 0).all()
    np.testing.assert_allclose(history["primal"] - history["dual"], history["gap"], atol=1e-12)
    assert (np.diff(history["dual"]) >= -1e-12).all()  # coordinate ascent never loses ground
    assert history["gap"][-1] == model.dual_gap_
    assert history["epoch"][-1] == model.n_iter_


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("solver", ["sweep", "newton", "auto"])
def test_every_epoch_is_estimated(solver, n_jobs):
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(solver=solver, tol=1e-6, max_iter=5000, random_state=0, n_jobs=n_jobs)
    model.fit(X, y)
    estimates, history = model.estimates_, model.history_
    assert estimates.dtype.names == ("problem", "time", "epoch", "relative_gap")
    for p in range(3):
        own, certified = (a[a["problem"] == p] for a in (estimates, history))
        np.testing.assert_array_equal(own["epoch"], np.arange(1, certified["epoch"][-1] + 1))
        assert (np.diff(own["time"]) >= 0).all()
        assert own["time"][-1] <= certified["time"][-1]  # by the same clock
        assert 0 <= own["relative_gap"][-1] < (1e-5 if solver == "sweep" else 1.0)


@pytest.mark.parametrize("data", [load_iris, load_breast_cancer])
def test_to_sklearn_predicts_the_same(data):
    X, y = data(return_X_y=True, as_frame=True)
    X = X / X.std()
    model = LinearSVC(random_state=0, max_iter=20_000, C=0.1).fit(X, y)
    peer = model.to_sklearn()
    assert isinstance(peer, SklearnLinearSVC)
    np.testing.assert_array_equal(peer.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(peer.predict(X), model.predict(X))
    np.testing.assert_array_equal(peer.feature_names_in_, X.columns)


def test_sparsify_and_pickle(problem):
    X, y = problem
    model = LinearSVC(random_state=0).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(model.sparsify().decision_function(X), scores)
    np.testing.assert_array_equal(model.densify().decision_function(X), scores)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), scores)
    assert copy.relative_gap_ == model.relative_gap_


def test_quiet_by_default_and_progress_on_request(capfd):
    X, y = load_iris(return_X_y=True)
    LinearSVC(random_state=0, max_iter=5000).fit(X, y)
    assert capfd.readouterr() == ("", "")
    LinearSVC(random_state=0, max_iter=5000, verbose=1).fit(X, y)
    shown = capfd.readouterr().out
    assert all(f"class {k}" in shown for k in range(3))
    assert "gap" in shown
    assert "epoch" in shown


def test_scikit_learn_callbacks(problem):
    pytest.importorskip("sklearn.callback")
    X, y = problem

    class Recorder:
        def __init__(self, stop_after=None):
            self.begun, self.ended, self.scores, self.stop_after = [], [], [], stop_after

        def setup(self, estimator, context):
            self.max_subtasks = context.max_subtasks

        def teardown(self, estimator, context):
            self.torn_down = True

        def on_fit_task_begin(self, estimator, context):
            self.begun.append(context.task_name)

        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            self.ended.append(context.task_name)
            if fitted_estimator is not None:
                self.scores.append(fitted_estimator.score(X, y))
            return self.stop_after is not None and len(self.ended) >= self.stop_after

    recorder = Recorder()
    model = LinearSVC(random_state=0).set_callbacks(recorder).fit(X, y)
    assert recorder.ended.count("epoch") == len(recorder.scores) + 1 == model.n_iter_ + 1
    assert recorder.scores[-1] == pytest.approx(model.score(X, y), abs=0.05)
    assert recorder.begun.count("fit") == recorder.ended.count("fit") == 1
    assert recorder.begun.count("epoch") == recorder.ended.count("epoch")
    assert recorder.torn_down

    model.set_params(solver="sweep", tol=1e-9).set_callbacks(Recorder(stop_after=3))
    with pytest.warns(ConvergenceWarning):
        assert model.fit(X, y).n_iter_ == 3

    X, y = load_iris(return_X_y=True)
    recorder = Recorder()
    model = LinearSVC(random_state=0, n_jobs=2, max_iter=5000)
    model.set_callbacks(recorder).fit(X, y)
    assert recorder.ended.count("class") == 3
    assert recorder.max_subtasks == 3


# --------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0}, "'C' parameter"),
        ({"C": -1.0}, "'C' parameter"),
        ({"tol": 0}, "'tol' parameter"),
        ({"loss": "log"}, "'loss' parameter"),
        ({"schedule": "random"}, "'schedule' parameter"),
        ({"multi_class": "ovo"}, "'multi_class' parameter"),
        ({"solver": "lbfgs"}, "'solver' parameter"),
        ({"intercept_scaling": 0}, "'intercept_scaling' parameter"),
        ({"max_iter": -1}, "'max_iter' parameter"),
        ({"max_time": 0}, "'max_time' parameter"),
        ({"class_weight": {0: -1.0}}, "class_weight must not be negative"),
        ({"class_weight": {0: 1.0, 7: 2.0}}, r"weights for \[0, 7\], but none for \[1\]"),
    ],
)
def test_bad_parameters(problem, change, message):
    X, y = problem
    with pytest.raises(ValueError, match=message):
        LinearSVC(**change).fit(X, y)


def test_bad_data(problem):
    X, y = problem
    with pytest.raises(ValueError, match=r"at least 2 classes .* found 1 class: \[7\]"):
        LinearSVC().fit(X, np.full(len(y), 7))
    with pytest.raises(ValueError, match=r"at least (one non-zero|2 classes)"):  # by scikit-learn
        LinearSVC().fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match=r"at least 2 classes .* found 1 class: \[1\]"):
        LinearSVC().fit(X, y, y)
    with pytest.raises(ValueError, match=r"sample_weight\[5\] is -2"):
        LinearSVC().fit(X, y, np.where(np.arange(len(y)) == 5, -2.0, 1.0))
    with pytest.raises(ValueError, match="Row 2 has NaN, infinity or a squared norm"):
        LinearSVC().fit(np.where(np.arange(len(y))[:, None] == 2, 1e200, X), y)
    with pytest.raises(ValueError, match="too large: C is 1e\\+300, the largest cost inf"):
        LinearSVC(C=1e300).fit(X, y, np.full(len(y), 1e300))
    corrupt = sp.csr_matrix(X)
    corrupt.indices[7] = 999
    with pytest.raises(ValueError, match=r"column index outside 0\.\.11"):
        LinearSVC().fit(corrupt, y)
    corrupt = sp.csr_matrix(X)
    corrupt.indptr[20] = 2_000_000_000
    with pytest.raises(ValueError, match="indptr does not ascend"):
        LinearSVC().fit(corrupt, y)
    with pytest.raises(ValueError, match="their sum overflows"):
        LinearSVC(C=1e307).fit(X, y)
    for bad in ("a", "2", None, [1.0], 1j, 10**400):
        with pytest.raises(ValueError, match="must have a number for each class, but for class 0"):
            LinearSVC(class_weight={0: bad}).fit(X, y)
    for bad in (np.nan, np.inf, -1, -np.inf):
        with pytest.raises(ValueError, match="must not be negative, NaN or infinite"):
            LinearSVC(class_weight={0: bad}).fit(X, y)
    for good in (2, np.float32(2), np.array(2), Fraction(2)):
        np.testing.assert_array_equal(
            LinearSVC(class_weight={0: good}, random_state=0).fit(X, y).coef_,
            LinearSVC(class_weight={0: 2.0}, random_state=0).fit(X, y).coef_,
        )
    with pytest.raises(ValueError, match="'n_jobs' parameter"):
        LinearSVC(n_jobs=0).fit(X, y)


def test_a_failed_fit_leaves_the_model_as_it_was(problem):
    X, y = problem
    model = LinearSVC(random_state=0, warm_start=True).fit(X, y)
    coef = model.coef_.copy()
    with pytest.raises(ValueError, match="squared norm"):
        model.fit(np.full((6, 12), 1e200), [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(model.classes_, [0, 1])
    np.testing.assert_array_equal(model.coef_, coef)
    assert model.fit(X, y).n_iter_ == 0


@pytest.mark.filterwarnings("ignore:LinearSVC stopped at")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("scale", "C"), [(1e100, 1.0), (1e150, 1e10), (1e-150, 1e10)])
def test_extreme_scales_give_finite_models_and_honest_certificates(loss, scale, C):
    X, y = load_iris(return_X_y=True)
    X, y = scale * X[:100], y[:100]
    model = LinearSVC(loss=loss, C=C, solver="newton", random_state=0, max_iter=50).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.dual_gap_ <= 100 * C * (1 + 1e-12)  # that of w = 0
    assert model.converged_ == (model.relative_gap_ <= model.tol)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_next_to_nothing_is_nothing(problem, loss):
    X, y = problem
    weight = np.ones(len(y))
    weight[4] = 1e-310
    tiny = LinearSVC(loss=loss, random_state=0).fit(X, y, weight)
    weight[4] = 0.0
    np.testing.assert_array_equal(
        tiny.coef_, LinearSVC(loss=loss, random_state=0).fit(X, y, weight).coef_
    )


def test_newton_can_be_interrupted(monkeypatch):
    """In the middle of a step, since it looks at the clock again and again."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 300)), rng.integers(0, 2, 6000)
    model = LinearSVC(solver="newton", loss="hinge", C=1e3, max_time=8.0, random_state=0)
    clock = Clock(monkeypatch, step=1.0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert clock.now <= 16.0
    assert model.n_iter_ == 0  # a whole step would have been counted
    primal, dual = objectives(model, X, y)
    assert (primal - dual) / primal <= model.relative_gap_ + 1e-12


def test_the_number_of_blas_threads_does_not_matter():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 300)), rng.integers(0, 2, 1500)
    free = LinearSVC(solver="newton", random_state=0).fit(X, y)
    with threadpoolctl.threadpool_limits(1):
        limited = LinearSVC(solver="newton", random_state=0).fit(X, y)
    np.testing.assert_array_equal(free.coef_, limited.coef_)


def test_compilation_is_announced(tmp_path):
    """In a new process with an empty cache, and not in the next one."""
    script = (
        "import numpy as np\n"
        "from dualsweep import LinearSVC\n"
        "X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)\n"
        "LinearSVC(verbose=1, random_state=0).fit(X, X[:, 0] > 0)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert first.count("Compiling kernels") == 1
    assert "Compiling" not in second


def test_logging_says_what_happened(problem, caplog):
    X, y = problem
    with caplog.at_level("INFO", logger="dualsweep"):
        model = LinearSVC(random_state=0, loss="hinge").fit(X, y)
    assert f"after {model.n_iter_} epochs" in caplog.text


def test_many_classes_among_many_more_rows_are_no_targets():
    y = np.arange(12_000) % 30
    model = LinearSVC(tol=0.1).fit(sp.csr_array(np.eye(30))[y], y)
    np.testing.assert_array_equal(model.classes_, np.arange(30))


@pytest.mark.parametrize(
    ("kind", "low"),
    [
        ("bool", 0),
        ("int8", -5),
        ("uint8", 0),
        ("int64", -(2**63)),
        ("int64", 2**62),
        ("uint64", 2**63),
        ("float32", -5),
        ("float64", 2**40),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_that_are_counted_are_those_that_are_sorted(kind, low, weighted):
    rng = np.random.default_rng(0)
    values = rng.choice([0, 1] if kind == "bool" else [0, 1, 7, 60], 50)
    y = np.array([low + int(value) for value in values], kind)
    weight = rng.integers(0, 2, 50) * 1.0 if weighted else None
    if weighted and kind != "bool":  # there have to be two classes
        weight[y == y.max()] = 0.0
    assert offsets_of(y) is not None
    classes, codes = encode_labels(y, weight)
    expected = np.unique(y[weight > 0] if weighted else y)
    np.testing.assert_array_equal(classes, expected)
    assert classes.dtype == y.dtype
    np.testing.assert_array_equal(codes, class_codes(y, expected))


@pytest.mark.parametrize("y", [[0.5, 1, 2], [0, np.inf, 1], [0, np.nan, 1], [0, 10**6], ["a", "b"]])
def test_other_labels_are_not_counted(y):
    assert offsets_of(np.array(y)) is None

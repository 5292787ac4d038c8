"""LinearSVR: certificates recomputed in NumPy, a generic solver, peers, equivalences, manners."""

from __future__ import annotations

import pickle

import generic
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from moments import Interrupt
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVR as SklearnLinearSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualsweep import LinearSVC, LinearSVR
from dualsweep.io import write_store
from dualsweep.losses import REGRESSION_LOSSES
from dualsweep.solvers.policy import SOLVERS
from dualsweep.solvers.schedules import SCHEDULES

LAYOUTS = {"dense": np.ascontiguousarray, "csr": sp.csr_array}
every_loss = pytest.mark.parametrize("loss", REGRESSION_LOSSES)
every_epsilon = pytest.mark.parametrize("epsilon", [0.0, 0.5])


def is_to_nine_digits(estimator):
    """Fits of weights and of repeated rows agree to what tol proves of each, not to 1e-9."""
    if estimator.tol < 1e-12:
        return {}
    names = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{name}_data": "tol is 1e-3" for name in names}


PRECISE = LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.1, tol=1e-14)


@parametrize_with_checks([LinearSVR(), PRECISE], expected_failed_checks=is_to_nine_digits)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def problem():
    X, y = make_regression(90, 12, n_informative=5, noise=20.0, bias=3.0, random_state=0)
    X[np.abs(X) < 0.3] = 0.0
    X[3] = 0.0
    X[10] = X[11]
    return X, y / 40


# ------------------------------------------------------------------------------- the certificate


def losses(model, deviation):
    beyond = np.maximum(np.abs(deviation) - model.epsilon, 0.0)
    return beyond if model.loss == "epsilon_insensitive" else beyond**2


def objectives(model, X, y, sample_weight=None):
    """Recompute primal and dual from the fitted attributes; assert that the dual is feasible."""
    X = (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.float64)
    y = np.asarray(y, dtype=np.float64)
    cost = model.C * (np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight))
    (alpha,) = model.dual_coef_.toarray()
    w, b = model.coef_, model.intercept_[0]
    scaling = model.intercept_scaling if model.fit_intercept else 1.0
    rounding = 1e-13 * np.abs(alpha).sum() * (1 + np.abs(X).max())
    np.testing.assert_allclose(w, alpha @ X, rtol=0, atol=rounding)
    if model.fit_intercept:
        np.testing.assert_allclose(b, scaling**2 * alpha.sum(), rtol=0, atol=scaling**2 * rounding)
    else:
        assert b == 0.0
    norm = 0.5 * (w @ w + (b / scaling) ** 2)
    used = cost > 0
    assert not alpha[~used].any()
    dual = y @ alpha - model.epsilon * np.abs(alpha).sum() - norm
    if model.loss == "epsilon_insensitive":
        assert (np.abs(alpha) <= cost).all()
    else:
        dual -= 0.25 * (alpha[used] ** 2 / cost[used]).sum()
    return norm + cost[used] @ losses(model, (y - X @ w - b)[used]), dual


def assert_honest(model, X, y, sample_weight=None):
    """Assert that what the model says of itself is true."""
    primal, dual = objectives(model, X, y, sample_weight)
    costs = model.C * (len(y) if sample_weight is None else np.sum(sample_weight))
    size = np.abs(y).max() + model.epsilon + abs(X).max() * np.abs(model.coef_).sum()
    rounding = 1e-14 * costs * (size + np.abs(model.intercept_).sum())
    assert primal - dual <= model.dual_gap_ + 1e-12 * primal + rounding
    assert model.dual_gap_ <= (primal - dual) * (1 + 1e-6) + 1e-12 * primal + rounding
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-10, abs=rounding)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-10, abs=1e-12 * primal + rounding)
    assert model.converged_ == (model.relative_gap_ <= model.tol)
    np.testing.assert_array_equal(model.support_, np.unique(model.dual_coef_.nonzero()[1]))


def assert_certified(model, X, y, sample_weight=None):
    assert_honest(model, X, y, sample_weight)
    assert model.converged_


@every_loss
@every_epsilon
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gap_is_proven_by_sweeps(problem, loss, epsilon, layout, dtype, schedule):
    X, y = problem
    X = LAYOUTS[layout](X.astype(dtype))
    for tol in (1e-2, 1e-7):
        model = LinearSVR(solver="sweep", loss=loss, epsilon=epsilon, schedule=schedule, tol=tol)
        model.set_params(C=0.1, random_state=0, max_iter=20_000).fit(X, y)
        assert_certified(model, X, y)


@every_loss
@every_epsilon
@pytest.mark.parametrize("solver", ["newton", "auto"])
@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-10])
def test_gap_is_proven_by_newton(problem, loss, epsilon, solver, C, tol):
    X, y = problem
    model = LinearSVR(solver=solver, loss=loss, epsilon=epsilon, C=C, tol=tol, random_state=0)
    assert_certified(model.fit(X, y), X, y)


@every_loss
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("solver", ["sweep", "newton"])
def test_the_unit_of_the_targets_does_not_matter(problem, loss, size, solver):
    """y and epsilon times s, and C times s for the plain loss: coefficients times s."""
    X, y = problem
    C, scaled = 0.1, 0.1 * size if loss == "epsilon_insensitive" else 0.1
    options = {"loss": loss, "solver": solver, "tol": 1e-8, "max_iter": 20_000, "random_state": 0}
    one = LinearSVR(C=C, epsilon=0.5, **options).fit(X, y)
    other = LinearSVR(C=scaled, epsilon=0.5 * size, **options).fit(X, size * y)
    assert_certified(other, X, size * y)
    assert other.primal_objective_ == pytest.approx(size**2 * one.primal_objective_, rel=2e-8)
    np.testing.assert_allclose(other.coef_ / size, one.coef_, atol=1e-3)


@st.composite
def odd_problems(draw):
    """Duplicate rows, zero rows, constant targets, more features than rows, weights."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 15))
    values = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 2.0, -3.0])
    X = draw(hnp.arrays(np.float64, (n, d), elements=values))
    if draw(st.booleans()):
        X = X[draw(hnp.arrays(np.int64, n, elements=st.integers(0, n - 1)))]
    target = st.sampled_from([0.0, 0.5, -0.5, 1.0, -1.0, 2.25, -40.0, 1000.0])
    y = draw(hnp.arrays(np.float64, n, elements=target))
    return X, y, 10.0 ** draw(hnp.arrays(np.float64, n, elements=st.floats(-3, 3)))


@pytest.mark.parametrize("solver", ["auto", "newton"])
@every_loss
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    problem=odd_problems(),
    C=st.sampled_from([0.01, 1.0]),
    sparse=st.booleans(),
    fit_intercept=st.booleans(),
    epsilon=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_gap_is_proven_on_odd_data(loss, solver, problem, C, sparse, fit_intercept, epsilon):
    X, y, weight = problem
    X = sp.csr_array(X) if sparse else X
    model = LinearSVR(loss=loss, C=C, fit_intercept=fit_intercept, solver=solver, tol=1e-7)
    model.set_params(epsilon=epsilon, random_state=0).fit(X, y, weight)
    assert_certified(model, X, y, weight)


def test_nothing_to_learn():
    """All targets inside the tube: no weights, no loss, and that is proven."""
    X, y = np.eye(3), np.array([0.5, -0.5, 0.1])
    model = LinearSVR(epsilon=0.5).fit(X, y)
    assert model.primal_objective_ == model.dual_gap_ == model.relative_gap_ == 0.0
    assert model.converged_
    np.testing.assert_array_equal(model.predict(X), 0.0)


# ---------------------------------------------------------------------------------------- peers


@every_loss
@every_epsilon
@pytest.mark.parametrize("C", [0.05, 5.0])
def test_agrees_with_a_generic_solver(problem, loss, epsilon, C):
    X, y = problem
    w, b, value = generic.optimum(X, y, C, loss, epsilon=epsilon)
    model = LinearSVR(loss=loss, epsilon=epsilon, C=C, tol=1e-10, random_state=0).fit(X, y)
    assert model.primal_objective_ == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose([*model.coef_, *model.intercept_], [*w, b], atol=2e-4)


@every_loss
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_agrees_with_scikit_learn(loss, C, fit_intercept):
    X, y = load_diabetes(return_X_y=True)
    X, y = scale(X), scale(y)
    options = {"loss": loss, "epsilon": 0.1, "C": C, "fit_intercept": fit_intercept}
    ours = LinearSVR(**options, tol=1e-8, random_state=0).fit(X, y)
    peer = SklearnLinearSVR(**options, dual=True, tol=1e-10, max_iter=1_000_000, random_state=0)
    peer.fit(X, y)
    bias = float(np.squeeze(peer.intercept_)) if fit_intercept else 0.0
    norm = 0.5 * (peer.coef_ @ peer.coef_ + bias**2)
    objective = norm + C * losses(peer, y - peer.predict(X)).sum()
    assert ours.primal_objective_ == pytest.approx(objective, rel=1e-6)
    assert ours.dual_objective_ <= objective * (1 + 1e-12)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=2e-3)


@every_loss
def test_agrees_with_liblinear(problem, loss):
    linear = pytest.importorskip("liblinear.liblinearutil")
    X, y = problem
    solver = {"epsilon_insensitive": 13, "squared_epsilon_insensitive": 12}[loss]
    # At this C it is done within its 1,000 sweeps, whatever rows its random numbers begin with.
    options = f"-s {solver} -c 0.03 -p 0.25 -e 1e-8 -B 1 -q"
    peer = linear.train(linear.problem(y, sp.csr_matrix(X)), linear.parameter(options))
    weights = np.array([peer.w[j] for j in range(X.shape[1] + 1)])
    ours = LinearSVR(loss=loss, epsilon=0.25, C=0.03, tol=1e-9, random_state=0).fit(X, y)
    deviation = y - X @ weights[:-1] - weights[-1]
    objective = 0.5 * weights @ weights + 0.03 * losses(ours, deviation).sum()
    assert ours.dual_objective_ <= objective * (1 + 1e-12)
    assert ours.primal_objective_ == pytest.approx(objective, rel=1e-7)
    np.testing.assert_allclose([*ours.coef_, *ours.intercept_], weights, atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_squared_loss_without_a_tube_is_ridge_regression(problem, solver):
    """min 1/2 |w|^2 + C |Xw - y|^2, and of labels what LinearSVC's squared loss is."""
    X, y = problem
    options = {"C": 0.3, "fit_intercept": False, "solver": solver, "max_iter": 50_000}
    options |= {"tol": 1e-10, "random_state": 0}
    model = LinearSVR(loss="squared_epsilon_insensitive", **options).fit(X, y)
    ridge = Ridge(alpha=1 / (2 * 0.3), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-4)
    labels = np.where(y > 0, 1, -1)
    model.fit(X, labels)
    classes = LinearSVC(loss="squared", **options).fit(X, labels)
    assert model.primal_objective_ == pytest.approx(classes.primal_objective_, rel=2e-10)
    np.testing.assert_allclose(model.coef_, classes.coef_[0], atol=1e-4)


# --------------------------------------------------------------------------------- equivalences


@every_loss
def test_solvers_and_layouts_agree(problem, loss):
    X, y = problem
    options = {"loss": loss, "epsilon": 0.2, "tol": 1e-9, "max_iter": 100_000, "random_state": 0}
    one, *others = (
        LinearSVR(solver=solver, C=0.1, **options).fit(layout(X), y)
        for solver in SOLVERS
        for layout in LAYOUTS.values()
    )
    for other in others:
        assert other.primal_objective_ == pytest.approx(one.primal_objective_, rel=2e-9)
        np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-4)


@every_loss
def test_weights_are_repetitions(problem, loss):
    X, y = problem
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    model = LinearSVR(loss=loss, epsilon=0.2, tol=1e-9, max_iter=50_000, random_state=0)
    weighted = clone(model).fit(X, y, weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.primal_objective_ == pytest.approx(repeated.primal_objective_, rel=2e-9)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=2e-4)
    keep = weight > 0
    removed = clone(model).fit(X[keep], y[keep], weight[keep])
    np.testing.assert_array_equal(weighted.coef_, removed.coef_)


@every_loss
def test_warm_start(problem, loss):
    X, y = problem
    options = {"loss": loss, "epsilon": 0.2, "tol": 1e-8, "max_iter": 50_000, "random_state": 0}
    options |= {"solver": "sweep", "C": 0.1}
    model = LinearSVR(warm_start=True, **options).fit(X, y)
    assert model.fit(X, y).n_iter_ == 0
    model.set_params(C=0.05).fit(X, y)
    assert_certified(model, X, y)
    cold = LinearSVR(**{**options, "C": 0.05}).fit(X, y)
    assert model.primal_objective_ == pytest.approx(cold.primal_objective_, rel=2e-8)


@every_loss
def test_threads_do_not_change_the_model(tuned, problem, loss):
    tuned(PART_ROWS=1)
    X, y = problem
    models = [
        LinearSVR(loss=loss, epsilon=0.2, tol=1e-8, n_jobs=n_jobs, random_state=0).fit(X, y)
        for n_jobs in (1, 3)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].dual_gap_ == models[1].dual_gap_


@every_loss
def test_blocks_reach_what_memory_does(tmp_path, loss):
    X, y = make_regression(2000, 30, noise=30.0, random_state=0)
    X, y = sp.csr_array(X), y / 100
    store = write_store(tmp_path / "store", X, y, block_bytes=100_000)
    assert len(store) > 3
    options = {"loss": loss, "epsilon": 0.1, "C": 0.01, "tol": 1e-5, "random_state": 0}
    model = LinearSVR(memory_limit=500_000, **options)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    weight[: store.starts[1]] = 0.0
    model.fit(store, sample_weight=weight, checkpoint=tmp_path / "checkpoint")
    assert_certified(model, X, y, weight)
    memory = LinearSVR(**options).fit(X, y, weight)
    assert model.primal_objective_ == pytest.approx(memory.primal_objective_, rel=2e-5)
    again = LinearSVR(memory_limit=500_000, **options)
    again.fit(store, sample_weight=weight, checkpoint=tmp_path / "checkpoint")
    np.testing.assert_array_equal(again.coef_, model.coef_)
    with pytest.raises(ValueError, match="epsilon"):
        again.set_params(epsilon=0.2).fit(
            store, sample_weight=weight, checkpoint=tmp_path / "checkpoint"
        )


# --------------------------------------------------------------------------------------- manners


def test_stops_early_and_says_so(problem):
    X, y = problem
    model = LinearSVR(C=10.0, solver="sweep", tol=1e-12, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="LinearSVR stopped at relative duality gap") as got:
        model.fit(X, y)
    assert got[0].filename == __file__
    assert_honest(model, X, y)
    assert model.n_iter_ == 2


def test_ctrl_c_leaves_a_certified_model(monkeypatch):
    X, y = make_regression(3000, 60, noise=10.0, random_state=0)
    model = LinearSVR(C=1000.0, solver="sweep", tol=1e-14, max_iter=10**9, random_state=0)
    interrupt = Interrupt(monkeypatch, epoch=30)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert interrupt.epochs_after <= 2
    assert_honest(model, X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, np.nan, 0.0], "NaN"),
        ([1.0, np.inf, 0.0], "infinity"),
        ([1e300, 1e300, 0.0], "Scale y"),
        (["a", "b", "c"], "must be numbers"),
        ([[1.0, 2.0]] * 3, "1d array"),
    ],
)
def test_bad_targets_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        LinearSVR(loss="squared_epsilon_insensitive").fit(np.eye(3), y)


def test_weights_of_zero_are_refused():
    with pytest.raises(ValueError, match=r"all weights are 0|one non-zero number"):
        LinearSVR().fit(np.eye(3), np.arange(3.0), np.zeros(3))


def test_survives_pickling_and_becomes_scikit_learns(problem):
    X, y = problem
    model = LinearSVR(epsilon=0.1, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    peer = model.to_sklearn()
    assert isinstance(peer, SklearnLinearSVR)
    np.testing.assert_array_equal(peer.predict(X), model.predict(X))
    assert peer.epsilon == 0.1

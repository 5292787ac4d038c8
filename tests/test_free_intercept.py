"""An intercept that is not penalised: a generic solver, LIBLINEAR -R, shifts, certificates."""

import generic
import naive
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from dualsweep import LinearSVC, LinearSVCCV, LinearSVR, LinearSVRCV, certify, svc_path, svr_path
from dualsweep.datasets import make_text_like
from dualsweep.io import load_model, save_model, write_store
from dualsweep.kernels.certificate import SHARES
from dualsweep.kernels.intercept import best_intercept
from dualsweep.losses import LOSSES, REGRESSION_LOSSES, loss_named
from dualsweep.placements import TrainingSet
from dualsweep.problems.free import FreeProblem
from dualsweep.solvers.solve import Start, solve
from dualsweep.training import Context

EPSILON = 0.25
ALL = [*naive.LOWER]  # the logistic loss is in test_logistic.py
every_loss = pytest.mark.parametrize("loss", ALL)
every_cost = pytest.mark.parametrize("C", [0.01, 1.0, 100.0])


@pytest.fixture(scope="module")
def rows():
    """Features far from 0, labels of which one is rare, and targets far from 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70, 6)) + 2.0
    X[np.abs(X) < 0.3] = 0.0
    response = X @ rng.normal(size=6)
    noise = rng.normal(size=70)
    return X, np.where(response + noise > np.quantile(response, 0.7), 1, -1), response + noise + 30


def model_of(loss, **params):
    if loss in LOSSES:
        return LinearSVC(loss=loss, intercept="free", random_state=0, **params)
    return LinearSVR(loss=loss, epsilon=EPSILON, intercept="free", random_state=0, **params)


def labels_for(loss, rows):
    return rows[0], rows[1] if loss in LOSSES else rows[2]


def losses_of(loss, y, scores):
    if loss in LOSSES:
        return naive.LOSS_OF_MARGIN[loss](y * scores)
    beyond = np.maximum(np.abs(y - scores) - EPSILON, 0.0)
    return beyond**2 if loss.startswith("squared") else beyond


def assert_certified(model, X, y, sample_weight=None):
    """Recompute the certificate in NumPy, with the constraint that a free intercept adds."""
    X = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    cost = model.C * (np.ones(len(y)) if sample_weight is None else sample_weight)
    (signed,) = model.dual_coef_.toarray()
    size = np.abs(signed).sum()
    assert abs(signed.sum()) <= 1e-14 * size
    w, b = np.ravel(model.coef_), model.intercept_[0]
    np.testing.assert_allclose(w, signed @ X, atol=1e-13 * size * (1 + np.abs(X).max()))
    sign = y if model.loss in LOSSES else np.ones(len(y))
    alpha = signed * sign
    used = cost > 0
    lower, upper = (
        np.full(len(y), bound) * np.where(used, cost, 1.0)
        for bound in (naive.LOWER[model.loss], naive.UPPER[model.loss])
    )
    dual = alpha if model.loss in LOSSES else y * alpha - EPSILON * np.abs(alpha)
    assert ((lower[used] <= alpha[used]) & (alpha[used] <= upper[used])).all()
    assert not alpha[~used].any()
    if model.loss.startswith("squared"):
        dual = dual[used] - 0.25 * alpha[used] ** 2 / cost[used]
    norm = 0.5 * w @ w
    primal = norm + cost @ losses_of(model.loss, y, X @ w + b)
    rounding = 1e-14 * cost.sum() * (1 + np.abs(y).max() + np.abs(X).max() * np.abs(w).sum())
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-10, abs=rounding)
    assert primal - (dual.sum() - norm) <= model.dual_gap_ + 1e-12 * primal + rounding
    assert model.converged_
    # no other intercept is better for these weights
    for step in (-1e-4, 1e-4):
        other = norm + cost @ losses_of(model.loss, y, X @ w + b + step)
        assert other >= primal * (1 - 1e-12) - rounding


@every_loss
@every_cost
def test_agrees_with_a_generic_solver(rows, loss, C):
    X, y = labels_for(loss, rows)
    w, b, value = generic.optimum(X, y, C, loss, epsilon=EPSILON, intercept="free")
    model = model_of(loss, C=C, tol=1e-10).fit(X, y)
    assert_certified(model, X, y)
    assert model.primal_objective_ == pytest.approx(value, rel=1e-8)
    scores = X @ model.coef_.ravel() + model.intercept_
    np.testing.assert_allclose(scores, X @ w + b, atol=1e-3)


@every_loss
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("scaling", [1.0, 7.0, 1e-150, 1e150])
def test_layouts_weights_and_the_value_of_the_constant_do_not_matter(rows, loss, layout, scaling):
    X, y = labels_for(loss, rows)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = model_of(loss, tol=1e-9, intercept_scaling=scaling).fit(layout(X), y, weight)
    assert_certified(model, X, y, weight)
    repeated = model_of(loss, tol=1e-9).fit(
        np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int))
    )
    assert model.primal_objective_ == pytest.approx(repeated.primal_objective_, rel=1e-8)


@every_loss
@pytest.mark.parametrize("C", [0.01, 0.3])
@pytest.mark.parametrize("schedule", ["auto", "permuted"])
def test_sweeps_around_centres_reach_the_same(rows, loss, C, schedule):
    X, y = labels_for(loss, rows)
    sweeps = model_of(loss, C=C, tol=1e-5, solver="sweep", schedule=schedule, max_iter=50_000)
    assert_certified(sweeps.fit(X, y), X, y)
    newton = model_of(loss, C=C, tol=1e-9).fit(X, y)
    assert sweeps.dual_objective_ <= newton.primal_objective_
    assert newton.dual_objective_ <= sweeps.primal_objective_


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_many_features_are_swept(loss):
    """As many sweeps as with a penalty, or little more: one weight matters little."""
    X, y = make_text_like(3000, 5000, random_state=0)
    y = np.where(y == y.max(), 1, -1)
    free = LinearSVC(loss=loss, intercept="free", tol=1e-4, random_state=0).fit(X, y)
    assert_certified(free, X, y)
    penalised = LinearSVC(loss=loss, tol=1e-4, random_state=0).fit(X, y)
    assert free.n_iter_ <= 2 * penalised.n_iter_
    assert free.primal_objective_ < penalised.primal_objective_


@every_loss
def test_conjugate_gradients_reach_the_same(tuned, rows, loss):
    X, y = labels_for(loss, rows)
    direct = model_of(loss, tol=1e-7).fit(X, y)
    tuned(DIRECT_WEIGHTS=0)
    iterative = model_of(loss, tol=1e-7, solver="newton").fit(X, y)
    assert_certified(iterative, X, y)
    assert iterative.primal_objective_ == pytest.approx(direct.primal_objective_, rel=2e-7)


@every_loss
def test_shifted_features_change_no_prediction(rows, loss):
    X, y = labels_for(loss, rows)
    shift = np.linspace(-20, 50, X.shape[1])
    one, other = (model_of(loss, tol=1e-11).fit(Z, y) for Z in (X, X + shift))
    assert other.primal_objective_ == pytest.approx(one.primal_objective_, rel=1e-9)
    scores = (Z @ m.coef_.ravel() + m.intercept_ for Z, m in ((X, one), (X + shift, other)))
    np.testing.assert_allclose(*scores, atol=1e-4)
    penalised = [
        model_of(loss, tol=1e-9).set_params(intercept="penalized").fit(Z, y) for Z in (X, X + shift)
    ]
    objectives = [model.primal_objective_ for model in penalised]
    assert abs(objectives[1] - objectives[0]) > 1e-3 * objectives[0]


@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
def test_shifted_targets_change_only_the_intercept(rows, loss):
    X, _, y = rows
    one, other = (model_of(loss, tol=1e-10).fit(X, y + shift) for shift in (0.0, 1000.0))
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-4)
    assert other.intercept_[0] - one.intercept_[0] == pytest.approx(1000.0, abs=1e-3)


@pytest.mark.parametrize("data", ["cancer", "diabetes"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_agrees_with_liblinear(data, C):
    """LIBLINEAR -R, which it has for the squared losses, in the primal."""
    linear = pytest.importorskip("liblinear.liblinearutil")
    if data == "cancer":
        X, y = load_breast_cancer(return_X_y=True)
        X, y, loss, solver = scale(X) + 1.0, np.where(y == 1, 1, -1), "squared_hinge", 2
    else:
        X, y = load_diabetes(return_X_y=True)
        X, loss, solver = scale(X) + 1.0, "squared_epsilon_insensitive", 11
    options = f"-s {solver} -c {C} -p {EPSILON} -e 1e-9 -B 1 -R -q"
    peer = linear.train(linear.problem(y, sp.csr_matrix(X)), linear.parameter(options))
    sign = 1 if solver == 11 or peer.get_labels()[0] == 1 else -1
    weights = sign * np.array([peer.w[j] for j in range(X.shape[1] + 1)])
    w, b = weights[:-1], weights[-1]
    objective = 0.5 * w @ w + C * losses_of(loss, y, X @ w + b).sum()
    ours = model_of(loss, C=C, tol=1e-9).fit(X, y)
    assert_certified(ours, X, y)
    assert ours.dual_objective_ <= objective * (1 + 1e-12)
    assert ours.primal_objective_ == pytest.approx(objective, rel=1e-6)
    np.testing.assert_allclose(ours.intercept_, b, rtol=1e-3)


def test_one_versus_rest_is_a_problem_per_class():
    X, y = load_iris(return_X_y=True)
    whole = LinearSVC(intercept="free", tol=1e-8).fit(X, y)
    for k in range(3):
        one = LinearSVC(intercept="free", tol=1e-8).fit(X, np.where(y == k, 1, -1))
        np.testing.assert_allclose(whole.coef_[k], one.coef_[0], atol=1e-3)
        assert_certified(one, X, np.where(y == k, 1, -1))


# -------------------------------------------------------------------------- kernel and certificate


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.sampled_from(ALL),
    st.integers(1, 8),
    st.integers(0, 10**6),
    st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_the_intercept_is_best(loss, n, seed, size):
    rng = np.random.default_rng(seed)
    scores, cost = size * rng.normal(size=n).round(1), 10.0 ** rng.uniform(-3, 3, n)
    y = rng.choice([-1.0, 1.0], n) if loss in LOSSES else np.ones(n)
    target = np.ones(n) if loss in LOSSES else size * rng.normal(size=n).round(1)
    numbers = naive.numbers(loss)

    def value(b):
        return cost @ naive.LOSS_OF_MARGIN[loss](1 - (target - y * (scores + b)))

    b = best_intercept(scores, y, target, cost, numbers, numbers.smooth)
    reach = 10 * size + 10
    found = minimize_scalar(value, bounds=(-reach, reach), method="bounded")
    places = y * target - scores
    best = min(
        found.fun, *map(value, [*places, *(places - numbers.kink), *(places + numbers.kink)])
    )
    assert value(b) <= best + 1e-9 * best + (1e-12 * size + 1e-15) * cost.sum()


def problem_of(loss, rows, cost=1.0):
    X, y = labels_for(loss, rows)
    passes = naive.passes_of(X, 1.0)
    sign = y.astype(float) if loss in LOSSES else np.ones(len(y))
    target = 1.0 if loss in LOSSES else y
    costs = np.full(len(y), cost)
    return FreeProblem(passes, passes.sqnorms(), sign, costs, naive.numbers(loss), target)


@every_loss
def test_any_dual_point_becomes_feasible_and_proves_a_bound(rows, loss):
    problem = problem_of(loss, rows)
    optimum = solve(problem, tol=1e-10).primal
    rng = np.random.default_rng(0)
    for _ in range(5):
        alpha = rng.exponential(size=70) * (rng.random(70) < 0.8)
        if naive.LOWER[loss] < 0:
            alpha *= rng.choice([-1.0, 1.0], 70)
        alpha = np.clip(alpha, naive.LOWER[loss], naive.UPPER[loss])
        result = solve(problem, max_iter=0, start=Start(alpha.copy()))
        signed = result.alpha * problem.y
        assert abs(signed.sum()) <= 1e-14 * np.abs(signed).sum()
        assert (np.abs(result.alpha) <= np.abs(alpha)).all()
        assert 0 < np.abs(result.alpha).sum() < np.abs(alpha).sum()
        assert result.dual <= optimum * (1 + 1e-9) <= result.primal * (1 + 2e-9)


def test_what_is_left_of_the_sum_is_allowed_for(rows):
    """A sum that is off 0 by a part of itself adds as much of the losses to the gap, or more."""
    problem = problem_of("hinge", rows)
    result = solve(problem, tol=1e-6)
    slack = np.empty(70)
    gaps = []
    for off in (0.0, 1e-6, 1e-3):
        alpha = result.alpha.copy()
        alpha[problem.y > 0] *= 1 - off
        totals = problem.totals(alpha, result.w, 1.0, slack)
        gaps.append(totals[SHARES])
    lost = result.alpha[problem.y < 0] @ np.abs(slack[problem.y < 0])
    assert gaps[1] - gaps[0] >= 1e-6 * lost
    assert gaps[2] - gaps[0] >= 1e-3 * lost


# --------------------------------------------------------------------------------------- the rest


def test_paths_searches_files_and_certificates(rows, tmp_path):
    X, labels, targets = rows
    options = {"intercept": "free", "tol": 1e-6, "random_state": 0}
    for y, path, search in ((labels, svc_path, LinearSVCCV), (targets, svr_path, LinearSVRCV)):
        models = path(X, y, [0.1, 1.0], **options).models
        alone = type(models[1])(C=1.0, **options).fit(X, y)
        assert models[1].primal_objective_ == pytest.approx(alone.primal_objective_, rel=1e-5)
        found = search(Cs=[0.1, 1.0], **options).fit(X, y)
        assert found.best_estimator_.intercept == "free"
        save_model(alone, tmp_path / "model.npz", force=True)
        again = load_model(tmp_path / "model.npz")
        assert again.intercept == "free"
        bound = certify(again, X, y, tol=1e-5)
        assert bound.primal == pytest.approx(alone.primal_objective_, rel=1e-12)
        assert bound.n_iter == 0
        penalised = certify(again, X, y, intercept="penalized")
        assert penalised.primal == pytest.approx(bound.primal + alone.intercept_[0] ** 2 / 2)


def test_where_there_is_none_it_is_refused(rows, tmp_path):
    X, y, _ = rows
    free = {"intercept": "free"}
    for params, message in (({"multi_class": "crammer_singer"}, "multi_class='ovr'"),):
        with pytest.raises(ValueError, match=message):
            LinearSVC(**free, **params).fit(X, y)
    store = write_store(tmp_path / "store", sp.csr_array(X), y, block_bytes=1000)
    with pytest.raises(ValueError, match="intercept='free' is not available block by block"):
        LinearSVC(**free, memory_limit=10_000).fit(store)
    without = LinearSVC(**free, fit_intercept=False, random_state=0).fit(X, y)
    plain = LinearSVC(fit_intercept=False, random_state=0).fit(X, y)
    np.testing.assert_array_equal(without.coef_, plain.coef_)


def test_stops_early_with_an_honest_certificate(rows):
    X, y, _ = rows
    with pytest.warns(ConvergenceWarning, match="stopped at relative duality gap"):
        model = LinearSVC(loss="hinge", C=10.0, intercept="free", tol=1e-9, max_iter=3).fit(X, y)
    assert model.n_iter_ == 3
    best = LinearSVC(loss="hinge", C=10.0, intercept="free", tol=1e-9).fit(X, y)
    assert model.dual_objective_ <= best.primal_objective_ <= model.primal_objective_


@every_loss
def test_nothing_but_an_intercept_to_learn(loss):
    """Features that are all 0; the best intercept is a weighted median or mean."""
    X, y = np.zeros((7, 2)), np.array([1, 1, 1, 1, 1, -1, -1])
    model = model_of(loss, tol=1e-9).fit(X, y)
    assert_certified(model, X, y)
    np.testing.assert_array_equal(model.coef_, 0.0)


@pytest.mark.parametrize("cost", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_dual_variables_are_balanced_at_any_scale(rows, cost):
    """Products and sums of them would overflow or vanish."""
    X, y = rows[:2]
    alpha = cost * np.random.default_rng(0).uniform(1.0, 8.0, len(y))
    alpha[y > 0] *= 1e7
    problem = LinearSVC(loss="squared_hinge", intercept="free")  # has no upper bound
    with Context() as context:
        free = (
            TrainingSet(X, y, None, problem._settings(), context)
            .problems(problem._settings())
            .problem(0)
        )
    balanced = alpha.copy()
    free.balance(balanced)
    above, below = balanced[y > 0] / cost, balanced[y < 0] / cost
    assert above.sum() == pytest.approx(below.sum(), rel=1e-13)
    np.testing.assert_array_equal(below * cost, alpha[y < 0])
    zero = np.zeros(len(y))
    free.balance(zero)
    assert not zero.any()


@pytest.mark.parametrize("name", REGRESSION_LOSSES)
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("value", [0.1, 7.3, -1e9, 1e-30, 0.0])
def test_the_best_intercept_of_constant_targets_is_that_constant(name, epsilon, value):
    n = 5
    loss = loss_named(name, epsilon)
    best = best_intercept(np.zeros(n), np.ones(n), np.full(n, value), np.ones(n), loss, loss.smooth)
    assert best == value


def test_targets_within_epsilon_are_in_the_middle():
    target = np.array([1.0, 1.5, 1.25])
    for epsilon in (0.25, 1.0):
        loss = loss_named("epsilon_insensitive", epsilon)
        assert best_intercept(np.zeros(3), np.ones(3), target, np.ones(3), loss, False) == 1.25


@pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])
@pytest.mark.parametrize("intercept", ["free", "penalized"])
@pytest.mark.parametrize("scaling", [5e-324, 1e-320, 9.9e-151, 1.1e150, 1e308, np.inf])
def test_a_constant_that_cannot_be_squared_is_refused(rows, kind, intercept, scaling):
    with pytest.raises(ValueError, match=r"'intercept_scaling' .* between 1e-150 and 1e\+150"):
        kind(intercept=intercept, intercept_scaling=scaling).fit(*rows[:2])


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_targets_of_any_scale_are_learnt(rows, scale):
    """With the costs of the epsilon-insensitive loss, the problem is the same in other units."""
    X, y = rows[0], rows[2]
    model = LinearSVR(intercept="free", C=1e-3, tol=1e-5).fit(X, y)
    scaled = LinearSVR(intercept="free", C=1e-3 * scale, tol=1e-5).fit(X, scale * y)
    assert scaled.primal_objective_ == pytest.approx(scale**2 * model.primal_objective_, rel=2e-5)


def test_an_objective_that_overflows_says_so(rows):
    """X is as it was."""
    X, y = rows[0], rows[1]
    problem = naive.library_problem(X, y, 1e308, "hinge")
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"beyond float64 .* Scale X"):
        solve(problem)


def test_an_x_that_became_nan_is_said_to_have_changed(rows):
    X, y = rows[0].copy(), rows[2]

    def spoil(*_):
        X[3, 1] = np.nan
        return True

    with Context() as context:
        settings = LinearSVR()._settings()
        data = TrainingSet(X, y, None, settings, context)
        problem = data.problems(settings).problem(0)
        with pytest.raises(ValueError, match=r"X has NaN, .* that it did not have"):
            solve(problem, tol=1e-12, watch=spoil, solver="sweep")


@pytest.mark.parametrize("name", REGRESSION_LOSSES)
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("value", [0.1, 7.3, -1e9, 0.0])
@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize("scaling", [1.0, 3.0])
def test_constant_targets_are_learnt_exactly(rows, name, epsilon, value, n, scaling):
    """The optimum is 0, and so is the gap."""
    model = LinearSVR(loss=name, epsilon=epsilon, intercept="free", intercept_scaling=scaling)
    model.fit(rows[0][:n], np.full(n, value))
    assert model.converged_
    assert (model.primal_objective_, model.relative_gap_) == (0.0, 0.0)
    assert model.intercept_ == value
    assert not model.coef_.any()
    assert not model.dual_coef_.toarray().any()

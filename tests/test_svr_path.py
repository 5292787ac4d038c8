"""svr_path and LinearSVRCV: each model is that of a fit, and the search is scikit-learn's."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_svr import assert_certified, every_loss

from dualsweep import LinearSVR, LinearSVRCV, svr_path

CS = [0.003, 0.03, 0.3]
at_an_end = pytest.mark.filterwarnings("ignore:.* found the best score at C")


@pytest.fixture(scope="module")
def problem():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), scale(y)


def to_nine_digits(estimator):
    names = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{name}_data": "tol is 1e-3" for name in names}


@parametrize_with_checks([LinearSVRCV(Cs=[0.1, 1.0], cv=3)], expected_failed_checks=to_nine_digits)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@every_loss
@pytest.mark.parametrize("solver", ["sweep", "newton", "auto"])
def test_each_model_of_a_path_is_that_of_a_fit(problem, loss, solver):
    X, y = problem
    options = {"loss": loss, "epsilon": 0.3, "solver": solver, "tol": 1e-7, "random_state": 0}
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    path = svr_path(X, y, CS, sample_weight=weight, max_iter=20_000, **options)
    assert path.coefs.shape == (3, X.shape[1])
    for C, model in zip(CS, path.models, strict=True):
        assert_certified(model, X, y, weight)
        alone = LinearSVR(C=C, max_iter=20_000, **options).fit(X, y, weight)
        assert model.primal_objective_ == pytest.approx(alone.primal_objective_, rel=2e-7)


def test_a_path_starts_where_the_one_before_ended(problem):
    X, y = problem
    options = {"solver": "sweep", "tol": 1e-5, "random_state": 0, "epsilon": 0.1}
    Cs = 0.001 * 1.3 ** np.arange(6)
    path = svr_path(X, y, Cs, **options)
    cold = [LinearSVR(C=C, **options).fit(X, y).n_iter_ for C in Cs]
    assert sum(model.n_iter_ for model in path.models[1:]) < 0.9 * sum(cold[1:])


def test_a_path_says_what_it_takes_and_where_it_stopped(problem):
    with pytest.raises(TypeError, match="svr_path takes no C"):
        svr_path(*problem, CS, C=1.0)
    with pytest.warns(ConvergenceWarning, match="svr_path stopped above relative") as caught:
        svr_path(*problem, CS, solver="sweep", tol=1e-9, max_iter=1)
    assert caught[0].filename == __file__


@at_an_end
def test_the_search_is_that_of_grid_search(problem):
    X, y = problem
    options = {"epsilon": 0.2, "tol": 1e-8, "random_state": 0}
    folds = KFold(4, shuffle=True, random_state=0)
    ours = LinearSVRCV(Cs=CS, cv=folds, patience=None, **options).fit(X, y)
    grid = GridSearchCV(LinearSVR(**options), {"C": CS}, cv=folds).fit(X, y)
    theirs = [grid.cv_results_[f"split{f}_test_score"] for f in range(4)]
    np.testing.assert_allclose(ours.scores_, theirs, atol=1e-4)
    assert grid.best_params_["C"] == ours.C_
    assert ours.score(X, y) == pytest.approx(grid.score(X, y), abs=1e-4)
    assert isinstance(ours.best_estimator_, LinearSVR)
    assert_certified(ours.best_estimator_, X, y)


def test_threads_do_not_change_the_search(problem):
    one, other = (
        LinearSVRCV(Cs=CS, epsilon=0.2, random_state=0, n_jobs=n_jobs).fit(*problem)
        for n_jobs in (1, 3)
    )
    np.testing.assert_array_equal(one.scores_, other.scores_)
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_the_units_of_the_targets_do_not_matter(loss):
    """Unscaled: with the range of targets of unit spread, R^2 was 0.09, and -3.8 for y * 1000."""
    X, y = load_diabetes(return_X_y=True)
    models = [LinearSVRCV(loss=loss, random_state=0).fit(X, s * y) for s in (1.0, 1000.0, 1e-6)]
    assert models[0].mean_score_.max() > 0.475
    for s, model in zip((1.0, 1000.0, 1e-6), models, strict=True):
        times = s if loss == "epsilon_insensitive" else 1.0
        np.testing.assert_allclose(model.Cs_, times * models[0].Cs_)
        np.testing.assert_allclose(model.mean_score_, models[0].mean_score_, atol=1e-3)
        assert model.mean_score_.argmax() == models[0].mean_score_.argmax()


@at_an_end
def test_the_range_follows_the_spread_of_the_targets(problem):
    X, y = problem[0], 3.0 * problem[1] + 100.0
    fold = [(slice(0, None), slice(0, None))]
    first = 2**-6 / X.shape[1]  # the columns are standardised
    for fit_intercept, spread in ((True, 3.0), (False, np.sqrt(100.0**2 + 9.0))):
        model = LinearSVRCV(Cs=2, cv=fold, fit_intercept=fit_intercept, random_state=0)
        model.set_params(scoring=lambda model, X, y: -model.C).fit(X, y)
        assert np.isclose(model.Cs_, first * spread).any()


@pytest.mark.parametrize("y", [np.zeros(30), np.full(30, 5.0), np.linspace(0, 1e160, 30)])
def test_a_range_for_targets_without_a_spread_or_squares(y):
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = LinearSVRCV(Cs=2, cv=2, scoring=lambda *_: 0.0, max_iter=5000, random_state=0)
    assert np.isfinite(model.fit(X, y).Cs_).all()

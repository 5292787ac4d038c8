"""A certificate brackets the optimum, whatever trained the model."""

from types import SimpleNamespace

import numpy as np
import pytest
from naive import Naive, NaiveMulticlass
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Perceptron
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC as SklearnLinearSVC

from dualsweep import LinearSVC, LinearSVCCV, certify

PROBLEMS = [
    {"loss": "hinge"},
    {"loss": "squared_hinge", "C": 0.1},
    {"loss": "squared", "class_weight": "balanced"},
    {"loss": "squared_hinge", "fit_intercept": False},
    {"loss": "hinge", "intercept_scaling": 3.0, "class_weight": {0: 2.0}},
    {"multi_class": "crammer_singer"},
    {"multi_class": "weston_watkins", "C": 0.1, "class_weight": "balanced"},
]


@pytest.fixture(scope="module", params=["iris", "cancer"])
def data(request):
    load = load_iris if request.param == "iris" else load_breast_cancer
    X, y = load(return_X_y=True)
    return scale(X), y


def fit(data, tol=1e-3, **params):
    return LinearSVC(tol=tol, random_state=0, max_iter=100_000, **params).fit(*data)


def naive_primal(model, X, y):
    """The objective in plain NumPy."""
    classes, codes = np.unique(y, return_inverse=True)
    weight = np.ones(len(classes))
    if model.class_weight == "balanced":
        weight = len(y) / (len(classes) * np.bincount(codes))
    elif model.class_weight is not None:
        weight = np.array([model.class_weight.get(c, 1.0) for c in classes])
    cost = model.C * weight[codes]
    bias = model.intercept_scaling if model.fit_intercept else 0.0
    last = model.intercept_ / bias if bias else 0.0 * model.intercept_
    w = np.column_stack([model.coef_, last])
    if model.multi_class != "ovr":
        W = w if len(w) > 1 else np.concatenate([-w / 2, w / 2])
        return NaiveMulticlass(X, codes, cost, model.multi_class, bias).primal(W.T)
    positives = range(len(classes)) if len(classes) > 2 else [1]
    return sum(
        Naive(X, np.where(codes == k, 1.0, -1.0), cost, model.loss, bias).primal(w[p])
        for p, k in enumerate(positives)
    )


@pytest.mark.parametrize("params", PROBLEMS)
def test_a_trained_model_has_the_certificate_it_came_with(data, params):
    model = fit(data, **params)
    found = certify(model, *data)
    assert found.n_iter == 0
    np.testing.assert_allclose(found.primal, naive_primal(model, *data), rtol=1e-10)
    np.testing.assert_allclose(found.primal, model.primal_objective_, rtol=1e-10)
    np.testing.assert_allclose(found.dual, model.dual_objective_, rtol=1e-10)
    np.testing.assert_allclose(found.relative_gap, model.relative_gap_, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.gap, model.dual_gap_, rtol=1e-6, atol=1e-12 * found.primal)


@pytest.mark.parametrize("keep_duals", [True, False])
@pytest.mark.parametrize("params", PROBLEMS)
def test_any_weights_are_certified(data, params, keep_duals):
    """Whatever the weights: the bound is below the optimum, by little, and the objective right."""
    model = fit(data, **params)
    optimum = fit(data, tol=1e-7, **params)
    if not keep_duals:
        del model.dual_coef_
    for factor in (1.0, 0.7):
        model.coef_ *= factor
        found = certify(model, *data)
        np.testing.assert_allclose(found.primal, naive_primal(model, *data), rtol=1e-10)
        assert found.dual <= optimum.primal_objective_
        assert found.dual >= optimum.dual_objective_ * (1 - 1e-3)
        assert (found.relative_gap <= (1e-3 if keep_duals else 1.3e-3)) == (factor == 1.0)
    assert found.gap >= found.primal - optimum.primal_objective_


def test_a_model_of_scikit_learn(data):
    model = SklearnLinearSVC(C=0.5, tol=1e-6, dual=False).fit(*data)
    found = certify(model, *data, tol=1e-5, n_jobs=2)
    np.testing.assert_allclose(found.primal, naive_primal(model, *data), rtol=1e-12)
    assert found.relative_gap <= 1e-5
    assert found.n_iter > 0


def test_a_classifier_of_another_kind(data):
    """Its weights are judged by the problem that is asked for."""
    model = Perceptron().fit(*data)
    with pytest.raises(ValueError, match=r"Perceptron has no C .* Pass C to certify"):
        certify(model, *data)
    found = certify(model, *data, C=0.5, loss="squared_hinge", multi_class="ovr")
    same = SimpleNamespace(
        **{name: getattr(model, name) for name in ("coef_", "intercept_")},
        **{"C": 0.5, "loss": "squared_hinge", "multi_class": "ovr", "class_weight": None},
        **{"fit_intercept": True, "intercept_scaling": 1.0},
    )
    np.testing.assert_allclose(found.primal, naive_primal(same, *data), rtol=1e-12)
    optimum = fit(data, C=0.5, tol=1e-7)
    assert found.dual <= optimum.primal_objective_
    assert found.relative_gap > 1e-3


def test_a_model_that_chose_its_own_cost(data):
    model = LinearSVCCV(Cs=[0.01, 0.1], tol=1e-5, random_state=0).fit(*data)
    found = certify(model, *data)
    assert found == certify(model.best_estimator_, *data)
    np.testing.assert_allclose(found.primal, model.primal_objective_, rtol=1e-10)
    assert found.relative_gap <= 1e-5


@pytest.mark.parametrize("params", PROBLEMS)
def test_weights_of_rows_count(data, params):
    """A weighted model is judged by the weighted problem: weight 2 is the row twice."""
    X, y = data
    times = np.random.default_rng(0).integers(0, 3, len(y))
    repeated = np.repeat(X, times, axis=0), np.repeat(y, times)
    model = LinearSVC(tol=1e-4, random_state=0, max_iter=100_000, **params)
    model.fit(X, y, sample_weight=times)
    found = certify(model, X, y, sample_weight=times)
    np.testing.assert_allclose(found.primal, naive_primal(model, *repeated), rtol=1e-10)
    assert found.relative_gap <= 1e-4
    assert found.n_iter == 0
    del model.dual_coef_
    again = certify(model, *repeated)
    np.testing.assert_allclose(again.primal, found.primal, rtol=1e-10)
    assert certify(model, X, y).primal != pytest.approx(found.primal, rel=1e-3)


def test_the_problem_can_be_another(data):
    model = fit(data, tol=1e-5, C=0.1, loss="squared_hinge")
    found = certify(model, *data, C=1.0, loss="hinge")
    model.set_params(C=1.0, loss="hinge")
    np.testing.assert_allclose(found.primal, naive_primal(model, *data), rtol=1e-10)
    assert found.relative_gap > 1e-3


@pytest.mark.parametrize("limits", [{"max_iter": 0}, {"max_iter": 1}, {"max_time": 0.0}])
def test_a_search_that_ends_early_gives_a_bound_all_the_same(data, limits):
    model = fit(data, tol=1e-6, loss="hinge")
    del model.dual_coef_
    found = certify(model, *data, tol=1e-9, **limits)
    assert found.dual <= model.primal_objective_
    assert 1e-6 < found.relative_gap <= 1.0 + 1e-12


def test_dual_variables_of_other_rows_are_not_used():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = fit((X, y), C=0.1)
    found = certify(model, X[::2], y[::2])
    optimum = fit((X[::2], y[::2]), C=0.1, tol=1e-7)
    np.testing.assert_allclose(found.primal, naive_primal(model, X[::2], y[::2]), rtol=1e-10)
    assert optimum.dual_objective_ * (1 - 1e-3) <= found.dual <= optimum.primal_objective_
    assert found.n_iter > 0


def test_what_cannot_be_certified(data):
    X, y = data
    with pytest.raises(NotFittedError):
        certify(LinearSVC(), X, y)
    model = fit(data)
    with pytest.raises(ValueError, match=r"The model has the classes \[0, 1.*, but y has \[1, 2"):
        certify(model, X, y + 1)
    with pytest.raises(ValueError, match="features"):
        certify(model, X[:, 1:], y)
    model.set_params(fit_intercept=False)
    with pytest.raises(ValueError, match="intercept_ that is not 0, but fit_intercept=False"):
        certify(model, X, y)
    model.set_params(fit_intercept=True).coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match="has NaN or infinity"):
        certify(model, X, y)
    for coef in (model.coef_[:, 1:], np.vstack([model.coef_, model.coef_])):
        model.coef_ = coef
        with pytest.raises(ValueError, match="but coef_ has the shape"):
            certify(model, X, y)


def test_dual_variables_that_are_not_finite_are_not_used(data):
    model = fit(data)
    found = certify(model, *data)
    model.dual_coef_.data[0] = np.nan
    again = certify(model, *data)
    assert again.primal == found.primal
    assert again.n_iter > 0
    assert again.relative_gap <= 1.3e-3

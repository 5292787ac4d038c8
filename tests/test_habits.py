"""What people who come from scikit-learn reach for, and what they are answered."""

from types import SimpleNamespace

import numpy as np
import pytest
from naive import Naive
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC
from sklearn.tree import DecisionTreeClassifier

from dualsweep import LinearSVC, LinearSVCCV, certify, compare_multiclass, svc_path


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize("habit", [{"penalty": "l2"}, {"dual": False}, {"dual": True}])
@pytest.mark.parametrize("kind", [LinearSVC, LinearSVCCV])
def test_parameters_of_scikit_learn_without_effect(cancer, kind, habit):
    plain = kind(random_state=0).fit(*cancer)
    model = clone(kind(random_state=0, **habit)).fit(*cancer)
    assert habit.items() <= model.get_params().items()
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_they_can_be_searched_over_and_passed_on(iris):
    X, y = iris
    search = GridSearchCV(LinearSVC(), {"penalty": ["l2"], "dual": [True, False]}).fit(X, y)
    assert search.best_params_["penalty"] == "l2"
    params = {"penalty": "l2", "dual": False, "random_state": 0}
    plain = svc_path(X, y, [0.1], random_state=0)
    np.testing.assert_array_equal(svc_path(X, y, [0.1], **params).coefs, plain.coefs)
    compared = [
        compare_multiclass(X, y, Cs=[0.1], n_repeats=2, **more)
        for more in (params, {"random_state": 0})
    ]
    np.testing.assert_array_equal(compared[0].accuracy, compared[1].accuracy)


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_other_penalties_are_refused_with_what_has_them(iris, penalty):
    fits = [
        lambda: LinearSVC(penalty=penalty).fit(*iris),
        lambda: LinearSVCCV(penalty=penalty).fit(*iris),
        lambda: svc_path(*iris, penalty=penalty),
    ]
    for fit in fits:
        with pytest.raises(ValueError, match=r"l2 penalty only.*scikit-learn's LinearSVC\(penalty"):
            fit()


@pytest.mark.parametrize(
    "y", [np.eye(3, dtype=int)[[0, 1, 2]], [["a"], ["b", "c"], ["a", "b"]], np.zeros((3, 2), bool)]
)
def test_several_labels_a_row_are_told_who_takes_them(y):
    with pytest.raises(ValueError, match=r"\d labels a row.*MultiOutputClassifier\(LinearSVC"):
        LinearSVC().fit(np.eye(3), y)


def test_what_is_advised_for_several_labels_works(iris):
    X, y = iris
    Y = np.column_stack([y == 0, y == 1])
    model = MultiOutputClassifier(LinearSVC(random_state=0)).fit(X, Y)
    for j, part in enumerate(model.estimators_):
        np.testing.assert_array_equal(part.coef_, LinearSVC(random_state=0).fit(X, Y[:, j]).coef_)


@pytest.mark.parametrize("kind", [LinearSVC, LinearSVCCV])
def test_methods_that_are_not_there_name_what_to_use(kind):
    model = kind()
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=rf"CalibratedClassifierCV\({kind.__name__}\(...\)\)"):
        model.predict_proba(np.eye(2))
    with pytest.raises(AttributeError, match=r"open_writer.*SGDClassifier"):
        model.partial_fit(np.eye(2), [0, 1])


def test_what_is_advised_for_probabilities_works(cancer):
    X, y = cancer
    probability = CalibratedClassifierCV(LinearSVC(random_state=0)).fit(X, y).predict_proba(X)
    score = LinearSVC(random_state=0).fit(X, y).decision_function(X)
    assert np.corrcoef(probability[:, 1] > 0.5, score > 0)[0, 1] > 0.9
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)


def test_the_model_of_a_search_becomes_one_of_scikit_learn(iris):
    X, y = iris
    model = LinearSVCCV(random_state=0).fit(X, y)
    twin = model.to_sklearn()
    assert type(twin) is SklearnLinearSVC
    assert twin.C == model.C_
    np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))


def test_values_to_try_are_those_that_people_write(cancer):
    """Of rows of unit length, where units leave the choice."""
    X, y = cancer
    rows = (X / np.linalg.norm(X, axis=1)[:, None]).astype(np.float32)
    model = LinearSVCCV(patience=None, random_state=0).fit(rows, y)
    assert model.Cs_.tolist()[:10] == [2.0**power for power in range(-6, 4)]
    assert "0.125" in map(str, model.Cs_.tolist())


def test_anything_with_weights_of_classes_is_certified(cancer):
    X, y = cancer
    trained = LinearSVC(loss="hinge", C=0.5, tol=1e-6, random_state=0).fit(X, y)
    model = SimpleNamespace(
        coef_=0.9 * trained.coef_[0], intercept_=trained.intercept_, classes_=[0, 1]
    )
    found = certify(model, X, y, C=0.5, loss="hinge")
    naive = Naive(X, np.where(y == 1, 1.0, -1.0), 0.5, "hinge", bias=1.0)
    primal = naive.primal(np.append(0.9 * trained.coef_[0], trained.intercept_))
    assert found.primal == pytest.approx(primal, rel=1e-12)
    assert found.dual <= trained.primal_objective_
    assert found.relative_gap >= 1 - trained.primal_objective_ / primal
    with pytest.raises(ValueError, match="Pass C to certify"):
        certify(model, X, y, loss="hinge")


def test_a_classifier_with_a_loss_of_its_own_needs_one_of_ours(cancer):
    X, y = cancer
    model = LogisticRegression(C=0.1).fit(X, y)
    assert certify(model, X, y, tol=1e-2).relative_gap <= 1e-2
    model.multi_class = "deprecated"  # as older releases have it
    found = certify(model, X, y, loss="squared_hinge")
    best = LinearSVC(C=0.1, tol=1e-6, random_state=0).fit(X, y)
    assert best.dual_objective_ <= found.primal
    assert found.dual == pytest.approx(best.dual_objective_, rel=1e-3)
    ridge = certify(RidgeClassifier().fit(X, y), X, y, C=0.5, loss="squared")
    assert ridge.relative_gap < 0.01  # the same problem but for the penalty on the intercept


def test_what_has_no_weights_for_each_class_is_told_so(iris):
    X, y = iris
    with pytest.raises(TypeError, match="DecisionTreeClassifier has no coef_"):
        certify(DecisionTreeClassifier().fit(X, y), X, y, C=1.0, loss="squared")
    with pytest.raises(ValueError, match="LinearRegression has no epsilon"):
        certify(LinearRegression().fit(X, y), X, y, C=1.0, loss="epsilon_insensitive")
    # Three pairs of three classes: as many weights as one versus the rest has.
    with pytest.raises(TypeError, match="weights for pairs of classes"):
        certify(SVC(kernel="linear").fit(X, y), X, y, loss="hinge")
    pipeline = make_pipeline(StandardScaler(), LinearSVC(random_state=0)).fit(X, y)
    with pytest.raises(TypeError, match=r"certify\(pipeline\[-1\]"):
        certify(pipeline, X, y)
    found = certify(pipeline[-1], pipeline[:-1].transform(X), y)
    assert found.n_iter == 0
    assert found.primal == pytest.approx(pipeline[-1].primal_objective_, rel=1e-12)


@pytest.mark.parametrize("X", [["a text", "another"], [["red", 1.0], ["blue", 2.0]]])
@pytest.mark.parametrize("kind", [LinearSVC, LinearSVCCV])
def test_text_is_told_how_to_become_numbers(kind, X):
    with pytest.raises(ValueError, match=r"could not convert string.*TfidfVectorizer.*OneHotEnc"):
        kind().fit(X, [0, 1])

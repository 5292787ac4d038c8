"""Models move between dualsweep and LIBLINEAR with the same decision values."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import scale

from dualsweep import LinearSVC, LinearSVR
from dualsweep.io import load_liblinear, load_model, save_liblinear, save_model

FORMULATIONS = [
    ({"loss": "hinge"}, "L2R_L1LOSS_SVC_DUAL"),
    ({"loss": "squared_hinge"}, "L2R_L2LOSS_SVC_DUAL"),
    ({"loss": "squared"}, "L2R_L2LOSS_SVC_DUAL"),
    ({"multi_class": "crammer_singer"}, "MCSVM_CS"),
    ({"multi_class": "weston_watkins"}, "MCSVM_CS"),
]
BIASES = [{}, {"fit_intercept": False}, {"intercept_scaling": 2.0}]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.model"


@pytest.fixture(scope="module")
def liblinear():
    return pytest.importorskip("liblinear.liblinearutil")


def fit(X, y, **params):
    return LinearSVC(tol=1e-2, random_state=0, **params).fit(X, y)


def their_answer(liblinear, path, X):
    """Labels and decision values of LIBLINEAR for a model in a file."""
    model = liblinear.load_model(str(path))
    labels, _, values = liblinear.predict([], sp.csr_matrix(X), model, "-q")
    return np.array(labels), np.array(values), model


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(("params", "name"), FORMULATIONS)
def test_liblinear_reads_ours(liblinear, path, iris, params, name, bias):
    X, y = iris
    y = np.array([7, -2, 4])[y]
    model = fit(X, y, **params, **bias)
    save_liblinear(model, path)
    assert path.read_text().startswith(f"solver_type {name}\n")
    labels, values, theirs = their_answer(liblinear, path, X)
    assert theirs.get_labels() == model.classes_.tolist()
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_allclose(values, model.decision_function(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(("params", "name"), FORMULATIONS)
@pytest.mark.parametrize("classes", [[-1, 1], [1, -1], [0, 1], [5, 3]])
def test_liblinear_reads_ours_of_two_classes(liblinear, path, cancer, classes, params, name, bias):
    X, y = cancer
    model = fit(X, np.array(classes)[y], **params, **bias)
    save_liblinear(model, path)
    if "multi_class" in params:  # with two classes that is the hinge loss
        name = "L2R_L1LOSS_SVC_DUAL"
    assert path.read_text().startswith(f"solver_type {name}\n")
    labels, values, _ = their_answer(liblinear, path, X)
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_allclose(values[:, 0], model.decision_function(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bias", [-1, 0, 1, 0.5])
@pytest.mark.parametrize("solver", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("classes", [[7, -2, 4], [1, 2, 3], [3, 1], [-1, 1], [1, -1]])
def test_we_read_theirs(liblinear, path, iris, classes, solver, bias):
    X, y = iris
    X, y = X[y < len(classes)], np.array(classes)[y[y < len(classes)]]
    theirs = liblinear.train(y, sp.csr_matrix(X), f"-q -s {solver} -B {bias} -e 0.1")
    liblinear.save_model(str(path), theirs)
    labels, values, _ = their_answer(liblinear, path, X)
    model = load_model(path)
    np.testing.assert_array_equal(model.predict(X), labels)
    ours = model.decision_function(X)
    if len(classes) > 2:
        order = np.argsort(theirs.get_labels())
        np.testing.assert_allclose(ours, values[:, order], rtol=1e-9, atol=1e-12)
    else:
        sign = 1 if theirs.get_labels()[0] == max(classes) else -1
        both = 2 if solver == 4 else 1  # Crammer-Singer's second row of weights is minus the first
        np.testing.assert_allclose(ours, sign * both * values[:, 0], rtol=1e-9, atol=1e-12)
    assert model.loss == {0: "logistic", 3: "hinge", 7: "logistic"}.get(solver, "squared_hinge")
    assert model.multi_class == ("crammer_singer" if solver == 4 else "ovr")
    assert model.fit_intercept is (bias > 0)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_we_write_we_read(path, iris, n_classes, bias):
    X, y = iris[0][iris[1] < n_classes], iris[1][iris[1] < n_classes]
    model = fit(X, y, loss="hinge", **bias)
    save_liblinear(model, path)
    again = load_liblinear(path)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.intercept_, model.intercept_)
    np.testing.assert_array_equal(again.classes_, model.classes_)
    for name in ("loss", "multi_class", "fit_intercept", "intercept_scaling"):
        assert getattr(again, name) == getattr(model, name)


def test_a_model_of_theirs_in_our_format(path, iris):
    X, y = iris
    save_liblinear(fit(X, y), path)
    model = load_model(path)
    save_model(model, path.with_suffix(".npz"))
    again = load_model(path.with_suffix(".npz"))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert not hasattr(again, "dual_gap_")


def test_sparse_weights(path, iris):
    model = fit(*iris)
    expected = model.coef_
    save_liblinear(model.sparsify(), path)
    np.testing.assert_array_equal(load_liblinear(path).coef_, expected)


@pytest.mark.parametrize("kind", [np.float64, np.int8, np.uint64, bool])
def test_classes_that_are_integers(path, cancer, kind):
    X, y = cancer
    save_liblinear(fit(X, y.astype(kind)), path)
    assert load_liblinear(path).classes_.tolist() == [0, 1]


@pytest.mark.parametrize("classes", [["a", "b"], [0.5, 1], [0, 2**31], [0, np.inf]])
def test_classes_that_are_not(path, cancer, classes):
    X, y = cancer
    model = fit(X, y)
    model.classes_ = np.array(classes)
    path.write_text("precious")
    with pytest.raises(ValueError, match="classes that are integers of 32 bits, but these are"):
        save_liblinear(model, path, force=True)
    assert path.read_text() == "precious"


def test_files_are_not_replaced_unless_forced(path, iris):
    path.write_text("precious")
    model = fit(*iris)
    with pytest.raises(FileExistsError, match="exists already"):
        save_liblinear(model, path)
    assert path.read_text() == "precious"
    save_liblinear(model, path, force=True)
    np.testing.assert_array_equal(load_liblinear(path).coef_, model.coef_)
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_an_unfitted_model_is_refused(path):
    with pytest.raises(ValueError, match="is not fitted; call fit"):
        save_liblinear(LinearSVC(), path)


GOOD = """solver_type L2R_L2LOSS_SVC_DUAL
nr_class 2
label 1 -1
nr_feature 2
bias 1
w
0.5
-1
0.25
"""


def test_a_model_by_hand(path):
    path.write_text(GOOD)
    model = load_liblinear(path)
    assert model.decision_function([[2.0, 3.0]]) == [2 * 0.5 - 3 + 0.25]
    assert model.predict([[2.0, 3.0], [3.0, 1.0]]).tolist() == [-1, 1]
    assert (model.n_features_in_, model.classes_.tolist()) == (2, [-1, 1])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("solver_type L2", "solver L2", "must start with solver_type"),
        ("L2R_L2LOSS_SVC_DUAL", "L3R", "has a model of type L3R; dualsweep reads L2R_L1LOSS"),
        ("L2R_L2LOSS_SVC_DUAL", "", "has a model of type unknown"),
        ("nr_class 2", "nr_class 3", r"nr_class is 3, label is \[1, -1\]"),
        ("nr_class 2", "nr_class 1", "nr_class is 1"),
        ("nr_class 2", "nr_class two", "damaged"),
        ("nr_class 2\n", "", "damaged model of LIBLINEAR: it lacks nr_class"),
        ("label 1 -1", "label 1 1", r"label is \[1, 1\]"),
        ("label 1 -1", "label 1 x", "damaged"),
        ("label 1 -1", "label 1 99999999999999999999", "damaged"),
        ("nr_feature 2", "nr_feature 3", "has 3 weights instead of 4"),
        ("nr_feature 2", "nr_feature -1", "nr_feature is -1"),
        ("bias 1", "bias -1", "has 3 weights instead of 2"),
        ("bias 1", "bias 1 1", "damaged"),
        ("bias 1", "bias nan", r"damaged"),
        ("w\n", "", "damaged|weights instead"),
        ("-1\n0.25", "-1", "has 2 weights instead of 3"),
        ("0.25", "0.25 7", "has 4 weights instead of 3"),
        ("0.25", "a quarter", "damaged"),
        ("0.25", "inf", "not all weights are finite"),
    ],
)
def test_damaged_models(path, old, new, message):
    assert GOOD.count(old) >= 1
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"file\.model .*{message}"):
        load_liblinear(path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        load_liblinear(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("solver_type", "rest", "kind"),
    [
        ("L1R_LR", "nr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n0.5 \n1 \n", "logistic"),
        (
            "L1R_L2LOSS_SVC",
            "nr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n0.5 \n",
            "l1 penalty",
        ),
        ("ONECLASS_SVM", "nr_class 2\nnr_feature 1\nbias -1\nrho 0.5\nw\n0.5 \n", "one-class"),
    ],
)
def test_models_of_other_kinds_are_called_by_their_name(tmp_path, solver_type, rest, kind):
    path = tmp_path / "other.model"
    path.write_text(f"solver_type {solver_type}\n{rest}")
    for load in (load_liblinear, load_model):
        with pytest.raises(ValueError, match=f"for .*{kind}.*{solver_type}") as error:
            load(path)
        assert "damaged" not in str(error.value)


# ----------------------------------------------------------------------------------- regression


@pytest.fixture(scope="module")
def numbers():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), scale(y)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(
    ("loss", "name"),
    [
        ("epsilon_insensitive", "L2R_L1LOSS_SVR_DUAL"),
        ("squared_epsilon_insensitive", "L2R_L2LOSS_SVR_DUAL"),
    ],
)
def test_liblinear_reads_our_regression(liblinear, path, numbers, loss, name, bias):
    X, y = numbers
    model = LinearSVR(loss=loss, epsilon=0.1, random_state=0, **bias).fit(X, y)
    save_liblinear(model, path)
    assert path.read_text().startswith(f"solver_type {name}\nnr_class 2\nnr_feature 10\n")
    predicted, _, theirs = their_answer(liblinear, path, X)
    assert theirs.is_regression_model()
    np.testing.assert_allclose(predicted, model.predict(X), rtol=1e-12, atol=1e-12)
    again = load_liblinear(path)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    for parameter in ("loss", "fit_intercept", "intercept_scaling"):
        assert getattr(again, parameter) == getattr(model, parameter)


@pytest.mark.parametrize("bias", [-1, 0, 1, 0.5])
@pytest.mark.parametrize("solver", [11, 12, 13])
def test_we_read_their_regression(liblinear, path, numbers, solver, bias):
    X, y = numbers
    theirs = liblinear.train(y, sp.csr_matrix(X), f"-q -s {solver} -B {bias} -p 0.1 -e 0.01")
    liblinear.save_model(str(path), theirs)
    predicted, _, _ = their_answer(liblinear, path, X)
    model = load_model(path)
    assert isinstance(model, LinearSVR)
    np.testing.assert_allclose(model.predict(X), predicted, rtol=1e-9, atol=1e-12)
    assert model.loss == ("epsilon_insensitive" if solver == 13 else "squared_epsilon_insensitive")
    assert model.fit_intercept is (bias > 0)
    save_model(model, path.with_suffix(".npz"))
    again = load_model(path.with_suffix(".npz"))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_damaged_regression_is_refused(path, numbers):
    save_liblinear(LinearSVR(random_state=0).fit(*numbers), path)
    whole = path.read_text()
    for old, new, message in (
        ("nr_class 2", "nr_class 3", "nr_class is 3"),
        ("nr_class 2\n", "nr_class 2\nlabel 1 2\n", r"label is \[1, 2\]"),
        ("nr_feature 10", "nr_feature 11", "11 weights instead of 12"),
        (
            "solver_type L2R_L1LOSS_SVR_DUAL",
            "solver_type L1R_LR",
            r"logistic regression .*\(L1R_LR",
        ),
        ("solver_type L2R_L1LOSS_SVR_DUAL", "solver_type L3R", "of type L3R; .* L2R_L2LOSS_SVR"),
    ):
        path.write_text(whole.replace(old, new))
        with pytest.raises(ValueError, match=message):
            load_liblinear(path)

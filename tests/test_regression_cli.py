"""Regression from files to files, and certificates of regressors."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVR as SklearnLinearSVR
from test_cli import run

from dualsweep import LinearSVC, LinearSVR, LinearSVRCV, certify
from dualsweep.io import load_data, load_model, write_store

OPTIONS = ("--task", "regression", "--epsilon", "0.2", "-q")


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = load_diabetes(return_X_y=True)
    dump_svmlight_file(scale(X), scale(y), "diabetes.svm", zero_based=False)
    return load_data("diabetes.svm")


def facts(*arguments):
    result = run(*arguments, "--json")
    return result.exit_code, json.loads(result.output)


def test_train_and_predict_equal_the_library(data):
    X, y = data
    assert run("train", "diabetes.svm", *OPTIONS).exit_code == 0
    model = LinearSVR(epsilon=0.2, random_state=0).fit(X, y)
    written = load_model("diabetes.model.npz")
    np.testing.assert_array_equal(written.coef_, model.coef_)
    assert written.relative_gap_ == model.relative_gap_
    assert written.epsilon == 0.2
    result = run("predict", "diabetes.model.npz", "diabetes.svm", "-o", "numbers.txt")
    assert result.exit_code == 0, result.output
    predicted = np.loadtxt("numbers.txt")
    np.testing.assert_array_equal(predicted, model.predict(X))
    error = np.mean((y - predicted) ** 2)
    assert f"Mean squared error {error:.6g}, R2 {model.score(X, y):.4f} (442 rows)" in result.output
    _, found = facts("predict", "diabetes.model.npz", "diabetes.svm")
    assert found["r2"] == pytest.approx(model.score(X, y))
    assert found["mean_squared_error"] == pytest.approx(error)
    _, found = facts("info", "diabetes.model.npz")
    assert (found["loss"], found["epsilon"]) == ("epsilon_insensitive", 0.2)
    assert "classes" not in found


def test_integers_are_targets_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = load_diabetes(return_X_y=True)
    np.savez("whole.npz", X=scale(X), y=y.astype(np.int64))
    assert run("train", "whole.npz", "--task", "regression", "-q").exit_code == 0
    model = LinearSVR(random_state=0).fit(scale(X), y)
    np.testing.assert_array_equal(load_model("whole.model.npz").coef_, model.coef_)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_free_intercept(data, task):
    X, y = data
    kind = LinearSVR
    if task == "classification":
        kind, y = LinearSVC, np.where(y > 1, 1, -1)
        np.savez("diabetes.npz", X=X.toarray(), y=y)
    name = "diabetes.svm" if task == "regression" else "diabetes.npz"
    X = X if task == "regression" else X.toarray()
    code, found = facts("train", name, "--task", task, "--intercept", "free", "-o", "m.npz")
    model = kind(intercept="free", random_state=0).fit(X, y)
    assert code == 0
    assert found["primal_objective"] == model.primal_objective_
    np.testing.assert_array_equal(load_model("m.npz").intercept_, model.intercept_)
    code, found = facts("certify", "m.npz", name)
    assert (code, found["problem"].endswith("free intercept")) == (0, True)
    assert found["primal_objective"] == pytest.approx(model.primal_objective_, rel=1e-12)
    code, found = facts("certify", "m.npz", name, "--intercept", "penalized")
    assert found["primal_objective"] > model.primal_objective_
    result = run("train", name, "--task", task, "--intercept", "none")
    assert (result.exit_code, "penalized or free" in result.output) == (2, True)


def test_a_store_block_by_block(data, tmp_path):
    X, y = sp.vstack([data[0]] * 20, format="csr"), np.tile(data[1], 20)
    store = write_store("diabetes.store", X, y, block_bytes=100_000)
    assert store.shape[0] * 128 + 2 * store.n_bytes > 1 << 20  # it does not fit
    limited = ("--memory-limit", "1", "--tol", "1e-3")
    assert run("train", "diabetes.store", *OPTIONS, *limited).exit_code == 0
    model = load_model("diabetes.model.npz")
    assert model.converged_
    code, found = facts("certify", "diabetes.model.npz", "diabetes.store", *limited)
    assert (code, found["primal_objective"]) == (0, pytest.approx(model.primal_objective_))
    _, of_store = facts("predict", "diabetes.model.npz", "diabetes.store")
    np.testing.assert_allclose(of_store["labels"], model.predict(X), rtol=1e-12)
    assert of_store["r2"] == pytest.approx(model.score(X, y))
    search = (*OPTIONS[:-1], "--costs", "0.001,0.01", "--folds", "2")
    code, found = facts("cv", "diabetes.store", *search, *limited)
    _, in_memory = facts("cv", "diabetes.store", *search)
    assert code == 0
    np.testing.assert_allclose(found["scores"], in_memory["scores"], rtol=1e-2)


@pytest.mark.parametrize("intercept", ["penalized", "free"])
def test_a_warm_start_begins_where_the_model_is(data, intercept):
    options = ("--task", "regression", "--epsilon", "0.2", "--intercept", intercept)
    assert run("train", "diabetes.svm", *options, "--bias", "3", "-q").exit_code == 0
    assert load_model("diabetes.model.npz").intercept_scaling == 3.0
    again = ("--warm-start", "diabetes.model.npz", "-o", "again.npz")
    code, found = facts("train", "diabetes.svm", *options, "--bias", "3", *again)
    assert (code, found["epochs"]) == (0, 0)


def test_a_warm_start_of_the_other_task_is_refused(data):
    X, y = data
    np.savez("classes.npz", X=X.toarray(), y=np.where(y > 1, 1, -1))
    run("train", "diabetes.svm", *OPTIONS)
    run("train", "classes.npz", "-q")
    result = run("train", "classes.npz", "--warm-start", "diabetes.model.npz", "-o", "m.npz")
    assert result.exit_code == 2
    assert "442 rows of regression, but these are 442 rows of -1, 1" in result.output
    result = run("train", "diabetes.svm", *OPTIONS, "--warm-start", "classes.model.npz", "--force")
    assert result.exit_code == 2
    assert "442 rows of the classes -1, 1, but these are 442 rows of regression" in result.output


@pytest.mark.parametrize("option", [["--decisions"], ["--probabilities"]])
def test_values_of_classes_are_refused(data, option):
    run("train", "diabetes.svm", *OPTIONS)
    result = run("predict", "diabetes.model.npz", "diabetes.svm", *option)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{option[0]} applies to classification" in result.output


def test_targets_that_are_text_are_said_to_be(data):
    X, y = data
    run("train", "diabetes.svm", *OPTIONS)
    np.savez("text.npz", X=X.toarray(), y=np.where(y > 1, "high", "low"))
    result = run("predict", "diabetes.model.npz", "text.npz")
    assert result.exit_code == 0
    assert result.stderr == "No mean squared error: the labels of text.npz are not numbers.\n"
    assert len(result.stdout.splitlines()) == len(y)


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("-s", "-s 13 without"),
        ("-p", "use --epsilon, with --task regression"),
        ("-R", "--intercept free"),
    ],
)
def test_options_of_liblinear_are_answered_with_ours(data, option, answer):
    result = run("train", option, "11", "diabetes.svm")
    assert result.exit_code == 2
    assert answer in " ".join(result.output.replace("│", " ").split())


def test_cv_equals_the_library(data):
    X, y = data
    code, found = facts("cv", "diabetes.svm", *OPTIONS[:-1], "--costs", "0.1,1")
    folds = KFold(5, shuffle=True, random_state=0)
    model = LinearSVRCV(Cs=[0.1, 1.0], cv=folds, epsilon=0.2, random_state=0).fit(X, y)
    assert code == 0
    assert (found["C"], found["scoring"]) == (model.C_, "r2")
    np.testing.assert_allclose(found["scores"], model.scores_)


@pytest.mark.parametrize("name", ["model.npz", "liblinear.model"])
def test_certify_a_file(data, name):
    run("train", "diabetes.svm", *OPTIONS, "--tol", "1e-5", "-o", name)
    options = () if name.endswith("npz") else ("-C", "1", "--epsilon", "0.2")
    code, found = facts("certify", name, "diabetes.svm", *options, "--tol", "1e-4")
    assert (code, found["proven"]) == (0, True)
    assert found["problem"] == "C = 1, epsilon_insensitive loss, epsilon = 0.2"
    code, found = facts("certify", name, "diabetes.svm", "-C", "1", "--epsilon", "0.9")
    assert (code, found["proven"]) == (1, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "x.svm", "--task", "regression", "--loss", "hinge"), "not a loss of regression"),
        (("train", "x.svm", "--loss", "epsilon_insensitive"), "not a loss of classification"),
        (("train", "x.svm", "--epsilon", "0.5"), "--epsilon applies to --task regression"),
        (
            ("train", "x.svm", "--task", "regression", "--class-weight", "balanced"),
            "--class-weight applies to --task classification only",
        ),
        (
            ("cv", "x.svm", "--task", "regression", "--class-weight", "1=10"),
            "--class-weight applies to --task classification only",
        ),
        (("cv", "x.svm", "--task", "regression", "--multi-class", "ovr", "-q"), "no file x.svm"),
        (("cv", "x.svm", "--task", "guess"), "--task must be"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_models_of_others_are_certified(data):
    X, y = data
    options = {"C": 0.5, "epsilon": 0.2, "loss": "squared_epsilon_insensitive"}
    peer = SklearnLinearSVR(**options, tol=1e-8, max_iter=100_000, random_state=0).fit(X, y)
    peer.intercept_ = np.atleast_1d(peer.intercept_)
    found = certify(peer, X, y)
    beyond = np.maximum(np.abs(y - peer.predict(X)) - 0.2, 0.0)
    norm = 0.5 * (peer.coef_ @ peer.coef_ + peer.intercept_[0] ** 2)
    assert found.primal == pytest.approx(norm + 0.5 * (beyond**2).sum(), rel=1e-12)
    assert found.relative_gap <= 1e-3
    ours = LinearSVR(**options, tol=1e-9).fit(X, y)
    assert found.dual <= ours.primal_objective_ <= found.primal * (1 + 1e-9)
    # ridge regression by its own solver; alpha = 1 / (2 C)
    X = X.toarray().astype(np.float64)
    ridge = Ridge(alpha=1.0, fit_intercept=False).fit(X, y)
    least = {"C": 0.5, "loss": "squared_epsilon_insensitive", "epsilon": 0.0}
    assert certify(ridge, X, y, **least, tol=1e-10).relative_gap <= 1e-10
    with pytest.raises(ValueError, match="Pass C to certify"):
        certify(ridge, X, y, loss="epsilon_insensitive", epsilon=0.0)
    with pytest.raises(ValueError, match="Pass epsilon to certify"):
        certify(ridge, X, y, C=1.0, loss="epsilon_insensitive")

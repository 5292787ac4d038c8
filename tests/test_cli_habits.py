"""What people who come from LIBLINEAR type, and what they are answered: whole commands."""

import json
import re

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import normalize, scale
from test_cli import facts, run

from dualsweep import LinearSVC, LinearSVCCV
from dualsweep.datasets import make_text_like
from dualsweep.io import load_data, load_model, save_liblinear, write_store


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def cancer(folder):
    """Half of the rows to train on and half to predict, with labels -1 and 1."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X), 2 * y - 1
    dump_svmlight_file(X[::2], y[::2], "cancer.svm", zero_based=False)
    dump_svmlight_file(X[1::2], y[1::2], "test.svm", zero_based=False)
    return folder / "cancer.svm"


@pytest.fixture
def iris(folder):
    dump_svmlight_file(*load_iris(return_X_y=True), "iris.svm", zero_based=False)
    return folder / "iris.svm"


SEED_3 = ["--seed", "3"]


def said(result):
    """What was said, without the frame around it."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", result.output)


# ------------------------------------------------------------------------------ options that work


@pytest.mark.parametrize(
    ("text", "weights"), [("1=10", {1: 10.0}), ("+1=0.5,-1=2", {1: 0.5, -1: 2.0})]
)
def test_weights_of_classes(cancer, text, weights):
    assert run("train", cancer, "--class-weight", text, "-q").exit_code == 0
    model = LinearSVC(class_weight=weights, random_state=0).fit(*load_data(cancer))
    written = load_model("cancer.model.npz")
    np.testing.assert_array_equal(written.coef_, model.coef_)
    assert written.class_weight == weights
    found = facts(run("cv", cancer, "--class-weight", text, "--costs", "1", "--json"))
    assert found["primal_objective"] == model.primal_objective_


def test_weights_of_classes_that_are_text(folder):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a=b", "1", "c"])[y]
    np.savez("text.npz", X=X, y=names)
    weights = {"a=b": 2.0, "1": 3.0}
    assert run("train", "text.npz", "--class-weight", "a=b=2,1=3", "-q").exit_code == 0
    model = LinearSVC(class_weight=weights, random_state=0).fit(X, names)
    np.testing.assert_array_equal(load_model("text.model.npz").coef_, model.coef_)


@pytest.mark.parametrize("command", ["train", "cv"])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1=x", "LABEL=WEIGHT pairs separated by commas, such as 1=10,-1=2, but is 1=x"),
        ("10", "but is 10"),
        ("1=-1", "but is 1=-1"),
        ("1=inf", "but is 1=inf"),
        ("7=2", "a weight for 7, but the classes are -1, 1"),
    ],
)
def test_weights_that_are_none(cancer, command, text, answer):
    result = run(command, cancer, "--class-weight", text)
    assert result.exit_code == 2
    assert answer in said(result)


def test_other_values_of_the_bias(cancer):
    X, y = load_data(cancer)
    model = LinearSVC(intercept_scaling=10.0, random_state=0).fit(X, y)
    run("train", cancer, "--bias", "10", "-q")
    written = load_model("cancer.model.npz")
    assert written.intercept_scaling == 10.0
    np.testing.assert_array_equal(written.intercept_, model.intercept_)
    found = facts(run("cv", cancer, "--bias", "10", "--costs", "1", "--json"))
    assert found["primal_objective"] == model.primal_objective_
    for command in ("train", "cv", "compare"):
        for bias in ("-1", "1e-320", "1e200"):
            answer = said(run(command, cancer, "--bias", bias))
            assert "--bias must be a number between 1e-150 and 1e+150" in answer


def test_a_warm_start_begins_where_the_model_is(cancer):
    run("train", cancer, "--tol", "1e-6", "-q")
    again = ["--warm-start", "cancer.model.npz", "-o", "again.npz", "--json"]
    found = facts(run("train", cancer, "--tol", "1e-6", *again))
    assert (found["epochs"], found["converged"]) == (0, True)
    model = LinearSVC(C=1.1, tol=1e-6, random_state=0).fit(*load_data(cancer))
    found = facts(run("train", cancer, "-C", "1.1", "--tol", "1e-6", *again, "--force"))
    assert found["primal_objective"] == pytest.approx(model.primal_objective_, rel=2e-6)
    assert found["relative_gap"] <= 1e-6


def test_a_warm_start_from_what_does_not_fit_is_refused(cancer, iris):
    run("train", iris, "-q")
    result = run("train", cancer, "--warm-start", "iris.model.npz")
    assert result.exit_code == 2
    assert "trained on 150 rows of the classes 0, 1, 2, but these are 285 rows of -1, 1" in said(
        result
    )
    save_liblinear(load_model("iris.model.npz"), "iris.model")
    assert "no dual variables" in said(run("train", iris, "--warm-start", "iris.model", "--force"))


@pytest.mark.parametrize("name", ["cancer", "iris"])
def test_values_of_decisions(request, name):
    path = request.getfixturevalue(name)
    run("train", path, "-q")
    result = run("predict", f"{name}.model.npz", path, "--decisions")
    header, *lines = result.stdout.splitlines()
    model, (X, _) = load_model(f"{name}.model.npz"), load_data(path)
    assert header.split() == ["labels", *map(str, model.classes_[-3 if name == "iris" else -1 :])]
    table = np.array([line.split() for line in lines], dtype=float)
    np.testing.assert_array_equal(table[:, 0], model.predict(X))
    scores = model.decision_function(X)
    np.testing.assert_array_equal(table[:, 1:], scores.reshape(len(scores), -1))
    found = facts(run("predict", f"{name}.model.npz", path, "--decisions", "--json"))
    np.testing.assert_array_equal(found["decisions"], table[:, 1:])


@pytest.mark.parametrize("kind", ["text", "store"])
def test_calibrated_probabilities(cancer, kind):
    run("train", cancer, "-q")
    (X, y), (rows, _) = load_data("test.svm"), load_data(cancer)
    if kind == "store":
        cancer = write_store("store", rows, np.ones(len(rows.indptr) - 1), block_bytes=9_000).path
    result = run("predict", "cancer.model.npz", cancer, "--calibrate", "test.svm", "-o", "out")
    assert result.exit_code == 0, result.output
    with open("out") as file:
        header, *lines = file.read().splitlines()
    assert header == "labels -1 1"
    model = load_model("cancer.model.npz")
    expected = CalibratedClassifierCV(FrozenEstimator(model)).fit(X, y).predict_proba(rows)
    table = np.array([line.split() for line in lines], dtype=float)
    np.testing.assert_allclose(table[:, 1:], expected, rtol=1e-12)
    np.testing.assert_array_equal(table[:, 0], np.where(expected[:, 1] > 0.5, 1, -1))


def test_probabilities_need_rows_of_every_class(cancer, iris):
    run("train", iris, "-q")
    X, y = load_data(iris)
    dump_svmlight_file(X[y > 0], y[y > 0], "two.svm", zero_based=False)
    result = run("predict", "iris.model.npz", iris, "--calibrate", "two.svm")
    assert result.exit_code == 2
    assert "two.svm has the classes [1, 2] and the model [0, 1, 2]" in said(result)
    both = run("predict", "iris.model.npz", iris, "--calibrate", "two.svm", "--decisions")
    assert "cannot be used together" in said(both)


def test_rows_that_come_sorted_are_shuffled(folder):
    """Sorted by label and then by topic, which has words of its own."""
    y, topic = np.repeat([-1, 1], 100), np.tile(np.repeat(np.arange(10), 10), 2)
    X = np.eye(10)[topic] * y[:, None] * np.tile(1 + np.arange(10) / 10, 20)[:, None]
    np.savez("sorted.npz", X=X, y=y)
    found = facts(run("cv", "sorted.npz", "--costs", "1", "--json"))
    unshuffled = LinearSVCCV(Cs=[1.0], random_state=0).fit(X, y)
    assert unshuffled.mean_score_[0] < 0.6  # of topics that no fold had trained on
    assert found["mean_score"] == [1.0]
    again = [facts(run("cv", "sorted.npz", "--costs", "1", "--json", *s)) for s in ([], SEED_3)]
    assert again[0]["n_support"] == found["n_support"]
    assert again[0]["search_gap"] == found["search_gap"] != again[1]["search_gap"]


# ------------------------------------------------------------------------ options that are not ours


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["train", "-s", "3"], "-s 3 is --loss hinge, -s 4 is --multi-class crammer_singer"),
        (["train", "-s3"], "use --loss and --multi-class"),
        (["train", "-c", "4"], "use -C or --cost"),
        (["train", "-B", "1"], "use --bias, whose default is 1. -B -1 is --no-intercept"),
        (["train", "-v", "5"], "use dualsweep cv DATA --folds 5"),
        (["train", "-w1", "10"], "--class-weight 1=10,-1=2"),
        (["train", "-w-1", "10"], "--class-weight 1=10,-1=2"),
        (["train", "-e", "0.01"], "use --tol, which is the relative duality gap"),
        (["train", "-C"], "the search for C, is dualsweep cv DATA"),
        (["train", "-m", "8"], "use --n-jobs"),
        (["cv", "-c", "4"], "use -C"),
        (["predict", "-b", "1"], "use --probabilities for models"),
    ],
)
def test_options_of_liblinear_are_answered_with_ours(cancer, folder, arguments, answer):
    result = run(*arguments, cancer)
    assert result.exit_code == 2
    assert answer in said(result)
    assert "No such option" not in said(result)
    assert sorted(path.name for path in folder.iterdir()) == ["cancer.svm", "test.svm"]


def test_names_in_the_order_of_liblinear(cancer):
    result = run("train", cancer, "cancer.model")
    assert result.exit_code == 2
    assert "(cancer.model). To name the output, use -o MODEL" in said(result)
    run("train", cancer, "-q", "-o", "cancer.model")
    result = run("predict", "test.svm", "cancer.model")
    assert result.exit_code == 2
    assert "test.svm is not a model, but cancer.model is: put the model first" in said(result)
    result = run("predict", "cancer.model", "test.svm", "out")
    assert "To name the output, use -o FILE" in said(result)


def test_other_models_of_liblinear_are_called_by_their_name(cancer, folder):
    header = "nr_class 2\nnr_feature 1\nbias -1\nrho 0.5\nw\n0.5 \n"
    (folder / "one.model").write_text(f"solver_type ONECLASS_SVM\n{header}")
    for command in (["predict", "one.model", cancer], ["info", "one.model"]):
        result = run(*command)
        assert result.exit_code == 2
        assert "for outliers, a one-class SVM (ONECLASS_SVM)" in said(result)
        assert "damaged" not in said(result)


# ------------------------------------------------------------------------------------- what is said


def test_predict_says_how_many_labels_are_strange(cancer, folder):
    run("train", cancer, "-q")
    (folder / "new.svm").write_text("1 1:1\n7 1:1\n-1 1:5 900:1 901:1\n")
    result = run("predict", "cancer.model.npz", "new.svm")
    assert "Warning: 2 entries of new.svm are left out" in result.stderr
    assert "of 3 rows; the labels of 1 are not classes of the model)" in result.stderr
    found = facts(run("predict", "cancer.model.npz", "new.svm", "--json"))
    assert found["known_labels"] == 2


def test_predict_refuses_what_is_no_number(cancer):
    run("train", cancer, "-q")
    np.savez("bad.npz", X=np.full((2, 30), np.nan))
    result = run("predict", "cancer.model.npz", "bad.npz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "bad.npz contains NaN or infinity" in result.output


def test_a_checkpoint_says_where_it_goes_on(folder):
    X, y = make_text_like(6000, 300, mean_length=15, noise=0.1, random_state=0)
    store = write_store("store", X, y, block_bytes=64_000)
    limit = 1
    train = ["train", "store", "--memory-limit", limit, "--checkpoint", "state", "-C", "0.01"]
    assert store.shape[0] * 128 + 2 * store.n_bytes > limit << 20  # it does not fit
    first = run(*train, "--max-iter", "3", "--tol", "1e-9", "-o", "a.npz")
    assert first.exit_code == 1
    assert "going on" not in first.output
    second = run(*train, "--max-iter", "4", "--tol", "1e-9", "-o", "b.npz")
    assert "class 1: going on from epoch 3" in second.output
    assert load_model("b.npz").n_iter_ == 4


def test_many_classes_have_one_line_of_progress(folder):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 5)), np.arange(400) % 40
    np.savez("many.npz", X=X, y=y)
    result = run("train", "many.npz", "--max-iter", "30", "--tol", "0.1")
    lines = [line for line in result.output.splitlines() if "left:" in line]
    assert len(lines) == 1
    assert "40 of 40 classes done" in lines[0]
    assert "class 7" not in result.output
    # Classes that are not begun, as after Ctrl-C, are not listed either.
    idle = run("train", "many.npz", "--max-time", "1e-9", "-o", "idle.npz")
    assert "0 of 40 classes done" in idle.output
    assert len(idle.output.splitlines()) < 20
    few = run("train", "many.npz", "--max-iter", "30", "--tol", "0.1", "--multi-class",
              "crammer_singer", "-o", "few.npz")  # fmt: skip
    assert "epoch" in few.output


def test_choices_of_c_are_printed_as_people_write_them(cancer):
    """Of rows of unit length, where units leave the choice."""
    X, y = load_data(cancer)
    dump_svmlight_file(normalize(X), y, "unit.svm")
    result = run("cv", "unit.svm", "--patience", "0")
    assert "│ 0.125 " in re.sub(" +", " ", result.output)
    assert 0.125 in json.loads(run("cv", "unit.svm", "--json").stdout)["Cs"]

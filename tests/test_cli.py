"""The command line does what the library does, and says so in exit codes."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.preprocessing import scale
from typer.testing import CliRunner

import dualsweep
from dualsweep import LinearSVC
from dualsweep.cli import app
from dualsweep.datasets import make_text_like
from dualsweep.io import load_data, load_model


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def iris(folder):
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X, y, "iris.svm", zero_based=False)
    return folder / "iris.svm"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def labels(path):
    return path.read_text().splitlines()


def test_train_and_predict_equal_the_library(folder, iris):
    result = run("train", iris)
    assert result.exit_code == 0, result.output
    X, y = load_data(iris)
    model = LinearSVC(random_state=0).fit(X, y)
    written = load_model(folder / "iris.model.npz")
    np.testing.assert_array_equal(written.coef_, model.coef_)
    assert written.relative_gap_ == model.relative_gap_

    result = run("predict", "iris.model.npz", iris, "-o", "labels.txt")
    assert result.exit_code == 0, result.output
    assert labels(folder / "labels.txt") == [str(label) for label in model.predict(X)]
    right = round(150 * model.score(X, y))
    assert f"Accuracy {right / 150:.2%} ({right} of 150 rows)" in result.output


def test_the_certificate_is_shown(iris):
    output = run("train", iris, "--tol", "1e-5").output
    model = load_model("iris.model.npz")
    for text in (
        "150 rows, 4 features",
        f"{model.primal_objective_:.6g}",
        f"{model.dual_objective_:.6g}",
        f"{model.relative_gap_:.2e}",
        "1.00e-05",
        "support vectors",
        "Model written to iris.model.npz",
    ):
        assert text in output


def test_options_reach_the_model(iris):
    options = "-C 0.25 --loss hinge --schedule shrinking --tol 0.01 --max-iter 500 --max-time 60"
    more = "--no-intercept --class-weight balanced --n-jobs 2 --seed 5 --quiet --model m.npz"
    result = run("train", iris, *options.split(), *more.split())
    assert (result.exit_code, result.output) == (0, "")
    model = load_model("m.npz")
    assert (
        model.get_params()
        == LinearSVC(
            C=0.25,
            loss="hinge",
            schedule="shrinking",
            tol=0.01,
            max_iter=500,
            max_time=60.0,
            fit_intercept=False,
            class_weight="balanced",
            n_jobs=2,
            random_state=5,
        ).get_params()
    )
    assert model.intercept_.tolist() == [0.0, 0.0, 0.0]


def test_text_labels_in_npz(folder):
    X, y = load_breast_cancer(return_X_y=True)
    y = np.array(["malignant", "benign"])[y]
    np.savez("cancer.npz", X=scale(X), y=y)
    assert run("train", "cancer.npz").exit_code == 0
    assert run("predict", "cancer.model.npz", "cancer.npz", "-o", "labels.txt").exit_code == 0
    assert np.mean(np.array(labels(folder / "labels.txt")) == y) > 0.97


def test_predict_without_labels_gives_no_accuracy(iris):
    run("train", iris)
    X, _ = load_data(iris)
    np.savez("rows.npz", X=X.toarray())
    result = run("predict", "iris.model.npz", "rows.npz")
    assert result.exit_code == 0
    assert "Accuracy" not in result.output
    expected = load_model("iris.model.npz").predict(X.toarray())
    assert result.stdout.splitlines() == [str(label) for label in expected]


@pytest.mark.parametrize("unknown", ["7 1:5 2:3 3:1 4:0.2\n", "nan 1:5 2:3 3:1 4:0.2\n"])
def test_predict_with_labels_that_stand_for_nothing(iris, folder, unknown):
    run("train", iris)
    (folder / "new.svm").write_text(unknown)
    result = run("predict", "iris.model.npz", "new.svm")
    assert (result.exit_code, result.output) == (0, "0\n")


def test_predict_with_labels_of_another_kind(iris, folder):
    run("train", iris)
    X, _ = load_data(iris)
    np.savez("text.npz", X=X.toarray(), y=np.full(150, "0"))
    result = run("predict", "iris.model.npz", "text.npz")
    assert result.exit_code == 0
    assert "Accuracy" not in result.output


def test_predict_ignores_features_that_training_had_not(iris, folder):
    run("train", iris)
    (folder / "new.svm").write_text("0 1:5 2:3 3:1 4:0.2 9:1000\n0 2:3\n")
    assert run("predict", "iris.model.npz", "new.svm").exit_code == 0


def test_not_converged_is_3_and_the_model_is_written(iris):
    result = run("train", iris, "--tol", "1e-12", "--max-iter", "2")
    assert result.exit_code == 3
    model = load_model("iris.model.npz")
    assert not model.converged_
    assert f"relative duality gap {model.relative_gap_:.1e} > tol 1.0e-12" in result.output
    assert "Raise --max-iter" in result.output


def test_an_existing_model_is_not_replaced(iris, folder):
    (folder / "iris.model.npz").write_text("precious")
    result = run("train", iris)
    assert result.exit_code == 1
    assert "iris.model.npz exists already; choose another name or --force" in result.output
    assert (folder / "iris.model.npz").read_text() == "precious"
    assert run("train", iris, "--force").exit_code == 0
    assert load_model("iris.model.npz").converged_


def test_existing_labels_are_not_replaced(iris, folder):
    run("train", iris)
    (folder / "labels.txt").write_text("precious")
    assert run("predict", "iris.model.npz", iris, "-o", "labels.txt").exit_code == 1
    assert (folder / "labels.txt").read_text() == "precious"
    assert run("predict", "iris.model.npz", iris, "-o", "labels.txt", "--force").exit_code == 0
    assert len(labels(folder / "labels.txt")) == 150


def check_error(result, *texts):
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert result.output.startswith("Error: ")
    for text in texts:
        assert text in result.output


def test_files_that_cannot_be_read(iris, folder):
    check_error(run("train", "nowhere.svm"), "There is no file nowhere.svm")
    (folder / "garbage.svm").write_bytes(b"\x00\xff not numbers")
    check_error(run("train", "garbage.svm"), "garbage.svm, line 1, column 1: ", "is no label")
    check_error(run("train", iris, "-o", "nowhere/m.npz"), "There is no directory nowhere")
    run("train", iris)
    content = (folder / "iris.model.npz").read_bytes()
    (folder / "half.npz").write_bytes(content[: len(content) // 2])
    check_error(run("predict", "half.npz", iris), "half.npz is not an .npz file, or is damaged")
    check_error(run("predict", "iris.model.npz", "half.npz"), "half.npz")
    check_error(run("predict", "nowhere.npz", iris), "There is no file nowhere.npz")
    np.savez("wide.npz", X=np.ones((2, 9)))
    check_error(run("predict", "iris.model.npz", "wide.npz"), "9 features instead of 4")


def test_data_that_cannot_be_trained_on(folder):
    (folder / "one.svm").write_text("1 1:1\n1 1:2\n")
    check_error(run("train", "one.svm", "-q"), "at least 2 classes")
    np.savez("nan.npz", X=np.array([[1.0], [np.nan]]), y=[0, 1])
    check_error(run("train", "nan.npz", "-q"), "NaN")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-C", "-1"], "'C' parameter"),
        (["--loss", "logistic"], "squared_hinge"),
        (["--schedule", "nightly"], "shrinking"),
        (["--class-weight", "heavy"], "balanced"),
        (["--tol", "0"], "'tol' parameter"),
        (["--tol", "tight"], "--tol"),
        (["--no-such-option"], "no-such-option"),
    ],
)
def test_bad_options_are_usage_errors(iris, folder, options, text):
    result = run("train", iris, *options)
    assert result.exit_code == 2
    assert text in result.output
    assert not (folder / "iris.model.npz").exists()


def test_version_and_help():
    assert run("--version").output == f"dualsweep {dualsweep.__version__}\n"
    assert "duality gap" in run("train", "--help").output
    assert {"train", "predict", "demo"} <= set(run("--help").output.split())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_writes_the_model_so_far(folder):
    X, y = make_text_like(5_000, 2_000, random_state=0)
    np.savez("text.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    options = ["-C", "1e6", "--tol", "1e-15", "--max-iter", "100000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dualsweep.cli", "train", "text.npz", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if "rows" in line:  # said before training, which would take for ever
            break
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    model = load_model("text.model.npz")
    assert not model.converged_
    assert f"Interrupted. The model is written: relative duality gap {model.relative_gap_:.1e}" in (
        errors
    )
    assert "Traceback" not in errors
    assert model.predict(X).shape == y.shape

"""The command line does what the library does, and says so in exit codes."""

import gzip
import itertools
import json
import os
import subprocess
import sys
from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from choices import CHOICES
from moments import AT_EPOCH
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_digits, load_iris
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale
from typer.testing import CliRunner

import dualsweep
from dualsweep import LinearSVC, LinearSVCCV, compare_multiclass
from dualsweep.cli import app
from dualsweep.cli._options import FLAGS, OPTIONS, PARAMETERS, in_options, parse_costs
from dualsweep.datasets import make_text_like
from dualsweep.io import Store, load_data, load_model, open_store, save_model, write_store
from dualsweep.training.formulations import FORMULATIONS


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
    assert (result.exit_code, result.stdout) == (0, "0\n")
    assert result.stderr == "No accuracy: no label of new.svm is a class of the model.\n"


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
    result = run("predict", "iris.model.npz", "new.svm")
    assert result.exit_code == 0
    assert "Warning: 1 entries of new.svm are left out" in result.stderr


def test_not_converged_is_1_and_the_model_is_written(iris):
    result = run("train", iris, "--tol", "1e-12", "--max-iter", "2")
    assert result.exit_code == 1
    model = load_model("iris.model.npz")
    assert not model.converged_
    assert f"relative duality gap {model.relative_gap_:.1e} > tol 1.0e-12" in result.output
    assert "Raise --max-iter" in result.output


def test_an_existing_model_is_not_replaced(iris, folder):
    (folder / "iris.model.npz").write_text("precious")
    result = run("train", iris)
    assert result.exit_code == 2
    assert "iris.model.npz exists already; choose another name, or --force" in result.output
    assert (folder / "iris.model.npz").read_text() == "precious"
    assert run("train", iris, "--force").exit_code == 0
    assert load_model("iris.model.npz").converged_


def test_existing_labels_are_not_replaced(iris, folder):
    run("train", iris)
    (folder / "labels.txt").write_text("precious")
    assert run("predict", "iris.model.npz", iris, "-o", "labels.txt").exit_code == 2
    assert (folder / "labels.txt").read_text() == "precious"
    assert run("predict", "iris.model.npz", iris, "-o", "labels.txt", "--force").exit_code == 0
    assert len(labels(folder / "labels.txt")) == 150


def check_error(result, *texts):
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert result.output.startswith("Error: ")
    for text in texts:
        assert text in result.output


def test_files_that_cannot_be_read(iris, folder):
    check_error(run("train", "nowhere.svm"), "There is no file nowhere.svm")
    (folder / "garbage.svm").write_bytes(b"\x00\xff not numbers")
    (folder / "table.csv").write_text("text,label\nhello,1\n")
    check_error(run("train", "table.csv"), "line 1, column 1", "in svmlight format", "pandas")
    check_error(run("train", "garbage.svm"), "garbage.svm, line 1, column 1: ", "is not a label")
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
    check_error(run("train", "nan.npz", "-q"), "Row 1 has NaN")
    (folder / "continuous.svm").write_text("1.5 1:1\n2 1:2\n3 1:1\n")
    check_error(run("train", "continuous.svm", "-q"), "integers or text, but y has 1.5")
    for label in ("nan", "inf", str(2**63)):
        (folder / "odd.svm").write_text(f"{label} 1:1\n2 1:2\n3 1:1\n")
        check_error(run("train", "odd.svm", "-q"), f"y has {float(label)}")
    np.savez("odd.npz", X=np.eye(2), y=[1j, 2j])
    check_error(run("train", "odd.npz", "-q"), "y has 1j")
    np.savez("odd.npz", X=np.eye(2), y=[b"no", b"yes"])
    check_error(run("train", "odd.npz", "-q"), "y has b'no'")
    (folder / "empty.svm").write_text("1\n2\n")
    check_error(run("train", "empty.svm", "-q"), "no features")


@pytest.mark.parametrize(
    "X",
    [
        np.arange(12).reshape(6, 2),
        np.asfortranarray(np.arange(12.0).reshape(6, 2)),
        np.arange(12).reshape(6, 2) % 2 == 0,
        np.linspace(0, 1, 12, dtype=np.float16).reshape(6, 2),
    ],
    ids=["integers", "by columns", "booleans", "float16"],
)
def test_tables_of_any_numbers_train_as_in_the_library(folder, X):
    y = np.array([0, 1, 2, 0, 1, 2])
    np.savez("table.npz", X=X, y=y)
    assert run("train", "table.npz", "-q", "--tol", "1e-6").exit_code == 0
    expected = LinearSVC(tol=1e-6, random_state=0).fit(X, y)
    model = load_model("table.model.npz")
    assert np.array_equal(model.coef_, expected.coef_)
    assert model.relative_gap_ == expected.relative_gap_


def test_every_parameter_with_a_help_text_has_an_option():
    text = run("train", "--help").output + run("cv", "--help").output
    for name in PARAMETERS:
        assert f"{FLAGS[name][-1]} " in text or f"{FLAGS[name][0]} " in text


@pytest.mark.parametrize("command", ["train", "cv", "compare", "certify"])
def test_help_lists_what_the_registries_have(command):
    text = " ".join(run(command, "--help").output.replace("│", " ").split())
    for name, registry in (CHOICES | {"multi_class": FORMULATIONS}).items():
        if f"--{name.replace('_', '-')}" in text:
            *others, last = registry
            assert f"{', '.join(others)} or {last}." in text


def test_training_and_predicting_start_without_scikit_learn(iris, folder):
    """Its import takes longer than reading and training on a hundred megabytes."""
    script = (
        "import sys\n"
        "from dualsweep.cli import app\n"
        f"app(['train', {str(iris)!r}, '-q', '-o', 'm.npz'], standalone_mode=False)\n"
        f"app(['predict', 'm.npz', {str(iris)!r}, '-o', 'labels'], standalone_mode=False)\n"
        "print(sorted({'sklearn', 'pandas', 'matplotlib'} & {*sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr[:8]) == ("[]\n", "Accuracy")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-C", "-1"], "--cost must be"),
        (["--loss", "exponential"], "squared_hinge"),
        (["--schedule", "nightly"], "shrinking"),
        (["--class-weight", "heavy"], "balanced"),
        (["--tol", "0"], "--tol must be"),
        (["--max-iter", "-1"], "--max-iter"),
        (["--max-time", "0"], "--max-time must be"),
        (["--solver", "simplex"], "--solver must be auto, sweep or newton"),
        (["--n-jobs", "0"], "--n-jobs must not be 0"),
        (["--seed", "-1"], "--seed"),
        (["--multi-class", "ovo"], "--multi-class must be"),
        (["--format", "pickle"], "--format must be npz or liblinear"),
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
    commands = {"train", "cv", "compare", "predict", "certify", "convert", "info", "demo"}
    assert commands <= set(run("--help").output.split())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_writes_the_model_so_far(folder):
    X, _ = make_text_like(30_000, 5_000, random_state=0)
    y = np.random.default_rng(0).integers(0, 2, 30_000)  # no model fits, so there is no end to it
    np.savez("text.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    run("train", "text.npz", "--max-iter", "1", "-o", "compiled.npz", "-q")
    options = ["-C", "1e6", "--tol", "1e-15", "--max-iter", "100000000", "--solver", "sweep"]
    ended = subprocess.run(
        [sys.executable, "-c", AT_EPOCH, "5", "train", "text.npz", *options],
        capture_output=True,
        text=True,
    )
    errors = ended.stderr
    assert ended.returncode == 130, errors
    model = load_model("text.model.npz")
    assert not model.converged_
    assert (
        f"Interrupted. The model so far was written: relative duality gap {model.relative_gap_:.1e}"
        in (errors)
    )
    assert "Traceback" not in errors
    assert model.predict(X).shape == y.shape


# -------------------------------------------------------------------------------- stores and info


def facts(result, code=0):
    """What a command with --json said, which is one JSON object and nothing else."""
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_convert_and_train_from_a_store(folder, iris):
    result = run("convert", iris, "store")
    assert result.exit_code == 0, result.output
    assert "150" in result.output
    X, y = load_data(iris)
    stored, labels = open_store("store").load()
    np.testing.assert_array_equal(stored.toarray(), X.toarray())
    np.testing.assert_array_equal(labels, y)

    run("train", iris, "-o", "a.npz")
    assert run("train", "store", "-o", "b.npz").exit_code == 0
    np.testing.assert_array_equal(load_model("a.npz").coef_, load_model("b.npz").coef_)
    assert run("predict", "a.npz", "store").stdout == run("predict", "a.npz", iris).stdout


def test_predict_never_loads_a_whole_store(folder, iris, monkeypatch):
    run("train", iris)
    X, y = load_data(iris)
    assert len(write_store(folder / "small", X, y, block_bytes=600)) > 5
    monkeypatch.setattr(Store, "load", None)
    result = run("predict", "iris.model.npz", "small")
    expected = load_model("iris.model.npz").predict(X)
    assert result.stdout.splitlines() == [str(label) for label in expected]
    assert f"({np.sum(expected == y)} of 150 rows)" in result.stderr
    write_store(folder / "narrow", X[:, :3], y)
    check_error(run("predict", "iris.model.npz", "narrow"), "3 features instead of 4")


def test_convert_options(iris, folder):
    with gzip.open("iris.svm.gz", "wb") as file:
        file.write(iris.read_bytes())
    options = ["--float64", "--zero-based", "--block-size", "1", "--n-jobs", "2", "-q"]
    result = run("convert", "iris.svm.gz", "store", *options)
    assert (result.exit_code, result.output) == (0, "")
    store = open_store("store")
    assert (store.dtype, store.shape) == (np.float64, (150, 5))
    np.savez("iris.npz", X=load_iris().data, y=load_iris().target)
    check_error(run("convert", "iris.npz", "store"), "store exists already; choose another name")
    assert run("convert", "iris.npz", "store", "--force").exit_code == 0
    assert open_store("store").shape == (150, 4)


def test_convert_leaves_nothing_behind(folder):
    (folder / "bad.svm").write_text("1 1:1\n1 2:x\n")
    check_error(
        run("convert", "bad.svm", "store"), "bad.svm, line 2, column 5: 'x' is not a number"
    )
    (folder / "precious").mkdir()
    (folder / "good.svm").write_text("1 1:1\n")
    check_error(run("convert", "good.svm", "precious", "--force"), "is not a store, so it is not")
    assert sorted(item.name for item in folder.iterdir()) == ["bad.svm", "good.svm", "precious"]


def test_info_about_data(folder, iris):
    found = facts(run("info", iris, "--json"))
    X = load_iris().data
    assert found == {
        "kind": "svmlight",
        "bytes": iris.stat().st_size,
        "rows": 150,
        "features": 4,
        "entries": X.size,
        "longest_row": 4,
        "first_column": 1,
        "least_value": X.min(),
        "largest_value": X.max(),
        "classes": 3,
        "rows_per_class": {"0": 50, "1": 50, "2": 50},
    }
    assert facts(run("info", iris, "--json", "--zero-based"))["features"] == 5
    output = run("info", iris).output
    for text in ("svmlight", "150", "600", "0: 50, 1: 50, 2: 50"):
        assert text in output

    np.savez("dense.npz", X=X)
    found = facts(run("info", "dense.npz", "--json"))
    assert (found["kind"], found["layout"], found["rows"]) == ("npz", "dense", 150)
    assert "classes" not in found


COMMANDS = ["train", "cv", "compare", "predict", "certify", "convert", "info", "warm-up", "demo"]


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_is_made_for_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*command, "--help").output.splitlines()
    assert max(map(len, lines)) <= 80
    paragraph = "\n".join(lines).partition("\n\n")[2].partition("\nOptions:")[0]
    words = [line.split() for line in paragraph.partition("For example:")[0].splitlines()]
    for line, following in itertools.pairwise(words):
        if line and following:  # filled: the next word would not have fitted
            assert len("  " + " ".join([*line, following[0]])) > 76
    if not command:
        listed = "\n".join(lines).partition("Commands:\n")[2]
        assert [line.split()[0] for line in listed.splitlines()] == COMMANDS
        assert "..." not in listed  # each says what it does in one line


def test_info_about_a_store(folder, iris):
    run("convert", iris, "store")
    found = facts(run("info", "store", "--json", "--verify"))
    assert found["verified"] is True
    assert (found["kind"], found["rows"], found["blocks"], found["classes"]) == ("store", 150, 1, 3)
    file = folder / "store" / "000000.data.npy"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert facts(run("info", "store", "--json"))["rows"] == 150
    result = run("info", "store", "--json", "--verify")
    assert facts(result, code=1)["verified"] is False
    assert "differs from its checksum" in result.stderr
    file.write_bytes(content[:-1])
    check_error(run("info", "store"), "000000.data.npy has")
    result = run("info", iris, "--verify")
    assert result.exit_code == 2
    assert "--verify applies to stores" in result.output


def test_info_about_models(iris):
    run("train", iris, "-C", "0.5", "-o", "iris.npz")
    model = load_model("iris.npz")
    found = facts(run("info", "iris.npz", "--json"))
    assert (found["kind"], found["format"], found["labels"]) == ("model", "npz", [0, 1, 2])
    assert (found["C"], found["relative_gap"]) == (0.5, model.relative_gap_)
    run("train", iris, "-o", "iris.model")
    found = facts(run("info", "iris.model", "--json"))
    assert (found["kind"], found["format"], found["features"]) == ("model", "liblinear", 4)
    assert "C" not in found


# ------------------------------------------------------------------------------------ for scripts


def test_train_and_predict_speak_json(iris):
    found = facts(run("train", iris, "--json"))
    model = load_model("iris.model.npz")
    assert (found["rows"], found["features"], found["model"]) == (150, 4, "iris.model.npz")
    assert found["relative_gap"] == model.relative_gap_
    assert found["primal_objective"] == model.primal_objective_
    assert (found["converged"], found["interrupted"]) == (True, False)
    found = facts(run("train", iris, "--json", "--force", "--max-iter", "1", "--tol", "1e-9"), 1)
    assert found["converged"] is False
    X, y = load_data(iris)
    found = facts(run("predict", "iris.model.npz", iris, "--json"))
    model = load_model("iris.model.npz")
    assert found["labels"] == model.predict(X).tolist()
    assert found["accuracy"] == model.score(X, y)
    found = facts(run("predict", "iris.model.npz", iris, "--json", "-o", "labels.txt"))
    assert found["output"] == "labels.txt"
    assert "labels" not in found


def test_the_other_commands_speak_json(iris):
    run("train", iris)
    assert facts(run("convert", iris, "store", "--json"))["rows"] == 150
    assert facts(run("certify", "iris.model.npz", iris, "--json"))["proven"] is True
    fits = facts(run("demo", "--rows", "200", "--json"))["fits"]
    assert {fit["library"] for fit in fits} >= {"dualsweep"}


@pytest.mark.parametrize("command", ["train nowhere", "info nowhere", "convert nowhere store"])
def test_errors_speak_json(command):
    assert facts(run(*command.split(), "--json"), code=2) == {"error": "There is no file nowhere."}


# ------------------------------------------------------------------------- models and first columns


def test_models_in_the_format_of_liblinear(folder, iris):
    for options in (["-o", "a.model"], ["--format", "liblinear"]):
        assert run("train", iris, *options).exit_code == 0
    assert run("train", iris, "-o", "c.model", "--format", "npz").exit_code == 0
    text = (folder / "a.model").read_text()
    assert text.startswith("solver_type L2R_L2LOSS_SVC_DUAL\nnr_class 3\n")
    assert (folder / "iris.model").read_text() == text
    assert load_model("c.model").converged_
    predicted = run("predict", "a.model", iris).stdout
    assert predicted == run("predict", "c.model", iris).stdout


def test_classes_that_liblinear_does_not_know_are_refused_before_training(folder):
    np.savez("text.npz", X=np.eye(4), y=np.array(["a", "b", "a", "b"]))
    check_error(run("train", "text.npz", "-q", "-o", "m.model"), "classes that are integers")
    assert not (folder / "m.model").exists()


def test_the_first_column_can_be_said(folder, iris):
    (folder / "few.svm").write_text("0 1:5 2:3 3:1\n")
    run("train", iris, "--one-based", "-q")
    model = load_model("iris.model.npz")
    for option, row in (([], [5, 3, 1, 0]), (["--zero-based"], [0, 5, 3, 1])):
        found = facts(run("predict", "iris.model.npz", "few.svm", "--json", *option))
        assert found["labels"] == model.predict([row]).tolist()
    (folder / "zero.svm").write_text("0 0:5\n1 1:1\n")
    check_error(run("train", "zero.svm", "--one-based"), "line 1, column 3: Index 0, but the first")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("The 'max_iter' parameter of LinearSVC must be 1.", "--max-iter must be 1."),
        ("The 'C' parameter of LinearSVC must be 1.", "--cost must be 1."),
        ("The 'Cs' parameter of LinearSVCCV must be 1.", "--costs must be 1."),
        ("Raise tol_search or tol, at C = 8.", "Raise --tol-search or --tol, at C = 8."),
        ("Use solver=\"auto\" or multi_class='ovr'.", "Use --solver auto or --multi-class ovr."),
        ("class_weight is {}, the loss is 3", "--class-weight is {}, the loss is 3"),
        (
            "x exists already; choose another name, or pass force=True.",
            "x exists already; choose another name, or --force.",
        ),
        (
            "There is no file max_iter.svm, nor a/n_jobs",
            "There is no file max_iter.svm, nor a/n_jobs",
        ),
    ],
)
def test_errors_speak_of_options(message, said):
    assert in_options(message) == said


# ----------------------------------------------------------------------------------------- certify


def test_certify_a_model_of_ours(iris):
    run("train", iris, "--tol", "1e-4", "-C", "0.5", "--solver", "sweep")
    model = load_model("iris.model.npz")
    found = facts(run("certify", "iris.model.npz", iris, "--tol", "1e-4", "--json"))
    assert found["proven"] is True
    assert found["bound_from"] == "the model's dual variables"
    assert found["primal_objective"] == pytest.approx(model.primal_objective_, rel=1e-12)
    assert found["dual_objective"] == pytest.approx(model.dual_objective_, rel=1e-12)
    output = run("certify", "iris.model.npz", iris).output
    assert f"No model has an objective below {model.dual_objective_:.6g}, so none is more" in output
    assert "these data" not in output
    strict = ["--tol", "1e-12", "--max-iter", "1", "--json"]
    found = facts(run("certify", "iris.model.npz", iris, *strict), code=1)
    assert found["proven"] is False
    assert found["relative_gap"] <= 1e-4


def test_certify_a_model_that_has_been_changed(iris):
    run("train", iris)
    model = load_model("iris.model.npz")
    model.coef_ *= 1.5
    save_model(model, "changed.npz")
    result = run("certify", "changed.npz", iris, "--json")
    found = facts(result, code=1)
    assert found["relative_gap"] > 0.01
    assert found["recorded_primal_objective"] == model.primal_objective_
    assert "records an objective of" in result.stderr


def test_certify_a_model_whose_parameters_have_been_changed(iris):
    run("train", iris)
    model = load_model("iris.model.npz")
    for name, value in (("C", -1.0), ("loss", "log"), ("multi_class", "ovo")):
        save_model(copy(model).set_params(**{name: value}), "odd.npz", force=True)
        result = run("certify", "odd.npz", iris)
        assert result.exit_code == 2
        assert f"{OPTIONS[name]} must be" in result.output


def test_certify_a_model_of_liblinear(iris):
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, y = load_data(iris)
    theirs = liblinear.train(y, sp.csr_matrix(X), "-q -s 1 -c 0.5 -B 1 -e 1e-5")
    liblinear.save_model("their.model", theirs)
    ours = LinearSVC(C=0.5, tol=1e-6, random_state=0).fit(X, y)
    found = facts(run("certify", "their.model", iris, "-C", "0.5", "--json"))
    assert found["bound_from"] == "solving the problem"
    assert (
        found["dual_objective"] <= ours.primal_objective_ <= found["primal_objective"] * (1 + 1e-6)
    )
    assert found["primal_objective"] == pytest.approx(ours.primal_objective_, rel=1e-3)
    # For another problem the same weights are not good.
    found = facts(run("certify", "their.model", iris, "-C", "5", "--loss", "hinge", "--json"), 1)
    assert found["relative_gap"] > 0.01
    result = run("certify", "their.model", iris)
    assert result.exit_code == 2
    assert "their.model does not record C. Pass it with --cost" in result.output


def test_certify_with_bad_options(iris):
    run("train", iris)
    for options, text in ((["-C", "0"], "--cost must be"), (["--loss", "log"], "--loss must be")):
        result = run("certify", "iris.model.npz", iris, *options)
        assert result.exit_code == 2
        assert text in result.output
    (iris.parent / "two.svm").write_text("5 1:1\n6 2:1\n")
    check_error(
        run("certify", "iris.model.npz", "two.svm", "-q"), "The model has the classes [0, 1, 2]"
    )


# -------------------------------------------------------------------------------- cv and compare


@pytest.fixture
def digits(folder):
    X, y = load_digits(return_X_y=True)
    np.savez("digits.npz", X=X[:400] / 16, y=y[:400])
    return folder / "digits.npz"


def shuffled(n=5, seed=0):
    return StratifiedKFold(n, shuffle=True, random_state=seed)


def test_cv_equals_the_library(iris):
    found = facts(run("cv", iris, "--json", "--model", "m.npz"))
    model = LinearSVCCV(cv=shuffled(), random_state=0).fit(*load_data(iris))
    assert found["C"] == model.C_
    for name in ("Cs", "scores", "mean_score", "std_error", "n_support", "search_gap"):
        assert found[name] == getattr(model, f"{name}_").tolist()
    assert len(found["fit_time"]) == 5
    assert (found["scoring"], found["selection"]) == ("accuracy", "best")
    assert found["relative_gap"] == model.relative_gap_
    assert found["primal_objective"] == model.primal_objective_
    assert (found["rows"], found["model"], found["format"]) == (150, "m.npz", "npz")
    written = load_model("m.npz")
    np.testing.assert_array_equal(written.coef_, model.coef_)
    assert (written.C, written.relative_gap_) == (model.C_, model.relative_gap_)
    assert facts(run("certify", "m.npz", iris, "--json"))["proven"] is True


@pytest.mark.filterwarnings("ignore:.* found the best score at C")
def test_cv_options_reach_the_search(digits, monkeypatch):
    fitted = []
    fit = LinearSVCCV.fit
    monkeypatch.setattr(LinearSVCCV, "fit", lambda *given: fitted.append(given[0]) or fit(*given))
    options = "--costs 1,0.01,0.1 --folds 3 --scoring f1_macro --selection one_standard_error"
    more = "--patience 0 --tol-search 0.05 --tol 0.01 --loss hinge --multi-class crammer_singer"
    rest = "--solver sweep --schedule shrinking --max-iter 500 --no-intercept --n-jobs 2 --seed 5"
    arguments = f"{options} {more} {rest} --class-weight balanced --json".split()
    found = facts(run("cv", digits, *arguments))
    model = LinearSVCCV(
        Cs=[1.0, 0.01, 0.1],
        cv=shuffled(3, seed=5),
        scoring="f1_macro",
        selection="one_standard_error",
        patience=None,
        tol_search=0.05,
        tol=0.01,
        loss="hinge",
        multi_class="crammer_singer",
        solver="sweep",
        schedule="shrinking",
        max_iter=500,
        fit_intercept=False,
        class_weight="balanced",
        n_jobs=2,
        random_state=5,
    )
    assert repr(fitted[0]) == repr(model)
    fit(model, *load_data(digits))
    assert found["Cs"] == [0.01, 0.1, 1.0]
    assert (found["C"], found["scores"]) == (model.C_, model.scores_.tolist())
    assert found["relative_gap"] == model.relative_gap_


def test_cv_shows_a_row_for_each_cost(iris, folder):
    result = run("cv", iris, "--costs", "4", "--patience", "0", "--plot", "path.png")
    assert result.exit_code == 0, result.output
    model = LinearSVCCV(Cs=4, cv=shuffled(), patience=None, random_state=0).fit(*load_data(iris))
    rows = [line.split() for line in result.output.splitlines() if line.startswith("│")]
    for j, C in enumerate(model.Cs_):
        mean, error = model.mean_score_[j], model.std_error_[j]
        assert [rows[j][k] for k in (1, 3, 5)] == [f"{C:g}", f"{mean:.4f}", f"{error:.4f}"]
        assert ("chosen" in rows[j]) == (C == model.C_)
    assert all(f"fold {f}" in result.output for f in range(1, 6))  # progress
    assert "Picture written to path.png" in result.output
    assert (folder / "path.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(item.name for item in folder.iterdir()) == ["iris.svm", "path.png"]


def test_cv_warns_of_an_end_that_is_best(iris):
    best = "--costs 1e-5,1e-4,1e-3 --patience 0"
    result = run("cv", iris, *best.split())
    assert result.exit_code == 0
    assert (
        "Warning: LinearSVCCV found the best score at C = 0.001, the largest of 3 values that it "
        "tried; a larger one may be better. Add larger values to --costs."
    ) in result.stderr
    assert "Warning" not in run("cv", iris).stderr


def test_cv_in_the_format_of_liblinear(iris):
    assert run("cv", iris, "-q", "-o", "iris.model").exit_code == 0
    model = LinearSVCCV(cv=shuffled(), random_state=0).fit(*load_data(iris))
    np.testing.assert_array_equal(load_model("iris.model").coef_, model.coef_)
    np.savez("text.npz", X=np.eye(4), y=np.array(["a", "b", "a", "b"]))
    check_error(run("cv", "text.npz", "-q", "-o", "m.model"), "classes that are integers")


def test_cv_that_falls_short_is_1(iris):
    short = ["--max-iter", "1", "--tol-search", "1e-9", "--costs", "3", "--json"]
    result = run("cv", iris, *short, "--tol", "1e-9", "--model", "m.npz")
    found = facts(result, code=1)
    gaps = np.array(found["search_gap"])
    assert found["converged"] is False
    assert f"in {(gaps > 1e-9).sum()} of {gaps.size} trainings of the search" in result.stderr
    assert "Raise --max-iter or --tol-search" in result.stderr
    assert "Raise --max-iter or --tol, or scale" in result.stderr
    assert load_model("m.npz").relative_gap_ == found["relative_gap"]
    # A search that falls short is no good choice, even if the model is proven.
    found = facts(run("cv", iris, *short, "--tol", "10"), code=1)
    assert found["converged"] is True


def test_compare_equals_the_library(digits, folder):
    options = "--costs 0.1,1 --repeats 4 --loss squared_hinge --tol 0.01 --seed 3 --no-intercept"
    more = "--class-weight balanced --solver sweep --schedule shrinking --max-iter 2000 --n-jobs 2"
    arguments = [*options.split(), *more.split(), "--plot", "methods.svg"]
    found = facts(run("compare", digits, *arguments, "--json"))
    result = compare_multiclass(
        *load_data(digits),
        Cs=[0.1, 1.0],
        n_repeats=4,
        loss="squared_hinge",
        tol=0.01,
        fit_intercept=False,
        class_weight="balanced",
        solver="sweep",
        schedule="shrinking",
        max_iter=2000,
        random_state=3,
    )
    assert found["methods"] == list(result.methods)
    for name in ("accuracy", "C", "relative_gap", "mean", "deviation"):
        assert found[name] == getattr(result, name).tolist()
    p_values = {tuple(pair["methods"]): pair["p_value"] for pair in found["p_values"]}
    assert p_values == result.p_values
    assert len(set(p_values.values())) > 1
    assert b"<svg" in (folder / "methods.svg").read_bytes()

    shown = run("compare", digits, *arguments, "--force").output
    for m, method in enumerate(result.methods):
        [row] = [line.split() for line in shown.splitlines() if line.startswith(f"│ {method} ")][:1]
        assert row[3:6:2] == [f"{result.mean[m]:.2%}", f"{result.deviation[m]:.2%}"]
    for (one, other), p_value in result.p_values.items():
        assert ["│", one, "│", other, "│", f"{p_value:.2g}", "│"] in [
            line.split() for line in shown.splitlines()
        ]
    assert "12 of 12 trials done" in shown  # progress


def test_compare_that_falls_short_is_1(iris):
    options = ["--repeats", "2", "--costs", "1", "--max-iter", "1", "--tol", "1e-9", "--json"]
    result = run("compare", iris, *options)
    gaps = np.array(facts(result, code=1)["relative_gap"])
    assert f"in {(gaps > 1e-9).sum()} of 6 comparisons" in result.stderr
    assert "Raise --max-iter or --tol, or scale" in result.stderr


@pytest.mark.parametrize("command", ["cv", "compare"])
def test_pictures_are_not_replaced_and_refused_before_the_work(iris, folder, command):
    (folder / "p.png").write_text("precious")
    quick = ["--costs", "1", "-q", *(["--repeats", "2"] if command == "compare" else [])]
    check_error(run(command, iris, "--plot", "p.png"), "p.png exists already")
    check_error(run(command, iris, "--plot", "p.docx"), "--plot must end in one of", "p.docx")
    check_error(run(command, iris, "--plot", "nowhere/p.png"), "There is no directory nowhere")
    assert (folder / "p.png").read_text() == "precious"
    assert run(command, iris, "--plot", "p.png", "--force", *quick).exit_code == 0
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


def test_cv_replaces_no_model(iris, folder):
    (folder / "m.npz").write_text("precious")
    check_error(run("cv", iris, "--model", "m.npz"), "m.npz exists already")
    result = run("cv", iris, "--model", "n.png", "--plot", "n.png")
    assert result.exit_code == 2
    assert "--model and --plot are both n.png" in result.output
    assert (folder / "m.npz").read_text() == "precious"
    assert run("cv", iris, "--model", "m.npz", "--costs", "1", "--force").exit_code == 0
    assert load_model("m.npz").C == 1.0


@pytest.mark.parametrize("costs", ["0", "-1", "", "1,x", "1,,2", "0.1,0", "inf,1", "nan"])
@pytest.mark.parametrize("command", ["cv", "compare"])
def test_costs_that_are_none(iris, command, costs):
    result = run(command, iris, f"--costs={costs}")
    assert result.exit_code == 2
    assert f"but is {costs}." in result.output


@pytest.mark.parametrize(("text", "costs"), [("8", 8), ("8,", [8.0]), ("1e2,0.5", [100.0, 0.5])])
def test_costs_are_a_number_or_values(text, costs):
    assert parse_costs(text) == costs


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("cv --scoring good", "--scoring must be"),
        ("cv --selection second", "--selection must be"),
        ("cv --tol-search 0", "--tol-search must be"),
        ("cv --folds 1", "--folds"),
        ("cv --patience -1", "--patience"),
        ("cv --format pickle", "--format must be npz or liblinear"),
        ("cv --folds 51", "--folds 51 cannot be greater than the number of members"),
        ("compare --repeats 1", "--repeats"),
        ("compare --loss log", "--loss must be"),
        ("compare --multi-class ovr", "--multi-class"),
    ],
)
def test_bad_options_of_cv_and_compare(iris, command, text):
    name, *options = command.split()
    result = run(name, iris, *options)
    assert result.exit_code == 2
    assert text in result.output


def test_data_that_searches_cannot_use(folder):
    (folder / "two.svm").write_text("1 1:1\n2 1:2\n" * 5)
    check_error(run("compare", "two.svm", "-q"), "needs at least 3 classes, but y has 2")
    (folder / "rare.svm").write_text("1 1:1\n2 1:2\n" * 5 + "3 2:1\n")
    result = run("cv", "rare.svm", "-q", "--costs", "1")
    assert result.exit_code == 0
    [line] = result.output.splitlines()
    assert line.startswith("Warning: The least populated class in y has only 1 members")
    assert line.endswith("less than --folds 5.")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_in_a_search_writes_nothing(folder):
    X, _ = make_text_like(30_000, 5_000, random_state=0)
    y = np.random.default_rng(0).integers(0, 2, 30_000)
    np.savez("text.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    run("train", "text.npz", "--max-iter", "1", "-o", "compiled.npz", "-q")
    options = ["--costs", "1e6,", "--tol", "1e-15", "--max-iter", "100000000", "--solver", "sweep"]
    ended = subprocess.run(
        [sys.executable, "-c", AT_EPOCH, "5", "cv", "text.npz", *options, "-o", "m.npz"],
        capture_output=True,
        text=True,
    )
    errors = ended.stderr
    assert (ended.returncode, errors) == (130, "Interrupted. Nothing was written.\n")
    assert {item.name for item in folder.iterdir()} == {"text.npz", "compiled.npz"}

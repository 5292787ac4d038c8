"""What is read is what was written, and what cannot be read is named."""

import bz2
import inspect
import json
import zipfile
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_diabetes, load_iris

from dualsweep import LinearSVC, LinearSVCCV, LinearSVR
from dualsweep._parameters import parameters_of
from dualsweep.io import load_data, load_model, save_model
from dualsweep.training.parameters import Habits

TEXT = "+1 1:0.5 3:2\n-1 2:-1.25 # a comment\n\n+1 3:1e-3\n"


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model(iris):
    return LinearSVC(C=0.5, loss="hinge", random_state=7).fit(*iris)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.npz"


def test_a_model_file_has_all_parameters(iris, tmp_path):
    for kind, habits in ((LinearSVC, parameters_of(Habits)), (LinearSVR, ())):
        path = tmp_path / kind.__name__
        save_model(kind(tol=0.1, random_state=0).fit(*iris), path)
        written = json.loads(str(np.load(path)["header"]))["params"]
        assert set(inspect.signature(kind).parameters) == {*written, *habits}


def test_svmlight(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(TEXT)
    X, y = load_data(path)
    expected = np.array([[0.5, 0, 2], [0, -1.25, 0], [0, 0, 1e-3]], dtype=np.float32)
    np.testing.assert_array_equal(X.toarray(), expected)  # the first column has index 1
    assert X.dtype == np.float32
    assert y.dtype == np.int64
    assert y.tolist() == [1, -1, 1]


def test_svmlight_compressed(tmp_path):
    path = tmp_path / "data.svm.bz2"
    path.write_bytes(bz2.compress(TEXT.encode()))
    X, y = load_data(str(path))
    assert X.shape == (3, 3)
    assert y.tolist() == [1, -1, 1]


def test_svmlight_labels_that_are_not_integers(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("0.5 1:1\n2 1:1\n")
    assert load_data(path)[1].tolist() == [0.5, 2.0]


@pytest.mark.parametrize("n_features", [2, 4, 6])
def test_svmlight_with_a_given_number_of_columns(tmp_path, n_features):
    path = tmp_path / "data.svm"
    path.write_text(TEXT)
    full = np.pad(load_data(path)[0].toarray(), [(0, 0), (0, 3)])
    n_lost = np.count_nonzero(full[:, n_features:])
    lost = pytest.warns(UserWarning, match=f"{n_lost} entries of .* are left out")
    with lost if n_lost else nullcontext():
        X, _ = load_data(path, n_features=n_features)
    np.testing.assert_array_equal(X.toarray(), full[:, :n_features])


def test_svmlight_as_sklearn_writes_it(tmp_path, iris):
    X, y = iris
    path = tmp_path / "iris.svm"
    dump_svmlight_file(X, y, str(path), zero_based=True)
    read, labels = load_data(path)
    np.testing.assert_array_equal(read.toarray(), X.astype(np.float32))
    np.testing.assert_array_equal(labels, y)


def test_npz_csr(path):
    X = sp.csr_array(sp.random(6, 5, 0.4, random_state=0))
    y = np.array(["a", "b", "a", "b", "b", "a"])
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    read, labels = load_data(path)
    np.testing.assert_array_equal(read.toarray(), X.toarray())
    np.testing.assert_array_equal(labels, y)


def test_npz_dense(path, iris):
    X, y = iris
    np.savez(path, X=X, y=y)
    read, labels = load_data(path)
    np.testing.assert_array_equal(read, X)
    np.testing.assert_array_equal(labels, y)


def test_npz_without_labels(path, iris):
    np.savez(path, X=iris[0])
    with pytest.raises(ValueError, match=r"file\.npz lacks y; it has X\. A data file has data, "):
        load_data(path)
    assert load_data(path, labelled=False)[1] is None


def test_npz_of_scipy(path):
    X = sp.csr_array(np.eye(3))
    sp.save_npz(path, X)
    np.testing.assert_array_equal(load_data(path, labelled=False)[0].toarray(), np.eye(3))
    sp.save_npz(path, X.tocsc())
    with pytest.raises(ValueError, match=r"sparse format .*csc.*; it must be csr"):
        load_data(path, labelled=False)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"data": [1.0], "y": [1]}, "lacks indices, indptr, shape; it has data, y"),
        ({}, "lacks data, indices, indptr, shape, y; it has no arrays"),
        ({"X": np.ones((3, 2)), "y": [1, 2]}, r"has 3 rows, but y of shape \(2,\)"),
        ({"X": np.ones(3), "y": [1, 2, 1]}, "must be a table of numbers"),
        ({"X": np.array([["a"]]), "y": [1]}, "must be a table of numbers"),
        ({"X": np.array([[None]]), "y": [1]}, "is not an .npz file, or is damaged"),
        (
            {"data": [1.0], "indices": [7], "indptr": [0, 1], "shape": [1, 2], "y": [1]},
            "arrays that do not make a CSR matrix",
        ),
        (
            {"data": [1.0], "indices": [0], "indptr": [0, 1], "shape": [3, 2], "y": [1] * 3},
            "arrays that do not make a CSR matrix",
        ),
    ],
)
def test_npz_with_the_wrong_arrays(path, arrays, message):
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        load_data(path)


def test_npz_with_another_number_of_features(path, iris):
    np.savez(path, X=iris[0], y=iris[1])
    with pytest.raises(ValueError, match="has 4 features instead of 5"):
        load_data(path, n_features=5)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.svm", b"\x00\x01\xfe garbage"),
        ("data.svm", b"these are not numbers\n"),
        ("data.svm", b"1 2:3 4\n"),
        ("data.npz", b"1 1:1\n"),
        ("data.npz", b"PK\x03\x04 but then not a zip"),
        ("data.txt", b"PK\x03\x04 but then not a zip"),
        ("data.npz", b""),
        ("data.svm.gz", b"not compressed"),
    ],
)
def test_unreadable_content(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match=r"data\.|[Nn]ot a gzipped file"):
        load_data(path)


def test_empty_text(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("# nothing here\n")
    with pytest.raises(ValueError, match="has no rows"):
        load_data(path)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nowhere\.svm"):
        load_data(tmp_path / "nowhere.svm")
    with pytest.raises(ValueError, match="is not a store: it has no header"):
        load_data(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nowhere\.npz"):
        load_model(tmp_path / "nowhere.npz")


def test_model_round_trip(path, model, iris):
    save_model(model, path)
    again = load_model(path)
    assert again.get_params() == model.get_params()
    for name in ("coef_", "intercept_", "classes_", "history_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for name in ("primal_objective_", "dual_objective_", "dual_gap_", "relative_gap_"):
        assert getattr(again, name) == getattr(model, name)
    np.testing.assert_array_equal(again.dual_coef_.toarray(), model.dual_coef_.toarray())
    np.testing.assert_array_equal(again.support_, model.support_)
    assert again.converged_ is True
    assert (again.n_iter_, again.n_features_in_) == (model.n_iter_, 4)
    np.testing.assert_array_equal(
        again.decision_function(iris[0]), model.decision_function(iris[0])
    )


def test_regression_round_trip(path):
    X, y = load_diabetes(return_X_y=True)
    model = LinearSVR(C=50.0, epsilon=3.5, random_state=0).fit(X, y)
    save_model(model, path)
    again = load_model(path)
    assert isinstance(again, LinearSVR)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "classes_")
    for name in ("coef_", "intercept_", "history_", "support_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.dual_gap_ == model.dual_gap_
    np.testing.assert_array_equal(again.dual_coef_.toarray(), model.dual_coef_.toarray())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"coef": np.ones((1, 10))}, "coef is float64"),
        ({"intercept": np.ones(2)}, "intercept has 2 rows, but regression"),
        ({"classes": np.arange(2)}, "it has classes"),
        ({"coef": np.full(10, np.nan)}, "not all of coef is finite"),
    ],
)
def test_damaged_regression_is_refused(path, arrays, message):
    save_model(LinearSVR(random_state=0).fit(*load_diabetes(return_X_y=True)), path)
    with np.load(path) as found:
        written = dict(found)
    np.savez(path, **written | arrays)
    with pytest.raises(ValueError, match=message):
        load_model(path)


def test_a_model_from_a_file_is_a_warm_start(path, model, iris):
    save_model(model, path)
    again = load_model(path).set_params(warm_start=True).fit(*iris)
    assert again.n_iter_ == 0
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-12)


@pytest.mark.parametrize("kind", [object, str, float, bool])
def test_labels_of_any_plain_type(path, iris, kind):
    X, y = iris[0][:100], iris[1][:100]
    labels = np.array(["no", "yes"], dtype=object)[y] if kind in (object, str) else y
    labels = labels.astype(kind)
    model = LinearSVC(class_weight={labels[0]: 2.0}, random_state=np.int64(3)).fit(X, labels)
    save_model(model, path)
    again = load_model(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.class_weight == model.class_weight


def test_labels_that_need_a_pickle_are_refused(path, iris, model):
    other = LinearSVC().set_params(**model.get_params()).fit(*iris)
    other.classes_ = np.array([None, 1, ()], dtype=object)
    with pytest.raises(
        TypeError, match="Only numbers and text can be saved as labels, but one is None"
    ):
        save_model(other, path)
    assert not path.exists()


def test_feature_names_are_kept(path, iris):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(iris[0], columns=list("abcd"))
    model = LinearSVC(random_state=0).fit(X, iris[1])
    save_model(model, path)
    again = load_model(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))  # warns of no names
    assert again.feature_names_in_.tolist() == list("abcd")


def test_sparse_weights(path, iris):
    model = LinearSVC(random_state=0).fit(*iris).sparsify()
    save_model(model, path)
    np.testing.assert_array_equal(load_model(path).coef_, model.coef_.toarray())


def test_a_generator_of_random_numbers_is_not_kept(path, iris):
    save_model(LinearSVC(random_state=np.random.RandomState(0)).fit(*iris), path)
    assert load_model(path).random_state is None


def test_of_a_search_the_chosen_model_is_kept(path, iris):
    X, y = iris
    search = LinearSVCCV(Cs=[0.1, 1.0], cv=3, random_state=0).fit(X, y)
    save_model(search, path)
    again = load_model(path)
    assert again.C == search.C_
    assert again.relative_gap_ == search.relative_gap_
    np.testing.assert_array_equal(again.decision_function(X), search.decision_function(X))


def test_the_file_is_arrays_and_json(path, model):
    save_model(model, path)
    assert [item.name for item in path.parent.iterdir()] == [path.name]
    assert all(name.endswith(".npy") for name in zipfile.ZipFile(path).namelist())
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(str(file["header"]))
    assert header["format"] == 1
    assert header["params"]["C"] == 0.5
    assert header["certificate"]["relative_gap_"] == model.relative_gap_


def test_an_existing_file_is_kept_unless_forced(path, model):
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="exists already"):
        save_model(model, path)
    assert path.read_text() == "precious"
    save_model(model, path, force=True)
    assert load_model(path).converged_


def test_a_failed_write_leaves_the_old_file_and_no_debris(path, model, monkeypatch):
    path.write_text("precious")

    def fail(file, *array, **options):
        file.write(b"half of it")
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(model, path, force=True)
    assert path.read_text() == "precious"
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_an_unfitted_model_is_refused(path):
    with pytest.raises(ValueError, match="is not fitted; call fit"):
        save_model(LinearSVC(), path)


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_truncated_model(path, model, keep):
    save_model(model, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(ValueError, match=r"is not an .npz file, or is damaged"):
        load_model(path)


def test_damaged_model(path, model):
    save_model(model, path)
    content = bytearray(path.read_bytes())
    start = content.index(model.coef_.tobytes()[:16])
    content[start] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        load_model(path)


def test_not_a_model(path, iris):
    np.savez(path, X=iris[0], y=iris[1])
    with pytest.raises(
        ValueError, match=r"not a model of dualsweep: it lacks coef, .* it has X, y"
    ):
        load_model(path)
    with path.open("wb") as file:
        np.save(file, iris[0])
    with pytest.raises(ValueError, match=r"is not an .npz file"):
        load_model(path)


def test_a_model_of_the_future(path, model):
    save_model(model, path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays["header"] = np.array(json.dumps({"format": 2}))
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"has model format 2, .* reads up to 1. Update dualsweep"):
        load_model(path)

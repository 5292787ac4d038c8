"""Input that is not what it says: refused with the reason, or taken for what it is."""

import threading

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from naive import Naive
from sklearn.exceptions import ConvergenceWarning

from dualsweep import (
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LinearSVRCV,
    certify,
    compare_multiclass,
    svc_path,
)
from dualsweep.placements import TrainingSet
from dualsweep.training import Context, Settings

FORMULATIONS = ["ovr", "crammer_singer", "weston_watkins"]
every_formulation = pytest.mark.parametrize("multi_class", FORMULATIONS)
every_way_in = pytest.mark.parametrize(
    "train",
    [
        lambda X, y, **fit: LinearSVC(random_state=0).fit(X, y, **fit),
        lambda X, y, **fit: LinearSVCCV(Cs=[0.1, 1.0], cv=2, random_state=0).fit(X, y, **fit),
        lambda X, y, **fit: svc_path(X, y, Cs=[0.1, 1.0], **fit),
        lambda X, y, **fit: certify(LinearSVC(random_state=0).fit(*data()), X, y, **fit),
    ],
    ids=["fit", "cv", "path", "certify"],
)


def data(n=30, d=6, n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    return X, (X[:, :n_classes] + rng.normal(size=(n, n_classes))).argmax(axis=1)


def fit(X, y, **params):
    return LinearSVC(random_state=0, tol=1e-6, **params).fit(X, y)


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("coef_", "intercept_", "primal_objective_", "dual_gap_")
    )


# Sparse structures


def shorter_indptr(X):
    X.indptr = X.indptr[:20]


def indptr_without_its_last(X):
    X.indptr = X.indptr[:-1]


def longer_indptr(X):
    X.indptr = np.append(X.indptr, X.indptr[-1])


def no_indptr(X):
    X.indptr = X.indptr[:0]


def descending_indptr(X):
    X.indptr[5], X.indptr[6] = X.indptr[6], X.indptr[5]


def negative_indptr(X):
    X.indptr[0] = -1


def indptr_beyond_the_entries(X):
    X.indptr[-1] = len(X.data) + 1


def huge_indptr(X):
    X.indptr[-1] = 2**31 - 1


def column_too_large(X):
    X.indices[3] = X.shape[1]


def column_negative(X):
    X.indices[3] = -1


def column_of_the_bias(X):
    X.indices[-1] = X.shape[1]  # the weight that X does not store


def fewer_indices(X):
    X.indices = X.indices[:-4]


def fewer_values(X):
    X.data = X.data[:-4]


CORRUPT = [
    *(shorter_indptr, indptr_without_its_last, longer_indptr, no_indptr, descending_indptr),
    *(negative_indptr, indptr_beyond_the_entries, huge_indptr, column_too_large, column_negative),
    *(column_of_the_bias, fewer_indices, fewer_values),
]


@every_way_in
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("corrupt", CORRUPT)
def test_corrupt_sparse_structures_are_refused(corrupt, index, train):
    X, y = data()
    X = sp.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    corrupt(X)
    arrays = [X.data.copy(), X.indices.copy(), X.indptr.copy()]
    with pytest.raises(ValueError, match=r"corrupt|indptr|index"):
        train(X, y)
    for now, before in zip((X.data, X.indices, X.indptr), arrays, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("corrupt", CORRUPT)
def test_corrupt_structures_are_refused_without_scikit_learn_too(corrupt):
    X, y = data()
    X = sp.csr_array(X)
    corrupt(X)
    with pytest.raises(ValueError, match="CSR structure is corrupt"):
        TrainingSet(X, y, None, Settings(), Context())


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("corrupt", CORRUPT)
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_no_model_answers_for_a_corrupt_structure(corrupt, index, layout):
    """SciPy would crash, or multiply with whatever is next to its arrays."""
    X, y = data()
    X = X[:, :, None].repeat(5, axis=2).reshape(30, 30)  # as many columns as rows
    sparse = sp.csr_matrix(X).asformat(layout)
    sparse.indices, sparse.indptr = sparse.indices.astype(index), sparse.indptr.astype(index)
    corrupt(sparse)
    classifiers = LinearSVC(random_state=0), LinearSVCCV(Cs=[0.1, 1.0], cv=2, random_state=0)
    regressors = LinearSVR(random_state=0), LinearSVRCV(Cs=[0.1, 1.0], cv=2, random_state=0)
    for model in (*classifiers, *regressors):
        model.fit(X, y)
        methods = ["predict"] + ["decision_function"] * hasattr(model, "decision_function")
        for method in methods:
            with pytest.raises(ValueError, match="structure is corrupt"):
                getattr(model, method)(sparse)
        with pytest.raises(ValueError, match="structure is corrupt"):
            model.score(sparse, y)


@every_way_in
def test_a_corrupt_structure_is_refused_before_it_is_converted(train):
    X, y = data()
    for layout in ("csc", "coo"):
        sparse = sp.csr_array(X).asformat(layout)
        indices = sparse.indices if layout == "csc" else sparse.row
        indices[3] = 10**6
        with pytest.raises(ValueError, match="X has a row index outside"):
            train(sparse, y)


def test_indices_in_another_byte_order_are_the_same_indices():
    X, y = data()
    sparse, swapped = sp.csr_array(X), sp.csr_array(X)
    swapped.indices, swapped.indptr = (a.astype(">i4") for a in (sparse.indices, sparse.indptr))
    for kind in (LinearSVC, LinearSVR):
        one, other = (kind(random_state=0).fit(X, y) for X in (sparse, swapped))
        np.testing.assert_array_equal(one.coef_, other.coef_)
        np.testing.assert_array_equal(one.predict(sparse), other.predict(swapped))
    assert certify(LinearSVC(random_state=0).fit(sparse, y), swapped, y).relative_gap <= 1e-3


@every_formulation
def test_unsorted_and_duplicate_entries_are_the_matrix_they_stand_for(multi_class):
    X, y = data(n_classes=3)
    coo = sp.coo_array(X)
    order = np.random.default_rng(1).permutation(2 * coo.nnz)
    values = np.concatenate([0.25 * coo.data, 0.75 * coo.data])[order]
    rows, columns = (np.concatenate([places, places])[order] for places in (coo.row, coo.col))
    by_row = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    twice = sp.csr_array((values[by_row], columns[by_row], indptr), shape=X.shape)
    assert twice.nnz == 2 * coo.nnz
    before = twice.indices.copy()
    one, other = (fit(data, y, multi_class=multi_class) for data in (twice, sp.csr_array(X)))
    np.testing.assert_array_equal(twice.indices, before)
    np.testing.assert_allclose(
        one.coef_, other.coef_, atol=2 * np.sqrt(2 * (one.dual_gap_ + other.dual_gap_))
    )
    assert one.primal_objective_ == pytest.approx(other.primal_objective_, rel=2e-6)


# Values


@every_way_in
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, sp.csr_array])
def test_values_that_are_not_finite_are_refused(layout, bad, train):
    X, y = data()
    X[7, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity|Infinity"):
        train(layout(X), y)


@every_way_in
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_weights_that_are_none_are_refused(bad, train):
    X, y = data()
    weight = np.ones(len(y))
    weight[4] = bad
    with pytest.raises(ValueError, match=r"sample_weight"):
        train(X, y, sample_weight=weight)


@every_way_in
def test_wrong_lengths_are_refused(train):
    X, y = data()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        train(X, y[:-1])
    with pytest.raises(ValueError, match=r"sample_weight.*shape"):
        train(X, y, sample_weight=np.ones(len(y) + 1))
    with pytest.raises(ValueError, match="while dim <= 2 is required"):
        train(X, y, sample_weight=np.ones((len(y), 2, 1)))
    with pytest.raises(ValueError, match="2D array"):
        train(X[:, 0], y)
    with pytest.raises(ValueError, match=r"2 labels a row|1d array"):
        train(X, np.column_stack([y, y]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.5])
def test_labels_that_are_none_are_refused(bad):
    X, y = data()
    y = y.astype(float)
    y[3] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity|Unknown label type|Labels must be"):
        fit(X, y)


def test_rows_of_too_large_a_norm_are_named():
    X, y = data()
    X[11, 1] = 1e155
    for layout in (np.ascontiguousarray, sp.csr_array):
        with pytest.raises(ValueError, match=r"Row 11 has .* a squared norm beyond float64"):
            fit(layout(X), y)


# Types of arrays


def masked(X):
    return np.ma.masked_array(X, mask=np.zeros(X.shape, bool))


CONVERTED = {
    "object": lambda X: X.astype(object),
    "big-endian": lambda X: X.astype(">f8"),
    "long double": lambda X: X.astype(np.longdouble),
    "list": lambda X: X.tolist(),
    "masked": masked,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "matrix of columns": sp.csc_matrix,
    "coordinates": sp.coo_array,
    "frame": pandas.DataFrame,
    "read-only": lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
    "subclass": lambda X: X.view(np.recarray),
}


@pytest.mark.parametrize("convert", CONVERTED.values(), ids=CONVERTED)
def test_other_types_of_arrays_are_the_numbers_in_them(convert):
    X, y = data()
    model = fit(convert(X), y)
    other = fit(sp.csr_matrix(X) if sp.issparse(convert(X)) else X, y)
    assert same(model, other)
    assert model.dual_coef_.dtype == model.coef_.dtype == np.float64


def test_a_masked_entry_is_refused_or_left_to_scikit_learn():
    """scikit-learn takes what is under the mask; whatever it does, nothing is NaN."""
    X, y = data()
    array = masked(X)
    array[3, 2] = np.ma.masked
    try:
        model = fit(array, y)
    except ValueError:
        return
    assert same(model, fit(X, y))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint64, bool])
def test_narrow_and_integer_values_are_exact(dtype):
    X, y = data()
    X = (4 * X).round().astype(dtype) if dtype is not np.uint64 else abs(4 * X).astype(dtype)
    model, other = fit(X, y), fit(X.astype(np.float64), y)
    assert model.primal_objective_ == pytest.approx(other.primal_objective_, rel=2e-6)


def test_complex_and_text_values_are_refused():
    X, y = data()
    with pytest.raises(ValueError, match="Complex data not supported"):
        fit(X + 1j, y)
    with pytest.raises(ValueError, match="could not convert string"):
        fit(np.full(X.shape, "one"), y)


def test_frames_of_mixed_types():
    X, y = data()
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    frame["b"] = frame["b"].astype(np.float32)
    frame["c"] = (frame["c"] > 0).astype(bool)
    frame["d"] = frame["d"].round().astype("Int64")
    frame["e"] = frame["e"].round().astype(np.int8)
    model = fit(frame, y)
    assert same(model, fit(frame.to_numpy(np.float64), y))
    assert model.feature_names_in_.tolist() == list("abcdef")
    frame["d"] = frame["d"].astype("string")
    frame.loc[3, "d"] = "one"
    with pytest.raises(ValueError, match="could not convert string"):
        fit(frame, y)
    frame["d"] = pandas.array([None] * len(y), "Int64")
    with pytest.raises(ValueError, match="NaN"):
        fit(frame, y)


LABELS = {
    "bool": lambda y: y == 1,
    "text": lambda y: np.array(["no", "yes"])[y],
    "object": lambda y: np.array(["no", "yes"], object)[y],
    "int8": lambda y: (2 * y - 1).astype(np.int8),
    "uint64": lambda y: y.astype(np.uint64) + np.uint64(2**63),
    "big-endian": lambda y: y.astype(">i4"),
    "float": lambda y: y.astype(np.float32),
    "list": lambda y: y.tolist(),
    "series": lambda y: pandas.Series(y, index=np.arange(len(y))[::-1]),
    "categorical": lambda y: pandas.Series(np.array(["no", "yes"])[y]).astype("category"),
    "far apart": lambda y: np.where(y == 1, 2**62, -(2**62)),
}


@pytest.mark.parametrize("convert", LABELS.values(), ids=LABELS)
def test_labels_of_any_type_make_the_same_model(convert):
    X, y = data()
    labels = convert(y)
    model = fit(X, labels)
    assert same(model, fit(X, y))
    predicted = model.predict(X)
    expected = model.classes_[(model.decision_function(X) > 0).astype(int)]
    np.testing.assert_array_equal(predicted, expected)
    assert np.isin(np.asarray(labels), model.classes_).all()


def test_integers_that_float64_would_merge_are_two_classes():
    X, y = data()
    labels = y + 2**53
    model = fit(X, labels)
    assert model.classes_.tolist() == [2**53, 2**53 + 1]
    assert same(model, fit(X, y))


# Costs


@every_formulation
def test_costs_that_vanish_are_refused(multi_class):
    """C * sample_weight below 1e-300 is no cost; all rows without one would be class 0."""
    X, y = data(n_classes=3)
    for cost, weight in ((1e-200, 1e-150), (1e-308, 1.0), (1e-310, 1e5)):
        with pytest.raises(ValueError, match=r"costs C \* sample_weight \* class_weight are all"):
            LinearSVC(C=cost, multi_class=multi_class).fit(X, y, np.full(len(y), weight))


@every_formulation
def test_a_class_whose_costs_vanish_is_refused(multi_class):
    X, y = data(n_classes=3)
    with pytest.raises(ValueError, match=r"class 1 .* below 1e-300"):
        LinearSVC(multi_class=multi_class, class_weight={1: 1e-305}).fit(X, y)


def test_a_class_without_weight_is_no_class():
    X, y = data(n_classes=3)
    model = LinearSVC(random_state=0).fit(X, y, sample_weight=(y != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]


def test_costs_that_overflow_are_refused():
    X, y = data()
    for cost, weight in ((1e300, 1e100), (1e308, 1.0)):
        with pytest.raises(ValueError, match="are too large"):
            LinearSVC(C=cost).fit(X, y, np.full(len(y), weight))


# Data that change


@every_formulation
def test_a_warm_start_on_other_data_is_certified_on_those(multi_class):
    X, y = data(n_classes=3)
    model = LinearSVC(multi_class=multi_class, warm_start=True, random_state=0, tol=1e-6).fit(X, y)
    X *= -3.0
    model.fit(X, y)
    cold = fit(X, y, multi_class=multi_class)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(cold.primal_objective_, rel=2e-6)


def test_a_warm_start_from_anything_is_certified():
    X, y = data()
    cold = fit(X, y)
    for value in (np.nan, np.inf, -1e300, 1e300, -1.0):
        model = LinearSVC(warm_start=True, random_state=0, tol=1e-6).fit(X, y)
        model.dual_coef_.data[:3] = value
        model.fit(X, y)
        assert model.converged_
        assert model.primal_objective_ == pytest.approx(cold.primal_objective_, rel=2e-6)


@pytest.mark.parametrize("params", [{"loss": "hinge"}, {"multi_class": "crammer_singer"}])
@pytest.mark.parametrize("solver", ["sweep", "newton"])
@pytest.mark.filterwarnings("ignore", category=ConvergenceWarning)
def test_values_that_another_thread_changes(params, solver):
    """What is returned is the certificate of some state of X, or an error; never NaN."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = (X[:, :3] + rng.normal(size=(2000, 3))).argmax(axis=1)
    original = X.copy()
    for value in (np.nan, np.inf, 1e300, 0.5):
        X[:] = original
        ready, done = threading.Event(), threading.Event()

        def change(value=value, ready=ready, done=done):
            ready.wait()
            while not done.is_set():
                X[rng.integers(2000), rng.integers(20)] = value

        thread = threading.Thread(target=change)
        thread.start()
        model = LinearSVC(solver=solver, tol=1e-12, max_time=0.3, random_state=0, **params)
        try:
            timer = threading.Timer(0.05, ready.set)
            timer.start()
            model.fit(X, y)
        except ValueError:  # X has NaN at the end, or had it at the beginning
            assert not np.isfinite(X).all()
            assert not hasattr(model, "coef_")
        else:
            assert np.isfinite(model.coef_).all()
            assert 0.0 <= model.relative_gap_ < np.inf
        finally:
            ready.set()
            done.set()
            thread.join()
            timer.join()


def test_compare_refuses_what_fit_refuses():
    X, y = data(n_classes=3)
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        compare_multiclass(X, y)


def test_certificates_of_float32_are_those_of_the_float32_numbers():
    """Values are kept as they are given, and w is exact for them."""
    X, y = data()
    X32 = X.astype(np.float32)
    model = LinearSVC(loss="hinge", tol=1e-8, random_state=0).fit(X32, y)
    sign = np.where(y == 1, 1.0, -1.0)
    oracle = Naive(X32, sign, model.C, "hinge", bias=1.0)
    w = np.append(model.coef_[0], model.intercept_[0])
    alpha = model.dual_coef_.toarray()[0] * sign
    assert oracle.gap(w, alpha) <= 1.01e-8 * oracle.primal(w)

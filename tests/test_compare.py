"""compare_multiclass: the protocol, step by step with plain fits, and its statistics."""

from __future__ import annotations

import itertools

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from moments import Interrupt
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from dualsweep import LinearSVC, compare_multiclass
from dualsweep.estimators import MulticlassComparison
from dualsweep.estimators import compare as module
from dualsweep.estimators.compare import TEST, TRAIN, VALIDATE, _p_value, _partition

METHODS = ("ovr", "crammer_singer", "weston_watkins")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("sizes", [(5, 10, 100), (1, 2, 3, 4), (7, 19, 33), (1000,) * 3])
def test_partitions_keep_the_shares_of_each_class(sizes):
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    rng = np.random.default_rng(1)
    first, second = _partition(codes, rng), _partition(codes, rng)
    assert (first != second).any()
    for k, size in enumerate(sizes):
        for part, share in ((TRAIN, 0.6), (VALIDATE, 0.2), (TEST, 0.2)):
            count = ((first == part) & (codes == k)).sum()
            assert abs(count - share * size) < 1
            assert count == ((second == part) & (codes == k)).sum()
        assert ((first == TRAIN) & (codes == k)).any()


def test_frames_are_their_values(iris):
    """Without a warning about the names of their columns, among other things."""
    X, y = iris
    options = {"Cs": [0.1], "n_repeats": 2, "random_state": 0}
    frame = pandas.DataFrame(X, columns=["one", "two", "three", "four"])
    named = compare_multiclass(frame, pandas.Series(y), **options)
    np.testing.assert_array_equal(named.accuracy, compare_multiclass(X, y, **options).accuracy)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_protocol_step_by_step(monkeypatch, iris, layout):
    X, y = iris
    parts, Cs = [], [0.01, 0.1, 1.0]

    def spy(codes, rng):
        parts.append(_partition(codes, rng))
        return parts[-1]

    monkeypatch.setattr(module, "_partition", spy)
    options = {"tol": 1e-7, "max_iter": 100_000}
    rows = sp.csr_array(X) if layout == "csr" else X
    result = compare_multiclass(rows, y, Cs=Cs, n_repeats=3, random_state=0, **options)
    assert result.methods == METHODS
    assert len(parts) == 3
    for r, part in enumerate(parts):
        for m, method in enumerate(METHODS):

            def fit(C, rows, method=method):
                model = LinearSVC(C=C, loss="hinge", multi_class=method, random_state=0, **options)
                return model.fit(X[rows], y[rows])

            validate, test = part == VALIDATE, part == TEST
            scores = [fit(C, part == TRAIN).score(X[validate], y[validate]) for C in Cs]
            best = Cs[scores.index(max(scores))]
            assert result.C[r, m] == best
            assert result.accuracy[r, m] == fit(best, part != TEST).score(X[test], y[test])
    assert (result.relative_gap <= 1e-7).all()
    np.testing.assert_allclose(result.mean, result.accuracy.mean(axis=0))
    np.testing.assert_allclose(result.deviation, np.std(result.accuracy, axis=0, ddof=1))


def test_threads_and_seeds(iris):
    X, y = iris
    options = {"Cs": 3, "n_repeats": 2}
    first = compare_multiclass(X, y, random_state=0, **options)
    for n_jobs in (2, 5):
        other = compare_multiclass(X, y, random_state=0, n_jobs=n_jobs, **options)
        np.testing.assert_array_equal(other.accuracy, first.accuracy)
        np.testing.assert_array_equal(other.C, first.C)
        np.testing.assert_array_equal(other.relative_gap, first.relative_gap)
    other = compare_multiclass(X, y, random_state=1, **options)
    assert (other.relative_gap != first.relative_gap).any()


def exact_p_value(difference):
    """The share of all signs whose rank sum is at least as far from its mean as the one seen."""
    ranks = np.abs(difference).argsort().argsort() + 1.0
    middle = ranks.sum() / 2
    seen = abs(ranks[difference > 0].sum() - middle)
    signs = itertools.product([0, 1], repeat=len(ranks))
    far = [abs(np.dot(sign, ranks) - middle) >= seen for sign in signs]
    return sum(far) / len(far)


@pytest.mark.parametrize("shift", [-0.02, 0.0, 0.01])
def test_p_values_are_those_of_all_sign_patterns(shift):
    accuracy = np.random.default_rng(0).normal(0.9, 0.01, (10, 3))
    accuracy[:, 1] += shift
    result = MulticlassComparison(METHODS, accuracy, np.ones((10, 3)), np.zeros((10, 3)))
    pairs = list(itertools.combinations(range(3), 2))
    assert list(result.p_values) == [(METHODS[i], METHODS[j]) for i, j in pairs]
    for (i, j), p in zip(pairs, result.p_values.values(), strict=True):
        assert p == pytest.approx(exact_p_value(accuracy[:, i] - accuracy[:, j]))


@pytest.mark.parametrize("n", [2, 3, 6, 10, 20])
def test_no_p_value_is_below_the_least(n):
    wins = np.stack([np.zeros(n), np.arange(1.0, n + 1)], axis=1) / (n + 1)
    result = MulticlassComparison(METHODS[:2], wins, np.ones((n, 2)), np.zeros((n, 2)))
    assert list(result.p_values.values()) == [pytest.approx(result.least_p_value)]
    assert result.least_p_value == 2 / 2**n  # of all patterns of signs, two are as extreme


def test_p_values_of_ties_and_of_no_difference():
    assert _p_value(np.zeros(5)) == 1.0
    assert _p_value(np.full(10, 0.01)) < 0.01
    assert 0.1 < _p_value(np.array([0.01, -0.01, 0.02, -0.02, 0.0, 0.03])) <= 1.0


def test_the_table():
    accuracy = np.array([[0.9, 0.92, 0.8], [0.91, 0.94, 0.8], [0.92, 0.96, 0.8]])
    C = np.array([[1.0, 0.1, 3.0]] * 2 + [[1.0, 0.3, 3.0]])
    result = MulticlassComparison(METHODS, accuracy, C, np.zeros((3, 3)))
    assert str(result).splitlines() == [
        "Test accuracy over 3 partitions, mean ± standard deviation",
        "  ovr              91.00 ± 1.00 %  C = 1",
        "  crammer_singer   94.00 ± 2.00 %  C = 0.1 to 0.3",
        "  weston_watkins   80.00 ± 0.00 %  C = 3",
        "Wilcoxon signed-rank test, p-values (at least 0.25 with 3 partitions)",
        "  ovr             crammer_singer  0.25",
        "  ovr             weston_watkins  0.25",
        "  crammer_singer  weston_watkins  0.25",
    ]


# -------------------------------------------------------------------------------------- manners


def test_gaps_above_tol_are_warned_about():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning) as caught:
        result = compare_multiclass(
            X, y, Cs=[1.0], n_repeats=2, max_iter=2, solver="sweep", random_state=0
        )
    assert [w.filename for w in caught] == [__file__]
    assert f"the largest gap is {result.relative_gap.max():.1e}" in str(caught[0].message)
    assert "6 of 6" in str(caught[0].message)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt(monkeypatch, n_jobs):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    interrupt = Interrupt(monkeypatch, epoch=30)
    with pytest.raises(KeyboardInterrupt):
        compare_multiclass(X, y, tol=1e-13, max_iter=10**9, solver="sweep", n_jobs=n_jobs)
    assert interrupt.epochs_after <= 2 * n_jobs


def test_progress_on_request(capfd, iris):
    compare_multiclass(*iris, Cs=2, n_repeats=2, random_state=0)
    assert capfd.readouterr() == ("", "")
    compare_multiclass(*iris, Cs=2, n_repeats=2, random_state=0, verbose=1)
    shown = capfd.readouterr().out
    assert all(f"{method} {r}" in shown for method in METHODS for r in (1, 2))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_repeats": 1}, ValueError, "n_repeats must be at least 2, but is 1"),
        ({"Cs": [-1.0]}, ValueError, "positive values"),
        ({"C": 1.0}, TypeError, "takes no C"),
        ({"max_time": 1.0}, TypeError, "takes no max_time"),
        ({"loss": "log"}, ValueError, "'loss' parameter"),
        ({"class_weight": {"a": -1.0}}, ValueError, "class_weight must not be negative"),
    ],
)
def test_bad_input(iris, change, error, message):
    with pytest.raises(error, match=message):
        compare_multiclass(*iris, **change)


def test_bad_data(iris):
    X, y = iris
    with pytest.raises(ValueError, match="at least 3 classes, but y has 2"):
        compare_multiclass(*load_breast_cancer(return_X_y=True))
    for n in (2, 3):
        few = np.concatenate([np.flatnonzero(y == label)[:n] for label in "abc"])
        with pytest.raises(ValueError, match=f"{3 * n} rows of 3 classes are too few"):
            compare_multiclass(X[few], y[few])

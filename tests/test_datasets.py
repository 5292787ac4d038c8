"""The generated text has the properties that it promises."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from dualsweep import LinearSVC
from dualsweep.datasets import WORDS_PER_BLOCK, make_text_like


@pytest.fixture(scope="module")
def text():
    return make_text_like(20_000, 5_000, random_state=0)


def test_rows_are_canonical_csr_of_unit_norm(text):
    X, y = text
    assert isinstance(X, csr_array)
    assert X.shape == (20_000, 5_000)
    assert X.dtype == np.float32
    assert X.indices.dtype == np.int32
    X.check_format(full_check=True)
    assert X.has_canonical_format
    assert X.data.min() > 0
    norms = np.sqrt((X.astype(np.float64) ** 2).sum(axis=1))
    np.testing.assert_allclose(norms, 1.0, rtol=1e-6)
    assert y.shape == (20_000,)


def test_word_frequencies_follow_zipf(text):
    X, _ = text
    frequency = np.sort(np.bincount(X.indices, minlength=X.shape[1]))[::-1]
    ranks = np.arange(100, 3000)
    slope = np.polyfit(np.log(ranks), np.log(frequency[ranks]), 1)[0]
    assert -1.1 < slope < -0.8
    # Not by position: the commonest words are anywhere.
    assert np.corrcoef(np.arange(X.shape[1]), np.bincount(X.indices))[0, 1] < 0.1


@pytest.mark.parametrize("mean_length", [1, 20])
def test_mean_length_counts_words(mean_length):
    X, _ = make_text_like(5_000, 10**6, mean_length=mean_length, random_state=0)
    assert X.nnz / X.shape[0] == pytest.approx(mean_length, rel=0.05)  # few repetitions
    assert np.diff(X.indptr).min() >= 1


def test_a_linear_model_learns_it_but_for_the_noise(text):
    X, y = text
    model = LinearSVC(C=0.2, random_state=0).fit(X[:18_000], y[:18_000])
    assert 0.85 < model.score(X[18_000:], y[18_000:]) < 0.95


def test_without_noise_a_linear_model_separates_the_classes():
    X, y = make_text_like(500, 100, noise=0.0, random_state=0)
    signed = (2 * y - 1)[:, None] * np.column_stack([X.toarray(), np.ones(500)])
    # Is there (w, b) with y_i (w.x_i + b) >= 1 for all i?
    result = linprog(np.zeros(101), A_ub=-signed, b_ub=-np.ones(500), bounds=(None, None))
    assert result.status == 0


def test_noise_changes_that_part_of_the_labels():
    _, clean = make_text_like(10_000, 300, n_classes=4, noise=0.0, random_state=0)
    _, noisy = make_text_like(10_000, 300, n_classes=4, noise=0.3, random_state=0)
    assert np.mean(clean != noisy) == pytest.approx(0.3, abs=0.02)


def test_classes_are_of_about_the_same_size():
    _, y = make_text_like(10_000, 2_000, n_classes=5, random_state=0)
    counts = np.bincount(y)
    assert len(counts) == 5
    assert counts.min() > 1000


def test_the_seed_decides():
    X, y = make_text_like(500, 100, random_state=3)
    again, labels = make_text_like(500, 100, random_state=3)
    other, _ = make_text_like(500, 100, random_state=4)
    np.testing.assert_array_equal(X.toarray(), again.toarray())
    np.testing.assert_array_equal(y, labels)
    assert (other != X).nnz > 0


def test_blocks_join_without_a_seam():
    X, _ = make_text_like(3 * WORDS_PER_BLOCK // 20, 40, mean_length=10, random_state=0)
    X.check_format(full_check=True)
    assert X.has_canonical_format
    assert np.diff(X.indptr).min() >= 1
    np.testing.assert_allclose(X.power(2).sum(axis=1), 1.0, rtol=1e-6)


def test_float64():
    X, _ = make_text_like(20, 10, dtype=np.float64, random_state=0)
    assert X.dtype == np.float64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1, but is 0"),
        ({"n_features": 1}, "n_features must be at least 2"),
        ({"n_classes": 1}, "n_classes must be at least 2"),
        ({"mean_length": 0.5}, "mean_length must be at least 1"),
        ({"mean_length": np.nan}, "mean_length must be at least 1"),
        ({"noise": 1.5}, "noise must be a fraction between 0 and 1, but is 1.5"),
        ({"dtype": np.int32}, "dtype must be float32 or float64, but is int32"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_text_like(**arguments)

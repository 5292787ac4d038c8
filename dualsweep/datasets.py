"""Generated problems to try things on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ._typing import Array

__all__ = ["make_text_like"]

# The word of rank r occurs in proportion to 1 / (r + RANK_SHIFT) (Zipf-Mandelbrot). The shift
# stands for the stop words that are usually taken out.
RANK_SHIFT = 10.0

LENGTH_SHAPE = 3.0  # of the negative binomial distribution of row lengths: spread out, as in text

# The commonest words tell the class: this part of all, and at least so many. If rare words told it,
# 200,000 rows would be too few to learn what they say.
INFORMATIVE_PART = 0.02
INFORMATIVE_LEAST = 20

WORDS_PER_BLOCK = 2_000_000  # drawn at once: bounds the scratch memory to some 100 MB


def make_text_like(
    n_samples: int = 200_000,
    n_features: int = 50_000,
    *,
    mean_length: float = 65.0,
    n_classes: int = 2,
    noise: float = 0.05,
    dtype: npt.DTypeLike = np.float32,
    random_state: int | np.random.Generator | None = None,
) -> tuple[sp.csr_array, Array]:
    """Generate a classification problem that looks like text.

    Rows are bags of words: lengths vary, word frequencies follow Zipf's law, values are tf-idf
    (with logarithmic tf) scaled to rows of unit Euclidean norm. The class is the largest of
    `n_classes` linear functions of the commonest words, one in fifty. A fraction `noise` of the
    rows then gets another class.

    Parameters
    ----------
    n_samples : int, default=200_000
        Number of rows.
    n_features : int, default=50_000
        Number of words. Their frequency does not depend on their position.
    mean_length : float, default=65
        Mean number of words in a row. Some occur more than once, so a row has fewer nonzeros.
    n_classes : int, default=2
        Number of classes, of about the same size.
    noise : float, default=0.05
        Fraction of the labels that are wrong.
    dtype : {np.float32, np.float64}, default=np.float32
        Type of the values.
    random_state : int, numpy.random.Generator or None, default=None
        An integer makes the result reproducible.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Rows of norm 1 with sorted int32 indices.
    y : ndarray of shape (n_samples,)
        Classes 0 to n_classes - 1.

    Examples
    --------
    >>> from dualsweep.datasets import make_text_like
    >>> X, y = make_text_like(1000, 500, random_state=0)
    >>> X.shape, X.dtype.name, sorted(set(y.tolist()))
    ((1000, 500), 'float32', [0, 1])
    """
    dtype = np.dtype(dtype)
    sizes = {"n_samples": n_samples, "n_features": n_features, "n_classes": n_classes}
    for name, value in {**sizes, "mean_length": mean_length}.items():
        least = 2 if name in ("n_features", "n_classes") else 1
        if not value >= least:
            raise ValueError(f"{name} must be at least {least}, but is {value!r}.")
    if not 0 <= noise <= 1:
        raise ValueError(f"noise must be a fraction between 0 and 1, but is {noise!r}.")
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, but is {dtype.name}.")

    rng = np.random.default_rng(random_state)
    words = rng.permutation(n_features)  # from the commonest to the rarest
    X = _count_words(n_samples, words, mean_length, dtype, rng)
    _scale_tfidf(X)
    n_informative = max(int(INFORMATIVE_PART * n_features), INFORMATIVE_LEAST)
    return X, _plant_labels(X, words[:n_informative], n_classes, noise, rng)


def _count_words(
    n_samples: int, words: Array, mean_length: float, dtype: np.dtype, rng: np.random.Generator
) -> sp.csr_array:
    """Return how often each word occurs in each row."""
    n_features, words = len(words), words.astype(np.int32)
    success = LENGTH_SHAPE / (LENGTH_SHAPE + mean_length - 1)
    lengths = 1 + rng.negative_binomial(LENGTH_SHAPE, success, n_samples)
    cumulated = np.cumsum(1.0 / (np.arange(n_features) + 1 + RANK_SHIFT))

    blocks = []
    rows_per_block = max(int(WORDS_PER_BLOCK / mean_length), 1)
    for first in range(0, n_samples, rows_per_block):
        length = lengths[first : first + rows_per_block]
        ranks = np.searchsorted(cumulated, cumulated[-1] * rng.random(length.sum()), side="right")
        places = np.repeat(np.arange(len(length), dtype=np.int32), length), words[ranks]
        ones, shape = np.ones(len(ranks), dtype), (len(length), n_features)
        blocks.append(sp.coo_array((ones, places), shape).tocsr())  # which adds them up
    return sp.vstack(blocks, format="csr")


def _scale_tfidf(X: sp.csr_array) -> None:
    """Turn counts into tf-idf with unit rows, in place."""
    n_samples, n_features = X.shape
    idf = 1 + np.log((1 + n_samples) / (1 + np.bincount(X.indices, minlength=n_features)))
    X.data[:] = (1 + np.log(X.data)) * idf.astype(X.dtype)[X.indices]
    sqnorms = np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[:-1])
    X.data /= np.repeat(np.sqrt(sqnorms), np.diff(X.indptr)).astype(X.dtype)


def _plant_labels(
    X: sp.csr_array, informative: Array, n_classes: int, noise: float, rng: np.random.Generator
) -> Array:
    """Return the classes that random weights of the informative words give, with some noise."""
    n_samples, n_features = X.shape
    W = np.zeros((n_features, n_classes), dtype=X.dtype)
    W[informative] = rng.standard_normal((len(informative), n_classes))
    scores = X @ W
    scores -= scores.mean(axis=0)  # classes of about the same size
    y = scores.argmax(axis=1)
    wrong = np.flatnonzero(rng.random(n_samples) < noise)
    y[wrong] = (y[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    return y

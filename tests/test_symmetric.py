"""Cholesky factors against NumPy's, and what is no positive definite matrix."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dualsweep._symmetric import cholesky, cholesky_solve


def positive(n, seed=0):
    Z = np.random.default_rng(seed).normal(size=(n + 3, n))
    return Z.T @ Z + np.eye(n)


@pytest.mark.parametrize("n", [1, 2, 7, 130])
def test_solutions(n):
    matrix = positive(n)
    factor, right = matrix.copy(), np.random.default_rng(1).normal(size=n)
    before = right.copy()
    assert cholesky(factor)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-10)
    np.testing.assert_array_equal(np.triu(factor, 1), np.triu(matrix, 1))
    found = cholesky_solve(factor, right)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-9)
    np.testing.assert_array_equal(right, before)


@pytest.mark.parametrize("entry", [0.0, -1.0])
def test_there_is_no_factor_of_what_is_not_positive_definite(entry):
    matrix = np.eye(3)
    matrix[1, 1] = entry
    assert not cholesky(matrix)


def test_a_column_of_another_array_is_right_enough():
    matrix = positive(5)
    factor, columns = matrix.copy(), np.random.default_rng(2).normal(size=(5, 3))
    assert cholesky(factor)
    found = cholesky_solve(factor, columns[:, 1])
    np.testing.assert_allclose(matrix @ found, columns[:, 1], rtol=1e-9)


def test_threads_do_not_disturb_each_other():
    matrices = [positive(60, seed) for seed in range(16)]
    right = np.arange(60.0)

    def solve(matrix):
        factor = matrix.copy()
        assert cholesky(factor)
        return cholesky_solve(factor, right)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(solve, matrices))
    for matrix, solution in zip(matrices, found, strict=True):
        np.testing.assert_array_equal(solution, solve(matrix))

"""Partitions without a cluster: rounds, certificates, and partitions that get lost."""

import itertools
from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from local_partitions import LocalPartitions
from naive import library_problem
from scipy.special import xlogy

from dualsweep._threads import Workers
from dualsweep.datasets import make_text_like
from dualsweep.losses import LOSSES
from dualsweep.placements.cluster.partitions import Partition, PartitionedProblem
from dualsweep.problems.multiclass import MulticlassProblem
from dualsweep.rows.layouts import as_rows
from dualsweep.rows.passes import passes_over
from dualsweep.solvers.solve import solve


def binary_parts(X, y, cost, loss, sizes, bias=1.0):
    cuts = np.cumsum([0, *sizes])
    return [
        library_problem(X[a:b], y[a:b], cost[a:b], loss, bias) for a, b in itertools.pairwise(cuts)
    ]


@pytest.fixture(scope="module")
def text():
    X, y = make_text_like(900, 150, mean_length=12, noise=0.1, dtype=np.float64, random_state=1)
    return X, np.where(y == y.max(), 1.0, -1.0)


def primal_and_dual(X, y, cost, loss, w, alpha):
    """Recompute the objectives of w and alpha; w must be the weights of alpha."""
    Xb = sp.hstack([X, np.ones((X.shape[0], 1))]).tocsr()
    np.testing.assert_allclose(Xb.T @ (y * alpha), w, rtol=1e-10, atol=1e-12)
    z = y * (Xb @ w)
    if loss == "hinge":
        assert ((alpha >= 0) & (alpha <= cost)).all()
        return 0.5 * w @ w + cost @ np.maximum(0, 1 - z), alpha.sum() - 0.5 * w @ w
    if loss == "logistic":
        p = alpha / cost
        entropy = -xlogy(p, p) - xlogy(1 - p, 1 - p)
        return 0.5 * w @ w + cost @ np.logaddexp(0, -z), cost @ entropy - 0.5 * w @ w
    lost = np.maximum(0, 1 - z) ** 2 if loss == "squared_hinge" else (1 - z) ** 2
    assert loss == "squared" or (alpha >= 0).all()
    return 0.5 * w @ w + cost @ lost, alpha.sum() - 0.5 * w @ w - 0.25 * (alpha**2 / cost).sum()


METHODS = ("sweeps", "direct steps", "conjugate gradients")


def use(tuned, method):
    """Select this kind of Newton steps; return the name of the solver."""
    if method == "conjugate gradients":
        tuned(DIRECT_WEIGHTS=0)
    return "sweep" if method == "sweeps" else "newton"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(900,), (300, 300, 300), (700, 199, 1), (60,) * 15])
def test_rounds_prove_the_optimum_of_all_rows(tuned, text, loss, method, sizes):
    X, y = text
    cost = np.random.default_rng(0).uniform(0.1, 1.0, len(y))
    parts = LocalPartitions(binary_parts(X, y, cost, loss, sizes))
    problem = PartitionedProblem(parts, parts.problems[0], float(cost.sum()))
    result = solve(problem, solver=use(tuned, method), tol=1e-5, max_iter=5000)
    assert result.converged
    assert (result.n_newton > 0) == (method != "sweeps")
    alpha = np.concatenate([part.kept if result.alpha.kept else part.alpha for part in parts.parts])
    primal, dual = primal_and_dual(X, y, cost, loss, result.w, alpha)
    np.testing.assert_allclose([result.primal, result.dual], [primal, dual], rtol=1e-9)
    assert primal - dual <= 1.001e-5 * primal
    whole = solve(library_problem(X, y, cost, loss, 1.0), tol=1e-7)
    assert abs(whole.primal - primal) <= whole.gap + (primal - dual) + 1e-12 * primal


@pytest.mark.parametrize(("tol", "number"), [(1e-3, np.float32), (1e-5, np.float64)])
def test_rounds_are_as_precise_as_tol_asks_for_and_certificates_exact(text, tol, number):
    X, y = text
    cost = np.full(len(y), 0.5)
    parts = LocalPartitions(binary_parts(X, y, cost, "hinge", (300, 300, 300)))
    numbers, ask = set(), parts.ask

    def noted(question, *sent, **how):
        answer = ask(question, *sent, **how)
        if question is Partition.advance:
            numbers.update((sent[0].dtype, answer.weights.dtype))
        return answer

    parts.ask = noted
    problem = PartitionedProblem(parts, parts.problems[0], float(cost.sum()))
    result = solve(problem, solver="sweep", tol=tol, max_iter=5000)
    assert result.converged
    assert numbers == {np.dtype(number)}
    alpha = np.concatenate([part.kept if result.alpha.kept else part.alpha for part in parts.parts])
    primal, dual = primal_and_dual(X, y, cost, "hinge", result.w, alpha)
    np.testing.assert_allclose([result.primal, result.dual], [primal, dual], rtol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-32, 1e45])  # weights of 1e32, and of 1e-45
def test_weights_that_float32_cannot_hold(text, scale):
    X, y = text
    cost = np.full(len(y), 0.5 / scale**2)
    parts = LocalPartitions(binary_parts(scale * X, y, cost, "hinge", (300, 300, 300), bias=0.0))
    problem = PartitionedProblem(parts, parts.problems[0], float(cost.sum()))
    result = solve(problem, solver="sweep", tol=1e-3, max_iter=5000)
    assert result.converged
    whole = solve(library_problem(X, y, np.full(len(y), 0.5), "hinge", 0.0), tol=1e-7)
    assert whole.primal * (1 - 1e-6) <= result.primal * scale**2 <= whole.primal * (1 + 1.001e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_part_is_rounds_of_sweeps_over_all_rows(text, loss):
    """With one partition and rho = 1, a round sweeps the problem itself from its own weights."""
    X, y = text
    problem = library_problem(X, y, np.full(len(y), 0.5), loss, 1.0)
    part, w = Partition(problem, "cyclic", (0,)), problem.zero_weights()
    alpha, grads = problem.zero_alpha(), np.empty(len(y))
    order = np.arange(len(y))
    for _ in range(2):
        answered = part.advance(problem, w, rho=1.0).weights
        for _ in range(3):
            problem.sweep(False, order, alpha, w, grads, grads.copy(), grads.copy())
        np.testing.assert_allclose(part.alpha, alpha, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(answered, w, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_many_classes_in_parts(tuned, joint, method):
    X, y = make_text_like(
        600, 80, mean_length=10, n_classes=4, noise=0.1, dtype=np.float64, random_state=2
    )
    y = np.unique(y, return_inverse=True)[1]
    cost = np.full(len(y), 0.3)

    def problem(rows):
        passes = passes_over(as_rows(X[rows], 1.0), Workers())
        return MulticlassProblem(passes, passes.sqnorms(), y[rows], cost[rows], joint, 4)

    parts = LocalPartitions(
        [problem(slice(0, 250)), problem(slice(250, 260)), problem(slice(260, 600))]
    )
    whole = problem(slice(None))
    in_parts = PartitionedProblem(parts, parts.problems[0], whole.primal_at_zero)
    found = solve(in_parts, solver=use(tuned, method), tol=1e-4)
    assert (found.n_newton > 0) == (method != "sweeps")
    best = solve(whole, tol=1e-6)
    assert found.converged
    assert abs(found.primal - best.primal) <= best.gap + found.gap
    pairs = zip(parts.parts, parts.problems, strict=True)
    weights = sum(part.weights(problem).weights for part, problem in pairs)
    np.testing.assert_allclose(found.w, weights, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("method", METHODS)
def test_a_certificate_is_right_whenever_a_part_is_lost(tuned, text, method, seed):
    """Lose partitions before any question, also in the middle of a certificate."""
    X, y = text
    rng = np.random.default_rng(seed)
    cost = np.full(len(y), 0.2)
    when = set(rng.integers(2, 12, size=3).tolist())

    def lose(t):
        return int(rng.integers(3)) if t in when else None

    loss = ("hinge", "squared_hinge")[seed % 2]
    parts = LocalPartitions(binary_parts(X, y, cost, loss, (300, 300, 300)), lose=lose)
    problem = PartitionedProblem(parts, parts.problems[0], float(cost.sum()))
    # Some end early, some with a proof.
    solver = use(tuned, method)
    result = solve(problem, solver=solver, tol=1e-3, max_iter=(2000, 15)[seed % 4 == 0])
    kept = result.alpha.kept
    pairs = zip(parts.parts, parts.problems, strict=True)
    alpha = np.concatenate([part.duals(problem, kept) for part, problem in pairs])
    primal, dual = primal_and_dual(X, y, cost, loss, result.w, alpha)
    np.testing.assert_allclose([result.primal, result.dual], [primal, dual], rtol=1e-9)
    assert result.converged == (result.gap <= 1e-3 * result.primal)
    assert parts.restarts


def test_what_was_kept_is_not_what_goes_on(text):
    X, y = text
    parts = LocalPartitions(binary_parts(X, y, np.ones(len(y)), "hinge", (450, 450)))
    problem = PartitionedProblem(parts, parts.problems[0], float(len(y)))
    alpha = problem.zero_alpha()
    start = problem.zero_weights()
    first = parts.ask(Partition.advance, start, rho=0.5).weights
    kept = copy(alpha)
    parts.ask(Partition.advance, first, rho=0.5)
    w = problem.zero_weights()
    problem.fill_weights(kept, w)
    np.testing.assert_array_equal(w, first)
    problem.fill_weights(alpha, w)
    assert not np.array_equal(w, first)
    problem.fill_weights(problem.zero_alpha(), w)
    assert not w.any()


def test_rounds_on_rows_at_random():
    """Four partitions take 13 rounds; without multipliers (rho = 4) it is more than 100."""
    X, y = make_text_like(8000, 4000, mean_length=30, dtype=np.float64, random_state=0)
    y = np.where(y == y.max(), 1.0, -1.0)
    parts = LocalPartitions(binary_parts(X, y, np.ones(len(y)), "squared_hinge", (2000,) * 4))
    result = solve(PartitionedProblem(parts, parts.problems[0], float(len(y))))
    assert result.converged
    assert parts.n_rounds <= 20

"""Sweeps by slices: the mathematics of groups, and the same bits for any number of slices."""

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from moments import Interrupt

from dualsweep import LinearSVC, LinearSVR, svc_path
from dualsweep._random import random_state
from dualsweep._threads import Workers
from dualsweep.losses.protocol import dual_step
from dualsweep.problems.run import PointRun
from dualsweep.rows.layouts import as_rows
from dualsweep.rows.passes import passes_over
from dualsweep.rows.slices import magic_of, slice_rows, slices_of
from dualsweep.solvers import sliced
from dualsweep.solvers.sliced import Pace, SlicedSweeper, Spread, leading_directions
from dualsweep.solvers.solve import solve

every_loss = pytest.mark.parametrize("loss", naive.LOWER)
SWEEPS = {"solver": "sweep"}


@pytest.fixture
def small(tuned):
    """Let small problems have sliced sweeps."""
    tuned(SLICED_ENTRIES=0)


def text(n=600, d=300, per_row=12, seed=0, dtype=np.float64):
    """Rows like those of texts, and labels that a noisy linear rule gives."""
    rng = np.random.default_rng(seed)
    words = (np.exp(rng.random((n, per_row)) * np.log(d)) - 1).astype(int)
    X = sp.csr_matrix((np.ones(words.size), words.ravel(), np.arange(n + 1) * per_row), (n, d))
    X.sum_duplicates()
    X = sp.csr_matrix(sp.diags(1 / np.sqrt(X.multiply(X).sum(axis=1).A1)) @ X).astype(dtype)
    scores = X @ rng.normal(size=d)
    return X, np.where(scores + 0.5 * scores.std() * rng.normal(size=n) > 0, 1.0, -1.0)


def problem_of(X, y, loss="squared_hinge", workers=None, bias=1.0):
    cost = np.full(len(y), 1.0)
    problem = naive.library_problem(
        X, y, cost, loss, bias, np.random.default_rng(0).normal(size=len(y))
    )
    if workers is not None:
        object.__setattr__(problem, "passes", problem.passes.shared(workers))
    return problem


def sweeper_with(problem, n_slices, monkeypatch, bucket=2, **limits):
    """Return a run and a sweeper of so many slices, and so many rows in a bucket."""
    monkeypatch.setattr(sliced, "bucket_rows", lambda n, passes: bucket)
    run = PointRun(problem, tol=limits.pop("tol", 1e-6), **limits)
    state = random_state(3)
    numbers = np.random.default_rng(1).permutation(problem.candidates)
    found = leading_directions(problem.passes.rows, numbers[:50], state)
    return run, SlicedSweeper(run, (0,), n_slices, numbers, found)


def own_sweep(sweeper, problem, X, alpha, w):
    """What a sweep should do: margins of the weights before the group, and their corrections."""
    Z = sweeper.data.leading[:, 1:].astype(float)
    bias, y, b = problem.passes.rows.bias, problem.y, sweeper.bucket
    target = np.broadcast_to(np.asarray(problem.target), len(y))
    starts = sweeper.plan.starts
    for g in range(len(starts) - 1):
        buckets = sweeper.plan.order[starts[g] : starts[g + 1], None]
        places = (buckets * b + np.arange(b)).ravel()
        margins, before = y * (X @ w[:-1]), alpha.copy()
        last, c = w[-1], np.zeros(3)
        for k in sweeper.exchange.shuffled[g % sliced.N_ORDERS]:
            if k >= len(places) or places[k] >= len(y):
                continue
            t, i = places[k], sweeper.numbers[places[k]]
            slack = target[i] - (margins[i] + bias * y[i] * last + Z[t] @ c)
            args = problem.cost[i], alpha[i], slack, problem.sqnorm[i]
            new, _, _ = dual_step(problem.loss, *args)
            step, alpha[i] = new - alpha[i], new
            last, c = last + bias * y[i] * step, c + Z[t] * step
        w[:-1] += X.T @ (y * (alpha - before))
        w[-1] = last


@every_loss
@pytest.mark.parametrize(("n_slices", "bucket"), [(1, 1), (1, 8), (3, 2), (5, 4)])
def test_a_sweep_is_what_it_should_be(monkeypatch, loss, n_slices, bucket):
    X, y = text(n=301)
    problem = problem_of(X, y, loss, bias=0.5)
    run, sweeper = sweeper_with(problem, n_slices, monkeypatch, bucket)
    w, alpha = run.w.copy(), problem.zero_alpha()
    own = w.copy()
    for _ in range(3):
        sweeper.sweep(run, w)
        own_sweep(sweeper, problem, X, alpha, own)
        np.testing.assert_allclose(sweeper.alpha, alpha[sweeper.numbers], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(w, own, rtol=1e-9, atol=1e-10)


@every_loss
def test_gains_and_shares_are_those_of_the_naive_dual(monkeypatch, loss):
    X, y = text()
    problem = problem_of(X, y, loss, bias=0.5)
    oracle = naive.Naive(X.toarray(), problem.y, problem.cost, loss, 0.5, target=problem.target)
    run, sweeper = sweeper_with(problem, 2, monkeypatch)
    w = run.w.copy()
    alpha = problem.zero_alpha()
    for _ in range(4):
        before = oracle.dual(alpha)
        visits, gain = sweeper.sweep(run, w)
        alpha[sweeper.numbers] = sweeper.alpha
        assert gain == pytest.approx(oracle.dual(alpha) - before, rel=1e-9)
        assert visits == len(y)
        np.testing.assert_allclose(w, oracle.weights(alpha), rtol=1e-9, atol=1e-12)
    gap = oracle.gap(oracle.weights(alpha), alpha)
    assert 0.2 * gap < sweeper.seen < 5.0 * gap


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_any_number_of_slices_and_threads_gives_the_same_bits(small, monkeypatch, loss, dtype):
    X, y = text(dtype=dtype)
    X.indices[:], order = X.indices.copy(), np.random.default_rng(0)
    for i in range(len(y)):  # the entries of a row in any order
        part = slice(X.indptr[i], X.indptr[i + 1])
        turn = order.permutation(part.stop - part.start)
        X.indices[part], X.data[part] = X.indices[part][turn], X.data[part][turn]
    X.has_sorted_indices = False
    models = []
    for n in (2, 3, 4, 8, 16):
        monkeypatch.setattr(sliced, "count_slices", lambda passes, n=n: n)
        n = max(n, 4)  # with fewer threads, sweeps are plain
        model = LinearSVC(loss=loss, tol=1e-5, random_state=0, n_jobs=n, solver="sweep")
        models.append(model.fit(X, y))
    for model in models:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        np.testing.assert_array_equal(model.intercept_, models[0].intercept_)
        assert model.n_iter_ == models[0].n_iter_
        assert model.relative_gap_ <= 1e-5


def all_equal(n=400):
    X = sp.csr_matrix(np.tile(np.random.default_rng(0).normal(size=30), (n, 1)))
    return X, np.where(np.arange(n) % 3 == 0, 1.0, -1.0)


def rank_one(n=400):
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(np.outer(rng.normal(size=n), rng.normal(size=30)))
    return X, np.sign(rng.normal(size=n))


def blocks(n=400, k=8):
    """Rows that are equal within each of k blocks, one after the other, and orthogonal else."""
    X = sp.csr_matrix(np.repeat(np.eye(k), n // k, axis=0) * 3.0)
    return X, np.where(np.arange(n) % 5 == 0, 1.0, -1.0)


def one_class_after_the_other():
    X, y = text()
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def twins():
    """Every row occurs 20 times, too rarely for any eigenvalue to be large."""
    X, y = text(n=40)
    return sp.vstack([X] * 20).tocsr(), np.tile(y, 20)


@pytest.mark.parametrize("data", [all_equal, rank_one, blocks, one_class_after_the_other, twins])
@pytest.mark.parametrize("uncorrected", [0.5, 1e9])  # also where the rule allows large groups
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared"])
def test_data_built_to_break_groups_do_not(small, tuned, data, uncorrected, loss):
    tuned(UNCORRECTED=uncorrected)
    X, y = data()
    problem = problem_of(X, y, loss, Workers(4))
    assert sliced.suits(problem)
    found = solve(problem, **SWEEPS, tol=1e-4, max_iter=3000)
    plain = solve(problem_of(X, y, loss), **SWEEPS, tol=1e-4, max_iter=3000)
    assert found.converged
    assert plain.converged
    assert found.primal == pytest.approx(plain.primal, rel=3e-4)


def test_a_sweep_that_loses_is_undone_and_plain_sweeps_follow(tuned, monkeypatch):
    tuned(UNCORRECTED=1e9)
    X, y = blocks(n=2000, k=40)  # a group has a dozen rows of each block
    problem = problem_of(X, y, "squared_hinge")
    run, sweeper = sweeper_with(problem, 2, monkeypatch)
    w, sizes, duals = run.w.copy(), [], []
    while sweeper.plain is None:
        sizes.append(sweeper.plan.per_group)
        _, gain = sweeper.sweep(run, w)
        alpha = problem.zero_alpha()
        alpha[sweeper.numbers] = sweeper.alpha
        oracle = naive.Naive(X.toarray(), problem.y, problem.cost, "squared_hinge", 1.0)
        duals.append(oracle.dual(alpha))
        np.testing.assert_allclose(w, oracle.weights(alpha), rtol=1e-9, atol=1e-9)
        assert gain >= -1e-9
        if len(sizes) > 20:
            break
    assert (np.diff(duals) >= -1e-9).all()
    assert sizes[-1] < sizes[0]
    np.testing.assert_array_equal(sizes, np.sort(sizes)[::-1])


def test_plain_sweeps_go_on_where_groups_are_given_up(monkeypatch):
    X, y = text()
    problem = problem_of(X, y, "hinge")
    oracle = naive.Naive(X.toarray(), problem.y, problem.cost, "hinge", 1.0, target=problem.target)
    run, sweeper = sweeper_with(problem, 2, monkeypatch, tol=1e-3)
    w = run.w.copy()
    sweeper.sweep(run, w)
    while sweeper.plain is None:
        sweeper._shrink_groups(run)
    for _ in range(60):
        dual = oracle.dual(run.alpha)
        _, gain = sweeper.sweep(run, w)
        assert gain == pytest.approx(oracle.dual(run.alpha) - dual, rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(w, oracle.weights(run.alpha), rtol=1e-9, atol=1e-9)
    sweeper.check(run, expand=False)
    assert run.converged
    assert oracle.gap(run.w, run.alpha) <= 1e-3 * oracle.primal(run.w)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_momentum(small, tuned, loss):
    tuned(FIRST_MOMENTUM=4, WORTH_MOMENTUM=0.0)
    X, y = text(seed=2)
    how = {"loss": loss, "C": 100.0, "tol": 1e-5, "random_state": 0, "solver": "sweep"}
    model, plain = LinearSVC(n_jobs=4, **how).fit(X, y), LinearSVC(n_jobs=1, **how).fit(X, y)
    assert model.relative_gap_ <= 1e-5
    assert model.primal_objective_ == pytest.approx(plain.primal_objective_, rel=2e-5)


def test_weights_paths_regression_and_free_intercepts(small):
    X, y = text()
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, len(y)).astype(float)
    how = {"tol": 1e-5, "random_state": 0, "solver": "sweep"}
    for intercept in ("penalized", "free"):
        models = [
            LinearSVC(n_jobs=n, intercept=intercept, **how).fit(X, y, sample_weight=weight)
            for n in (1, 4)
        ]
        assert models[1].primal_objective_ == pytest.approx(models[0].primal_objective_, rel=2e-5)
    one, two = (svc_path(X, y, Cs=[0.1, 1.0, 10.0], n_jobs=n, **how) for n in (1, 4))
    for a, b in zip(one.models, two.models, strict=True):
        assert b.relative_gap_ <= 1e-5
        assert b.primal_objective_ == pytest.approx(a.primal_objective_, rel=2e-5)
    target = X @ rng.normal(size=X.shape[1])
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        a, b = (LinearSVR(loss=loss, n_jobs=n, **how).fit(X, target) for n in (1, 4))
        assert b.relative_gap_ <= 1e-5
        assert b.primal_objective_ == pytest.approx(a.primal_objective_, rel=2e-5)


def test_interrupt_keeps_a_certified_model(small, monkeypatch):
    X, y = text()
    interrupt = Interrupt(monkeypatch, epoch=2)
    model = LinearSVC(tol=1e-9, random_state=0, n_jobs=4, solver="sweep")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert interrupt.epochs_after <= 2
    assert 0.0 < model.relative_gap_ < 1.0


@settings(max_examples=50)
@given(
    n=st.integers(2, 400),
    per_group=st.integers(1, 30),
    seed=st.integers(0, 99),
    scale=st.floats(0.0, 3.0),
)
def test_no_bucket_is_in_two_successive_groups(n, per_group, seed, scale):
    plan = Spread(np.arange(n), random_state(seed), per_group)
    plan.preference[:] = np.exp(scale * np.random.default_rng(seed).normal(size=n)).clip(0.05, 20)
    order, starts = plan.next_order(), plan.starts
    assert starts[0] == 0
    assert starts[-1] == len(order) <= n
    groups = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if len(starts) > 3:  # more than two groups
        for i in np.unique(order):
            assert (np.diff(np.sort(groups[order == i])) >= 2).all()
    else:
        assert len(np.unique(order)) == len(order)


def test_buckets_are_visited_as_often_as_preferred():
    plan = Spread(np.arange(300), random_state(0), 2)
    plan.preference[:] = np.where(np.arange(300) < 30, 8.0, 1.0)
    counts = sum(np.bincount(plan.next_order(), minlength=300) for _ in range(200)) / 200
    wanted = plan.preference * 300 / plan.preference.sum()
    np.testing.assert_allclose(counts[:30].mean(), wanted[:30].mean(), rtol=0.03)
    np.testing.assert_allclose(counts[30:].mean(), wanted[30:].mean(), rtol=0.03)


@settings(max_examples=50)
@given(st.integers(0, 1000), st.integers(1, 12), st.floats(-250, 250))
def test_sums_of_rounded_products_are_exact_in_any_order(seed, n_parts, exponent):
    rng = np.random.default_rng(seed)
    scale = 2.0 ** round(exponent)
    products = scale * rng.normal(size=97) * 10.0 ** rng.integers(-12, 1, 97)
    reach = np.abs(products).sum()
    magic = magic_of(reach)
    rounded = (products + magic) - magic
    assert np.abs(rounded - products).max() <= 2.0**-48 * reach
    parts = np.array_split(rng.permutation(rounded), n_parts)
    assert sum(part.sum() for part in parts) == rounded.sum() == rounded[::-1].cumsum()[-1]


def test_slices_hold_the_rows():
    X, y = text(n=77)
    passes = passes_over(as_rows(X, 1.0), Workers())
    numbers = np.random.default_rng(0).permutation(77)[:60]
    slices = slices_of(np.bincount(X.indices, minlength=X.shape[1]), 5)
    assert (np.diff(slices.astype(int)) >= 0).all()
    assert all((slices[j - j % 16] == slices[j]) for j in range(len(slices)))
    rows = slice_rows(passes, numbers, y, 4, slices, 5)
    found = np.zeros((60, X.shape[1]))
    for s in range(5):
        for t in range(60):
            part = slice(rows.starts[s, t], rows.starts[s, t + 1])
            features, places = rows.indices[part] & (2**29 - 1), rows.indices[part] >> 29
            assert (slices[features] == s).all()
            assert (places == t % 4).all()
            found[t, features] = rows.data[part]
    np.testing.assert_array_equal(found, y[numbers, None] * X[numbers].toarray())


def test_leading_directions_are_singular_vectors():
    X, _ = text(n=200)
    rows = as_rows(X, 1.0)
    found = leading_directions(rows, np.arange(200), random_state(0))
    _, values, vectors = np.linalg.svd(X.toarray())
    overlap = np.abs((found.vectors[:, 0] * vectors[0]).sum())
    assert overlap == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=0), 1.0, rtol=1e-5)
    assert found.left == pytest.approx(values[3] ** 2 / 200, rel=0.3)
    assert found.left <= values[3] ** 2 / 200 * (1 + 1e-9)
    np.testing.assert_array_equal(found.counts, np.bincount(X.indices, minlength=X.shape[1]))


def test_fewer_threads_sweep_while_some_have_no_core():
    pace = Pace(8)
    for _ in range(3):
        pace.judge(1e-9)
    assert pace.wanted == 8
    pace.judge(5e-9)  # five times as long as the fastest part
    assert pace.wanted == 4
    pace.judge(6e-9)  # four threads are slower still
    assert pace.wanted == 8
    pace.judge(7e-9)
    assert pace.wanted == 4
    for _ in range(100):
        pace.judge(1.5e-9)
        if pace.wanted == 8:
            break
    assert pace.wanted == 8
    for _ in range(10):
        pace.judge(1e-7)
    assert pace.wanted <= 2


def test_who_has_sliced_sweeps(tuned):
    X, y = text()
    tuned(SLICED_ENTRIES=X.nnz)
    assert sliced.suits(problem_of(X, y, workers=Workers(4)))
    assert not sliced.suits(problem_of(X, y, workers=Workers(3)))
    assert not sliced.suits(problem_of(X.toarray(), y, workers=Workers(4)))
    tuned(SLICED_ENTRIES=X.nnz + 1)
    assert not sliced.suits(problem_of(X, y, workers=Workers(4)))

"""One sweep and one certificate against the naive loop, visit by visit."""

from fractions import Fraction
from itertools import product

import exact
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualsweep._jit import jit
from dualsweep.kernels import certificate
from dualsweep.kernels.binary import (
    add_weights,
    copy_nonzero,
)
from dualsweep.kernels.certificate import sum_losses
from dualsweep.kernels.elementary import quick_exp, quick_log
from dualsweep.kernels.scaling import best_multiple, rescale
from dualsweep.losses import Box, protocol
from dualsweep.rows.layouts import as_rows

N_ROWS, N_FEATURES = 30, 7
EXAMPLES = settings(deadline=None, derandomize=True, max_examples=200)
every_loss = pytest.mark.parametrize("loss", naive.LOWER)
every_layout = pytest.mark.parametrize("layout", naive.LAYOUTS)
every_bias = pytest.mark.parametrize("bias", [0.0, 1.5])
every_target = pytest.mark.parametrize(
    "target", [1.0, np.random.default_rng(5).normal(size=N_ROWS)], ids=["classes", "targets"]
)


def setup(loss, layout="dense", bias=1.5, seed=0, decades=6, target=1.0, **options):
    """The same random problem for both sides; costs span `decades` orders of magnitude."""
    X, y = naive.random_data(N_ROWS, N_FEATURES, seed)
    exponent = np.random.default_rng(seed).permutation(np.linspace(-0.5, 0.5, N_ROWS))
    cost = 10.0 ** (decades * exponent)
    problem = naive.library_problem(naive.LAYOUTS[layout](X), y, cost, loss, bias, target)
    return naive.Naive(X, y, cost, loss, bias, target=target, **options), problem


def feasible_alpha(oracle, seed=0):
    """Dual variables at the bounds and between them."""
    rng = np.random.default_rng(seed)
    alpha = rng.exponential(size=N_ROWS) * (rng.random(N_ROWS) < 0.7)
    if naive.LOWER[oracle.loss] < 0.0:
        alpha *= rng.choice([-1.0, 1.0], N_ROWS)
    return np.clip(alpha, *(bound.astype(float) for bound in (oracle.lower, oracle.upper)))


def run_sweep(problem, order, alpha, w):
    grads, gains = np.full(len(order), np.nan), np.full(len(order), np.nan)
    shares = np.full(len(alpha), np.nan)
    gain, seen = problem.sweep(False, order, alpha, w, grads, gains, shares)
    np.testing.assert_allclose(seen, shares.sum(), rtol=1e-12, atol=1e-300)
    return gain, grads, gains, shares


@every_loss
@every_layout
@every_bias
@every_target
@pytest.mark.parametrize("start", ["zero", "feasible"])
def test_a_sweep_equals_the_naive_loop(loss, layout, bias, target, start):
    oracle, problem = setup(loss, layout, bias, target=target)
    alpha = feasible_alpha(oracle) if start == "feasible" else np.zeros(N_ROWS)
    w = oracle.weights(alpha)
    naive_alpha, naive_w = alpha.copy(), w.copy()
    rng = np.random.default_rng(1)
    order = np.concatenate([rng.permutation(N_ROWS), rng.integers(N_ROWS, size=N_ROWS)])
    shares, seen = [], []
    for i in order:
        shares.append(oracle.share(i, naive_alpha, naive_w))
        seen.append(oracle.visit(i, naive_alpha, naive_w))

    total_gain, grads, gains, latest = run_sweep(problem, order, alpha, w)

    def assert_close(found, expected):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)

    assert_close(alpha, naive_alpha)
    assert_close(w, naive_w)
    assert_close(grads, [grad for grad, _ in seen])
    assert_close(gains, [gain for _, gain in seen])
    assert_close(total_gain, sum(gain for _, gain in seen))
    last_seen = dict(zip(order, shares, strict=True))
    assert_close(latest, [last_seen[i] for i in range(N_ROWS)])


@every_loss
def test_a_gain_is_the_change_of_the_dual(loss):
    oracle, problem = setup(loss, exact=True)
    alpha = feasible_alpha(oracle)
    w = oracle.weights(alpha).astype(np.float64)
    before = oracle.dual(alpha)
    for i in np.random.default_rng(1).permutation(N_ROWS):
        total, _, gains, _ = run_sweep(problem, np.array([i]), alpha, w)
        after = oracle.dual(alpha)
        assert total == gains[0]
        assert gains[0] == pytest.approx(float(after - before), rel=1e-9, abs=1e-12)
        before = after


@every_loss
def test_a_gain_is_zero_if_and_only_if_alpha_stayed(loss):
    oracle, problem = setup(loss, decades=1)
    alpha = oracle.optimum()
    w = oracle.weights(alpha)
    stayed = moved = 0
    for i in np.tile(np.arange(N_ROWS), 20):
        old = alpha[i]
        _, _, (gain,), _ = run_sweep(problem, np.array([i]), alpha, w)
        assert gain >= 0.0
        assert (gain == 0.0) == (alpha[i] == old)
        stayed, moved = stayed + (gain == 0.0), moved + (gain > 0.0)
    assert stayed > 0
    assert moved > 0


@pytest.mark.parametrize(
    ("loss", "cost", "w"),
    [("hinge", 9.0, 1 - 2**-53), ("squared_hinge", 0.5, -(2**-51)), ("squared", 0.5, -(2**-51))],
)
def test_a_move_without_measurable_gain_is_no_stay(loss, cost, w):
    """Half an ulp is the best step here; a whole one, to which it is rounded, gains nothing."""
    problem = naive.library_problem(np.ones((1, 1)), np.ones(1), cost, loss)
    alpha = np.array([1 + 2**-52])
    _, _, (gain,), _ = run_sweep(problem, np.array([0]), alpha, np.array([w, 0.0]))
    assert alpha[0] == 1 + 2**-51
    assert 0.0 < gain < 1e-300


@every_layout
def test_a_zero_row_goes_to_its_upper_bound_under_the_hinge_loss(layout):
    X, y = np.zeros((2, 3)), np.array([1.0, -1.0])
    problem = naive.library_problem(naive.LAYOUTS[layout](X), y, [2.0, 5.0], "hinge")
    alpha, w = np.array([0.0, 1.0]), np.zeros(4)
    gain, grads, gains, shares = run_sweep(problem, np.arange(2), alpha, w)
    np.testing.assert_array_equal(alpha, [2.0, 5.0])
    np.testing.assert_array_equal(w, 0.0)
    np.testing.assert_array_equal(grads, -1.0)
    np.testing.assert_array_equal(gains, [2.0, 4.0])
    np.testing.assert_array_equal(shares, [2.0, 4.0])
    assert gain == 6.0


def test_a_zero_row_goes_to_the_bound_that_its_target_is_for():
    """Under the hinge loss; where the target is 0, one dual variable is as good as another."""
    target, cost = np.array([3.0, 0.0, -1.0]), np.full(3, 2.0)
    problem = naive.library_problem(np.zeros((3, 2)), np.ones(3), cost, "hinge", target=target)
    alpha = np.ones(3)
    _, grads, gains, shares = run_sweep(problem, np.arange(3), alpha, np.zeros(3))
    np.testing.assert_array_equal(alpha[[0, 2]], [2.0, 0.0])
    assert 0.0 <= alpha[1] <= 2.0
    np.testing.assert_array_equal(grads, -target)
    np.testing.assert_allclose(gains, [3.0, 0.0, 1.0], atol=1e-300)
    np.testing.assert_array_equal(shares, [3.0, 0.0, 1.0])


def test_an_empty_order_changes_nothing():
    oracle, problem = setup("hinge")
    alpha = feasible_alpha(oracle)
    w = oracle.weights(alpha)
    before = alpha.copy(), w.copy()
    assert run_sweep(problem, np.empty(0, dtype=np.int64), alpha, w)[0] == 0.0
    np.testing.assert_array_equal(alpha, before[0])
    np.testing.assert_array_equal(w, before[1])


@every_loss
def test_float32_weights_follow_float64_weights(loss):
    oracle, problem = setup(loss)
    alphas = [np.zeros(N_ROWS), np.zeros(N_ROWS)]
    for alpha, dtype in zip(alphas, (np.float32, np.float64), strict=True):
        w = np.zeros(problem.weights_shape, dtype)
        run_sweep(problem, np.arange(N_ROWS), alpha, w)
        assert w.dtype == dtype
        np.testing.assert_allclose(w, oracle.weights(alpha), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(*alphas, rtol=1e-3, atol=1e-3)


@every_loss
@every_layout
@every_bias
@every_target
@pytest.mark.parametrize("seed", range(3))
def test_certificate_equals_the_naive_one(loss, layout, bias, target, seed):
    oracle, problem = setup(loss, layout, bias, seed, target=target)
    alpha = feasible_alpha(oracle, seed)
    w, primal, gap, slack = naive.certified(problem, alpha)
    np.testing.assert_allclose(w, oracle.weights(alpha), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(slack, target - oracle.Z @ w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(primal, oracle.primal(w), rtol=1e-13)
    np.testing.assert_allclose(gap, oracle.gap(w, alpha), rtol=1e-11)
    assert gap > 0.0


@every_loss
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_certificate_totals_add_up_over_chunks_of_rows(tuned, loss, chunk):
    tuned(CHUNK=chunk)
    oracle, problem = setup(loss)
    alpha, rows = feasible_alpha(oracle), np.arange(N_ROWS)
    w = oracle.weights(alpha)
    totals = problem.totals(alpha, w, np.sqrt(w @ w), np.empty(N_ROWS))
    losses = oracle.primal(w) - w @ w / 2
    shares = sum(oracle.share(i, alpha, w) for i in rows)
    lengths = np.abs(alpha) @ np.sqrt((oracle.Z**2).sum(axis=1))
    places = [certificate.LOSSES, certificate.SHARES, certificate.SEEN, certificate.LENGTHS]
    np.testing.assert_allclose(totals[places], [losses, shares, shares, lengths], rtol=1e-11)
    assert totals[certificate.CALLS] == 1.0
    assert totals[certificate.DRIFT] == 0.0
    assert 0.0 < totals[certificate.SPREAD] < 1e-12 * losses


@every_loss
def test_certificate_leaves_out_rows_that_are_no_candidates(loss):
    """Rows without cost are not part of the problem, and are not divided by."""
    X, y = naive.random_data(N_ROWS, N_FEATURES)
    cost = np.where(np.arange(N_ROWS) % 3 == 0, 0.0, 2.0)
    candidates = np.flatnonzero(cost)
    problem = naive.library_problem(X, y, cost, loss)
    oracle = naive.Naive(X[candidates], y[candidates], 2.0, loss)
    alpha = np.where(cost > 0, 0.5, 0.0)
    w, primal, gap, _ = naive.certified(problem, alpha, candidates)
    np.testing.assert_allclose(primal, oracle.primal(w), rtol=1e-13)
    np.testing.assert_allclose(gap, oracle.gap(w, alpha[candidates]), rtol=1e-12)


@every_loss
@pytest.mark.parametrize("step", [1e-6, 1e-8])
def test_tiny_gaps_keep_their_relative_precision(loss, step):
    """Near the optimum of a quadratic loss the gap is about step^2, far below primal * eps."""
    X, y = naive.random_data(12, 5)
    alpha = naive.Naive(X, y, 1.0, loss, 1.0).optimum()
    exact = naive.Naive(X, y, 1.0, loss, 1.0, exact=True)
    free = (alpha > exact.lower) & (alpha < np.asarray(exact.upper, dtype=float))
    alpha[free] *= 1 + step * np.random.default_rng(0).choice([-1, 1], free.sum())
    w, primal, gap, _ = naive.certified(naive.library_problem(X, y, 1.0, loss, 1.0), alpha)
    truth = float(exact.gap(w, alpha))
    assert 0 < truth < 1e3 * (step**2 if naive.HAS_DIAGONAL[loss] else step) * primal
    np.testing.assert_allclose(gap, truth, rtol=1e-6)


def test_weights_of_a_certificate_take_all_dual_variables():
    X, y = naive.random_data(5, 3)
    alpha = np.array([-1.0, 1.0, 0.0, -0.5, 2.0])
    w, *_ = naive.certified(naive.library_problem(X, y, 1.0, "squared", 1.5), alpha)
    np.testing.assert_allclose(w, naive.Naive(X, y, 1.0, "squared", 1.5).weights(alpha))


def gap_with_rounding(oracle, alpha, w, slack):
    """The largest gap, row by row, of slacks that round to `slack` and weights that round to w.

    Rows are dense, and the loss has no diagonal.
    """
    n, d = oracle.Z.shape
    norm = naive.row_lengths(oracle.Z)
    error = d * naive.EPS * np.sqrt(w @ w) * norm + naive.EPS * np.abs(slack)
    shares = np.array(
        [
            [c * exact.LOSSES[oracle.loss](s) - a * s + d * a**2 / 2 for s in (end, start)]
            for c, a, d, end, start in zip(
                oracle.cost, alpha, oracle.diag, slack - error, slack + error, strict=True
            )
        ]
    )
    drift = n * naive.EPS * (np.abs(alpha) @ norm)
    return shares.max(axis=1).sum() + drift**2 / 2


def assert_no_less_than_exact(gap, X, y, cost, loss, w, alpha):
    assert Fraction(gap) >= naive.Naive(X, y, cost, loss, exact=True).gap(w, alpha)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("room", [0.0, 1e15])
def test_certificate_allows_for_the_rounding_of_slacks(scale, room):
    """All margins are 1, but for rounding, which costs make matter."""
    X = scale * (np.eye(6, 9) + 0.1 * np.random.default_rng(0).normal(size=(6, 9)))
    y = np.array([1.0, -1.0] * 3)
    Z = y[:, None] * X
    alpha = np.linalg.solve(Z @ Z.T, np.ones(6))
    assert (alpha > 0).all()
    cost = alpha + room
    oracle = naive.Naive(X, y, cost, "hinge")
    w, _, gap, slack = naive.certified(naive.library_problem(X, y, cost, "hinge"), alpha)
    assert np.abs(slack).max() < 1e-14
    assert_no_less_than_exact(gap, X, y, cost, "hinge", w, alpha)
    assert gap == pytest.approx(gap_with_rounding(oracle, alpha, w, slack), rel=1e-6, abs=0.0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
def test_certificate_allows_for_the_rounding_of_weights(scale):
    """All rows are there for both labels: the weights are 0, but for rounding, and all shares."""
    rng = np.random.default_rng(0)
    half, cost = scale * rng.normal(size=(7, 3)), 10.0 ** rng.uniform(-2, 2, 7)
    X, y, alpha = np.vstack([half, half]), np.repeat([1.0, -1.0], 7), np.tile(cost, 2)
    w, _, gap, slack = naive.certified(naive.library_problem(X, y, alpha, "hinge"), alpha)
    assert 0 < gap < 1e-20 * scale**2 * alpha.sum() ** 2
    assert_no_less_than_exact(gap, X, y, alpha, "hinge", w, alpha)
    oracle = naive.Naive(X, y, alpha, "hinge")
    assert gap == pytest.approx(gap_with_rounding(oracle, alpha, w, slack), rel=1e-9, abs=0.0)


def exact_share(a, slack, loss, cost):
    """Return cost * loss - (a * slack - D a^2 / 2) in fractions."""
    oracle = naive.Naive(np.zeros((1, 1)), np.ones(1), [cost], loss, exact=True)
    a, slack = naive.to_fractions([a, slack])
    value = naive.LOSS_OF_MARGIN[loss](1 - slack) * oracle.cost[0]
    return value - (a * slack - oracle.kink * abs(a) - oracle.diag[0] * a**2 / 2)


# The functions of a loss as kernels have them.


@jit
def best_dual(loss, cost, slack):
    return protocol.best_dual(loss, cost, slack)


@jit
def gap_share(loss, cost, a, slack):
    return protocol.gap_share(loss, cost, a, slack)


@jit
def certified_share(loss, cost, a, slack, error):
    return protocol.certified_share(loss, cost, a, slack, error)


@jit
def dual_step(loss, cost, a, slack, sqnorm):
    return protocol.dual_step(loss, cost, a, slack, sqnorm)


@jit
def proximal_dual(loss, cost, v, rho):
    return protocol.proximal_dual(loss, cost, v, rho)


@jit
def is_settled(loss, cost, a, slack, reach):
    return protocol.is_settled(loss, cost, a, slack, reach)


@EXAMPLES
@given(
    st.sampled_from(sorted(naive.LOWER)),
    st.floats(0.0, 1.0),
    st.floats(-100.0, 100.0).filter(lambda slack: abs(slack) > 1e-3),
    st.integers(-12, 12),
)
def test_gap_share_is_the_loss_above_its_bound(loss, part, slack, exponent):
    cost = 4.0**exponent
    a = part * cost
    share = gap_share(naive.numbers(loss), cost, a, slack)
    truth = float(exact_share(a, slack, loss, cost))
    # a share that is small because a is near its best is quadratic in that distance
    assert share == pytest.approx(truth, rel=1e-9, abs=1e-15 * cost * slack**2)


@every_loss
def test_gap_share_is_not_negative(loss):
    """Where a is a few ulps from its best, the share is a product of two rounding errors."""
    rng = np.random.default_rng(0)
    box = naive.numbers(loss)
    for _ in range(2000):
        slack, cost = rng.uniform(0.1, 10), 10.0 ** rng.uniform(-3, 3)
        best = a = best_dual(box, cost, slack)
        for _ in range(rng.integers(4)):
            a = np.nextafter(a, 0.0)
        share = gap_share(box, cost, a, slack)
        assert share >= -((4 * np.finfo(float).eps) ** 2) * best * slack


@every_loss
def test_losses_are_those_of_the_margins(loss):
    rng = np.random.default_rng(0)
    slack, cost = 3 * rng.normal(size=50), 10.0 ** rng.uniform(-3, 3, 50)
    expected = cost @ naive.LOSS_OF_MARGIN[loss](1 - slack)
    assert sum_losses(slack, cost, naive.numbers(loss)) == pytest.approx(expected, rel=1e-12)


BOXES = [Box(*numbers) for numbers in product((-2.0, 0.0), (1.0, 3.0), (0.0, 0.5), (0.0, 0.5))]
every_box = pytest.mark.parametrize("loss", [*BOXES, *map(naive.numbers, naive.LOWER)], ids=str)
every_cost = pytest.mark.parametrize("cost", [0.25, 4.0])
SLACKS = (-4.0, -1.0, -0.1, 0.0, 0.1, 1.0, 4.0)


def values_of(loss, cost):
    """Many dual variables, from bound to bound, and the conjugate of each by its formula."""
    b = cost * np.linspace(max(loss.lower, -10.0), min(loss.upper, 10.0), 1201)
    return b, loss.kink * np.abs(b) + loss.diag / cost * b**2 / 2


@every_box
@every_cost
def test_losses_are_the_most_that_the_box_allows(loss, cost):
    """The best of many b in the box, and its excess over each of them."""
    b, conjugate = values_of(loss, cost)
    assert protocol.dual_bounds(loss, cost) == (cost * loss.lower, cost * loss.upper)
    for part in (1.0, 0.5, 3.0):
        linear, square = protocol.conjugate_parts(loss, cost, b[7])
        expected = loss.kink * abs(part * b[7]) + loss.diag / cost * (part * b[7]) ** 2 / 2
        assert part * linear + part**2 * square / 2 == pytest.approx(expected, rel=1e-14)
    for slack in SLACKS:
        value = b * slack - conjugate
        found = sum_losses(np.array([slack]), np.array([cost]), loss)
        assert found == pytest.approx(value.max(), rel=1e-4, abs=1e-6)
        best = best_dual(loss, cost, slack)
        assert best * slack - np.interp(best, b, conjugate) == pytest.approx(found, abs=1e-4)
        shares = [gap_share(loss, cost, a, slack) for a in b[::60]]
        np.testing.assert_allclose(shares, found - value[::60], rtol=1e-12, atol=1e-12)


@every_box
@every_cost
@pytest.mark.parametrize("sqnorm", [0.3, 7.0])
def test_a_dual_step_is_the_best_and_gains_what_it_says(loss, cost, sqnorm):
    b, conjugate = values_of(loss, cost)
    for a, slack in product(b[::120], SLACKS):
        value = sqnorm * (b - a) ** 2 / 2 - b * slack + conjugate
        new, _, gain = dual_step(loss, cost, a, slack, sqnorm)
        step = new - a
        change = sqnorm * step**2 / 2 - new * slack + a * slack
        for each, sign in ((new, 1.0), (a, -1.0)):
            change += sign * (loss.kink * abs(each) + loss.diag / cost * each**2 / 2)
        assert b[0] <= new <= b[-1]
        assert gain == pytest.approx(-change, rel=1e-9, abs=1e-12)
        before = -a * slack + loss.kink * abs(a) + loss.diag / cost * a**2 / 2
        assert before - gain <= value.min() + 1e-12


@every_box
@every_cost
def test_a_proximal_dual_variable_is_the_best_and_moves_as_it_says(loss, cost):
    b, conjugate = values_of(loss, cost)
    for v, rho in product(np.linspace(-5.03, 4.9, 30), (0.0, 0.7) if loss.smooth else (0.7, 3.0)):
        best, moves = proximal_dual(loss, cost, v, rho)
        found = best * v - loss.kink * abs(best) - (loss.diag / cost + rho) * best**2 / 2
        assert cost * loss.lower <= best <= cost * loss.upper
        assert found >= (b * v - conjugate - rho * b**2 / 2).max() - 1e-12
        above, below = (proximal_dual(loss, cost, v + h, rho)[0] for h in (1e-6, -1e-6))
        assert moves == pytest.approx((above - below) / 2e-6, rel=1e-6, abs=1e-6)


@every_box
@every_cost
def test_a_settled_dual_variable_is_the_best_of_all_slacks_within_reach(loss, cost):
    """With a kink but no negative side, some settled rows go unnoticed; none is settled wrongly."""
    all_noticed = loss.kink == 0.0 or loss.lower < 0.0
    b, _ = values_of(loss, cost)
    outcomes = set()
    for a, slack, reach in product((b[0], 0.0, b[17], b[-1]), np.linspace(-5, 5, 79), (0.03, 0.31)):
        ends = [best_dual(loss, cost, slack + sign * reach) for sign in (-1, 1)]
        best = ends == [a, a]
        settled = is_settled(loss, cost, a, slack, reach)
        assert best or not settled
        assert settled or not (best and all_noticed)
        outcomes.add(settled)
    assert outcomes == ({False} if loss == naive.numbers("squared") else {False, True})


@every_box
@every_cost
def test_certified_shares_hold_for_all_slacks_within_the_error(loss, cost):
    error, width = 1e-3, cost * (min(loss.upper, 10.0) - max(loss.lower, -10.0))
    places = (loss.kink, -loss.kink, 1.0 + loss.kink)  # where a loss may bend
    for a, slack in product(values_of(loss, cost)[0][::120], (*SLACKS, *places)):
        lost, spread, share, most = certified_share(loss, cost, a, slack, error)
        assert share == pytest.approx(max(gap_share(loss, cost, a, slack), 0.0), rel=1e-12)
        assert most <= share + 1.01 * width * error
        for part in (-1.0, -0.4, 0.0, 0.7, 1.0):
            there = slack + part * error
            found = sum_losses(np.array([there]), np.array([cost]), loss)
            assert abs(found - lost) <= (1 + 1e-9) * spread + 1e-300
            assert gap_share(loss, cost, a, there) <= (1 + 1e-15) * most + 1e-15 * cost


@every_box
def test_a_loss_on_arrays_is_that_of_each_row(loss):
    arrays, rng = loss.on_arrays(np), np.random.default_rng(0)
    cost, slack, error = rng.uniform(0.1, 4.0, 300), rng.normal(size=300), np.full(300, 1e-3)
    slack[::2] *= 4.0
    cost[::9] = 0.0  # rows that are not part of the problem
    low, high = max(loss.lower, -5.0), min(loss.upper, 5.0)
    b, rho = cost * rng.choice([low, 0.0, high, 0.3 * low + 0.7 * high], 300), 0.7
    best = arrays.best_dual(cost, slack)
    proximal = arrays.proximal_dual(cost, slack, 0.0 if loss.smooth else rho)
    computed, spread, seen, most = arrays.certified_share(cost, b, slack, error)
    found = np.array(
        [
            *(np.broadcast_to(bound, 300) for bound in arrays.bounds(cost)),
            best,
            arrays.losses(cost, slack, best),
            arrays.losses(cost, slack, best) - arrays.proven(cost, slack, b),
            *arrays.conjugate_parts(cost, b),
            *proximal,
            computed,
            seen,
        ]
    ).T
    used = cost > 0
    assert np.isfinite(found[~used][:, 2:]).all()
    for numbers, c, s, a in zip(found[used], cost[used], slack[used], b[used], strict=True):
        lost, share = (protocol.gap_share(loss, c, each, s) for each in (0.0, a))
        expected = [
            *protocol.dual_bounds(loss, c),
            best_dual(loss, c, s),
            lost,
            share,
            *protocol.conjugate_parts(loss, c, a),
            *proximal_dual(loss, c, s, 0.0 if loss.smooth else rho),
            lost,
            share,
        ]
        np.testing.assert_allclose(numbers, expected, rtol=1e-9, atol=1e-12)
    for part in (-1.0, -0.4, 0.7, 1.0):
        there = slack + part * error
        lost = arrays.losses(cost, there, arrays.best_dual(cost, there))
        assert (np.abs(lost - computed) <= (1 + 1e-9) * spread + 1e-15).all()
        assert (lost - arrays.proven(cost, there, b) <= most + 1e-14).all()


# ----------------------------------------------------------------------------- multiples and signs


@every_loss
@every_target
@pytest.mark.parametrize("ratio", [0.3, 2.0, 1e3])
def test_a_rescaled_point_is_the_best_multiple_within_the_box(loss, target, ratio):
    oracle, before = setup(loss, decades=1, target=target)
    alpha, w = feasible_alpha(oracle), np.empty(N_FEATURES + 1)
    slack = target - oracle.Z @ oracle.weights(alpha)
    problem = before.with_costs(ratio * before.cost)
    seen = problem.candidates
    out = np.empty(N_ROWS)
    known = problem.data, seen, alpha, oracle.weights(alpha)
    primal, dual = rescale(*known, seen, slack, out, w)

    X, y = naive.random_data(N_ROWS, N_FEATURES, 0)
    then = naive.Naive(X, y, problem.cost, loss, 1.5, target=target)
    moved = alpha != 0.0
    scales = out[moved] / alpha[moved]
    np.testing.assert_allclose(scales, scales[0], rtol=1e-12)
    assert ((out >= then.lower) & (out <= then.upper)).all()
    np.testing.assert_allclose(w, then.weights(out), atol=1e-12)
    assert primal == pytest.approx(float(then.primal(w)), rel=1e-11)
    assert dual == pytest.approx(float(then.dual(out)), rel=1e-11)
    for factor in (0.0, 0.5, 0.999, 1.001, 2.0):
        other = factor * out
        if ((other >= then.lower) & (other <= then.upper)).all():
            assert then.dual(other) <= then.dual(out) + 1e-12 * abs(dual)

    fewer = seen[1:]  # slacks of other rows are of no use, but the point is the same
    again = np.empty(N_ROWS)
    other_primal, _ = rescale(*known, fewer, slack[1:], again, w)
    assert np.isnan(other_primal)
    swapped = seen.copy()
    swapped[-1] = seen[0]
    other_primal, _ = rescale(*known, swapped, slack, again, w)
    assert np.isnan(other_primal)
    np.testing.assert_array_equal(again, out)


@pytest.mark.parametrize(
    ("total", "curvature", "room", "expected"),
    [
        (6.0, 2.0, np.inf, 3.0),
        (6.0, 2.0, 1.5, 1.5),
        (-6.0, 2.0, 1.5, 0.0),
        (6.0, 0.0, 1.5, 0.0),
        (1e300, 1e-300, 7.0, 0.0),  # overflow
        (np.nan, 1.0, 7.0, 0.0),
    ],
)
def test_the_best_multiple_is_0_where_it_is_undefined(total, curvature, room, expected):
    assert best_multiple(total, curvature, room) == expected


def test_weights_and_copies_are_those_of_numpy():
    rng = np.random.default_rng(0)
    alpha = rng.normal(size=N_ROWS) * (rng.random(N_ROWS) < 0.5)
    members = np.flatnonzero(rng.random(N_ROWS) < 0.7)
    y = rng.choice([-1.0, 1.0], N_ROWS)
    X = rng.normal(size=(N_ROWS, 4))
    expected = np.append(X[members].T @ (alpha * y)[members], 1.5 * (alpha * y)[members].sum())
    w = np.full(5, 2.0)
    add_weights(as_rows(X, 1.5), members, alpha, y, w)
    np.testing.assert_allclose(w, 2.0 + expected, rtol=1e-12)
    copy = np.zeros(N_ROWS)
    copy_nonzero(alpha, copy)
    np.testing.assert_array_equal(copy, alpha)


# The sums of a certificate


@pytest.mark.parametrize("n", [0, 1, 7, 8, 17, 200])
@pytest.mark.parametrize("scale", [1e-170, 1e-160, 1.0, 1e100])
@pytest.mark.parametrize("square", [certificate.squared_length, certificate.long_square])
def test_squares_are_rounded_up_by_a_little(square, scale, n):
    w = scale * np.random.default_rng(n).normal(size=n)
    exact = sum((Fraction(value) ** 2 for value in w.tolist()), Fraction(0))
    eps = Fraction(certificate.EPS)
    found = Fraction(float(square(w)))
    assert exact <= found <= exact * (1 + 6 * eps + (n * eps) ** 2) + n * Fraction(5e-324) * 2
    assert square(0.0 * w) == 0.0
    assert bool(found) == bool(n)


def test_squares_beyond_float64_are_not_finite():
    w = np.array([1e200, 1.0, -1e180])
    assert not np.isfinite([certificate.squared_length(w), certificate.long_square(w)]).any()


@pytest.mark.parametrize("compensated", [False, True])
def test_what_totals_prove(compensated):
    """The bounds of the module's docstring, in fractions, and nothing much wider."""
    rng, eps = np.random.default_rng(0), Fraction(certificate.EPS)
    for _ in range(50):
        n, distance = int(rng.integers(1, 10**7)), float(rng.choice([0.0, 1e-9, 0.1]))
        size, losses, spread, shares, seen, lengths, drift = 10.0 ** rng.uniform(-9, 3, 7)
        calls = float(rng.integers(1, 40))
        seen, losses = min(seen, shares), losses * float(rng.choice([0.0, 1.0]))
        totals = np.array([losses, spread, shares, seen, lengths, drift, calls])
        found = certificate.certified(size, totals, n, compensated=compensated, distance=distance)
        exact = [Fraction(float(value)) for value in (size, *totals, distance)]
        size_, losses_, spread_, shares_, _, lengths_, drift_, calls_, distance_ = exact
        primal = size_ / 2 + losses_
        blur = (2 * calls_ + certificate.OF_OBJECTIVE + (n * eps) * n) * eps * primal
        terms = calls_ + 2 + (n * eps) * n if compensated else Fraction(n)
        away = distance_ + drift_ + terms * eps * lengths_
        gap = shares_ + away**2 / 2
        assert primal + blur * Fraction(0.9) <= Fraction(found.primal) <= primal + 2 * blur
        assert gap <= Fraction(found.gap) <= gap * (1 + (2 * n + 40) * eps) + Fraction(1e-299)
        kept = Fraction(found.dual) + Fraction(found.gap)  # what is left of the primal at least
        positive = size_ / 2 * (1 - 4 * (calls_ + 8) * eps)
        assert max(primal - 3 * blur - 3 * spread_, positive) <= kept + 4 * eps * gap
        assert kept <= max(primal - blur / 2 - 2 * spread_, size_ / 2) + 4 * eps * (gap + primal)
        assert found.relative_gap == pytest.approx(found.gap / float(kept), rel=1e-6)
        assert found.seen == pytest.approx(seen / float(primal), rel=1e-12)


@pytest.mark.parametrize("compensated", [False, True])
def test_rounding_of_the_weights_alone(compensated):
    n, calls, lengths = 1000, 3.0, 2e9
    totals = np.array([1.0, 0.0, 0.0, 0.0, lengths, 0.0, calls])
    found = certificate.certified(1.0, totals, n, compensated=compensated)
    terms = calls + 2.0 + n * n * certificate.EPS if compensated else n
    assert found.gap == pytest.approx(0.5 * (terms * certificate.EPS * lengths) ** 2, rel=1e-9)


def test_nothing_is_nothing():
    assert certificate.certified(0.0, np.zeros(certificate.N_TOTALS), 5) == (0.0,) * 5


def test_gaps_relative_to_nothing():
    assert certificate.relative(-1.0, 0.0) == certificate.relative(0.0, 0.0) == 0.0
    assert certificate.relative(1e-3, 0.0) == certificate.relative(1e-3, -1.0) == np.inf
    assert certificate.relative(1e-3, 0.5) == 2e-3


@pytest.mark.parametrize("loss", naive.LOWER)
def test_rows_are_settled_within_their_reach(loss):
    X, y = naive.random_data(60, 5)
    problem = naive.library_problem(4.0 * X, y, 1.0, loss, 1.0)
    rng, members = np.random.default_rng(0), np.arange(0, 60, 2)
    lower, upper = (max(bound, -1.0) for bound in naive.numbers(loss)[:2])
    alpha = rng.choice([lower, 0.0, min(upper, 1.0)], 60)
    slack, out = rng.normal(size=30), np.empty(30, bool)
    certificate.settle_rows(problem.data, members, alpha, slack, 0.02, out)
    reach = 0.02 * np.sqrt(problem.sqnorm[members])
    expected = [
        protocol.is_settled(problem.loss, 1.0, a, s, r)
        for a, s, r in zip(alpha[members], slack, reach, strict=True)
    ]
    np.testing.assert_array_equal(out, expected)
    assert loss == "squared" or 0 < sum(expected) < 30


@jit
def quick_functions(x, exps, logs):
    for i in range(len(x)):
        exps[i] = quick_exp(x[i])
        logs[i] = quick_log(exps[i])


def test_kernels_of_quick_functions():
    """exp and log to some units in the last place, at the ends too."""
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-708, 709, 2000), rng.uniform(-1, 1, 2000), [0.0, -0.0, 1e-300]]
    )
    exps, logs = np.empty_like(x), np.empty_like(x)
    quick_functions(x, exps, logs)
    np.testing.assert_allclose(exps, np.exp(x), rtol=1e-15)
    np.testing.assert_allclose(logs, np.log(exps), rtol=1e-15)
    x = np.array([-708.1, -1e4, -1e308, -np.inf])
    quick_functions(x, exps, logs)
    assert not exps[:4].any()
    x = np.array([709.0, 1e4, np.inf])
    quick_functions(x, exps, logs)
    np.testing.assert_allclose(exps[:3], np.exp(709.0), rtol=1e-15)

"""Losses: row functions against their definitions, array functions against row functions."""

import naive
import numpy as np
import pytest

from dualsweep.losses import loss_at
from dualsweep.losses import protocol as rows

every_loss = pytest.mark.parametrize("name", naive.LOWER)


def points(name, n=105):
    """Costs, dual variables within their bounds and slacks; some at bounds, kinks and 0."""
    loss, rng = naive.numbers(name), np.random.default_rng(0)
    cost = rng.choice([0.3, 1.0, 4.0], n)
    lower, upper = loss.on_arrays(np).bounds(cost)
    a = np.clip(rng.normal(size=n) * cost, lower, upper)
    slack = rng.normal(size=n)
    slack[::7] = 0.0
    slack[1::7] = loss.kink * rng.choice([-1.0, 1.0], len(slack[1::7]))
    slack[2::7] = (loss.diag / cost * a + np.sign(a) * loss.kink)[2::7]  # that a is best for
    return loss, loss.on_arrays(np), cost, a, slack


def each(function, loss, *arrays):
    """Apply a function of a row to each row; return what it returns in columns."""
    return np.array([function(loss, *numbers) for numbers in zip(*arrays, strict=True)]).T


@every_loss
def test_functions_of_arrays_are_those_of_rows(name):
    loss, arrays, cost, a, slack = points(name)
    rho = np.full(len(a), 0.4)
    for bound, expected in zip(
        arrays.bounds(cost), each(rows.dual_bounds, loss, cost), strict=True
    ):
        np.testing.assert_array_equal(np.broadcast_to(bound, len(a)), expected)
    best = arrays.best_dual(cost, slack)
    np.testing.assert_allclose(best, each(rows.best_dual, loss, cost, slack), rtol=1e-15)
    np.testing.assert_allclose(
        arrays.losses(cost, slack, best), each(rows.row_loss, loss, cost, slack), atol=1e-15
    )
    p, q = each(rows.conjugate_parts, loss, cost, a)
    np.testing.assert_allclose(arrays.conjugate_parts(cost, a), (p, q), rtol=1e-15)
    np.testing.assert_allclose(arrays.proven(cost, slack, a), a * slack - p - q / 2, atol=1e-14)
    shares = each(rows.gap_share, loss, cost, a, slack)
    np.testing.assert_allclose(
        arrays.losses(cost, slack, best) - arrays.proven(cost, slack, a), shares, atol=1e-13
    )
    assert shares.min() >= -1e-15
    if loss.smooth:  # devices use no penalty then
        b, scale = each(rows.proximal_dual, loss, cost, slack, 0.0 * rho)
    else:
        b, scale = each(rows.proximal_dual, loss, cost, slack, rho)
    found = arrays.proximal_dual(cost, slack, rho)
    np.testing.assert_allclose(found[0], b, rtol=1e-15)
    np.testing.assert_allclose(found[1], scale, rtol=1e-15)
    assert loss_at(0.7, loss) == pytest.approx(rows.row_loss(loss, 1.0, 0.7), rel=1e-15)


@every_loss
def test_certified_shares_hold_for_all_slacks_within_the_error(name):
    loss, arrays, cost, a, slack = points(name)
    for size in (1e-3, 0.3):
        error = np.full(len(a), size)
        ones = each(rows.certified_share, loss, cost, a, slack, error)
        others = arrays.certified_share(cost, a, slack, error)
        for lost, spread, seen, most in (ones, others):
            np.testing.assert_allclose(lost, each(rows.row_loss, loss, cost, slack), atol=1e-14)
            exact = each(rows.gap_share, loss, cost, a, slack)
            np.testing.assert_allclose(seen, np.maximum(exact, 0.0), atol=1e-14)
            tight = most.copy()
            for t in np.linspace(-1.0, 1.0, 9):
                moved = slack + t * size
                shares = each(rows.gap_share, loss, cost, a, moved)
                assert (most >= shares - 1e-14).all()
                assert (
                    spread >= np.abs(each(rows.row_loss, loss, cost, moved) - lost) - 1e-14
                ).all()
                tight = np.minimum(tight, most - shares)
            assert (tight <= 2e-2 * cost + 4.0 * size**2 * cost).all()  # not much more than needed


@every_loss
def test_a_proximal_dual_is_best_and_has_this_slope(name):
    loss, _, cost, _, slack = points(name)
    rho, h = 0.4, 1e-6

    def value(b):
        p, q = each(rows.conjugate_parts, loss, cost, b)
        return b * slack - p - q / 2 - rho * b**2 / 2

    (b, scale), bounds = (
        each(rows.proximal_dual, loss, cost, slack, np.full(len(cost), rho)),
        each(rows.dual_bounds, loss, cost),
    )
    for nudge in (-1e-3, 1e-3):
        assert (value(b) >= value(np.clip(b + nudge, *bounds)) - 1e-15).all()
    ahead, _ = each(rows.proximal_dual, loss, cost, slack + h, np.full(len(cost), rho))
    behind, _ = each(rows.proximal_dual, loss, cost, slack - h, np.full(len(cost), rho))
    smooth = np.abs((ahead - b) - (b - behind)) < 1e-3 * h  # no kink between
    assert smooth.mean() > 0.5
    np.testing.assert_allclose(scale[smooth], ((ahead - behind) / (2 * h))[smooth], atol=1e-6)


@every_loss
def test_what_is_settled_is_best_for_all_slacks_within_reach(name):
    loss, _, cost, a, slack = points(name, 400)
    bounds, rng = each(rows.dual_bounds, loss, cost), np.random.default_rng(1)
    choices = np.where(np.isfinite([*bounds, 0.0 * a]), [*bounds, 0.0 * a], a)
    a = choices[rng.integers(0, 3, len(a)), np.arange(len(a))]
    reach = rng.choice([0.01, 0.3, 1.0], len(a))
    settled = each(rows.is_settled, loss, cost, a, slack, reach)
    expected = np.ones(len(a), bool)
    for t in np.linspace(-1.0, 1.0, 9):
        best = each(rows.best_dual, loss, cost, slack + t * reach)
        expected &= np.abs(best - a) <= 1e-12
    if loss.smooth:  # a dual variable inside its bounds moves with the slack
        expected &= (a == bounds[0]) | (a == bounds[1]) | (a == 0.0)
    np.testing.assert_array_equal(settled, expected)
    assert name == "squared" or 0.02 < settled.mean() < 0.9


@every_loss
def test_what_a_loss_tells_of_itself(name):
    loss = naive.numbers(name)
    assert loss.smooth == naive.HAS_DIAGONAL[name]
    assert loss.bounded == bool(np.isfinite(naive.UPPER[name]))
    assert loss.quadratic


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "squared"])
def test_a_loss_that_underflows_is_not_0(name):
    loss = naive.numbers(name)
    assert rows.row_loss(loss, 1.0, 1e-200) > 0.0
    assert (rows.row_loss(loss, 1.0, -1e-200) > 0.0) == (naive.LOWER[name] < 0.0)
    assert rows.row_loss(loss, 1.0, 0.0) == 0.0

"""Block steps against exact enumeration, in fractions, of all active sets."""

import sys
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from naive import exact_crammer_singer, exact_weston_watkins

from dualsweep.kernels.block_steps import (
    _crammer_singer_walk,
    _weston_watkins_walk,
    crammer_singer_level,
    sort_descending,
    weston_watkins_level,
)

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # steps to compare with

from steps import active_set, greedy
from steps.active_set import active_set_step
from steps.greedy import greedy_step


def ww_at(level):
    """A Weston-Watkins step from the level of its solution."""
    return lambda v, upper: np.clip(v - level(v, upper), 0.0, upper)


def cs_at(level):
    """A Crammer-Singer step from the level of its solution."""

    def step(v, upper):
        top = v.max()
        return np.maximum(v - top - level(v - top, top, upper), 0.0)

    return step


def by_active_set(joint):
    def step(v, upper):
        b = np.zeros_like(v)
        active_set_step(v, upper, joint, b)
        return b

    return step


WAYS = {
    "guesses": (
        ww_at(lambda v, upper: weston_watkins_level(v, len(v), upper, 0.0, np.empty_like(v))),
        cs_at(lambda v, top, upper: crammer_singer_level(v, len(v), top, upper, np.empty_like(v))),
    ),
    "walk": (
        ww_at(lambda v, upper: _weston_watkins_walk(v, len(v), upper, np.empty_like(v))),
        cs_at(
            lambda v, top, upper: (
                _crammer_singer_walk(v, len(v), top, upper, np.empty_like(v)) if top > 0 else 0.0
            )
        ),
    ),
    "active set": (by_active_set(joint=False), by_active_set(joint=True)),
}


@pytest.fixture(autouse=True, params=WAYS)
def way(request):
    """All ways to a step are tested: by guesses, by the walk they save, and by active sets."""
    global steps
    steps = WAYS[request.param]


def weston_watkins(v, upper):
    return steps[0](v, upper)


def crammer_singer(v, upper):
    return steps[1](v, upper)


entries = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, -1.0, 0.5, 1e-6, 1e6]),  # ties and repeated values
    st.floats(-10, 10),
    st.builds(lambda s, e: s * 10.0**e, st.sampled_from([-1, 1]), st.floats(-6, 6)),
)
BLOCKS = [(weston_watkins, exact_weston_watkins), (crammer_singer, exact_crammer_singer)]


@pytest.mark.parametrize(("step", "exact"), BLOCKS)
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(v=st.lists(entries, min_size=1, max_size=5), upper=st.one_of(entries, st.just(2.0)))
def test_agrees_with_enumeration(step, exact, v, upper):
    v, upper = np.array(v), abs(upper) or 1.0
    expected = exact(v, upper)
    size = max(np.abs(expected).max(), np.abs(v).max(initial=0) * 1e-4, 1e-300)
    np.testing.assert_allclose(step(v, upper), expected, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("k", [2, 3, 30, 1000])
@pytest.mark.parametrize("upper", [1e-6, 1e-2, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("kind", ["normal", "ties", "decades", "negative", "above"])
def test_optimality_conditions(k, upper, kind):
    rng = np.random.default_rng(k)
    v = {
        "normal": rng.normal(size=k - 1),
        "ties": rng.integers(-2, 3, k - 1).astype(float),
        "decades": 10.0 ** rng.uniform(-6, 6, k - 1),
        "negative": -rng.uniform(size=k - 1),
        "above": upper * (10 * k + rng.uniform(size=k - 1)),
    }[kind]
    tiny = 1e-12 * max(np.abs(v).max(), upper if kind == "above" else 0.0)

    b = weston_watkins(v, upper)
    slope = v - b - b.sum()
    assert (slope[b == 0] <= tiny).all()
    assert (slope[b == upper] >= -tiny).all()
    assert (np.abs(slope[(b > 0) & (b < upper)]) <= tiny).all()
    if kind == "negative":
        assert not b.any()
    if kind == "above":
        assert (b == upper).all()

    b = crammer_singer(v, upper)
    multiplier = max((v - b - b.sum()).max(), 0.0)
    slope = v - b - b.sum() - multiplier
    assert (np.abs(slope[b > 0]) <= tiny).all()
    assert b.sum() <= upper * (1 + 1e-12) + tiny
    assert multiplier <= tiny or b.sum() == pytest.approx(upper, rel=1e-9, abs=k * tiny)


@pytest.mark.parametrize("way", ["guesses"], indirect=True)
@pytest.mark.parametrize("k", [2, 5, 20])
def test_any_guess_leads_to_the_level_of_weston_watkins(k):
    """Which is where the sum of the dual variables is the level itself."""
    rng = np.random.default_rng(k)
    for _ in range(50):
        v, upper = rng.normal(1.0, 2.0, k), rng.uniform(0.1, 3.0)
        for guess in (0.0, v.max() - upper, v.max(), *rng.uniform(-1, 5, 5)):
            level = weston_watkins_level(v, k, upper, guess, np.empty(k))
            assert level == pytest.approx(np.clip(v - level, 0.0, upper).sum(), abs=1e-12)


@pytest.mark.parametrize("way", ["guesses", "walk"], indirect=True)
@pytest.mark.parametrize("upper", [0.1, 0.3, 1.7])
def test_what_came_and_went_under_weston_watkins_leaves_no_trace(upper):
    """All entries but one are far above: their sum is a thousand times what is left of it."""
    v = np.full(1000, 1e12)
    v[-1] = 999.5 * upper
    b = weston_watkins(v, upper)
    np.testing.assert_array_equal(b[:-1], upper)
    expected = float((Fraction(v[-1]) - 999 * Fraction(upper)) / 2)
    np.testing.assert_allclose(b[-1], expected, rtol=0, atol=4 * np.spacing(v[-1]))


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("k", [2, 3, 30, 300])
def test_active_sets_lead_to_the_exact_step_from_anywhere(joint, k):
    rng = np.random.default_rng(k)
    for upper in (1e-3, 1.0, 1e3):
        for spread in (0.0, 0.1, 10.0):
            v = rng.normal(1.0, spread, k - 1)
            v[: k // 3] = v[0]
            b = upper * rng.integers(0, 3, k - 1) / 2  # many at a bound, none where it should be
            if joint:
                b *= min(upper / max(b.sum(), upper), 1.0)
            iterations = active_set_step(v, upper, joint, b)
            assert iterations < active_set.ITERATIONS_PER_CLASS * k
            expected = (crammer_singer if joint else weston_watkins)(v, upper)
            size = max(np.abs(v).max(), upper)
            np.testing.assert_allclose(b, expected, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("accuracy", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("k", [2, 3, 30])
def test_greedy_steps_violate_nothing_by_more_than_their_accuracy(accuracy, k):
    rng = np.random.default_rng(k)
    for upper in (1e-3, 1.0, 1e3):
        q, v, b = rng.uniform(0.1, 10), rng.normal(1.0, 3.0, k - 1), upper * rng.uniform(size=k - 1)
        b[::3], b[1::3] = 0.0, upper
        grad = q * (v - b - b.sum())
        moves = greedy_step(grad, q, upper, accuracy, b)
        assert moves < greedy.MOVES_PER_CLASS * (k - 1)
        assert ((b >= 0) & (b <= upper)).all()
        rounding = 1e-12 * q * k * max(np.abs(v).max(), upper)
        np.testing.assert_allclose(grad, q * (v - b - b.sum()), rtol=0, atol=rounding)
        assert (grad[b < upper] <= accuracy).all()
        assert (grad[b > 0] >= -accuracy).all()
        # The Hessian is at least q times the identity: errors are no larger than violations / q.
        error = np.linalg.norm(b - weston_watkins(v, upper))
        assert error <= np.sqrt(k) * (accuracy + rounding) / q


@pytest.mark.parametrize("n", [0, 1, 2, 5, 24, 25, 100, 1001])
def test_sorting(n):
    rng = np.random.default_rng(n)
    ascending = np.arange(n + 3.0)
    for values in (ascending, rng.normal(size=n + 3), rng.integers(0, 4, n + 3).astype(float)):
        found = values.copy()
        sort_descending(found, n)
        np.testing.assert_array_equal(found[:n], np.sort(values[:n])[::-1])
        np.testing.assert_array_equal(found[n:], values[n:])

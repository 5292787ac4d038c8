"""Dual variables of many classes: slots against a dense matrix, both against plain NumPy."""

from copy import copy

import numba
import numpy as np
import pytest

from dualsweep.kernels.duals import (
    FIRST_SLOTS,
    MOST_SLOTS,
    Picked,
    SlottedDuals,
    inner_duals,
    load_duals,
    movable_duals,
    prefetch_duals,
    store_duals,
)

UPPER, LABEL, K = 2.0, 3, 12


@numba.njit
def load(beta, i, out):
    prefetch_duals(beta, i)
    load_duals(beta, i, out)


@numba.njit
def store(beta, i, classes, values, n):
    return store_duals(beta, i, classes, values, n)


@numba.njit
def inner(beta, i, upper, classes, b):
    return inner_duals(beta, i, upper, Picked(classes, b, b))


@numba.njit
def movable(beta, i, upper, label, violations, above, classes, t, b):
    return movable_duals(beta, i, upper, label, violations, above, Picked(classes, t, b))


def random_matrix(n=6, k=K, share=0.4, seed=0):
    """Rows with nothing at `UPPER`, and some at 0; the last row is empty."""
    rng = np.random.default_rng(seed)
    beta = rng.uniform(0.1, UPPER, (n, k)) * (rng.random((n, k)) < share)
    beta[:, min(LABEL, k - 1)] = 0.0
    beta[-1] = 0.0
    return beta


def slotted(beta, reverse=False):
    duals = SlottedDuals(*beta.shape)
    rows, classes = np.nonzero(beta)
    if reverse:
        rows, classes = rows[::-1], classes[::-1]
    duals.fill(rows, classes, beta[rows, classes])
    return duals


def dense(duals):
    rows, classes, values = duals.nonzero()
    beta = np.zeros((len(duals.slots.counts), duals.n_classes))
    beta[rows, classes] = values
    assert len(rows) == np.count_nonzero(beta)
    return beta


def loaded(beta, n, k):
    """All rows, one after the other, as kernels read them."""
    out = np.full((n, k), np.nan)
    for i in range(n):
        load(beta, i, out[i])
    return out


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("share", [0.2, 0.9])
@pytest.mark.parametrize("k", [2, 12, 40])
def test_slots_hold_what_a_matrix_holds(k, share, reverse):
    beta = random_matrix(k=k, share=share)
    duals = slotted(beta, reverse)
    np.testing.assert_array_equal(dense(duals), beta)
    np.testing.assert_array_equal(loaded(duals.slots, 6, k), beta)
    np.testing.assert_array_equal(loaded(beta, 6, k), beta)
    width, needed = duals.slots.values.shape[1], np.count_nonzero(beta, axis=1).max()
    assert width == min(FIRST_SLOTS, k) or needed <= width < 2 * needed


def test_slots_are_as_wide_as_needed():
    assert SlottedDuals(3, 5).slots.values.shape == (3, 5)
    assert SlottedDuals(3, 50).slots.values.shape == (3, FIRST_SLOTS)
    full = np.ones((1, FIRST_SLOTS))
    assert slotted(full).slots.values.shape == (1, FIRST_SLOTS)
    empty = SlottedDuals(3, 5)
    assert not loaded(empty.slots, 3, 5).any()
    empty.fill(*np.empty((2, 0), np.int64), np.empty(0))
    assert len(empty.nonzero()[0]) == 0


def test_widening_doubles_the_slots_up_to_one_for_each_class():
    beta = random_matrix(k=40, share=0.1)
    duals = slotted(beta)
    for width in (16, 32, 40, 40):
        duals.widen()
        assert duals.slots.values.shape == duals.slots.classes.shape == (6, width)
        np.testing.assert_array_equal(dense(duals), beta)


def test_copies_share_nothing():
    beta = random_matrix()
    duals = slotted(beta)
    twin = copy(duals)
    twin *= 0.5
    np.testing.assert_array_equal(dense(twin), 0.5 * beta)
    np.testing.assert_array_equal(dense(duals), beta)


@pytest.mark.parametrize("kind", ["slots", "dense"])
def test_storing(kind):
    beta = random_matrix()
    target = slotted(beta).slots if kind == "slots" else beta.copy()
    classes, values = np.array([7, 1, 10, 0]), np.array([0.5, 0.0, 1.5, 9.0])
    assert store(target, 1, classes, values, 3)
    expected = beta.copy()
    if kind == "slots":
        expected[1] = 0.0
    expected[1, classes[:3]] = values[:3]
    np.testing.assert_array_equal(loaded(target, 6, K), expected)


@pytest.mark.parametrize(("zeros", "n"), [(0, 9), (1, 9), (3, 12)])
def test_what_does_not_fit_is_not_stored(zeros, n):
    beta = random_matrix(k=40, share=0.1)
    duals = slotted(beta)
    values = np.where(np.arange(n) < zeros, 0.0, 1.0)
    fits = n - zeros <= FIRST_SLOTS
    assert store(duals.slots, 2, np.arange(n), values, n) == fits
    if fits:
        beta[2] = 0.0
        beta[2, :n] = values
    np.testing.assert_array_equal(dense(duals), beta)


def with_some_at_upper(beta):
    beta[:, ::4] = np.where(beta[:, ::4] > 0, UPPER, 0.0)
    return beta


def test_inner_duals():
    beta = with_some_at_upper(random_matrix(share=0.8))
    slots = slotted(beta).slots
    for i in range(6):
        for target, inside in ((beta, (beta[i] > 0) & (beta[i] < UPPER)), (slots, beta[i] > 0)):
            classes, b = np.full(K, -1), np.full(K, np.nan)
            n = inner(target, i, UPPER, classes, b)
            np.testing.assert_array_equal(classes[:n], np.flatnonzero(inside))
            np.testing.assert_array_equal(b[:n], beta[i, inside])
            assert (classes[n:] == -1).all()


def run_movable(beta, i, violations, above, label=LABEL):
    k = len(violations)
    classes, t, b = np.full(k + 1, -1), np.full(k + 1, np.nan), np.full(k + 1, np.nan)
    before = violations.copy()
    found = movable(beta, i, UPPER, label, violations, above, classes, t, b)
    np.testing.assert_array_equal(violations, before)
    n = int(found[0])
    np.testing.assert_array_equal(t[:n], violations[classes[:n]])
    assert label not in classes[:n]
    assert len(set(classes[:n])) == n
    return classes[:n], b[:n], *found[1:]


def random_violations(k, label, seed):
    """Some are 0, and those of every other seed negative."""
    violations = np.random.default_rng(seed).normal(-3.0 * (seed % 2), size=k)
    violations[4::5] = 0.0
    violations[label] = 0.0
    return violations


@pytest.mark.parametrize("above", [np.inf, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_dense_duals_that_may_move(seed, above):
    beta = with_some_at_upper(random_matrix(share=0.7, seed=seed))
    for i in range(6):
        t = random_violations(K, LABEL, 6 * seed + i)
        others = np.arange(K) != LABEL
        at_zero = others & (beta[i] == 0) & (t <= 0)
        at_upper = (beta[i] == UPPER) & (t >= 0)
        free = others & ~at_zero & ~at_upper if above == np.inf else others
        classes, b, share, least, most = run_movable(beta, i, t, above)
        np.testing.assert_array_equal(classes, np.flatnonzero(free))
        np.testing.assert_array_equal(b, beta[i, free])
        assert share == pytest.approx(UPPER * np.maximum(t, 0).sum() - beta[i] @ t)
        assert least == t[at_zero].max(initial=-np.inf)
        assert most == t[at_upper].min(initial=np.inf)


@pytest.mark.parametrize("above", [np.inf, -np.inf, -0.5, 0.3, 9.0])
@pytest.mark.parametrize("seed", range(5))
def test_slots_that_may_move(seed, above):
    beta = random_matrix(share=0.3, seed=seed) / K  # no sum is above UPPER
    slots = slotted(beta).slots
    for i in range(6):
        t = random_violations(K, LABEL, 6 * seed + i)
        used, others = beta[i] > 0, np.arange(K) != LABEL
        left = others & ~used
        worst, largest = t[left].max(), t[used].max(initial=0.0)
        chosen = used.copy()
        if worst > largest:
            chosen |= left & (t == worst)
        if above < np.inf:
            chosen |= left & (t >= above)
        classes, b, share, least, most = run_movable(slots, i, t, above)
        np.testing.assert_array_equal(np.sort(classes), np.flatnonzero(chosen))
        np.testing.assert_array_equal(b, beta[i, classes])
        assert share == pytest.approx(UPPER * max(t[others].max(), 0) - beta[i] @ t)
        assert least == t[others & ~chosen].max(initial=-np.inf)
        assert most == np.inf


def many_classes(i, n_used, k=300, label=200):
    """Slots of which row i uses some."""
    beta = np.zeros((i + 1, k))
    used = np.random.default_rng(0).permutation(np.delete(np.arange(k), label))[:n_used]
    beta[i, used] = 0.01
    return slotted(beta).slots, beta[i] > 0, label


@pytest.mark.parametrize("above", [-0.9, 0.5])
@pytest.mark.parametrize("n_used", [0, 6])
def test_of_very_many_classes_a_step_takes_the_most_violating_ones(n_used, above):
    slots, used, label = many_classes(2, n_used)
    t = np.random.default_rng(1).permutation(np.linspace(-1.0, 1.0, 300))
    t[label] = 0.0
    classes, b, _, least, _ = run_movable(slots, 2, t, above, label)
    np.testing.assert_array_equal(b, np.where(used[classes], 0.01, 0.0))
    assert set(np.flatnonzero(used)) <= set(classes)
    assert MOST_SLOTS / 2 <= len(classes) <= MOST_SLOTS
    new = np.setdiff1d(classes, np.flatnonzero(used))
    left = np.setdiff1d(np.arange(300), [*classes, label])
    assert t[new].min() > t[left].max()
    assert least == (t[left].max() if len(classes) < MOST_SLOTS else -np.inf)


@pytest.mark.parametrize("violating", [MOST_SLOTS, MOST_SLOTS + 1])
def test_a_step_takes_as_many_classes_as_it_may(violating):
    slots, _, label = many_classes(0, 0)
    t = np.full(300, -1.0)
    t[10 : 10 + violating] = np.linspace(0.5, 1.0, violating)
    t[label] = 0.0
    classes, *_ = run_movable(slots, 0, t, 0.4, label)
    if violating == MOST_SLOTS:
        assert len(classes) == MOST_SLOTS
    assert t[classes].min() == np.sort(t)[-len(classes)]


@pytest.mark.parametrize("i", [0, 4])
def test_of_equally_violating_classes_every_row_takes_others(i):
    """One after the other, from one that depends on the row."""
    slots, used, label = many_classes(i, 6)
    t = np.full(300, 0.5)
    t[label] = 0.0
    classes, _, _, least, _ = run_movable(slots, i, t, -0.9, label)
    free = [m for m in range(300) if m != label and not used[m]]
    start = i * MOST_SLOTS % 300
    in_turn = [m for m in free if m >= start] + [m for m in free if m < start]
    assert set(classes[6:]) == set(in_turn[: MOST_SLOTS - 6])
    assert least == -np.inf


@pytest.mark.parametrize("n_used", [MOST_SLOTS // 2, MOST_SLOTS, MOST_SLOTS + 6])
def test_a_row_that_uses_many_slots_may_use_twice_as_many(n_used):
    slots, used, label = many_classes(0, n_used)
    t = np.where(used, 0.0, 0.5)
    t[label] = 0.0
    classes, _, _, least, _ = run_movable(slots, 0, t, 0.1, label)
    assert len(classes) == 2 * n_used
    assert least == -np.inf
    classes, _, _, least, _ = run_movable(slots, 0, t, np.inf, label)  # first, the likely ones
    assert len(classes) == n_used + 1
    assert least == 0.5


def test_violations_that_are_no_numbers_are_left_alone():
    slots = slotted(random_matrix()).slots
    classes, *_ = run_movable(slots, 5, np.where(np.arange(K) == LABEL, 0.0, np.nan), np.inf)
    assert len(classes) == 0

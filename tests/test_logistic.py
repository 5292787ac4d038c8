"""The logistic loss: its functions against 50 digits, its models against scikit-learn's."""

import decimal
import warnings
from decimal import Decimal
from functools import cache
from itertools import product

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import entr, expit
from sklearn import config_context
from sklearn.linear_model import LogisticRegression as Peer

import dualsweep_check
from dualsweep import LinearSVC, LinearSVCCV, certify, svc_path
from dualsweep._host import to_host
from dualsweep._jit import jit
from dualsweep.estimators._device import _compat
from dualsweep.io import load_model, save_model, write_store
from dualsweep.kernels.intercept import best_intercept
from dualsweep.losses import LOSSES, loss_at
from dualsweep.losses import protocol as rows
from dualsweep.newton.host import HostBackend
from dualsweep.placements import OnDevice, training_data
from dualsweep.placements.device.arrays import Space
from dualsweep.problems.binary import BinaryProblem
from dualsweep.problems.free import FreeProblem
from dualsweep.problems.run import PointRun
from dualsweep.solvers.momentum import Momentum
from dualsweep.solvers.schedules import SCHEDULES
from dualsweep.training import Context, Settings, train

LOSS = LOSSES["logistic"]
ARRAYS = LOSS.on_arrays(np)
DIGITS = decimal.Context(prec=70, Emin=-(10**9), Emax=10**9)


@jit
def certified(loss, cost, a, slack, error):
    return rows.certified_share(loss, cost, a, slack, error)


@jit
def share_of(loss, cost, a, slack):
    return rows.gap_share(loss, cost, a, slack)


@jit
def step_of(loss, cost, a, slack, sqnorm):
    return rows.dual_step(loss, cost, a, slack, sqnorm)


@jit
def proximal_of(loss, cost, v, rho):
    return rows.proximal_dual(loss, cost, v, rho)


@pytest.fixture(autouse=True)
def exactly():
    with decimal.localcontext(DIGITS):
        yield


def softplus(u):
    if abs(u) > 2000:
        return max(u, Decimal(0))
    return max(u, Decimal(0)) + log1p((-abs(u)).exp())


def log1p(x):
    return (1 + x).ln() if abs(x) > Decimal("1e-35") else x - x * x / 2


def plogp(a, cost):
    return a * (a / cost).ln() if a > 0 else Decimal(0)


def conjugate(cost, a):
    cost, a = Decimal(cost), Decimal(a)
    return a + plogp(a, cost) + plogp(cost - a, cost)


def loss_of(cost, slack):
    return Decimal(cost) * softplus(Decimal(slack) - 1)


def exact_share(cost, a, slack):
    """The divergence of both probabilities, with so many digits that nothing cancels."""
    cost, a, u = Decimal(cost), Decimal(a), Decimal(slack) - 1
    if a > cost / 2:
        a, u = cost - a, -u
    with decimal.localcontext(prec=110):
        share = (cost - a) * (log1p(-a / cost) + softplus(u))
        return share + (a * ((a / cost).ln() + softplus(-u)) if a > 0 else 0)


COSTS = [1e-12, 1.0, 3e5, 1e12]
SLACKS = [1.0, 1 + 1e-14, 1 + 1e-9, 0.3, -5.0, 7.0, 40.0, -60.0, 1e3, -1e3, 1e295, -1e295]


def duals_for(cost, slack):
    """0, the cost, next to them, and next to the best one."""
    best = 1 / (1 + np.exp(-np.clip(slack - 1, -700, 700)))
    parts = [0, 1, 0.5, 1e-9, 1 - 2.0**-50, 1e-300, best, best * (1 + 1e-5), best * (1 + 1e-13)]
    return sorted({cost * min(part, 1.0) for part in parts} | {5e-324})


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("slack", SLACKS)
def test_certified_shares_are_bounds_for_all_slacks_within_the_error(cost, slack):
    for a, error in product(duals_for(cost, slack), (0.0, 1e-15 * abs(slack), 1e-3)):
        lost, spread, seen, most = certified(LOSS, cost, a, slack, error)
        assert seen >= 0.0
        for end in (-1, 0, 1):
            moved = Decimal(slack) + end * Decimal(error)
            exact = exact_share(cost, a, moved)
            assert exact <= Decimal(most)
            assert abs(loss_of(cost, moved) - Decimal(lost)) <= Decimal(spread)
        if error == 0.0:
            exact = exact_share(cost, a, slack)
            moves = 1e-12 * (1 + abs(slack))  # of slacks and log-odds, by rounding
            above = float(exact_share(cost, a, slack + moves) - exact)
            below = float(exact_share(cost, a, slack - moves) - exact)
            more = max(above, below) + (1e-13 if abs(slack) < 1e10 else 1.0) * cost * moves
            assert most <= float(exact) * (1 + 1e-10) + more
            assert spread <= 1e-13 * lost + cost * moves


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("slack", SLACKS)
def test_shares_do_not_cancel(cost, slack):
    for a in duals_for(cost, slack):
        exact, found = exact_share(cost, a, slack), share_of(LOSS, cost, a, slack)
        assert found >= -1e-29 * cost
        slope = abs(rows.best_dual(LOSS, cost, slack) - a)
        rounding = 4e-15 * (1 + abs(slack)) * slope  # of the slack and the log-odds
        assert found == pytest.approx(float(exact), rel=1e-8, abs=rounding + 1e-29 * cost)


def random_visits(n):
    rng = np.random.default_rng(0)
    for _ in range(n):
        cost = 10.0 ** rng.uniform(-9, 9)
        sqnorm = 0.0 if rng.random() < 0.1 else 10.0 ** rng.uniform(-8, 8)
        parts = 0.0, 1.0, rng.random(), 10.0 ** -rng.uniform(0, 30), 1 - 10.0 ** -rng.uniform(0, 15)
        a = cost * rng.choice(parts)
        slack = 1 + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-6, 2.5)
        if rng.random() < 0.5 and 0 < a < cost:  # near where a is best
            slack = 1 + np.log(a / (cost - a)) + rng.normal() * 10.0 ** rng.uniform(-12, 0)
        yield cost, a, slack, sqnorm


def test_a_visit_finds_where_the_derivative_is_0_and_says_what_it_gains():
    for cost, a, slack, sqnorm in random_visits(1500):
        new, grad, gain = step_of(LOSS, cost, a, slack, sqnorm)
        assert 0.0 <= new <= cost
        assert (gain > 0.0) == (new != a)
        C, old, b, q = map(Decimal, (cost, a, new, sqnorm))
        at_end = a in (0.0, cost)
        if not at_end:
            exact = (old / (C - old)).ln() - Decimal(slack) + 1
            assert grad == pytest.approx(float(exact), rel=1e-9, abs=1e-13 * (1 + abs(slack)))
        assert not at_end or grad == (-np.inf if a == 0.0 else np.inf)
        if 0 < new < cost:
            odds = (b / (C - b)).ln()
            left = q * (b - old) - Decimal(slack) + 1 + odds
            sizes = abs(Decimal(slack)) + 1 + abs(odds) + 2 * q * C + C / (C - b)
            noise = Decimal("1e-15") * sizes
            assert abs(left) <= Decimal("0.101") * min(Decimal(abs(grad)), 1) + noise
        gained = q * (b - old) ** 2 / -2 + (b - old) * Decimal(slack)
        gained += conjugate(cost, a) - conjugate(cost, new)
        if gain > 1e-12 * cost:
            assert gain == pytest.approx(float(gained), rel=1e-6)


def test_a_visit_leaves_a_dual_variable_that_is_best():
    for a in (0.3, 0.9, 1e-9, 1 - 1e-9):
        slack = 1 + np.log(a / (1 - a))
        new, _, gain = step_of(LOSS, 1.0, a, slack, 2.0)
        assert abs(new - a) <= 1e-15
        assert gain <= 1e-28
    assert step_of(LOSS, 1.0, 1.0, 100.0, 1.0)[0] == 1.0


@pytest.mark.parametrize("rho", [0.0, 0.4, 1e3])
def test_a_proximal_dual_is_best_and_has_this_slope(rho):
    for v, cost in product((-30.0, -1.0, 1.0, 2.5, 30.0), (0.1, 1.0, 100.0)):
        b, scale = proximal_of(LOSS, cost, v, rho)
        C, exact = Decimal(cost), Decimal(b)
        if exact < C:
            left = Decimal(v) - 1 - (exact / (C - exact)).ln() - Decimal(rho) * exact
            assert abs(left) <= Decimal("0.101" if rho else "0.001")
        h = 1e-4
        ahead, _ = proximal_of(LOSS, cost, v + h, 0.0)
        behind, _ = proximal_of(LOSS, cost, v - h, 0.0)
        if rho == 0.0:
            assert scale == pytest.approx((ahead - behind) / (2 * h), rel=1e-6, abs=1e-10 * cost)
        else:
            q = b / cost
            assert scale == pytest.approx(1 / (1 / (cost * q * (1 - q)) + rho), rel=1e-6)


def test_parts_of_the_conjugate_have_its_value_and_its_slope():
    for cost, part in product((1e-3, 1.0, 50.0), (0.0, 1e-9, 0.3, 0.5, 0.99, 1 - 1e-12, 1.0)):
        a = part * cost
        p, q = rows.conjugate_parts(LOSS, cost, a)
        assert p + q / 2 == pytest.approx(float(conjugate(cost, a)), rel=1e-12, abs=1e-14 * cost)
        if 0 < part < 1:
            slope = a * (1 + np.log(part / (1 - part)))
            assert p + q == pytest.approx(slope, rel=1e-4, abs=1e-12 * cost)


def test_functions_of_arrays_are_those_of_rows():
    rng, n = np.random.default_rng(0), 400
    cost, slack = (
        10.0 ** rng.uniform(-3, 3, n),
        1 + rng.normal(size=n) * 10.0 ** rng.uniform(-3, 1, n),
    )
    a = cost * np.where(rng.random(n) < 0.5, 1 / (1 + np.exp(1 - slack)), rng.random(n))
    a *= 1 - 10.0 ** rng.uniform(-9, -1, n)
    a[::9], a[1::9] = 0.0, cost[1::9]

    def each(function, *arrays):
        return np.array([function(LOSS, *numbers) for numbers in zip(*arrays, strict=True)]).T

    def same(found, expected, rtol=1e-14):
        np.testing.assert_allclose(np.broadcast_to(found, np.shape(expected)), expected, rtol)

    for bound, expected in zip(ARRAYS.bounds(cost), each(rows.dual_bounds, cost), strict=True):
        same(bound, expected)
    best = ARRAYS.best_dual(cost, slack)
    same(best, each(rows.best_dual, cost, slack))
    same(ARRAYS.losses(cost, slack, best), each(rows.row_loss, cost, slack))
    for found, expected in zip(
        ARRAYS.conjugate_parts(cost, a), each(rows.conjugate_parts, cost, a), strict=True
    ):
        same(found, expected, 1e-12)
    conjugates = np.array([float(conjugate(c, b)) for c, b in zip(cost, a, strict=True)])
    proven = a * slack - conjugates
    np.testing.assert_allclose(ARRAYS.proven(cost, slack, a), proven, atol=1e-11)
    for found, expected in zip(
        ARRAYS.proximal_dual(cost, slack, 0.0 * cost),
        each(rows.proximal_dual, cost, slack, 0.0 * cost),
        strict=True,
    ):
        same(found, expected)
    for size in (1e-9, 0.1):
        error = np.full(n, size)
        for found, expected in zip(
            ARRAYS.certified_share(cost, a, slack, error),
            each(rows.certified_share, cost, a, slack, error),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-24 * cost.max())
    none = 0.0 * cost  # rows of cost 0
    assert ARRAYS.bounds(none)[1].max() == ARRAYS.best_dual(none, slack).max() == 0.0
    assert np.isfinite(ARRAYS.certified_share(none, none, slack, none)).all()
    assert not any(part.any() for part in ARRAYS.conjugate_parts(none, none))


def test_what_the_loss_tells_of_itself():
    assert LOSS.smooth
    assert LOSS.bounded
    assert not LOSS.quadratic
    assert rows.row_loss(LOSS, 1.0, -2000.0) > 0.0
    assert not rows.is_settled(LOSS, 1.0, 1.0, 50.0, 0.1)
    assert rows.tube(LOSS) == 0.0
    assert loss_at(1.0, LOSS) == np.log(2.0)


# Models: wherever rows are, objectives agree with scikit-learn's within certificates.

TOL = 1e-7
ON_HOST = Space(_compat().array_namespace(np.empty(1)), "cpu")
class_counts = pytest.mark.parametrize("n_classes", [2, 3])


@cache
def data(n_classes, n=90, d=5):
    """Rows of classes that overlap, and weights."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 0.8 * rng.normal(size=(n_classes, d))[y]
    X[::9] *= 4.0
    X[::13] = 0.0
    return X, y, rng.choice([0.0, 0.5, 1.0, 2.0], n)


def signs(y, n_classes):
    """The labels of each binary problem."""
    positives = [1] if n_classes == 2 else range(n_classes)
    return [np.where(y == p, 1.0, -1.0) for p in positives]


def primal_of(W, b, X, y, cost, penalty=1.0):
    value = 0.0
    for sign, w, c in zip(signs(y, max(len(W), 2)), W, b, strict=True):
        value += (w @ w + penalty * c * c) / 2
        value += cost @ np.logaddexp(0, -sign * (X @ w + c))
    return value


def dual_of(signed, X, y, cost, penalty=1.0):
    value = 0.0
    for sign, coef in zip(signs(y, max(len(signed), 2)), signed, strict=True):
        a, used = sign * coef, cost > 0
        assert (a >= 0).all()
        assert (a <= cost).all()
        p = a[used] / cost[used]
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.where(p > 0, p * np.log(p), 0) - np.where(
                p < 1, (1 - p) * np.log1p(-p), 0
            )
        w, b = coef @ X, coef.sum()
        value += cost[used] @ entropy - (w @ w + penalty * b * b) / 2
    return value


@cache
def optimum(n_classes, C=1.0, weighted=False, free=False):
    """The objective of scikit-learn's models."""
    X, y, weight = data(n_classes)
    rows = X if free else np.column_stack([X, np.ones(len(X))])
    weight = weight if weighted else np.ones(len(y))
    W, b = [], []
    for sign in signs(y, n_classes):
        peer = Peer(C=C, tol=1e-13, solver="newton-cholesky", fit_intercept=free, max_iter=1000)
        peer.fit(rows, sign, weight)
        W.append(peer.coef_[0] if free else peer.coef_[0, :-1])
        b.append(peer.intercept_[0] if free else peer.coef_[0, -1])
    return primal_of(W, b, X, y, C * weight, 0.0 if free else 1.0)


def check(model, n_classes, weighted=False, free=False):
    """Objectives are those of the formulas, and agree with the optimum within the certificate."""
    X, y, weight = data(n_classes)
    cost = model.C * (weight if weighted else np.ones(len(y)))
    penalty = 0.0 if free else 1.0
    assert model.converged_
    primal = primal_of(to_host(model.coef_), to_host(model.intercept_), X, y, cost, penalty)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    signed = model.dual_coef_
    signed = signed.compute() if hasattr(signed, "compute") else to_host(signed)
    signed = signed.toarray() if sp.issparse(signed) else np.asarray(signed, np.float64)
    assert model.dual_objective_ == pytest.approx(
        dual_of(signed, X, y, cost, penalty), rel=1e-8, abs=1e-9 * primal
    )
    best = optimum(n_classes, model.C, weighted, free)
    assert model.dual_objective_ <= best * (1 + 1e-12)
    assert best * (1 - 1e-11) <= primal <= best * (1 + 2 * model.tol)


@class_counts
@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
@pytest.mark.parametrize("how", [{"solver": "sweep"}, {"solver": "newton"}, {}])
def test_in_memory(tuned, n_classes, layout, how):
    X, y, weight = data(n_classes)
    for small, weighted in product((True, False), (False, True)):
        if not small:
            tuned(SMALL_NEWTON=0)
        model = LinearSVC(loss="logistic", tol=TOL, max_iter=5_000, random_state=0, **how)
        model.fit(layout(X), y, weight if weighted else None)
        check(model, n_classes, weighted)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_conjugate_gradients(tuned, C):
    tuned(DIRECT_WEIGHTS=0)
    X, y, _ = data(2)
    check(LinearSVC(loss="logistic", C=C, tol=1e-9, solver="newton").fit(X, y), 2)


@pytest.mark.parametrize("C", [1e-3, 1.0, 10.0])
@pytest.mark.parametrize("kind", [BinaryProblem, FreeProblem])
def test_a_direction_promises_a_dual_point_with_the_weights_of_a_whole_step(kind, C):
    """Its expected gap is that of the step's weights; what bounds cut off counts extra."""
    X, y, weight = data(2)
    like = naive.library_problem(X, np.where(y == 1, 1.0, -1.0), C * weight, "hinge", 1.0)
    problem = kind(like.passes, like.sqnorm, like.y, like.cost, LOSS)
    run = PointRun(problem, alpha=0.3 * like.cost)
    backend = HostBackend(run)
    w, rho = backend.begin()
    whole = np.ones(1)
    assert backend.measure(w, rho, 0.0 * whole, whole > 1.0).inner_gap > 0.0
    cut = 0
    for step in (1.0, 1.3, 0.7):
        [slacks] = backend.slacks
        gradient = backend.measure(w, rho, 0.0 * whole, whole > 1.0).gradient
        p = backend.direct(gradient, rho, whole > 0.0)
        backend.aim(p, rho)
        ahead = w + p
        w = backend.move(w.copy(), p, step * whole)
        found = backend.measure(w, rho, step * whole, whole > 1.0).inner_gap[0]
        members = problem.candidates
        z = problem.y[members] * (np.column_stack([X, np.ones(len(X))]) @ ahead.ravel())[members]
        a, cost = slacks.ahead, problem.cost[members]
        assert ((a >= 0.0) & (a <= cost)).all()
        weights = np.column_stack([X, np.ones(len(X))])[members].T @ (a * problem.y[members])
        distance = weights - np.ravel(backend.ridge) * ahead.ravel()
        inside = (a > 0.0) & (a < cost)
        cut += (~inside).sum()
        p_of = a / cost
        shares = cost * (np.logaddexp(0, -z) - (entr(p_of) + entr(1 - p_of))) + a * z
        assert slacks.looked >= shares.sum() + 0.5 * distance @ distance - 1e-9 * cost.sum()
        if inside.all():
            assert np.linalg.norm(distance) <= 1e-10 * (1.0 + np.linalg.norm(ahead))
            assert slacks.looked == pytest.approx(shares.sum(), abs=1e-9 * cost.sum())
        b = slacks.b * problem.y[members]
        half = gap_of(problem, np.ravel(backend.ridge) * w.ravel(), members, b, X)
        assert found == pytest.approx(min(slacks.looked, half), rel=1e-8, abs=1e-12 * cost.sum())
        assert slacks.chosen is (slacks.ahead if slacks.looked < half else slacks.b)
    assert cut == 0 or C > 1e-3


def gap_of(problem, w, members, signed, X):
    """The gap of b: that of its weights."""
    return problem.gap_of_gradient(w - np.column_stack([X, np.ones(len(X))])[members].T @ signed)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule(schedule):
    X, y, _ = data(2)
    how = {"solver": "sweep", "schedule": schedule, "max_iter": 20_000, "random_state": 0}
    check(LinearSVC(loss="logistic", tol=TOL, **how).fit(X, y), 2)


def test_momentum(monkeypatch):
    rounds, advance = [], Momentum.advance

    def counted(self, w):
        rounds.append(1)
        advance(self, w)

    monkeypatch.setattr(Momentum, "advance", counted)
    X, y, _ = data(2)
    how = {"solver": "sweep", "max_iter": 50_000, "random_state": 0}
    check(LinearSVC(loss="logistic", C=300.0, tol=TOL, **how).fit(X, y), 2)
    assert rounds


@class_counts
@pytest.mark.parametrize("solver", ["sweep", "newton"])
@pytest.mark.parametrize("C", [1e-2, 1.0, 30.0])
def test_a_free_intercept(n_classes, solver, C):
    X, y, weight = data(n_classes)
    how = {"solver": solver, "max_iter": 50_000, "random_state": 0, "C": C}
    for weighted in (False, True):
        model = LinearSVC(loss="logistic", intercept="free", tol=1e-6, **how)
        check(model.fit(X, y, weight if weighted else None), n_classes, weighted, free=True)


@pytest.mark.parametrize("spread", [1e-6, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_intercept_balances_the_dual_variables(spread, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    scores, cost = spread * rng.normal(size=n), 10.0 ** rng.uniform(-6, 6, n)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    b = best_intercept(scores, y, np.ones(n), cost, LOSS, True)
    best = cost * expit(-y * (scores + b))
    around = (
        cost * expit(-y * (scores + b * (1 + 4e-16))),
        cost * expit(-y * (scores + b * (1 - 4e-16))),
    )
    slack = 1e-14 * best.sum() + max(abs(y @ (best - other)) for other in around)
    assert abs(y @ best) <= slack


@class_counts
@pytest.mark.parametrize("intercept", ["penalized", "free"])
def test_separable_data_at_a_large_cost(n_classes, intercept):
    X, y = np.eye(n_classes)[np.arange(12) % n_classes], np.arange(12) % n_classes
    for C in (1e6, 1e12):
        for solver in ("sweep", "newton") if intercept == "penalized" else ("newton",):
            how = {"solver": solver, "max_iter": 50_000, "random_state": 0}
            model = LinearSVC(loss="logistic", C=C, intercept=intercept, tol=1e-6, **how).fit(X, y)
            assert model.converged_
            penalty = float(intercept != "free")
            cost = np.full(len(y), C)
            primal = primal_of(model.coef_, model.intercept_, X, y, cost, penalty)
            assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)


@class_counts
def test_stores(tmp_path, n_classes):
    X, y, weight = data(n_classes)
    store = write_store(tmp_path / "store", sp.csr_array(X), y, block_bytes=2_000)
    assert len(store) > 2
    more = {"loss": "logistic", "tol": 1e-4, "max_iter": 5_000, "random_state": 0}
    more["memory_limit"] = 20_000
    for weighted in (False, True):
        model = LinearSVC(**more).fit(store, sample_weight=weight if weighted else None)
        check(model, n_classes, weighted)
    for model in svc_path(store, None, [0.1, 1.0, 3.0], **more).models:
        check(model, n_classes)


@class_counts
def test_clusters(n_classes):
    pytest.importorskip("distributed", reason="needs dualsweep[dask]")
    import dask.array as da
    from distributed import Client

    from dualsweep.distributed import LinearSVC as OnCluster

    X, y, _ = data(n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Client(processes=False, n_workers=1, dashboard_address=":0"):
            model = OnCluster(loss="logistic", tol=1e-4, max_iter=5_000, random_state=0)
            check(model.fit(da.from_array(X, (30, X.shape[1])), y), n_classes)


def in_numpy(X, y, weight, params, duals=None):
    settings = Settings(**params)
    with Context() as context:
        there = training_data(OnDevice(X, ON_HOST, True), y, weight, settings, context)
        fitted = train(there, settings, context, duals=duals)
    model = LinearSVC(**params)
    model.__dict__.update(fitted.attributes())
    return model


def in_another(library):
    def fit(X, y, weight, params):
        there = pytest.importorskip(library, reason=f"{library} is not installed")
        given = None if weight is None else there.asarray(weight)
        with config_context(array_api_dispatch=True):
            return LinearSVC(**params).fit(there.asarray(X), there.asarray(y), given)

    return fit


FITS = {
    "numpy": in_numpy,
    "strict": in_another("array_api_strict"),
    "torch": in_another("torch"),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@class_counts
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_devices(monkeypatch, fit, n_classes, dtype):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X, y, weight = data(n_classes)
    for weighted, C in product((False, True), (0.01, 1.0, 100.0)):
        given = weight if weighted else None
        if dtype == np.float64:
            params = {"loss": "logistic", "tol": TOL, "C": C}
            check(fit(X, y, given, params), n_classes, weighted)
            continue
        model = fit(X.astype(dtype), y, given, {"loss": "logistic", "tol": 1e-3, "C": C})
        assert model.converged_
        reference = LinearSVC(loss="logistic", C=C, tol=TOL, random_state=0)
        reference.fit(X.astype(dtype).astype(float), y, given)
        assert model.dual_objective_ <= reference.primal_objective_
        assert reference.dual_objective_ <= model.primal_objective_


@class_counts
@pytest.mark.parametrize("C", [0.1, 20.0])
def test_warm_starts_on_devices(n_classes, C):
    X, y, _ = data(n_classes)
    params = {"loss": "logistic", "tol": TOL}
    duals = in_numpy(X, y, None, {**params, "C": C}).dual_coef_
    check(in_numpy(X, y, None, params, duals), n_classes)


@class_counts
@pytest.mark.parametrize("solver", ["auto", "sweep"])
def test_paths_and_searches(n_classes, solver):
    X, y, _ = data(n_classes)
    more = {"loss": "logistic", "tol": TOL, "max_iter": 50_000, "random_state": 0, "solver": solver}
    for model in svc_path(X, y, [0.03, 1.0, 30.0], **more).models:
        check(model, n_classes)
    found = LinearSVCCV(Cs=[0.1, 1.0], cv=3, **more).fit(X, y)
    best = LinearSVC(C=found.C_, **more).fit(X, y)
    assert found.primal_objective_ == pytest.approx(best.primal_objective_, rel=2 * TOL)
    warm = LinearSVC(C=3.0, warm_start=True, **more).fit(X, y)
    check(warm.set_params(C=1.0).fit(X, y), n_classes)


@class_counts
def test_certify(tmp_path, n_classes):
    X, y, _ = data(n_classes)
    model = LinearSVC(loss="logistic", tol=TOL, max_iter=20_000, random_state=0).fit(X, y)
    save_model(model, tmp_path / "model.npz")
    for judged in (model, load_model(tmp_path / "model.npz")):
        certificate = certify(judged, X, y)
        assert certificate.primal == pytest.approx(model.primal_objective_, rel=1e-9)
        assert certificate.relative_gap <= TOL
    best = optimum(n_classes)
    other = LinearSVC(loss="hinge", random_state=0).fit(X, y)
    certificate = certify(other, X, y, loss="logistic", tol=1e-2)
    primal = primal_of(other.coef_, other.intercept_, X, y, np.ones(len(y)))
    assert certificate.primal == pytest.approx(primal, rel=1e-9)
    assert certificate.dual <= best <= certificate.primal


@class_counts
@pytest.mark.filterwarnings("ignore:.* stopped at:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("intercept", ["penalized", "free"])
def test_classes_that_were_not_begun_know_what_they_lose(n_classes, intercept):
    X, y, weight = data(n_classes)
    model = LinearSVC(loss="logistic", max_iter=0, intercept=intercept).fit(X, y, weight)
    penalty = float(intercept != "free")
    expected = primal_of(model.coef_, model.intercept_, X, y, weight, penalty)
    assert model.primal_objective_ == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------------------------------- proofs


@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
def test_the_checker_computes_what_50_digits_give(tmp_path, n_classes, intercept, C):
    X, y, weight = data(n_classes)
    X = X[:, :3].round(2)
    how = {"fit_intercept": False} if intercept == "none" else {"intercept": intercept}
    model = LinearSVC(loss="logistic", C=C, tol=1e-9, max_iter=3000, random_state=0, **how)
    model.fit(X, y, weight)
    proof, text = tmp_path / "proof", tmp_path / "data.svm"
    pairs = [[f"{j + 1}:{v!r}" for j, v in enumerate(x) if v] for x in X.tolist()]
    lines = [" ".join([str(label), *row]) for label, row in zip(y, pairs, strict=True)]
    text.write_text("\n".join(lines) + "\n")
    found = model.save_proof(proof, X, y, weight)
    assert found.relative_gap <= 2e-9
    with proof.open(encoding="ascii") as file:
        assert dualsweep_check.check(file, text).startswith("VERIFIED")
    with proof.open(encoding="ascii") as file:
        stated = dualsweep_check.Proof(file)
        read = dualsweep_check.Data(text, stated)
        for p in stated.problems:
            upper, lower, vectors = stated.read_problem(p)
            primal, dual = dualsweep_check.objectives(stated, read, p, vectors)
            [(b, w, a)] = vectors
            P, D = exact_objectives(X, np.where(y == p, 1, -1), C * weight, w, b, a, intercept)
            for value, exact in ((primal, P), (dual, D)):
                value = Decimal(value.numerator) / Decimal(value.denominator)
                assert abs(value - exact) <= Decimal("1e-30") * (1 + abs(exact))
            assert primal >= dual
            assert 0 <= Decimal(upper) - P <= Decimal("1e-13") * P
            assert 0 <= D - Decimal(lower) <= Decimal("1e-13") * P


def exact_objectives(X, sign, cost, w, b, a, intercept):
    """P and D of weights and dual variables by number, with 70 digits."""
    w = [Decimal(w.get(j, 0.0)) for j in range(X.shape[1])]
    P, D, sums, total = sum(x * x for x in w) / 2, Decimal(0), [Decimal(0)] * len(w), Decimal(0)
    P += Decimal(b) ** 2 / 2 if intercept == "penalized" else 0
    for i, x in enumerate(X.tolist()):
        v, y, c = Decimal(a.get(i, 0.0)), int(sign[i]), Decimal(cost[i])
        x = [Decimal(value) for value in x]
        score = sum(p * q for p, q in zip(w, x, strict=True)) + Decimal(b)
        P += c * softplus(-y * score)
        D -= conjugate(cost[i], a.get(i, 0.0)) - v if c else 0
        sums = [s + y * v * value for s, value in zip(sums, x, strict=True)]
        total += y * v
    assert intercept != "free" or total == 0
    D -= sum(s * s for s in sums) / 2
    return P, D - (total**2 / 2 if intercept == "penalized" else 0)


def test_a_tampered_proof_is_refuted(tmp_path):
    X, y, _ = data(2)
    X = X[:, :3].round(2)
    model = LinearSVC(loss="logistic", tol=1e-6, random_state=0).fit(X, y)
    proof, text = tmp_path / "proof", tmp_path / "data.svm"
    pairs = [[f"{j + 1}:{v!r}" for j, v in enumerate(x) if v] for x in X.tolist()]
    lines = [" ".join([str(label), *row]) for label, row in zip(y, pairs, strict=True)]
    text.write_text("\n".join(lines) + "\n")
    model.save_proof(proof, X, y)
    whole = proof.read_text().splitlines()
    for name, factor in (("primal", 1 - 1e-12), ("dual", 1 + 1e-12)):
        changed = [
            f"{name} {float(line.split()[1]) * factor!r}" if line.startswith(f"{name} ") else line
            for line in whole
        ]
        proof.write_text("\n".join(changed) + "\n")
        with proof.open() as file, pytest.raises(dualsweep_check.RefutedError, match="the claim"):
            dualsweep_check.check(file, text)


@pytest.mark.parametrize("u", [0, 1, -1, 1e-30, -1e-30, 40.0, -40.0, -700.0, 1e5, -1e5, 1e300])
def test_the_checkers_logarithms_are_bounds(u):
    n, u = 1200, int(Decimal(u).scaleb(0) * 2**1200)
    with decimal.localcontext(prec=500):
        exact = softplus(Decimal(u) / 2**n) * 2**n
        found = dualsweep_check.log_loss(u, n)
        assert 0 <= found - exact <= Decimal("1e-55") * 2**n * (1 + exact / 2**n)
        for x, y in ((3, 2), (10**30, 1), (1, 3), (10**40 + 1, 10**40), (7, 7)):
            exact = (Decimal(x) / Decimal(y)).ln() * 2**n
            found = dualsweep_check.log_below(x, y, n)
            assert 0 <= exact - found <= Decimal("1e-55") * 2**n * (1 + abs(exact) / 2**n) + 1

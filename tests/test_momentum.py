"""Momentum: what it claims of a pair (w, alpha), and certificates of runs that use it."""

from unittest.mock import patch

import naive
import numpy as np
import pytest
import test_multiclass
from sklearn.base import clone
from test_solve import assert_honest, every_loss, same, setup

from dualsweep import LinearSVC
from dualsweep._tuning import FIRST_MOMENTUM
from dualsweep.datasets import make_text_like
from dualsweep.problems.run import PointRun
from dualsweep.solvers.costs import costs_of
from dualsweep.solvers.momentum import Momentum
from dualsweep.solvers.policy import LAST_SWEEPS, TRIAL, Policy
from dualsweep.solvers.schedules import SCHEDULES
from dualsweep.solvers.solve import solve
from dualsweep.solvers.sweeps import MemorySweeper, sweeps

FORMULATIONS = [*naive.LOWER, *test_multiclass.DIRECT]
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)


@pytest.fixture
def hurry(tuned):
    """Momentum from the second sweep on, however fast they are."""
    tuned(FIRST_MOMENTUM=2, WORTH_MOMENTUM=-np.inf)


@pytest.fixture
def advance():
    """`Momentum.advance`, which remembers its calls."""
    with patch.object(Momentum, "advance", autospec=True, side_effect=Momentum.advance) as mock:
        yield mock


def problem_of(formulation, layout="csr"):
    """Return a problem, its oracle, and a function that makes its dual variables dense."""
    if formulation in naive.LOWER:
        oracle, problem = setup(formulation)
        return problem, oracle, lambda alpha: alpha
    oracle, problem = test_multiclass.setup(formulation, layout, n=60)
    return problem, oracle, lambda alpha: test_multiclass.dense(problem, alpha)


@every_formulation
@pytest.mark.parametrize(("scale", "layout"), [(2.0, "csr"), (4.0, "csr"), (4.0, "dense")])
def test_the_gap_of_w_and_alpha(formulation, scale, layout):
    problem, oracle, dense = problem_of(formulation, layout)
    n = len(problem.y)
    order = np.random.default_rng(0).permutation(n)
    alpha, w = problem.zero_alpha(), problem.zero_weights()
    grads, gains, shares = np.empty(n), np.empty(n), np.empty(n)
    dual, _ = problem.sweep(False, order, alpha, w, grads, gains, shares)
    momentum = Momentum(problem, scale, w, dual)
    alpha *= 1.0 / scale
    centre, before, root = w.copy(), w.copy(), np.sqrt(1 / scale)
    for sweep in range(1, 11):
        if (sweep - 1) % Momentum.ROUND == 0:
            ahead = (1 - root) / (1 + root) * (w - before)
            centre, before = w + ahead, w.copy()
        momentum.advance(w)
        np.testing.assert_allclose(momentum.centre, centre, rtol=1e-12, atol=1e-12)
        gain, _ = momentum.problem.sweep(False, order, alpha, w, grads, gains, shares)
        whole = scale * dense(alpha)
        seen = sum(oracle.share(i, whole, w) for i in range(n)) / scale  # after the sweep
        dual, gap = momentum.observe(w, gain, seen)
        assert dual == pytest.approx(oracle.dual(whole), rel=1e-11)
        assert gap == pytest.approx(oracle.primal(w) - oracle.dual(whole), rel=1e-11)
        np.testing.assert_allclose(
            w, oracle.weights(whole) / scale + (1 - 1 / scale) * momentum.centre, atol=1e-12
        )
        if sweep == 5:
            w += 1e-3  # drift
            momentum.recompute(w, oracle.weights(whole), oracle.dual(whole))


@every_formulation
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_certificates_hold(hurry, advance, formulation, tol):
    problem, oracle, dense = problem_of(formulation)
    result = solve(problem, solver="sweep", tol=tol, max_iter=5000)
    assert advance.called
    assert result.converged
    alpha = dense(result.alpha)
    np.testing.assert_allclose(result.w, oracle.weights(alpha), atol=1e-11)
    primal, dual = oracle.primal(result.w), oracle.dual(alpha)
    assert primal - dual <= tol * primal * (1 + 1e-6)
    if formulation in naive.LOWER:
        assert_honest(result, oracle, tol)
    else:
        boxed = alpha.sum(axis=1) if oracle.joint else alpha
        assert (alpha >= 0.0).all()
        assert (boxed <= 1.0 + 1e-15).all()


@every_formulation
@pytest.mark.parametrize("epochs", range(4, 10))
@pytest.mark.parametrize("end", ["max_iter", "stop", "give_up"])
def test_a_run_that_ends_early_has_the_certificate_of_its_alpha(
    hurry, monkeypatch, formulation, epochs, end
):
    problem, oracle, dense = problem_of(formulation)
    duals = []
    monkeypatch.setattr(Momentum, "observe", _recording(Momentum.observe, duals))
    run = PointRun(
        problem,
        tol=1e-15,
        max_iter=epochs if end == "max_iter" else 1000,
        stop=lambda: end == "stop" and run.epoch >= epochs - 1,
    )
    later = run.max_iter + LAST_SWEEPS  # momentum to the end
    policy = Policy(costs_of(problem), "sweep", run.tol, later, momentum=True)
    monkeypatch.setattr(policy, "wants_newton", lambda: end == "give_up" and run.epoch >= epochs)
    sweeps(run, MemorySweeper(run, "auto", (0,)), policy)
    assert run.epoch == epochs
    assert run.dual == pytest.approx(duals[-1], rel=1e-9)
    alpha = dense(run.alpha)
    np.testing.assert_allclose(run.w, oracle.weights(alpha), atol=1e-11)
    primal, dual = oracle.primal(run.w), oracle.dual(alpha)
    assert (run.primal, run.dual) == pytest.approx((primal, dual), rel=1e-9)


def _recording(observe, duals):
    def recorded(*args):
        dual, gap = observe(*args)
        duals.append(dual)
        return dual, gap

    return recorded


@every_loss
def test_float32_weights_do(hurry, advance, loss):
    oracle, problem = setup(loss, dtype=np.float32)
    result = solve(problem, solver="sweep", tol=1e-3, max_iter=5000)
    assert "float32" in {call.args[1].dtype.name for call in advance.call_args_list}
    assert result.converged
    assert_honest(result, oracle, 1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_slow_sweeps_become_fewer(tuned, loss):
    X, y = make_text_like(5000, 3000, mean_length=30, random_state=0)
    svc = LinearSVC(loss=loss, C=1000.0, tol=1e-6, solver="sweep", random_state=0)
    fast = clone(svc).fit(X, y)
    tuned(FIRST_MOMENTUM=np.inf)
    slow = clone(svc).fit(X, y)
    assert fast.n_iter_ < 0.85 * slow.n_iter_
    assert max(fast.relative_gap_, slow.relative_gap_) <= 1e-6
    assert fast.primal_objective_ == pytest.approx(slow.primal_objective_, rel=1e-6)


@every_formulation
def test_momentum_that_does_not_help_is_given_up(hurry, monkeypatch, advance, formulation):
    """Where the centre runs in circles, no gap is small enough to let go of it."""
    problem, _, _ = problem_of(formulation)
    plain = solve(problem, solver="sweep", tol=1e-6, max_iter=3000)
    assert plain.converged
    assert advance.called
    begin = Momentum.__init__

    def begin_in_circles(self, *args):
        begin(self, *args)
        self.beta = 1.2

    monkeypatch.setattr(Momentum, "__init__", begin_in_circles)
    advance.reset_mock()
    result = solve(problem, solver="sweep", tol=1e-6, max_iter=3000)
    assert advance.called
    assert result.converged


def judged(plain, with_it):
    """Return whether momentum is kept after these gaps, and whether it then ended in time."""
    policy = Policy(costs_of(problem_of("hinge")[0]), "sweep", 1e-3, 1000, momentum=True)
    for gap in plain:
        policy.observe(gap)
    policy.begin_momentum()
    kept = [policy.observe(gap) or policy.momentum_helps() for gap in with_it]
    policy.end_momentum()
    return all(kept), policy


def test_momentum_that_leaves_no_gap_is_kept():
    assert judged([1.0, 0.9, 0.8, 0.7], 128 * [0.0])[0]


def test_momentum_is_judged_by_what_sweeps_did_without_it():
    plain, sweeps = 0.98 ** np.arange(32), np.arange(TRIAL)
    for rate, helps in ((0.98, True), (0.989, True), (0.992, False), (1.0, False), (1.01, False)):
        assert judged(plain, plain[-1] * rate**sweeps)[0] == helps
        assert judged(plain, plain[-1] * rate ** sweeps[:-1])[0]  # not yet
    assert not judged(np.ones(32), np.ones(TRIAL))[0]
    ups_and_downs = plain[-1] * 0.98**sweeps * np.tile([2.0, 1.5, 1.0, 1.2], TRIAL // 4)
    assert judged(plain, ups_and_downs)[0]
    stuck = [*(plain[-1] * 0.9**sweeps), *np.full(TRIAL, 0.9**TRIAL)]
    assert not judged(plain, stuck)[0]  # after a good beginning


def test_momentum_given_up_comes_back_later():
    plain, enough = np.full(FIRST_MOMENTUM, 0.5), [0.5] * 5 + [1e-3]
    for with_it, wait in ((np.full(TRIAL, 0.5), 2 * FIRST_MOMENTUM), (enough, FIRST_MOMENTUM)):
        _, policy = judged(plain, with_it)
        for sweep in range(1, wait + 1):
            policy.observe(0.5)
            assert policy.wants_momentum(100) == (sweep >= wait)


def test_schedules_of_the_papers_are_left_alone(hurry, tuned):
    _, problem = setup("hinge")
    options = {"solver": "sweep", "tol": 1e-6, "max_iter": 500}
    with_it = {name: solve(problem, schedule=name, **options) for name in SCHEDULES}
    tuned(FIRST_MOMENTUM=np.inf)
    for name, result in with_it.items():
        assert same(result, solve(problem, schedule=name, **options)) == (name != "auto")

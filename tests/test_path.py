"""A path: every point certified, each as good as a cold fit, seeds that are what they claim."""

from __future__ import annotations

import signal

import exact
import naive
import numpy as np
import pytest
import scipy.sparse as sp
import test_multiclass
import test_solve
import test_svc
from moments import Clock, Interrupt
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from dualsweep import LinearSVC, svc_path
from dualsweep.datasets import make_text_like
from dualsweep.losses import LOSSES
from dualsweep.solvers.policy import SOLVERS
from dualsweep.solvers.solve import Start, solve, start_from

CS = 2.0 ** np.arange(-6, 4)
DIRECT = ["crammer_singer", "weston_watkins"]
MODELS = [*({"loss": loss} for loss in LOSSES), *({"multi_class": name} for name in DIRECT)]
every_model = pytest.mark.parametrize("params", MODELS, ids=lambda p: next(iter(p.values())))
every_loss = pytest.mark.parametrize("loss", LOSSES)
every_box = pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss in naive.LOWER])
every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_direct = pytest.mark.parametrize("formulation", DIRECT)


def assert_certified(model, X, y, sample_weight=None):
    check = test_svc if model.multi_class == "ovr" else test_multiclass
    check.assert_certified(model, X, y, sample_weight)


# ------------------------------------------------------------------------------------- the seed


def follow(problem, first, before, **options):
    """Solve a problem from the solution of another one."""
    return solve(problem, start=start_from(problem, first.candidates, before), **options)


def binary_problems(loss, ratio, weighted=True):
    """The same rows at two costs, and the oracle of the second."""
    X, y = naive.random_data()
    cost = np.random.default_rng(1).uniform(0.1, 2.0, len(y)) if weighted else np.ones(len(y))
    oracle = naive.Naive(X, y, ratio * cost, loss, 1.0)
    first = naive.library_problem(X, y, cost, loss, 1.0)
    return first, first.with_costs(ratio * cost), oracle


@every_box
@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("tol", [1e-1, 1e-8])
def test_the_seed_is_the_best_feasible_multiple(loss, ratio, tol):
    first, second, oracle = binary_problems(loss, ratio)
    before = solve(first, tol=tol, solver="sweep", max_iter=5000)
    alpha, known = second.rescaled(before, first.candidates)
    scale = (alpha @ before.alpha) / (before.alpha @ before.alpha)
    np.testing.assert_allclose(alpha, scale * before.alpha, rtol=1e-12)
    assert ((alpha >= oracle.lower) & (alpha <= oracle.upper)).all()
    for other in scale * np.array([0.0, 0.5, 0.99, 1.01, 2.0]):
        point = other * before.alpha
        if ((point >= oracle.lower) & (point <= oracle.upper)).all():
            assert oracle.dual(point) <= oracle.dual(alpha)

    w = oracle.weights(alpha)
    np.testing.assert_allclose(known.w, w, atol=1e-12)
    assert known.primal == pytest.approx(oracle.primal(w), rel=1e-12)
    assert known.gap == pytest.approx(oracle.gap(w, alpha), abs=1e-12 * known.primal)


@pytest.mark.parametrize("ratio", [2.0, 10.0 / 3.0, 1e3 ** (1 / 9)])
def test_rows_at_their_bound_stay_exactly_there(ratio):
    first, second, _ = binary_problems("hinge", ratio)
    first = first.with_costs(1e-3 * first.cost)  # so little that most rows are at their bound
    second = second.with_costs(1e-3 * second.cost)
    before = solve(first, tol=1e-8, solver="sweep", max_iter=5000)
    at_bound = before.alpha == first.cost
    assert at_bound.sum() > 20
    alpha, _ = second.rescaled(before, first.candidates)
    np.testing.assert_array_equal(alpha[at_bound], second.cost[at_bound])


@every_direct
@pytest.mark.parametrize("ratio", [0.3, 2.0, 10.0 / 3.0])
@pytest.mark.parametrize("cost", [0.01, 1.0])
def test_the_seed_of_many_classes(formulation, ratio, cost):
    oracle, second = test_multiclass.setup(formulation, cost=ratio * cost)
    _, first = test_multiclass.setup(formulation, cost=cost)
    before = solve(first, tol=1e-6, max_iter=20_000)

    beta = test_multiclass.dense(first, before.alpha)
    seed = test_multiclass.dense(second, second.rescaled(before, first.candidates)[0])
    s = (seed * beta).sum() / (beta**2).sum()
    np.testing.assert_allclose(seed, s * beta, rtol=1e-12)
    used = seed.sum(axis=1) if second.joint else seed.max(axis=1)
    assert (used <= second.cost * (1 + 1e-14)).all()
    exact = beta == first.cost[:, None]
    if s == pytest.approx(ratio):
        assert exact.any()
        np.testing.assert_array_equal(
            seed[exact], np.broadcast_to(second.cost, beta.T.shape).T[exact]
        )
    limit = (second.cost / (beta.sum(axis=1) if second.joint else beta.max(axis=1))).min()
    for other in s * np.array([0.0, 0.5, 0.99, 1.01, 2.0]):
        if other <= limit:
            assert oracle.dual(other * beta) <= oracle.dual(seed)


@every_box
def test_a_solution_of_no_rows_leads_to_a_cold_start(loss):
    first, second, oracle = binary_problems(loss, 2.0)
    alpha, known = second.rescaled(solve(first, max_iter=0), first.candidates)
    np.testing.assert_array_equal(alpha, 0.0)
    assert known.primal == known.gap == pytest.approx(oracle.cost.sum())


@every_box
@every_solver
@pytest.mark.parametrize("early", [{"max_iter": 0}, {"max_time": 0.0}, {"stop": lambda: True}, {}])
def test_what_is_returned_is_computed_from_scratch(loss, solver, early):
    """Also where no sweep was made from a start of which everything was known before."""
    first, second, oracle = binary_problems(loss, 1.5)
    before = solve(first, tol=1e-6, solver="sweep", max_iter=5000)
    result = follow(
        second,
        first,
        before,
        solver=solver,
        tol=1e-6,
        max_iter=early.get("max_iter", 5000),
        **{k: v for k, v in early.items() if k != "max_iter"},
    )
    test_solve.assert_honest(result, oracle, 1e-6)
    assert result.converged == (not early)
    np.testing.assert_allclose(result.slack, 1 - oracle.Z @ result.w, atol=1e-12)
    again = follow(second, second, result, solver=solver, tol=1.0)  # proven at once: no sweep
    assert again.n_iter == 0
    test_solve.assert_honest(again, oracle, 1.0)


@every_box
def test_wrong_knowledge_proves_nothing(loss):
    _, problem, oracle = binary_problems(loss, 1.0)
    alpha, known = problem.rescaled(solve(problem, tol=0.5, solver="sweep"), problem.candidates)
    lie = known._replace(w=known.w.copy(), gap=0.0)
    result = solve(problem, start=Start(alpha, lie), tol=1e-6, solver="sweep", max_iter=5000)
    assert result.n_iter > 0
    test_solve.assert_honest(result, oracle, 1e-6)
    assert result.converged


@every_loss
def test_rows_that_change_sides_are_no_problem(loss):
    """Rows without a cost before have one now, and the other way round."""
    X, y = naive.random_data()
    costs = np.where(np.arange(len(y)) < 25, [[1.0], [0.0]], [[0.0], [1.0]])
    costs[:, 10:20] = 1.0
    first = naive.library_problem(X, y, costs[0], loss, 1.0)
    before = solve(first, tol=1e-3)
    result = follow(first.with_costs(costs[1]), first, before, tol=1e-8, max_iter=5000)
    used = costs[1] > 0
    assert not result.alpha[~used].any()
    cold = solve(naive.library_problem(X[used], y[used], 1.0, loss, 1.0), tol=1e-8, max_iter=5000)
    assert result.converged
    assert result.primal == pytest.approx(cold.primal, rel=2e-8)


# ------------------------------------------------------------------------------------- the path


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@every_model
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_warm_equals_cold(digits, params, layout, dtype):
    X, y = digits[0][:600].astype(dtype), digits[1][:600]
    X = sp.csr_array(X) if layout == "csr" else X
    Cs = CS[:8:2]
    path = svc_path(X, y, Cs, random_state=0, **params)
    for C, model in zip(Cs, path.models, strict=True):
        assert_certified(model, X, y)
        cold = LinearSVC(C=C, random_state=0, **params).fit(X, y)
        # both are at most tol above the same optimum, the larger of the two lower bounds
        lower = max(model.dual_objective_, cold.dual_objective_)
        assert lower * (1 - 1e-12) <= model.primal_objective_ <= lower / (1 - 1e-3)
        assert model.C == C


@every_model
@every_solver
def test_two_classes(cancer, params, solver):
    X, y = cancer
    options = {"solver": solver, "tol": 1e-4, "max_iter": 50_000, "random_state": 0, **params}
    path = svc_path(X, y, [0.01, 0.1, 1.0], **options)
    for C, model in zip(path.Cs, path.models, strict=True):
        if model.multi_class == "ovr":
            assert_certified(model, X, y)
        cold = LinearSVC(C=C, **options).fit(X, y)
        assert model.primal_objective_ == pytest.approx(cold.primal_objective_, rel=1e-4)
        lower = max(model.dual_objective_, cold.dual_objective_)
        assert model.primal_objective_ <= lower / (1 - 1e-4)


def test_newton_takes_over_along_the_path():
    """Badly scaled features at large C, where sweeps alone would not end."""
    X, y = load_breast_cancer(return_X_y=True)
    path = svc_path(X, y, [1e-3, 1.0, 1e3], loss="hinge", tol=1e-5, random_state=0)
    for model in path.models:
        assert_certified(model, X, y)
        assert model.n_iter_ < 300


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_where_newton_was_needed_before_it_starts(loss):
    X, y = naive.random_data(100, 300)  # so many features that sweeps come first
    cost = np.random.default_rng(1).uniform(0.1, 2.0, len(y))
    first = naive.library_problem(X, y, cost, loss, 1.0)
    second = first.with_costs(2.0 * cost)
    swept, newton = (
        solve(first, solver=solver, tol=1e-6, max_iter=5000) for solver in ("sweep", "newton")
    )
    for before, solver, newton_only in (
        (swept, "auto", False),
        (newton, "auto", True),
        (newton, "sweep", False),
    ):
        after = follow(second, first, before, solver=solver, tol=1e-8, max_iter=5000)
        assert after.converged
        assert (after.n_newton == after.n_iter > 0) == newton_only


def test_where_sweeps_were_many_newton_starts():
    X, y = load_breast_cancer(return_X_y=True)
    y = np.where(y == 1, 1.0, -1.0)
    first = naive.library_problem(X, y, 1e-3, "squared_hinge", 1.0)
    second = first.with_costs(10 * first.cost)
    before = solve(first, solver="sweep", tol=1e-6, max_iter=100)
    assert before.n_iter == 100
    after = follow(second, first, before, tol=1e-8)
    assert after.converged
    assert after.n_newton == after.n_iter < 30


@every_model
def test_seeds_save_sweeps(params):
    n_classes = 4 if "multi_class" in params else 2
    X, y = make_text_like(1500, 2000, n_classes=n_classes, random_state=0)
    options = {"solver": "sweep", "random_state": 0, **params}
    warm = sum(model.n_iter_ for model in svc_path(X, y, CS, **options).models)
    cold = sum(LinearSVC(C=C, **options).fit(X, y).n_iter_ for C in CS)
    assert warm < 0.8 * cold


@every_model
def test_a_path_of_one_is_a_fit(digits, params):
    X, y = digits
    path = svc_path(X, y, [0.25], random_state=3, **params)
    model = LinearSVC(C=0.25, random_state=3, **params).fit(X, y)
    np.testing.assert_array_equal(path.coefs[0], model.coef_)
    np.testing.assert_array_equal(path.intercepts[0], model.intercept_)
    assert path.primal_objectives[0] == model.primal_objective_
    assert path.dual_objectives[0] == model.dual_objective_
    assert path.relative_gaps[0] == model.relative_gap_
    assert path.n_support[0] == len(model.support_)
    np.testing.assert_array_equal(path.models[0].predict(X), model.predict(X))


def test_threads_do_not_matter(digits):
    X, y = digits
    paths = [svc_path(X, y, [0.1, 1.0], n_jobs=n_jobs, random_state=0) for n_jobs in (None, 2, 5)]
    for path in paths[1:]:
        np.testing.assert_array_equal(path.coefs, paths[0].coefs)
        np.testing.assert_array_equal(path.relative_gaps, paths[0].relative_gaps)


def test_values_are_tried_in_ascending_order_once_each(cancer):
    X, y = cancer
    path = svc_path(X, y, [1.0, 0.01, 0.1, 0.01], random_state=0)
    np.testing.assert_array_equal(path.Cs, [0.01, 0.1, 1.0])
    assert [model.C for model in path.models] == [0.01, 0.1, 1.0]
    assert path.times.shape == path.n_support.shape == (3,)
    np.testing.assert_allclose(svc_path(X, y, random_state=0, tol=0.1).Cs, CS)
    np.testing.assert_allclose(svc_path(X, y, 4, random_state=0, tol=0.1).Cs, [2**-6, 2**-3, 1, 8])
    np.testing.assert_array_equal(svc_path(X, y, 1, random_state=0, tol=0.1).Cs, [1.0])


@every_model
def test_weights_and_classes_of_weight_zero(params):
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    weight[y == 1] = 0.0
    options = {"random_state": 0, "tol": 1e-5, "max_iter": 50_000, **params}
    path = svc_path(X, y, [0.1, 1.0], sample_weight=weight, **options)
    for model in path.models:
        np.testing.assert_array_equal(model.classes_, [0, 2])
        cold = LinearSVC(C=model.C, **options).fit(
            np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int))
        )
        assert model.primal_objective_ == pytest.approx(cold.primal_objective_, rel=1e-5)


def test_costs_that_begin_to_count_on_the_way(cancer):
    """The weight of row 4 times the first C is nothing, times the second it is not."""
    X, y = cancer
    weight = np.ones(len(y))
    weight[4] = 1e-299
    path = svc_path(X, y, [1e-2, 1.0], loss="hinge", sample_weight=weight, random_state=0)
    for model in path.models:
        assert_certified(model, X, y, weight)


@pytest.mark.filterwarnings("ignore:svc_path stopped above")
@every_model
@pytest.mark.parametrize("scale", [1e-150, 1e-50, 1e50, 1e100])
def test_certificates_at_extreme_scales_are_true(params, scale):
    """Recomputed in exact rationals from what the models hold."""
    X, y = load_iris(return_X_y=True)
    X, y = scale * X[40:60], y[40:60]
    path = svc_path(X, y, [1.0, 1e5, 1e10], random_state=0, max_iter=50, **params)
    for model in path.models:
        ((primal, dual),) = exact.certificates(model, X, y)
        assert 0 <= primal - dual <= exact.Fraction(model.dual_gap_)
        assert primal <= exact.Fraction(model.primal_objective_)
        assert dual >= exact.Fraction(model.dual_objective_)
        assert model.dual_gap_ <= 20 * model.C * (1 + 1e-12)  # that of w = 0
        assert model.converged_ == (model.relative_gap_ <= model.tol)


# -------------------------------------------------------------------------------------- manners


@pytest.mark.parametrize("make", [np.ascontiguousarray, sp.csr_matrix])
def test_data_are_neither_copied_nor_changed(monkeypatch, cancer, make):
    import dualsweep.training.fitting as core

    X, y = make(cancer[0]), cancer[1]
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices]
    before = [array.copy() for array in arrays]
    seen = []

    def spy(problem, **options):
        seen.append(problem)
        return start_run(problem, **options)

    start_run = core.start_run
    monkeypatch.setattr(core, "start_run", spy)
    svc_path(X, y, 3, random_state=0)
    assert len(seen) == 3
    for problem in seen:
        assert problem.sqnorm is seen[0].sqnorm
        for array, copy, used in zip(arrays, before, problem.passes.rows, strict=False):
            assert np.shares_memory(array, used)
            assert array.flags.writeable
            np.testing.assert_array_equal(array, copy)


def test_points_above_tol_are_warned_about_once(digits):
    X, y = digits
    with pytest.warns(ConvergenceWarning) as caught:
        path = svc_path(X, y, CS, solver="sweep", loss="hinge", max_iter=3, random_state=0)
    short = path.relative_gaps > 1e-3
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert f"{short.sum()} of 10 values of C" in message
    assert f"{path.relative_gaps.max():.1e}, at C = {CS[path.relative_gaps.argmax()]:g}." in message


def test_max_time_is_for_the_whole_path(monkeypatch, digits):
    X, y = digits
    clock = Clock(monkeypatch, step=0.01)
    with pytest.warns(ConvergenceWarning):
        path = svc_path(
            X, y, [10.0, 1e2, 2e2, 4e2], solver="sweep", tol=1e-9, max_iter=10**9, max_time=20.0
        )
    assert 20.0 < clock.now < 30.0
    assert len(path.models) == 4
    for model in path.models:
        test_svc.assert_honest(model, X, y)


def test_interrupt(monkeypatch, digits):
    X, y = digits
    handler = signal.getsignal(signal.SIGINT)
    interrupt = Interrupt(monkeypatch, epoch=30)
    with pytest.raises(KeyboardInterrupt):
        svc_path(X, y, [1e5, 1e6], solver="sweep", tol=1e-13, max_iter=10**9)
    assert interrupt.epochs_after <= 2
    assert signal.getsignal(signal.SIGINT) is handler


def test_progress_on_request(capfd):
    X, y = load_iris(return_X_y=True)
    svc_path(X, y, [0.1, 1.0], random_state=0)
    assert capfd.readouterr() == ("", "")
    svc_path(X, y, [0.1, 1.0], random_state=0, verbose=1)
    shown = capfd.readouterr().out
    assert all(f"class {k}" in shown for k in range(3))
    assert "C 1 " in shown


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"Cs": 0}, ValueError, "at least 1, or a list of positive values, but is 0"),
        ({"Cs": []}, ValueError, "positive values"),
        ({"Cs": [1.0, 0.0]}, ValueError, "positive values"),
        ({"Cs": [1.0, np.nan]}, ValueError, "positive values"),
        ({"Cs": [1.0, np.inf]}, ValueError, "positive values"),
        ({"Cs": [[1.0]]}, ValueError, "positive values"),
        ({"C": 1.0}, TypeError, "takes no C; it takes Cs"),
        ({"warm_start": True}, TypeError, "takes no warm_start"),
        ({"penalty": "l1"}, TypeError, "penalty"),
        ({"loss": "log"}, ValueError, "'loss' parameter"),
        ({"sample_weight": [-1.0] * 569}, ValueError, "must not be negative"),
        ({"Cs": [1.0, 1e308]}, ValueError, "their sum overflows"),
    ],
)
def test_bad_input(cancer, change, error, message):
    with pytest.raises(error, match=message):
        svc_path(*cancer, **change)

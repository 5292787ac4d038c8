"""LinearSVCCV: folds are fits on the subset, choices are those of a naive recomputation."""

from __future__ import annotations

import time
from concurrent.futures import Future
from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from moments import Interrupt
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score, get_scorer, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualsweep import LinearSVC, LinearSVCCV
from dualsweep._threads import Workers
from dualsweep.estimators import _folds, _search, searching
from dualsweep.estimators._folds import Fold, FoldBar
from dualsweep.estimators._tried import _since_best, choose
from dualsweep.placements import TrainingSet
from dualsweep.training import Context

DIRECT = ["crammer_singer", "weston_watkins"]
MODELS = [
    *({"loss": loss} for loss in ("hinge", "squared_hinge", "squared")),
    *({"multi_class": name} for name in DIRECT),
]
every_model = pytest.mark.parametrize("params", MODELS, ids=lambda p: next(iter(p.values())))
at_an_end = pytest.mark.filterwarnings("ignore:.* found the best score at C")
TIGHT = {"tol": 1e-8, "max_iter": 200_000, "random_state": 0}


# Three folds, as scikit-learn checks its own: the smallest of its data sets has three rows a class,
# or even two.
@pytest.mark.filterwarnings("ignore:The least populated class in y")
@at_an_end
@parametrize_with_checks([LinearSVCCV(cv=3)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["a", "b", "c"])[y]


# ---------------------------------------------------------------------------- folds are subsets


def fold_of(svc, X, y, weight, train, test, Cs):
    context = Context()
    data = TrainingSet(X, y, weight, svc._settings(), context)
    return Fold(svc, svc._settings(), data, train, test, Cs, context, FoldBar(context.bars, 0))


@every_model
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 7: 0.5}])
def test_a_fold_is_a_fit_on_the_subset(digits, params, layout, class_weight):
    """The same objective, although no row is copied; with a class that the subset lacks."""
    X, y = digits[0][:300], digits[1][:300]
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    train = np.flatnonzero((np.arange(len(y)) % 5 != 0) & (y != 7))
    test = np.flatnonzero(np.arange(len(y)) % 5 == 0)
    tol = 1e-5
    svc = LinearSVC(tol=tol, max_iter=50_000, class_weight=class_weight, random_state=0, **params)
    rows = sp.csr_array(X) if layout == "csr" else X
    fold = fold_of(svc, rows, y, weight, train, test, [0.05, 0.2])
    models = []

    def score(model, chosen):
        np.testing.assert_array_equal(chosen, test)
        models.append(model)
        return model.score(X[chosen], y[chosen])

    for c in range(2):
        assert fold.tried == c
        fold.train(c)
        fold.assess(c, score)
    assert not fold.fitted  # nothing is kept that nothing starts from

    if isinstance(class_weight, dict):  # what scikit-learn would refuse on the subset
        svc.class_weight = {0: 3.0}
    for C, model, point in zip(fold.Cs, models, fold.points, strict=True):
        subset = clone(svc).set_params(C=C).fit(X[train], y[train], weight[train])
        np.testing.assert_array_equal(model.classes_, subset.classes_)
        assert 7 not in model.classes_
        lower = max(model.dual_objective_, subset.dual_objective_)
        assert lower * (1 - 1e-12) <= model.primal_objective_ <= lower / (1 - tol)
        assert model.dual_coef_.shape[1] == len(y)
        assert np.isin(model.support_, train).all()
        np.testing.assert_allclose(model.coef_, model.dual_coef_ @ X, atol=1e-9)
        assert point.score == model.score(X[test], y[test])
        assert point.n_support == len(model.support_)
        assert point.relative_gap == model.relative_gap_ <= tol
        assert point.length == pytest.approx(np.sqrt((model.coef_**2).sum()))


def test_a_row_that_is_drawn_twice_counts_twice(iris):
    X, y = iris
    train = np.random.default_rng(0).integers(0, len(y), 100)
    svc = LinearSVC(**TIGHT)
    fold = fold_of(svc, X, y, None, train, slice(0, 5), [0.1])
    models = []
    fold.train(0)
    fold.assess(0, lambda model, _: models.append(model) or 0.0)
    subset = clone(svc).set_params(C=0.1).fit(X[train], y[train])
    assert models[0].primal_objective_ == pytest.approx(subset.primal_objective_, rel=2e-8)
    np.testing.assert_allclose(models[0].coef_, subset.coef_, atol=1e-3)


def test_training_copies_nothing(monkeypatch, cancer):
    import dualsweep.training.fitting as core

    X, y = sp.csr_matrix(cancer[0].astype(np.float32)), cancer[1]
    seen = []

    def spy(problem, **options):
        seen.append(problem)
        return start_run(problem, **options)

    start_run = core.start_run
    monkeypatch.setattr(core, "start_run", spy)
    LinearSVCCV(Cs=3, patience=None, random_state=0).fit(X, y)
    assert len(seen) == 15 + 1
    for problem in seen:
        assert problem.sqnorm is seen[0].sqnorm
        assert np.shares_memory(problem.passes.rows.data, X.data)
        assert np.shares_memory(problem.passes.rows.indices, X.indices)


# --------------------------------------------------------------------------------- the search


@every_model
@at_an_end
@pytest.mark.parametrize("data", ["iris", "cancer"])
def test_the_same_choice_and_scores_as_a_grid_search(request, data, params):
    X, y = request.getfixturevalue(data)
    Cs = [0.01, 0.03, 0.1, 0.3]
    model = LinearSVCCV(Cs=Cs, patience=None, **TIGHT, **params).fit(X, y)
    grid = GridSearchCV(LinearSVC(**TIGHT, **params), {"C": Cs}, cv=5).fit(X, y)
    results = grid.cv_results_
    np.testing.assert_allclose(
        model.scores_, [results[f"split{f}_test_score"] for f in range(5)], atol=1e-12
    )
    np.testing.assert_allclose(model.mean_score_, results["mean_test_score"])
    assert grid.best_params_["C"] == model.C_
    np.testing.assert_array_equal(model.coef_, grid.best_estimator_.coef_)
    np.testing.assert_array_equal(model.predict(X), grid.predict(X))


def test_attributes(digits):
    X, y = digits
    model = LinearSVCCV(Cs=4, cv=3, patience=None, random_state=0).fit(X, y)
    unit = 1 / (X**2).sum(axis=1).mean()
    np.testing.assert_allclose(model.Cs_, np.array([2**-6, 2**-3, 1, 8]) * unit)
    for name in ("scores_", "fit_time_", "n_support_", "search_gap_"):
        assert getattr(model, name).shape == (3, 4)
    assert (model.search_gap_ <= 1e-3).all()
    assert (np.diff(model.n_support_, axis=1)[:, 1:] < 0).all()
    assert (model.fit_time_ > 0).all()
    np.testing.assert_allclose(model.mean_score_, model.scores_.mean(axis=0))
    np.testing.assert_allclose(model.std_error_, model.scores_.std(axis=0, ddof=1) / np.sqrt(3))
    alone = LinearSVC(C=model.C_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    np.testing.assert_array_equal(model.best_estimator_.coef_, alone.coef_)
    assert model.relative_gap_ == alone.relative_gap_
    assert model.best_estimator_.C == model.C_
    np.testing.assert_array_equal(model.best_estimator_.predict(X), model.predict(X))
    assert model.score(X, y) == accuracy_score(y, model.predict(X))


def test_threads_do_not_matter(digits):
    X, y = digits[0][:500], digits[1][:500]
    for options in ({}, {"patience": 1}, {"multi_class": "crammer_singer", "patience": 1}):
        fits = [
            LinearSVCCV(Cs=6, n_jobs=n_jobs, random_state=0, **options).fit(X, y)
            for n_jobs in (None, 2, 5, 7)
        ]
        for fit in fits[1:]:
            for name in ("Cs_", "scores_", "search_gap_", "n_support_", "coef_", "intercept_"):
                np.testing.assert_array_equal(getattr(fit, name), getattr(fits[0], name))


def test_a_loose_search_and_a_tight_model(digits):
    X, y = digits
    model = LinearSVCCV(Cs=4, tol_search=0.1, tol=1e-6, max_iter=20_000, random_state=0).fit(X, y)
    assert 1e-3 < model.search_gap_.max() <= 0.1
    assert model.relative_gap_ <= 1e-6
    assert model.best_estimator_.tol == 1e-6


# ---------------------------------------------------------------------------------- the choice


def naive_choice(scores, selection):
    means = [sum(column) / len(column) for column in scores.T]
    best = max(means)
    if selection == "best":
        return next(j for j, mean in enumerate(means) if mean == best)
    column = scores[:, means.index(best)]
    variance = sum((score - best) ** 2 for score in column) / (len(column) - 1)
    within = best - (variance / len(column)) ** 0.5
    return next(j for j, mean in enumerate(means) if mean >= within)


@at_an_end
@pytest.mark.parametrize("selection", ["best", "one_standard_error"])
def test_choices_are_those_of_a_naive_recomputation(selection):
    X, y = make_classification(300, 20, n_informative=4, flip_y=0.2, random_state=0)
    chosen = set()
    for seed in range(6):
        cv = StratifiedKFold(5, shuffle=True, random_state=seed)
        model = LinearSVCCV(
            Cs=np.geomspace(1e-4, 1, 9), cv=cv, selection=selection, patience=None, random_state=0
        ).fit(X, y)
        assert model.Cs_[naive_choice(model.scores_, selection)] == model.C_
        chosen.add(model.C_)
    assert len(chosen) > 1


def test_one_standard_error_prefers_less_cost():
    mean, error = np.array([0.5, 0.79, 0.8, 0.82, 0.82]), np.array([9.0, 0.1, 0.1, 0.02, 0.0])
    assert choose(mean, error, "best") == 3
    assert choose(mean, error, "one_standard_error") == 2


# ------------------------------------------------------------------- the range and its two ends


def best_at(C):
    """Return a scoring by which this C is best, whatever the model."""
    return lambda model, X, y, sample_weight=None: -abs(np.log(model.C / C))


def test_the_range_follows_the_length_of_the_rows(iris):
    X, y = iris
    for rows in (X, sp.csr_array(X), X.astype(np.float32)):
        model = LinearSVCCV(Cs=4, scoring=best_at(0.2), cv=3, random_state=0).fit(rows, y)
        unit = 1 / (X**2).sum(axis=1).mean()
        np.testing.assert_allclose(model.Cs_[:4], 2.0 ** np.array([-6, -3, 0, 3]) * unit, rtol=1e-6)
    unit_rows = (X / np.linalg.norm(X, axis=1)[:, None]).astype(np.float32)
    model = LinearSVCCV(Cs=4, scoring=best_at(1.0), cv=3, random_state=0).fit(unit_rows, y)
    np.testing.assert_array_equal(model.Cs_, 2.0 ** np.array([-6, -3, 0, 3]))


def test_of_columns_in_different_units_the_range_follows_typical_entries(cancer):
    X, y = load_breast_cancer(return_X_y=True)
    model = LinearSVCCV(Cs=2, cv=3, patience=1, scoring=best_at(1.0)).fit(X, y)
    filled, squares = (X != 0).sum(axis=0), (X**2).sum(axis=0)
    typical = np.exp(np.average(np.log(squares / filled), weights=filled)) * filled.sum() / len(X)
    assert (X**2).sum(axis=1).mean() > 1e4 * typical
    assert model.Cs_[0] == pytest.approx(2**-6 / typical)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("scale_of_X", [1e-6, 1e-3, 1e3, 1e60])
def test_the_units_of_the_features_do_not_matter(layout, scale_of_X):
    """Scaled by s, with C over s^2, the same problems."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:200, :8] + 0.0
    options = {"cv": 3, "fit_intercept": False, "tol": 1e-6, "max_iter": 5000, "random_state": 0}
    models = []
    for rows in (X, X * scale_of_X):
        rows = sp.csr_array(rows) if layout == "csr" else rows
        models.append(LinearSVCCV(**options).fit(rows, y[:200]))
    one, other = models
    np.testing.assert_allclose(other.Cs_ * scale_of_X**2, one.Cs_)
    np.testing.assert_allclose(other.scores_, one.scores_)
    assert other.C_ * scale_of_X**2 == pytest.approx(one.C_)


def test_a_row_of_weight_2_is_two_rows_for_the_range(cancer):
    X, y = cancer
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    again = np.repeat(np.arange(len(y)), weight)
    folds = [(slice(0, None), slice(0, None))]
    options = {"Cs": 3, "cv": folds, "scoring": best_at(0.03), "random_state": 0}
    weighted = LinearSVCCV(**options).fit(X, y, sample_weight=weight)
    repeated = LinearSVCCV(**options).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.Cs_, repeated.Cs_)


def test_unscaled_data_find_a_good_score(cancer):
    """In units of 1e-3, with the range of rows of unit length, it was 0.926."""
    X, y = load_breast_cancer(return_X_y=True)
    for s in (1e-3, 1.0, 1e3):
        assert LinearSVCCV(random_state=0).fit(X * s, y).mean_score_.max() > 0.95


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("patience", [3, None])
@pytest.mark.parametrize(("best", "n"), [(50.0, 10), (1.5e-4, 10), (30.0, 4)])
def test_the_search_goes_on_past_an_end_that_is_best(cancer, n_jobs, patience, best, n):
    X, y = cancer
    scores = best_at(best)
    model = LinearSVCCV(Cs=n, scoring=scores, patience=patience, n_jobs=n_jobs, cv=3)
    model.set_params(random_state=0, loss="hinge").fit(X, y)
    base = 2.0 ** np.linspace(-6, 3, n) / 30
    step = max(base[1] / base[0], 4.0)
    if best > base[-1]:
        more = base[-1] * step ** np.arange(1, 20)
        last = np.abs(np.log(more / best)).argmin() + 3  # three values without a better score
        expected = [*base, *more[: last + 1]]
    else:
        more = base[0] / step ** np.arange(1, 20)
        last = np.abs(np.log(more / best)).argmin() + 3
        upwards = n if patience is None else 4
        expected = [*more[last::-1], *base[:upwards]]
    np.testing.assert_allclose(model.Cs_, expected)
    assert model.Cs_[model.mean_score_.argmax()] == model.C_
    assert abs(np.log(model.C_ / best)) <= 0.5 * np.log(step) + 1e-9
    for name in ("scores_", "fit_time_", "n_support_", "search_gap_"):
        assert getattr(model, name).shape == (3, len(model.Cs_))
    assert (np.diff(model.n_support_, axis=1) <= 3).all()  # those of these C, in this order
    alone = LinearSVC(C=model.C_, loss="hinge", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)


def test_values_past_an_end_start_from_the_solution_before(monkeypatch, cancer):
    begun = []

    def spy(data, settings, context, before=None, **options):
        begun.append((settings.C, before))
        return train(data, settings, context, before=before, **options)

    train = _folds.train
    monkeypatch.setattr(_folds, "train", spy)
    LinearSVCCV(Cs=4, scoring=best_at(30.0), cv=3, random_state=0).fit(*cancer)
    cold = [C for C, before in begun if before is None]
    assert len(begun) > 15
    np.testing.assert_array_equal(cold, [min(cold)] * 3)


@pytest.mark.parametrize(("best", "end"), [(1e9, "largest"), (1e-20, "smallest")])
def test_an_end_that_stays_best_is_told(cancer, best, end):
    with pytest.warns(ConvergenceWarning) as caught:
        model = LinearSVCCV(scoring=best_at(best), cv=3, solver="newton").fit(*cancer)
    [warning] = [w for w in caught if "best score" in str(w.message)]
    assert warning.filename == __file__
    assert len(model.Cs_) == 20 if end == "largest" else 14
    C = model.Cs_[-1 if end == "largest" else 0]
    assert model.C_ == C
    assert f"found the best score at C = {C:g}, the {end} of {len(model.Cs_)} values" in str(
        warning.message
    )
    assert "Scale the features, or pass" in str(warning.message)


@pytest.mark.parametrize(("best", "end"), [(1e9, "larg"), (1e-20, "small")])
def test_values_that_are_given_are_the_only_ones(cancer, best, end):
    Cs = [0.01, 0.1, 1.0]
    with pytest.warns(ConvergenceWarning, match=f"Add {end}er values to Cs"):
        model = LinearSVCCV(Cs=Cs, scoring=best_at(best), cv=3, random_state=0).fit(*cancer)
    np.testing.assert_array_equal(model.Cs_, Cs)
    LinearSVCCV(Cs=Cs, scoring=best_at(0.1), cv=3, random_state=0).fit(*cancer)
    LinearSVCCV(Cs=Cs[:2], scoring=best_at(best), cv=3, random_state=0).fit(*cancer)  # two are ends
    LinearSVCCV(Cs=Cs, scoring=lambda *_: 1.0, cv=3, random_state=0).fit(*cancer)  # all are best


def test_weights_of_classes_are_not_undone_by_smaller_values(cancer):
    options = {"Cs": 3, "scoring": best_at(1e-9), "cv": 3, "random_state": 0}
    lengths = []
    for weight in (None, "balanced", {0: 1.0, 1: 2.0}):
        with pytest.warns(ConvergenceWarning, match="smallest of"):
            lengths.append(len(LinearSVCCV(**options, class_weight=weight).fit(*cancer).Cs_))
    assert lengths[0] > lengths[1] == lengths[2] == 3


def test_a_larger_C_that_takes_too_long_is_the_last(cancer):  # noqa: N802
    model = LinearSVCCV(scoring=best_at(1e9), cv=3, solver="sweep", max_iter=30, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(*cancer)
    short = (model.search_gap_ > 1e-3).any(axis=0)
    assert len(model.Cs_) < 20
    assert short[-1]
    assert not short[10:-1].any()


# ------------------------------------------------------------------------------ the early stop


def test_settled_counts_values_without_a_better_score():
    Cs = 2.0 ** np.arange(8)
    flat = np.ones((3, 8))  # weights that have stopped growing
    mean = np.array([0.5, 0.7, 0.8, 0.8, 0.79, 0.8, 0.9, 0.1])

    def stops(patience, lengths=flat):
        found = [_since_best(mean[:n], lengths[:, :n], Cs[:n]) for n in range(1, 9)]
        return [n for n in range(1, 9) if found[n - 1] >= patience]

    assert stops(1) == [4, 5, 6, 8]
    assert stops(2) == [5, 6]
    assert stops(3) == [6]
    assert stops(4) == []
    assert stops(3, flat * Cs) == []  # in proportion to C: it has not begun
    assert stops(3, flat * Cs**0.4) == [6]
    assert stops(1, 0 * flat) == []  # no weights at all


def test_the_search_stops_when_scores_have_settled(cancer):
    X, y = cancer
    Cs = 10.0 ** np.arange(-4, 6)
    tried = []

    def scoring(model, X, y):
        tried.append(model.C)
        return 1.0 - abs(np.log10(model.C) + 2)  # best at C = 0.01

    for patience, n in ((1, 4), (3, 6), (None, 10)):
        tried.clear()
        model = LinearSVCCV(Cs=Cs, scoring=scoring, patience=patience, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.Cs_, Cs[:n])
        assert model.scores_.shape == (5, n)
        assert model.C_ == 0.01
        assert max(tried) == Cs[n - 1]  # with one thread nothing is tried in vain


class WhimsicalWorkers:
    """Threads that do what they are told when a seed says so, in an order that it decides."""

    def __init__(self, seed):
        self.rng, self.queue, self.most = np.random.default_rng(seed), [], 0

    def submit(self, function, *arguments):
        self.queue.append((future := Future(), function, arguments))
        self.most = max(self.most, len(self.queue))
        return future

    def wait(self, futures):
        for _ in range(self.rng.integers(1, 1 + len(self.queue)) if self.queue else 0):
            future, function, arguments = self.queue.pop(self.rng.integers(len(self.queue)))
            if future.set_running_or_notify_cancel():
                future.set_result(function(*arguments))
        return {future for future in futures if future.done()}


class DummyFold(Fold):
    def __init__(self, stride, stop):
        self.Cs, self.stride, self.stop, self.points = range(9), stride, stop, [None] * 9
        self.trained = set()

    def assess(self, c, score):
        assert c in self.trained
        if not self.stop():
            self.points[c] = "tried"

    def train(self, c):
        if not self.stop():
            if self.stride == 3:
                needed = {0: [], 1: [0], 2: [0], 3: [0], 4: [3], 5: [3], 6: [3], 7: [6], 8: [6]}[c]
            else:
                needed = [c - 1] if c else []
            assert self.trained.issuperset(needed)
            self.trained.add(c)


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("n_threads", [1, 4, 32])
@pytest.mark.parametrize("seed", range(10))
def test_folds_advance_side_by_side(monkeypatch, stride, n_threads, seed):
    """However threads take turns: the smallest C first, and one thread tries nothing in vain."""
    halt, asked = Event(), []
    context = Context(stop=halt.is_set)
    context.workers = WhimsicalWorkers(seed)
    monkeypatch.setattr(_folds, "wait", context.workers.wait)
    monkeypatch.setattr(_folds, "wait_for_one", context.workers.wait)
    folds = [DummyFold(stride, halt.is_set) for _ in range(5)]

    def enough(n):
        asked.append(n)
        return n == 4

    n = _folds.advance_folds(
        folds, None, n_threads=n_threads, context=context, halt=halt, enough=enough
    )
    assert (n, asked) == (4, [1, 2, 3, 4])
    if n_threads > 1:
        assert min(n_threads, 5) <= context.workers.most <= n_threads
    if n_threads == 1:
        assert context.workers.most == 0
        assert {len(fold.trained) for fold in folds} == {4}


def test_the_model_that_looks_best_is_made_ahead():
    stopped, begun = [], Event()

    def make(C, dropped):
        begun.set()
        while C == 1.0 and not dropped():
            time.sleep(1e-3)
        stopped.append((C, dropped()))
        return f"model of {C}"

    with Workers(2) as workers:
        ahead = _search._Ahead(make, workers)
        assert ahead.result(1.0) is None
        ahead.aim(1.0)
        assert begun.wait(10.0)
        ahead.aim(2.0)
        ahead.aim(2.0)
        assert ahead.result(1.0) is None
        assert ahead.result(2.0) == "model of 2.0"
    assert stopped == [(1.0, True), (2.0, False)]


@pytest.mark.parametrize("n_jobs", [2, 16])
@pytest.mark.parametrize("selection", ["best", "one_standard_error"])
def test_a_model_made_ahead_is_that_of_a_fit(monkeypatch, cancer, selection, n_jobs):
    monkeypatch.delattr(searching, "train")  # there is none to be made after the search
    X, y = cancer
    Cs = 2.0 ** np.arange(-12, 3)
    options = {"selection": selection, "n_jobs": n_jobs, "random_state": 0}
    model = LinearSVCCV(Cs=Cs, patience=None, **options).fit(X, y)
    assert Cs[-1] > model.C_
    fit = LinearSVC(C=model.C_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, fit.coef_)
    np.testing.assert_array_equal(model.dual_coef_.toarray(), fit.dual_coef_.toarray())


def test_a_plateau_before_training_has_begun_does_not_stop_the_search():
    """One class in twenty: with little C all rows go to the other one, and scores stand still."""
    rng = np.random.default_rng(0)
    y = (np.arange(400) % 20 == 0).astype(int)
    X = rng.normal(size=(400, 5)) + 2.0 * y[:, None]
    Cs = 10.0 ** np.arange(-9, 2)
    whole = LinearSVCCV(Cs=Cs, patience=None, random_state=0).fit(X, y)
    assert (whole.mean_score_[:4] == whole.mean_score_[0]).all()
    model = LinearSVCCV(Cs=Cs, patience=3, random_state=0).fit(X, y)
    assert model.C_ == whole.C_
    assert model.mean_score_.max() > model.mean_score_[0]


# ------------------------------------------------------------------------- scoring and splitting


@pytest.mark.parametrize(
    "scoring",
    ["accuracy", "roc_auc", "f1", make_scorer(f1_score, pos_label=0), "neg_hinge", None],
    ids=str,
)
def test_scoring(cancer, scoring):
    X, y = cancer
    if scoring == "neg_hinge":

        def scoring(estimator, X, y):
            return -np.maximum(0, 1 - (2 * y - 1) * estimator.decision_function(X)).mean()

    model = LinearSVCCV(Cs=[0.01, 0.1], scoring=scoring, cv=3, **TIGHT).fit(X, y)
    for j, C in enumerate([0.01, 0.1]):
        expected = cross_val_score(LinearSVC(C=C, **TIGHT), X, y, cv=3, scoring=scoring)
        np.testing.assert_allclose(model.scores_[:, j], expected, atol=1e-4)
    if scoring is None:  # without scikit-learn's checks, the same to the last bit
        plain = LinearSVCCV(Cs=[0.01, 0.1], scoring="accuracy", cv=3, **TIGHT).fit(X, y)
        np.testing.assert_array_equal(model.scores_, plain.scores_)
    scorer = get_scorer("accuracy" if scoring is None else scoring)
    assert model.score(X, y) == scorer(model, X, y)


def test_weights_also_weigh_the_scores(cancer):
    X, y = cancer
    weight = np.random.default_rng(0).integers(1, 5, len(y)).astype(float)
    folds = list(KFold(3).split(X))
    model = LinearSVCCV(Cs=[0.1], cv=folds, **TIGHT).fit(X, y, sample_weight=weight)
    for score, (train, test) in zip(model.scores_[:, 0], folds, strict=True):
        fit = LinearSVC(C=0.1, **TIGHT).fit(X[train], y[train], weight[train])
        assert score == pytest.approx(fit.score(X[test], y[test], weight[test]))
    assert model.score(X, y, sample_weight=weight) == pytest.approx(
        accuracy_score(y, model.predict(X), sample_weight=weight)
    )


@pytest.mark.parametrize("as_mask", [False, True])
def test_splits_as_indices_and_as_masks(iris, as_mask):
    X, y = iris
    folds = list(StratifiedKFold(3).split(X, y))
    expected = LinearSVCCV(Cs=2, cv=folds, random_state=0).fit(X, y)
    if as_mask:
        folds = [tuple(np.isin(np.arange(len(y)), part) for part in fold) for fold in folds]
    model = LinearSVCCV(Cs=2, cv=iter(folds), random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.scores_, expected.scores_)


def test_groups(cancer):
    X, y = cancer
    groups = np.arange(len(y)) % 7
    expected = LinearSVCCV(Cs=2, cv=list(GroupKFold(4).split(X, y, groups)), random_state=0)
    expected.fit(X, y)
    model = LinearSVCCV(Cs=2, cv=GroupKFold(4), random_state=0).fit(X, y, groups=groups)
    np.testing.assert_array_equal(model.scores_, expected.scores_)
    with pytest.raises(ValueError, match="groups"):
        LinearSVCCV(cv=GroupKFold(4)).fit(X, y)


def test_metadata_routing(cancer):
    X, y = cancer
    groups = np.arange(len(y)) % 3
    weight = np.random.default_rng(0).integers(1, 5, len(y)).astype(float)
    plain = LinearSVCCV(
        Cs=[0.02, 8], cv=list(LeaveOneGroupOut().split(X, y, groups)), random_state=0
    )
    plain.fit(X, y, sample_weight=weight)
    accuracy = plain.score(X, y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        model = LinearSVCCV(
            Cs=[0.02, 8], cv=LeaveOneGroupOut(), scoring=scorer, n_jobs=2, random_state=0
        )
        model.set_fit_request(sample_weight=True).fit(X, y, sample_weight=weight, groups=groups)
        np.testing.assert_array_equal(model.scores_, plain.scores_)
        assert model.score(X, y, sample_weight=weight) == accuracy
        ignoring = make_scorer(accuracy_score).set_score_request(sample_weight=False)
        unweighted = clone(model).set_params(scoring=ignoring)
        unweighted.fit(X, y, sample_weight=weight, groups=groups)
        assert (unweighted.scores_ != plain.scores_).any()
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.fit(X, y, sample_weight=weight, groups=groups)
        assert pipeline[-1].scores_.shape == (3, 2)


def test_classes_that_a_fold_lacks(iris):
    X, y = iris
    folds = [(np.flatnonzero(y != label), np.flatnonzero(y == label)) for label in "abc"]
    model = LinearSVCCV(Cs=2, cv=folds, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.scores_, 0.0)
    assert list(model.classes_) == ["a", "b", "c"]
    folds[1] = (np.flatnonzero(y == "a"), np.flatnonzero(y == "b"))
    with pytest.raises(ValueError, match=r"training part of fold 2: .* found 1 class"):
        LinearSVCCV(cv=folds).fit(X, y)


# -------------------------------------------------------------------------------------- manners


def test_warnings_say_where_the_search_fell_short(digits):
    X, y = digits
    options = {"solver": "sweep", "loss": "hinge", "max_iter": 3, "random_state": 0}
    model = LinearSVCCV(Cs=[0.02, 8.0], **options)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert [w.filename for w in caught] == [__file__, __file__]
    short = (model.search_gap_ > 1e-3).sum()
    assert f"in {short} of 10 trainings of the search" in str(caught[0].message)
    assert f"{model.search_gap_.max():.1e}, at C = 8." in str(caught[0].message)
    assert f"relative duality gap {model.relative_gap_:.1e}" in str(caught[1].message)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupted_search(monkeypatch, digits, n_jobs):
    X, y = digits
    model = LinearSVCCV(Cs=[1e5, 1e6], solver="sweep", tol=1e-13, max_iter=10**9, n_jobs=n_jobs)
    interrupt = Interrupt(monkeypatch, epoch=30)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert interrupt.epochs_after <= 2 * n_jobs
    assert not hasattr(model, "coef_")


def test_interrupt_after_the_search_leaves_a_model(monkeypatch, digits):
    X, y = digits
    interrupt = Interrupt(monkeypatch)
    train = searching.train

    def spy(*args, **options):
        interrupt.at = interrupt.epochs + 5  # the search is over
        return train(*args, **options)

    monkeypatch.setattr(searching, "train", spy)
    model = LinearSVCCV(Cs=[100.0], solver="sweep", tol_search=0.9, tol=1e-13, max_iter=10**9)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.scores_.shape == (5, 1)
    assert not model.converged_
    assert model.relative_gap_ == model.best_estimator_.relative_gap_ > 1e-13
    assert model.predict(X).shape == y.shape


def test_errors_of_a_scorer_reach_the_user(cancer):
    X, y = cancer

    def scoring(model, X, y):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match=r"^no$"):
        LinearSVCCV(scoring=scoring, n_jobs=2).fit(X, y)
    with pytest.raises(ValueError, match=r"scoring gave nan for C = 0\.02 on 114 rows"):
        LinearSVCCV(Cs=[0.02, 8], scoring=lambda model, X, y: np.nan).fit(X, y)


def test_progress_on_request(capfd, iris):
    LinearSVCCV(Cs=2, random_state=0).fit(*iris)
    assert capfd.readouterr() == ("", "")
    LinearSVCCV(Cs=[0.02, 8], random_state=0, verbose=1).fit(*iris)
    shown = capfd.readouterr().out
    assert all(f"fold {f}" in shown for f in range(1, 6))
    assert "C 8 " in shown


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"Cs": 0}, ValueError, "'Cs' parameter"),
        ({"Cs": [1.0, -1.0]}, ValueError, "positive values"),
        ({"cv": 1}, ValueError, "'cv' parameter"),
        ({"cv": []}, ValueError, "cv makes no folds"),
        ({"scoring": "good"}, ValueError, "'scoring' parameter"),
        ({"selection": "two"}, ValueError, "'selection' parameter"),
        ({"patience": 0}, ValueError, "'patience' parameter"),
        ({"tol_search": 0}, ValueError, "'tol_search' parameter"),
        ({"loss": "log"}, ValueError, "'loss' parameter"),
        ({"class_weight": {0: -1.0}}, ValueError, "class_weight must not be negative"),
        ({"class_weight": {5: 1.0}}, ValueError, "but none for"),
        (
            {"cv": [(slice(0, 400), slice(400, 569))], "selection": "one_standard_error"},
            ValueError,
            "at least 2 folds",
        ),
    ],
)
def test_bad_input(cancer, change, error, message):
    with pytest.raises(error, match=message):
        LinearSVCCV(**change).fit(*cancer)
    with pytest.raises(ValueError, match=r"passed are: \{'colour'\}"):
        LinearSVCCV().fit(*cancer, colour=1)

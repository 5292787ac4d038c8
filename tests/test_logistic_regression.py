"""`LogisticRegression`: a drop-in replacement for scikit-learn's with the l2 penalty."""

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from moments import Interrupt
from scipy.special import expit, log_softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import calibration_curve
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Peer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_cli import run

from dualsweep import LogisticRegression, LogisticRegressionCV, certify, logistic_path
from dualsweep.io import load_model, save_liblinear, save_model, write_store
from dualsweep.losses import log_probabilities
from dualsweep.training.parameters import PEERS

TIGHT = {"tol": 1e-10, "random_state": 0}
at_an_end = pytest.mark.filterwarnings("ignore:.* found the best score at C")


@parametrize_with_checks([LogisticRegression(tol=1e-9), LogisticRegression(intercept="penalized")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# With a choice of C: weights of "balanced" classes count the rows of a fold, given ones do not.
@pytest.mark.filterwarnings("ignore:The least populated class in y")
@parametrize_with_checks([LogisticRegressionCV(Cs=[1.0], cv=3)])
def test_scikit_learn_conventions_of_the_search(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("how", [{}, {"class_weight": "balanced"}, {"fit_intercept": False}])
def test_is_scikit_learns_model(cancer, C, layout, how):
    X, y = cancer
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    for given in (None, weight):
        peer = Peer(C=C, solver="newton-cholesky", tol=1e-12, max_iter=500, **how)
        peer.fit(X + 1.0, y, given)
        model = LogisticRegression(C=C, **TIGHT, **how).fit(layout(X + 1.0), y, given)
        assert model.converged_
        np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=1e-4, atol=1e-4)
        expected = peer.predict_proba(X + 1.0)
        found = model.predict_proba(layout(X + 1.0))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_penalises_the_intercept_if_asked_to(cancer):
    X, y = cancer
    model = LogisticRegression(intercept="penalized", intercept_scaling=2.0, **TIGHT).fit(X, y)
    rows = np.column_stack([X, np.full(len(X), 2.0)])
    peer = Peer(fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(rows, y)
    np.testing.assert_allclose(model.coef_[0], peer.coef_[0, :-1], atol=1e-5)
    np.testing.assert_allclose(model.intercept_[0], 2.0 * peer.coef_[0, -1], atol=1e-5)


@pytest.mark.parametrize("intercept", ["free", "penalized"])
def test_one_versus_the_rest(iris, intercept):
    X, y = iris
    model = LogisticRegression(multi_class="ovr", intercept=intercept, **TIGHT).fit(X, y)
    peer = OneVsRestClassifier(Peer(solver="newton-cholesky", tol=1e-12, max_iter=500)).fit(X, y)
    twin = model.to_sklearn()
    assert isinstance(twin, OneVsRestClassifier)
    assert (twin.predict(X) == model.predict(X)).all()
    np.testing.assert_allclose(twin.predict_proba(X), model.predict_proba(X), atol=1e-12)
    if intercept == "free":
        np.testing.assert_allclose(peer.predict_proba(X), model.predict_proba(X), atol=1e-5)


def test_probabilities_of_two_classes(cancer):
    X, y = cancer
    model = LogisticRegression(C=0.1, tol=1e-8).fit(X, y)
    decision = model.decision_function(X)
    logs, found = model.predict_log_proba(X), model.predict_proba(X)
    np.testing.assert_allclose(found, np.column_stack([expit(-decision), expit(decision)]), 1e-13)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(logs), found, rtol=1e-13)
    assert (model.classes_[found.argmax(axis=1)] == model.predict(X)).all()
    # the intercept is free: probabilities add up to the labels
    assert found[:, 1].sum() == pytest.approx(y.sum(), rel=1e-4)
    duals = (model.dual_coef_.toarray()[0] * np.where(y == 1, 1.0, -1.0)) / model.C
    np.testing.assert_allclose(duals, np.where(y == 1, found[:, 0], found[:, 1]), atol=1e-4)


def test_probabilities_as_small_as_1e_300():
    scores = np.array([690.0, -690.0, 745.0, 1e4, 0.0])
    logs = log_probabilities(np, scores, False)
    np.testing.assert_allclose(logs[:, 0], [-690.0, -np.exp(-690.0), -745.0, -1e4, np.log(0.5)])
    assert (logs[0] < 0.0).all()
    several = np.array([[700.0, -700.0, -710.0], [-800.0, -801.0, -802.0]])
    together = log_probabilities(np, several, True)
    np.testing.assert_allclose(together, log_softmax(several, axis=1), rtol=1e-14)
    apart = log_probabilities(np, several, False)
    np.testing.assert_allclose(np.exp(apart).sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(apart[1], log_softmax(several[1]), rtol=1e-14)
    np.testing.assert_allclose(apart[0, 1:], [-700.0, -710.0], rtol=1e-14)


def test_a_model_of_one_row_a_class():
    model = LogisticRegression(C=1e8, tol=1e-6).fit(np.array([[-1.0], [1.0]]), [0, 1])
    assert model.converged_
    assert model.intercept_[0] == pytest.approx(0.0, abs=1e-3)
    assert model.predict_proba([[0.0]])[0] == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"penalty": None}, "not none. For no penalty use scikit-learn's LogisticRegression"),
        ({"penalty": "l1"}, "not l1. For weights that are 0 use scikit-learn's"),
        ({"l1_ratio": 1.0}, "not l1. For weights"),
        ({"penalty": "elasticnet"}, "not elasticnet. For an elastic net use"),
        ({"l1_ratio": 0.5}, "not elasticnet. For an elastic net use"),
        ({"C": np.inf}, "has the l2 penalty only, not none"),
        ({"penalty": "l3"}, "The 'penalty' parameter of LogisticRegression must be \"l2\""),
        ({"solver": "best"}, "The 'solver' parameter of LogisticRegression must be \"auto\""),
        ({"multi_class": "crammer_singer"}, "The 'multi_class' parameter"),
        ({"class_weight": {0: 0, 1: 1.0}}, "class_weight is 0 for class 0: .* minus infinity"),
    ],
)
def test_what_is_refused(cancer, params, message):
    with pytest.raises((ValueError, TypeError), match=message):
        LogisticRegression(**params).fit(*cancer)
    if "C" not in params:
        with pytest.raises(
            (ValueError, TypeError), match=message.replace("Regression m", "RegressionCV m")
        ):
            LogisticRegressionCV(**params).fit(*cancer)


def test_scripts_for_scikit_learn_run(cancer):
    X, y = cancer
    expected = LogisticRegression(random_state=0).fit(X, y).coef_
    for solver in PEERS:
        how = {"solver": solver, "penalty": "l2", "dual": False, "l1_ratio": None}
        model = LogisticRegression(random_state=0, **how).fit(X, y)
        np.testing.assert_array_equal(model.coef_, expected)
        assert clone(model).get_params()["solver"] == solver
    assert cross_val_score(LogisticRegression(), X, y, scoring="neg_log_loss").mean() > -0.1
    found = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}).fit(X, y)
    assert found.best_score_ > 0.97
    fraction, mean = calibration_curve(y, LogisticRegression().fit(X, y).predict_proba(X)[:, 1])
    assert len(fraction) == len(mean)


def test_to_scikit_learn(cancer):
    X, y = cancer
    for how in ({}, {"intercept": "penalized"}, {"fit_intercept": False}):
        model = LogisticRegression(C=0.3, **TIGHT, **how).fit(X, y)
        twin = model.to_sklearn()
        np.testing.assert_allclose(twin.predict_proba(X), model.predict_proba(X), atol=1e-14)
        again = clone(twin).set_params(tol=1e-10, max_iter=10_000).fit(X, y)
        np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-3)


@pytest.mark.parametrize("how", [{}, {"intercept": "penalized"}, {"fit_intercept": False}])
def test_many_classes_to_scikit_learn(iris, how):
    X, y = iris
    model = LogisticRegression(C=0.3, **TIGHT, **how).fit(X, y)
    twin = model.to_sklearn()
    assert isinstance(twin, Peer)
    assert twin.solver == "lbfgs"  # earlier releases divide by sums where it is liblinear
    np.testing.assert_allclose(twin.predict_proba(X), model.predict_proba(X), atol=1e-14)
    if how != {"intercept": "penalized"}:
        again = clone(twin).set_params(tol=1e-10, max_iter=10_000).fit(X, y)
        np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-3)


def test_warm_starts_and_paths(cancer):
    X, y = cancer
    path = logistic_path(X, y, [0.01, 1.0, 10.0], **TIGHT)
    warm = LogisticRegression(warm_start=True, **TIGHT)
    for C, model in zip(path.Cs, path.models, strict=True):
        alone = LogisticRegression(C=C, **TIGHT).fit(X, y)
        warm.set_params(C=C).fit(X, y)
        for other in (model, warm):
            assert other.primal_objective_ == pytest.approx(alone.primal_objective_, rel=1e-9)
        assert isinstance(model, LogisticRegression)
    with pytest.raises(TypeError, match="logistic_path takes no C"):
        logistic_path(X, y, C=1.0)


@at_an_end
def test_the_search_scores_probabilities(cancer):
    X, y = cancer
    found = LogisticRegressionCV(Cs=[0.01, 0.1, 1.0], scoring="neg_log_loss", cv=3, tol=1e-8)
    found.fit(X, y)
    assert found.score(X, y) == pytest.approx(-log_loss(y, found.predict_proba(X)))
    peer = GridSearchCV(
        Peer(solver="newton-cholesky", tol=1e-10),
        {"C": [0.01, 0.1, 1.0]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(X, y)
    assert peer.best_params_["C"] == found.C_
    np.testing.assert_allclose(found.mean_score_, peer.cv_results_["mean_test_score"], rtol=1e-4)
    np.testing.assert_allclose(found.to_sklearn().coef_, found.coef_)


REFUSED = "'free' is not available {}. LogisticRegression has it by default: pass .*'penalized',"


def test_stores_need_a_penalised_intercept(tmp_path, cancer):
    X, y = cancer
    store = write_store(tmp_path / "store", sp.csr_array(X), y, block_bytes=20_000)
    for labels in (y, np.arange(len(y)) % 3):
        with pytest.raises(ValueError, match=REFUSED.format("block by block")):
            LogisticRegression(memory_limit=100_000).fit(store, labels)
    model = LogisticRegression(intercept="penalized", memory_limit=100_000, tol=1e-5).fit(store)
    here = LogisticRegression(intercept="penalized", tol=1e-5).fit(X, y)
    assert model.primal_objective_ == pytest.approx(here.primal_objective_, rel=2e-5)
    np.testing.assert_allclose(model.predict_proba(store), model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_devices(monkeypatch, iris, library, n_classes):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    there = pytest.importorskip(library, reason=f"{library} is not installed")
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes]
    host = LogisticRegression(intercept="penalized", **TIGHT).fit(X, y)
    with config_context(array_api_dispatch=True):
        given = there.asarray(X), there.asarray(y)
        with pytest.raises(ValueError, match=REFUSED.format("on a device")):
            LogisticRegression().fit(*given)
        model = LogisticRegression(intercept="penalized", **TIGHT).fit(*given)
        found = model.predict_proba(given[0])
        assert type(found) is type(given[0])
        np.testing.assert_allclose(np.asarray(found), host.predict_proba(X), atol=1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = LogisticRegressionCV(
                Cs=[0.1, 1.0], cv=3, intercept="penalized", scoring="neg_log_loss"
            ).fit(*given)
            assert search.score(*given) < 0.0


def test_says_how_far_it_is_from_the_optimum(cancer):
    with pytest.warns(ConvergenceWarning, match="LogisticRegression stopped at relative duality"):
        model = LogisticRegression(max_iter=1, tol=1e-9).fit(*cancer)
    assert not model.converged_
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(cancer[0]) == model.predict_proba(cancer[0])).all()


def test_hinge_models_say_who_has_probabilities(cancer):
    from dualsweep import LinearSVC

    model = LinearSVC(loss="logistic").fit(*cancer)
    with pytest.raises(AttributeError, match=r"intercept='penalized'. trains the same model"):
        model.predict_proba(cancer[0])
    same = LogisticRegression(intercept="penalized", random_state=0).fit(*cancer)
    hinge = LinearSVC(loss="logistic", random_state=0).fit(*cancer)
    np.testing.assert_array_equal(same.coef_, hinge.coef_)
    with pytest.raises(AttributeError, match="LogisticRegression has probabilities"):
        LinearSVC().fit(*cancer).predict_proba(cancer[0])


# ------------------------------------------------------------------- models of others, and files


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky", "liblinear"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_certify_scikit_learns_models(cancer, solver, C):
    X, y = cancer
    peer = Peer(C=C, solver=solver, tol=1e-9, max_iter=10_000).fit(X, y)
    found = certify(peer, X, y, tol=1e-6)
    w, penalised = peer.coef_[0], peer.intercept_[0] if solver == "liblinear" else 0.0
    primal = (w @ w + penalised**2) / 2
    primal += C * np.logaddexp(0, -(2 * y - 1) * peer.decision_function(X)).sum()
    assert found.primal == pytest.approx(primal, rel=1e-10)
    assert found.relative_gap <= 1e-6
    weighted = Peer(C=C, solver=solver, tol=1e-9, max_iter=10_000, class_weight="balanced")
    assert certify(weighted.fit(X, y), X, y, tol=1e-6).relative_gap <= 1e-6
    peer.coef_ = 0.9 * peer.coef_
    assert certify(peer, X, y, tol=1e-6).relative_gap > 1e-4


def test_certify_refuses_other_penalties(cancer):
    X, y = cancer
    for params in ({"l1_ratio": 1.0, "solver": "saga"}, {"C": np.inf}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = Peer(max_iter=10, **params).fit(X, y)
        with pytest.raises(TypeError, match="certify judges models of the l2 penalty"):
            certify(peer, X, y)


@pytest.mark.parametrize("solver", [0, 7])
def test_certify_models_of_liblinear(tmp_path, cancer, solver):
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, y = cancer
    theirs = liblinear.train(y, sp.csr_matrix(X), f"-q -s {solver} -c 0.5 -B 1 -e 1e-6")
    liblinear.save_model(str(tmp_path / "their.model"), theirs)
    model = load_model(tmp_path / "their.model")
    assert isinstance(model, LogisticRegression)
    assert certify(model, X, y, C=0.5, tol=1e-6).relative_gap <= 1e-6
    _, _, values = liblinear.predict([], sp.csr_matrix(X), theirs, "-q -b 1")
    order = np.argsort(theirs.get_labels())
    np.testing.assert_allclose(model.predict_proba(X), np.array(values)[:, order], 1e-9, 1e-14)
    ours = LogisticRegression(C=0.5, intercept="penalized", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, model.coef_, atol=1e-4)
    save_liblinear(ours, tmp_path / "our.model")
    again = liblinear.load_model(str(tmp_path / "our.model"))
    _, _, values = liblinear.predict([], sp.csr_matrix(X), again, "-q -b 1")
    order = np.argsort(again.get_labels())
    np.testing.assert_allclose(ours.predict_proba(X), np.array(values)[:, order], 1e-9, 1e-14)


MANY = ["newton-cholesky", "lbfgs"]


@pytest.mark.parametrize("solver", MANY)
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_certify_scikit_learns_models_of_many_classes(iris, solver, C, weighted):
    X, y = iris
    how = {"class_weight": {"a": 2.0, "b": 1.0, "c": 0.1}} if weighted else {}
    peer = Peer(C=C, solver=solver, tol=1e-10, max_iter=10_000, **how).fit(X, y)
    for layout in (np.asarray, sp.csr_array):
        found = certify(peer, layout(X), y, tol=1e-6)
        assert found.primal == pytest.approx(multinomial(peer, X, y, free=True, **how), rel=1e-10)
        assert found.relative_gap <= 1e-6
    peer.coef_ = 0.9 * peer.coef_
    assert certify(peer, X, y, tol=1e-6).relative_gap > 1e-5


def multinomial(model, X, y, free, class_weight=None):
    """The multinomial objective of a model, recomputed."""
    codes = np.searchsorted(model.classes_, y)
    cost = model.C * np.array([(class_weight or {}).get(label, 1.0) for label in y])
    scores = X @ model.coef_.T + model.intercept_
    losses = -log_softmax(scores, axis=1)[np.arange(len(y)), codes]
    penalty = (model.coef_**2).sum() + (0.0 if free else (model.intercept_**2).sum())
    return penalty / 2 + cost @ losses


def test_certify_judges_by_the_formulation_that_is_asked_for(iris):
    from dualsweep import LinearSVC

    X, y = iris
    model = LogisticRegression(tol=1e-8, random_state=0).fit(X, y)
    own = certify(model, X, y, tol=1e-8)
    assert own.n_iter == 0
    assert own.primal == pytest.approx(multinomial(model, X, y, free=True), rel=1e-12)
    penalised = certify(model, X, y, intercept="penalized")
    assert penalised.primal == pytest.approx(multinomial(model, X, y, free=False), rel=1e-12)
    assert certify(model, X, y, multi_class="ovr").relative_gap > 0.1
    hinge = LinearSVC(random_state=0).fit(X, y)
    as_hinge = certify(model, X, y, loss="squared_hinge")  # one versus the rest
    assert as_hinge.dual <= certify(hinge, X, y, intercept="free").primal
    judged = certify(hinge, X, y, multi_class="multinomial", C=0.5)
    hinge.C = 0.5
    assert judged.primal == pytest.approx(multinomial(hinge, X, y, free=False), rel=1e-12)
    assert judged.relative_gap > 0.01
    with pytest.raises(ValueError, match="'multinomial' has the logistic loss, not 'hinge'"):
        certify(model, X, y, multi_class="multinomial", loss="hinge")


@pytest.mark.parametrize("solver", [0, 7])
def test_liblinears_models_of_many_classes_are_one_versus_the_rest(tmp_path, iris, solver):
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, y = iris[0], np.arange(150) // 50
    theirs = liblinear.train(y, sp.csr_matrix(X), f"-q -s {solver} -c 0.5 -B 1 -e 1e-7")
    liblinear.save_model(str(tmp_path / "their.model"), theirs)
    model = load_model(tmp_path / "their.model")
    _, _, values = liblinear.predict([], sp.csr_matrix(X), theirs, "-q -b 1")
    order = np.argsort(theirs.get_labels())
    np.testing.assert_allclose(model.predict_proba(X), np.array(values)[:, order], 1e-9, 1e-14)
    assert certify(model, X, y, C=0.5, tol=1e-6).relative_gap <= 1e-6
    assert certify(model, X, y, C=0.5, multi_class="multinomial").relative_gap > 0.1


def test_liblinear_has_no_multinomial_models(tmp_path, iris):
    X, _ = iris
    y = np.arange(len(X)) // 50
    model = LogisticRegression(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"has no multinomial .* Train with multi_class='ovr', or"):
        save_liblinear(model, tmp_path / "a.model")
    assert not list(tmp_path.iterdir())
    ovr = LogisticRegression(multi_class="ovr", random_state=0).fit(X, y)
    save_liblinear(ovr, tmp_path / "a.model")
    assert (tmp_path / "a.model").read_text().startswith("solver_type L2R_LR_DUAL")
    again = load_model(tmp_path / "a.model")
    assert again.multi_class == "ovr"
    np.testing.assert_allclose(again.predict_proba(X), ovr.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("how", [{}, {"solver": "lbfgs", "multi_class": "ovr", "C": 0.3}])
def test_model_files(tmp_path, iris, how):
    X, y = iris
    model = LogisticRegression(**how, random_state=0).fit(X, y)
    save_model(model, tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert isinstance(again, LogisticRegression)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert certify(again, X, y).relative_gap == pytest.approx(model.relative_gap_, rel=1e-6)


def test_the_command_line(tmp_path, monkeypatch, cancer):
    monkeypatch.chdir(tmp_path)
    X, y = cancer
    dump_svmlight_file(X, y, "cancer.svm", zero_based=False)
    how = ["--loss", "logistic", "--intercept", "free", "--tol", "1e-6", "-q"]
    assert run("train", "cancer.svm", *how).exit_code == 0
    model = load_model("cancer.model.npz")
    expected = LogisticRegression(tol=1e-6, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    result = run("predict", "cancer.model.npz", "cancer.svm", "--probabilities", "-o", "out")
    assert result.exit_code == 0, result.output
    header, *lines = Path("out").read_text().splitlines()
    assert header == "labels 0 1"
    table = np.array([line.split() for line in lines], dtype=float)
    np.testing.assert_allclose(table[:, 1:], expected.predict_proba(X), atol=1e-6)
    assert run("certify", "cancer.model.npz", "cancer.svm", "--tol", "1e-6").exit_code == 0
    other = run("certify", "cancer.model.npz", "cancer.svm", "--loss", "hinge", "--json")
    assert json.loads(other.stdout)["problem"] == "C = 1, hinge loss, free intercept"
    assert run("train", "cancer.svm", "--force", "-q").exit_code == 0
    refused = run("predict", "cancer.model.npz", "cancer.svm", "--probabilities")
    assert refused.exit_code == 2
    assert "needs a model of the logistic loss" in " ".join(refused.output.split())


@pytest.mark.parametrize("intercept", ["free", "penalized"])
def test_the_command_line_of_many_classes(tmp_path, monkeypatch, iris, intercept):
    monkeypatch.chdir(tmp_path)
    X, y = iris[0], np.arange(150) // 50
    dump_svmlight_file(X, y, "iris.svm", zero_based=False)
    how = ["--loss", "logistic", "--intercept", intercept, "--tol", "1e-8", "-q"]
    for formulation in ("multinomial", "ovr"):
        arguments = ["train", "iris.svm", *how, "--multi-class", formulation, "--force"]
        assert run(*arguments).exit_code == 0
        model = load_model("iris.model.npz")
        same = {"intercept": intercept, "multi_class": formulation}
        expected = LogisticRegression(tol=1e-8, random_state=0, **same).fit(X, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)
        arguments = ["predict", "iris.model.npz", "iris.svm", "--probabilities", "-o", "out"]
        assert run(*arguments, "--force").exit_code == 0
        header, *lines = Path("out").read_text().splitlines()
        assert header == "labels 0 1 2"
        table = np.array([line.split() for line in lines], dtype=float)
        np.testing.assert_allclose(table[:, 1:], expected.predict_proba(X), atol=1e-4)
        judged = run("certify", "iris.model.npz", "iris.svm", "--tol", "1e-8", "--json")
        assert judged.exit_code == 0, judged.output
        name = "multinomial" if formulation == "multinomial" else "logistic loss, one versus"
        assert name in json.loads(judged.stdout)["problem"]
    other = ["certify", "iris.model.npz", "iris.svm", "--multi-class", "multinomial"]
    assert run(*other).exit_code == 1
    refused = run("train", "iris.svm", "--multi-class", "multinomial", "--loss", "hinge")
    assert refused.exit_code == 2
    assert "multinomial has the logistic loss" in " ".join(refused.output.split())
    refused = run("train", "iris.svm", "--multi-class", "multinomial", "-o", "iris.model")
    assert refused.exit_code != 0
    assert "has no multinomial" in " ".join(refused.output.split())
    assert not Path("iris.model").exists()
    arguments = ["cv", "iris.svm", "--multi-class", "multinomial", "--intercept", intercept]
    more = ["--costs", "0.1,1", "--scoring", "neg_log_loss", "--json"]
    searched = run(*arguments, *more, "-o", "best.npz")
    assert searched.exit_code == 0, searched.output
    assert load_model("best.npz").multi_class == "multinomial"


@pytest.mark.parametrize("how", [{}, {"intercept": "penalized"}, {"class_weight": "balanced"}])
def test_paths_searches_and_warm_starts_of_many_classes(iris, how):
    X, y = iris
    path = logistic_path(X, y, [0.01, 1.0, 10.0], **TIGHT, **how)
    warm = LogisticRegression(warm_start=True, **TIGHT, **how)
    for C, model in zip(path.Cs, path.models, strict=True):
        alone = LogisticRegression(C=C, **TIGHT, **how).fit(X, y)
        warm.set_params(C=C).fit(X, y)
        for other in (model, warm):
            assert other.primal_objective_ == pytest.approx(alone.primal_objective_, rel=1e-9)
            np.testing.assert_allclose(other.predict_proba(X), alone.predict_proba(X), atol=1e-3)
    assert warm.fit(X, y).n_iter_ == 0
    if how == {}:
        grid = {"C": [0.1, 1.0]}
        search = {"cv": 3, "scoring": "neg_log_loss"}
        found = LogisticRegressionCV(Cs=grid["C"], tol=1e-8, **search).fit(X, y)
        peer = GridSearchCV(Peer(solver="newton-cholesky", tol=1e-10), grid, **search).fit(X, y)
        assert peer.best_params_["C"] == found.C_
        expected = peer.cv_results_["mean_test_score"]
        np.testing.assert_allclose(found.mean_score_, expected, rtol=1e-4)
        np.testing.assert_allclose(found.to_sklearn().coef_, found.coef_)


@pytest.mark.parametrize("intercept", ["free", "penalized"])
@pytest.mark.parametrize("solver", ["sweep", "newton"])
def test_ctrl_c_leaves_a_model_of_many_classes(monkeypatch, iris, intercept, solver):
    X, y = iris
    Interrupt(monkeypatch, epoch=2)
    model = LogisticRegression(solver=solver, intercept=intercept, tol=1e-10, max_iter=5000)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not model.converged_
    value = multinomial(model, X, y, free=intercept == "free")
    assert model.primal_objective_ == pytest.approx(value, rel=1e-9)
    best = LogisticRegression(intercept=intercept, **TIGHT).fit(X, y)
    assert model.dual_objective_ <= best.primal_objective_ <= model.primal_objective_ * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_clusters(n_classes):
    pytest.importorskip("distributed", reason="needs dualsweep[dask]")
    import dask.array as da
    from distributed import Client

    from dualsweep.distributed import LogisticRegression as OnCluster

    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes]
    here = LogisticRegression(intercept="penalized", tol=1e-8).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Client(processes=False, n_workers=1, dashboard_address=":0"):
            rows = da.from_array(X, (40, X.shape[1]))
            free = OnCluster()
            free.intercept = "free"
            with pytest.raises(ValueError, match="'free' is not available on a cluster, where"):
                free.fit(rows, y)
            model = OnCluster(tol=1e-8).fit(rows, y)
            for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
                found, expected = getattr(model, method)(rows).compute(), getattr(here, method)(X)
                np.testing.assert_allclose(found, expected, atol=1e-6)
                np.testing.assert_allclose(getattr(model, method)(X), found, atol=1e-12)

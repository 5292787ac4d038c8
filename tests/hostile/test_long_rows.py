"""Long rows and many rows: no certificate is refuted in sums of three floats, `exact_sums`.

DUALSWEEP_EXAMPLES is how many fits there are of each formulation; DUALSWEEP_LONGEST, of 10^7 at
most, lets rows grow to so many entries, and to a tenth as many rows.
"""

import os
from collections import Counter
from copy import copy
from fractions import Fraction

import exact
import exact_sums
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from dualsweep import LinearSVC, LinearSVR, certify
from dualsweep._host import to_host
from dualsweep.estimators import certified
from dualsweep.estimators._device import _compat
from dualsweep.io import write_store
from dualsweep.placements import OnDevice, training_data
from dualsweep.placements.device.arrays import Space
from dualsweep.training import Context, train

array_namespace = _compat().array_namespace

EXAMPLES = int(os.environ.get("DUALSWEEP_EXAMPLES", "12"))
LONGEST = int(os.environ.get("DUALSWEEP_LONGEST", "100000"))
ROWS = max(LONGEST // 10, 20_000)
ENTRIES = max(LONGEST, 100_000)  # that rows have together, about

# Reasons to refuse data.
REFUSALS = ("a squared norm beyond float64", "are too large", "below 1e-300")

full_size = pytest.mark.skipif(LONGEST < 4_000_000, reason="takes minutes: see DUALSWEEP_LONGEST")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FORMULATIONS = [
    *({"loss": loss} for loss in ("hinge", "squared_hinge", "squared")),
    *({"multi_class": name} for name in ("crammer_singer", "weston_watkins")),
    {"loss": "epsilon_insensitive"},
    {"loss": "squared_epsilon_insensitive"},
]
formulations = pytest.mark.parametrize(
    "formulation", FORMULATIONS, ids=lambda formulation: "-".join(formulation.values())
)
VALUES = ("constant", "random", "alternating", "sorted", "huge", "repeated")


def exponential(rng, low, high):
    """A number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def shape_of(rng, least):
    """Few long rows, many short ones, or something between."""
    kind = rng.choice(["long", "many", "between"])
    if kind == "long":
        n = int(rng.integers(least, least + 5))
        return n, int(exponential(rng, 1, min(LONGEST, 4 * ENTRIES / n)))
    if kind == "many":
        n, d = int(exponential(rng, least, ROWS)), int(rng.integers(1, 6))
        return n, d
    root = ENTRIES**0.5
    return max(int(exponential(rng, least, root)), least), int(exponential(rng, 1, root))


def rows_of(rng, n, d, kind):
    """Rows whose sums round in some hostile way."""
    if kind == "constant":
        X = np.full((n, d), rng.choice([0.3, 0.1, 1 / 3, 0.7]))
    elif kind == "alternating":
        X = np.full((n, d), rng.choice([0.3, 0.1])) * np.where(np.arange(d) % 2, -1.0, 1.0)
    else:
        X = rng.normal(size=(n, d))
    if kind == "sorted":
        X.sort(axis=1)
    elif kind == "huge":
        X[rng.integers(n), rng.integers(d)] *= 1e6
    elif kind == "repeated":
        X = X[rng.integers(0, min(n, 3), n)]
    if kind in ("constant", "alternating") or rng.integers(4) == 0:
        X *= rng.choice([-1.0, 1.0, 1.0, 0.5, 0.9], (n, 1))
    return X * exponential(rng, 1e-3, 1e3)


def problem_of(rng, formulation):
    """Rows, labels or targets, weights, parameters and where the rows are."""
    regresses = "epsilon" in formulation.get("loss", "")
    k = 2 if regresses else int(rng.choice([2, 2, 3, 4]))
    n, d = shape_of(rng, k)
    X = rows_of(rng, n, d, rng.choice(VALUES))
    scores = X @ rng.normal(size=d)
    if regresses:
        y = (scores / (np.std(scores) or 1.0) + rng.normal(size=n)) * exponential(rng, 1e-3, 1e9)
    elif rng.integers(2):
        y = np.argsort(np.argsort(scores)) * k // n
    else:
        y = rng.permutation(np.arange(n) % k)
    weight = None
    if rng.integers(4) == 0:
        weight = rng.choice([0.0, 0.5, 1.0, 4.0], n)
        if len(np.unique(y[weight > 0])) < min(k, 2 if regresses else k):
            weight = None
    if rng.integers(4) == 0:
        X = X.astype(np.float32)
    params = {
        "C": exponential(rng, 1e-3, 1e8),
        "tol": exponential(rng, 1e-10, 1e-2),
        "fit_intercept": bool(rng.integers(3)),
        "intercept_scaling": float(rng.choice([1.0, 0.7])),
        "max_iter": 50 if n * d > 1000 else 200,
        "max_time": 20.0 if n * d > 1_000_000 else None,
    }
    if regresses:
        params["epsilon"] = float(rng.choice([0.0, 0.1 * np.std(y)]))
    layouts = ["csr", "dense", "blocks"]
    if not regresses:
        layouts += ["device", "numpy", "numpy csr"]
    layout = str(rng.choice(layouts))
    if layout in ("csr", "dense") and "multi_class" not in formulation and rng.integers(2):
        params["intercept"] = "free"
    return X, y, weight, params, layout


def fitted(model, X, y, weight, layout, path):
    """Fit a model to rows in some place; return them as they were given, or None."""
    if layout == "blocks":
        data = write_store(path, sp.csr_array(X), y, block_bytes=max(3 * X.size, 4000))
        model.set_params(memory_limit=10**10)
        with pytest.MonkeyPatch.context() as patch:  # what fits would be read at once
            patch.setattr(certified, "load_if_it_fits", lambda X, y, limit: (X, y))
            model.fit(data, sample_weight=weight)
        return None
    if layout.startswith("numpy"):  # the code for devices, and rows that are sparse there
        there = sp.csr_array(X) if layout == "numpy csr" else X
        settings = model._settings()
        with Context() as context:
            data = OnDevice(there, Space(array_namespace(X), "cpu"), True)
            data = training_data(data, y, weight, settings, context)
            for name, value in train(data, settings, context).attributes().items():
                setattr(model, name, value)
        return None
    if layout == "device":
        arrays = pytest.importorskip("array_api_strict")
        with config_context(array_api_dispatch=True):
            model.fit(arrays.asarray(X), y, weight)
        for name in ("coef_", "intercept_", "dual_coef_"):
            if not sp.issparse(getattr(model, name)):
                setattr(model, name, to_host(getattr(model, name)))
        return None
    data = sp.csr_array(X) if layout == "csr" else np.ascontiguousarray(X)
    model.fit(data, y, weight)
    return data


def assert_true(model, X, y, weight=None):
    """Assert that nothing refutes what a model says of itself; return its objectives, exactly."""
    values = exact_sums.certificates(model, X, y, weight)
    gaps = [primal - dual for primal, dual in values]
    assert all(gap >= -abs(p) / 10**30 for gap, (p, _) in zip(gaps, values, strict=True))
    assert sum(primal for primal, _ in values) <= Fraction(model.primal_objective_)
    assert sum(dual for _, dual in values) >= Fraction(model.dual_objective_)
    assert sum(gaps) <= Fraction(model.dual_gap_)
    if np.isfinite(model.relative_gap_):
        for gap, (primal, _) in zip(gaps, values, strict=True):
            assert gap <= Fraction(model.relative_gap_) * primal
    assert model.converged_ == (model.relative_gap_ <= model.tol)
    return [primal for primal, _ in values]


def assert_certified(model, primals, factor, data, X, y, weight):
    """Assert that `certify` claims nothing that is false of a model that is `factor` too long."""
    other = copy(model)
    other.coef_, other.intercept_ = model.coef_ * factor, model.intercept_ * factor
    worse = [primal for primal, _ in exact_sums.certificates(other, X, y, weight)]
    found = certify(other, data, y, sample_weight=weight, tol=model.tol, max_iter=20)
    assert sum(worse) <= Fraction(found.primal)
    assert Fraction(found.dual) <= min(sum(worse), sum(primals))
    for one, primal in zip(worse, primals, strict=True):
        assert one - primal <= Fraction(found.relative_gap) * one


@formulations
def test_no_certificate_is_refuted(formulation, tmp_path, monkeypatch):
    """`pytest -s` shows how many fits converged: nothing refutes one that proves nothing."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    rng = np.random.default_rng([EXAMPLES, FORMULATIONS.index(formulation)])
    kind = LinearSVR if "epsilon" in formulation.get("loss", "") else LinearSVC
    fits, converged, certificates = Counter(), Counter(), 0
    for t in range(EXAMPLES):
        X, y, weight, params, layout = problem_of(rng, formulation)
        model = kind(**formulation, **params, random_state=0)
        try:
            data = fitted(model, X, y, weight, layout, tmp_path / f"{t}")
        except ValueError as error:
            if not any(reason in str(error) for reason in REFUSALS):
                raise
            continue
        primals = assert_true(model, X, y, weight)
        fits[layout] += 1
        converged[layout] += model.converged_
        if data is not None and rng.integers(3) == 0:
            certificates += 1
            assert_certified(model, primals, rng.choice([1 + 3e-5, 0.9]), data, X, y, weight)
    counts = ", ".join(f"{layout} {converged[layout]} of {fits[layout]}" for layout in fits)
    print(f"\n{formulation}: {counts} converged; {certificates} more of certify; none refuted")
    assert sum(converged.values()) > 0.3 * sum(fits.values())


# ------------------------------------------------------------------------------------- by name


def two_constant_rows(d, value=0.3):
    return np.vstack([np.full(d, value), np.full(d, -value)])


@pytest.mark.parametrize("layout", ["csr", "dense", "blocks", "device", "numpy csr"])
@pytest.mark.parametrize("formulation", FORMULATIONS[:5], ids=lambda one: "-".join(one.values()))
def test_constant_rows_of_100000_entries(formulation, layout, tmp_path, monkeypatch):
    """The sum of many equal numbers rounds the same way each time."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X, y = two_constant_rows(100_000), np.array([1, 0])
    model = LinearSVC(**formulation, C=1e6, fit_intercept=False, random_state=0)
    fitted(model, X, y, None, layout, tmp_path / "store")
    assert model.converged_ or layout in ("device", "numpy csr")  # where sums are not compensated
    assert_true(model, X, y)


@pytest.mark.parametrize("layout", ["csr", "dense", "blocks", "device", "numpy csr"])
def test_an_objective_that_is_all_weights(layout, tmp_path, monkeypatch):
    """Their squares are summed up with less care on a device."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X = np.outer([-112.0, 56.0, 101.0, -112.0, -112.0, 112.0], np.ones(90_000))
    y = np.array([0, 1, 1, 0, 0, 1])
    model = LinearSVC(loss="hinge", C=193.0, tol=1e-5, random_state=0)
    fitted(model, X, y, None, layout, tmp_path / "store")
    assert_true(model, X, y)


@full_size
@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_constant_rows_of_4_million_entries(layout, tmp_path):
    X, y = two_constant_rows(4_000_000), np.array([1, 0])
    model = LinearSVC(C=100.0, loss="hinge", fit_intercept=False, random_state=0)
    fitted(model, X, y, None, layout, tmp_path)
    assert model.converged_
    assert_true(model, X, y)


@full_size
def test_random_rows_of_a_million_entries(tmp_path):
    for seed in range(28):
        rng = np.random.default_rng(seed)
        X, y = rng.random((2 + seed % 4, 1_000_000)), np.arange(2 + seed % 4) % 2
        tol = exponential(rng, 1e-10, 1e-2)
        model = LinearSVC(C=exponential(rng, 1e-2, 1e6), loss="hinge", tol=tol, random_state=0)
        fitted(model, X, y, None, "dense", tmp_path)
        assert_true(model, X, y)


@pytest.mark.parametrize("seed", range(6))
def test_certify_of_a_model_that_is_nearly_optimal(seed):
    """Its objective and the bound are large and nearly the same."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    y = 1e9 * (X @ rng.normal(size=3) + rng.normal(size=30))
    options = {"intercept": "free", "loss": "squared_epsilon_insensitive", "tol": 1e-13}
    model = LinearSVR(**options, random_state=0).fit(X, y)
    primals = assert_true(model, X, y)
    assert_certified(model, primals, 1 + 3e-5, X, X, y, None)


def test_certify_refuses_an_intercept_that_vanishes():
    """Divided by the value of the constant feature it would be 0, and so would what rows lose."""
    X, y = np.ones((4, 1)), np.zeros(4)
    model = LinearSVR(epsilon=0.0, intercept_scaling=2.0**490, random_state=0).fit(X, y)
    model.intercept_ = np.array([1e-200])
    with pytest.raises(ValueError, match="intercept_ of the model is too small"):
        certify(model, X, y)


@pytest.mark.parametrize("layout", ["csr", "dense", "blocks", "device", "numpy csr"])
@pytest.mark.parametrize("C", [0.1, 0.7, 1.1])
def test_models_that_are_not_trained(C, layout, tmp_path, monkeypatch):
    """The sum of the costs is rounded, too."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    rng = np.random.default_rng(0)
    for k, formulation in [(2, FORMULATIONS[0]), (3, FORMULATIONS[3]), (3, FORMULATIONS[2])]:
        X, y = rng.normal(size=(1001, 2)), np.arange(1001) % k
        model = LinearSVC(**formulation, C=C, max_iter=0)
        fitted(model, X, y, None, layout, tmp_path / f"{k}{formulation}")
        assert_true(model, X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("layout", ["csr", "dense", "blocks"])
def test_classes_that_were_not_begun(layout, fit_intercept, tmp_path, monkeypatch, tuned):
    """They have weights, but no dual variables."""
    tuned(SMALL_NEWTON=0.0)  # or all classes are done after so few looks at the stop flag
    rng = np.random.default_rng(0)
    for t, loss in enumerate(9 * ["hinge", "squared_hinge", "squared"]):
        X, y = rng.normal(size=(300, 10)), rng.permutation(np.arange(300) % 8)
        options = {"C": exponential(rng, 1e-3, 1e3), "fit_intercept": fit_intercept}
        model = LinearSVC(loss=loss, tol=1e-9, intercept_scaling=0.7, random_state=0, **options)
        polls = iter(range(1000))
        stop_at = int(rng.integers(12))
        monkeypatch.setattr(Context, "stop", lambda context: next(polls) >= stop_at)  # noqa: B023
        fitted(model, X, y, None, layout, tmp_path / f"{t}")
        assert model.relative_gap_ >= 1.0
        assert_true(model, X, y)


def test_targets_whose_squares_vanish():
    """An objective that underflows is not 0."""
    X = np.arange(1.0, 6.0)[:, None]
    options = {"loss": "squared_epsilon_insensitive", "epsilon": 0.0, "random_state": 0}
    model = LinearSVR(**options).fit(X, 1e-200 * X[:, 0])
    assert model.primal_objective_ > 0.0
    assert not model.converged_
    assert LinearSVR(**options).fit(X, np.zeros(5)).converged_


@pytest.mark.parametrize("formulation", FORMULATIONS[:5], ids=lambda one: "-".join(one.values()))
def test_the_sums_are_those_of_fractions(formulation):
    rng = np.random.default_rng(0)
    for t in range(12):
        k, n = 2 + t % 3, int(rng.integers(4, 12))
        X, y = rng.normal(size=(n, 4)) * exponential(rng, 1e-3, 1e3), np.arange(n) % k
        weight = np.where(np.arange(n) < k, 1.0, rng.choice([0.0, 0.5, 1.0, 2.0], n))
        params = {"C": exponential(rng, 1e-3, 1e4), "intercept_scaling": rng.choice([1.0, 0.7])}
        model = LinearSVC(**formulation, **params, max_iter=int(rng.integers(1, 30)))
        model.fit(X, y, weight)
        ours, theirs = (module.certificates(model, X, y, weight) for module in (exact_sums, exact))
        for (p, d), (primal, dual) in zip(ours, theirs, strict=True):
            assert abs(p - primal) <= primal / 10**40
            # rounded: the factor that makes feasible a dual point that is not
            assert abs(d - dual) <= primal / 10**30

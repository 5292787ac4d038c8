"""Extreme numbers: certified, or refused, or said; never NaN, never a certificate that is wrong.

Every certificate is recomputed in exact rational numbers from the floats that the model holds.
"""

import os
import warnings

import exact
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from dualsweep import LinearSVC

EXAMPLES = settings(
    deadline=None,
    derandomize="DUALSWEEP_EXAMPLES" not in os.environ,
    max_examples=int(os.environ.get("DUALSWEEP_EXAMPLES", "60")),
    suppress_health_check=[HealthCheck.too_slow],
)

# Reasons to refuse data, and what each is about.
REFUSALS = ("a squared norm beyond float64", "are too large", "below 1e-300")


def entries(rng, n, d, kind):
    """Rows of some hostile kind."""
    signs = rng.choice([-1.0, 1.0], (n, d))
    X = rng.normal(size=(n, d))
    if kind == "wide":
        X = signs * 10.0 ** rng.uniform(-150, 150, (n, d))
    elif kind == "wide rows":
        X *= 10.0 ** rng.uniform(-160, 150, (n, 1))
    elif kind == "wide columns":
        X *= 10.0 ** rng.uniform(-160, 150, (1, d))
    elif kind == "denormal":
        X = signs * rng.integers(0, 100, (n, d)) * 5e-324
    elif kind == "large":
        X *= 10.0 ** rng.uniform(0, 20)
    elif kind == "small":
        X *= 10.0 ** -rng.uniform(0, 20)
    elif kind == "identical":
        X[:] = X[0]
    elif kind == "constant":
        X[:, 0] = 7.0
    elif kind == "duplicated":
        X[:, -1] = X[:, 0]
        X[n // 2 :] = X[: n - n // 2]
    elif kind == "sparse":
        X *= rng.random((n, d)) < 0.3
    elif kind == "zero":
        X *= 0.0
    elif kind == "overflowing":
        X[rng.integers(n)] *= 1e170
    return X


KINDS = (
    *("plain", "wide", "wide rows", "wide columns", "denormal", "large", "small", "identical"),
    *("constant", "duplicated", "sparse", "zero", "overflowing"),
)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(st.sampled_from([2, 2, 3, 4]))
    n, d = draw(st.integers(k, 12)), draw(st.integers(1, 4))
    with np.errstate(over="ignore", under="ignore"):
        X = entries(rng, n, d, draw(st.sampled_from(KINDS)))
    labels = draw(st.sampled_from(["noise", "linear", "own features"]))
    y = rng.permutation(np.arange(n) % k)
    if labels == "linear":  # separable, or nearly so
        y = np.argsort(np.argsort(X @ rng.normal(size=d))) * k // n
    elif labels == "own features":
        X = X * (y[:, None] == np.arange(d) % k)
    weight = None
    if draw(st.booleans()):
        weight = 10.0 ** rng.uniform(-9, 9, n)
    dtype = draw(st.sampled_from([np.float64, np.float64, np.float32]))
    if dtype == np.float32:  # scikit-learn warns of larger ones, the sum of which overflows
        X = np.clip(X, -1e37, 1e37)
    with np.errstate(under="ignore"):
        X = X.astype(dtype)
    layout = draw(st.sampled_from([np.ascontiguousarray, sp.csr_array]))
    return layout(X), y, weight


parameters = st.fixed_dictionaries(
    {
        "C": st.sampled_from([1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e12]),
        "solver": st.sampled_from(["auto", "sweep", "newton"]),
        "fit_intercept": st.booleans(),
        "intercept_scaling": st.sampled_from([1.0, 1e-3, 1e3]),
        "tol": st.sampled_from([1e-2, 1e-5, 1e-10]),
    }
)
formulations = pytest.mark.parametrize(
    "formulation",
    [
        *({"loss": loss} for loss in ("hinge", "squared_hinge", "squared")),
        *({"multi_class": name} for name in ("crammer_singer", "weston_watkins")),
    ],
    ids=lambda formulation: "-".join(formulation.values()),
)


def assert_true(model, X, y, sample_weight=None):
    """Assert that exact numbers do not refute what the model says of itself."""
    values = exact.certificates(model, X, y, sample_weight)
    gaps = [primal - dual for primal, dual in values]
    primal = sum(p for p, _ in values)
    for name in ("coef_", "intercept_", "primal_objective_", "dual_gap_", "relative_gap_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert all(gap >= 0 for gap in gaps)  # weak duality, of the oracle
    assert sum(gaps) <= exact.Fraction(model.dual_gap_)
    for gap, (p, _) in zip(gaps, values, strict=True):
        assert gap <= exact.Fraction(model.relative_gap_) * p
    assert primal <= exact.Fraction(model.primal_objective_)
    assert sum(dual for _, dual in values) >= exact.Fraction(model.dual_objective_)
    assert model.converged_ == (model.relative_gap_ <= model.tol)


@formulations
@EXAMPLES
@given(problem=problems(), params=parameters)
def test_no_certificate_is_refuted(formulation, problem, params):
    X, y, weight = problem
    model = LinearSVC(**formulation, **params, max_iter=200, random_state=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y, weight)
    except ValueError as error:
        if not any(reason in str(error) for reason in REFUSALS):
            raise
        assert not hasattr(model, "coef_")
        return
    assert_true(model, X, y, weight)
    scores = model.decision_function(X)
    assert np.isin(model.predict(X), model.classes_).all()
    assert not np.isnan(scores).any()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_features_too_large_for_float64_end_in_a_warning(fit_intercept):
    """The optimum is far below what the rounding of a single margin costs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = (X @ rng.normal(size=5) > 0).astype(int)
    X *= 1e10
    model = LinearSVC(loss="hinge", fit_intercept=fit_intercept, max_iter=200, random_state=0)
    with pytest.warns(ConvergenceWarning, match="or scale the features"):
        model.fit(X, y)
    assert_true(model, X, y)
    assert 0.0 < model.primal_objective_ < 1e-10
    assert model.dual_objective_ < 0.5 * model.primal_objective_


def extreme(rng):
    """Return rows, classes, weights and parameters of any size, all of them finite."""

    def size(low, high):
        return 10.0 ** rng.uniform(low, high)

    k, d = rng.integers(2, 5), rng.integers(1, 4)
    m = int(rng.integers(k, 12))
    scales = 10.0 ** rng.uniform(-160, 153, size=[1, (1, d), (m, 1)][rng.integers(3)])
    weights = [None, 10.0 ** rng.uniform(-200, 200, m), np.where(rng.random(m) < 0.3, 0, 1e300)]
    class_weights = [None, "balanced", {0: size(-300, 300)}]
    params = {
        "C": size(*((-3, 3), (-300, 300))[rng.integers(2)]),
        "max_iter": int(rng.choice([0, 1, 5, 50])),
        "max_time": [None, 1e-9][rng.integers(2)],
        "fit_intercept": bool(rng.integers(2)),
        "intercept_scaling": [1.0, size(-150, 150)][rng.integers(2)],
        "multi_class": str(rng.choice(["ovr", "crammer_singer", "weston_watkins"])),
        "loss": str(rng.choice(["hinge", "squared_hinge", "squared"])),
        "class_weight": class_weights[rng.integers(3)],
    }
    X, y = rng.normal(size=(m, d)) * scales, np.arange(m) % k
    return X, y, weights[rng.integers(3)], params


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_of_any_size_end_in_a_model_or_a_clear_error(seed):
    """Never in one of NumPy's warnings, which are errors here."""
    rng = np.random.default_rng(seed)
    known = (*REFUSALS, "at least 2 classes", "but none for", "at least one non-zero number")
    models = 0
    for _ in range(150):
        X, y, weight, params = extreme(rng)
        model = LinearSVC(random_state=0, warm_start=True, **params)
        try:
            model.fit(X, y, weight)
            model.C = 10.0 ** rng.uniform(-300, 300)
            model.fit(X, y, weight)
        except ValueError as error:
            if not any(reason in str(error) for reason in known):
                raise
        else:
            models += 1
            assert np.isfinite(model.coef_).all()
            assert model.relative_gap_ >= 0.0
    assert models > 20


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_of_any_size_on_a_device(monkeypatch):
    arrays = pytest.importorskip("array_api_strict")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    rng = np.random.default_rng(0)
    models = 0
    for _ in range(250):
        X, y, weight, params = extreme(rng)
        model = LinearSVC(random_state=0, **params)
        try:
            with config_context(array_api_dispatch=True):
                model.fit(arrays.asarray(X), y, weight)
        except ValueError:
            continue
        models += 1
        assert np.isfinite(np.asarray(model.coef_)).all()
    assert models > 20

"""Extreme numbers in regression and with free intercepts: no certificate is refuted."""

import warnings
from fractions import Fraction

import exact
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from test_numbers import EXAMPLES, KINDS, REFUSALS, entries

from dualsweep import LinearSVC, LinearSVR


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 12)), draw(st.integers(1, 4))
    with np.errstate(over="ignore", under="ignore"):
        X = entries(rng, n, d, draw(st.sampled_from(KINDS)))
    y = rng.normal(size=n) * 10.0 ** draw(st.sampled_from([-9, 0, 0, 6]))
    kind = draw(st.sampled_from(["noise", "offset", "two values", "wide"]))
    if kind == "offset":
        y += 1e6
    elif kind == "two values":
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
    elif kind == "wide":
        y = rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-100, 100, n)
    weight = 10.0 ** rng.uniform(-9, 9, n) if draw(st.booleans()) else None
    layout = draw(st.sampled_from([np.ascontiguousarray, sp.csr_array]))
    return layout(X), y, weight


parameters = st.fixed_dictionaries(
    {
        "C": st.sampled_from([1e-12, 1e-3, 1.0, 1e3, 1e12]),
        "solver": st.sampled_from(["auto", "sweep", "newton"]),
        "intercept": st.sampled_from(["penalized", "free"]),
        "fit_intercept": st.booleans(),
        "tol": st.sampled_from([1e-2, 1e-5, 1e-10]),
    }
)


def certificate(model, X, y, sample_weight):
    """Primal and dual, exactly; a free intercept's dual variables are balanced exactly."""
    rows, w = exact.fractions(X), exact.fractions(model.coef_.ravel())
    (b,) = exact.fractions(model.intercept_)
    (signed,) = exact.fractions(model.dual_coef_)
    regression = isinstance(model, LinearSVR)
    epsilon = Fraction(float(model.epsilon)) if regression else Fraction(0)
    given = np.ones(len(y)) if sample_weight is None else sample_weight
    with np.errstate(under="ignore"):
        products = float(model.C) * given
    cost = exact.fractions(np.where(products < 1e-300, 0.0, products))
    free = model.fit_intercept and model.intercept == "free"
    if free:
        above, below = sum(a for a in signed if a > 0), -sum(a for a in signed if a < 0)
        less = [min(above, below) / s if s else Fraction(1) for s in (above, below)]
        assert all(1 - factor < Fraction(1, 10**12) for factor in less)
        signed = [a * (less[0] if a > 0 else less[1]) for a in signed]
    squared = model.loss.startswith("squared")
    primal = exact.dot(w, w) / 2 + (0 if free else b * b / 2)
    dual, total, bias = Fraction(0), [Fraction(0)] * len(w), Fraction(0)
    for x, t, c, a in zip(rows, exact.fractions(y), cost, signed, strict=True):
        if c == 0:
            assert a == 0
            continue
        deviation = t - exact.dot(w, x) - b if regression else 1 - t * (exact.dot(w, x) + b)
        off = abs(deviation) if regression or model.loss == "squared" else deviation
        beyond = max(off - epsilon, 0)
        primal += c * (beyond**2 if squared else beyond)
        assert squared or abs(a) <= c
        assert regression or model.loss == "squared" or a * t >= 0
        dual += a * t - epsilon * abs(a) - (a**2 / (4 * c) if squared else 0)
        total = [s + a * v for s, v in zip(total, x, strict=True)]
        bias += a
    size = exact.dot(total, total) + (bias**2 if model.fit_intercept and not free else 0)
    return primal, dual - size / 2


def assert_not_refuted(model, X, y, weight):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y, weight)
    except ValueError as error:
        if not any(reason in str(error) for reason in (*REFUSALS, "more than float64 can hold")):
            raise
        return
    primal, dual = certificate(model, X, y, weight)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.dual_gap_)
    assert 0 <= primal - dual <= Fraction(model.dual_gap_)
    assert primal <= Fraction(model.primal_objective_)
    assert dual >= Fraction(model.dual_objective_)
    assert model.converged_ == (model.relative_gap_ <= model.tol)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@EXAMPLES
@given(problem=problems(), params=parameters, part=st.sampled_from([0.0, 0.5]))
def test_no_certificate_of_regression_is_refuted(loss, problem, params, part):
    X, y, weight = problem
    epsilon = part * float(np.abs(y).min())
    model = LinearSVR(loss=loss, epsilon=epsilon, max_iter=300, random_state=0, **params)
    assert_not_refuted(model, X, y, weight)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared"])
@EXAMPLES
@given(problem=problems(), params=parameters)
def test_no_certificate_of_a_free_intercept_is_refuted(loss, problem, params):
    X, _, weight = problem
    y = np.where(np.arange(X.shape[0]) % 2, 1.0, -1.0)
    params = {**params, "intercept": "free", "fit_intercept": True}
    model = LinearSVC(loss=loss, max_iter=300, random_state=0, **params)
    assert_not_refuted(model, X, y, weight)

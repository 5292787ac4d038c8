"""Every contender solves the benchmark's problem, and the ratios are right."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

pd = pytest.importorskip("pandas")
pytest.importorskip("benchopt")

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
CONTENDERS = {
    "dualsweep": {"schedule": "auto"},
    "liblinear": {},
    "reference": {},
    "rehline": {},
    "sklearn": {"dual": True},
    "sklearn-primal": {"dual": False},
}


@pytest.fixture(scope="module")
def benchmark():
    from benchopt.benchmark import Benchmark

    return Benchmark(BENCHMARKS, seed=0, no_cache=True)


@pytest.fixture(scope="module")
def ratios():
    spec = importlib.util.spec_from_file_location("ratios", BENCHMARKS / "ratios.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_objective(benchmark, loss, C):
    dataset = benchmark.get_test_dataset("simulated")
    objective = benchmark.get_benchmark_objective().get_instance(loss=loss, C=C)
    objective.set_data(**dataset.get_instance(n_samples=80, n_features=20).get_data())
    return objective


def bracket_optimum(objective):
    """The dual by L-BFGS-B, in plain NumPy: a proven lower and an attained upper bound."""
    X = np.hstack([objective.X.toarray().astype(float), np.ones((len(objective.y), 1))])
    Z = objective.y[:, None] * X
    hinge = objective.loss == "hinge"
    diag = 0.0 if hinge else 0.5 / objective.C

    def dual(alpha):
        Qa = Z @ (Z.T @ alpha) + diag * alpha
        return 0.5 * alpha @ Qa - alpha.sum(), Qa - 1.0

    solution = minimize(
        dual,
        np.zeros(len(Z)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, objective.C if hinge else None)] * len(Z),
        options={"maxiter": 100_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-12, "maxcor": 60},
    )
    w = Z.T @ solution.x
    slack = np.maximum(0.0, 1.0 - Z @ w)
    primal = 0.5 * w @ w + objective.C * (slack if hinge else slack**2).sum()
    return -solution.fun, primal


# At larger C LIBLINEAR's fixed 300 iterations do not suffice for hinge loss.
@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("contender", CONTENDERS)
def test_contender_reaches_the_optimum(benchmark, contender, loss, C):
    name = contender.partition("-")[0]
    pytest.importorskip("dualsweep" if name == "reference" else name)
    solvers = {solver.name: solver for solver in benchmark.get_solvers()}
    solver = solvers[name].get_instance(**CONTENDERS[contender])
    objective = make_objective(benchmark, loss, C)
    skipped, _ = solver._set_objective(objective)
    if skipped:
        assert (contender, loss) == ("sklearn-primal", "hinge")
        return

    solver.warm_up()
    solver.max_iter = 100_000
    solver.run(1e-7)
    [result] = objective(solver.get_result())

    lower, upper = bracket_optimum(objective)
    assert upper - lower <= 1e-5 * upper
    assert lower * (1 - 1e-9) <= result["objective_value"] <= upper * (1 + 1e-4)
    if contender == "reference":
        assert (1 - 1e-6) * lower <= result["objective_lower"] <= upper * (1 + 1e-9)


def test_measuring_stops_at_floor_and_cap_and_resumes(ratios, tmp_path):
    pytest.importorskip("dualsweep")
    out, data = tmp_path / "runs.csv", "simulated[n_samples=80,n_features=20]"

    def measure(solvers, repeats, cap):
        ratios.measure(out, [data], ["hinge"], [0.1], solvers, repeats, cap=cap, floor=1e-4)
        return ratios.load(out)

    frame = measure(["sklearn"], 1, cap=60.0)
    assert list(frame["solver"].unique()) == ["reference", "sklearn[dual=True]"]
    enough = frame["value"].iloc[0] * (1 + 1e-4)
    values = frame.loc[frame["solver"] != "reference", "value"].to_numpy()
    assert values[-1] <= enough
    assert (values[:-1] > enough).all()

    assert measure(["sklearn"], 1, cap=60.0).equals(frame)
    wider = measure(["sklearn", "dualsweep"], 2, cap=0.0)
    assert wider[: len(frame)].equals(frame)
    assert wider[len(frame) :].value_counts(["rep", "solver"]).to_dict() == {
        (0, "dualsweep[schedule=auto]"): 1,
        (1, "dualsweep[schedule=auto]"): 1,
        (1, "sklearn[dual=True]"): 1,
    }


def make_runs(ratios, cell, runs):
    rows = [(*cell, *run, np.nan, True) for run in runs]
    return pd.DataFrame(rows, columns=ratios.COLUMNS)


def test_ratios_are_taken_at_equal_suboptimality_within_a_repeat(ratios):
    frame = make_runs(
        ratios,
        ("a", "hinge", 1.0),
        [  # solver, rep, tol, time, value; the optimum is 100
            ("reference", 0, 1e-7, 50.0, 100.0),
            (ratios.OURS, 0, 1e-1, 1.0, 100.9),
            (ratios.OURS, 0, 1e-2, 2.0, 100.05),
            (ratios.OURS, 1, 1e-1, 2.0, 100.9),
            (ratios.OURS, 1, 1e-2, 4.0, 100.05),
            ("dualsweep[schedule=cyclic]", 0, 1e-1, 0.1, 100.0),
            ("fast", 0, 1.0, 3.0, 101.1),  # not within 1e-2
            ("fast", 0, 0.1, 8.0, 100.5),
            ("fast", 1, 0.1, 4.0, 100.5),
            ("slow", 0, 0.1, 10.0, 100.01),
            ("slow", 1, 0.1, 20.0, 100.01),
        ],
    )
    frame.loc[0, "lower"] = 99.5
    loose, tight = ratios.compare(frame, [1e-2, 1e-3]).to_dict("records")
    assert (loose["ratio"], loose["low"], loose["high"]) == (5.0, 2.0, 8.0)  # 8 / 1, 4 / 2
    assert (loose[ratios.OURS], loose["fast"], loose["slow"]) == (1.5, 6.0, 15.0)
    assert (tight["ratio"], tight["low"], tight["high"]) == (5.0, 5.0, 5.0)  # 10 / 2, 20 / 4
    assert np.isnan(tight["fast"])
    assert tight["unsure"] == pytest.approx(5e-3)


def test_summary_has_geometric_means_and_counts_what_they_leave_out(ratios):
    def cell(data, C, peer, ours):
        runs = [("reference", 0, 1e-7, 9.0, 100.0)]
        runs += [("peer", 0, 0.1, *peer), (ratios.OURS, 0, 0.1, *ours)]
        return make_runs(ratios, (data, "hinge", C), runs)

    frame = pd.concat(
        [
            cell("a", 1.0, (2.0, 100.0), (1.0, 100.0)),
            cell("a", 10.0, (8.0, 100.0), (1.0, 100.0)),
            cell("b", 1.0, (1.0, 100.0), (4.0, 100.0)),
            cell("b", 10.0, (9.0, 150.0), (1.0, 100.0)),  # no peer got there
            cell("b", 100.0, (1.0, 100.0), (9.0, 150.0)),  # ours did not
        ]
    )
    a, b, both = ratios.summarise(ratios.compare(frame, [1e-3])).to_dict("records")
    assert a["ratio"] == pytest.approx(4.0)
    assert (b["ratio"], b["cells"], b["no peer"], b["not ours"]) == (0.25, 1, 1, 1)
    assert both["ratio"] == pytest.approx(4.0 ** (1 / 3))
    assert (both["worst"], both["cells"]) == (0.25, 3)
    assert "| b | 0.001 | 0.25 | 0.25 | 1 | 1 | 1 |" in ratios.report(frame, [1e-3])

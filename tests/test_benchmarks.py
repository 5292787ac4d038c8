"""Every contender solves the benchmark's problem, and the ratios are right."""

import importlib.util
from pathlib import Path

import generic
import numba
import numpy as np
import pytest
from scipy.sparse import csr_matrix

pd = pytest.importorskip("pandas")
piqp = pytest.importorskip("piqp")
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
SKIPPED = {
    ("liblinear", "weston_watkins"),
    ("rehline", "crammer_singer"),
    ("rehline", "weston_watkins"),
    ("sklearn", "weston_watkins"),
    ("sklearn-primal", "crammer_singer"),
    ("sklearn-primal", "hinge"),
    ("sklearn-primal", "weston_watkins"),
}
BINARY, MULTICLASS = ["hinge", "squared_hinge"], ["crammer_singer", "weston_watkins"]
REGRESSION = ["epsilon_insensitive", "squared_epsilon_insensitive"]


@pytest.fixture(scope="module")
def benchmark():
    from benchopt.benchmark import Benchmark

    return Benchmark(BENCHMARKS, seed=0, no_cache=True)


def load_script(name):
    """Import a script, which finds its neighbours the way it does when run."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ratios():
    return load_script("ratios")


def make_objective(benchmark, loss, C):
    dataset = benchmark.get_test_dataset("simulated")
    n_classes = 2 if loss in BINARY else 4
    data = dataset.get_instance(n_samples=80, n_features=20, n_classes=n_classes).get_data()
    objective = benchmark.get_benchmark_objective().get_instance(loss=loss, C=C)
    assert not objective.skip(**data)[0]
    objective.set_data(**data)
    return objective


def naive_value(objective, W):
    """The objective at weights W, the intercepts last, one row and class at a time."""
    losses = 0.0
    for x, y in zip(objective.X.toarray().astype(float), objective.y, strict=True):
        scores = W @ np.append(x, 1.0)
        if objective.loss in BINARY:
            slack = max(0.0, 1.0 - y * scores[0])
            losses += slack if objective.loss == "hinge" else slack**2
        else:
            hinges = [max(0.0, 1.0 - scores[y] + s) for m, s in enumerate(scores) if m != y]
            losses += max(hinges) if objective.loss == "crammer_singer" else sum(hinges)
    return 0.5 * np.sum(W**2) + objective.C * losses


def bracket_optimum(objective):
    """The dual as a quadratic program: a proven lower and an attained upper bound."""
    X = np.hstack([objective.X.toarray().astype(float), np.ones((len(objective.y), 1))])
    if objective.loss in BINARY:
        n_scores, margins = 1, objective.y[:, None] * X
    else:  # of each row against each class that is not its own
        n_scores = objective.y.max() + 1
        sign = np.eye(n_scores)
        margins = np.array(
            [
                np.outer(sign[y] - sign[m], x).ravel()
                for x, y in zip(X, objective.y, strict=True)
                for m in range(n_scores)
                if m != y
            ]
        )
    n, C = len(margins), objective.C
    limits = {"x_l": np.zeros(n), "x_u": np.full(n, C)}
    diag = 0.0
    if objective.loss == "squared_hinge":
        limits["x_u"] = np.full(n, np.inf)
        diag = 0.5 / C
    elif objective.loss == "crammer_singer":
        limits["G"] = np.kron(np.eye(len(X)), np.ones(n_scores - 1))
        limits["h_u"] = np.full(len(X), C)
    quadratic = margins @ margins.T + diag * np.eye(n)
    program = piqp.DenseSolver()
    program.settings.eps_abs = program.settings.eps_duality_gap_abs = 1e-10
    program.setup(quadratic, -np.ones(n), **limits)
    assert program.solve() == piqp.PIQP_SOLVED
    alpha = np.clip(program.result.x, 0.0, limits["x_u"])
    if objective.loss == "crammer_singer":
        sums = np.repeat(limits["G"] @ alpha, n_scores - 1)
        alpha /= np.maximum(sums / C, 1.0)
    primal = naive_value(objective, (margins.T @ alpha).reshape(n_scores, -1))
    return alpha.sum() - 0.5 * alpha @ quadratic @ alpha, primal


@pytest.mark.parametrize("loss", BINARY + MULTICLASS)
def test_objective_is_the_naive_sum(benchmark, loss):
    objective = make_objective(benchmark, loss, C=0.7)
    n_scores = 1 if loss in BINARY else 4
    W = np.random.default_rng(0).normal(size=(n_scores, 21))
    value = objective.evaluate_result(W[:, :-1], W[:, -1], True, np.nan, np.nan)["value"]
    assert value == pytest.approx(naive_value(objective, W), rel=1e-12)


@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("contender", ["dualsweep", "liblinear", "reference", "sklearn"])
def test_contender_reaches_the_optimum_of_regression(benchmark, contender, loss):
    data = benchmark.get_test_dataset("regression").get_instance(data="simulated").get_data()
    assert data["y"].mean() == pytest.approx(0.0, abs=1e-12)
    objective = benchmark.get_benchmark_objective().get_instance(loss=loss, C=0.05)
    assert not objective.skip(**data)[0]
    objective.set_data(**data)
    solvers = {solver.name: solver for solver in benchmark.get_solvers()}
    solver = solvers[contender].get_instance(**CONTENDERS[contender])
    assert not solver._set_objective(objective)[0]
    solver.warm_up()
    solver.max_iter = 100_000
    solver.run(1e-7)
    [result] = objective(solver.get_result())
    X = data["X"].toarray().astype(float)
    _, _, best = generic.optimum(X, data["y"], 0.05, loss, epsilon=0.1)
    assert best * (1 - 1e-9) <= result["objective_value"] <= best * (1 + 1e-4)


def test_losses_are_skipped_where_the_data_have_not_the_classes(benchmark):
    data = benchmark.get_test_dataset("simulated").get_instance(n_samples=80).get_data()
    losses = benchmark.get_benchmark_objective()
    assert losses.get_instance(loss="crammer_singer").skip(**data)[0]
    assert losses.get_instance(loss="hinge").skip(**data | {"positive": None})[0]
    assert losses.get_instance(loss="epsilon_insensitive").skip(**data)[0]
    targets = benchmark.get_test_dataset("regression").get_instance(data="simulated").get_data()
    assert losses.get_instance(loss="crammer_singer").skip(**targets)[0]


# At larger C LIBLINEAR's fixed 300 iterations do not suffice for hinge loss.
@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("loss", BINARY + MULTICLASS)
@pytest.mark.parametrize("contender", CONTENDERS)
def test_contender_reaches_the_optimum(benchmark, contender, loss, C):
    name = contender.partition("-")[0]
    pytest.importorskip("dualsweep" if name == "reference" else name)
    solvers = {solver.name: solver for solver in benchmark.get_solvers()}
    solver = solvers[name].get_instance(**CONTENDERS[contender])
    objective = make_objective(benchmark, loss, C)
    skipped, _ = solver._set_objective(objective)
    assert skipped == ((contender, loss) in SKIPPED)
    if skipped:
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
        (0, "dualsweep[method=auto]"): 1,
        (1, "dualsweep[method=auto]"): 1,
        (1, "sklearn[dual=True]"): 1,
    }


def make_runs(ratios, cell, runs):
    rows = [(*cell, *run, np.nan, True) for run in runs]
    columns = [name for name in ratios.COLUMNS if name != "cpu"]
    return pd.DataFrame(rows, columns=columns).assign(cpu=np.nan)


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
            ("dualsweep[method=cyclic]", 0, 1e-1, 0.1, 100.0),
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
    frame["cpu"] = frame["time"] ** 2
    loose, _ = ratios.compare(frame, [1e-2, 1e-3], clock="cpu").to_dict("records")
    assert (loose["low"], loose["high"]) == (4.0, 64.0)


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


def test_hard_cells_tell_who_was_stopped_where(ratios, tmp_path):
    hard = load_script("hard")
    newton, peer = "dualsweep[method=newton]", "liblinear"
    frame = pd.concat(
        [
            make_runs(
                ratios,
                ("a", "hinge", C),
                [  # solver, rep, tol, time, value; the optimum is 100
                    ("reference", 0, 1e-7, 50.0, 100.0),
                    (ratios.OURS, 0, 1e-3, 3.0 * C, 100.05),
                    (ratios.OURS, 0, 1e-6, 6.0 * C, 100.00005),
                    (newton, 0, 1e-6, 2.0, 100.00005),
                    (peer, 0, 1e-1, 1.0, 100.5),
                    (peer, 0, 1e-2, value_at, 100.0 + excess),
                ],
            )
            for C, value_at, excess in ((1.0, 9.0, 0.05), (10.0, 70.0, 0.2))
        ]
    )
    first, _, third, fourth = hard.compare(frame, hard.TARGETS, "time").to_dict("records")
    assert (first["peer / auto"], first["auto / own best"], first["liblinear"]) == (3.0, 1.5, "9")
    assert (third["auto"], third["liblinear"], third["peer / auto"]) == (
        "30",
        "2e-03 at 70 s",
        np.inf,
    )
    assert (fourth["auto / own best"], fourth["newton"], fourth["rehline"]) == (30.0, "2", "")
    text = hard.report(frame, hard.TARGETS, "time")
    assert (
        "0.001: 2 cells; in 2 the best peer needs more than 0.2 s, and is faster than auto in 0"
        in text
    )
    assert "in 1 auto takes more than 0.2 s and 1.5 times" in text
    panels = hard.curves(frame, 1e-3, "time")
    assert panels == {
        ("a", "hinge"): {
            1.0: {"reference": 50.0, ratios.OURS: 3.0, newton: 2.0, peer: 9.0},
            10.0: {"reference": 50.0, ratios.OURS: 30.0, newton: 2.0, peer: np.inf},
        }
    }
    hard.draw(panels, 1e-3, tmp_path / "hard.png")
    assert (tmp_path / "hard.png").stat().st_size > 1000


def test_pictures_of_hard_cells_mark_who_failed():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    hard = load_script("hard")
    cells = {
        0.1: {hard.OURS: 1.0, "liblinear": 2.0, "rehline": 3.0},
        1.0: {hard.OURS: 1.5, "liblinear": np.inf, "rehline": np.inf},
        10.0: {hard.OURS: 2.0, "liblinear": np.inf},  # the other was not tried
    }
    axis = figure.subplots()
    hard.draw_panel(axis, cells)
    lines = {line.get_label(): line for line in axis.lines}
    np.testing.assert_array_equal(lines["auto"].get_xydata(), [[0.1, 1], [1, 1.5], [10, 2]])
    assert lines["liblinear"].get_markevery() == lines["rehline"].get_markevery() == [0]
    crosses = [line.get_xydata() for line in axis.lines if line.get_marker() == "x"]
    crosses = np.concatenate([points for points in crosses if len(points)])
    assert len(crosses) == 3
    assert len(np.unique(crosses[:, 0])) == 3  # side by side
    np.testing.assert_allclose(np.log10(crosses[:, 0]), [0, 1, 0], atol=0.3)
    assert (crosses[:, 1] > 3.0).all()
    assert (crosses[:, 1] < axis.get_ylim()[1]).all()
    np.testing.assert_array_equal(axis.get_xticks(), list(cells))


# ------------------------------------------------------------------- block steps in the same sweep


@pytest.fixture(scope="module")
def decay():
    return load_script("decay")


def simulated(n=60, k=5):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % k)
    X = rng.normal(size=(n, 8)) + rng.normal(size=(k, 8))[y]
    X[3] = 0.0
    return csr_matrix(X), 10 * y


class Clock:
    """Time that passes only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds, method):
        def timed(*args, **named):
            self.now += seconds
            return method(*args, **named)

        return timed


@pytest.fixture
def clock(decay, monkeypatch):
    """Sweeps take a second, computing weights 10, and certificates 100."""
    clock, problem = Clock(), decay.MulticlassProblem
    monkeypatch.setattr(decay, "thread_time", clock)
    for name, seconds in {"sweep": 1.0, "fill_weights": 10.0, "totals": 100.0}.items():
        monkeypatch.setattr(problem, name, clock.takes(seconds, getattr(problem, name)))
    return clock


def test_all_steps_reach_the_same_optimum_in_the_same_sweep(decay):
    runs, alphas = {}, {}
    for name, step in decay.STEPS.items():
        problem = decay.make_problem(*simulated(), C=0.3)
        with decay.sweeping_with(step):
            runs[name] = decay.trace(problem, "permuted", decay=1e-5, cap=np.inf, tol=1e-12)
        alphas[name] = problem.clock.alpha
    ours = runs["walrus"]
    assert 1 < len(ours) < 1000
    for name, epochs in runs.items():
        assert epochs[-1].gap <= 1e-5 * epochs[0].gap
        # Exact steps differ by rounding only, greedy ones by their accuracy.
        close = {"rtol": 1e-4 if name == "greedy" else 1e-8}
        np.testing.assert_allclose([e.gap for e in epochs[:9]], [e.gap for e in ours[:9]], **close)
        np.testing.assert_allclose(epochs[-1].primal, ours[-1].primal, rtol=1e-5)
        np.testing.assert_allclose(alphas[name], alphas["walrus"], atol=1e-3 * 0.3)


def test_the_step_is_what_the_sweep_takes(decay):
    @numba.njit
    def stay(beta, t, b, k, upper, q, new, scratch):
        for m in range(k):
            new[m] = b[m]
        return 0.0

    problem = decay.make_problem(*simulated(), C=0.3)
    with decay.sweeping_with(stay):
        epochs = decay.trace(problem, "permuted", 0.1, cap=np.inf, tol=1e-3, max_iter=2)
    assert not problem.clock.alpha.any()
    assert [e.gap for e in epochs] == pytest.approx(2 * [problem.primal_at_zero], rel=1e-12)
    epochs = decay.trace(problem, "permuted", 0.1, cap=np.inf, tol=1e-3)
    assert problem.clock.alpha.any()


def test_decay_is_measured_from_the_gap_after_the_first_epoch(decay):
    gaps = [80.0, 40.0, 9.0, 8.0, 0.9, 8.5, 0.7]
    epochs = [decay.Epoch(0.5 * e, 100.0, gap) for e, gap in enumerate(gaps, 1)]
    times = decay.decay_times(epochs, [1.0, 0.1, 0.01, 0.001])
    assert times[:3] == [(0.5, 1.0), (2.0, 4.0), (3.5, 7.0)]
    assert np.isnan(times[3]).all()
    assert np.isnan(decay.decay_times([], [0.1])).all()


def test_certificates_are_off_the_clock(decay, clock):
    problem = decay.make_problem(*simulated(), C=0.3)
    epochs = decay.trace(problem, "permuted", decay=1e-3, cap=np.inf, tol=1e-6)
    assert [e.seconds for e in epochs] == list(range(1, len(epochs) + 1))
    assert clock.now > 100 * len(epochs)


def test_a_capped_run_has_no_times_for_what_it_did_not_reach(decay, clock, monkeypatch, tmp_path):
    monkeypatch.setattr(decay, "load_data", lambda name: simulated())
    out = tmp_path / "decay.csv"

    def measure(steps, cap):
        decay.measure(out, ["made-up"], [0.3], "permuted", steps, [1.0, 1e-9], 1, cap)
        return decay.load(out, decay.COLUMNS)

    frame = measure(["walrus"], cap=2.5)
    assert list(frame["seconds"][:1]) == [1.0]
    assert frame["seconds"].isna().tolist() == [False, True]
    assert measure(["walrus"], cap=np.inf).equals(frame)  # resumed
    frame = measure(["walrus", "active_set"], cap=0.5)
    assert frame["seconds"].isna().tolist() == [False, True, True, True]


def test_steps_are_compared_at_equal_decay(decay):
    times = {"walrus": [1.0, 2.0], "greedy": [4.0, 5.0], "active_set": [3.0, np.nan]}
    rows = [
        ("dna", 1.0, "permuted", 0, step, 3, target, seconds, 7.0)
        for step, both in times.items()
        for target, seconds in zip([1.0, 0.01], both, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=decay.COLUMNS)
    first, last = decay.compare(frame).to_dict("records")
    assert (first["ratio"], last["ratio"]) == (3.0, 2.5)
    assert np.isnan(last["active_set"])
    [authors] = decay.against_authors(decay.compare(frame)).to_dict("records")
    assert authors["ratio"] == pytest.approx(0.08 / 2.0)
    assert "| dna | 0.01 | 0.08 | 2 | 0.04 |" in decay.report(frame, "permuted", 60.0)


def test_block_steps_alone_solve_the_same_problem():
    block_steps = load_script("block_steps")
    for loss, contenders in block_steps.CONTENDERS.items():
        for kind in block_steps.INSTANCES:
            table = block_steps.measure(loss, kind, [3, 12], instances=4, repeats=1, cap=np.inf)
            assert (table["active set off by"] <= 1e-12).all()
            assert (table["QP solver off by"] <= 1e-5).all()
            if "greedy" in contenders:
                assert (table["greedy off by"] <= 1e-5).all()


@pytest.fixture(scope="module")
def files():
    return load_script("io")


def test_readers_take_turns_and_read_the_same(files, tmp_path):
    path, out = tmp_path / "few.svm", tmp_path / "runs.csv"
    path.write_text("".join(f"{2 * (i % 2) - 1} 1:0.{i} {i + 2}:1e-{i}\n" for i in range(1, 9)))
    files.measure(path, "few", "read", 2, out)
    runs = pd.read_csv(out)
    assert runs["rep"].tolist() == [0] * 4 + [1] * 4
    for _, turn in runs.groupby("rep"):
        assert set(turn["contender"]) == set(files.readers())
    assert (runs["megabytes"] == path.stat().st_size / 1e6).all()
    assert (runs["seconds"] > 0).all()


def test_times_are_compared_turn_by_turn(files):
    seconds = {
        "dualsweep, 1 thread": [1.0, 2.0, 4.0],
        "dualsweep, 2 threads": [1.0, 1.0, 2.0],
        "peer": [10.0, 40.0, 20.0],
    }
    runs = [
        ("read", "blogs", name, rep, times[rep], 2 * times[rep], 100.0, np.nan)
        for rep in range(3)
        for name, times in seconds.items()
    ]
    table = files.compare(pd.DataFrame(runs, columns=files.COLUMNS)).set_index("contender")
    assert table.loc["peer", ["seconds", "MB/s"]].tolist() == [20.0, 5.0]
    ratios = table.loc["peer", ["low", "ratio", "high", "cpu ratio", "to 2 threads"]]
    assert ratios.tolist() == [5.0, 10.0, 20.0, 10.0, 10.0]
    assert table.loc["dualsweep, 1 thread", ["low", "ratio", "high"]].tolist() == [1.0, 1.0, 1.0]


def test_the_objective_of_files_is_the_one_that_is_certified(files, tmp_path):
    from sklearn.datasets import dump_svmlight_file

    from dualsweep import LinearSVC
    from dualsweep.datasets import make_text_like

    X, y = make_text_like(200, 30, random_state=0)
    y = np.where(y == y[0], 1, -1)
    dump_svmlight_file(X, y, str(tmp_path / "data.svm"), zero_based=False)
    primal, bound = files.objective(tmp_path / "data.svm")
    model = LinearSVC(C=files.C, tol=1e-6, random_state=0).fit(X.astype(float), y)
    w = np.append(model.coef_, model.intercept_)
    assert primal(w) == pytest.approx(model.primal_objective_, rel=1e-9)
    # Newton steps reach the optimum: the two may differ by rounding alone.
    assert bound * (1 - 1e-12) <= primal(w) <= bound * (1 + 1e-5)


# ---------------------------------------------------------------------------- logistic regression


@pytest.fixture(scope="module")
def logistic():
    return load_script("logistic")


def naive_logistic(X, y, W, C):
    """The objective, one row at a time, the last weights being those of a constant feature."""
    losses = 0.0
    for x, own in zip(X.toarray().astype(float), y, strict=True):
        scores = W @ np.append(x, 1.0)
        if len(W) == 1:
            scores = np.append(0.0, scores)
        losses += np.log(np.exp(scores).sum()) - scores[own]
    return 0.5 * np.sum(W**2) + C * losses


@pytest.mark.parametrize("classes", [2, 4])
def test_logistic_contenders_minimise_the_certified_objective(logistic, classes):
    data = f"simulated-{classes}"
    X, y = logistic.load(data)
    weights, lower = logistic.fit_dualsweep(X, y, 0.7, 1e-10, 1)
    best = logistic.objective(X, y, weights, 0.7)
    assert best == pytest.approx(naive_logistic(X, y, weights, 0.7), rel=1e-12)
    assert 0 <= best - lower <= 1.001e-10 * best
    facts = logistic.Facts(X.shape[1], classes, dense=False)
    tried = []
    for name, contender in logistic.CONTENDERS.items():
        slow = contender.package in ("skglm", "snapml")  # to compile, and not to be loaded here
        if not contender.applies(facts) or slow:
            continue
        tried.append(name)
        rows = X if name == logistic.OURS else logistic.with_ones(X)
        found = contender.fit(rows.astype(np.float64), y, 0.7, 1e-6, 1)
        found = found[0] if name == logistic.OURS else found
        value = logistic.objective(rows, y, found, 0.7)
        assert lower * (1 - 1e-12) <= value <= (1 + 1e-6) * best, name
    assert len(tried) == (10 if classes == 2 else 7)


def test_logistic_cells_are_measured_once_and_reported(logistic, tmp_path):
    out = tmp_path / "runs.jsonl"

    def measure(C):
        some = ["--data", "simulated-2", "--contenders", "newton-cg", "--repeats", "2"]
        logistic.main([*some, "--C", *C, "--out", str(out)])
        return logistic.read(out)

    [cell] = measure(["1"])
    assert cell["unsure"] <= 1e-10
    for run in cell["runs"]:
        assert (run["contender"], run["threads"]) in [
            ("dualsweep", 1),
            ("dualsweep", 2),
            ("newton-cg", 1),
        ]
        assert len(run["seconds"]) == 2 or run["contender"] == "newton-cg"
        assert min(run["seconds"]) > 0
    assert measure(["1"]) == [cell]
    assert [cell["C"] for cell in measure(["1", "0.1"])] == [0.1, 1.0]
    text = out.with_suffix(".md").read_text()
    assert text.count("\n| simulated-2 | 0.1 |") == 4
    assert "| all |" in text


def test_logistic_regressions_are_compared_at_equal_suboptimality(logistic):
    def run(contender, threads, target, seconds, limit=None):
        return logistic.Run(contender, threads, target, "float32", 1e-3, seconds, limit)._asdict()

    cell = {
        "data": "a9a",
        "C": 1.0,
        "threads": [1, 2],
        "unsure": 1e-11,
        "caps": [8.0, 16.0],
        "runs": [
            run("dualsweep", 1, 1e-3, [1.0, 4.0, 2.0]),
            run("dualsweep", 1, 1e-6, [2.0, 2.0, 4.0]),
            run("dualsweep", 2, 1e-3, [1.0, 1.0, 1.0]),
            run("dualsweep", 2, 1e-6, [0.5, 0.5, 0.5]),  # good for the loose target as well
            run("lbfgs", 1, 1e-3, [3.0, 2.0, 4.0]),
            run("lbfgs", 1, 1e-6, [], 16.0),
            run("snapml", 1, 1e-3, [2.0, 4.0, 8.0]),
            run("snapml", 2, 1e-3, [9.0]),  # too slow to take turns
            run("snapml", 1, 1e-6, []),
            run("snapml", 2, 1e-6, []),
        ],
    }
    one, two, tight, _ = logistic.compare(cell)
    assert one.ratios == [2.0, 0.5, 2.0]
    assert (one.ratio, one.fastest, one.ours, one.bound) == (2.0, "lbfgs", 2.0, False)
    assert two.ratios == [4.0, 4.0, 8.0]
    assert (tight.ratios, tight.bound) == ([8.0, 8.0, 4.0], True)
    assert tight.peers == {"lbfgs": "> 16", "snapml": "-"}

    def words():
        return " ".join(logistic.report([cell]).split())

    text = words()
    assert "| a9a | 1 | 1e-06 | 1 | 2 | > 16 | - | >= 8.00 (4.00 to 8.00) |" in text
    assert "| 0.001 above the optimum | 2.83 | 2.00 | 2 |" in text
    assert "longer than 0.05 s: none" in text
    cell["runs"][4]["seconds"] = [0.5, 0.5, 0.5]
    assert "longer than 0.05 s: a9a, C = 1, 0.001, threads: 1: 0.25 (lbfgs" in words()


def test_a_worker_that_takes_too_long_is_stopped_and_started_afresh():
    import sys

    workers = load_script("benchmark_utils/workers")
    code = (
        "import json, sys, time\n"
        "for count, line in enumerate(sys.stdin):\n"
        "    print('null', flush=True)\n"
        "    time.sleep(json.loads(line))\n"
        "    print(count, flush=True)\n"
    )
    worker = workers.Worker([sys.executable, "-c", code])
    assert [worker.ask(0), worker.ask(0, cap=600)] == [0, 1]
    assert worker.ask(600, cap=0.01) is None
    assert worker.ask(0) == 0
    worker.stop()
    gone = workers.Worker([sys.executable, "-c", "input()"])
    with pytest.raises(RuntimeError, match="ended with code 0"):
        gone.ask(0)
    gone.stop()
    turns = iter(range(6))
    assert workers.take_turns([lambda: next(turns)] * 2, 3) == [[0, 3, 4], [1, 2, 5]]

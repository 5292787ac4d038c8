"""The tables of the SDM and Walrus pages and of the README say what the runs were."""

import numpy as np
import pytest
from test_benchmarks import BENCHMARKS

pd = pytest.importorskip("pandas")
pytest.importorskip("benchopt")
pytest.importorskip("piqp")


@pytest.fixture(scope="module")
def scripts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import ratios
        import summary
        from papers import sdm, walrus

        yield {"ratios": ratios, "summary": summary, "sdm": sdm, "walrus": walrus}


def checkpoints(rows, **task):
    """Checkpoints of one task, given as system, passes and error."""
    task = {"data": "mnist", "loss": "crammer_singer", "C": 1.0, "intercept": False} | task
    frame = pd.DataFrame(rows, columns=["system", "passes", "error"])
    return frame.assign(**task, rep=0, seconds=1.0, steps=1)


# ------------------------------------------------------------------------------------------- SDM


def test_heuristics_are_compared_at_equal_accuracy(scripts):
    plain = "SDM, no heuristics"
    frame = checkpoints(
        [
            *(("SDM", 1.0, 0.2), ("SDM", 2.0, 0.05), ("SDM", 4.0, 5e-3), ("SDM", 5.0, 4e-3)),
            *((plain, 1.0, 0.09), (plain, 6.0, 0.01), (plain, 9.0, 2e-3)),
        ]
    )
    table = scripts["sdm"].compare_heuristics(frame).set_index("above the optimum")
    assert table["without / with"].to_dict() == pytest.approx(
        {0.1: 0.5, 0.01: 1.5, 0.001: np.nan}, nan_ok=True
    )
    assert table.loc[0.001, ["with", "without"]].tolist() == ["(4e-03)", "(2e-03)"]
    assert set(table["formulation"]) == {"CS"}


def test_accuracy_counts_from_when_it_stays_where_it_ends(scripts):
    frame = checkpoints([("SDM", float(s), 0.0) for s in range(1, 6)]).assign(
        accuracy=[0.90, 0.80, 0.896, 0.903, 0.90]
    )
    table = scripts["sdm"].compare_accuracies(frame).set_index("data")
    assert table.loc["mnist", ["CS, passes", "CS, accuracy %"]].tolist() == [3.0, "90.00"]


# ---------------------------------------------------------------------------------------- Walrus


def test_steps_are_compared_over_all_c(scripts):
    seconds = {"walrus": (1.0, 2.0), "greedy": (4.0, 2.0), "active_set": (1.0, np.nan)}
    rows = [
        ("letter", C, "permuted", 0, step, 26, 0.01, times[i], 7.0)
        for step, times in seconds.items()
        for i, C in enumerate((0.5, 1.0))
    ]
    frame = pd.DataFrame(rows, columns=scripts["walrus"].decay.COLUMNS)
    [row] = scripts["walrus"].compare_steps_in_sweeps(frame).to_dict("records")
    assert row["greedy / walrus"] == pytest.approx(2.0)  # of 4 and 1
    assert row["greedy, range"] == "1.00 - 4.00"
    assert row["active_set / walrus"] == pytest.approx(1.0)


def test_growth_is_the_exponent_of_k(scripts):
    k = np.array([3, 100, 1000, 10_000])
    frame = pd.DataFrame({"loss": "crammer_singer", "instances": "flat", "k": k})
    frame = frame.assign(exact=5.0 * k, **{"active set": 0.1 * k**1.5, "QP solver": [9, 3, 3, 3]})
    [row] = scripts["walrus"].growth(frame).to_dict("records")
    names = ("exact", "active set", "QP solver")
    assert [row[name] for name in names] == pytest.approx([1.0, 1.5, 0.0], abs=1e-9)


def test_searches_choose_by_the_mean_over_folds(scripts):
    rows = []
    for fold, good in enumerate((0.8, 0.8, 0.8, 0.8, 0.9)):
        rows += [("dna", 0.5, fold, 0.01, good), ("dna", 1.0, fold, 0.01, 0.81)]
        rows += [("dna", 0.5, fold, 0.001, 0.7), ("dna", 1.0, fold, 0.001, 0.8)]
    rows += [("letter", 2.0, 0, 0.01, 1.0), ("letter", 2.0, 0, 0.001, 1.0)]  # not in all folds
    frame = pd.DataFrame(rows, columns=["data", "C", "fold", "decay", "accuracy"])
    [row] = scripts["walrus"].compare_searches(frame).to_dict("records")
    assert (row["C at 0.01"], row["C at 0.001"]) == ("2^-1", "2^0")
    assert row["lost by the looser choice"] == pytest.approx(10.0)
    assert row["largest difference at any C"] == pytest.approx(12.0)


# ---------------------------------------------------------------------------------------- README


def test_the_table_of_the_readme_has_each_peer_over_ours(scripts, tmp_path):
    summary, ratios = scripts["summary"], scripts["ratios"]
    rows = []
    for C, ours, liblinear, sgd in ((1.0, 2.0, 4.0, 100.2), (10.0, 1.0, 0.5, 100.0)):
        for solver, seconds, value in (
            ("reference", 9.0, 100.0),
            (ratios.OURS, ours, 100.05),
            (ratios.OURS, 9.0 * ours, 100.0),
            ("liblinear", liblinear, 100.1),
            ("sgd", 20.0, sgd),  # once not near enough
        ):
            rows.append(
                ("a9a", "squared_hinge", C, solver, 0, 1.0, 99.0, seconds, value, 99.9, True)
            )
    frame = pd.DataFrame(rows, columns=ratios.COLUMNS)
    table = summary.times(frame).set_index("C")
    assert table["dualsweep"].tolist() == [2.0, 1.0]
    assert table["LIBLINEAR"].tolist() == [2.0, 0.5]
    shown = summary.show(table.reset_index())
    assert shown["SGD"].tolist() == ["-", "20", "**20**", "1 of 2"]
    assert shown["LIBLINEAR"].tolist() == ["2", "0.5", "**1**", "2 of 2"]
    assert shown["skglm"].tolist() == ["", "", "", "0 of 0"]  # not tried
    text = summary.text(frame, cap=5.0).replace("\n", " ")
    assert "1 times as long as dualsweep in geometric mean, from 0.5 to 2" in text
    assert "faster in 1 of 2 cells" in text
    summary.draw(frame, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").stat().st_size > 1000


def test_bundled_data_need_no_files(scripts):
    from benchopt.benchmark import Benchmark

    dataset = Benchmark(BENCHMARKS, no_cache=True).get_test_dataset("bundled")
    for name in ("breast_cancer", "digits"):
        data = dataset.get_instance(data=name).get_data()
        assert data["X"].shape[0] == len(data["y"])
        assert 0 < np.mean(data["y"] == data["positive"]) < 1
        assert scripts["ratios"].dataset(name, "hinge") == f"bundled[data={name}]"

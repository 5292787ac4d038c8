"""A checker that shares no code with us verifies proofs, and refutes what has been changed."""

import ast
import bz2
import gzip
import lzma
import subprocess
import sys
import warnings
from decimal import Decimal, getcontext
from fractions import Fraction
from math import sqrt
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from exact import certificates, dot, fractions
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC as SklearnLinearSVC
from sklearn.svm import LinearSVR as SklearnLinearSVR
from typer.testing import CliRunner

import dualsweep_check
from dualsweep import LinearSVC, LinearSVCCV, LinearSVR, certify
from dualsweep.cli import app
from dualsweep.io import load_data, save_model, write_store
from dualsweep.losses import LOSSES
from dualsweep.training.claims import _within, binary_duals

CHECKER = Path(dualsweep_check.__file__)
CLASSIFIERS = [
    {"loss": "hinge"},
    {"loss": "squared_hinge"},
    {"loss": "squared"},
    {"multi_class": "crammer_singer"},
    {"multi_class": "weston_watkins"},
    {"loss": "hinge", "intercept": "free"},
    {"loss": "squared_hinge", "intercept": "free", "class_weight": {0: 3.0}},
    {"loss": "squared_hinge", "fit_intercept": False},
    {"loss": "hinge", "intercept_scaling": 0.3, "class_weight": "balanced"},
    {"multi_class": "crammer_singer", "intercept_scaling": 3.0, "class_weight": "balanced"},
    {"multi_class": "weston_watkins", "fit_intercept": False},
]
REGRESSORS = [
    {"loss": "epsilon_insensitive"},
    {"loss": "epsilon_insensitive", "epsilon": 0.3},
    {"loss": "squared_epsilon_insensitive", "epsilon": 0.1, "fit_intercept": False},
    {"loss": "epsilon_insensitive", "epsilon": 0.1, "intercept": "free"},
    {"loss": "squared_epsilon_insensitive", "intercept": "free"},
    {"loss": "squared_epsilon_insensitive", "epsilon": 0.2, "intercept_scaling": 5.0},
]


def some_rows(n_classes=3, n=40, d=6, seed=0, dtype=np.float64):
    """Rows of which some are empty, and classes that do not quite go by them."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.normal(size=(n, d)), 0.0).astype(dtype)
    y = (X @ rng.normal(size=(d, n_classes)) + rng.normal(size=(n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def some_targets(**options):
    X, _ = some_rows(**options)
    rng = np.random.default_rng(1)
    return X, X @ rng.normal(size=X.shape[1]) + rng.normal(size=len(X)) + 2.0


def weights_of(n):
    return np.random.default_rng(2).choice([0.0, 0.5, 1.0, 3.0], n)


def as_text(X, y, base=1):
    """The data in svmlight format, with all digits."""
    lines = []
    for x, label in zip(X.toarray() if sp.issparse(X) else X, y, strict=True):
        entries = [f"{j + base}:{v}" for j, v in enumerate(x.tolist()) if v]
        lines.append(" ".join([repr(float(label)), *entries]))
    return "\n".join(lines) + "\n"


@pytest.fixture
def paths(tmp_path):
    return tmp_path / "model.proof", tmp_path / "data.svm"


def fit(model, *data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data, **options)


def verdict(proof, text):
    """What the checker says of files."""
    with open(proof, encoding="ascii") as file:
        return dualsweep_check.check(file, text)


def checked(model, paths, X, y, sample_weight=None):
    """Write a proof and data; return what the checker says."""
    proof, text = paths
    text.write_text(as_text(X, y))
    found = model.save_proof(proof, X, y, sample_weight)
    assert verdict(proof, text).startswith("VERIFIED: no model is more than ")
    return found


# ------------------------------------------------------------------------------------- the checker


def test_the_checker_needs_the_standard_library_alone():
    source = CHECKER.read_text()
    assert len(source.splitlines()) <= 300
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module)
    assert imported <= sys.stdlib_module_names
    assert "importlib" not in imported


def objectives(paths):
    """P and D of each problem as the checker computes them, and the claims."""
    with open(paths[0], encoding="ascii") as file:
        proof = dualsweep_check.Proof(file)
        data = dualsweep_check.Data(paths[1], proof)
        found = []
        for p in proof.problems:
            primal, dual, vectors = proof.read_problem(p)
            found.append((*dualsweep_check.objectives(proof, data, p, vectors), primal, dual))
    return found


def near(value, exact):
    return abs(value - exact) <= Fraction(1, 10**13) * (abs(exact) + Fraction(1, 10**30))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("params", [p for p in CLASSIFIERS if p.get("intercept") != "free"])
def test_the_checker_computes_what_fractions_give(paths, params, n_classes, weighted):
    X, y = some_rows(n_classes)
    params = {**params, "class_weight": None}
    weight = weights_of(len(y)) if weighted else None
    model = fit(LinearSVC(C=0.7, tol=1e-4, random_state=0, **params), X, y, weight)
    checked(model, paths, X, y, weight)
    exact = certificates(model, X, y, weight)
    for (primal, dual, upper, lower), (P, D) in zip(objectives(paths), exact, strict=True):
        assert primal == P
        assert 0 <= D - dual <= Fraction(1, 2**40)
        assert upper >= P
        assert near(Fraction(upper), P)
        assert lower <= D
        assert near(Fraction(lower), D)


@pytest.mark.parametrize("params", REGRESSORS)
def test_the_checker_computes_what_fractions_give_for_regression(paths, params):
    X, y = some_targets()
    weight = weights_of(len(y))
    model = fit(LinearSVR(C=0.7, tol=1e-4, random_state=0, **params), X, y, weight)
    checked(model, paths, X, y, weight)
    ((primal, dual, upper, lower),) = objectives(paths)
    a, rows, targets = read_duals(paths[0], len(y)), fractions(X), fractions(y)
    w, b = fractions(model.coef_), Fraction(float(model.intercept_[0]))
    cost, epsilon = fractions(model.C * weight), Fraction(model.epsilon)
    squared = model.loss.startswith("squared")
    P, D = dot(w, w) / 2, Fraction(0)
    if model.fit_intercept and model.intercept == "penalized":
        bias = Fraction(model.intercept_scaling)
        P += (b / bias) ** 2 / 2
        D -= (bias * sum(a)) ** 2 / 2
    elif model.fit_intercept:
        assert sum(a) == 0
    for x, t, c, v in zip(rows, targets, cost, a, strict=True):
        slack = max(abs(t - dot(w, x) - b) - epsilon, 0)
        P += c * (slack**2 if squared else slack)
        D += t * v - epsilon * abs(v) - (v**2 / (4 * c) if squared and c else 0)
    sums = [sum(v * x[j] for x, v in zip(rows, a, strict=True)) for j in range(X.shape[1])]
    D -= dot(sums, sums) / 2
    assert primal == P
    assert 0 <= D - dual <= Fraction(1, 2**40)
    assert upper >= P
    assert near(Fraction(upper), P)
    assert lower <= D
    assert near(Fraction(lower), D)


def read_duals(proof, n):
    """The dual variables in a proof of one vector, exactly."""
    lines = proof.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("duals "))
    a = [Fraction(0)] * n
    for line in lines[start + 1 : start + 1 + int(lines[start].split()[1])]:
        row, value = line.split()
        a[int(row)] = Fraction(float(value))
    return a


def test_decimal_numbers_become_the_nearest_floats_of_32_bits(monkeypatch):
    """Those just beside the middle of two floats, too, where rounding twice goes wrong."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(getcontext(), "prec", 500)
    for low in (rng.normal(size=200) * 10.0 ** rng.integers(-44, 30, 200)).astype(np.float32):
        high = np.nextafter(low, np.float32(np.inf))
        middle = (Decimal(float(low)) + Decimal(float(high))) / 2
        step = (Decimal(float(high)) - Decimal(float(low))).scaleb(-30)
        assert dualsweep_check.single(f"{middle + step:.200e}") == high
        assert dualsweep_check.single(f"{middle - step:.200e}") == low
        assert dualsweep_check.single(f"{middle:.200e}") == np.float32(float(middle))
        assert dualsweep_check.single(repr(float(low))) == low


# ------------------------------------------------------------------------------ proofs are verified


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("params", CLASSIFIERS)
def test_proofs_of_classifiers(paths, params, n_classes, dtype):
    X, y = some_rows(n_classes, dtype=dtype)
    model = fit(LinearSVC(C=2.0, random_state=0, **params), X, y)
    found = checked(model, paths, X, y)
    assert found.relative_gap == pytest.approx(model.relative_gap_, rel=1e-6, abs=1e-12)
    weight = weights_of(len(y))
    checked(
        fit(model, sp.csr_array(X), y, weight), (paths[0].with_name("w"), paths[1]), X, y, weight
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("params", REGRESSORS)
def test_proofs_of_regressors(paths, params, dtype):
    X, y = some_targets(dtype=dtype)
    model = fit(LinearSVR(C=2.0, random_state=0, **params), X, y)
    found = checked(model, paths, X, y)
    assert found.relative_gap == pytest.approx(model.relative_gap_, rel=1e-6, abs=1e-12)
    weight = weights_of(len(y))
    checked(fit(model, X, y, weight), (paths[0].with_name("w"), paths[1]), X, y, weight)


@pytest.mark.parametrize("seed", range(60))
def test_proofs_of_hostile_numbers(paths, seed):
    """Whatever the scales: what is written is verified, or refused as beyond float64."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(3, 12), rng.integers(1, 5)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([-150, -20, -3, 0, 3, 20, 100], (1, d))
    C = float(10.0 ** rng.uniform(-10, 10))
    weight = 10.0 ** rng.uniform(-9, 9, n) * (rng.random(n) < 0.9) + (np.arange(n) < 3)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if seed % 3:
                y = np.arange(n) % 3
                params = CLASSIFIERS[seed % len(CLASSIFIERS)]
                model = LinearSVC(**{**params, "C": C}, max_iter=30, random_state=0)
            else:
                y = rng.normal(size=n) * 10.0 ** rng.choice([-100, 0, 9])
                params = REGRESSORS[seed % len(REGRESSORS)]
                model = LinearSVR(**{**params, "C": C}, max_iter=30, random_state=0)
            model.fit(X, y, weight)
        except (ValueError, ZeroDivisionError):
            return  # refused by training
    try:
        checked(model, paths, X, y, weight)
    except ValueError as error:
        assert "beyond what float64 can hold" in str(error)  # noqa: PT017


def test_layouts_and_duplicates_make_the_same_proof(paths):
    X, y = some_rows(3)
    model = LinearSVC(random_state=0).fit(X, y)
    checked(model, paths, X, y)
    triplets = sp.csr_array(X).tocoo()
    twice = sp.coo_array(
        (np.tile(0.5 * triplets.data, 2), (np.tile(triplets.row, 2), np.tile(triplets.col, 2))),
        shape=X.shape,
    )
    shuffled = sp.csr_array(X)
    for i in range(len(y)):
        part = slice(*shuffled.indptr[i : i + 2])
        shuffled.data[part] = shuffled.data[part][::-1].copy()
        shuffled.indices[part] = shuffled.indices[part][::-1].copy()
    shuffled = sp.csr_array((shuffled.data, shuffled.indices, shuffled.indptr), shape=X.shape)
    halves = sp.csr_array((twice.data, (twice.row, twice.col)), shape=X.shape)
    for other in (sp.csr_array(X), sp.csc_array(X), np.asfortranarray(X), shuffled, halves):
        before = other.copy()
        model.save_proof(paths[0].with_name("other"), other, y, force=True)
        assert paths[0].with_name("other").read_bytes() == paths[0].read_bytes()
        assert (before != other).sum() == 0


@pytest.mark.parametrize("params", [{}, {"multi_class": "crammer_singer"}])
def test_many_pieces_make_the_same_proof(paths, tuned, params):
    X, y = some_rows(3)
    model = LinearSVC(random_state=0, **params).fit(X, y)
    whole, pieces = paths[0].with_name("whole"), paths[0].with_name("pieces")
    model.save_proof(whole, X, y)
    tuned(PROOF_PIECE=17)
    model.save_proof(pieces, sp.csr_array(X), y)
    assert pieces.read_bytes() == whole.read_bytes()


def test_text_may_count_columns_from_0_and_be_compressed(paths):
    X, y = some_rows(2)
    X[:, 0] = 0.0  # nothing tells but the digest
    model = LinearSVC(random_state=0).fit(X, y)
    model.save_proof(paths[0], X, y)
    for base in (0, 1):
        text = as_text(X, y, base).replace(" ", " qid:7 ", 1).replace("\n", "  # comment\n\n", 3)
        for write in (Path.write_bytes, zipped(gzip), zipped(bz2), zipped(lzma)):
            write(paths[1], text.encode())
            assert verdict(*paths).startswith("VERIFIED")


def zipped(library):
    return lambda path, content: path.write_bytes(library.compress(content))


def test_labels_of_text_count_by_their_place(paths):
    X, y = some_rows(3)
    names = np.array(["c", "a", "b"])[y]
    model = LinearSVC(random_state=0).fit(X, names.astype(object))
    paths[1].write_text(as_text(X, np.searchsorted(["a", "b", "c"], names)))
    model.save_proof(paths[0], X, names.astype(object))
    assert verdict(*paths).startswith("VERIFIED")


def test_proofs_of_a_model_that_chose_its_cost(paths):
    X, y = some_rows(2)
    model = LinearSVCCV(Cs=[0.1, 1.0], cv=2, random_state=0).fit(X, y)
    found = checked(model, paths, X, y)
    assert found.relative_gap <= 1e-3


@pytest.mark.parametrize("params", [{}, *CLASSIFIERS[3:5]])
def test_proofs_from_stores(tmp_path, paths, params):
    """Whether the model was trained in memory or block by block, and whichever X is passed."""
    X, y = some_rows(3, n=400, d=8)
    store = write_store(tmp_path / "store", sp.csr_array(X), y, block_bytes=6_000)
    assert len(store) > 3
    paths[1].write_text(as_text(X, y))
    limit = 3 * max(store.block_bytes) + 50_000
    model = fit(LinearSVC(memory_limit=limit, random_state=0, **params), store)
    found = model.save_proof(paths[0], store)
    assert found.relative_gap <= 1e-3
    assert verdict(*paths).startswith("VERIFIED")
    model.save_proof(tmp_path / "memory", X, y)
    assert (tmp_path / "memory").read_bytes() == paths[0].read_bytes()
    del model.dual_coef_
    found = certify(model, store, memory_limit=limit, proof=paths[0], force=True)
    assert found.n_iter > 0
    assert verdict(*paths).startswith("VERIFIED")


def test_proofs_of_regression_from_stores(tmp_path, paths):
    X, y = some_targets(n=400, d=8)
    store = write_store(tmp_path / "store", sp.csr_array(X), y, block_bytes=6_000)
    paths[1].write_text(as_text(X, y))
    model = fit(LinearSVR(memory_limit=3 * max(store.block_bytes) + 50_000, random_state=0), store)
    model.save_proof(paths[0], store)
    assert verdict(*paths).startswith("VERIFIED")


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("params", CLASSIFIERS[:5])
def test_proofs_from_a_device(monkeypatch, paths, params, dtype, library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X, y = some_rows(3, dtype=dtype)
    there, labels = xp.asarray(X), xp.asarray(y)
    paths[1].write_text(as_text(X, y))
    with config_context(array_api_dispatch=True):
        model = fit(LinearSVC(**params), there, labels)
        model.save_proof(paths[0], there, labels)
        assert verdict(*paths).startswith("VERIFIED")
        model.save_proof(paths[0], X, y, force=True)
        assert verdict(*paths).startswith("VERIFIED")
        certify(model, X, y, proof=paths[0], force=True)
        assert verdict(*paths).startswith("VERIFIED")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_proofs_by_certify_of_models_of_scikit_learn(paths, n_classes):
    X, y = some_rows(n_classes)
    paths[1].write_text(as_text(X, y))
    for params in ({"loss": "hinge"}, {"dual": False}, {"multi_class": "crammer_singer"}):
        model = fit(SklearnLinearSVC(random_state=0, **params), X, y)
        found = certify(model, X, y, tol=1e-4, proof=paths[0], force=True)
        assert verdict(*paths).startswith("VERIFIED")
        claims = [claim[2:] for claim in objectives(paths)]
        np.testing.assert_allclose(np.sum(claims, axis=0), (found.primal, found.dual), rtol=1e-9)


def test_proofs_by_certify_of_a_regressor_of_scikit_learn(paths):
    X, y = some_targets()
    paths[1].write_text(as_text(X, y))
    model = fit(SklearnLinearSVR(random_state=0, tol=1e-8, max_iter=100_000), X, y)
    certify(model, X, y, proof=paths[0])
    assert verdict(*paths).startswith("VERIFIED")


@pytest.mark.parametrize(
    ("solver", "n_classes"), [(1, 2), (2, 3), (3, 2), (4, 3), (11, 0), (13, 0)]
)
def test_proofs_by_certify_of_models_of_liblinear(tmp_path, monkeypatch, solver, n_classes):
    """On the command line, where text is read as float32."""
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    monkeypatch.chdir(tmp_path)
    X, y = some_rows(n_classes) if n_classes else some_targets()
    Path("data.svm").write_text(as_text(X, y))
    entries = [{j + 1: float(v) for j, v in enumerate(x) if v} for x in X]
    model = liblinear.train(list(map(float, y)), entries, f"-s {solver} -p 0.1 -B 1 -q")
    liblinear.save_model("their.model", model)
    options = ["-C", "1", "--proof", "out.proof"] + ["--epsilon", "0.1"] * (not n_classes)
    result = CliRunner().invoke(app, ["certify", "their.model", "data.svm", *options])
    assert result.exit_code in (0, 1), result.output  # the model may not be within tol
    assert "dualsweep-check out.proof data.svm" in result.output
    alone = [sys.executable, "-I", "-S", str(CHECKER)]  # without installed packages
    done = subprocess.run([*alone, "out.proof", "data.svm"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("VERIFIED: no model is more than ")


def test_a_proof_of_each_class_takes_the_better_dual_variables(paths):
    """Some classes have dual variables of their own that are good, others have to be solved."""
    X, y = some_rows(3)
    model = LinearSVC(tol=1e-6, random_state=0).fit(X, y)
    model.dual_coef_ = model.dual_coef_.tolil()
    model.dual_coef_[0] = 0.0
    model.dual_coef_ = model.dual_coef_.tocsr()
    paths[1].write_text(as_text(X, y))
    certify(model, X, y, tol=1e-4, proof=paths[0])
    assert verdict(*paths).startswith("VERIFIED")
    assert max((u - v) / u for *_, u, v in objectives(paths)) <= 1e-4


# --------------------------------------------------------------------------- what cannot be written


def test_what_has_no_proof(paths):
    X, y = some_rows(3)
    model = LinearSVC(random_state=0).fit(X, y)
    proof, _ = paths
    with pytest.raises(ValueError, match="trained on 40 rows, but X has 39"):
        model.save_proof(proof, X[:-1], y[:-1])
    with pytest.raises(ValueError, match="classes of y are not those"):
        model.save_proof(proof, X, y + 1)
    with pytest.raises(TypeError, match=r"is a Array of Dask.*compute\(\)"):
        model.save_proof(proof, da.from_array(X), y)
    with pytest.raises(ValueError, match="features"):
        model.save_proof(proof, X[:, :3], y)
    assert not proof.exists()
    proof.write_text("something")
    for force_is_needed in (model.save_proof, certifies(model)):
        with pytest.raises(FileExistsError, match="exists already"):
            force_is_needed(proof, X, y)
    assert proof.read_text() == "something"
    model.coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        model.save_proof(proof, X, y, force=True)
    del model.dual_coef_
    with pytest.raises(ValueError, match=r"no dual variables.*certify\(model, X, y, proof=path\)"):
        model.save_proof(proof, X, y, force=True)
    large = np.where(y > 0, 2**53 + 1, 0)
    model = LinearSVC(random_state=0).fit(X, large)
    with pytest.raises(ValueError, match="integers beyond"):
        model.save_proof(proof, X, large, force=True)
    assert list(proof.parent.iterdir()) == [proof]
    assert proof.read_text() == "something"


def certifies(model):
    return lambda proof, X, y: certify(model, X, y, proof=proof)


def test_a_proof_of_other_labels_is_true_but_worse(paths):
    X, y = some_rows(3)
    model = LinearSVC(random_state=0).fit(X, y)
    assert checked(model, paths, X, (y + 1) % 3).relative_gap > 0.1


@pytest.mark.parametrize("seed", range(20))
def test_dual_variables_of_a_free_intercept_add_up_to_0_exactly(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 50))
    sign, cost = rng.choice([-1.0, 1.0], n), 10.0 ** rng.uniform(-12, 12, n)
    for name in ("hinge", "squared_hinge", "squared"):
        loss = dualsweep_check.LOSSES[name]
        a = binary_duals(cost * rng.normal(size=n), sign, cost, LOSSES[name], True)
        assert sum(map(Fraction, (sign * a).tolist())) == 0
        assert loss[0] is None or (a >= 0).all()
        assert loss[1] is None or (a <= cost).all()


def test_dual_variables_of_a_row_add_up_to_its_cost_exactly():
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.random(rng.integers(2, 9)).tolist()
        cost = float(np.nextafter(sum(values), rng.choice([0.0, 9.0])))
        assert 0 <= Fraction(cost) - sum(map(Fraction, _within(values, cost))) < 1e-14


# ----------------------------------------------------------------------------- tampering is refuted

BASES = [
    (LinearSVC, {"loss": "hinge"}, 2),
    (LinearSVC, {"loss": "squared_hinge", "class_weight": "balanced"}, 3),
    (LinearSVC, {"loss": "squared", "fit_intercept": False}, 2),
    (LinearSVC, {"loss": "hinge", "intercept": "free"}, 3),
    (LinearSVC, {"loss": "logistic", "intercept": "free"}, 3),
    (LinearSVC, {"multi_class": "crammer_singer"}, 3),
    (LinearSVC, {"multi_class": "weston_watkins", "class_weight": "balanced"}, 3),
    (LinearSVR, {"loss": "epsilon_insensitive", "epsilon": 0.1}, 0),
    (LinearSVR, {"loss": "squared_epsilon_insensitive", "epsilon": 0.1}, 0),
]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Lines of proofs and texts of data."""
    folder, found = tmp_path_factory.mktemp("bases"), []
    for kind, params, n_classes in BASES:
        X, y = some_rows(n_classes) if n_classes else some_targets()
        model = kind(C=0.5, tol=1e-4, random_state=0, **params).fit(X, y)
        model.save_proof(folder / "proof", X, y, force=True)
        found.append(((folder / "proof").read_text().splitlines(), as_text(X, y).splitlines()))
    return found


def places(lines, name):
    """The lines of all sections of this name, by number."""
    found = []
    for i, line in enumerate(lines):
        words = line.split()
        if words[0] == name and name in ("weights", "duals", "costs"):
            found += range(i + 1, i + 1 + int(words[1]))
        elif words[0] == name:
            found.append(i)
    return found


def change(lines, i, function):
    """Put a function of the last word of a line in its place."""
    *words, value = lines[i].split()
    lines[i] = " ".join([*words, repr(float(function(float(value))))])


def gap_before(lines, i):
    """The claimed gap of the problem that a line belongs to."""
    last = {}
    for line in lines[:i]:
        words = line.split()
        if words[0] in ("primal", "dual"):
            last[words[0]] = float(words[1])
    return last["primal"] - last["dual"]


def a_weight(rng, proof, data):
    """P is strongly convex: a weight is within sqrt(2 gap) of the best one.

    Three times as far from where it was, it is twice as far from that, and P above the best by
    4 gap at least.
    """
    i = rng.choice(places(proof, "weights"))
    step = (3.0 + rng.random()) * sqrt(2.0 * gap_before(proof, i)) + 1e-9
    change(proof, i, lambda w: w + rng.choice([-1.0, 1.0]) * step)


def a_dual_variable(rng, proof, data):
    """Beyond its box or, of a squared loss, where a D that is strongly concave is below the claim.

    With a free intercept, the sum is not 0 any more. For two classes and regression the curvature
    is 1 / (2 C_i), and the largest cost is below 5.
    """
    i = rng.choice(places(proof, "duals"))
    if "loss hinge" in proof or "loss epsilon_insensitive" in proof:
        change(proof, i, lambda a: np.copysign(5.0 + rng.random(), a))
    else:
        step = 3.0 * sqrt(4.0 * 5.0 * gap_before(proof, i)) + 1e-6
        change(proof, i, lambda a: a + np.copysign(step, a))


def a_sign_of_a_dual_variable(rng, proof, data):
    """Not in its box, or so far from the best one that the bound on D does not hold."""
    i = max(places(proof, "duals"), key=lambda i: abs(float(proof[i].split()[1])))
    change(proof, i, lambda a: -a)


def a_row_of_a_dual_variable(rng, proof, data):
    """Rows come in ascending order, each once."""
    i = rng.choice(places(proof, "duals")[1:])
    if proof[i - 1].startswith("duals"):
        i += 1
    proof[i] = f"{proof[i - 1].split()[0]} {proof[i].split()[1]}"


def a_bound(rng, proof, data):
    """Both are claimed to within 1e-12 of what they are bounds on."""
    name, factor = [("primal", 1 - 1e-9), ("dual", 1 + 1e-9)][rng.integers(2)]
    change(proof, rng.choice(places(proof, name)), lambda bound: factor * bound)


def a_bound_that_is_no_number(rng, proof, data):
    i = rng.choice(places(proof, str(rng.choice(["primal", "dual"]))))
    proof[i] = f"{proof[i].split()[0]} {rng.choice(['nan', 'inf', '-inf'])}"


def a_cost(rng, proof, data):
    """A row whose dual variable is large gets a small cost.

    That makes it leave its box or, of a squared loss, the quotient in D grow.
    """
    i = max(places(proof, "duals"), key=lambda i: abs(float(proof[i].split()[1])))
    row, a = proof[i].split()
    start = proof.index(next(line for line in proof if line.startswith("costs ")))
    costs = dict(line.split() for line in (proof[j] for j in places(proof, "costs")))
    costs[row] = repr(abs(float(a)) * 0.05 * (0.1 + rng.random()))
    lines = [f"{r} {costs[r]}" for r in sorted(costs, key=int)]
    stop = start + 1 + int(proof[start].split()[1])
    proof[start:stop] = [f"costs {len(lines)}", *lines]


def a_cost_of_no_sense(rng, proof, data):
    change(proof, places(proof, "C")[0], lambda C: rng.choice([-C, 0.0, np.inf, np.nan]))


def all_costs(rng, proof, data):
    """Larger ones make P larger, which has losses; smaller ones are exceeded by dual variables."""
    if len(places(proof, "costs")) == 40:
        return a_cost(rng, proof, data)  # each row has its own
    change(proof, places(proof, "C")[0], lambda C: C * rng.choice([0.05, 1.1]))


def a_value(rng, proof, data):
    i = rng.choice([i for i, line in enumerate(data) if ":" in line])
    change_entry(rng, data, i, lambda j, v: f"{j}:{float(v) * (1 + 1e-15)!r}")


def change_entry(rng, data, i, function):
    words = data[i].split()
    k = rng.integers(1, len(words))
    words[k] = function(*words[k].split(":"))
    data[i] = " ".join(words)


def an_entry(rng, proof, data):
    i = rng.choice([i for i, line in enumerate(data) if ":" in line])
    words = data[i].split()
    del words[rng.integers(1, len(words))]
    data[i] = " ".join(words)


def a_label(rng, proof, data):
    i = rng.integers(len(data))
    label, *words = data[i].split()
    data[i] = " ".join([repr(float(label) + float(rng.choice([-1.0, 1.0]))), *words])


def a_row(rng, proof, data):
    i = rng.integers(len(data))
    if rng.random() < 0.5:
        del data[i]
    else:
        data.insert(i, data[i])


def two_rows(rng, proof, data):
    i = next(i for i in rng.permutation(len(data) - 1) if data[i] != data[i + 1])
    data[i], data[i + 1] = data[i + 1], data[i]


def the_shape(rng, proof, data):
    change_integer(proof, rng.choice(["rows", "features"]), rng.choice([-1, 1]))


def change_integer(proof, name, by):
    i = places(proof, name)[0]
    proof[i] = f"{name} {int(proof[i].split()[1]) + by}"


def the_classes(rng, proof, data):
    """Rows have labels that are none of them, or their order is wrong."""
    i = places(proof, "classes")[0]
    classes = proof[i].split()[1:]
    if not classes:
        proof[i] = "classes 0.0 1.0"
    elif rng.random() < 0.5:
        proof[i] = " ".join(["classes", *classes[::-1]])
    else:
        proof[i] = " ".join(["classes", *classes[:-1], "7.0"])


def the_intercept(rng, proof, data):
    """A larger constant feature takes more from D; without one, intercepts are not allowed."""
    i = proof.index(next(line for line in proof if line.startswith("intercept ")))
    if proof[i].startswith("intercept penalized"):
        proof[i] = str(rng.choice(["intercept penalized 10.0", "intercept none"]))
    elif proof[i] == "intercept free":
        proof[i] = "intercept none"
    else:
        j = rng.choice(places(proof, "intercept")[1:])
        proof[j] = "intercept 1e-300"


TAMPERINGS = [
    a_weight,
    a_dual_variable,
    a_sign_of_a_dual_variable,
    a_row_of_a_dual_variable,
    a_bound,
    a_bound_that_is_no_number,
    a_cost,
    a_cost_of_no_sense,
    all_costs,
    a_value,
    an_entry,
    a_label,
    a_row,
    two_rows,
    the_shape,
    the_classes,
    the_intercept,
]


@pytest.mark.parametrize("seed", range(200))
def test_tampering_is_refuted(bases, paths, capsys, monkeypatch, seed):
    """Each makes the claim false, or the file contradict itself or the data."""
    rng = np.random.default_rng(seed)
    proof, data = (list(lines) for lines in bases[seed // len(TAMPERINGS) % len(bases)])
    monkeypatch.setattr(sys, "argv", ["dualsweep_check", *map(str, paths)])
    paths[0].write_text("\n".join(proof) + "\n")
    paths[1].write_text("\n".join(data) + "\n")
    assert dualsweep_check.main() == 0
    assert capsys.readouterr().out.startswith("VERIFIED: ")
    TAMPERINGS[seed % len(TAMPERINGS)](rng, proof, data)
    paths[0].write_text("\n".join(proof) + "\n")
    paths[1].write_text("\n".join(data) + "\n")
    assert dualsweep_check.main() == 1
    assert capsys.readouterr().out.startswith("REFUTED: ")


@pytest.mark.parametrize("value", ["1e308", "-1e308", "5e-324", "1e400", "nan"])
def test_numbers_of_any_size_are_refuted(bases, paths, value):
    """Among dual variables and weights; a tiny one in the place of the largest is wrong as well."""
    for proof, data in bases:
        paths[1].write_text("\n".join(data) + "\n")
        for name in ("weights", "duals"):
            lines = list(proof)
            i = max(places(lines, name), key=lambda i: abs(float(lines[i].split()[1])))
            lines[i] = f"{lines[i].split()[0]} {value}"
            paths[0].write_text("\n".join(lines) + "\n")
            with pytest.raises(dualsweep_check.RefutedError):
                verdict(*paths)


def test_what_cannot_be_read(bases, paths, capsys, monkeypatch):
    proof, data = bases[0]
    monkeypatch.setattr(sys, "argv", ["dualsweep_check", *map(str, paths)])
    assert dualsweep_check.main() == 2  # there are no files
    whole = "\n".join(proof) + "\n"
    for text, rows in [
        ("", data),
        ("\n".join(proof[:-1]), data),
        (whole[: len(whole) // 2], data),
        (whole.replace("dualsweep-proof 1", "dualsweep-proof 2"), data),
        (whole.replace("one_versus_rest", "one_versus_one"), data),
        (whole.replace("loss hinge", "loss epsilon_insensitive"), data),
        (whole.replace("precision 64", "precision 16"), data),
        (whole.replace("intercept penalized 1.0", "intercept penalised 1.0"), data),
        (whole, ["1.0 2:1.0 1:1.0"]),
        (whole, ["1.0 1:one"]),
        (whole, ["1.0 1:inf"]),
        (whole, ["one 1:1.0"]),
    ]:
        paths[0].write_text(text)
        paths[1].write_text("\n".join(rows) + "\n")
        assert dualsweep_check.main() == 2, text[:100]
        assert "Cannot read this: " in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["dualsweep_check"])
    assert dualsweep_check.main() == 2


def test_models_in_files_are_proven_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = some_rows(3)
    Path("data.svm").write_text(as_text(X, y))
    X, y = load_data("data.svm")
    save_model(LinearSVC(random_state=0).fit(X, y), "model.npz")
    arguments = ["certify", "model.npz", "data.svm", "--proof", "model.proof"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert verdict("model.proof", "data.svm").startswith("VERIFIED")
    assert "precision 32" in Path("model.proof").read_text()
    before = Path("model.proof").read_bytes()
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "exists already" in result.output
    Path("link.svm").symlink_to("data.svm")
    for own in ("model.npz", "./data.svm", "link.svm"):
        result = CliRunner().invoke(app, [*arguments[:-1], own, "--force"])
        assert result.exit_code == 2
        assert "choose another name" in result.output
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert Path("model.proof").read_bytes() == before
